package metrics

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/millstream/millstream"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// tableRows is how many rows a batch of Table has at most.
const tableRows = 8192

// The columns of a metric's table beside its labels and the time. A label of the same name gets "label_" in front.
const (
	valueColumn     = "value"
	histogramColumn = "histogram"
	countColumn     = "count"
	sumColumn       = "sum"
	exemplarPrefix  = "exemplar_"
)

// Table emits the samples of one metric name within a time range (ns, half open) as rows, by series and time: the time, value (null for a histogram), a string
// column per label, and where they occur histogram (JSON) with count and sum, and exemplar_value, exemplar_timestamp and a column exemplar_<label> per label of
// exemplars. An exemplar stands in the first row of its series that is not before it. All batches have the same columns, and stay valid
// after the call.
func Table(ctx context.Context, srcs []Source, name string, r millstream.TimeRange, emit func(*millstream.Batch) error) error {
	m, err := labels.NewMatcher(labels.MatchEqual, nameLabel, name)
	if err != nil {
		return err
	}
	q := Query{Min: ceilMillis(r.Start), Max: ceilMillis(r.End) - 1, Matchers: []*labels.Matcher{m}}
	if q.Max < q.Min {
		return nil
	}
	series, err := Select(ctx, srcs, q)
	if err != nil || len(series) == 0 {
		return err
	}
	exemplars, err := Exemplars(ctx, srcs, q)
	if err != nil {
		return err
	}
	t := newTableBuilder(name, series, exemplars)
	var it Iterator
	for i := range series {
		if err := ctx.Err(); err != nil {
			return err
		}
		t.begin(series[i].Key)
		it.Reset(series[i].Chunks)
		for kind := it.Seek(q.Min); kind != chunkenc.ValNone && it.AtT() <= q.Max; kind = it.Next() {
			if endOfSeries(&it, kind) {
				continue
			}
			if t.row(&it, kind) == tableRows {
				if err := emit(t.take()); err != nil {
					return err
				}
			}
		}
		if err := it.Err(); err != nil {
			return err
		}
	}
	if len(t.batch.Times) == 0 {
		return nil
	}
	return emit(t.take())
}

// ceilMillis is the first millisecond that is not before a time in nanoseconds.
func ceilMillis(ns int64) int64 {
	ms := ns / 1_000_000
	if ns%1_000_000 > 0 {
		ms++
	}
	return ms
}

// labelColumn is a dictionary column of label values.
type labelColumn struct {
	label string
	dict  []string
	codes map[string]uint32
	code  uint32 // of the current row
	valid bool
}

func (c *labelColumn) set(value string) {
	if c.valid = value != ""; !c.valid {
		c.code = 0
		return
	}
	code, ok := c.codes[value]
	if !ok {
		code = uint32(len(c.dict))
		c.dict, c.codes[value] = append(c.dict, value), code
	}
	c.code = code
}

// tableBuilder collects rows.
type tableBuilder struct {
	batch     *millstream.Batch
	labels    []*labelColumn
	at        []*labelColumn // labels of exemplars
	byKey     map[string][]millstream.Exemplar
	pending   []millstream.Exemplar // of the current series, not given to a row yet
	hists     bool
	exemplars bool
	name      string
}

func newTableBuilder(name string, series []Series, exemplars []SeriesExemplars) *tableBuilder {
	t := &tableBuilder{name: name, byKey: map[string][]millstream.Exemplar{}, exemplars: len(exemplars) > 0}
	seen, at := map[string]struct{}{}, map[string]struct{}{}
	for i := range series {
		collectNames(seen, series[i].Key)
		t.hists = t.hists || slices.ContainsFunc(series[i].Chunks, func(c Chunk) bool { return c.isHistogram() })
	}
	delete(seen, nameLabel)
	for _, e := range exemplars {
		t.byKey[e.Key] = e.Exemplars
		for _, x := range e.Exemplars {
			collectNames(at, x.Labels)
		}
	}
	t.labels, t.at = labelColumns(seen), labelColumns(at)
	t.reset()
	return t
}

