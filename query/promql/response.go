package promql

import (
	"encoding/json"
	"io"
	"math"
	"strconv"

	"github.com/millstream/millstream"
	"github.com/prometheus/prometheus/model/exemplar"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	prom "github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/prometheus/prometheus/util/stats"
)

// Response is a successful answer. Close it after it was written.
type Response struct {
	data     any
	warnings []string
	infos    []string
	close    func()
}

type queryData struct {
	value parser.Value
	stats stats.QueryStats
}

type metadataData struct {
	names  []string
	byName map[string][]millstream.Metadata
}

// noteLimit bounds the warnings and infos of an answer, each.
const noteLimit = 10

func (r *Response) note(notes annotations.Annotations, query string) {
	r.warnings, r.infos = notes.AsStrings(query, noteLimit, noteLimit)
}

// Value is the result of a query: a Matrix, Vector, Scalar or String of Prometheus' promql package; nil for other answers. It is valid until Close.
func (r *Response) Value() parser.Value {
	if d, ok := r.data.(queryData); ok {
		return d.value
	}
	return nil
}

// Warnings says what may be wrong with the answer, such as that it is partial.
func (r *Response) Warnings() []string { return r.warnings }

// Close gives the memory of the answer back.
func (r *Response) Close() {
	if r.close != nil {
		r.close()
		r.close = nil
	}
}

// writeBytes is how much is encoded before it is written.
const writeBytes = 64 << 10

// WriteTo writes the answer as the Prometheus HTTP API's JSON.
func (r *Response) WriteTo(w io.Writer) (int64, error) {
	e := encoder{w: w, b: make([]byte, 0, 4<<10)}
	e.text(`{"status":"success"`)
	if r.data != nil {
		e.text(`,"data":`)
		e.data(r.data)
	}
	e.strings(`,"warnings":`, r.warnings)
	e.strings(`,"infos":`, r.infos)
	e.text(`}`)
	e.flush()
	return e.n, e.err
}

// encoder appends JSON and writes it in pieces.
type encoder struct {
	w   io.Writer
	b   []byte
	n   int64
	err error
}

func (e *encoder) text(s string) { e.b = append(e.b, s...) }

func (e *encoder) flush() {
	if e.err == nil && len(e.b) > 0 {
		var n int
		n, e.err = e.w.Write(e.b)
		e.n += int64(n)
	}
	e.b = e.b[:0]
}

func (e *encoder) more(first bool) {
	if !first {
		e.b = append(e.b, ',')
	}
	if len(e.b) >= writeBytes {
		e.flush()
	}
}

func (e *encoder) strings(name string, list []string) {
	if len(list) == 0 {
		return
	}
	e.text(name)
	e.list(list)
}

func (e *encoder) list(list []string) {
	e.text(`[`)
	for i, s := range list {
		e.more(i == 0)
		e.b = millstream.AppendJSONString(e.b, s)
	}
	e.text(`]`)
}

func (e *encoder) data(d any) {
	switch d := d.(type) {
	case queryData:
		e.text(`{"resultType":"` + string(d.value.Type()) + `","result":`)
		e.value(d.value)
		if d.stats != nil {
			b, err := json.Marshal(d.stats)
			if err != nil && e.err == nil {
				e.err = err
			}
			e.text(`,"stats":`)
			e.b = append(e.b, b...)
		}
		e.text(`}`)
	case string:
		e.b = millstream.AppendJSONString(e.b, d)
	case []string:
		e.list(d)
	case []labels.Labels:
		e.text(`[`)
		for i, ls := range d {
			e.more(i == 0)
			e.labels(ls)
		}
		e.text(`]`)
	case []exemplar.QueryResult:
		e.exemplars(d)
	case metadataData:
		e.metadata(d)
	case node:
		b, err := json.Marshal(d)
		if err != nil && e.err == nil {
			e.err = err
		}
		e.b = append(e.b, b...)
	}
}

func (e *encoder) value(v parser.Value) {
	switch v := v.(type) {
	case prom.Matrix:
		e.text(`[`)
		for i := range v {
			e.more(i == 0)
			e.series(&v[i])
		}
		e.text(`]`)
	case prom.Vector:
		e.text(`[`)
		for i := range v {
			e.more(i == 0)
			e.sample(&v[i])
		}
		e.text(`]`)
	case prom.Scalar:
		e.point(v.T, v.V)
	case prom.String:
		e.text(`[`)
		e.time(v.T)
		e.text(`,`)
		e.b = millstream.AppendJSONString(e.b, v.V)
		e.text(`]`)
	}
}

