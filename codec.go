package millstream

import (
	"encoding/binary"
	"math"
	"unsafe"
)

// The payload of a WAL frame and of a forwarded batch: version, signal, batch id, then columns or samples. Fixed-width slices are little-endian so that a
// reader on the usual machines takes them as they are. Org, stream and name travel beside the payload.
const codecVersion = 1

// AppendTo appends the encoded batch to dst.
func (b *Batch) AppendTo(dst []byte) []byte {
	dst = append(dst, codecVersion, byte(b.Signal))
	dst = append(dst, b.ID[:]...)
	if b.Samples != nil {
		return b.Samples.appendTo(append(dst, 1))
	}
	dst = append(dst, 0)
	dst = appendInts(dst, b.Times)
	dst = binary.AppendUvarint(dst, uint64(len(b.Columns)))
	for i := range b.Columns {
		c := b.Columns[i].plain()
		dst = appendString(dst, c.Name)
		dst = append(dst, byte(c.Type), byte(len(c.Seen)))
		for _, t := range c.Seen {
			dst = append(dst, byte(t))
		}
		dst = appendInts(dst, asInts(c.Valid))
		switch c.Type {
		case String:
			dst = appendFixed(dst, c.Offsets)
			dst = binary.AppendUvarint(dst, uint64(len(c.Bytes)))
			dst = append(dst, c.Bytes...)
		case Double:
			dst = appendFixed(dst, c.Floats)
		default:
			dst = appendInts(dst, c.Ints)
		}
	}
	return dst
}

// plain is the column without dictionary coding.
func (c *Column) plain() Column {
	if c.Codes == nil {
		return *c
	}
	out := Column{Name: c.Name, Type: c.Type, Valid: c.Valid, Offsets: make([]uint32, 1, len(c.Codes)+1)}
	for i := range c.Codes {
		out.Bytes = append(out.Bytes, c.Str(i)...)
		out.Offsets = append(out.Offsets, uint32(len(out.Bytes)))
	}
	return out
}

func (s *Samples) appendTo(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s.Series)))
	for _, k := range s.Series {
		dst = appendString(dst, k)
	}
	dst = appendFixed(dst, s.Ref)
	dst = appendInts(dst, s.Time)
	dst = appendFixed(dst, s.Value)
	dst = appendInts(dst, s.Start)
	dst = binary.AppendUvarint(dst, uint64(len(s.Histogram)))
	for _, h := range s.Histogram {
		dst = binary.AppendUvarint(dst, uint64(len(h)))
		dst = append(dst, h...)
	}
	dst = binary.AppendUvarint(dst, uint64(len(s.Exemplars)))
	for _, e := range s.Exemplars {
		dst = binary.AppendUvarint(dst, uint64(e.Ref))
		dst = binary.AppendVarint(dst, e.Time)
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(e.Value))
		dst = appendString(dst, e.Labels)
	}
	dst = binary.AppendUvarint(dst, uint64(len(s.Metadata)))
	for _, m := range s.Metadata {
		dst = appendString(appendString(appendString(appendString(dst, m.Name), m.Type), m.Unit), m.Help)
	}
	return dst
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendInts(dst []byte, v []int64) []byte { return appendFixed(dst, v) }

func asInts(v []uint64) []int64 {
	return unsafe.Slice((*int64)(unsafe.Pointer(unsafe.SliceData(v))), len(v))
}

func appendFixed[T int64 | float64 | uint32](dst []byte, v []T) []byte {
	var z T
	dst = binary.AppendUvarint(dst, uint64(len(v)))
	return append(dst, unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*int(unsafe.Sizeof(z)))...)
}

// DecodeBatch reads what AppendTo wrote. The batch shares p: nobody may change p afterwards. Its values lie there as they came, not aligned to their size.
// Damaged input gives an error, never a panic, and never allocates more than a small multiple of len(p).
func DecodeBatch(p []byte) (*Batch, error) {
	d := decoder{p: p}
	if v := d.byte(); v != codecVersion {
		return nil, Errorf(Invalid, "batch payload of version %d: this release reads %d", v, codecVersion)
	}
	b := &Batch{Signal: Signal(d.byte())}
	copy(b.ID[:], d.take(len(b.ID)))
	if d.byte() == 1 {
		b.Samples = d.samples()
	} else {
		b.Times = fixed[int64](&d)
		b.Columns = d.columns(len(b.Times))
	}
	if d.bad || len(d.p) != 0 {
		return nil, Errorf(Invalid, "the batch payload is damaged")
	}
	return b, nil
}

