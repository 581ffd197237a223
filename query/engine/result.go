package engine

import (
	"errors"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	bindings "github.com/duckdb/duckdb-go-bindings"
	"github.com/duckdb/duckdb-go/v2/mapping"
	"github.com/millstream/millstream"
)

const (
	batchRows  = 16 << 10 // a batch has about so many rows
	batchBytes = 8 << 20  // and no more, unless one row alone is larger
)

// run prepares the views, locks the instance, and runs the job's statement; the answer goes to c as an Arrow stream.
func (i *instance) run(j *Job, l limits, c *conn) (Stats, error) {
	if err := i.prepare(j, l); err != nil {
		return Stats{}, err
	}
	columns, sql, err := i.shape(j)
	if err != nil {
		return Stats{}, classify(err.Error(), j)
	}
	stmt, err := i.statement(sql)
	if err != nil {
		return Stats{}, classify(err.Error(), j)
	}
	defer mapping.DestroyPrepare(&stmt)
	// The streaming form is marked as deprecated upstream; it is the only one that does not hold the whole answer in memory before its first row.
	var res mapping.Result
	defer mapping.DestroyResult(&res)
	if bindings.ExecutePreparedStreaming(stmt, &res) != mapping.StateSuccess {
		return Stats{}, classify(mapping.ResultError(&res), j)
	}
	return stream(&res, columns, j, c)
}

func (i *instance) statement(sql string) (mapping.PreparedStatement, error) {
	var stmt mapping.PreparedStatement
	if mapping.Prepare(i.conn, sql, &stmt) != mapping.StateSuccess {
		message := mapping.PrepareError(stmt)
		mapping.DestroyPrepare(&stmt)
		return stmt, errors.New(message)
	}
	return stmt, nil
}

// shape asks DuckDB what columns the statement has and gives the statement to run: the same one with its names made unique, a limit where that helps, and the
// columns that Arrow has no type for as text.
func (i *instance) shape(j *Job) ([]*builder, string, error) {
	stmt, err := i.statement(j.SQL)
	if err != nil {
		return nil, "", err
	}
	defer mapping.DestroyPrepare(&stmt)
	if mapping.PreparedStatementType(stmt) != mapping.StatementTypeSelect {
		return nil, "", errors.New("Permission Error: not a SELECT statement")
	}
	n := int(mapping.PreparedStatementColumnCount(stmt))
	columns, exprs, names := make([]*builder, n), make([]string, n), make([]string, n)
	for k := range n {
		t := mapping.PreparedStatementColumnLogicalType(stmt, mapping.IdxT(k))
		columns[k], exprs[k] = newBuilder(mapping.PreparedStatementColumnName(stmt, mapping.IdxT(k)), t, fmt.Sprintf("c%d", k))
		names[k] = fmt.Sprintf("c%d", k)
		mapping.DestroyLogicalType(&t)
	}
	sql := fmt.Sprintf("SELECT %s FROM (%s) AS q(%s)", strings.Join(exprs, ", "), j.SQL, strings.Join(names, ", "))
	if j.MaxRows > 0 && j.Ordered {
		sql += fmt.Sprintf(" LIMIT %d", j.MaxRows+1)
	}
	return columns, sql, nil
}

// stream sends the answer in batches. There is at least one, so that the reader learns the columns of an empty answer.
func stream(res *mapping.Result, columns []*builder, j *Job, c *conn) (Stats, error) {
	fields := make([]arrow.Field, len(columns))
	for k, b := range columns {
		fields[k] = b.field()
	}
	schema := arrow.NewSchema(fields, nil)
	out := &dataWriter{c: c}
	w := ipc.NewWriter(out, ipc.WithSchema(schema))
	s := sender{schema: schema, columns: columns, w: w}
	var stats Stats
	for !stats.Truncated {
		chunk := mapping.FetchChunk(*res)
		if chunk.Ptr == nil {
			if message := mapping.ResultError(res); message != "" {
				return stats, classify(message, j)
			}
			break
		}
		rows := int64(mapping.DataChunkGetSize(chunk))
		if j.MaxRows > 0 && stats.Rows+rows > j.MaxRows {
			rows, stats.Truncated = j.MaxRows-stats.Rows, true
		}
		err := s.add(chunk, int(rows))
		mapping.DestroyDataChunk(&chunk)
		if err != nil {
			return stats, err
		}
		stats.Rows, stats.Bytes = stats.Rows+rows, out.bytes+int64(s.size())
		if j.MaxBytes > 0 && stats.Bytes > j.MaxBytes {
			return stats, millstream.Errorf(millstream.Unprocessable, "the answer has more than %d bytes: select fewer columns or rows", j.MaxBytes)
		}
	}
	if err := s.finish(); err != nil {
		return stats, err
	}
	stats.Bytes = out.bytes
	return stats, nil
}