func collectNames(into map[string]struct{}, key string) {
	millstream.EachLabel(key, func(name, _ string) bool {
		into[name] = struct{}{}
		return true
	})
}

func labelColumns(names map[string]struct{}) []*labelColumn {
	var out []*labelColumn
	for _, n := range sortedKeys(names) {
		out = append(out, &labelColumn{label: n, codes: map[string]uint32{}})
	}
	return out
}

// LabelColumn is the column of a label in a metric's table.
func LabelColumn(label string) string {
	switch label {
	case valueColumn, histogramColumn, countColumn, sumColumn, millstream.TimestampField:
		return "label_" + label
	}
	if strings.HasPrefix(label, exemplarPrefix) || strings.HasPrefix(label, "label_") {
		return "label_" + label
	}
	return label
}

// The places of the columns that are not labels of the series.
const (
	valueAt = iota
	countAt
	sumAt
	histogramAt
)

func (t *tableBuilder) reset() {
	b := &millstream.Batch{Signal: millstream.Metrics, Name: t.name}
	b.Columns = append(b.Columns, millstream.Column{Name: valueColumn, Type: millstream.Double})
	if t.hists {
		b.Columns = append(b.Columns, millstream.Column{Name: countColumn, Type: millstream.Double}, millstream.Column{Name: sumColumn, Type: millstream.Double},
			millstream.Column{Name: histogramColumn, Type: millstream.String, Offsets: []uint32{0}})
	}
	for _, c := range t.labels {
		b.Columns = append(b.Columns, millstream.Column{Name: LabelColumn(c.label), Type: millstream.String, Codes: []uint32{}})
	}
	if t.exemplars {
		b.Columns = append(b.Columns, millstream.Column{Name: exemplarPrefix + valueColumn, Type: millstream.Double},
			millstream.Column{Name: exemplarPrefix + "timestamp", Type: millstream.Timestamp})
		for _, c := range t.at {
			b.Columns = append(b.Columns, millstream.Column{Name: exemplarPrefix + LabelColumn(c.label), Type: millstream.String, Codes: []uint32{}})
		}
	}
	t.batch = b
}

// take returns the rows collected and starts anew.
func (t *tableBuilder) take() *millstream.Batch {
	b := t.batch
	i := t.firstLabel()
	for _, c := range t.labels {
		b.Columns[i].Dict = c.dict
		i++
	}
	if i += 2; t.exemplars {
		for _, c := range t.at {
			b.Columns[i].Dict = c.dict
			i++
		}
	}
	t.reset()
	return b
}

func (t *tableBuilder) firstLabel() int {
	if t.hists {
		return histogramAt + 1
	}
	return valueAt + 1
}

func (t *tableBuilder) begin(key string) {
	t.pending = t.byKey[key]
	setLabels(t.labels, key)
}

func setLabels(columns []*labelColumn, key string) {
	for _, c := range columns {
		c.set(millstream.LabelValue(key, c.label))
	}
}

// endOfSeries says whether the sample is Prometheus' marker that the series has ended: a sign for PromQL and no value, so no row.
func endOfSeries(it *Iterator, kind chunkenc.ValueType) bool {
	if kind == chunkenc.ValFloat {
		_, v := it.At()
		return value.IsStaleNaN(v)
	}
	_, fh := it.AtFloatHistogram(nil)
	return value.IsStaleNaN(fh.Sum)
}

// row adds the sample on which the iterator stands and returns the number of rows.
func (t *tableBuilder) row(it *Iterator, kind chunkenc.ValueType) int {
	ms := it.AtT()
	n := len(t.batch.Times)
	t.batch.Times = append(t.batch.Times, nanoseconds(ms))
	t.value(it, kind, n)
	i := t.firstLabel()
	i = t.appendLabels(t.labels, i, n)
	if t.exemplars {
		t.exemplar(ms, i, n)
	}
	return n + 1
}

