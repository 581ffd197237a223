package query

import (
	"context"
	"math"
	"slices"
	"strings"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query/scan"
	"github.com/millstream/millstream/query/sql"
)

// FieldStat is what is known of a field in a selection. Distinct and what follows are exact for fields that were named; for others they are estimated from the
// newest records, or left out.
type FieldStat struct {
	Name         string       `json:"name"`
	Type         string       `json:"type"`
	Conflict     bool         `json:"conflict,omitempty"` // values of several types were seen
	Rows         int64        `json:"rows"`               // records that have a value
	Share        float64      `json:"share"`              // of the selection's records, 0 to 1
	Estimated    bool         `json:"estimated,omitempty"`
	Distinct     *int64       `json:"distinct,omitempty"`
	Min          any          `json:"min,omitempty"`
	Max          any          `json:"max,omitempty"`
	P50          *float64     `json:"p50,omitempty"`          // of numbers
	P95          *float64     `json:"p95,omitempty"`          // of numbers
	Distribution []int64      `json:"distribution,omitempty"` // of numbers: records in each of twenty equal parts of the span from min to max
	Top          []ValueCount `json:"top,omitempty"`
}

// ValueCount is a value and how many records have it.
type ValueCount struct {
	Value string `json:"value"`
	Rows  int64  `json:"rows"`
}

// FieldStats are the fields of a selection.
type FieldStats struct {
	Rows    int64       `json:"rows"`  // records in the selection
	Total   int         `json:"total"` // fields that the search finds
	Sampled int         `json:"sampled"`
	Fields  []FieldStat `json:"fields"`
	*Answer

	rough bool // the rows of fields are taken from segments that reach out of the time range
}

// FieldSearch says which fields of a selection to describe, and how well.
type FieldSearch struct {
	Names  []string // whose values are counted over all records; they are described whatever else is searched for
	Top    int      // most frequent values of each; 0: 10
	Search string   // a part of the name, in any case; empty: all
	Offset int      // so many found fields are left out
	Limit  int      // then so many are described; negative: all
}

// maxFieldStats is how many fields' values are counted in one request.
const maxFieldStats = 50

// Fields describes the fields of a selection, by name. Without a filter, the rows that have a field are counted for whole segments; where these reach out of the
// time range, its share of them stands for its share of the selection.
func (e *Engine) Fields(ctx context.Context, sel Selection, s FieldSearch) (*FieldStats, error) {
	if len(s.Names) > maxFieldStats {
		return nil, millstream.Errorf(millstream.Invalid, "statistics of %d fields are too many at once: ask for at most %d", len(s.Names), maxFieldStats)
	}
	if s.Top <= 0 {
		s.Top = 10
	}
	warnings, err := e.inSQL(ctx, &sel)
	if err != nil {
		return nil, err
	}
	out := &FieldStats{}
	if out.Answer, err = e.fieldList(ctx, sel, out); err != nil {
		return nil, err
	}
	out.page(s)
	if strings.TrimSpace(sel.Filter) != "" {
		if err := e.countFields(ctx, sel, out); err != nil {
			return nil, err
		}
	}
	if err := e.sampleFields(ctx, sel, s.Names, out); err != nil {
		return nil, err
	}
	out.Warnings = append(warnings, out.Warnings...)
	for i := range out.Fields {
		f := &out.Fields[i]
		if slices.Contains(s.Names, f.Name) {
			if err := e.fieldValues(ctx, sel, f, s.Top); err != nil {
				return nil, err
			}
		}
		if out.Rows > 0 {
			f.Share = min(1, float64(f.Rows)/float64(out.Rows))
		}
	}
	return out, nil
}

// page leaves the fields that are asked for.
func (out *FieldStats) page(s FieldSearch) {
	part, kept := strings.ToLower(s.Search), []FieldStat{}
	for _, f := range out.Fields {
		found := strings.Contains(strings.ToLower(f.Name), part)
		inPage := found && out.Total >= s.Offset && (s.Limit < 0 || out.Total-s.Offset < s.Limit)
		if found {
			out.Total++
		}
		if inPage || slices.Contains(s.Names, f.Name) {
			kept = append(kept, f)
		}
	}
	out.Fields = kept
}

// fieldList lists the fields, with what the sources know of them, and counts the records in the range.
func (e *Engine) fieldList(ctx context.Context, sel Selection, out *FieldStats) (*Answer, error) {
	key := sel.key()
	return e.do(ctx, sel.request("fields of "+tableName(key), 0), func(ctx context.Context, q *task) error {
		v, err := e.open(ctx, sel.Org, []millstream.StreamKey{key}, sel.Range)
		if err != nil {
			return err
		}
		defer v.release()
		if err := e.begin(q, v); err != nil {
			return err
		}
		st := v.find(key)
		if st == nil {
			return millstream.Errorf(millstream.NotFound, "there is no stream %q of signal %s", key.Name, key.Signal)
		}
		t := e.streamTable(q, st)
		rows, err := e.fieldRows(ctx, q, t)
		if err != nil {
			return err
		}
		count := &sql.Plan{Stream: key, Aggregate: true, Aggs: []sql.Agg{{Func: sql.Count}}, Out: []sql.Output{{Key: -1}}, Limit: -1}
		return e.kernel(ctx, q, t, count, func(r *Rows) error {
			out.Rows = r.Columns[0].Ints[0]
			out.list(st.schema, rows)
			return nil
		})
	})
}

