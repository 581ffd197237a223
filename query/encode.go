package query

import (
	"io"
	"strconv"
	"strings"

	"github.com/millstream/millstream"
)

// Format is how an answer is written.
type Format uint8

// The formats of answers.
const (
	JSON Format = iota
	NDJSON
	CSV
	Arrow
	Parquet
)

// ContentType is the format's media type.
func (f Format) ContentType() string {
	switch f {
	case NDJSON:
		return "application/x-ndjson"
	case CSV:
		return "text/csv; charset=utf-8"
	case Arrow:
		return "application/vnd.apache.arrow.stream"
	case Parquet:
		return "application/vnd.apache.parquet"
	}
	return "application/json"
}

// Extension is how the names of files of the format end.
func (f Format) Extension() string {
	switch f {
	case NDJSON:
		return ".ndjson"
	case CSV:
		return ".csv"
	case Arrow:
		return ".arrows"
	case Parquet:
		return ".parquet"
	}
	return ".json"
}

// Annotated says whether the format has a place for what is said beside the rows: that they are partial, warnings, statistics.
func (f Format) Annotated() bool { return f == JSON || f == NDJSON }

// Encoder writes an answer as it comes. Nothing reaches the writer before the first flushSize bytes are there or Close is called, so that an early failure can
// still be answered as one. After an error the output is not valid and must be cut off.
type Encoder interface {
	Sink
	// Close ends the answer. Columns must have been called.
	Close(*Answer) error
	// Fail ends a started answer with an error in place of what is missing; false if the format has no way to say it and the output must be cut off.
	Fail(problem any) bool
	// Started says whether any byte has reached the writer.
	Started() bool
}

// NewEncoder makes an encoder of the format.
func NewEncoder(f Format, w io.Writer) Encoder {
	out := &output{w: w}
	switch f {
	case NDJSON:
		return &ndjsonEncoder{output: out}
	case CSV:
		return &csvEncoder{output: out}
	case Arrow:
		return &arrowEncoder{output: out}
	case Parquet:
		return &parquetEncoder{output: out}
	}
	return &jsonEncoder{output: out}
}

// flushSize is how much an encoder gathers before it writes.
const flushSize = 64 << 10

// output gathers bytes for a writer.
type output struct {
	w       io.Writer
	buf     []byte
	started bool
}

func (o *output) Started() bool { return o.started }

// Write implements io.Writer for the encoders that libraries write through.
func (o *output) Write(p []byte) (int, error) {
	o.buf = append(o.buf, p...)
	return len(p), o.spill()
}

// spill writes what was gathered, if it is enough.
func (o *output) spill() error {
	if len(o.buf) < flushSize {
		return nil
	}
	return o.flush()
}

func (o *output) flush() error {
	if len(o.buf) == 0 {
		return nil
	}
	o.started = true
	_, err := o.w.Write(o.buf)
	o.buf = o.buf[:0]
	return err
}

// class says how a value of a SQL type is written in a text format.
type class uint8

const (
	quoted class = iota // text
	number              // canonical number text
	raw                 // JSON text: lists, structs and maps
)

func classOf(sqlType string) class {
	switch {
	case strings.HasSuffix(sqlType, "]"), strings.HasPrefix(sqlType, "STRUCT("), strings.HasPrefix(sqlType, "MAP("):
		return raw
	case strings.HasPrefix(sqlType, "DECIMAL("):
		return number
	}
	switch sqlType {
	case "HUGEINT", "UHUGEINT", "UBIGINT":
		return number
	}
	return quoted
}

// appendText appends a non-null value as plain text, as CSV shows it.
func appendText(dst []byte, c *millstream.Column, i int) []byte {
	switch c.Type {
	case millstream.Bool:
		return strconv.AppendBool(dst, c.Ints[i] != 0)
	case millstream.Int64:
		return strconv.AppendInt(dst, c.Ints[i], 10)
	case millstream.Double:
		return append(dst, millstream.FormatDouble(c.Floats[i])...)
	case millstream.Timestamp:
		return appendTime(dst, c.Ints[i])
	}
	return append(dst, c.Str(i)...)
}