func (t *tableBuilder) value(it *Iterator, kind chunkenc.ValueType, n int) {
	cs := t.batch.Columns
	var fh *histogram.FloatHistogram
	v := 0.0
	if kind == chunkenc.ValFloat {
		_, v = it.At()
	} else {
		_, fh = it.AtFloatHistogram(nil)
	}
	cs[valueAt].Floats = append(cs[valueAt].Floats, v)
	setValid(&cs[valueAt], n, fh == nil)
	if !t.hists {
		return
	}
	count, sum := 0.0, 0.0
	h := &cs[histogramAt]
	if fh != nil {
		count, sum = fh.Count, fh.Sum
		h.Bytes = appendHistogramJSON(h.Bytes, fh)
	}
	h.Offsets = append(h.Offsets, uint32(len(h.Bytes)))
	cs[countAt].Floats, cs[sumAt].Floats = append(cs[countAt].Floats, count), append(cs[sumAt].Floats, sum)
	for _, i := range []int{countAt, sumAt, histogramAt} {
		setValid(&cs[i], n, fh != nil)
	}
}

func (t *tableBuilder) appendLabels(columns []*labelColumn, i, n int) int {
	for _, c := range columns {
		col := &t.batch.Columns[i]
		col.Codes = append(col.Codes, c.code)
		setValid(col, n, c.valid)
		i++
	}
	return i
}

// exemplar adds the newest exemplar that is not after the sample, if it has not been in a row yet.
func (t *tableBuilder) exemplar(ms int64, i, n int) {
	passed := 0
	for passed < len(t.pending) && t.pending[passed].Time <= ms {
		passed++
	}
	var e millstream.Exemplar
	if passed > 0 {
		e, t.pending = t.pending[passed-1], t.pending[passed:]
	}
	value, at := &t.batch.Columns[i], &t.batch.Columns[i+1]
	value.Floats, at.Ints = append(value.Floats, e.Value), append(at.Ints, nanoseconds(e.Time))
	setValid(value, n, passed > 0)
	setValid(at, n, passed > 0)
	setLabels(t.at, e.Labels)
	t.appendLabels(t.at, i+2, n)
}

// setValid says whether row n of a column, the newest, has a value.
func setValid(c *millstream.Column, n int, valid bool) {
	if c.Valid == nil {
		if valid {
			return
		}
		c.Valid = make([]uint64, n>>6+1)
		for i := range n {
			c.Valid[i>>6] |= 1 << (i & 63)
		}
	}
	for len(c.Valid) <= n>>6 {
		c.Valid = append(c.Valid, 0)
	}
	if valid {
		c.Valid[n>>6] |= 1 << (n & 63)
	}
}

// appendHistogramJSON appends a histogram as {"schema", "count", "sum", "zero_threshold", "zero_count", "buckets": [[lower, upper, count], …]}. Values that JSON
// does not know are strings.
func appendHistogramJSON(dst []byte, fh *histogram.FloatHistogram) []byte {
	dst = append(dst, `{"schema":`...)
	dst = strconv.AppendInt(dst, int64(fh.Schema), 10)
	for _, f := range []struct {
		name  string
		value float64
	}{{"count", fh.Count}, {"sum", fh.Sum}, {"zero_threshold", fh.ZeroThreshold}, {"zero_count", fh.ZeroCount}} {
		dst = append(append(append(dst, `,"`...), f.name...), `":`...)
		dst = appendNumber(dst, f.value)
	}
	dst = append(dst, `,"buckets":[`...)
	first := true
	for it := fh.AllBucketIterator(); it.Next(); {
		b := it.At()
		if b.Count == 0 {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = appendNumber(append(dst, '['), b.Lower)
		dst = appendNumber(append(dst, ','), b.Upper)
		dst = append(appendNumber(append(dst, ','), b.Count), ']')
	}
	return append(dst, "]}"...)
}

func appendNumber(dst []byte, v float64) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return strconv.AppendQuote(dst, strconv.FormatFloat(v, 'f', -1, 64))
	}
	return append(dst, millstream.FormatDouble(v)...)
}