// list names the fields of a stream. rows are those that have them in whole segments, which reach out of the time range: a field's part of them is taken for its
// part of the selection.
func (out *FieldStats) list(schema millstream.Schema, rows map[string]int64) {
	whole := rows[millstream.TimestampField]
	out.rough = whole > out.Rows
	inRange := func(n int64) int64 {
		if out.rough {
			return int64(math.Round(float64(n) * float64(out.Rows) / float64(whole)))
		}
		return n
	}
	out.Fields = []FieldStat{}
	for _, f := range schema.Fields {
		if f.Name != millstream.TimestampField {
			out.Fields = append(out.Fields, FieldStat{Name: f.Name, Type: f.Type.String(), Conflict: f.Conflict, Rows: inRange(rows[f.Name])})
		}
	}
	slices.SortFunc(out.Fields, func(a, b FieldStat) int { return strings.Compare(a.Name, b.Name) })
}

// fieldRows counts the records that have each field, in the owners' segments and in what is at hand.
func (e *Engine) fieldRows(ctx context.Context, q *task, t *table) (map[string]int64, error) {
	p := &part{ask: leafAsk{Fields: true}, local: func(ctx context.Context, segments []millstream.Segment) (*heard, error) {
		rows, err := rowsOfFields(ctx, e.localInputs(q, segments))
		return &heard{here: rows}, err
	}}
	found, err := e.redivide(ctx, q, p, t.segments, nil)
	if err != nil {
		return nil, err
	}
	all, err := rowsOfFields(ctx, openedAll(t.sources))
	if err != nil {
		return nil, err
	}
	for _, h := range found {
		rows, ok := h.here.(map[string]int64)
		if !ok {
			if err := h.decode(&rows); err != nil {
				return nil, err
			}
		}
		for name, n := range rows {
			all[name] += n
		}
	}
	return all, nil
}

// rowsOfFields adds up the rows that have each field; all have the time.
func rowsOfFields(ctx context.Context, inputs []scan.Input) (map[string]int64, error) {
	rows := map[string]int64{}
	for _, in := range inputs {
		src, release, err := in.Open(ctx)
		if err != nil {
			return nil, err
		}
		for _, f := range src.Fields() {
			rows[f.Name] += f.Rows
		}
		rows[millstream.TimestampField] += int64(src.Rows())
		release()
	}
	return rows, nil
}

// fields counts fields for another node.
func (l *leaf) fields(ctx context.Context, a *leafAsk) error {
	rows, err := rowsOfFields(ctx, l.e.localInputs(l.q, a.Segments))
	if err != nil {
		return err
	}
	return l.stateOf(rows)
}

// maxCountText bounds the text of one statement that counts fields.
const maxCountText = 32 << 10

// countFields counts the records that pass the filter, and for each field those that have it; of streams with very many fields in several statements.
func (e *Engine) countFields(ctx context.Context, sel Selection, out *FieldStats) error {
	tail := " FROM " + fromClause(sel.key()) + whereClause(sel.Filter)
	for at := 0; ; {
		items, from := "count(*)", at
		for at < len(out.Fields) && len(items) < maxCountText {
			items += ", count(" + quoteName(out.Fields[at].Name) + ")"
			at++
		}
		var rows collector
		answer, err := e.Run(ctx, sel.request("SELECT "+items+tail, 0), &rows)
		if err != nil {
			return err
		}
		if err := rows.integers(0, at-from); err != nil {
			return err
		}
		out.Answer = answer
		rows.each(func(cols []millstream.Column, _ int) {
			out.Rows = cols[0].Ints[0]
			for i := range at - from {
				out.Fields[from+i].Rows = cols[1+i].Ints[0]
			}
		})
		if at == len(out.Fields) {
			return nil
		}
	}
}

func isSet(field string) string { return quoteName(field) + " IS NOT NULL" }

// value is a value as JSON has it.
func value(c *millstream.Column, i int) any {
	if !c.IsValid(i) {
		return nil
	}
	switch c.Type {
	case millstream.Bool:
		return c.Ints[i] != 0
	case millstream.Int64:
		return c.Ints[i]
	case millstream.Double:
		return jsonDouble(c.Floats[i])
	case millstream.Timestamp:
		return millstream.FormatTime(c.Ints[i])
	}
	return strings.Clone(c.Str(i))
}
