package otlp

import (
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/value"
	collogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	colmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	otlpmetrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest/decode"
	"github.com/millstream/millstream/segment/metrics"
)

var now = time.Unix(1_800_000_000, 0)

func str(k, v string) *common.KeyValue { return &common.KeyValue{Key: k, Value: sval(v)} }
func sval(v string) *common.AnyValue {
	return &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: v}}
}
func ival(v int64) *common.AnyValue {
	return &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: v}}
}
func kval(kvs ...*common.KeyValue) *common.AnyValue {
	return &common.AnyValue{Value: &common.AnyValue_KvlistValue{KvlistValue: &common.KeyValueList{Values: kvs}}}
}
func aval(vs ...*common.AnyValue) *common.AnyValue {
	return &common.AnyValue{Value: &common.AnyValue_ArrayValue{ArrayValue: &common.ArrayValue{Values: vs}}}
}

// rows shows each record as its fields, sorted by name.
func rows(b *millstream.Batch) (out []string) {
	for i := range b.Rows() {
		var fs []string
		for k := range b.Columns {
			if c := &b.Columns[k]; c.IsValid(i) {
				fs = append(fs, fmt.Sprintf("%s:%s=%s", c.Name, c.Type, c.Text(i)))
			}
		}
		sort.Strings(fs)
		out = append(out, strings.Join(fs, " "))
	}
	return out
}

