package sql

import (
	"github.com/millstream/millstream"
	"github.com/millstream/millstream/segment"
)

// Plan is a statement that kernels run without a SQL instance: one stream, a filter, and either rows (Aggregate false) or groups. The planner makes one only
// if the kernels' answer is what SQL defines, types and order included; anything else goes to DuckDB.
type Plan struct {
	Stream millstream.StreamKey
	Filter segment.Expr // nil: all; the time range of the request is applied beside it

	// Rows: the output columns are fields. Star means every field of the stream, _timestamp first, then by name.
	Star      bool
	Aggregate bool
	// Keys are the group-by expressions; without any (and with Aggregate) the answer is one row.
	Keys []Key
	Aggs []Agg
	// Out lists the output columns in order. With Star it is empty.
	Out []Output
	// Order sorts the output; an empty one leaves the order free. For rows the kernels support an order by _timestamp only (or none).
	Order  []Order
	Limit  int // -1: none
	Offset int
}

// Key is a group-by expression: a field as it is, or the start of its time bucket.
type Key struct {
	Field  string
	Bucket int64 // nanoseconds; > 0: histogram(_timestamp, …), Field is _timestamp; buckets are aligned to the epoch
}

// AggFunc is an aggregate that kernels compute exactly.
type AggFunc uint8

// The aggregates. Count counts records, CountField non-null values.
const (
	Count AggFunc = iota
	CountField
	CountDistinct
	Sum
	Min
	Max
	Avg
	Quantile // quantile_cont(field, P)
)

// Agg is one aggregate over the records of a group that also pass Filter: FILTER (WHERE …) or the condition of a CASE.
type Agg struct {
	Func   AggFunc
	Field  string
	P      float64      // Quantile only, in [0, 1]
	Filter segment.Expr // nil: every record of the group
	// NullIfEmpty makes the answer null where the group has no record at all (before Filter): sum(CASE WHEN p THEN 1 ELSE 0 END) is Count with Filter p and
	// NullIfEmpty, since without GROUP BY the sum over nothing is null and a count is 0.
	NullIfEmpty bool
}

// Output is one column of the answer: a field (rows), a key or an aggregate (groups), under the name SQL gives it.
type Output struct {
	Name  string
	Field string // rows
	Key   int    // groups: index into Keys, -1 if it is an aggregate
	Agg   int    // groups: index into Aggs, -1 if it is a key
	Type  string // the SQL type that DuckDB would report, such as BIGINT or VARCHAR
}

// Order is one sort key over the output columns. Rows have at most one, which is always the records' time: Out is then where _timestamp is among the outputs,
// 0 with Star, or -1 if it is not shown.
type Order struct {
	Out        int
	Desc       bool
	NullsFirst bool
}
