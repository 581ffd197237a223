package segment

import (
	"context"
	"io"
	"math/bits"

	"github.com/millstream/millstream"
)

// piece is a stretch of up to runBlocks blocks of a source. Pieces of one scan share buffers, so one is in use at a time.
type piece interface {
	size() int
	span() (first, last int64)
	// start makes the piece the one in use.
	start() error
	prune(n node) (verdict, error)
	want(blocks uint64)
	// times is the time of the first and the last record of a block, or bounds of them.
	times(block int) (lo, hi int64)
	// at gives a block; it is valid until the next call.
	at(i int) block
}

// scanner runs one Scan over the pieces of a source.
type scanner struct {
	ctx     context.Context
	s       Scan
	names   []string // columns to emit
	types   []millstream.Type
	filter  node
	ranged  node // filter and the range of times
	pieces  []piece
	current int         // the one that is read
	data    io.ReaderAt // that the pieces read, if it may have to be fetched
	started piece       // the one in use, while records are emitted
	emit    func(*millstream.Batch) error
	out     millstream.Batch
	cols    []millstream.Column // memory of out's columns
	times   []int64
	zero    zeros
	stats   ScanStats
}

func newScanner(ctx context.Context, fields []FieldStat, s Scan, emit func(*millstream.Batch) error) (*scanner, error) {
	x := &scanner{ctx: ctx, s: s, emit: emit}
	f, err := compile(s.Filter)
	if err != nil {
		return nil, err
	}
	x.filter = f
	x.ranged = andNode{
		&leaf{field: millstream.TimestampField, pred: compare{Ge, Value{Kind: TimeValue, Int: s.Range.Start}}},
		&leaf{field: millstream.TimestampField, pred: compare{Lt, Value{Kind: TimeValue, Int: s.Range.End}}},
		f,
	}
	at := make(map[string]millstream.Type, len(fields))
	for _, f := range fields {
		t := widened(s.Types, f.Name, f.Type)
		at[f.Name] = t
		if s.All {
			x.names, x.types = append(x.names, f.Name), append(x.types, t)
		}
	}
	if !s.All {
		for _, name := range s.Fields {
			if t, ok := at[name]; ok {
				x.names, x.types = append(x.names, name), append(x.types, t)
			}
			x.s.Times = x.s.Times || name == millstream.TimestampField
		}
	}
	x.cols = make([]millstream.Column, len(x.names))
	return x, nil
}

// widened is the type under which a scan sees a field that is stored as another.
func widened(types map[string]millstream.Type, name string, stored millstream.Type) millstream.Type {
	if t := types[name]; t == millstream.String || t == millstream.Double && stored == millstream.Int64 {
		return t
	}
	return stored
}

// run scans the pieces.
func (x *scanner) run() error {
	if x.s.Limit > 0 && !x.s.CountOnly {
		return x.runTop()
	}
	for k, p := range x.pieces {
		x.current = k
		if first, last := p.span(); !x.s.Range.Overlaps(first, last) {
			continue
		}
		if err := p.start(); err != nil {
			return err
		}
		if err := x.each(p, false, nil, x.take); err != nil {
			return err
		}
	}
	return nil
}

// take counts or emits the selected records of a block.
func (x *scanner) take(b block, _ int, m *bitmap) error {
	x.stats.Selected += int64(m.count())
	if x.s.CountOnly {
		return nil
	}
	return x.emitBlock(b, m)
}

// filterOf is the filter of a piece: with the range of times, unless all of it lies in that.
func (x *scanner) filterOf(p piece) node {
	if first, last := p.span(); first < x.s.Range.Start || last >= x.s.Range.End {
		return x.ranged
	}
	return x.filter
}

// each calls f for every block of a piece that has selected records, in order or from the last to the first. skip, if given, is asked before a block is read.
func (x *scanner) each(p piece, backward bool, skip func(block int) bool, f func(b block, i int, m *bitmap) error) error {
	filter := x.filterOf(p)
	v, err := p.prune(filter)
	if err != nil {
		return err
	}
	p.want(v.may)
	for left := v.may; left != 0; {
		i := bits.TrailingZeros64(left)
		if backward {
			i = 63 - bits.LeadingZeros64(left)
		}
		left &^= 1 << i
		if skip != nil && skip(i) {
			continue
		}
		if err := x.ctx.Err(); err != nil {
			return err
		}
		b := p.at(i)
		m := firstRows(b.rows())
		if v.must&(1<<i) == 0 {
			x.stats.ScannedRows += int64(b.rows())
			active := m
			var u bitmap
			if err := filter.eval(b, &active, &m, &u); err != nil {
				return err
			}
		}
		if m.empty() {
			continue
		}
		if err := f(b, i, &m); err != nil {
			return err
		}
	}
	return nil
}

