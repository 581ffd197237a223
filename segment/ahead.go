package segment

import (
	"context"
	"io"
	"math/bits"

	"github.com/millstream/millstream"
)

// remote is a data object that is fetched as it is read; *cache.Blocks fits.
type remote interface {
	Bind(ctx context.Context) io.ReaderAt
	Distrust(off, n int64)
}

// expecting is what such an object gives to one reader: should something be missing, it asks what else is going to be read, as pairs of first and last offset, the
// last not included, so that all of it comes in few requests.
type expecting interface {
	Expect(plan func() [][2]int64)
}

// Bind gives a data object whose reads end with ctx, if it is one whose reads may wait. It is for one goroutine.
func Bind(ctx context.Context, data io.ReaderAt) io.ReaderAt {
	if r, ok := data.(remote); ok {
		return r.Bind(ctx)
	}
	return data
}

// Distrust tells a data object that what it gave fails its checksum. If it is true, the same read may give other bytes.
func Distrust(data io.ReaderAt, off, n int64) bool {
	r, ok := data.(remote)
	if ok {
		r.Distrust(off, n)
	}
	return ok
}

// Expect tells a data object of Bind how to find out what else will be read.
func Expect(data io.ReaderAt, plan func() [][2]int64) {
	if r, ok := data.(expecting); ok {
		r.Expect(plan)
	}
}

// expectScan tells what a scan is going to read from the run on that it stands on. It prunes runs once more, by a filter of its own, since a filter knows only the
// run that it pruned last; that is done only if something is missing, and once for each run at which something is.
func (x *scanner) expectScan(r *Reader) {
	asked := -1
	Expect(x.data, func() [][2]int64 {
		if x.current == asked {
			return nil
		}
		asked = x.current
		again, err := newScanner(x.ctx, r.fields, x.s, nil)
		if err != nil {
			return nil
		}
		return again.expected(&readers{r: r, types: x.s.Types}, x.pieces[x.current:])
	})
}

// blockHits is how many records a limited scan expects in a block that may have some: if more, it reads less than was expected, and if fewer, it goes on.
const blockHits = 2

// expected is what a scan reads of runs, in the order in which it comes to them. A limited scan ends where it probably has its records; what it emits is only known
// in advance if it takes all it can find.
func (x *scanner) expected(state *readers, pieces []piece) (parts [][2]int64) {
	limit := x.s.Limit
	if x.s.CountOnly {
		limit = 0
	}
	for _, p := range pieces {
		if first, last := p.span(); !x.s.Range.Overlaps(first, last) {
			continue
		}
		r := p.(*runScan)
		r = &runScan{readers: state, run: r.run, info: r.info}
		filter := x.filterOf(r)
		if r.start() != nil { // the scan will meet it
			return parts
		}
		v, err := r.prune(filter)
		if err != nil {
			return parts
		}
		parts = r.filterParts(parts, filter, v)
		if x.s.CountOnly {
			continue
		}
		if x.s.Limit > 0 {
			parts = r.parts(parts, millstream.TimestampField, v.may)
		}
		found := bits.OnesCount64(v.must)*blockRows + bits.OnesCount64(v.may&^v.must)*blockHits
		if x.s.Limit == 0 || found < limit {
			parts = r.outputParts(parts, x, v.may)
		}
		if limit -= found; x.s.Limit > 0 && limit <= 0 {
			break
		}
	}
	return parts
}

// filterParts adds where the columns lie that a filter reads, the run having just been pruned by it.
func (x *runScan) filterParts(parts [][2]int64, filter node, v verdict) [][2]int64 {
	filter.reads(x, v.may&^v.must, func(field string, blocks uint64) { parts = x.parts(parts, field, blocks) })
	return parts
}

// outputParts adds where the columns lie that a scan emits.
func (x *runScan) outputParts(parts [][2]int64, s *scanner, blocks uint64) [][2]int64 {
	for _, name := range s.names {
		parts = x.parts(parts, name, blocks)
	}
	if s.s.Times {
		parts = x.parts(parts, millstream.TimestampField, blocks)
	}
	return parts
}

// parts adds where a column's pages of some blocks lie, and its dictionary.
func (x *runScan) parts(parts [][2]int64, field string, blocks uint64) [][2]int64 {
	c := x.h.column(field)
	if c == nil || blocks == 0 {
		return parts
	}
	base := x.info.dataBase + c.offset
	if c.enc == encDict && c.values == nil && c.dictPage.size > 0 {
		parts = append(parts, [2]int64{base, base + int64(c.dictPage.header+c.dictPage.size)})
	}
	for p := range c.pages {
		if blocks&(allBlocks(c.pageBlocks)<<(p*c.pageBlocks)) != 0 {
			pg := &c.pages[p]
			parts = append(parts, [2]int64{base + pg.off, base + pg.off + int64(pg.header+pg.size)})
		}
	}
	return parts
}

// expectHits tells what a limited scan emits: the columns in the blocks that have hits.
func (x *scanner) expectHits(all []hit) {
	Expect(x.data, func() [][2]int64 {
		need := map[int]uint64{}
		for _, h := range all {
			need[h.piece] |= 1 << (h.row / blockRows)
		}
		var parts [][2]int64
		for i, blocks := range need {
			r, ok := x.pieces[i].(*runScan)
			if !ok {
				return nil
			}
			if h, err := r.r.header(r.run); err == nil {
				parts = (&runScan{readers: r.readers, info: r.info, h: h}).outputParts(parts, x, blocks)
			}
		}
		return parts
	})
}

func (n andNode) reads(r *runScan, blocks uint64, add func(string, uint64)) {
	for _, sub := range n {
		sub.reads(r, blocks, add)
	}
}

func (n orNode) reads(r *runScan, blocks uint64, add func(string, uint64)) {
	for _, sub := range n {
		sub.reads(r, blocks, add)
	}
}

func (n notNode) reads(r *runScan, blocks uint64, add func(string, uint64)) {
	n.x.reads(r, blocks, add)
}

func (n nullNode) reads(_ *runScan, blocks uint64, add func(string, uint64)) { add(n.field, blocks) }

func (l *leaf) reads(_ *runScan, blocks uint64, add func(string, uint64)) { add(l.field, blocks) }

func (m *match) reads(r *runScan, blocks uint64, add func(string, uint64)) {
	for i := range m.words {
		fields := r.words
		if m.field != "" {
			fields = []string{m.field}
		}
		for _, f := range fields {
			add(f, blocks&m.words[i].may[f])
		}
	}
}
