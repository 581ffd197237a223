package metrics

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/millstream/millstream"
)

type floatPoint struct {
	start int64
	bits  uint64
}

// A merge of long series of floats that overlap anyhow, with repeated times and start times, holds what a plain map does, also when it is merged with more.
func TestMergeOfFloats(t *testing.T) {
	key := testKey(1)
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 7))
		want := map[int64]floatPoint{}
		var in []Source
		for range 1 + rng.IntN(9) {
			s := &millstream.Samples{Series: []string{key}}
			at, step := int64(rng.IntN(100_000)), int64(1+rng.IntN(40))
			if seed%10 == 0 && rng.IntN(2) == 0 {
				at += mostSpan
			}
			begun := int64(rng.IntN(3)) // 0: not known
			for range 1 + rng.IntN(1500) {
				at += step
				if rng.IntN(50) == 0 {
					at += int64(rng.IntN(3000))
				}
				v := randomValue(rng, at)
				s.Ref, s.Time, s.Value, s.Start = append(s.Ref, 0), append(s.Time, at), append(s.Value, v), append(s.Start, begun)
				want[at] = floatPoint{begun, math.Float64bits(v)}
			}
			h := NewHead()
			if _, err := h.Append(s); err != nil {
				t.Fatal(err)
			}
			if rng.IntN(3) == 0 {
				in = append(in, h)
			} else {
				in = append(in, encode(t, h))
			}
			if len(in) > 3 && rng.IntN(3) == 0 {
				in = []Source{encode(t, in...)}
			}
		}
		merged := encode(t, in...)
		list, err := merged.Select(t.Context(), everything)
		if err != nil || len(list) != 1 {
			t.Fatalf("%d series, %v", len(list), err)
		}
		if merged.Samples() != int64(len(want)) {
			t.Errorf("seed %d: %d samples, want %d", seed, merged.Samples(), len(want))
		}
		comparePoints(t, seed, list[0].Chunks, want)
	}
}

// comparePoints reads chunks, which must not overlap.
func comparePoints(t *testing.T, seed uint64, cs []Chunk, want map[int64]floatPoint) {
	t.Helper()
	var f floats
	for i := range cs {
		if i > 0 && cs[i-1].Max >= cs[i].Min {
			t.Fatalf("seed %d: chunks overlap", seed)
		}
		if err := f.load(&cs[i]); err != nil {
			t.Fatal(err)
		}
		for k, at := range f.ts {
			got := floatPoint{bits: math.Float64bits(f.vs[k])}
			if f.starts != nil {
				got.start = f.starts[k]
			}
			if got != want[at] {
				t.Fatalf("seed %d: at %d is %+v, want %+v", seed, at, got, want[at])
			}
		}
	}
}

// Two lists are merged as sorting them together does, whichever is longer, earlier, or empty.
func TestMergeKeys(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for round := range 2000 {
		var lists [2][]uint64
		bias := rng.IntN(3)
		for k := range uint64(rng.IntN(60)) {
			to := rng.IntN(2)
			if rng.IntN(4) < bias {
				to = round % 2
			}
			lists[to] = append(lists[to], k)
		}
		a, b := lists[0], lists[1]
		got := make([]uint64, len(a)+len(b))
		mergeKeys(got, a, b)
		for i := range got {
			if got[i] != uint64(i) {
				t.Fatalf("%v and %v are merged to %v", a, b, got)
			}
		}
	}
}

// Values are taken for integers at once exactly if each is one that the decimal form holds with exponent 0.
func TestIntegers(t *testing.T) {
	values := []float64{0, math.Copysign(0, -1), 1, -1, 0.5, 1 << 53, 1<<53 + 2, 1<<62 - 512, 1 << 62, -(1<<62 - 512), -1 << 62, 1 << 63, -1 << 63, 1e300, -1e300, math.Inf(1), math.Inf(-1), math.NaN(), math.SmallestNonzeroFloat64}
	for _, v := range values {
		var e encoder
		want := fits(v, 0) && math.Float64bits(v) != 1<<63
		if got := e.integers([]float64{7, v}); got != want {
			t.Errorf("%v: %v, want %v", v, got, want)
		} else if got && (e.ints[0] != 7 || e.ints[1] != int64(v) || len(e.exceptions) > 0) {
			t.Errorf("%v: %v, exceptions %v", v, e.ints, e.exceptions)
		}
		r := &run{Times: []int64{1, 2}, Values: []float64{7, v}}
		c := packFloats(&e, r)
		var f floats
		if err := f.load(&c); err != nil || math.Float64bits(f.vs[1]) != math.Float64bits(v) {
			t.Errorf("%v is read as %v, %v", v, f.vs, err)
		}
	}
}
