package otlp

import (
	"encoding/hex"
	"math"
	"sort"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/prometheus/prometheus/model/value"
	colmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlpmetrics "go.opentelemetry.io/proto/otlp/metrics/v1"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest/decode"
	"github.com/millstream/millstream/segment/metrics"
)

// The names of the series that one OTLP histogram or summary becomes, as Prometheus has them; names themselves are kept as sent, UTF-8 as it is.
const (
	suffixBucket = "_bucket"
	suffixSum    = "_sum"
	suffixCount  = "_count"
	suffixMin    = "_min"
	suffixMax    = "_max"
)

// temporalityLabel marks samples that are deltas, which are stored as they were sent, as Prometheus' native delta ingestion does.
const temporalityLabel = "__temporality__"

// maxName is the longest metric name in bytes.
const maxName = 512

const (
	maxLabel          = 64 << 10 // bytes of a label's value
	maxBounds         = 10_000   // buckets of a classic histogram, quantiles of a summary
	maxExemplarLabels = 64
)

type metricConverter struct {
	out    *millstream.Samples
	res    *decode.Result
	window decode.Window
	json   bool // ids were read from JSON

	limits decode.Limits
	bytes  int64  // of the keys of all series so far
	work   int64  // bytes of the keys made so far, for each sample anew
	unfit  string // why all points of the resource are rejected
	over   error  // why the request ends, if it does

	refs   map[string]uint32
	base   []millstream.Label // of the resource and scope
	labels []millstream.Label
	key    []byte
	index  int
}

func metricsOf(req *colmetrics.ExportMetricsServiceRequest, fromJSON bool, now time.Time, l decode.Limits) (decode.Result, error) {
	var res decode.Result
	c := &metricConverter{out: &millstream.Samples{}, res: &res, window: l.Window(now), limits: l.WithDefaults(), json: fromJSON, refs: map[string]uint32{}}
	for _, rm := range req.GetResourceMetrics() {
		for _, sm := range rm.GetScopeMetrics() {
			if len(sm.GetMetrics()) == 0 {
				continue
			}
			c.setBase(rm.GetResource().GetAttributes(), sm.GetScope())
			for _, m := range sm.GetMetrics() {
				if c.metric(m); c.over != nil {
					return decode.Result{}, c.over
				}
			}
		}
	}
	if len(c.out.Ref) > 0 || len(c.out.Metadata) > 0 {
		points := c.index - res.Rejected // a histogram point is one point to its sender and several samples to us
		res.Batches = append(res.Batches, &millstream.Batch{Signal: millstream.Metrics, Name: millstream.MetricStream, Samples: c.out})
		res.Accepted = points
	}
	return res, nil
}

// setBase collects the labels that all points of a scope share: the resource's attributes, service, and Prometheus' job and instance made of them.
func (c *metricConverter) setBase(resource []*common.KeyValue, scope *common.InstrumentationScope) {
	c.base, c.unfit = c.base[:0], ""
	if len(resource) > c.limits.MaxFields {
		c.unfit = "the resource has more than " + strconv.Itoa(c.limits.MaxFields) + " attributes"
		return
	}
	for _, kv := range resource {
		c.base = append(c.base, attributeLabel(kv))
	}
	svc, ns, id := service(resource), attribute(resource, "service.namespace"), attribute(resource, "service.instance.id")
	if svc != "" {
		c.base = append(c.base, millstream.Label{Name: "service", Value: svc})
		job := svc
		if ns != "" {
			job = ns + "/" + svc
		}
		c.base = append(c.base, millstream.Label{Name: "job", Value: job})
	}
	if id != "" {
		c.base = append(c.base, millstream.Label{Name: "instance", Value: id})
	}
	if n := scope.GetName(); n != "" {
		c.base = append(c.base, millstream.Label{Name: "scope.name", Value: n})
	}
	for i := range c.base {
		c.base[i].Value = valid(c.base[i].Value)
	}
	c.spend(0, len(c.base), false)
	c.base = unique(c.base)
	c.unfit = c.tooLarge(c.base)
}

func attributeLabel(kv *common.KeyValue) millstream.Label {
	if s, ok := kv.GetValue().GetValue().(*common.AnyValue_StringValue); ok {
		return millstream.Label{Name: kv.GetKey(), Value: s.StringValue}
	}
	text, ok := appendJSON(nil, kv.GetValue(), millstream.DefaultLimits.MaxDepth)
	if !ok || string(text) == "null" {
		text = nil
	}
	return millstream.Label{Name: kv.GetKey(), Value: string(text)}
}

