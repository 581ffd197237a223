package query

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millstream/millstream"
)

// collector is a sink that keeps an answer.
type collector struct {
	cols   []Column
	blocks []*Rows
}

func (c *collector) Columns(cs []Column) error { c.cols = cs; return nil }
func (c *collector) Rows(r *Rows) error        { c.blocks = append(c.blocks, r); return nil }

// each calls f for every row.
func (c *collector) each(f func(cols []millstream.Column, i int)) {
	for _, b := range c.blocks {
		for i := range b.N {
			f(b.Columns, i)
		}
	}
}

// quoteName writes an identifier.
func quoteName(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

// quoteText writes a string literal.
func quoteText(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// fromClause names a stream in SQL.
func fromClause(k millstream.StreamKey) string {
	if k.Signal == millstream.Logs || k.Signal == 0 {
		return quoteName(k.Name)
	}
	return k.Signal.String() + "." + quoteName(k.Name)
}

// whereClause is a filter that a user typed, kept apart by parentheses and a line end, so that a comment in it ends. What else the text may do is the gate's
// business, as for any statement.
func whereClause(filters ...string) string {
	var all []string
	for _, f := range filters {
		if strings.TrimSpace(f) != "" {
			all = append(all, "("+f+"\n)")
		}
	}
	if len(all) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(all, " AND ")
}

// Selection is what the explorer looks at: a stream, a time range and a filter, which is a SQL condition or empty.
type Selection struct {
	Org    millstream.OrgID
	User   string
	Signal millstream.Signal // 0: logs
	Stream string
	Range  millstream.TimeRange
	Filter string
}

func (s Selection) key() millstream.StreamKey {
	return millstream.StreamKey{Org: s.Org, Signal: cmp.Or(s.Signal, millstream.Logs), Name: s.Stream}
}

func (s Selection) request(statement string, limit int) Request {
	return Request{Org: s.Org, User: s.User, Language: "sql", Statement: statement, Range: s.Range, Limit: limit}
}

// Histogram is the number of records per time bucket, for each of the most frequent values of a field, or for all records under one nil value.
type Histogram struct {
	Interval string            `json:"interval"` // a Go duration
	Buckets  []string          `json:"buckets"`  // start of each bucket, RFC 3339; empty buckets are there too
	Series   []HistogramSeries `json:"series"`   // by total, greatest first
	Total    int64             `json:"total"`
	*Answer
}

// HistogramSeries counts the records with one value. Other sums up what is not listed by value; a nil Value that is not Other is null.
type HistogramSeries struct {
	Value  *string `json:"value"`
	Other  bool    `json:"other,omitempty"`
	Total  int64   `json:"total"`
	Counts []int64 `json:"counts"`
}

// Limits of a histogram.
const (
	autoBuckets = 60
	maxBuckets  = 5000
	maxSeries   = 10
)

// niceIntervals are the bucket widths that are chosen from when none is asked for.
var niceIntervals = []time.Duration{
	time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second,
	30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 3 * time.Hour,
	6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour,
}

// Histogram counts records per interval; 0 chooses one that gives about sixty buckets. by is a field to divide by, or empty.
func (e *Engine) Histogram(ctx context.Context, sel Selection, interval time.Duration, by string) (*Histogram, error) {
	span := time.Duration(sel.Range.End - sel.Range.Start)
	if sel.Range.End <= sel.Range.Start || span < 0 {
		return nil, millstream.Errorf(millstream.Invalid, "the time range of a histogram must have a start before its end")
	}
	if interval <= 0 {
		interval = niceIntervals[len(niceIntervals)-1]
		for _, n := range niceIntervals {
			if span/n <= autoBuckets {
				interval = n
				break
			}
		}
	}
	if span/interval > maxBuckets {
		return nil, millstream.Errorf(millstream.Invalid, "a histogram of %d buckets is too fine: use an interval of at least %s", span/interval, span/maxBuckets)
	}
	items, groups := fmt.Sprintf("histogram(_timestamp, '%d microseconds') AS b, count(*) AS n", max(1, interval.Microseconds())), "b"
	if by != "" {
		items, groups = items+", "+quoteName(by)+" AS v", "b, v"
	}
	var rows collector
	answer, err := e.Run(ctx, sel.request("SELECT "+items+" FROM "+fromClause(sel.key())+whereClause(sel.Filter)+" GROUP BY "+groups, 0), &rows)
	if err != nil {
		return nil, err
	}
	h := &Histogram{Interval: interval.String(), Answer: answer}
	h.fill(sel.Range, int64(interval), &rows)
	return h, nil
}

// fill lays the rows (bucket, count[, value]) out as series.
func (h *Histogram) fill(r millstream.TimeRange, width int64, rows *collector) {
	first := floor(r.Start, width)
	n := int((r.End-1-first)/width) + 1
	for i := range n {
		h.Buckets = append(h.Buckets, millstream.FormatTime(first+int64(i)*width))
	}
	series := map[string]*HistogramSeries{}
	rows.each(func(cols []millstream.Column, i int) {
		key, value := "", (*string)(nil)
		if len(cols) > 2 && cols[2].IsValid(i) {
			text := strings.Clone(cols[2].Text(i))
			key, value = "="+text, &text
		}
		s := series[key]
		if s == nil {
			s = &HistogramSeries{Value: value, Counts: make([]int64, n)}
			series[key] = s
		}
		if at := (cols[0].Ints[i] - first) / width; at >= 0 && at < int64(n) {
			s.Counts[at] += cols[1].Ints[i]
		}
		s.Total += cols[1].Ints[i]
		h.Total += cols[1].Ints[i]
	})
	h.Series = []HistogramSeries{}
	for _, s := range series {
		h.Series = append(h.Series, *s)
	}
	slices.SortFunc(h.Series, func(a, b HistogramSeries) int {
		return cmp.Or(cmp.Compare(b.Total, a.Total), strings.Compare(deref(a.Value), deref(b.Value)))
	})
	h.fold()
}

// fold sums up the series beyond the most frequent.
func (h *Histogram) fold() {
	if len(h.Series) <= maxSeries {
		return
	}
	other := HistogramSeries{Other: true, Counts: make([]int64, len(h.Buckets))}
	for _, s := range h.Series[maxSeries:] {
		other.Total += s.Total
		for i, c := range s.Counts {
			other.Counts[i] += c
		}
	}
	h.Series = append(h.Series[:maxSeries:maxSeries], other)
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func floor(t, width int64) int64 {
	m := t % width
	if m < 0 {
		m += width
	}
	return t - m
}

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

// Fields describes the fields of a selection. For the named ones, or for none, it also counts distinct values and gives the least, the greatest and the top
// most frequent. Without a filter, the numbers of other fields' rows are those of every segment that overlaps the range.
func (e *Engine) Fields(ctx context.Context, sel Selection, names []string, top int) (*FieldStats, error) {
	if len(names) > maxFieldStats {
		return nil, millstream.Errorf(millstream.Invalid, "statistics of %d fields are too many at once: ask for at most %d", len(names), maxFieldStats)
	}
	if top <= 0 {
		top = 10
	}
	out := &FieldStats{Fields: []FieldStat{}}
	if err := e.fieldList(ctx, sel, out); err != nil {
		return nil, err
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

// fieldList counts, in one statement, the records and each field's values.
func (e *Engine) fieldList(ctx context.Context, sel Selection, out *FieldStats) error {
	key := sel.key()
	v, err := e.open(ctx, sel.Org, []millstream.StreamKey{key}, sel.Range)
	if err != nil {
		return err
	}
	st := v.find(key)
	v.release()
	if st == nil {
		return millstream.Errorf(millstream.NotFound, "there is no stream %q of signal %s", key.Name, key.Signal)
	}
	items := []string{"count(*)"}
	for _, f := range st.schema.Fields {
		if f.Name != millstream.TimestampField {
			out.Fields = append(out.Fields, FieldStat{Name: f.Name, Type: f.Type.String(), Conflict: f.Conflict})
			items = append(items, "count("+quoteName(f.Name)+")")
		}
	}
	var rows collector
	out.Answer, err = e.Run(ctx, sel.request("SELECT "+strings.Join(items, ", ")+" FROM "+fromClause(key)+whereClause(sel.Filter), 0), &rows)
	if err != nil {
		return err
	}
	rows.each(func(cols []millstream.Column, _ int) {
		out.Rows = cols[0].Ints[0]
		for i := range out.Fields {
			out.Fields[i].Rows = cols[i+1].Ints[0]
		}
	})
	slices.SortFunc(out.Fields, func(a, b FieldStat) int { return strings.Compare(a.Name, b.Name) })
	return nil
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