func TestLogs(t *testing.T) {
	ts := uint64(now.UnixNano())
	req := &collogs.ExportLogsServiceRequest{ResourceLogs: []*logs.ResourceLogs{{
		Resource: &resource.Resource{Attributes: []*common.KeyValue{str("service.name", "shop"), str("host.name", "h1"), str("who", "resource")}},
		ScopeLogs: []*logs.ScopeLogs{{Scope: &common.InstrumentationScope{Name: "lib"}, LogRecords: []*logs.LogRecord{
			{TimeUnixNano: ts + 7, ObservedTimeUnixNano: ts + 9, SeverityText: "ERROR", SeverityNumber: 17, Body: sval("it broke"), TraceId: []byte("0123456789abcdef"), SpanId: []byte("01234567"),
				Attributes:             []*common.KeyValue{str("who", "record"), {Key: "n", Value: ival(3)}, {Key: "m", Value: kval(str("a", "1"), &common.KeyValue{Key: "b", Value: kval(str("c", "2"))})}, {Key: "list", Value: aval(ival(1), sval("x\"y"))}},
				DroppedAttributesCount: 2},
			{SeverityNumber: 9, Body: kval(str("message", "from a map"), str("k", "v"))},
			{TimeUnixNano: ts + uint64(48*time.Hour), Body: sval("too early")},
			{TimeUnixNano: ts, Body: ival(42)},
			{TimeUnixNano: ts, Body: &common.AnyValue{Value: &common.AnyValue_DoubleValue{DoubleValue: math.NaN()}}},
		}}}}}}
	for _, enc := range []Encoding{Protobuf, JSON} {
		body := enc.Marshal(req)
		if enc == JSON { // protojson writes ids as base64; OTLP writes hex
			body = []byte(strings.NewReplacer(`"MDEyMzQ1Njc4OWFiY2RlZg=="`, `"`+hex.EncodeToString([]byte("0123456789abcdef"))+`"`, `"MDEyMzQ1Njc="`, `"`+hex.EncodeToString([]byte("01234567"))+`"`).Replace(string(body)))
		}
		res, err := DecodeLogs(enc, body, "app", now, decode.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if res.Accepted != 4 || res.Rejected != 1 || res.Errors[0].Index != 2 {
			t.Fatalf("%+v", res)
		}
		b := res.Batches[0]
		if b.Name != "app" || b.Signal != millstream.Logs || b.Times[0] != int64(ts+7) || b.Times[1] != int64(ts) {
			t.Errorf("name %s times %v", b.Name, b.Times)
		}
		base := "host.name:string=h1 "
		want := []string{
			"dropped_attributes_count:int64=2 " + base + `level:string=error list:string=[1,"x\"y"] m.a:string=1 m.b.c:string=2 message:string=it broke n:int64=3 observed_timestamp:timestamp=` + millstream.FormatTime(int64(ts+9)) +
				" scope.name:string=lib service.name:string=shop service:string=shop severity_number:int64=17 span_id:string=3031323334353637 trace_id:string=30313233343536373839616263646566 who:string=record",
			base + "k:string=v level:string=info message:string=from a map scope.name:string=lib service.name:string=shop service:string=shop severity_number:int64=9 who:string=resource",
			base + "message:string=42 scope.name:string=lib service.name:string=shop service:string=shop who:string=resource",
			base + "message:string=NaN scope.name:string=lib service.name:string=shop service:string=shop who:string=resource",
		}
		for i, got := range rows(b) {
			if got != want[i] {
				t.Errorf("encoding %d row %d\n got %s\nwant %s", enc, i, got, want[i])
			}
		}
		if got := string(JSON.Reply(millstream.Logs, res)); !strings.Contains(got, `"rejectedLogRecords"`) || !strings.Contains(got, "future") {
			t.Errorf("reply %s", got)
		}
	}
}

func TestTraces(t *testing.T) {
	ts := uint64(now.UnixNano())
	id, span := []byte("0123456789abcdef"), []byte("01234567")
	req := &coltrace.ExportTraceServiceRequest{ResourceSpans: []*trace.ResourceSpans{{
		Resource: &resource.Resource{Attributes: []*common.KeyValue{str("service.name", "shop")}},
		ScopeSpans: []*trace.ScopeSpans{{Spans: []*trace.Span{
			{TraceId: id, SpanId: span, ParentSpanId: []byte("abcdefgh"), Name: "GET /", Kind: 2, StartTimeUnixNano: ts, EndTimeUnixNano: ts + 1500, Status: &trace.Status{Code: 2, Message: "no"},
				Attributes: []*common.KeyValue{str("http.method", "GET"), str("name", "not the span's")},
				Events:     []*trace.Span_Event{{TimeUnixNano: ts + 1, Name: "exception", Attributes: []*common.KeyValue{str("exception.type", "E")}}},
				Links:      []*trace.Span_Link{{TraceId: id, SpanId: span}}},
			{TraceId: id[:3], SpanId: span, StartTimeUnixNano: ts},
			{TraceId: id, SpanId: make([]byte, 8), StartTimeUnixNano: ts},
			{TraceId: id, SpanId: span, StartTimeUnixNano: ts, EndTimeUnixNano: ts - 5, Name: "clock"},
		}}}}}}
	res, err := DecodeTraces(Protobuf, Protobuf.Marshal(req), "default", now, decode.Limits{})
	if err != nil || res.Accepted != 2 || res.Rejected != 2 {
		t.Fatalf("%+v %v", res, err)
	}
	at := millstream.FormatTime(int64(ts))
	want := []string{
		`duration_ns:int64=1500 events:string=[{"time":"` + millstream.FormatTime(int64(ts+1)) + `","name":"exception","attributes":{"exception.type":"E"}}] http.method:string=GET kind:string=server links:string=[{"trace_id":"30313233343536373839616263646566","span_id":"3031323334353637"}] ` +
			"name:string=GET / parent_span_id:string=6162636465666768 service.name:string=shop service:string=shop span_id:string=3031323334353637 start:timestamp=" + at + " status:string=error status_message:string=no trace_id:string=30313233343536373839616263646566",
		"duration_ns:int64=0 kind:string=unspecified name:string=clock service.name:string=shop service:string=shop span_id:string=3031323334353637 start:timestamp=" + at + " status:string=unset trace_id:string=30313233343536373839616263646566",
	}
	for i, got := range rows(res.Batches[0]) {
		if got != want[i] {
			t.Errorf("row %d\n got %s\nwant %s", i, got, want[i])
		}
	}
}

func samples(res decode.Result) map[string]string {
	out := map[string]string{}
	for _, b := range res.Batches {
		s := b.Samples
		for i, r := range s.Ref {
			k := ""
			millstream.EachLabel(s.Series[r], func(n, v string) bool { k += n + "=" + v + ","; return true })
			v := fmt.Sprint(s.Value[i])
			if math.Float64bits(s.Value[i]) == value.StaleNaN {
				v = "stale"
			}
			if s.Histogram != nil && s.Histogram[i] != nil {
				h, _, err := metrics.DecodeHistogram(s.Histogram[i])
				v = fmt.Sprint(h, err)
			}
			out[k] = v
		}
	}
	return out
}

func TestMetrics(t *testing.T) {
	ts := uint64(now.UnixNano())
	sum, lo := 12.5, 0.1
	num := func(v float64, attrs ...*common.KeyValue) *otlpmetrics.NumberDataPoint {
		return &otlpmetrics.NumberDataPoint{TimeUnixNano: ts, Value: &otlpmetrics.NumberDataPoint_AsDouble{AsDouble: v}, Attributes: attrs}
	}
	gone := num(0, str("k", "gone"))
	gone.Flags = 1
	req := &colmetrics.ExportMetricsServiceRequest{ResourceMetrics: []*otlpmetrics.ResourceMetrics{{
		Resource: &resource.Resource{Attributes: []*common.KeyValue{str("service.name", "shop"), str("k", "resource")}},
		ScopeMetrics: []*otlpmetrics.ScopeMetrics{{Metrics: []*otlpmetrics.Metric{
			{Name: "temp", Unit: "C", Description: "d", Data: &otlpmetrics.Metric_Gauge{Gauge: &otlpmetrics.Gauge{DataPoints: []*otlpmetrics.NumberDataPoint{num(1.5, str("k", "point")), gone, {Value: &otlpmetrics.NumberDataPoint_AsInt{AsInt: 1}}}}}},
			{Name: "http.reqs", Data: &otlpmetrics.Metric_Sum{Sum: &otlpmetrics.Sum{IsMonotonic: true, AggregationTemporality: 1, DataPoints: []*otlpmetrics.NumberDataPoint{num(7)}}}},
			{Name: "lat", Data: &otlpmetrics.Metric_Histogram{Histogram: &otlpmetrics.Histogram{AggregationTemporality: 2, DataPoints: []*otlpmetrics.HistogramDataPoint{
				{TimeUnixNano: ts, Count: 6, Sum: &sum, Min: &lo, ExplicitBounds: []float64{1, 2.5}, BucketCounts: []uint64{1, 2, 3},
					Exemplars: []*otlpmetrics.Exemplar{{TimeUnixNano: ts, Value: &otlpmetrics.Exemplar_AsDouble{AsDouble: 2}, TraceId: []byte("0123456789abcdef")}}},
				{TimeUnixNano: ts, Count: 6, ExplicitBounds: []float64{1}, BucketCounts: []uint64{1}},
			}}}},
			{Name: "exp", Data: &otlpmetrics.Metric_ExponentialHistogram{ExponentialHistogram: &otlpmetrics.ExponentialHistogram{DataPoints: []*otlpmetrics.ExponentialHistogramDataPoint{
				{TimeUnixNano: ts, Count: 11, Sum: &sum, Scale: 9, ZeroCount: 1, Positive: &otlpmetrics.ExponentialHistogramDataPoint_Buckets{Offset: 2, BucketCounts: []uint64{1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 4}}}}}}},
			{Name: "s", Data: &otlpmetrics.Metric_Summary{Summary: &otlpmetrics.Summary{DataPoints: []*otlpmetrics.SummaryDataPoint{{TimeUnixNano: ts, Count: 2, Sum: 3, QuantileValues: []*otlpmetrics.SummaryDataPoint_ValueAtQuantile{{Quantile: 0.5, Value: 9}}}}}}},
		}}}}}}
	res, err := DecodeMetrics(Protobuf, Protobuf.Marshal(req), now, decode.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	got := samples(res)
	base := "job=shop,k=resource,service=shop,service.name=shop,"
	// Scale 9 becomes 8: indexes 2,3,4 and 12 halve to 1,1,2 and 6, which Prometheus numbers one higher.
	exp := &histogram.Histogram{Schema: 8, Count: 11, Sum: sum, ZeroCount: 1, PositiveSpans: []histogram.Span{{Offset: 2, Length: 2}, {Offset: 3, Length: 1}}, PositiveBuckets: []int64{3, 0, 1}}
	want := map[string]string{
		"__name__=temp,job=shop,k=point,service=shop,service.name=shop,":                  "1.5",
		"__name__=temp,job=shop,k=gone,service=shop,service.name=shop,":                   "stale",
		"__name__=http.reqs,__temporality__=delta," + base:                                "7",
		"__name__=lat_sum," + base:                                                        "12.5",
		"__name__=lat_count," + base:                                                      "6",
		"__name__=lat_min," + base:                                                        "0.1",
		"__name__=lat_bucket,job=shop,k=resource,le=1,service=shop,service.name=shop,":    "1",
		"__name__=lat_bucket,job=shop,k=resource,le=2.5,service=shop,service.name=shop,":  "3",
		"__name__=lat_bucket,job=shop,k=resource,le=+Inf,service=shop,service.name=shop,": "6",
		"__name__=exp," + base:                                                            fmt.Sprint(exp, nil),
		"__name__=s_sum," + base:                                                          "3",
		"__name__=s_count," + base:                                                        "2",
		"__name__=s,job=shop,k=resource,quantile=0.5,service=shop,service.name=shop,":     "9",
	}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s = %q, want %q", k, got[k], v)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d samples, want %d: %v", len(got), len(want), got)
	}
	if res.Rejected != 2 || res.Accepted != 6 {
		t.Errorf("accepted %d rejected %d %v", res.Accepted, res.Rejected, res.Errors)
	}
	ex := res.Batches[0].Samples.Exemplars
	if len(ex) != 1 || millstream.LabelValue(res.Batches[0].Samples.Series[ex[0].Ref], "le") != "2.5" || millstream.LabelValue(ex[0].Labels, "trace_id") != hex.EncodeToString([]byte("0123456789abcdef")) {
		t.Errorf("exemplars %+v", ex)
	}
}

