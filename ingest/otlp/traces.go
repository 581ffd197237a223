package otlp

import (
	"encoding/hex"
	"strconv"
	"time"

	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest/decode"
)

var (
	colDuration      = []byte("duration_ns")
	colStart         = []byte("start")
	colEvents        = []byte("events")
	colLinks         = []byte("links")
	colDroppedEvents = []byte("dropped_events_count")
	colDroppedLinks  = []byte("dropped_links_count")
)

var spanKinds = []string{"unspecified", "internal", "server", "client", "producer", "consumer"}

var statusCodes = []string{"unset", "ok", "error"}

// Traces converts a request that is already a message.
func Traces(req *coltrace.ExportTraceServiceRequest, stream string, now time.Time, l decode.Limits) (decode.Result, error) {
	if err := decode.CheckStream(stream); err != nil {
		return decode.Result{}, err
	}
	l = l.WithDefaults()
	c := &spanConverter{fields: fields{b: millstream.NewBuilder(l.Limits), maxDepth: l.MaxDepth}, window: l.Window(now)}
	var res decode.Result
	index := 0
	for _, rs := range req.GetResourceSpans() {
		attrs := rs.GetResource().GetAttributes()
		svc := service(attrs)
		var bad shared
		for _, ss := range rs.GetScopeSpans() {
			bad.scope = ""
			for _, s := range ss.GetSpans() {
				field, reason := bad.known()
				if reason == "" {
					field, reason = c.span(s, svc, attrs, ss.GetScope())
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
		b.Signal, b.Name = millstream.Traces, stream
		res.Add(b)
	}
	return res, nil
}

type spanConverter struct {
	fields
	window decode.Window
	json   []byte
}

func (c *spanConverter) span(s *trace.Span, svc string, resource []*common.KeyValue, scope *common.InstrumentationScope) (field, reason string) {
	switch {
	case len(s.GetTraceId()) != 16 || zero(s.GetTraceId()):
		return "trace_id", "a trace id is 16 bytes, not all zero"
	case len(s.GetSpanId()) != 8 || zero(s.GetSpanId()):
		return "span_id", "a span id is 8 bytes, not all zero"
	case s.GetStartTimeUnixNano() == 0:
		return "start", "the span has no start time"
	}
	at := clamp(s.GetStartTimeUnixNano())
	if reason = c.window.Check(at); reason != "" {
		return millstream.TimestampField, reason
	}
	if reason = c.attributes(resource); reason != "" {
		return inResource, reason
	}
	c.str("scope.name", scope.GetName())
	c.str("scope.version", scope.GetVersion())
	if reason = c.attributes(scope.GetAttributes()); reason != "" {
		return inScope, reason
	}
	if reason = c.attributes(s.GetAttributes()); reason != "" {
		return "attributes", reason
	}
	c.own(s, svc, at)
	if reason = c.events(s.GetEvents()); reason != "" {
		return "events", reason
	}
	if reason = c.links(s.GetLinks()); reason != "" {
		return "links", reason
	}
	return c.commit(at)
}

// own sets the span's own fields, over any attribute of the same name.
func (c *spanConverter) own(s *trace.Span, svc string, at int64) {
	c.str("service", svc)
	c.hex("trace_id", s.GetTraceId())
	c.hex("span_id", s.GetSpanId())
	if p := s.GetParentSpanId(); !zero(p) {
		c.hex("parent_span_id", p)
	}
	c.name = append(c.name[:0], "name"...)
	c.text(s.GetName())
	c.str("kind", pick(spanKinds, int(s.GetKind())))
	c.str("status", pick(statusCodes, int(s.GetStatus().GetCode())))
	c.str("status_message", s.GetStatus().GetMessage())
	c.b.Time(colStart, at)
	c.b.Int(colDuration, max(0, clamp(s.GetEndTimeUnixNano())-at)) // an end before the start is a sender's clock, not a duration
	c.str("trace_state", s.GetTraceState())
	for _, n := range []struct {
		col []byte
		n   uint32
	}{{colDropped, s.GetDroppedAttributesCount()}, {colDroppedEvents, s.GetDroppedEventsCount()}, {colDroppedLinks, s.GetDroppedLinksCount()}, {colFlags, s.GetFlags()}} {
		if n.n > 0 {
			c.b.Int(n.col, int64(n.n))
		}
	}
}

func pick(names []string, i int) string {
	if i < 0 || i >= len(names) {
		return names[0]
	}
	return names[i]
}

// events are kept as JSON: [{"time","name","attributes"}], time in RFC 3339.
func (c *spanConverter) events(es []*trace.Span_Event) (reason string) {
	if len(es) == 0 {
		return ""
	}
	out := append(c.json[:0], '[')
	for i, e := range es {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, `{"time":"`...)
		out = append(out, millstream.FormatTime(clamp(e.GetTimeUnixNano()))...)
		out = append(out, `","name":`...)
		out = millstream.AppendJSONString(out, e.GetName())
		var ok bool
		if out, ok = c.extras(out, e.GetAttributes(), e.GetDroppedAttributesCount()); !ok {
			return "event attributes nest too deeply"
		}
	}
	c.json = append(out, ']')
	c.b.String(colEvents, c.json)
	return ""
}

// links are kept as JSON: [{"trace_id","span_id","trace_state","attributes"}].
func (c *spanConverter) links(ls []*trace.Span_Link) (reason string) {
	if len(ls) == 0 {
		return ""
	}
	out := append(c.json[:0], '[')
	for i, k := range ls {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, `{"trace_id":"`...)
		out = hex.AppendEncode(out, k.GetTraceId())
		out = append(out, `","span_id":"`...)
		out = append(hex.AppendEncode(out, k.GetSpanId()), '"')
		if ts := k.GetTraceState(); ts != "" {
			out = millstream.AppendJSONString(append(out, `,"trace_state":`...), ts)
		}
		var ok bool
		if out, ok = c.extras(out, k.GetAttributes(), k.GetDroppedAttributesCount()); !ok {
			return "link attributes nest too deeply"
		}
	}
	c.json = append(out, ']')
	c.b.String(colLinks, c.json)
	return ""
}

// extras ends an event or a link with its attributes and the number of those that its sender dropped.
func (c *spanConverter) extras(out []byte, attrs []*common.KeyValue, dropped uint32) ([]byte, bool) {
	if len(attrs) > 0 {
		var ok bool
		if out, ok = appendObject(append(out, `,"attributes":`...), attrs, c.maxDepth); !ok {
			return out, false
		}
	}
	if dropped > 0 {
		out = strconv.AppendUint(append(out, `,"dropped_attributes_count":`...), uint64(dropped), 10)
	}
	return append(out, '}'), true
}
