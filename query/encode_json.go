package query

import (
	"encoding/json"
	"math"
	"strconv"
	"time"

	"github.com/millstream/millstream"
)

// jsonEncoder writes {"columns":[…],"rows":[[…],…],"stats":{…},"partial":…,"warnings":[…]}.
//
// Integers are numbers of any size. JSON has no NaN and no infinities: they are null. Times are RFC 3339 text with nanoseconds, in UTC.
type jsonEncoder struct {
	*output
	classes []class
	rows    bool
}

func (e *jsonEncoder) Columns(cs []Column) error {
	e.classes = classes(cs)
	head, err := json.Marshal(cs)
	if err != nil {
		return err
	}
	e.buf = append(e.buf, `{"columns":`...)
	e.buf = append(e.buf, head...)
	e.buf = append(e.buf, `,"rows":[`...)
	return nil
}

func classes(cs []Column) []class {
	out := make([]class, len(cs))
	for i, c := range cs {
		out[i] = classOf(c.Type)
	}
	return out
}

func (e *jsonEncoder) Rows(r *Rows) error {
	for i := range r.N {
		if e.rows {
			e.buf = append(e.buf, ',')
		}
		e.rows = true
		e.buf = append(e.buf, '[')
		for j := range r.Columns {
			if j > 0 {
				e.buf = append(e.buf, ',')
			}
			e.buf = appendJSON(e.buf, &r.Columns[j], i, e.classes[j])
		}
		e.buf = append(e.buf, ']')
		if err := e.spill(); err != nil {
			return err
		}
	}
	return nil
}

func (e *jsonEncoder) Close(a *Answer) error {
	tail, err := json.Marshal(a)
	if err != nil {
		return err
	}
	e.buf = append(e.buf, "],"...)
	e.buf = append(e.buf, tail[1:]...)
	e.buf = append(e.buf, '\n')
	return e.flush()
}

func (e *jsonEncoder) Fail(problem any) bool {
	tail, err := json.Marshal(problem)
	if err != nil {
		return false
	}
	e.buf = append(e.buf, `],"partial":true,"error":`...)
	e.buf = append(e.buf, tail...)
	e.buf = append(e.buf, "}\n"...)
	return e.flush() == nil
}

// ndjsonEncoder writes an object a row and at last {"__meta__":{…}} with the columns and what else the JSON format says. Null values are written.
type ndjsonEncoder struct {
	*output
	cols    []Column
	names   [][]byte // `"name":` of each column
	classes []class
}

func (e *ndjsonEncoder) Columns(cs []Column) error {
	e.cols, e.classes = cs, classes(cs)
	for _, c := range cs {
		e.names = append(e.names, append(millstream.AppendJSONString(nil, c.Name), ':'))
	}
	return nil
}

func (e *ndjsonEncoder) Rows(r *Rows) error {
	for i := range r.N {
		e.buf = append(e.buf, '{')
		for j := range r.Columns {
			if j > 0 {
				e.buf = append(e.buf, ',')
			}
			e.buf = append(e.buf, e.names[j]...)
			e.buf = appendJSON(e.buf, &r.Columns[j], i, e.classes[j])
		}
		e.buf = append(e.buf, "}\n"...)
		if err := e.spill(); err != nil {
			return err
		}
	}
	return nil
}

func (e *ndjsonEncoder) Close(a *Answer) error { return e.meta(a, nil) }

func (e *ndjsonEncoder) Fail(problem any) bool {
	return e.meta(&Answer{Partial: true, Warnings: []string{}}, problem) == nil
}

func (e *ndjsonEncoder) meta(a *Answer, problem any) error {
	var m struct {
		Meta struct {
			Columns []Column `json:"columns"`
			*Answer
			Error any `json:"error,omitempty"`
		} `json:"__meta__"`
	}
	m.Meta.Columns, m.Meta.Answer, m.Meta.Error = e.cols, a, problem
	line, err := json.Marshal(m)
	if err != nil {
		return err
	}
	e.buf = append(append(e.buf, line...), '\n')
	return e.flush()
}

// appendJSON appends a value, null included.
func appendJSON(dst []byte, c *millstream.Column, i int, k class) []byte {
	if !c.IsValid(i) {
		return append(dst, "null"...)
	}
	switch c.Type {
	case millstream.Bool:
		return strconv.AppendBool(dst, c.Ints[i] != 0)
	case millstream.Int64:
		return strconv.AppendInt(dst, c.Ints[i], 10)
	case millstream.Double:
		return appendJSONDouble(dst, c.Floats[i])
	case millstream.Timestamp:
		dst = append(dst, '"')
		dst = appendTime(dst, c.Ints[i])
		return append(dst, '"')
	}
	if k != quoted {
		return append(dst, c.Str(i)...)
	}
	return millstream.AppendJSONString(dst, c.Str(i))
}

func appendJSONDouble(dst []byte, f float64) []byte {
	switch a := math.Abs(f); {
	case math.IsNaN(f) || math.IsInf(f, 0):
		return append(dst, "null"...)
	case a < 1e21 && a >= 1e-6 || f == 0:
		return strconv.AppendFloat(dst, f, 'f', -1, 64)
	}
	return strconv.AppendFloat(dst, f, 'e', -1, 64)
}

// appendTime is millstream.FormatTime without its allocation; years of four digits, the rest goes the long way.
func appendTime(dst []byte, ns int64) []byte {
	return time.Unix(0, ns).UTC().AppendFormat(dst, "2006-01-02T15:04:05.000000000Z")
}
