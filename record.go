package millstream

import (
	"math"
	"strconv"
	"time"
)

// Column is one field's values for all rows of a batch. Which slice is filled follows from Type; a null row has a zero there.
// A String column is plain (Offsets, Bytes) or, if Codes is set, dictionary coded: row i is Dict[Codes[i]].
type Column struct {
	Name    string
	Type    Type
	Seen    []Type    // the types of values as they came, if there were several; nil: all were of Type
	Valid   []uint64  // bit i set: row i has a value; nil: every row has one
	Ints    []int64   // Bool (0, 1), Int64, Timestamp
	Floats  []float64 // Double
	Offsets []uint32  // String, plain: rows+1 offsets into Bytes
	Bytes   []byte
	Codes   []uint32 // String, dictionary coded
	Dict    []string
}

// IsValid says whether row i has a value.
func (c *Column) IsValid(i int) bool { return c.Valid == nil || c.Valid[i>>6]&(1<<(i&63)) != 0 }

// Str is the string of row i of a String column ("" for null). It may share memory with the column.
func (c *Column) Str(i int) string {
	if c.Codes != nil {
		if !c.IsValid(i) {
			return ""
		}
		return c.Dict[c.Codes[i]]
	}
	return unsafeString(c.Bytes[c.Offsets[i]:c.Offsets[i+1]])
}

// Text is the canonical text of row i whatever the type: what a value reads as once its field has widened to String.
func (c *Column) Text(i int) string {
	switch c.Type {
	case Bool:
		return strconv.FormatBool(c.Ints[i] != 0)
	case Int64:
		return strconv.FormatInt(c.Ints[i], 10)
	case Double:
		return FormatDouble(c.Floats[i])
	case Timestamp:
		return FormatTime(c.Ints[i])
	}
	return c.Str(i)
}

// FormatDouble is the canonical text of a double: the shortest that reads back the same.
func FormatDouble(f float64) string {
	if math.IsInf(f, 0) || math.IsNaN(f) || (math.Abs(f) < 1e21 && (math.Abs(f) >= 1e-6 || f == 0)) {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return strconv.FormatFloat(f, 'e', -1, 64)
}

// FormatTime is how a time is shown everywhere: RFC 3339 with nanoseconds, UTC.
func FormatTime(ns int64) string {
	return time.Unix(0, ns).UTC().Format("2006-01-02T15:04:05.000000000Z")
}

// Batch is a run of records of one stream in memory, as columns. Logs and traces fill Times and Columns; metrics fill Samples alone.
// Name and Stream: a decoder knows the name, the writer resolves it to the id that storage uses.
type Batch struct {
	Org     OrgID
	Signal  Signal
	Name    string
	Stream  StreamID
	ID      BatchID
	Times   []int64 // _timestamp of each row, ns
	Columns []Column
	Samples *Samples
}

// Rows is the number of records in the batch.
func (b *Batch) Rows() int {
	if b.Samples != nil {
		return len(b.Samples.Ref)
	}
	return len(b.Times)
}

// Column finds a column by exact field name.
func (b *Batch) Column(name string) *Column {
	for i := range b.Columns {
		if b.Columns[i].Name == name {
			return &b.Columns[i]
		}
	}
	return nil
}

// Size is about how many bytes of memory the batch holds.
func (b *Batch) Size() int {
	n := 8 * cap(b.Times)
	for i := range b.Columns {
		c := &b.Columns[i]
		n += 8*cap(c.Valid) + 8*cap(c.Ints) + 8*cap(c.Floats) + 4*cap(c.Offsets) + cap(c.Bytes) + 4*cap(c.Codes) + 64
		for _, s := range c.Dict {
			n += len(s) + 16
		}
	}
	if b.Samples != nil {
		n += b.Samples.size()
	}
	return n
}

// Samples is a batch of metric samples: each distinct series once, then one entry per sample in the parallel slices.
type Samples struct {
	Series    []string  // canonical label sets, see EncodeLabels; __name__ is one of the labels
	Ref       []uint32  // per sample: index into Series
	Time      []int64   // per sample: milliseconds since the epoch, Prometheus' resolution
	Value     []float64 // per sample; exact bits are kept (stale markers are NaNs)
	Start     []int64   // per sample start time in ms, 0 = unknown; nil = none known
	Histogram [][]byte  // per sample: an encoded native histogram (segment/metrics codec), nil for a float; nil = no histograms at all
	Exemplars []Exemplar
	Metadata  []Metadata
}

// Exemplar points from a series at a time (ms) to a trace.
type Exemplar struct {
	Ref    uint32 // index into Samples.Series
	Time   int64
	Value  float64
	Labels string // canonical label set
}

// Metadata describes a metric name.
type Metadata struct{ Name, Type, Unit, Help string }

func (s *Samples) size() int {
	n := 4*cap(s.Ref) + 8*cap(s.Time) + 8*cap(s.Value) + 8*cap(s.Start) + 24*cap(s.Histogram)
	for _, k := range s.Series {
		n += len(k) + 16
	}
	for _, h := range s.Histogram {
		n += len(h)
	}
	for i := range s.Exemplars {
		n += len(s.Exemplars[i].Labels) + 48
	}
	for i := range s.Metadata {
		m := &s.Metadata[i]
		n += len(m.Name) + len(m.Type) + len(m.Unit) + len(m.Help) + 64
	}
	return n
}

// Widen converts the column's values in place to a wider type of JoinType. Null rows stay null. It works on the values that are there, so a builder may call it
// with a row whose value is still to come.
func (c *Column) Widen(t Type) {
	if t == c.Type {
		return
	}
	if t == Double {
		c.Floats = make([]float64, len(c.Ints), cap(c.Ints))
		for i, v := range c.Ints {
			c.Floats[i] = float64(v)
		}
		c.Ints, c.Type = nil, Double
		return
	}
	rows := len(c.Ints) + len(c.Floats)
	offsets, text := make([]uint32, 1, rows+1), []byte(nil)
	for i := range rows {
		if c.IsValid(i) {
			text = append(text, c.Text(i)...)
		}
		offsets = append(offsets, uint32(len(text)))
	}
	c.Offsets, c.Bytes, c.Ints, c.Floats, c.Type = offsets, text, nil, nil, String
}
