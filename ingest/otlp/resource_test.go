package otlp

import (
	"slices"
	"strings"
	"testing"

	collogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	colmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	otlpmetrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/millstream/millstream/ingest/decode"
)

// What docs/send.md says becomes of a resource's attributes, for the three signals side by side. The second record of each has attributes of its own by the
// names that are made from the resource.
func TestResourceAttributes(t *testing.T) {
	from := &resource.Resource{Attributes: []*common.KeyValue{
		str("service.name", "shop"), str("service.namespace", "eu"), str("service.instance.id", "i-1"), str("job", "sent"), str("k", "resource"), {Key: "n", Value: ival(3)}, {Key: "unset"},
		{Key: "m", Value: kval(str("a", "1"), &common.KeyValue{Key: "b", Value: aval(ival(2))})},
	}}
	scope := &common.InstrumentationScope{Name: "lib", Version: "2", Attributes: []*common.KeyValue{str("k", "scope"), str("s", "scope")}}
	own := []*common.KeyValue{str("service", "own"), str("instance", "own"), str("k", "own")}
	ts := uint64(now.UnixNano())

	l, err := DecodeLogs(Protobuf, Protobuf.Marshal(&collogs.ExportLogsServiceRequest{ResourceLogs: []*logs.ResourceLogs{{Resource: from, ScopeLogs: []*logs.ScopeLogs{{Scope: scope,
		LogRecords: []*logs.LogRecord{{TimeUnixNano: ts}, {TimeUnixNano: ts, Attributes: own}}}}}}}), "app", now, decode.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	const columns = " m.a:string=1 m.b:string=[2] n:int64=3 s:string=scope scope.name:string=lib scope.version:string=2 service.instance.id:string=i-1 service.name:string=shop service.namespace:string=eu service:string="
	want := []string{"job:string=sent k:string=scope" + columns + "shop", "instance:string=own job:string=sent k:string=own" + columns + "own"}
	if got := rows(l.Batches[0]); !slices.Equal(got, want) {
		t.Errorf("logs\n got %q\nwant %q", got, want)
	}

	id := []byte("0123456789abcdef")
	s, err := DecodeTraces(Protobuf, Protobuf.Marshal(&coltrace.ExportTraceServiceRequest{ResourceSpans: []*trace.ResourceSpans{{Resource: from, ScopeSpans: []*trace.ScopeSpans{{Scope: scope,
		Spans: []*trace.Span{{TraceId: id, SpanId: id[:8], StartTimeUnixNano: ts, EndTimeUnixNano: ts}, {TraceId: id, SpanId: id[8:], StartTimeUnixNano: ts, EndTimeUnixNano: ts, Attributes: own}}}}}}}), "app", now, decode.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for i, got := range rows(s.Batches[0]) {
		// A span's service is its resource's, whatever its attributes say.
		want := []string{"job:string=sent k:string=scope", "instance:string=own job:string=sent k:string=own"}[i]
		for _, part := range []string{want, columns + "shop "} {
			for _, field := range strings.Fields(part) {
				if !slices.Contains(strings.Fields(got), field) {
					t.Errorf("span %d has no %s: %s", i, field, got)
				}
			}
		}
	}

	point := func(attrs []*common.KeyValue) *otlpmetrics.NumberDataPoint {
		return &otlpmetrics.NumberDataPoint{TimeUnixNano: ts, Value: &otlpmetrics.NumberDataPoint_AsDouble{AsDouble: 1}, Attributes: attrs}
	}
	m, err := DecodeMetrics(Protobuf, Protobuf.Marshal(&colmetrics.ExportMetricsServiceRequest{ResourceMetrics: []*otlpmetrics.ResourceMetrics{{Resource: from, ScopeMetrics: []*otlpmetrics.ScopeMetrics{{Scope: scope,
		Metrics: []*otlpmetrics.Metric{{Name: "up", Data: &otlpmetrics.Metric_Gauge{Gauge: &otlpmetrics.Gauge{DataPoints: []*otlpmetrics.NumberDataPoint{point(nil), point(own)}}}}}}}}}}), now, decode.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	const labels = `,m={"a":"1","b":[2]},n=3,scope.name=lib,service=`
	got := samples(m)
	for _, series := range []string{
		"__name__=up,instance=i-1,job=eu/shop,k=resource" + labels + "shop,service.instance.id=i-1,service.name=shop,service.namespace=eu,",
		"__name__=up,instance=own,job=eu/shop,k=own" + labels + "own,service.instance.id=i-1,service.name=shop,service.namespace=eu,",
	} {
		if got[series] != "1" {
			t.Errorf("no series %s: %v", series, got)
		}
	}
	if len(got) != 2 {
		t.Errorf("series: %v", got)
	}
}