func TestPublishedExamples(t *testing.T) {
	for file, f := range map[string]func([]byte) (decode.Result, error){
		"logs":    func(b []byte) (decode.Result, error) { return DecodeLogs(JSON, b, "x", now, decode.Limits{}) },
		"events":  func(b []byte) (decode.Result, error) { return DecodeLogs(JSON, b, "x", now, decode.Limits{}) },
		"trace":   func(b []byte) (decode.Result, error) { return DecodeTraces(JSON, b, "x", now, decode.Limits{}) },
		"metrics": func(b []byte) (decode.Result, error) { return DecodeMetrics(JSON, b, now, decode.Limits{}) },
	} {
		body, err := os.ReadFile("testdata/" + file + ".json")
		if err != nil {
			t.Fatal(err)
		}
		res, err := f(body)
		if err != nil || res.Accepted == 0 || res.Rejected != 0 {
			t.Errorf("%s: %+v %v", file, res, err)
		}
		if file == "trace" && !strings.Contains(rows(res.Batches[0])[0], "trace_id:string=5b8efff798038103d269b633813fc60c") {
			t.Errorf("the trace id was not read as hex: %v", rows(res.Batches[0]))
		}
	}
}

func TestBadBodies(t *testing.T) {
	for _, enc := range []Encoding{Protobuf, JSON} {
		if _, err := DecodeLogs(enc, []byte("{nonsense"), "x", now, decode.Limits{}); millstream.KindOf(err) != millstream.Invalid {
			t.Errorf("%v", err)
		}
	}
	if _, err := DecodeLogs(Protobuf, nil, "../x", now, decode.Limits{}); millstream.KindOf(err) != millstream.Invalid {
		t.Errorf("stream name: %v", err)
	}
	deep := sval("x")
	for range 40 {
		deep = kval(&common.KeyValue{Key: "k", Value: deep})
	}
	req := &collogs.ExportLogsServiceRequest{ResourceLogs: []*logs.ResourceLogs{{ScopeLogs: []*logs.ScopeLogs{{LogRecords: []*logs.LogRecord{{Attributes: []*common.KeyValue{{Key: "a", Value: deep}}}, {Body: sval("good")}}}}}}}
	res, err := Logs(req, "x", now, decode.Limits{})
	if err != nil || res.Accepted != 1 || res.Rejected != 1 || !strings.Contains(res.Errors[0].Reason, "deeper than 32") {
		t.Errorf("%+v %v", res, err)
	}
	for ct, want := range map[string]bool{"application/x-protobuf": true, "application/json; charset=utf-8": true, "text/plain": false, "": false} {
		if _, err := EncodingOf(ct); (err == nil) != want {
			t.Errorf("%q: %v", ct, err)
		}
	}
}

