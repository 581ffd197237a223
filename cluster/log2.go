package cluster

import "math/bits"

// Costs are computed with integers only: floating-point logarithms differ between processors and libraries, and two nodes that differ in one bit may send a
// segment to two owners.
const (
	fraction  = 57 // costs are Q6.57: -log2 of the least hash is 64
	indexBits = 12
)

// logs holds log2(1 + i/4096) in Q6.57, about one unit too low at most, for i from 0 to 4096.
var logs = func() (t [1<<indexBits + 1]uint64) {
	for i := range 1 << indexBits {
		t[i] = log2(1<<63 + uint64(i)<<(63-indexBits))
	}
	t[1<<indexBits] = 1 << fraction
	return t
}()

// log2 is the logarithm of m/2^63, which lies in [1, 2), digit by digit: squaring doubles the logarithm, and what passes 2 is its next digit.
func log2(m uint64) (r uint64) {
	for range fraction {
		hi, lo := bits.Mul64(m, m) // of m²/2^126, in [1, 4)
		r <<= 1
		if hi>>63 == 1 {
			r |= 1
			m = hi
		} else {
			m = hi<<1 | lo>>63
		}
	}
	return r
}

// negLog2 is -log2((h+1)/2^64) in Q6.57: by the leading zeros, the table and a straight line between its entries. It never grows with h and is off by at most
// 1.1e-8.
func negLog2(h uint64) uint64 {
	v := h + 1
	if v == 0 {
		return 0
	}
	zeros := uint64(bits.LeadingZeros64(v))
	m := v << zeros
	i := m >> (63 - indexBits) & (1<<indexBits - 1)
	a, b := logs[i], logs[i+1]
	part, _ := bits.Mul64(b-a, m<<(indexBits+1))
	return (zeros+1)<<fraction - (a + part)
}