func valid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}

func (c *metricConverter) metric(m *otlpmetrics.Metric) {
	typ := "unknown"
	name := m.GetName()
	bad := ""
	if name == "" || len(name) > maxName || !utf8.ValidString(name) {
		bad = "a metric name is 1 to 512 bytes of UTF-8"
	}
	switch d := m.GetData().(type) {
	case *otlpmetrics.Metric_Gauge:
		typ = "gauge"
		for _, p := range d.Gauge.GetDataPoints() {
			c.number(name, p, "", bad)
		}
	case *otlpmetrics.Metric_Sum:
		if typ = "gauge"; d.Sum.GetIsMonotonic() {
			typ = "counter"
		}
		for _, p := range d.Sum.GetDataPoints() {
			c.number(name, p, temporality(d.Sum.GetAggregationTemporality()), bad)
		}
	case *otlpmetrics.Metric_Histogram:
		typ = "histogram"
		for _, p := range d.Histogram.GetDataPoints() {
			c.histogram(name, p, temporality(d.Histogram.GetAggregationTemporality()), bad)
		}
	case *otlpmetrics.Metric_ExponentialHistogram:
		typ = "histogram"
		for _, p := range d.ExponentialHistogram.GetDataPoints() {
			c.exponential(name, p, temporality(d.ExponentialHistogram.GetAggregationTemporality()), bad)
		}
	case *otlpmetrics.Metric_Summary:
		typ = "summary"
		for _, p := range d.Summary.GetDataPoints() {
			c.summary(name, p, bad)
		}
	}
	if bad == "" {
		c.out.Metadata = append(c.out.Metadata, millstream.Metadata{Name: name, Type: typ, Unit: valid(m.GetUnit()), Help: valid(m.GetDescription())})
	}
}

func temporality(t otlpmetrics.AggregationTemporality) string {
	if t == otlpmetrics.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA {
		return "delta"
	}
	return ""
}

// tooLarge gives the reason why labels cannot be those of a series.
func (c *metricConverter) tooLarge(ls []millstream.Label) string {
	size := 0
	for _, l := range ls {
		if len(l.Name) > maxName || len(l.Value) > maxLabel {
			return "an attribute has a name of more than 512 bytes or a value of more than 64 KiB"
		}
		size += len(l.Name) + len(l.Value)
	}
	switch {
	case len(ls) > c.limits.MaxFields:
		return "the series has more than " + strconv.Itoa(c.limits.MaxFields) + " labels"
	case size > c.limits.MaxRecord:
		return "the labels are larger than " + strconv.Itoa(c.limits.MaxRecord) + " bytes"
	}
	return ""
}

// spend counts the key of a series, and the time that its labels take, against what one request may stand for: labels of a resource are sent once and are part
// of each of its series.
func (c *metricConverter) spend(bytes, labels int, added bool) {
	if c.work += int64(bytes) + int64(labels*labels)/16; added {
		c.bytes += int64(bytes)
	}
	if c.bytes > c.limits.MaxDecoded || c.work > 10*c.limits.MaxDecoded {
		c.over = millstream.ErrTooMuch
	}
}

// point begins a data point: its labels and times. A reason is given if it must be rejected; bad is a reason that is known already.
func (c *metricConverter) point(attrs []*common.KeyValue, at uint64, temporality, bad string) (ms int64, ok bool) {
	c.index++
	if c.over != nil {
		return 0, false
	}
	if bad == "" {
		bad = c.unfit
	}
	if bad == "" && len(attrs) > c.limits.MaxFields {
		bad = "the data point has more than " + strconv.Itoa(c.limits.MaxFields) + " attributes"
	}
	if bad == "" && at == 0 {
		bad = "the data point has no time"
	}
	if bad == "" {
		bad = c.window.Check(clamp(at))
	}
	if bad != "" {
		c.res.Reject(c.index-1, "", bad)
		return 0, false
	}
	c.labels = append(c.labels[:0], c.base...)
	for _, kv := range attrs {
		l := attributeLabel(kv)
		l.Value = valid(l.Value)
		c.set(l)
	}
	if bad = c.tooLarge(c.labels); bad != "" {
		c.res.Reject(c.index-1, "", bad)
		return 0, false
	}
	if temporality != "" {
		c.set(millstream.Label{Name: temporalityLabel, Value: temporality})
	}
	return clamp(at) / 1e6, true
}