func FuzzMetrics(f *testing.F) {
	b, _ := proto.Marshal(&colmetrics.ExportMetricsServiceRequest{ResourceMetrics: []*otlpmetrics.ResourceMetrics{{ScopeMetrics: []*otlpmetrics.ScopeMetrics{{Metrics: []*otlpmetrics.Metric{
		{Name: "e", Data: &otlpmetrics.Metric_ExponentialHistogram{ExponentialHistogram: &otlpmetrics.ExponentialHistogram{DataPoints: []*otlpmetrics.ExponentialHistogramDataPoint{{TimeUnixNano: 1, Count: 1, Positive: &otlpmetrics.ExponentialHistogramDataPoint_Buckets{Offset: 5, BucketCounts: []uint64{1}}}}}}}}}}}}})
	f.Add(b)
	f.Fuzz(func(t *testing.T, body []byte) {
		res, err := DecodeMetrics(Protobuf, body, now, decode.Limits{})
		if err != nil {
			return
		}
		for _, b := range res.Batches {
			if _, err := millstream.DecodeBatch(b.AppendTo(nil)); err != nil {
				t.Fatal(err)
			}
			for _, h := range b.Samples.Histogram {
				if h != nil {
					if _, _, err := metrics.DecodeHistogram(h); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	})
}

func BenchmarkTraces(b *testing.B) {
	var spans []*trace.Span
	for i := range 500 {
		s := &trace.Span{TraceId: []byte("0123456789abcdef"), SpanId: []byte("01234567"), Name: "GET /api/v1/cart", Kind: 2, StartTimeUnixNano: uint64(now.UnixNano()), EndTimeUnixNano: uint64(now.UnixNano() + int64(i))}
		for k := range 8 {
			s.Attributes = append(s.Attributes, str(fmt.Sprintf("attribute.%d", k), "some value"))
		}
		spans = append(spans, s)
	}
	body := Protobuf.Marshal(&coltrace.ExportTraceServiceRequest{ResourceSpans: []*trace.ResourceSpans{{Resource: &resource.Resource{Attributes: []*common.KeyValue{str("service.name", "shop")}}, ScopeSpans: []*trace.ScopeSpans{{Spans: spans}}}}})
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if res, err := DecodeTraces(Protobuf, body, "x", now, decode.Limits{}); err != nil || res.Accepted != 500 {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/500, "ns/span")
}
