package segment

import "math/bits"

// blockRows is the number of rows of an index block: the unit in which the index knows where something is, and in which filters are evaluated.
const blockRows = 1024

// bitmap has a bit for each row of a block.
type bitmap [blockRows / 64]uint64

func (m *bitmap) set(i int)      { m[i>>6] |= 1 << (i & 63) }
func (m *bitmap) has(i int) bool { return m[i>>6]&(1<<(i&63)) != 0 }

func (m *bitmap) count() int {
	n := 0
	for _, w := range m {
		n += bits.OnesCount64(w)
	}
	return n
}

func (m *bitmap) empty() bool {
	var or uint64
	for _, w := range m {
		or |= w
	}
	return or == 0
}

// firstRows is the bitmap of the rows 0 to n-1.
func firstRows(n int) (m bitmap) {
	for i := range m {
		switch left := n - i*64; {
		case left >= 64:
			m[i] = ^uint64(0)
		case left > 0:
			m[i] = 1<<left - 1
		}
	}
	return m
}

// each calls f for every row of the bitmap, in order.
func (m *bitmap) each(f func(i int)) {
	for k, w := range m {
		for ; w != 0; w &= w - 1 {
			f(k<<6 + bits.TrailingZeros64(w))
		}
	}
}

func (m *bitmap) and(o *bitmap) {
	for i := range m {
		m[i] &= o[i]
	}
}

func (m *bitmap) or(o *bitmap) {
	for i := range m {
		m[i] |= o[i]
	}
}

func (m *bitmap) andNot(o *bitmap) {
	for i := range m {
		m[i] &^= o[i]
	}
}
