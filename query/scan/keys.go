package scan

import (
	"encoding/binary"
	"math"
	"unsafe"

	"github.com/millstream/millstream"
)

// keyCoder turns the values of one group-by expression, or of a field whose distinct values are counted, into small dense codes. Code 0 is null.
type keyCoder struct {
	field  string
	typ    millstream.Type
	bucket int64 // > 0: the start of the time bucket instead of the field

	strs   stringTable
	words  wordTable
	packed []uint64 // of the batch in hand

	dict  *string  // the first entry of the dictionary that remap is for; while it is held no other dictionary has its address
	remap []uint32 // code of each entry of the dictionary; 0: not looked up yet
	close []uint32 // code of the time buckets from base on, 0: not looked up yet
	base  int64
}

// values is the number of codes in use, null included.
func (k *keyCoder) values() int {
	if k.typ == millstream.String {
		return len(k.strs.strs) + 1
	}
	return len(k.words.words) + 1
}

// codes fills out with the code of each of the batch's n rows and returns how many bytes the coder grew by.
func (k *keyCoder) codes(b *millstream.Batch, n int, out []uint32) int64 {
	if k.bucket > 0 {
		return k.buckets(b.Times[:n], out)
	}
	if k.field == millstream.TimestampField {
		return k.ints(b.Times[:n], nil, out)
	}
	c := b.Column(k.field)
	switch {
	case c == nil:
		clear(out[:n])
		return 0
	case c.Codes != nil:
		return k.dictionary(c, n, out)
	case c.Type == millstream.String:
		return k.texts(c, n, out)
	case c.Type == millstream.Double:
		return k.floats(c, n, out)
	}
	return k.ints(c.Ints[:n], c, out)
}

func (k *keyCoder) dictionary(c *millstream.Column, n int, out []uint32) (grown int64) {
	if len(c.Dict) == 0 {
		clear(out[:n])
		return 0
	}
	if k.dict != &c.Dict[0] || len(k.remap) != len(c.Dict) {
		before := cap(k.remap)
		k.dict, k.remap = &c.Dict[0], enlarge(k.remap[:0], len(c.Dict))
		clear(k.remap)
		grown = int64(cap(k.remap)-before) * 4
	}
	remap := k.remap
	for i, code := range c.Codes[:n] {
		if c.Valid != nil && !c.IsValid(i) {
			out[i] = 0
			continue
		}
		id := remap[code]
		if id == 0 {
			var g int64
			id, g = k.strs.find(c.Dict[code])
			remap[code] = id
			grown += g
		}
		out[i] = id
	}
	return grown
}

// notShort marks a row whose text is null or too long to be packed; no packed text has all bits set.
const notShort = ^uint64(0)

// texts codes plain texts in two steps: first all short ones are packed and their slots touched, so that the cache misses of a large table overlap.
func (k *keyCoder) texts(c *millstream.Column, n int, out []uint32) (grown int64) {
	k.packed = enlarge(k.packed, n)
	words := k.packed[:n]
	safe := len(c.Bytes) - 8 // a word may be read from here
	for i := range words {
		words[i] = notShort
		from := int(c.Offsets[i])
		if size := int(c.Offsets[i+1]) - from; size <= maxShort && from <= safe && (c.Valid == nil || c.IsValid(i)) {
			w := binary.LittleEndian.Uint64(c.Bytes[from:])
			words[i] = w&(1<<(8*size)-1) | uint64(size)<<56
		}
	}
	k.strs.touch(words)
	for i, w := range words {
		var g int64
		switch {
		case w != notShort:
			out[i], g = k.strs.findShort(w)
		case c.IsValid(i):
			out[i], g = k.strs.find(c.Str(i))
		default:
			out[i] = 0
		}
		grown += g
	}
	return grown
}

func (k *keyCoder) ints(vs []int64, c *millstream.Column, out []uint32) (grown int64) {
	last, code := int64(0), uint32(0)
	for i, v := range vs {
		if c != nil && !c.IsValid(i) {
			out[i] = 0
			continue
		}
		if code == 0 || v != last {
			var g int64
			code, g = k.words.find(uint64(v))
			last = v
			grown += g
		}
		out[i] = code
	}
	return grown
}

