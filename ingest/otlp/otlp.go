// Package otlp turns OTLP requests, in protobuf or JSON, into batches: logs and traces as columns, metrics as Prometheus series.
package otlp

import (
	"encoding/base64"
	"encoding/hex"
	"mime"
	"time"

	collogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	colmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest/decode"
)

// Encoding is the encoding of an OTLP/HTTP request, and so of its reply.
type Encoding uint8

// The two encodings of OTLP/HTTP.
const (
	Protobuf Encoding = iota
	JSON
)

// EncodingOf tells the encoding from a Content-Type; any other is Unsupported.
func EncodingOf(contentType string) (Encoding, error) {
	typ, _, err := mime.ParseMediaType(contentType)
	switch {
	case err == nil && typ == "application/x-protobuf":
		return Protobuf, nil
	case err == nil && typ == "application/json":
		return JSON, nil
	}
	return 0, millstream.Errorf(millstream.Unsupported, "content type %q: OTLP/HTTP sends application/x-protobuf or application/json", contentType)
}

// DecodeLogs reads an ExportLogsServiceRequest; stream names the stream of all its records.
func DecodeLogs(e Encoding, body []byte, stream string, now time.Time, l decode.Limits) (decode.Result, error) {
	var req collogs.ExportLogsServiceRequest
	if err := e.unmarshal(body, &req); err != nil {
		return decode.Result{}, err
	}
	if e == JSON {
		for _, rl := range req.GetResourceLogs() {
			for _, sl := range rl.GetScopeLogs() {
				for _, r := range sl.GetLogRecords() {
					r.TraceId, r.SpanId = fromHex(r.TraceId), fromHex(r.SpanId)
				}
			}
		}
	}
	return Logs(&req, stream, now, l)
}

// DecodeTraces reads an ExportTraceServiceRequest.
func DecodeTraces(e Encoding, body []byte, stream string, now time.Time, l decode.Limits) (decode.Result, error) {
	var req coltrace.ExportTraceServiceRequest
	if err := e.unmarshal(body, &req); err != nil {
		return decode.Result{}, err
	}
	if e == JSON {
		for _, rs := range req.GetResourceSpans() {
			for _, ss := range rs.GetScopeSpans() {
				for _, s := range ss.GetSpans() {
					s.TraceId, s.SpanId, s.ParentSpanId = fromHex(s.TraceId), fromHex(s.SpanId), fromHex(s.ParentSpanId)
					for _, k := range s.GetLinks() {
						k.TraceId, k.SpanId = fromHex(k.TraceId), fromHex(k.SpanId)
					}
				}
			}
		}
	}
	return Traces(&req, stream, now, l)
}

// DecodeMetrics reads an ExportMetricsServiceRequest.
func DecodeMetrics(e Encoding, body []byte, now time.Time, l decode.Limits) (decode.Result, error) {
	var req colmetrics.ExportMetricsServiceRequest
	if err := e.unmarshal(body, &req); err != nil {
		return decode.Result{}, err
	}
	return metricsOf(&req, e == JSON, now, l)
}

// Metrics converts a request that is already a message.
func Metrics(req *colmetrics.ExportMetricsServiceRequest, now time.Time, l decode.Limits) (decode.Result, error) {
	return metricsOf(req, false, now, l)
}

func (e Encoding) unmarshal(body []byte, m proto.Message) error {
	var err error
	what := "protobuf"
	if e == JSON {
		what = "JSON"
		err = protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(body, m)
	} else {
		err = proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(body, m)
	}
	if err != nil {
		return millstream.Wrap(millstream.Invalid, err, "the body is not an OTLP %s message of this path, as its Content-Type says: %v", what, err)
	}
	return nil
}

// fromHex undoes what the JSON mapping of protobuf did to an id: OTLP/JSON writes ids in hex, which was read as base64. Hex digits are base64 digits, so
// nothing is lost. What is not hex stays as it was read, and fails the check of its length later.
func fromHex(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	id, err := hex.DecodeString(base64.RawStdEncoding.EncodeToString(b))
	if err != nil {
		return b
	}
	return id
}

// Reply encodes the answer of an OTLP/HTTP export in the request's encoding: partialSuccess only when something was rejected. Signal decides the message.
func (e Encoding) Reply(sig millstream.Signal, res decode.Result) []byte {
	var m proto.Message
	switch sig {
	case millstream.Logs:
		m = LogsReply(res)
	case millstream.Traces:
		m = TracesReply(res)
	default:
		m = MetricsReply(res)
	}
	return e.Marshal(m)
}

// Marshal encodes a message in the encoding.
func (e Encoding) Marshal(m proto.Message) []byte {
	var b []byte
	if e == JSON {
		b, _ = protojson.Marshal(m) // a message of ours always marshals
		return b
	}
	b, _ = proto.Marshal(m)
	return b
}

// LogsReply is the reply message for logs.
func LogsReply(res decode.Result) *collogs.ExportLogsServiceResponse {
	if res.Rejected == 0 {
		return &collogs.ExportLogsServiceResponse{}
	}
	return &collogs.ExportLogsServiceResponse{PartialSuccess: &collogs.ExportLogsPartialSuccess{RejectedLogRecords: int64(res.Rejected), ErrorMessage: firstReason(res)}}
}

// TracesReply is the reply message for traces.
func TracesReply(res decode.Result) *coltrace.ExportTraceServiceResponse {
	if res.Rejected == 0 {
		return &coltrace.ExportTraceServiceResponse{}
	}
	return &coltrace.ExportTraceServiceResponse{PartialSuccess: &coltrace.ExportTracePartialSuccess{RejectedSpans: int64(res.Rejected), ErrorMessage: firstReason(res)}}
}

// MetricsReply is the reply message for metrics.
func MetricsReply(res decode.Result) *colmetrics.ExportMetricsServiceResponse {
	if res.Rejected == 0 {
		return &colmetrics.ExportMetricsServiceResponse{}
	}
	return &colmetrics.ExportMetricsServiceResponse{PartialSuccess: &colmetrics.ExportMetricsPartialSuccess{RejectedDataPoints: int64(res.Rejected), ErrorMessage: firstReason(res)}}
}

func firstReason(res decode.Result) string {
	if len(res.Errors) == 0 {
		return ""
	}
	r := res.Errors[0]
	if r.Field != "" {
		return r.Field + ": " + r.Reason
	}
	return r.Reason
}
