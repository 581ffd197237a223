// Package engine runs SQL in child processes. DuckDB is a large C++ program: its memory limit has holes, one expression of it cannot be interrupted, and a
// fault ends its process. So it runs in a process of its own, the same binary executed again, that can be limited and killed; a child has no environment, no
// descriptors but its socket, may gain no privileges, and opens for every job a fresh in-memory instance that can read exactly that job's files.
package engine

import (
	"time"

	"github.com/millstream/millstream"
)

// Job is one statement and the tables it reads. The statement has passed the gate: the engine's own locks are the second line of defence, not the first.
type Job struct {
	SQL    string
	Tables []Table
	// MaxRows and MaxBytes limit the answer; 0: no limit. An answer over MaxRows is cut and says so; one over MaxBytes is an error.
	MaxRows  int64
	MaxBytes int64
	// Ordered says that the statement sorts its answer. DuckDB is then told MaxRows beforehand, so that it keeps only the first rows while it sorts. Without a sort
	// a limit would make it collect all rows before it gives the first.
	Ordered bool
}

// Table is a view over Parquet files.
type Table struct {
	View    string
	Files   []string // absolute paths, newest first; a file that lacks a column has nulls there
	Columns []Column
	Range   *millstream.TimeRange // if set, the view shows only rows whose _timestamp lies in it
}

// Column is a column of a view.
type Column struct {
	ID   string // its name in the files
	Name string // its name in the view
	Type millstream.Type
}

// Stats say what a job cost.
type Stats struct {
	Rows      int64
	Bytes     int64 // of the answer, as Arrow
	Truncated bool  // MaxRows cut the answer
	CPU       time.Duration
}

// TypeKey is the key of an answer's field metadata that holds the SQL type, such as BIGINT. Lists, structs, maps and unions arrive as JSON text, and types
// that Arrow lacks as text, under their SQL type's name.
const TypeKey = "sql_type"

// ChildArg is the argument with which a binary executes itself as a child; it has to call ChildMain then, before anything else.
const ChildArg = "engine-child"

// limits are what a child gets with each job.
type limits struct {
	Memory  int64  // DuckDB's own limit, bytes
	Threads int    // of DuckDB
	TempDir string // private to the child
	Temp    int64  // bytes it may spill
}

// message is what the parent sends.
type message struct {
	Job    *Job
	Limits limits
	Cancel bool
}

// outcome ends a job.
type outcome struct {
	Stats   Stats
	Failure *failure
}

// failure is an error that crosses the socket. Message is safe to show if Kind is not Internal.
type failure struct {
	Kind    millstream.Kind
	Message string
}

func (f *failure) error() error {
	if f.Kind == millstream.Internal {
		return millstream.Wrap(millstream.Internal, errorString(f.Message), "internal error of the SQL engine")
	}
	return millstream.Errorf(f.Kind, "%s", f.Message)
}

type errorString string

func (e errorString) Error() string { return string(e) }
