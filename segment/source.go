package segment

import (
	"context"

	"github.com/millstream/millstream"
)

// Source is a run of records that can be scanned: a published segment, a sealed mini-segment, or a batch still in memory (see Memory). All give the same
// answers; only the cost differs. A Source is immutable and safe for concurrent use.
type Source interface {
	Rows() int
	// Span is the time of the first and the last record, both included, in ns.
	Span() (first, last int64)
	// Fields are the fields that occur, with the type they have here and the number of rows that have a value. TimestampField is not among them.
	Fields() []FieldStat
	// Scan emits the selected records; see Scan. The batch passed to emit and its memory are only valid during the call, but for dictionaries: those are never
	// reused, and batches that share one share the slice, so what was found out about Dict can be kept by the address of its first entry. Some batches of a
	// column may be dictionary coded and others plain. Offsets may begin above 0. A field that the source has but a batch has no value of is a column of nulls.
	Scan(ctx context.Context, s Scan, emit func(*millstream.Batch) error) (ScanStats, error)
	// ValueCounts gives the number of rows of each value of a low-cardinality field over the whole source, if it is known without reading rows.
	// Rows without a value are not listed.
	ValueCounts(field string) (counts []ValueCount, ok bool)
}

// FieldStat is what a source knows of one of its fields.
type FieldStat struct {
	Name    string
	Type    millstream.Type
	WideInt bool
	Rows    int64 // rows that have a value
}

// ValueCount is a value and the number of rows that have it.
type ValueCount struct {
	Value string
	Rows  int64
}

// Scan says what to read of a source.
type Scan struct {
	Range  millstream.TimeRange
	Filter Expr // nil: all records
	// Types are the stream's types of its fields. A field that this source holds under a narrower type is filtered, searched and emitted as if it had been widened,
	// so that an answer does not depend on which records were stored together. Fields that are not listed are taken as stored.
	Types  map[string]millstream.Type
	Fields []string // the columns to emit, in this order; a field the source lacks is left out of the batch
	All    bool     // emit every field instead
	Times  bool     // fill Batch.Times with the records' times; otherwise its length still is the number of records
	// Limit > 0 emits at most that many records: the newest first if Newest, else the oldest first. Without a limit the order is the source's own.
	Limit  int
	Newest bool
	// CountOnly emits nothing; ScanStats.Selected is the answer. Index and zone maps are used where they are exact.
	CountOnly bool
}

// ScanStats says what a scan cost and found.
type ScanStats struct {
	Selected     int64 // records that matched
	ScannedRows  int64 // records that were looked at one by one
	ScannedBytes int64 // encoded bytes that were read
}
