package query

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/millstream/millstream"
)

// distributionParts is into how many parts the span of a number field is divided.
const distributionParts = 20

// isNumber says whether a field has quantiles.
func (f *FieldStat) isNumber() bool {
	return f.Type == millstream.Int64.String() || f.Type == millstream.Double.String()
}

// fieldValues counts a field's values over the whole selection.
func (e *Engine) fieldValues(ctx context.Context, sel Selection, f *FieldStat, top int) error {
	name, from := quoteName(f.Name), " FROM "+fromClause(sel.key())+whereClause(sel.Filter, isSet(f.Name))
	items := fmt.Sprintf("SELECT count(DISTINCT %s), min(%s), max(%s)", name, name, name)
	if f.isNumber() {
		items += fmt.Sprintf(", quantile_cont(%s, 0.5), quantile_cont(%s, 0.95)", name, name)
	}
	var stats collector
	if _, err := e.Run(ctx, sel.request(items+from, 0), &stats); err != nil {
		return err
	}
	if err := stats.integers(0); err != nil {
		return err
	}
	stats.each(func(cols []millstream.Column, i int) {
		n := cols[0].Ints[i]
		f.Distinct = &n
		f.Min, f.Max = value(&cols[1], i), value(&cols[2], i)
		if f.isNumber() {
			f.P50, f.P95 = double(&cols[3], i), double(&cols[4], i)
		}
	})
	var err error
	if f.Top, err = e.topValues(ctx, sel, f.Name, top, ""); err != nil {
		return err
	}
	return e.distribution(ctx, sel, f)
}

// topValues are the most frequent values of a field in a selection, whose filter is SQL; condition, if any, is another one.
func (e *Engine) topValues(ctx context.Context, sel Selection, field string, top int, condition string) (out []ValueCount, err error) {
	var values collector
	statement := "SELECT " + quoteName(field) + " AS v, count(*) AS n FROM " + fromClause(sel.key()) + whereClause(sel.Filter, isSet(field), condition) +
		fmt.Sprintf(" GROUP BY v ORDER BY n DESC, v LIMIT %d", top)
	if _, err := e.Run(ctx, sel.request(statement, 0), &values); err != nil {
		return nil, err
	}
	if err := values.integers(1); err != nil {
		return nil, err
	}
	values.each(func(cols []millstream.Column, i int) {
		out = append(out, ValueCount{strings.Clone(cols[0].Text(i)), cols[1].Ints[i]})
	})
	return out, nil
}

// double is a value as a double; nil if it is none that JSON has.
func double(c *millstream.Column, i int) *float64 {
	var v float64
	switch {
	case !c.IsValid(i):
		return nil
	case c.Type == millstream.Int64:
		v = float64(c.Ints[i])
	case c.Type == millstream.Double && !math.IsNaN(c.Floats[i]) && !math.IsInf(c.Floats[i], 0):
		v = c.Floats[i]
	default:
		return nil
	}
	return &v
}

// span is the least and the greatest value of a number field; false if there is none, or if they are not finite.
func (f *FieldStat) span() (lo, hi float64, ok bool) {
	finite := func(v any) (float64, bool) {
		switch v := v.(type) {
		case int64:
			return float64(v), true
		case float64:
			return v, true
		}
		return 0, false
	}
	lo, ok1 := finite(f.Min)
	hi, ok2 := finite(f.Max)
	return lo, hi, ok1 && ok2 && !math.IsInf(hi-lo, 0)
}

// distribution counts a number field's values in equal parts of its span.
func (e *Engine) distribution(ctx context.Context, sel Selection, f *FieldStat) error {
	lo, hi, ok := f.span()
	if !f.isNumber() || !ok {
		return nil
	}
	literal := func(v float64) string { return "CAST('" + strconv.FormatFloat(v, 'g', -1, 64) + "' AS DOUBLE)" }
	part := "0"
	if hi > lo {
		part = fmt.Sprintf("least(%d, CAST(floor((CAST(%s AS DOUBLE) - %s) / %s) AS BIGINT))", distributionParts-1, quoteName(f.Name), literal(lo), literal((hi-lo)/distributionParts))
	}
	var counts collector
	statement := "SELECT " + part + " AS part, count(*) AS n FROM " + fromClause(sel.key()) + whereClause(sel.Filter, isSet(f.Name)) + " GROUP BY part"
	if _, err := e.Run(ctx, sel.request(statement, 0), &counts); err != nil {
		return err
	}
	if err := counts.integers(0, 1); err != nil {
		return err
	}
	f.Distribution = make([]int64, distributionParts)
	counts.each(func(cols []millstream.Column, i int) {
		if at := cols[0].Ints[i]; at >= 0 && at < distributionParts {
			f.Distribution[at] += cols[1].Ints[i]
		}
	})
	return nil
}

