package segment

import (
	"context"
	"math"
	"math/bits"

	"github.com/millstream/millstream"
)

// Memory makes a batch a Source. The batch must not change afterwards. It has no index: filters look at every row in the range.
func Memory(b *millstream.Batch) Source {
	m := &memory{b: b, byName: make(map[string]*millstream.Column, len(b.Columns)), first: math.MaxInt64, last: math.MinInt64}
	for _, t := range b.Times {
		m.first, m.last = min(m.first, t), max(m.last, t)
	}
	for i := range b.Columns {
		c := &b.Columns[i]
		m.byName[c.Name] = c
		f := FieldStat{Name: c.Name, Type: c.Type, Rows: int64(len(b.Times))}
		if c.Valid != nil {
			f.Rows = 0
			for _, w := range c.Valid {
				f.Rows += int64(bits.OnesCount64(w))
			}
		}
		if c.Type == millstream.Int64 {
			for _, v := range c.Ints {
				f.WideInt = f.WideInt || v > millstream.MaxExactInt || v < -millstream.MaxExactInt
			}
		}
		m.fields = append(m.fields, f)
	}
	return m
}

type memory struct {
	b           *millstream.Batch
	byName      map[string]*millstream.Column
	fields      []FieldStat
	first, last int64
}

func (m *memory) Rows() int                               { return len(m.b.Times) }
func (m *memory) Span() (first, last int64)               { return m.first, m.last }
func (m *memory) Fields() []FieldStat                     { return m.fields }
func (m *memory) ValueCounts(string) ([]ValueCount, bool) { return nil, false }

func (m *memory) Scan(ctx context.Context, s Scan, emit func(*millstream.Batch) error) (ScanStats, error) {
	x, err := newScanner(ctx, m.fields, s, emit)
	if err != nil {
		return ScanStats{}, err
	}
	var words []string
	for _, f := range m.fields {
		if widened(s.Types, f.Name, f.Type) == millstream.String && !IsID(f.Name) {
			words = append(words, f.Name)
		}
	}
	for from := 0; from < len(m.b.Times); from += runRows {
		p := &memoryPiece{memory: m, types: s.Types, words: words, from: from, to: min(from+runRows, len(m.b.Times)), views: map[string]*millstream.Column{}}
		x.pieces = append(x.pieces, p)
	}
	err = x.run()
	return x.stats, err
}

// memoryPiece is a stretch of the batch's rows, and, at the block it stands on, a block.
type memoryPiece struct {
	*memory
	types    map[string]millstream.Type
	words    []string
	from, to int
	lo, hi   int // rows of the block
	views    map[string]*millstream.Column
}

func (p *memoryPiece) size() int    { return p.to - p.from }
func (p *memoryPiece) start() error { return nil }
func (p *memoryPiece) want(uint64)  {}

func (p *memoryPiece) span() (first, last int64) { return p.first, p.last }
func (p *memoryPiece) times(int) (lo, hi int64)  { return p.first, p.last }

func (p *memoryPiece) prune(node) (verdict, error) {
	return verdict{may: allBlocks((p.to - p.from + blockRows - 1) / blockRows)}, nil
}

func (p *memoryPiece) at(i int) block {
	p.lo = p.from + i*blockRows
	p.hi = min(p.lo+blockRows, p.to)
	return p
}

func (p *memoryPiece) rows() int       { return p.hi - p.lo }
func (p *memoryPiece) number() int     { return (p.lo - p.from) / blockRows }
func (p *memoryPiece) texts() []string { return p.words }

func (p *memoryPiece) some(name string, _ *bitmap) (*millstream.Column, error) {
	return p.column(name)
}

func (p *memoryPiece) column(name string) (*millstream.Column, error) {
	c := p.byName[name]
	if name == millstream.TimestampField {
		c = &millstream.Column{Name: name, Type: millstream.Timestamp, Ints: p.b.Times}
	}
	if c == nil {
		return nil, nil
	}
	v := p.views[name]
	if v == nil {
		v = &millstream.Column{}
		p.views[name] = v
	}
	*v = sliceColumn(c, p.lo, p.hi)
	if t := widened(p.types, name, c.Type); t != c.Type {
		v.Widen(t)
	}
	return v, nil
}