func (k *keyCoder) floats(c *millstream.Column, n int, out []uint32) (grown int64) {
	for i, v := range c.Floats[:n] {
		if !c.IsValid(i) {
			out[i] = 0
			continue
		}
		id, g := k.words.find(floatWord(v))
		out[i] = id
		grown += g
	}
	return grown
}

// floatWord is equal for doubles that SQL takes as equal: both zeros, and all NaNs.
func floatWord(v float64) uint64 {
	switch {
	case v == 0:
		return 0
	case v != v:
		return math.Float64bits(math.NaN())
	}
	return math.Float64bits(v)
}

// near is how many buckets around the first time are found by an array.
const near = 1 << 14

// buckets codes the start of each time's bucket. Rows of a segment need not be in time order, so the codes of the buckets near the first time seen are kept in
// an array; times far away go by hash.
func (k *keyCoder) buckets(times []int64, out []uint32) (grown int64) {
	if len(times) == 0 {
		return 0
	}
	if k.close == nil {
		k.close = make([]uint32, near)
		grown = near * 4
		k.base = times[0] - floorMod(times[0], k.bucket)
		if span := near / 2 * k.bucket; k.bucket < math.MaxInt64/near && k.base > math.MinInt64+span {
			k.base -= span
		}
	}
	inverse := 1 / float64(k.bucket)
	for i, t := range times {
		q := int64(float64(t-k.base) * inverse) // off by one at most, for times that are near
		if r := t - k.base - q*k.bucket; r < 0 {
			q--
		} else if r >= k.bucket {
			q++
		}
		if uint64(q) >= near || t < k.base || q*k.bucket > t-k.base || t-k.base-q*k.bucket >= k.bucket {
			var g int64
			out[i], g = k.words.find(uint64(t - floorMod(t, k.bucket)))
			grown += g
			continue
		}
		code := k.close[q]
		if code == 0 {
			var g int64
			code, g = k.words.find(uint64(k.base + q*k.bucket))
			k.close[q] = code
			grown += g
		}
		out[i] = code
	}
	return grown
}

func floorMod(a, b int64) int64 {
	m := a % b
	if m < 0 {
		m += b
	}
	return m
}

// translate gives our code of each code of another coder of the same key.
func (k *keyCoder) translate(o *keyCoder) (codes []uint32, grown int64) {
	codes = make([]uint32, o.values())
	if k.typ == millstream.String {
		for i, s := range o.strs.strs {
			id, g := k.strs.find(s)
			codes[i+1] = id
			grown += g
		}
		return codes, grown
	}
	for i, w := range o.words.words {
		id, g := k.words.find(w)
		codes[i+1] = id
		grown += g
	}
	return codes, grown
}

// column gives the values of codes.
func (k *keyCoder) column(codes []uint32) millstream.Column {
	c := millstream.Column{Name: k.field, Type: k.typ}
	out := newNulls(len(codes))
	switch k.typ {
	case millstream.String:
		c.Dict, c.Codes = k.strs.strs, make([]uint32, len(codes))
	case millstream.Double:
		c.Floats = make([]float64, len(codes))
	default:
		c.Ints = make([]int64, len(codes))
	}
	for i, code := range codes {
		if code == 0 {
			out.null(i)
			continue
		}
		switch k.typ {
		case millstream.String:
			c.Codes[i] = code - 1
		case millstream.Double:
			c.Floats[i] = math.Float64frombits(k.words.words[code-1])
		default:
			c.Ints[i] = int64(k.words.words[code-1])
		}
	}
	c.Valid = out.valid()
	return c
}

// nulls builds a column's validity; it stays empty until there is a null.
type nulls struct {
	n    int
	bits []uint64
}

func newNulls(n int) nulls { return nulls{n: n} }

func (v *nulls) null(i int) {
	if v.bits == nil {
		v.bits = make([]uint64, (v.n+63)/64)
		for j := range v.bits {
			v.bits[j] = ^uint64(0)
		}
	}
	v.bits[i>>6] &^= 1 << (i & 63)
}

func (v *nulls) valid() []uint64 { return v.bits }

// bytesString views bytes that are never written again as a string.
func bytesString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
