package api

import (
	"net/http"

	"google.golang.org/genproto/googleapis/rpc/status"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest/decode"
	"github.com/millstream/millstream/ingest/otlp"
)

// otlpRoot is an exporter's endpoint; the root of the server is one, too.
const otlpRoot = v1 + "/intake/otlp"

func (a *API) otlpRoutes() []route {
	var routes []route
	for _, base := range []string{otlpRoot, ""} {
		for _, sig := range []millstream.Signal{millstream.Logs, millstream.Metrics, millstream.Traces} {
			routes = append(routes, route{method: "POST", path: base + "/v1/" + sig.String(), policy: intake(), handle: a.intakeOTLP(sig),
				doc: operation{summary: "OTLP/HTTP " + sig.String() + ", protobuf or JSON", bodyTypes: []string{"application/x-protobuf", "application/json"}, replyType: "application/x-protobuf"}, shape: otlpShape})
		}
	}
	return routes
}

// otlpShape is OTLP/HTTP's own error body: a status in the encoding of the request.
func otlpShape(r *http.Request, code int, d errorDetail) (string, []byte) {
	text := d.Message
	if d.Hint != "" {
		text += " (" + d.Hint + ")"
	}
	enc, err := otlp.EncodingOf(r.Header.Get("Content-Type"))
	if err != nil {
		enc = otlp.JSON // which can at least be read
	}
	return otlpType(enc), enc.Marshal(&status.Status{Code: grpcCode(code), Message: text})
}

func otlpType(enc otlp.Encoding) string {
	if enc == otlp.JSON {
		return "application/json"
	}
	return "application/x-protobuf"
}

// grpcCode is the canonical code that OTLP puts into the body of an error.
func grpcCode(httpStatus int) int32 {
	switch httpStatus {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType:
		return 3
	case http.StatusUnauthorized:
		return 16
	case http.StatusForbidden:
		return 7
	case http.StatusNotFound:
		return 5
	case http.StatusMethodNotAllowed:
		return 12
	case http.StatusTooManyRequests:
		return 8
	case http.StatusServiceUnavailable:
		return 14
	case http.StatusGatewayTimeout:
		return 4
	}
	return 13
}

func (a *API) intakeOTLP(sig millstream.Signal) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		enc, err := otlp.EncodingOf(r.Header.Get("Content-Type"))
		if err != nil {
			return err
		}
		body, err := a.body(r)
		if err != nil {
			return err
		}
		defer decode.Release(body)
		var res decode.Result
		switch sig {
		case millstream.Logs:
			res, err = otlp.DecodeLogs(enc, body, streamName(r), a.Now(), a.Limits)
		case millstream.Traces:
			res, err = otlp.DecodeTraces(enc, body, streamName(r), a.Now(), a.Limits)
		default:
			res, err = otlp.DecodeMetrics(enc, body, a.Now(), a.Limits)
		}
		if err != nil {
			return err
		}
		if err := a.write(w, r, body, res.Batches); err != nil {
			return err
		}
		a.counted(r, "otlp", res)
		w.Header().Set("Content-Type", otlpType(enc))
		_, err = w.Write(enc.Reply(sig, res))
		return gone(err)
	}
}
