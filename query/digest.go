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
	buckets []uint32 // counts, from bucket first on
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

func (d *digest) add(v int64) {
	d.n++
	if d.buckets == nil {
		if len(d.exact) < exactValues {
			d.exact = append(d.exact, v)
			return
		}
		d.spill()
	}
	d.count(bucketOf(v), 1)
}

// spill moves the exact values into buckets.
func (d *digest) spill() {
	for _, v := range d.exact {
		d.count(bucketOf(v), 1)
	}
	d.exact = nil
}

func (d *digest) count(b int, n uint32) {
	switch {
	case d.buckets == nil:
		d.first, d.buckets = b, make([]uint32, 1, 256)
	case b < d.first:
		d.buckets = append(make([]uint32, d.first-b, d.first-b+len(d.buckets)), d.buckets...)
		d.first = b
	case b-d.first >= len(d.buckets):
		d.buckets = append(d.buckets, make([]uint32, b-d.first+1-len(d.buckets))...)
	}
	d.buckets[b-d.first] += n
}

// quantile is what quantile_cont gives for the exact values, 0 for none.
func (d *digest) quantile(p float64) float64 {
	if d.n == 0 {
		return 0
	}
	at := p * float64(d.n-1)
	if d.buckets == nil {
		slices.Sort(d.exact)
		low := int(at)
		v := float64(d.exact[low])
		if low+1 < len(d.exact) {
			v += (float64(d.exact[low+1]) - v) * (at - float64(low))
		}
		return v
	}
	rank, sum := int64(math.Round(at)), int64(0)
	for i, n := range d.buckets {
		if sum += int64(n); sum > rank {
			return middle(d.first + i)
		}
	}
	return middle(d.first + len(d.buckets) - 1)
}
