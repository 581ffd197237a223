package scan

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/segment"
)

// rowScan collects the rows of a plan that does not aggregate. With an order by time only the rows that may still be among the asked ones are kept, and sources
// that lie wholly outside what is kept are not read.
type rowScan struct {
	*run
	fields []string // to read, each once
	at     []int    // for each output column its index in fields, -1: the record's time
	need   int      // offset + limit, -1: all
	byTime bool
	newest bool

	mu   sync.Mutex
	refs []ref
	held []*chunk
	size int64 // of held
	full bool  // refs were cut by their bytes: no row after the last of them is wanted
}

// chunk is a copy of rows that a source emitted.
type chunk struct {
	source int
	times  []int64
	cols   []*millstream.Column // per field; nil: the source lacks it
	size   int64
	live   int
}

// ref is one row of a chunk. The order of refs with equal times is that of sources and rows, so that an answer does not depend on which worker was faster.
type ref struct {
	time  int64
	chunk *chunk
	row   int
	seq   int64 // order within the source
}

// rows runs a plan without aggregates.
func (r *run) rows(ctx context.Context, emit func(*Rows) error) (Stats, error) {
	s := r.newRowScan()
	if s.need == 0 {
		return Stats{}, nil
	}
	if s.need < 0 && !s.byTime {
		return s.stream(ctx, emit)
	}
	slices.SortStableFunc(s.Inputs, s.order)
	stats, err := s.collect(ctx)
	if err := halted(ctx, err, &stats); err != nil {
		return stats, err
	}
	s.cut()
	stats.Cut = s.full
	return stats, s.emit(emit)
}

func (r *run) newRowScan() *rowScan {
	s := &rowScan{run: r, need: -1, newest: true}
	if r.Plan.Limit >= 0 {
		s.need = r.Plan.Offset + r.Plan.Limit
	}
	if len(r.Plan.Order) > 0 {
		s.byTime, s.newest = true, r.Plan.Order[0].Desc
	}
	seen := map[string]int{millstream.TimestampField: -1}
	for _, f := range r.outFields() {
		i, ok := seen[f]
		if !ok {
			i = len(s.fields)
			seen[f] = i
			s.fields = append(s.fields, f)
		}
		s.at = append(s.at, i)
	}
	return s
}

// outFields are the fields of the output columns; Star is the time and then every field by name.
func (r *run) outFields() (fields []string) {
	if !r.Plan.Star {
		for _, o := range r.Plan.Out {
			fields = append(fields, o.Field)
		}
		return fields
	}
	return append([]string{millstream.TimestampField}, StarFields(r.Schema)...)
}

// StarFields are the fields that * stands for after _timestamp, by name.
func StarFields(s millstream.Schema) []string {
	out := make([]string, 0, len(s.Fields))
	for _, f := range s.Fields {
		if f.Name != millstream.TimestampField {
			out = append(out, f.Name)
		}
	}
	slices.Sort(out)
	return out
}

// order says which of two inputs to read first.
func (s *rowScan) order(a, b Input) int {
	if s.newest {
		return cmp.Compare(b.Last, a.Last)
	}
	return cmp.Compare(a.First, b.First)
}

// collect reads the first source alone: if it already has all the rows that are needed, most others need not be read at all.
func (s *rowScan) collect(ctx context.Context) (Stats, error) {
	var first Stats
	if len(s.Inputs) > 0 {
		if err := s.scan(ctx, 0, &first); err != nil {
			return first, err
		}
	}
	workers := max(1, min(s.Workers, len(s.Inputs)-1))
	stats := make([]Stats, workers, workers+1)
	var next atomic.Int64
	g, gctx := errgroup.WithContext(ctx)
	for w := range workers {
		g.Go(func() error {
			for {
				i := int(next.Add(1))
				if i >= len(s.Inputs) {
					return nil
				}
				if err := s.scan(gctx, i, &stats[w]); err != nil {
					return err
				}
			}
		})
	}
	err := g.Wait()
	return sumStats(append(stats, first)), err
}