// Bounds of a sample.
const (
	sampleRows   = 2000 // newest records that estimates are made from
	sampleFields = 1000 // in a longer list nothing is estimated
)

// sampleFields estimates the figures of the fields that are not named.
func (e *Engine) sampleFields(ctx context.Context, sel Selection, named []string, out *FieldStats) error {
	var fields []*FieldStat
	for i := range out.Fields {
		if f := &out.Fields[i]; f.Rows > 0 && !slices.Contains(named, f.Name) {
			fields = append(fields, f)
		}
	}
	if len(fields) > sampleFields {
		return nil
	}
	tail := " FROM " + fromClause(sel.key()) + whereClause(sel.Filter) + " ORDER BY _timestamp DESC"
	for len(fields) > 0 {
		items, n := "SELECT _timestamp", 0
		for n < len(fields) && (n == 0 || len(items) < maxCountText) {
			items += ", " + quoteName(fields[n].Name)
			n++
		}
		var rows collector
		_, err := e.Run(ctx, sel.request(items+tail, sampleRows), &rows)
		if millstream.KindOf(err) == millstream.Unprocessable {
			return nil // the records are too large to look at; the list goes without estimates
		}
		if err != nil {
			return err
		}
		out.Sampled = 0
		for _, b := range rows.blocks {
			out.Sampled += b.N
		}
		for i, f := range fields[:n] {
			f.estimate(&rows, i+1, out)
		}
		fields = fields[n:]
	}
	return nil
}

// estimate makes a field's figures from the column of a sample.
func (f *FieldStat) estimate(rows *collector, column int, of *FieldStats) {
	seen, numbers, n := map[string]int{}, []float64{}, int64(0)
	rows.each(func(cols []millstream.Column, i int) {
		c := &cols[column]
		if !c.IsValid(i) {
			return
		}
		n++
		seen[string(appendText(nil, c, i))]++
		if v := double(c, i); v != nil && f.isNumber() {
			numbers = append(numbers, *v)
		}
	})
	if of.rough && int64(of.Sampled) == of.Rows {
		f.Rows = n
	}
	if n == 0 {
		return
	}
	once := 0
	for _, times := range seen {
		if times == 1 {
			once++
		}
	}
	have := f.Rows
	if of.rough {
		have = n * of.Rows / int64(max(1, of.Sampled))
	}
	// Values seen once stand for those that were not seen: the estimator whose worst error is least (Charikar et al., 2000).
	distinct := int64(len(seen)-once) + int64(math.Round(float64(once)*math.Sqrt(float64(max(have, n))/float64(n))))
	f.Estimated, f.Distinct = true, &distinct
	if len(numbers) > 0 {
		f.estimateNumbers(numbers)
	}
}

func (f *FieldStat) estimateNumbers(numbers []float64) {
	slices.Sort(numbers)
	lo, hi := numbers[0], numbers[len(numbers)-1]
	quantile := func(p float64) *float64 {
		at := p * float64(len(numbers)-1)
		below := numbers[int(at)]
		v := below + (at-math.Floor(at))*(numbers[int(math.Ceil(at))]-below)
		return &v
	}
	f.Min, f.Max, f.P50, f.P95 = lo, hi, quantile(0.5), quantile(0.95)
	if math.IsInf(hi-lo, 0) {
		return
	}
	f.Distribution = make([]int64, distributionParts)
	for _, v := range numbers {
		f.Distribution[min(distributionParts-1, int((v-lo)/cmp.Or((hi-lo)/distributionParts, 1)))]++
	}
}
