// Package query answers statements over one snapshot of the catalog and the unflushed rows above it.
package query

import (
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query/scan"
	"github.com/millstream/millstream/query/sql"
)

// Request is one statement of one organization's user.
type Request struct {
	ID        string // by which the running query is known in its organization; empty: one is made
	Org       millstream.OrgID
	User      string // shown in the running list
	Language  string // sql, the default, or search
	Statement string
	Signal    millstream.Signal    // of Stream; 0: logs
	Stream    string               // what a search is about; other statements name theirs
	Range     millstream.TimeRange // always applied
	Limit     int                  // most rows to return; 0: the configured maximum
	Params    sql.Params           // values of the statement's parameters
}

// Column describes a column of an answer; Type is a SQL type name such as VARCHAR, BIGINT, DOUBLE, BOOLEAN, TIMESTAMP_NS or HUGEINT.
type Column struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// Rows is a block of an answer.
type Rows = scan.Rows

// Sink receives an answer: Columns once, then blocks of rows. A block belongs to the sink.
type Sink interface {
	Columns([]Column) error
	Rows(*Rows) error
}

// Watcher is a Sink that wants to know before the first rows what a statement is about to read.
type Watcher interface {
	Sink
	// Planned is called when the snapshot is open and the statement is known to be good; once more if the query begins anew with a newer snapshot.
	Planned(Planned) error
}

// Planned is what is known of an answer before anything was read.
type Planned struct {
	Estimate Estimate
	SQL      string   // what a search is run as; empty: the statement itself
	Columns  []Column // nil if they come with the first rows only
	Reasons  []string // why rows may be missing
}

// SegmentStats counts the segments of the snapshot that a query looked at.
type SegmentStats struct {
	Total   int `json:"total"`
	Pruned  int `json:"pruned"`
	Scanned int `json:"scanned"`
	Cached  int `json:"cached"` // of the scanned ones, already on the local disk
}

// Stats is what a query cost.
type Stats struct {
	TookMS        int64        `json:"took_ms"`
	ScannedRows   int64        `json:"scanned_rows"`
	ScannedBytes  int64        `json:"scanned_bytes"`
	Segments      SegmentStats `json:"segments"`
	UnflushedRows int64        `json:"unflushed_rows"`
	Nodes         int          `json:"nodes"`
	Parts         []NodePart   `json:"parts,omitempty"` // where segments were read, if not on one node alone; the first is the node that coordinated
}

// NodePart is what one node read of a query's segments.
type NodePart struct {
	Node         millstream.NodeID `json:"node"`
	Segments     int               `json:"segments"`
	Cached       int               `json:"cached"`        // of them, those that were on its disk
	FetchedBytes int64             `json:"fetched_bytes"` // from the object store, of the others
}

// Answer is what is known once all rows are out. Partial says that rows may be missing, and Reasons why.
type Answer struct {
	Stats    Stats    `json:"stats"`
	Partial  bool     `json:"partial"`
	Stopped  bool     `json:"stopped,omitempty"` // a user ended the query with what it had; Partial then, too
	Reasons  []string `json:"partial_reasons,omitempty"`
	Warnings []string `json:"warnings"`
	SQL      string   `json:"sql,omitempty"` // what a search was run as
}

// Estimate is what a statement would read.
type Estimate struct {
	Rows     int64            `json:"rows"`
	Bytes    int64            `json:"bytes"`
	Segments EstimateSegments `json:"segments"`
	Async    bool             `json:"would_be_async"`
}

// EstimateSegments counts the segments of an estimate.
type EstimateSegments struct {
	Total  int `json:"total"`
	Pruned int `json:"pruned"`
	ToScan int `json:"to_scan"`
}

// Progress is what a running query has done so far. Segments.Done counts the finished ones of all sources, unflushed runs among them, whether or not they
// needed reading.
type Progress struct {
	Segments  ProgressSegments `json:"segments"`
	Rows      int64            `json:"rows"`
	Bytes     int64            `json:"bytes"`
	Cached    int              `json:"cached"` // segments that were on the local disk
	Nodes     int              `json:"nodes"`
	ElapsedMS int64            `json:"elapsed_ms"`
}

// ProgressSegments counts the sources of a running query.
type ProgressSegments struct {
	Done   int64 `json:"done"`
	Total  int64 `json:"total"`
	Pruned int64 `json:"pruned"`
}

// Running is a query that has not ended yet.
type Running struct {
	ID           string           `json:"id"`
	Org          millstream.OrgID `json:"-"`
	Node         string           `json:"node,omitempty"` // where it runs, if whoever lists it knows
	User         string           `json:"user"`
	Language     string           `json:"language"`
	Statement    string           `json:"statement"`
	Started      time.Time        `json:"started_at"`
	Sources      int64            `json:"sources"`      // segments and unflushed runs to read
	SourcesDone  int64            `json:"sources_done"` // of them, done
	ScannedRows  int64            `json:"scanned_rows"`
	ScannedBytes int64            `json:"scanned_bytes"`
}