// scan reads one source as far as it can still matter.
func (s *rowScan) scan(ctx context.Context, i int, stats *Stats) error {
	defer s.Progress.Sources.Add(1)
	rng, ok := s.window(s.Inputs[i])
	if !ok {
		if s.Inputs[i].Segment != "" {
			s.Progress.Pruned.Add(1)
		}
		return nil
	}
	return s.with(ctx, s.Inputs[i], stats, func(src segment.Source) error {
		seq := int64(0)
		q := segment.Scan{Range: rng, Filter: s.Plan.Filter, Fields: s.fields, Times: true, Newest: s.newest, Limit: max(s.need, 0)}
		inOrder := !s.byTime || q.Limit > 0 && !reorders(src, q.Filter)
		st, err := src.Scan(ctx, q, func(b *millstream.Batch) error {
			return s.chunks(b, i, func(c *chunk) error {
				if err := s.budget.take(c.size); err != nil {
					return err
				}
				if wanted := s.keep(c, seq); !wanted && inOrder {
					return errBeyond
				}
				seq += int64(len(c.times))
				return ctx.Err()
			})
		})
		s.scanned(stats, st)
		if errors.Is(err, errBeyond) {
			return nil
		}
		return err
	})
}

// errBeyond ends the scan of a source whose further rows cannot be in the answer.
var errBeyond = errors.New("beyond the answer")

// window is the part of the range in which an input's rows may still be among the asked ones.
func (s *rowScan) window(in Input) (millstream.TimeRange, bool) {
	rng := s.Range
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.full && (s.need < 0 || len(s.refs) < s.need) {
		return rng, true
	}
	if !s.byTime {
		return rng, false
	}
	s.prune()
	bound := s.refs[len(s.refs)-1].time
	if s.newest {
		rng.Start = max(rng.Start, bound)
	} else {
		rng.End = min(rng.End, bound+1)
	}
	return rng, rng.Overlaps(in.First, in.Last)
}

// keep adds a chunk's rows, and now and then lets go of those that cannot be in the answer. It says whether any of the chunk's may still be in it.
func (s *rowScan) keep(c *chunk, seq int64) (wanted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.live = len(c.times)
	s.held, s.size = append(s.held, c), s.size+c.size
	for i, t := range c.times {
		s.refs = append(s.refs, ref{time: t, chunk: c, row: i, seq: seq + int64(i)})
	}
	if s.need >= 0 && len(s.refs) > 2*s.need+BlockRows || s.MaxBytes > 0 && s.size > s.MaxBytes+s.MaxBytes/4 {
		s.prune()
	}
	return c.live > 0
}

// prune sorts the rows and drops what is beyond the asked ones.
func (s *rowScan) prune() {
	slices.SortFunc(s.refs, s.compare)
	end := s.end()
	if end == len(s.refs) {
		return
	}
	for _, r := range s.refs[end:] {
		r.chunk.live--
	}
	clear(s.refs[end:])
	s.refs = s.refs[:end]
	s.held = slices.DeleteFunc(s.held, func(c *chunk) bool {
		if c.live > 0 {
			return false
		}
		s.budget.used.Add(-c.size)
		s.size -= c.size
		return true
	})
}

// end is how many of the sorted rows may be in the answer. A cut by bytes stays one: what comes later can only push rows out.
func (s *rowScan) end() int {
	end := len(s.refs)
	if s.need >= 0 {
		end = min(end, s.need)
	}
	if s.MaxBytes <= 0 || s.size <= s.MaxBytes {
		return end
	}
	sum := int64(0)
	for i := s.Plan.Offset; i < end; i++ {
		if sum > s.MaxBytes {
			s.full = true
			return i
		}
		sum += s.rowSize(s.refs[i])
	}
	return end
}

// rowSize is about what the output of a row takes.
func (s *rowScan) rowSize(r ref) (n int64) {
	for _, at := range s.at {
		if at < 0 {
			n += 8
		} else {
			n += valueSize(r.chunk.cols[at], r.row)
		}
	}
	return n
}

func (s *rowScan) compare(a, b ref) int {
	if s.byTime && a.time != b.time {
		if (a.time > b.time) == s.newest {
			return -1
		}
		return 1
	}
	if a.chunk.source != b.chunk.source {
		return a.chunk.source - b.chunk.source
	}
	return int(a.seq - b.seq)
}

// cut leaves the rows of the answer.
func (s *rowScan) cut() {
	s.prune()
	s.refs = s.refs[min(s.Plan.Offset, len(s.refs)):]
}

// chunks takes what a batch holds out of the source's memory, a block at a time.
func (s *rowScan) chunks(b *millstream.Batch, source int, f func(*chunk) error) error {
	cols := make([]*millstream.Column, len(s.fields))
	for i, name := range s.fields {
		cols[i] = b.Column(name)
	}
	for from := 0; from < len(b.Times); {
		to := from + blockEnd(len(b.Times)-from, func(i int) (size int64) {
			for _, c := range cols {
				size += valueSize(c, from+i)
			}
			return size
		})
		if err := f(s.copy(b.Times[from:to], cols, from, source)); err != nil {
			return err
		}
		from = to
	}
	return nil
}

