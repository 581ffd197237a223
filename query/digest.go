package query

import (
	"math"
	"math/bits"
	"slices"
)

const (
	// exactValues is how many values a digest keeps as they are; from then on it counts them in buckets.
	exactValues = 256
	// subBits is how many bits of a value after its leading one tell buckets apart: a bucket is at most 1/128 of its values wide.
	subBits = 7
)

// digest tells quantiles of many durations in one pass and little memory: exactly for up to exactValues of them, within 0.4 % beyond.
type digest struct {
	exact   []int64
	buckets []uint32 // counts, from bucket first on; none while values are exact
	first   int
	n       int64
}

// bucketOf numbers the buckets so that greater values are never in lower ones. Values below 2^subBits have buckets of their own.
func bucketOf(v int64) int {
	if v < 1<<subBits {
		return int(max(v, 0))
	}
	exp := bits.Len64(uint64(v)) - 1 - subBits
	return (exp+1)<<subBits + int(v>>exp)&(1<<subBits-1)
}

// middle is the middle of a bucket.
func middle(b int) float64 {
	if b < 1<<subBits {
		return float64(b)
	}
	exp := b>>subBits - 1
	low := int64(1<<subBits|b&(1<<subBits-1)) << exp
	return float64(low) + float64(int64(1)<<exp-1)/2
}

// reset empties the digest and keeps its memory.
func (d *digest) reset() { d.exact, d.buckets, d.n = d.exact[:0], d.buckets[:0], 0 }

func (d *digest) add(values []int64) {
	d.n += int64(len(values))
	if d.n <= exactValues {
		d.exact = append(d.exact, values...)
		return
	}
	if len(d.exact) > 0 {
		d.count(d.exact)
		d.exact = d.exact[:0]
	}
	d.count(values)
}

// count adds values to the buckets.
func (d *digest) count(values []int64) {
	if len(values) == 0 {
		return
	}
	low, high := slices.Min(values), slices.Max(values)
	d.cover(bucketOf(low), bucketOf(high))
	for _, v := range values {
		d.buckets[bucketOf(v)-d.first]++
	}
}

// cover makes room for buckets from low to high.
func (d *digest) cover(low, high int) {
	if len(d.buckets) == 0 {
		d.first = low
	}
	if low < d.first {
		d.buckets = slices.Insert(d.buckets, 0, make([]uint32, d.first-low)...)
		d.first = low
	}
	if more := high + 1 - d.first - len(d.buckets); more > 0 {
		d.buckets = append(d.buckets, make([]uint32, more)...)
	}
}

// quantiles are what quantile_cont gives for the exact values, 0 for none. The fractions ascend.
func (d *digest) quantiles(ps ...float64) []float64 {
	out := make([]float64, len(ps))
	if d.n == 0 {
		return out
	}
	slices.Sort(d.exact)
	next, sum := 0, int64(0) // buckets that were passed, and their values
	for k, p := range ps {
		at := p * float64(d.n-1)
		if d.n <= exactValues {
			low := int(at)
			v := float64(d.exact[low])
			if low+1 < len(d.exact) {
				v += (float64(d.exact[low+1]) - v) * (at - float64(low))
			}
			out[k] = v
			continue
		}
		for rank := int64(math.Round(at)); sum <= rank; next++ {
			sum += int64(d.buckets[next])
		}
		out[k] = middle(d.first + next - 1)
	}
	return out
}