// set adds a label or replaces the one of its name: a point's attributes stand over the resource's.
func (c *metricConverter) set(l millstream.Label) {
	if l.Name == "" {
		return
	}
	for i := range c.labels {
		if c.labels[i].Name == l.Name {
			c.labels[i].Value = l.Value
			return
		}
	}
	c.labels = append(c.labels, l)
}

// ref is the series of the current labels with a name and perhaps one more label.
func (c *metricConverter) ref(name string, extra ...millstream.Label) uint32 {
	if c.over != nil {
		return 0
	}
	ls := append(make([]millstream.Label, 0, len(c.labels)+len(extra)+1), c.labels...)
	for _, e := range extra {
		ls = override(ls, e)
	}
	ls = override(ls, millstream.Label{Name: "__name__", Value: name})
	key, err := millstream.EncodeLabels(c.key[:0], ls)
	c.key = key
	if err != nil {
		return 0 // unique has made this impossible
	}
	if r, ok := c.refs[string(key)]; ok {
		c.spend(len(key), len(ls), false)
		return r
	}
	c.spend(len(key), len(ls), true)
	r := uint32(len(c.out.Series))
	c.out.Series = append(c.out.Series, string(key))
	c.refs[c.out.Series[r]] = r
	return r
}

func override(ls []millstream.Label, l millstream.Label) []millstream.Label {
	for i := range ls {
		if ls[i].Name == l.Name {
			ls[i].Value = l.Value
			return ls
		}
	}
	return append(ls, l)
}

// unique keeps the last label of each name, and drops labels without a name.
func unique(ls []millstream.Label) []millstream.Label {
	out := ls[:0:0]
	for i, l := range ls {
		last := l.Name != ""
		for _, later := range ls[i+1:] {
			last = last && later.Name != l.Name
		}
		if last {
			out = append(out, l)
		}
	}
	return out
}

func (c *metricConverter) sample(ref uint32, ms int64, v float64, start uint64, stale bool, hist []byte) {
	o := c.out
	n := len(o.Ref)
	if start != 0 && o.Start == nil {
		o.Start = make([]int64, n)
	}
	if hist != nil && o.Histogram == nil {
		o.Histogram = make([][]byte, n)
	}
	if stale {
		v, hist = math.Float64frombits(value.StaleNaN), nil
	}
	o.Ref = append(o.Ref, ref)
	o.Time = append(o.Time, ms)
	o.Value = append(o.Value, v)
	if o.Start != nil {
		o.Start = append(o.Start, clamp(start)/1e6)
	}
	if o.Histogram != nil {
		o.Histogram = append(o.Histogram, hist)
	}
}

// stale says that the point only tells that the series has ended.
func stale(flags uint32) bool {
	return flags&uint32(otlpmetrics.DataPointFlags_DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK) != 0
}

func (c *metricConverter) number(name string, p *otlpmetrics.NumberDataPoint, temp, bad string) {
	ms, ok := c.point(p.GetAttributes(), p.GetTimeUnixNano(), temp, bad)
	if !ok {
		return
	}
	v := p.GetAsDouble()
	if i, isInt := p.GetValue().(*otlpmetrics.NumberDataPoint_AsInt); isInt {
		v = float64(i.AsInt)
	}
	ref := c.ref(name)
	c.sample(ref, ms, v, p.GetStartTimeUnixNano(), stale(p.GetFlags()), nil)
	c.exemplars(ref, p.GetExemplars())
}

