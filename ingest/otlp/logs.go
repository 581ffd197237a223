package otlp

import (
	"encoding/base64"
	"math"
	"strings"
	"time"

	collogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest/decode"
)

// The columns of a log record.
var (
	colSeverityNumber = []byte("severity_number")
	colObserved       = []byte("observed_timestamp")
	colDropped        = []byte("dropped_attributes_count")
	colFlags          = []byte("trace_flags")
)

// Logs converts a request that is already a message.
func Logs(req *collogs.ExportLogsServiceRequest, stream string, now time.Time, l decode.Limits) (decode.Result, error) {
	if err := decode.CheckStream(stream); err != nil {
		return decode.Result{}, err
	}
	l = l.WithDefaults()
	c := &logConverter{fields: fields{b: millstream.NewBuilder(l.Limits), maxDepth: l.MaxDepth}, window: l.Window(now), now: now.UnixNano()}
	var res decode.Result
	index := 0
	for _, rl := range req.GetResourceLogs() {
		attrs := rl.GetResource().GetAttributes()
		svc := service(attrs)
		var bad shared
		for _, sl := range rl.GetScopeLogs() {
			bad.scope = ""
			for _, r := range sl.GetLogRecords() {
				field, reason := bad.known()
				if reason == "" {
					field, reason = c.record(r, svc, attrs, sl.GetScope())
				}
				if c.over != nil {
					return decode.Result{}, c.over
				}
				if reason != "" {
					c.b.Abort()
					res.Reject(index, field, reason)
					bad.note(field, reason)
				}
				index++
			}
		}
	}
	if b := c.b.Batch(); b != nil {
		b.Signal, b.Name = millstream.Logs, stream
		res.Add(b)
	}
	return res, nil
}

type logConverter struct {
	fields
	window decode.Window
	now    int64
}

// record sets the fields of one record: what is set later wins, so record attributes stand over those of the scope and the resource.
func (c *logConverter) record(r *logs.LogRecord, svc string, resource []*common.KeyValue, scope *common.InstrumentationScope) (field, reason string) {
	at := c.now
	if t := r.GetTimeUnixNano(); t != 0 {
		at = clamp(t)
	} else if t := r.GetObservedTimeUnixNano(); t != 0 {
		at = clamp(t)
	}
	if reason = c.window.Check(at); reason != "" {
		return millstream.TimestampField, reason
	}
	c.str("service", svc)
	if reason = c.attributes(resource); reason != "" {
		return inResource, reason
	}
	c.str("scope.name", scope.GetName())
	c.str("scope.version", scope.GetVersion())
	if reason = c.attributes(scope.GetAttributes()); reason != "" {
		return inScope, reason
	}
	if reason = c.attributes(r.GetAttributes()); reason != "" {
		return "attributes", reason
	}
	if reason = c.body(r.GetBody()); reason != "" {
		return "body", reason
	}
	c.severity(r)
	if id := r.GetTraceId(); !zero(id) {
		c.hex("trace_id", id)
	}
	if id := r.GetSpanId(); !zero(id) {
		c.hex("span_id", id)
	}
	if n := r.GetDroppedAttributesCount(); n > 0 {
		c.b.Int(colDropped, int64(n))
	}
	if n := r.GetFlags(); n > 0 {
		c.b.Int(colFlags, int64(n))
	}
	if t := r.GetObservedTimeUnixNano(); t != 0 && r.GetTimeUnixNano() != 0 {
		c.b.Time(colObserved, clamp(t))
	}
	c.str("event_name", r.GetEventName())
	return c.commit(at)
}

// body becomes the message: a map is flattened into fields, an array is kept as JSON, any other value is its text.
func (c *logConverter) body(v *common.AnyValue) (reason string) {
	switch x := v.GetValue().(type) {
	case *common.AnyValue_KvlistValue:
		return c.attributes(x.KvlistValue.GetValues())
	case *common.AnyValue_StringValue:
		c.name = append(c.name[:0], "message"...)
		c.text(x.StringValue)
		return ""
	case *common.AnyValue_BytesValue:
		c.str("message", base64.StdEncoding.EncodeToString(x.BytesValue))
		return ""
	case *common.AnyValue_DoubleValue: // NaN and the infinities are texts of JSON, but not here
		c.str("message", millstream.FormatDouble(x.DoubleValue))
		return ""
	case nil:
		return ""
	}
	text, ok := appendJSON(nil, v, c.maxDepth)
	if !ok {
		return "the body nests too deeply"
	}
	c.name = append(c.name[:0], "message"...)
	c.b.String(c.name, text)
	return ""
}

// severity sets the level: the sender's text in lower case, else the name of the number's range.
func (c *logConverter) severity(r *logs.LogRecord) {
	n := int(r.GetSeverityNumber())
	level := strings.ToLower(r.GetSeverityText())
	if level == "" && n > 0 && n <= 24 {
		level = []string{"trace", "debug", "info", "warn", "error", "fatal"}[(n-1)/4]
	}
	c.str("level", level)
	if n != 0 {
		c.b.Int(colSeverityNumber, int64(n))
	}
}

// clamp makes a time of OTLP's unsigned nanoseconds; one beyond the year 2262 becomes the last representable, which the window then judges.
func clamp(t uint64) int64 {
	if t > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(t)
}
