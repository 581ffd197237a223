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

// integers fails unless the given columns are integers or times. A filter that is more than a condition, such as one that adds the rows of a second statement, may
// change what a column is.
func (c *collector) integers(columns ...int) error {
	for _, b := range c.blocks {
		for _, k := range columns {
			if k >= len(b.Columns) || len(b.Columns[k].Ints) < b.N {
				return errNoCondition
			}
		}
	}
	return nil
}

var errNoCondition = millstream.Errorf(millstream.Invalid, "the filter is not a condition on the stream's records")

// quoteName writes an identifier.
func quoteName(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

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

// Selection is what the explorer looks at: a stream, a time range and a filter, which may be empty.
type Selection struct {
	Org      millstream.OrgID
	User     string
	Signal   millstream.Signal // 0: logs
	Stream   string
	Range    millstream.TimeRange
	Language string // of the filter: sql, the default, for a condition; or search
	Filter   string
}

func (s Selection) key() millstream.StreamKey {
	return millstream.StreamKey{Org: s.Org, Signal: cmp.Or(s.Signal, millstream.Logs), Name: s.Stream}
}

func (s Selection) request(statement string, limit int) Request {
	return Request{Org: s.Org, User: s.User, Language: "sql", Statement: statement, Signal: s.Signal, Stream: s.Stream, Range: s.Range, Limit: limit}
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
	warnings, err := e.inSQL(ctx, &sel)
	if err != nil {
		return nil, err
	}
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
	if err := rows.integers(0, 1); err != nil {
		return nil, err
	}
	answer.Warnings = append(warnings, answer.Warnings...)
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
