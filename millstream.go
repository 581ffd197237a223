// Package millstream is the vocabulary of Millstream: ids, the shape of data in memory, schema types and error kinds. It imports nothing of ours and
// holds no services, so that every other package can speak of the same things without depending on each other.
package millstream

import (
	"encoding/hex"
	"time"

	"github.com/zeebo/blake3"
)

// Ids are opaque strings: UUIDs for organizations, streams, segments and WALs, the configured name for nodes.
type (
	OrgID     string
	StreamID  string
	SegmentID string
	NodeID    string
	WALID     string
)

// LSN numbers the frames of one WAL, from 1. A WAL range is (From, To]: From is excluded, To included.
type LSN uint64

// BatchID names one write of one stream for the 15 minutes in which a repeated write must be recognised.
type BatchID [16]byte

// Signal is the kind of telemetry a stream holds.
type Signal uint8

// The three signals. Their numbers are stored; never renumber.
const (
	Logs    Signal = 1
	Metrics Signal = 2
	Traces  Signal = 3
)

func (s Signal) String() string {
	switch s {
	case Logs:
		return "logs"
	case Metrics:
		return "metrics"
	case Traces:
		return "traces"
	}
	return "unknown"
}

// ParseSignal reads a signal's name; an unknown one is Invalid.
func ParseSignal(s string) (Signal, error) {
	switch s {
	case "logs":
		return Logs, nil
	case "metrics":
		return Metrics, nil
	case "traces":
		return Traces, nil
	}
	return 0, Errorf(Invalid, "unknown signal %q: use logs, metrics or traces", s)
}

// MetricStream is the name of the one stream per organization that holds the samples of all its metrics.
const MetricStream = "metrics"

// SelfStream is the reserved stream name of a node's own telemetry.
const SelfStream = "_millstream"

// DefaultStream is the log or trace stream of a sender that names none.
const DefaultStream = "default"

// StreamKey is the name by which senders and readers know a stream.
type StreamKey struct {
	Org    OrgID
	Signal Signal
	Name   string
}

// TimeRange is half open, [Start, End), in nanoseconds since the epoch.
type TimeRange struct{ Start, End int64 }

// Contains says whether t lies in the range.
func (r TimeRange) Contains(t int64) bool { return t >= r.Start && t < r.End }

// Overlaps says whether any time in [first, last] (both included) lies in the range.
func (r TimeRange) Overlaps(first, last int64) bool { return first < r.End && last >= r.Start }

// Extent locates bytes in the object store: small segments share an object, so an extent is a part of one.
// Checksum is the hex BLAKE3-256 of exactly those bytes and is verified on every fetch.
type Extent struct {
	Key      string
	Offset   int64
	Length   int64
	Checksum string
}

// IndexVersion is the version of the indexes that this program writes; the catalog has that of every segment's, and older ones are built anew. Version 2: dictionaries
// have parts.
const IndexVersion = 2

// Segment is one immutable, published piece of a stream: a Parquet extent and its index extent. MinTime and MaxTime are both included, in ns.
type Segment struct {
	ID            SegmentID
	Org           OrgID
	Stream        StreamID
	Signal        Signal
	MinTime       int64
	MaxTime       int64
	Rows          int64
	Level         int
	SchemaVersion int64
	Written       int64 // ns in the database's clock: when its newest rows were published; later ones win where samples meet
	Data          Extent
	Index         Extent
	WAL           WALID // empty after a merge
	From, To      LSN
}

// Flush is the unit of publishing: everything that WAL range (From, To] of one WAL became. Checksum identifies the content of the range.
type Flush struct {
	WAL         WALID
	Node        NodeID
	Incarnation int64
	From, To    LSN
	Checksum    string
	Segments    []Segment
	Clean       bool // the final publish of a stopping node: nothing unflushed remains
}

// Member is a node as others see it. Its times are of the database's clock; nobody compares them with a clock of his own.
type Member struct {
	ID           NodeID
	Addr         string
	Roles        []string
	MilliCPU     int    // the weight
	PlacementID  string // names the cache directory; empty on a node without one
	Version      string
	Incarnation  int64
	WAL          WALID // what this incarnation holds; empty if none
	StartedAt    time.Time
	HeartbeatAt  time.Time
	HeartbeatAge time.Duration // how long ago HeartbeatAt was when the row was read
	Draining     bool
}

// FieldID is the name of a field's column inside segment objects and SQL views: "f" and 20 hex digits of BLAKE3 of the exact field name. It is a pure
// function, so a WAL, a buffer and a segment agree on it without a registry, and names that differ only by case get different columns.
func FieldID(name string) string {
	sum := blake3.Sum256([]byte(name))
	return "f" + hex.EncodeToString(sum[:10])
}

// TimestampField is the field every record has: its time in nanoseconds.
const TimestampField = "_timestamp"

// OverflowField is the field that keeps, as a JSON object, what came beyond a stream's field limit.
const OverflowField = "_overflow"
