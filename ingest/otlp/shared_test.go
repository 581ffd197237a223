package otlp

import (
	"strconv"
	"strings"
	"testing"
	"time"

	collogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	colmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	otlpmetrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest/decode"
)

func text(key, value string) *common.KeyValue {
	return &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: value}}}
}

// records is a request of n empty records of one resource.
func records(n int, attrs ...*common.KeyValue) *collogs.ExportLogsServiceRequest {
	rs := make([]*logs.LogRecord, n)
	for i := range rs {
		rs[i] = &logs.LogRecord{}
	}
	return &collogs.ExportLogsServiceRequest{ResourceLogs: []*logs.ResourceLogs{{Resource: &resource.Resource{Attributes: attrs}, ScopeLogs: []*logs.ScopeLogs{{LogRecords: rs}}}}}
}

// The attributes of a resource come once and are stored with each of its records: neither the memory nor the time of that may follow from a small request.
func TestSharedAttributes(t *testing.T) {
	many := make([]*common.KeyValue, 50_000)
	for i := range many {
		many[i] = text("k"+strconv.Itoa(i), "v")
	}
	deep := &common.AnyValue{}
	for range 40 {
		deep = &common.AnyValue{Value: &common.AnyValue_ArrayValue{ArrayValue: &common.ArrayValue{Values: []*common.AnyValue{deep}}}}
	}
	list := &common.AnyValue_ArrayValue{ArrayValue: &common.ArrayValue{}}
	for range 50_000 {
		list.ArrayValue.Values = append(list.ArrayValue.Values, &common.AnyValue{})
	}
	list.ArrayValue.Values = append(list.ArrayValue.Values, deep)
	nested := &common.KeyValue{Key: "m", Value: &common.AnyValue{Value: &common.AnyValue_KvlistValue{KvlistValue: &common.KeyValueList{Values: many}}}}
	for name, c := range map[string]struct {
		req      *collogs.ExportLogsServiceRequest
		kind     millstream.Kind
		rejected int
	}{
		"long":   {records(5_000, text("big", strings.Repeat("x", 64<<10))), millstream.TooLarge, 0},
		"many":   {records(100_000, many...), millstream.TooLarge, 0},
		"nested": {records(100_000, nested), millstream.TooLarge, 0},
		"deep":   {records(100_000, &common.KeyValue{Key: "l", Value: &common.AnyValue{Value: list}}), 0, 100_000},
		"usual":  {records(5_000, text("host.name", strings.Repeat("h", 1000))), 0, 0},
	} {
		start := time.Now()
		res, err := Logs(c.req, "s", time.Now(), decode.Limits{Limits: millstream.Limits{MaxValues: 10 << 20}})
		if (err == nil) != (c.kind == 0) || err != nil && millstream.KindOf(err) != c.kind || res.Rejected != c.rejected {
			t.Errorf("%s: %d rejected, %v", name, res.Rejected, err)
		}
		if took := time.Since(start); took > 15*time.Second {
			t.Errorf("%s took %v", name, took)
		}
	}
}

// gauge is a request of n points of one gauge, each with the attributes that f gives it.
func gauge(n int, f func(i int) []*common.KeyValue, attrs ...*common.KeyValue) *colmetrics.ExportMetricsServiceRequest {
	points := make([]*otlpmetrics.NumberDataPoint, n)
	for i := range points {
		points[i] = &otlpmetrics.NumberDataPoint{TimeUnixNano: 1, Attributes: f(i)}
	}
	m := &otlpmetrics.Metric{Name: "m", Data: &otlpmetrics.Metric_Gauge{Gauge: &otlpmetrics.Gauge{DataPoints: points}}}
	return &colmetrics.ExportMetricsServiceRequest{ResourceMetrics: []*otlpmetrics.ResourceMetrics{{Resource: &resource.Resource{Attributes: attrs},
		ScopeMetrics: []*otlpmetrics.ScopeMetrics{{Metrics: []*otlpmetrics.Metric{m}}}}}}
}

// The same holds for the labels of series, and a series is bounded as a record is.
func TestSharedLabels(t *testing.T) {
	some := func(n int) []*common.KeyValue {
		out := make([]*common.KeyValue, n)
		for i := range out {
			out[i] = text("k"+strconv.Itoa(i), "v")
		}
		return out
	}
	numbered := func(i int) []*common.KeyValue { return []*common.KeyValue{text("i", strconv.Itoa(i))} }
	same := func(int) []*common.KeyValue { return nil }
	histogram := gauge(0, same, some(900)...)
	histogram.ResourceMetrics[0].ScopeMetrics[0].Metrics[0].Data = &otlpmetrics.Metric_Histogram{Histogram: &otlpmetrics.Histogram{DataPoints: []*otlpmetrics.HistogramDataPoint{
		{TimeUnixNano: 1, ExplicitBounds: make([]float64, 200_000), BucketCounts: make([]uint64, 200_001)}}}}
	for name, c := range map[string]struct {
		req      *colmetrics.ExportMetricsServiceRequest
		kind     millstream.Kind
		rejected int
	}{
		"usual":                 {gauge(1000, numbered, some(30)...), 0, 0},
		"many on a point":       {gauge(10, func(int) []*common.KeyValue { return some(20_000) }), 0, 10},
		"many together":         {gauge(10, func(int) []*common.KeyValue { return []*common.KeyValue{text("a", "1"), text("b", "2")} }, some(999)...), 0, 10},
		"many on the resource":  {gauge(100_000, numbered, some(50_000)...), 0, 100_000},
		"a long value":          {gauge(2, func(int) []*common.KeyValue { return []*common.KeyValue{text("a", strings.Repeat("x", 65<<10))} }), 0, 2},
		"series of one's":       {gauge(100_000, numbered, text("big", strings.Repeat("x", 60<<10))), millstream.TooLarge, 0},
		"points of one series":  {gauge(100_000, same, some(900)...), millstream.TooLarge, 0},
		"buckets beyond reason": {histogram, 0, 1},
	} {
		start := time.Now()
		res, err := Metrics(c.req, time.Unix(1, 0), decode.Limits{MaxDecoded: 10 << 20})
		if (err == nil) != (c.kind == 0) || err != nil && millstream.KindOf(err) != c.kind || res.Rejected != c.rejected {
			t.Errorf("%s: %d rejected, %v", name, res.Rejected, err)
		}
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("%s took %v", name, took)
		}
	}
}
