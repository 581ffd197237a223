package otlp

import (
	"strconv"
	"strings"
	"testing"
	"time"

	collogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
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
	many := make([]*common.KeyValue, 300_000)
	for i := range many {
		many[i] = text("k"+strconv.Itoa(i), "v")
	}
	deep := &common.AnyValue{}
	for range 40 {
		deep = &common.AnyValue{Value: &common.AnyValue_ArrayValue{ArrayValue: &common.ArrayValue{Values: []*common.AnyValue{deep}}}}
	}
	list := &common.AnyValue_ArrayValue{ArrayValue: &common.ArrayValue{}}
	for range 300_000 {
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
		"usual":  {records(10_000, text("host.name", strings.Repeat("h", 1000))), 0, 0},
	} {
		start := time.Now()
		res, err := Logs(c.req, "s", time.Now(), decode.Limits{})
		if (err == nil) != (c.kind == 0) || err != nil && millstream.KindOf(err) != c.kind || res.Rejected != c.rejected {
			t.Errorf("%s: %d rejected, %v", name, res.Rejected, err)
		}
		if took := time.Since(start); took > 15*time.Second {
			t.Errorf("%s took %v", name, took)
		}
	}
}