// histogram becomes Prometheus' classic series: cumulative buckets by le, sum and count; min and max where the sender gives them.
func (c *metricConverter) histogram(name string, p *otlpmetrics.HistogramDataPoint, temp, bad string) {
	if n := len(p.GetBucketCounts()); bad == "" && n != 0 && n != len(p.GetExplicitBounds())+1 {
		bad = "a histogram of n bounds has n+1 bucket counts"
	}
	if bad == "" && len(p.GetExplicitBounds()) > maxBounds {
		bad = "the histogram has too many buckets"
	}
	ms, ok := c.point(p.GetAttributes(), p.GetTimeUnixNano(), temp, bad)
	if !ok {
		return
	}
	start, gone := p.GetStartTimeUnixNano(), stale(p.GetFlags())
	if p.Sum != nil {
		c.sample(c.ref(name+suffixSum), ms, p.GetSum(), start, gone, nil)
	}
	c.sample(c.ref(name+suffixCount), ms, float64(p.GetCount()), start, gone, nil)
	var sum uint64
	bounds := p.GetExplicitBounds()
	refs := make([]uint32, 0, len(bounds)+1)
	for i, b := range bounds {
		if i < len(p.GetBucketCounts()) {
			sum += p.GetBucketCounts()[i]
		}
		refs = append(refs, c.ref(name+suffixBucket, millstream.Label{Name: "le", Value: bound(b)}))
		c.sample(refs[i], ms, float64(sum), start, gone, nil)
	}
	refs = append(refs, c.ref(name+suffixBucket, millstream.Label{Name: "le", Value: "+Inf"}))
	c.sample(refs[len(bounds)], ms, float64(p.GetCount()), start, gone, nil)
	if p.Min != nil {
		c.sample(c.ref(name+suffixMin), ms, p.GetMin(), start, gone, nil)
	}
	if p.Max != nil {
		c.sample(c.ref(name+suffixMax), ms, p.GetMax(), start, gone, nil)
	}
	for _, e := range p.GetExemplars() {
		i := sort.SearchFloat64s(bounds, exemplarValue(e)) // the first bound that is not below it
		c.exemplars(refs[i], []*otlpmetrics.Exemplar{e})
	}
}

func bound(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

func (c *metricConverter) summary(name string, p *otlpmetrics.SummaryDataPoint, bad string) {
	if bad == "" && len(p.GetQuantileValues()) > maxBounds {
		bad = "the summary has too many quantiles"
	}
	ms, ok := c.point(p.GetAttributes(), p.GetTimeUnixNano(), "", bad)
	if !ok {
		return
	}
	start, gone := p.GetStartTimeUnixNano(), stale(p.GetFlags())
	c.sample(c.ref(name+suffixSum), ms, p.GetSum(), start, gone, nil)
	c.sample(c.ref(name+suffixCount), ms, float64(p.GetCount()), start, gone, nil)
	for _, q := range p.GetQuantileValues() {
		c.sample(c.ref(name, millstream.Label{Name: "quantile", Value: bound(q.GetQuantile())}), ms, q.GetValue(), start, gone, nil)
	}
}

func (c *metricConverter) exponential(name string, p *otlpmetrics.ExponentialHistogramDataPoint, temp, bad string) {
	h, reason := native(p)
	if bad == "" {
		bad = reason
	}
	if h != nil && temp != "" {
		h.CounterResetHint = gaugeHint
	}
	ms, ok := c.point(p.GetAttributes(), p.GetTimeUnixNano(), temp, bad)
	if !ok {
		return
	}
	ref := c.ref(name)
	c.sample(ref, ms, 0, p.GetStartTimeUnixNano(), stale(p.GetFlags()), metrics.EncodeHistogram(nil, h, nil))
	c.exemplars(ref, p.GetExemplars())
}

func exemplarValue(e *otlpmetrics.Exemplar) float64 {
	if i, ok := e.GetValue().(*otlpmetrics.Exemplar_AsInt); ok {
		return float64(i.AsInt)
	}
	return e.GetAsDouble()
}

func (c *metricConverter) exemplars(ref uint32, es []*otlpmetrics.Exemplar) {
	for _, e := range es {
		if len(e.GetFilteredAttributes()) > maxExemplarLabels {
			continue // an exemplar is an extra: one that cannot be kept never costs its sample
		}
		trace, span := e.GetTraceId(), e.GetSpanId()
		if c.json {
			trace, span = fromHex(trace), fromHex(span)
		}
		var ls []millstream.Label
		for _, kv := range e.GetFilteredAttributes() {
			l := attributeLabel(kv)
			l.Value = valid(l.Value)
			ls = override(ls, l)
		}
		if !zero(trace) {
			ls = override(ls, millstream.Label{Name: "trace_id", Value: hex.EncodeToString(trace)})
		}
		if !zero(span) {
			ls = override(ls, millstream.Label{Name: "span_id", Value: hex.EncodeToString(span)})
		}
		enc, err := millstream.EncodeLabels(nil, unique(ls))
		if err != nil {
			continue
		}
		c.out.Exemplars = append(c.out.Exemplars, millstream.Exemplar{Ref: ref, Time: clamp(e.GetTimeUnixNano()) / 1e6, Value: exemplarValue(e), Labels: string(enc)})
	}
}
