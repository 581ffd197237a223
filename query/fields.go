package query

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query/sql"
)

// FieldStat is what is known of a field in a selection.
type FieldStat struct {
	Name     string       `json:"name"`
	Type     string       `json:"type"`
	Conflict bool         `json:"conflict,omitempty"` // values of several types were seen
	Rows     int64        `json:"rows"`               // records that have a value
	Distinct *int64       `json:"distinct,omitempty"`
	Min      any          `json:"min,omitempty"`
	Max      any          `json:"max,omitempty"`
	Top      []ValueCount `json:"top,omitempty"`
}

// ValueCount is a value and how many records have it.
type ValueCount struct {
	Value string `json:"value"`
	Rows  int64  `json:"rows"`
}

// FieldStats are the fields of a selection.
type FieldStats struct {
	Rows   int64       `json:"rows"` // records in the selection
	Fields []FieldStat `json:"fields"`
	*Answer
}

// maxFieldStats is how many fields' values are counted in one request.
const maxFieldStats = 50

// Fields describes the fields of a selection. For the named ones, if any, it also counts distinct values and gives the least, the greatest and the top most
// frequent. Without a filter, the rows that have a field are counted for whole segments, also where a segment reaches out of the time range.
func (e *Engine) Fields(ctx context.Context, sel Selection, names []string, top int) (*FieldStats, error) {
	if len(names) > maxFieldStats {
		return nil, millstream.Errorf(millstream.Invalid, "statistics of %d fields are too many at once: ask for at most %d", len(names), maxFieldStats)
	}
	if top <= 0 {
		top = 10
	}
	out := &FieldStats{}
	var err error
	if out.Answer, err = e.fieldList(ctx, sel, out); err != nil {
		return nil, err
	}
	if strings.TrimSpace(sel.Filter) != "" {
		if err := e.countFields(ctx, sel, out); err != nil {
			return nil, err
		}
	}
	for i := range out.Fields {
		if slices.Contains(names, out.Fields[i].Name) {
			if err := e.fieldValues(ctx, sel, &out.Fields[i], top); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
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
		t, rows := e.streamTable(q, st), map[string]int64{}
		for _, in := range t.inputs() {
			src, release, err := in.Open(ctx)
			if err != nil {
				return err
			}
			for _, f := range src.Fields() {
				rows[f.Name] += f.Rows
			}
			release()
		}
		out.Fields = []FieldStat{}
		for _, f := range st.schema.Fields {
			if f.Name != millstream.TimestampField {
				out.Fields = append(out.Fields, FieldStat{Name: f.Name, Type: f.Type.String(), Conflict: f.Conflict, Rows: rows[f.Name]})
			}
		}
		slices.SortFunc(out.Fields, func(a, b FieldStat) int { return strings.Compare(a.Name, b.Name) })
		count := &sql.Plan{Stream: key, Aggregate: true, Aggs: []sql.Agg{{Func: sql.Count}}, Out: []sql.Output{{Key: -1}}, Limit: -1}
		return e.kernel(ctx, q, t, count, func(r *Rows) error {
			out.Rows = r.Columns[0].Ints[0]
			return nil
		})
	})
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

func (e *Engine) fieldValues(ctx context.Context, sel Selection, f *FieldStat, top int) error {
	name, from := quoteName(f.Name), " FROM "+fromClause(sel.key())+whereClause(sel.Filter, isSet(f.Name))
	var stats, values collector
	if _, err := e.Run(ctx, sel.request(fmt.Sprintf("SELECT count(DISTINCT %s), min(%s), max(%s)", name, name, name)+from, 0), &stats); err != nil {
		return err
	}
	stats.each(func(cols []millstream.Column, i int) {
		n := cols[0].Ints[i]
		f.Distinct = &n
		f.Min, f.Max = value(&cols[1], i), value(&cols[2], i)
	})
	statement := fmt.Sprintf("SELECT %s AS v, count(*) AS n", name) + from + fmt.Sprintf(" GROUP BY v ORDER BY n DESC, v LIMIT %d", top)
	if _, err := e.Run(ctx, sel.request(statement, 0), &values); err != nil {
		return err
	}
	values.each(func(cols []millstream.Column, i int) {
		f.Top = append(f.Top, ValueCount{strings.Clone(cols[0].Text(i)), cols[1].Ints[i]})
	})
	return nil
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
