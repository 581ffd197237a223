package scan

import (
	"math/bits"
	"slices"
)

// sel reorders v so that v[k] is what sorting would put there, nothing before it is greater and nothing after it is less. It is quickselect with three-way
// partitions around a median of nine; should that go badly, it sorts.
func sel(v []float64, k int) {
	depth := 4 * bits.Len(uint(len(v)))
	lo, hi := 0, len(v)
	for hi-lo > 64 {
		if depth--; depth == 0 {
			break
		}
		lt, gt := partition(v[lo:hi])
		switch {
		case k < lo+lt:
			hi = lo + lt
		case k >= lo+gt:
			lo += gt
		default:
			return
		}
	}
	slices.SortFunc(v[lo:hi], compareFloats)
}

// partition divides v into less than, equal to and greater than a pivot: v[:lt], v[lt:gt], v[gt:].
func partition(v []float64) (lt, gt int) {
	pivot := pivotOf(v)
	lt, gt = 0, len(v)
	for i := 0; i < gt; {
		x := v[i]
		switch {
		case x < pivot, pivot != pivot && x == x:
			v[i], v[lt] = v[lt], x
			lt++
			i++
		case x > pivot, x != x && pivot == pivot:
			gt--
			v[i], v[gt] = v[gt], x
		default:
			i++
		}
	}
	return lt, gt
}

// pivotOf is the median of nine elements spread over v.
func pivotOf(v []float64) float64 {
	var s [9]float64
	step := (len(v) - 1) / 8
	for i := range s {
		s[i] = v[i*step]
	}
	slices.SortFunc(s[:], compareFloats)
	return s[4]
}