func (e *encoder) series(s *prom.Series) {
	e.text(`{"metric":`)
	e.labels(s.Metric)
	if len(s.Floats) > 0 {
		e.text(`,"values":[`)
		for i, p := range s.Floats {
			e.more(i == 0)
			e.point(p.T, p.F)
		}
		e.text(`]`)
	}
	if len(s.Histograms) > 0 {
		e.text(`,"histograms":[`)
		for i, p := range s.Histograms {
			e.more(i == 0)
			e.histogramPoint(p.T, p.H)
		}
		e.text(`]`)
	}
	e.text(`}`)
}

func (e *encoder) sample(s *prom.Sample) {
	e.text(`{"metric":`)
	e.labels(s.Metric)
	if s.H != nil {
		e.text(`,"histogram":`)
		e.histogramPoint(s.T, s.H)
	} else {
		e.text(`,"value":`)
		e.point(s.T, s.F)
	}
	e.text(`}`)
}

func (e *encoder) labels(ls labels.Labels) {
	e.text(`{`)
	first := true
	ls.Range(func(l labels.Label) {
		e.more(first)
		first = false
		e.b = millstream.AppendJSONString(e.b, l.Name)
		e.b = append(e.b, ':')
		e.b = millstream.AppendJSONString(e.b, l.Value)
	})
	e.text(`}`)
}

func (e *encoder) point(t int64, v float64) {
	e.b = append(e.b, '[')
	e.time(t)
	e.b = append(e.b, ',')
	e.b = appendFloat(e.b, v)
	e.b = append(e.b, ']')
}

func (e *encoder) histogramPoint(t int64, h *histogram.FloatHistogram) {
	e.text(`[`)
	e.time(t)
	e.text(`,`)
	e.histogram(h)
	e.text(`]`)
}

// time appends a time as seconds with at most three decimals.
func (e *encoder) time(t int64) {
	if t < 0 {
		e.b = append(e.b, '-')
		t = -t
	}
	e.b = strconv.AppendInt(e.b, t/1000, 10)
	if ms := t % 1000; ms != 0 {
		e.b = append(e.b, '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10))
	}
}

// appendFloat appends a value as a string, since JSON has no infinities and no NaN.
func appendFloat(dst []byte, v float64) []byte {
	dst = append(dst, '"')
	format, abs := byte('f'), math.Abs(v)
	if abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	if abs < 1<<53 && v == math.Trunc(v) && (v != 0 || !math.Signbit(v)) {
		dst = strconv.AppendInt(dst, int64(v), 10) // much faster, and most values of counters
	} else {
		dst = strconv.AppendFloat(dst, v, format, -1, 64)
	}
	return append(dst, '"')
}

// histogram appends count, sum and the buckets that are not empty: [how the bounds are included, lower, upper, count].
func (e *encoder) histogram(h *histogram.FloatHistogram) {
	e.text(`{"count":`)
	e.b = appendFloat(e.b, h.Count)
	e.text(`,"sum":`)
	e.b = appendFloat(e.b, h.Sum)
	first := true
	for it := h.AllBucketIterator(); it.Next(); {
		b := it.At()
		if b.Count == 0 {
			continue
		}
		if first {
			e.text(`,"buckets":[`)
		}
		e.more(first)
		first = false
		e.b = append(e.b, '[', bounds(b.LowerInclusive, b.UpperInclusive))
		for _, v := range []float64{b.Lower, b.Upper, b.Count} {
			e.b = appendFloat(append(e.b, ','), v)
		}
		e.text(`]`)
	}
	if !first {
		e.text(`]`)
	}
	e.text(`}`)
}

func bounds(lower, upper bool) byte {
	switch {
	case lower && upper:
		return '3'
	case lower:
		return '1'
	case upper:
		return '0'
	}
	return '2'
}

func (e *encoder) exemplars(list []exemplar.QueryResult) {
	e.text(`[`)
	for i, s := range list {
		e.more(i == 0)
		e.text(`{"seriesLabels":`)
		e.labels(s.SeriesLabels)
		e.text(`,"exemplars":[`)
		for k, x := range s.Exemplars {
			e.more(k == 0)
			e.text(`{"labels":`)
			e.labels(x.Labels)
			e.text(`,"value":`)
			e.b = appendFloat(e.b, x.Value)
			e.text(`,"timestamp":`)
			e.time(x.Ts)
			e.text(`}`)
		}
		e.text(`]}`)
	}
	e.text(`]`)
}

func (e *encoder) metadata(d metadataData) {
	e.text(`{`)
	for i, name := range d.names {
		e.more(i == 0)
		e.b = millstream.AppendJSONString(e.b, name)
		e.text(`:[`)
		for k, m := range d.byName[name] {
			e.more(k == 0)
			e.text(`{"type":`)
			e.b = millstream.AppendJSONString(e.b, m.Type)
			e.text(`,"unit":`)
			e.b = millstream.AppendJSONString(e.b, m.Unit)
			e.text(`,"help":`)
			e.b = millstream.AppendJSONString(e.b, m.Help)
			e.text(`}`)
		}
		e.text(`]`)
	}
	e.text(`}`)
}