// emitBlock emits the selected records of a block; columns of a block that is selected whole are passed on as they are.
func (x *scanner) emitBlock(b block, m *bitmap) error {
	n := m.count()
	whole := n == b.rows()
	x.out.Columns = x.out.Columns[:0]
	for i, name := range x.names {
		c, err := b.column(name)
		if err != nil {
			return err
		}
		switch {
		case c == nil:
			x.out.Columns = append(x.out.Columns, x.zero.column(name, x.types[i], n))
		case whole:
			x.out.Columns = append(x.out.Columns, *c)
		default:
			clearColumn(&x.cols[i], c)
			appendRows(&x.cols[i], 0, c, m, n)
			x.out.Columns = append(x.out.Columns, x.cols[i])
		}
	}
	x.out.Times = x.zero.ints(n)
	if x.s.Times {
		c, err := b.column(millstream.TimestampField)
		if err != nil {
			return err
		}
		if x.out.Times = c.Ints[:n]; !whole {
			x.times = x.times[:0]
			m.each(func(i int) { x.times = append(x.times, c.Ints[i]) })
			x.out.Times = x.times
		}
	}
	return x.emit(&x.out)
}

// zeros lends columns of nulls.
type zeros struct {
	words []int64
	text  []string
}

func (z *zeros) ints(n int) []int64 {
	if len(z.words) < n {
		z.words = make([]int64, max(n, blockRows))
	}
	return z.words[:n]
}

func (z *zeros) column(name string, t millstream.Type, n int) millstream.Column {
	c := millstream.Column{Name: name, Type: t, Valid: make([]uint64, (n+63)/64)}
	switch t {
	case millstream.String:
		if z.text == nil {
			z.text = []string{""}
		}
		c.Codes, c.Dict = make([]uint32, n), z.text
	case millstream.Double:
		c.Floats = make([]float64, n)
	default:
		c.Ints = z.ints(n)
	}
	return c
}

// clearColumn empties dst and makes it of src's kind, with its memory kept.
func clearColumn(dst, src *millstream.Column) {
	*dst = millstream.Column{Name: src.Name, Type: src.Type, Valid: dst.Valid[:0], Ints: dst.Ints[:0], Floats: dst.Floats[:0],
		Offsets: dst.Offsets[:0], Bytes: dst.Bytes[:0], Codes: dst.Codes[:0], Dict: src.Dict}
	if src.Codes == nil {
		dst.Codes = nil
	} else if dst.Codes == nil {
		dst.Codes = make([]uint32, 0, blockRows)
	}
	if src.Type == millstream.String && src.Codes == nil {
		dst.Offsets = append(dst.Offsets, 0)
	}
}

// appendRows appends the n selected rows of src to dst, which has had rows of the same type. If dst is plain, texts are written out. A nil src appends nulls.
func appendRows(dst *millstream.Column, had int, src *millstream.Column, m *bitmap, n int) {
	for len(dst.Valid) < (had+n+63)/64 {
		dst.Valid = append(dst.Valid, 0)
	}
	k := had
	m.each(func(i int) {
		if src != nil && src.IsValid(i) {
			dst.Valid[k>>6] |= 1 << (k & 63)
		}
		k++
	})
	switch {
	case dst.Codes != nil:
		m.each(func(i int) { dst.Codes = append(dst.Codes, src.Codes[i]) })
	case dst.Type == millstream.String:
		m.each(func(i int) {
			if src != nil {
				dst.Bytes = append(dst.Bytes, src.Str(i)...)
			}
			dst.Offsets = append(dst.Offsets, uint32(len(dst.Bytes)))
		})
	case dst.Type == millstream.Double:
		m.each(func(i int) {
			v := 0.0
			if src != nil {
				v = src.Floats[i]
			}
			dst.Floats = append(dst.Floats, v)
		})
	default:
		m.each(func(i int) {
			v := int64(0)
			if src != nil {
				v = src.Ints[i]
			}
			dst.Ints = append(dst.Ints, v)
		})
	}
}
