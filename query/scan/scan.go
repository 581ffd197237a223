// Package scan runs plans without a SQL instance: kernels over segments and unflushed batches, which it reads alike through segment.Source.
//
// A plan runs in two steps. Workers scan sources, each into partial results of its own (groups with accumulators, or the rows that may still be among the
// asked ones); then the partials are merged, sorted and cut. Shortcuts answer from what a source knows of itself without reading rows.
package scan

import (
	"context"
	"runtime"
	"sync/atomic"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query/sql"
	"github.com/millstream/millstream/segment"
)

// Request is a plan and what it runs over.
type Request struct {
	Plan    *sql.Plan
	Range   millstream.TimeRange
	Schema  millstream.Schema // of the stream, joined with the fields of every source: what each field's type is in the answer
	Sources []segment.Source

	Workers int   // sources scanned at a time; 0: one per CPU
	Memory  int64 // bytes that groups, kept rows and quantile values may take together; 0: DefaultMemory
	// Progress, if set, counts sources as they are finished.
	Progress *Progress
}

// DefaultMemory bounds the state of one request that names no bound.
const DefaultMemory = 512 << 20

// BlockRows is the most rows that are emitted at once.
const BlockRows = 4096

// Progress is what a running request has done so far; it may be read at any time.
type Progress struct{ Sources, Rows, Bytes atomic.Int64 }

// Rows is a block of an answer: its columns in output order, all of N values. A column whose SQL type has no place in a millstream.Column, such as HUGEINT,
// DECIMAL or a list, is a String of its canonical text.
type Rows struct {
	N       int
	Columns []millstream.Column
}

// Stats says what a request cost.
type Stats struct {
	ScannedRows  int64
	ScannedBytes int64
	Selected     int64 // records that passed the filter, where that was counted
}

func (s *Stats) add(o segment.ScanStats) {
	s.ScannedRows += o.ScannedRows
	s.ScannedBytes += o.ScannedBytes
	s.Selected += o.Selected
}

// Run executes the plan and emits the answer in blocks of at most BlockRows. A block and its memory belong to the receiver.
// A request that would need more than its memory fails with ErrMemory; the same statement may still fit in an engine that spills to disk.
func Run(ctx context.Context, r Request, emit func(*Rows) error) (Stats, error) {
	if r.Workers <= 0 {
		r.Workers = runtime.GOMAXPROCS(0)
	}
	if r.Memory <= 0 {
		r.Memory = DefaultMemory
	}
	if r.Progress == nil {
		r.Progress = new(Progress)
	}
	run := &run{Request: r, budget: &budget{limit: r.Memory}}
	run.Sources = joined(r)
	if r.Plan.Aggregate {
		return run.groups(ctx, emit)
	}
	return run.rows(ctx, emit)
}

// run is the state of one request.
type run struct {
	Request
	budget *budget
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