// sender gathers chunks of 2,048 rows to batches.
type sender struct {
	schema  *arrow.Schema
	columns []*builder
	w       *ipc.Writer
	rows    int
	sent    bool
	sizes   []int // of the rows of a chunk
}

// add takes the first rows of a chunk. They may be rows of megabytes, so batches end between any two of them.
func (s *sender) add(chunk mapping.DataChunk, rows int) error {
	s.sizes = append(s.sizes[:0], make([]int, rows)...)
	for k, b := range s.columns {
		b.addSizes(s.sizes, mapping.DataChunkGetVector(chunk, mapping.IdxT(k)))
	}
	for from := 0; from < rows; {
		to, size := from, s.size()
		for to < rows && (size+s.sizes[to] <= batchBytes || s.rows+to-from == 0) {
			size += s.sizes[to]
			to++
		}
		for k, b := range s.columns {
			if err := b.append(mapping.DataChunkGetVector(chunk, mapping.IdxT(k)), from, to); err != nil {
				return err
			}
		}
		s.rows += to - from
		if from = to; from < rows || s.rows >= batchRows {
			if err := s.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *sender) size() int {
	n := 0
	for _, b := range s.columns {
		n += len(b.data)
	}
	return n
}

func (s *sender) flush() error {
	arrays := make([]arrow.Array, len(s.columns))
	for k, b := range s.columns {
		arrays[k] = b.finish()
	}
	rec := newRecord(s.schema, arrays, s.rows)
	s.rows, s.sent = 0, true
	return s.w.Write(rec)
}

func (s *sender) finish() error {
	if s.rows > 0 || !s.sent {
		if err := s.flush(); err != nil {
			return err
		}
	}
	return s.w.Close()
}

// kinds are DuckDB's errors that are about the statement or its data, by the words with which their messages start. All others are ours to look into.
var kinds = []struct {
	prefix string
	kind   millstream.Kind
	text   string // instead of DuckDB's
}{
	{"Out of Memory Error", millstream.Unprocessable, "the query needs more memory than it may use: " + memoryHint},
	{"Binder Error", millstream.Invalid, ""}, {"Catalog Error", millstream.Invalid, ""}, {"Conversion Error", millstream.Invalid, ""},
	{"Out of Range Error", millstream.Invalid, ""}, {"Invalid Input Error", millstream.Invalid, ""}, {"Parser Error", millstream.Invalid, ""},
	{"Invalid Type Error", millstream.Invalid, ""}, {"Mismatch Type Error", millstream.Invalid, ""}, {"Not implemented Error", millstream.Invalid, ""},
	{"Divide by Zero Error", millstream.Invalid, ""}, {"Parameter Not Allowed Error", millstream.Invalid, ""}, {"Syntax Error", millstream.Invalid, ""},
	{"Parameter Not Resolved Error", millstream.Invalid, ""}, {"Expression Error", millstream.Invalid, ""}, {"Object Size Error", millstream.Invalid, ""},
	{"Decimal Error", millstream.Invalid, ""}, {"Permission Error", millstream.Invalid, "the statement is not allowed"},
	{"INTERRUPT Error", millstream.Canceled, "canceled"},
}

// classify makes an error of DuckDB's message. What is shown of it names no file and not the rewritten text. A message that names a file is about the file, and
// so about us, except where a value in it cannot be converted.
func classify(message string, j *Job) error {
	for _, k := range kinds {
		rest, ok := strings.CutPrefix(message, k.prefix)
		if !ok {
			continue
		}
		if k.text != "" {
			return millstream.Errorf(k.kind, "%s", k.text)
		}
		rest, _, _ = strings.Cut(strings.TrimPrefix(rest, ": "), "\n\nLINE ")
		hidden := hideFiles(rest, j)
		if hidden != rest && k.prefix != "Conversion Error" {
			break
		}
		return millstream.Errorf(k.kind, "%s", strings.TrimSpace(hidden))
	}
	return errors.New(message)
}

func hideFiles(message string, j *Job) string {
	for _, t := range j.Tables {
		for _, f := range t.Files {
			message = strings.ReplaceAll(message, f, "a segment")
		}
	}
	return message
}