type decoder struct {
	p   []byte
	bad bool
}

// minColumn is the least that a column of one row takes: name, type, types seen, validity and values, the lengths of the last three one byte each.
const minColumn = 1 + 1 + 1 + 1 + 1 + 8

func (d *decoder) columns(rows int) []Column {
	n := d.count(minColumn)
	d.bad = d.bad || n > 0 && rows == 0 // nothing writes such
	cols := make([]Column, 0, n)
	for range n {
		c := Column{Name: d.string(), Type: Type(d.byte())}
		c.Seen = d.types()
		if v := fixed[int64](d); len(v) > 0 {
			c.Valid = unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(v))), len(v))
			d.bad = d.bad || len(v) < (rows+63)/64
		}
		switch c.Type {
		case String:
			c.Offsets = fixed[uint32](d)
			c.Bytes = d.take(int(d.uvarint()))
			d.bad = d.bad || !offsetsFit(c.Offsets, rows, len(c.Bytes))
		case Double:
			c.Floats = fixed[float64](d)
			d.bad = d.bad || len(c.Floats) != rows
		default:
			c.Ints = fixed[int64](d)
			d.bad = d.bad || len(c.Ints) != rows || c.Type < Bool || c.Type > String
		}
		if d.bad {
			return nil
		}
		cols = append(cols, c)
	}
	return cols
}

// types reads the types that values of a column came as.
func (d *decoder) types() (ts []Type) {
	for _, t := range d.take(int(d.byte())) {
		d.bad = d.bad || Type(t) < Bool || Type(t) > String
		ts = append(ts, Type(t))
	}
	return ts
}

func offsetsFit(off []uint32, rows, size int) bool {
	if len(off) != rows+1 || int(off[rows]) > size {
		return false
	}
	for i := range rows {
		if off[i] > off[i+1] {
			return false
		}
	}
	return true
}

func (d *decoder) samples() *Samples {
	s := &Samples{}
	for n := d.count(1); n > 0 && !d.bad; n-- {
		s.Series = append(s.Series, d.string())
	}
	s.Ref, s.Time, s.Value, s.Start = fixed[uint32](d), fixed[int64](d), fixed[float64](d), fixed[int64](d)
	if n := d.count(1); n > 0 {
		s.Histogram = make([][]byte, n)
		for i := range s.Histogram {
			if h := d.take(int(d.uvarint())); len(h) > 0 {
				s.Histogram[i] = h
			}
		}
	}
	for n := d.count(11); n > 0 && !d.bad; n-- {
		s.Exemplars = append(s.Exemplars, Exemplar{Ref: uint32(d.uvarint()), Time: d.varint(), Value: math.Float64frombits(d.uint64()), Labels: d.string()})
	}
	for n := d.count(4); n > 0 && !d.bad; n-- {
		s.Metadata = append(s.Metadata, Metadata{d.string(), d.string(), d.string(), d.string()})
	}
	n := len(s.Ref)
	d.bad = d.bad || len(s.Time) != n || len(s.Value) != n || (len(s.Start) != 0 && len(s.Start) != n) || (len(s.Histogram) != 0 && len(s.Histogram) != n)
	for _, r := range s.Ref {
		d.bad = d.bad || int(r) >= len(s.Series)
	}
	for _, e := range s.Exemplars {
		d.bad = d.bad || int(e.Ref) >= len(s.Series)
	}
	return s
}

func (d *decoder) take(n int) []byte {
	if d.bad || n < 0 || n > len(d.p) {
		d.bad = true
		return nil
	}
	out := d.p[:n:n]
	d.p = d.p[n:]
	return out
}

func (d *decoder) byte() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) uint64() uint64 {
	if b := d.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.p)
	if n <= 0 || v > math.MaxInt64 {
		d.bad = true
		return 0
	}
	d.p = d.p[n:]
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.p)
	if n <= 0 {
		d.bad = true
		return 0
	}
	d.p = d.p[n:]
	return v
}

// count reads a number of items of at least size bytes each; one that cannot fit in what is left is damage.
func (d *decoder) count(size int) int {
	n := d.uvarint()
	if d.bad || n > uint64(len(d.p)/size) {
		d.bad = true
		return 0
	}
	return int(n)
}

func (d *decoder) string() string { return unsafeString(d.take(int(d.uvarint()))) }

func fixed[T int64 | float64 | uint32](d *decoder) []T {
	var z T
	w := int(unsafe.Sizeof(z))
	n := d.count(w)
	src := d.take(n * w)
	if d.bad || n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(src))), n)
}
