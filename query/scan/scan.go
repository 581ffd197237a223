// Package scan runs plans without a SQL instance: kernels over segments and unflushed batches, which it reads alike through segment.Source.
//
// A plan runs in two steps. Workers scan sources, each into partial results of its own (groups with accumulators, or the rows that may still be among the
// asked ones); then the partials are merged, sorted and cut. Shortcuts answer from what a source knows of itself without reading rows.
package scan

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query/sql"
	"github.com/millstream/millstream/segment"
)

// Request is a plan and what it runs over.
type Request struct {
	Plan   *sql.Plan
	Range  millstream.TimeRange
	Schema millstream.Schema // of the stream, joined with the fields of every source: what each field's type is in the answer
	Inputs []Input
	Shares []Share // of an aggregating plan: what other nodes group beside

	Workers int   // sources scanned at a time; 0: one per CPU
	Memory  int64 // bytes that groups, kept rows and quantile values may take together; 0: DefaultMemory
	// MaxBytes cuts an answer that does not aggregate where its values are larger than that; 0: no bound.
	MaxBytes int64
	// Progress, if set, counts sources as they are finished.
	Progress *Progress
}

// Input is a source that may have to be opened, or fetched, before it can be read.
type Input struct {
	Rows        int
	First, Last int64 // times of the first and the last record, both included
	// Segment is the published segment that it is, which counts in Stats.Pruned; empty for rows that are at hand.
	Segment millstream.SegmentID
	// Open gives the source and what to call when it is no longer read. It is called at most once at a time, when the request comes to the input.
	Open func(ctx context.Context) (src segment.Source, release func(), err error)
}

// Opened makes an input of a source that is at hand.
func Opened(s segment.Source) Input {
	first, last := s.Span()
	return Input{Rows: s.Rows(), First: first, Last: last, Open: func(context.Context) (segment.Source, func(), error) { return s, func() {}, nil }}
}

// DefaultMemory bounds the state of one request that names no bound.
const DefaultMemory = 512 << 20

// A block that is emitted has at most BlockRows rows, and so many fewer that its values are not larger than BlockBytes, but at least one.
const (
	BlockRows  = 4096
	BlockBytes = 8 << 20
)

// Progress is what a running request has done so far; it may be read at any time. Pruned are segments, of those in Sources, that needed no reading.
type Progress struct{ Sources, Pruned, Rows, Bytes atomic.Int64 }

// Rows is a block of an answer: its columns in output order, all of N values. A column whose SQL type has no place in a millstream.Column, such as HUGEINT,
// DECIMAL or a list, is a String of its canonical text.
type Rows struct {
	N       int
	Columns []millstream.Column
}

// Size is about what a block's values take in memory, in bytes.
func (r *Rows) Size() (n int) {
	for i := range r.Columns {
		c := &r.Columns[i]
		n += 8*len(c.Ints) + 8*len(c.Floats)
		if c.Codes != nil {
			for k, code := range c.Codes {
				if c.IsValid(k) {
					n += len(c.Dict[code])
				}
			}
		} else if len(c.Offsets) > 0 {
			n += int(c.Offsets[r.N] - c.Offsets[0])
		}
	}
	return n
}

// valueSize is about what one value takes; a nil column has nulls only.
func valueSize(c *millstream.Column, i int) int64 {
	switch {
	case c == nil:
		return 0
	case c.Type != millstream.String:
		return 8
	case !c.IsValid(i):
		return 0
	}
	return int64(len(c.Str(i)))
}

// blockEnd is how many of n rows, of which size tells the sizes, make the next block.
func blockEnd(n int, size func(i int) int64) int {
	n = min(n, BlockRows)
	sum := int64(0)
	for i := range n {
		if sum += size(i); sum > BlockBytes && i > 0 {
			return i
		}
	}
	return n
}

// Stats says what a request cost.
type Stats struct {
	ScannedRows  int64
	ScannedBytes int64
	Selected     int64 // records that passed the filter, where that was counted
	Pruned       int   // segments that were opened but whose index showed that no record passes
	Cut          bool  // rows beyond Request.MaxBytes were left out
	Stopped      bool  // the run ended with ErrStopped, before it had seen every source
}

// Run executes the plan and emits the answer in blocks, see BlockRows. A block and its memory belong to the receiver.
// A context that ends with the cause ErrStopped does not fail the run: it emits what was found until then.
// A request that would need more than its memory fails with ErrMemory; the same statement may still fit in an engine that spills to disk.
func Run(ctx context.Context, r Request, emit func(*Rows) error) (Stats, error) {
	run := newRun(r)
	if r.Plan.Aggregate {
		return run.groups(ctx, emit)
	}
	return run.rows(ctx, emit)
}

func newRun(r Request) *run {
	if r.Workers <= 0 {
		r.Workers = runtime.GOMAXPROCS(0)
	}
	if r.Memory <= 0 {
		r.Memory = DefaultMemory
	}
	if r.Progress == nil {
		r.Progress = new(Progress)
	}
	run := &run{Request: r, asked: r, budget: &budget{limit: r.Memory}, types: typesOf(r.Schema)}
	run.Inputs = slices.DeleteFunc(slices.Clone(r.Inputs), func(in Input) bool { return in.Rows == 0 || !r.Range.Overlaps(in.First, in.Last) })
	return run
}

// run is the state of one request.
type run struct {
	Request
	asked  Request // before anything was changed
	budget *budget
	types  map[string]millstream.Type

	nonNull []bool // of an aggregate's keys: its null group is not wanted
}

// with opens an input, as the stream's schema sees it, for the time of f.
func (r *run) with(ctx context.Context, in Input, stats *Stats, f func(segment.Source) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	src, release, err := in.Open(ctx)
	if err != nil {
		return err
	}
	defer release()
	before := *stats
	err = f(widen(src, r.types))
	if in.Segment != "" && err == nil && stats.ScannedRows == before.ScannedRows && stats.Selected == before.Selected {
		stats.Pruned++
		r.Progress.Pruned.Add(1)
	}
	return err
}

// ErrStopped is the cause of a context's end that asks for what was found so far instead of an error.
var ErrStopped = errors.New("the query was stopped")

// halted forgives the error of a run that was stopped.
func halted(ctx context.Context, err error, stats *Stats) error {
	if err != nil && errors.Is(context.Cause(ctx), ErrStopped) {
		stats.Stopped = true
		return nil
	}
	return err
}

// scanned adds the cost of a scan.
func (r *run) scanned(stats *Stats, st segment.ScanStats) {
	stats.ScannedRows += st.ScannedRows
	stats.ScannedBytes += st.ScannedBytes
	stats.Selected += st.Selected
	r.Progress.Rows.Add(st.ScannedRows)
	r.Progress.Bytes.Add(st.ScannedBytes)
}

// ErrMemory is the error of a request whose state outgrew its memory.
var ErrMemory = millstream.Errorf(millstream.Unprocessable, "the query keeps too many groups or rows in memory: narrow its time range, filter more, or ask for fewer rows")

// budget counts the bytes of all workers of a request.
type budget struct {
	limit int64
	used  atomic.Int64
}

// take books n more bytes, which may be negative.
func (b *budget) take(n int64) error {
	if b.used.Add(n) > b.limit {
		return ErrMemory
	}
	return nil
}
