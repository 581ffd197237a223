package query

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestDigest(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 7, exactValues, exactValues + 1, 20_000} {
		var all []int64
		var d digest
		for range n {
			v := int64(math.Exp(rnd.NormFloat64()*3 + 14)) // spread over orders of magnitude, as durations are
			all = append(all, v)
		}
		for part := range slices.Chunk(all, 100) { // as it comes, by parts
			d.add(part)
		}
		slices.Sort(all)
		for _, p := range []float64{0, 0.5, 0.95, 0.99, 1} {
			at := p * float64(n-1)
			want := float64(all[int(at)])
			if next := int(at) + 1; next < n && n <= exactValues {
				want += (float64(all[next]) - want) * (at - math.Floor(at))
			} else if n > exactValues {
				want = float64(all[int(math.Round(at))])
			}
			if got := d.quantiles(p)[0]; math.Abs(got-want) > 0.004*want+1e-6*want {
				t.Errorf("%d values: quantile %g is %g, want %g", n, p, got, want)
			}
		}
	}
	if got := new(digest).quantiles(0.5)[0]; got != 0 {
		t.Errorf("of nothing: %g", got)
	}
}

func TestBucketsAreOrderedAndNarrow(t *testing.T) {
	last := -1
	for _, v := range []int64{-5, 0, 1, 127, 128, 129, 255, 256, 1000, 1 << 20, 1<<20 + 1<<14, 1 << 40, math.MaxInt64} {
		b := bucketOf(v)
		if b < last {
			t.Errorf("bucket of %d is below its predecessor's", v)
		}
		last = b
		if v >= 0 && math.Abs(middle(b)-float64(v)) > 0.004*float64(v) {
			t.Errorf("%d is in a bucket around %g", v, middle(b))
		}
	}
}