// copy copies rows from one on.
func (s *rowScan) copy(times []int64, cols []*millstream.Column, at, source int) *chunk {
	n := len(times)
	c := &chunk{source: source, times: slices.Clone(times), cols: make([]*millstream.Column, len(s.fields)), size: int64(n) * 48}
	for i, from := range cols {
		if from == nil {
			continue
		}
		g := newGather(s.fields[i], from.Type, n)
		if from.Codes == nil && from.Type == millstream.String {
			g.col.Bytes = make([]byte, 0, from.Offsets[at+n]-from.Offsets[at])
		}
		for row := at; row < at+n; row++ {
			g.take(from, row)
		}
		col := g.column()
		c.cols[i] = &col
		c.size += int64(len(col.Bytes) + 4*len(col.Offsets) + 8*len(col.Ints) + 8*len(col.Floats))
	}
	return c
}

// emit sends the kept rows in blocks.
func (s *rowScan) emit(emit func(*Rows) error) error {
	types, names := s.fieldTypes(), s.names()
	for refs := s.refs; len(refs) > 0; {
		n := blockEnd(len(refs), func(i int) int64 { return s.rowSize(refs[i]) })
		if err := emit(s.block(refs[:n], names, types)); err != nil {
			return err
		}
		refs = refs[n:]
	}
	return nil
}

func (s *rowScan) block(refs []ref, names []string, types []millstream.Type) *Rows {
	out := &Rows{N: len(refs), Columns: make([]millstream.Column, len(s.at))}
	for i, at := range s.at {
		if at < 0 {
			times := make([]int64, len(refs))
			for j, r := range refs {
				times[j] = r.time
			}
			out.Columns[i] = millstream.Column{Name: names[i], Type: millstream.Timestamp, Ints: times}
			continue
		}
		g := newGather(names[i], types[at], len(refs))
		for _, r := range refs {
			g.take(r.chunk.cols[at], r.row)
		}
		out.Columns[i] = g.column()
	}
	return out
}

func (s *rowScan) fieldTypes() []millstream.Type {
	types := make([]millstream.Type, len(s.fields))
	for i, f := range s.fields {
		types[i] = s.typeOf(f)
	}
	return types
}

func (s *rowScan) names() []string {
	if s.Plan.Star {
		return s.outFields()
	}
	names := make([]string, len(s.Plan.Out))
	for i, o := range s.Plan.Out {
		names[i] = o.Name
	}
	return names
}

// stream sends every row as it comes, several sources at a time; for a plan without order and limit.
func (s *rowScan) stream(ctx context.Context, emit func(*Rows) error) (Stats, error) {
	out := &streamer{s: s, names: s.names(), types: s.fieldTypes(), skip: s.Plan.Offset, emit: emit}
	stats := make([]Stats, len(s.Inputs))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(s.Workers)
	for i, in := range s.Inputs {
		g.Go(func() error {
			defer s.Progress.Sources.Add(1)
			return s.with(gctx, in, &stats[i], func(src segment.Source) error {
				q := segment.Scan{Range: s.Range, Filter: s.Plan.Filter, Fields: s.fields, Times: true}
				st, err := src.Scan(gctx, q, func(b *millstream.Batch) error {
					if err := gctx.Err(); err != nil {
						return err
					}
					return s.chunks(b, i, out.send)
				})
				s.scanned(&stats[i], st)
				return err
			})
		})
	}
	waited := g.Wait()
	total := sumStats(stats)
	return total, halted(ctx, waited, &total)
}

// streamer sends chunks one at a time.
type streamer struct {
	s     *rowScan
	names []string
	types []millstream.Type
	emit  func(*Rows) error

	mu   sync.Mutex
	skip int // rows still to leave out
}

func (o *streamer) send(c *chunk) error {
	refs := make([]ref, len(c.times))
	for j, t := range c.times {
		refs[j] = ref{time: t, chunk: c, row: j}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	drop := min(o.skip, len(refs))
	o.skip -= drop
	for refs = refs[drop:]; len(refs) > 0; {
		n := blockEnd(len(refs), func(i int) int64 { return o.s.rowSize(refs[i]) })
		if err := o.emit(o.s.block(refs[:n], o.names, o.types)); err != nil {
			return err
		}
		refs = refs[n:]
	}
	return nil
}
