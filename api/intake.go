package api

import (
	"context"
	"net/http"

	"github.com/zeebo/blake3"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest"
	"github.com/millstream/millstream/ingest/decode"
)

// intaker is where decoded telemetry goes. *ingest.Router fits.
type intaker interface {
	Write(ctx context.Context, w ingest.Write) (replayed bool, err error)
}

const (
	headerKey      = "Idempotency-Key"
	headerReplayed = "Idempotency-Replayed"
	headerStream   = "Stream-Name"
	// maxKey is the longest Idempotency-Key in bytes.
	maxKey = 256
)

// body reads a request's body with its content encoding undone, within the intake's limits. The caller releases it.
func (a *API) body(r *http.Request) ([]byte, error) {
	return decode.Body(r.Body, r.Header.Get("Content-Encoding"), a.Limits)
}

// write hands what a request was decoded to on, and returns once it is durable and visible. It marks the reply of a repeated keyed request.
func (a *API) write(w http.ResponseWriter, r *http.Request, body []byte, batches []*millstream.Batch) error {
	in := ingest.Write{Org: who(r).Org, Batches: batches, Key: r.Header.Get(headerKey)}
	if len(in.Key) > maxKey {
		return millstream.Errorf(millstream.Invalid, "the Idempotency-Key is longer than %d bytes", maxKey)
	}
	if in.Key != "" {
		sum := blake3.Sum256(body)
		copy(in.BodyHash[:], sum[:])
	}
	replayed, err := a.Intake.Write(r.Context(), in)
	if err == nil && replayed {
		w.Header().Set(headerReplayed, "true")
	}
	return err
}

// streamName is the log or trace stream a request names in its header, or the default.
func streamName(r *http.Request) string {
	if s := r.Header.Get(headerStream); s != "" {
		return s
	}
	return millstream.DefaultStream
}

// counted adds what was taken and refused to the request's log line and to the metrics.
func (a *API) counted(r *http.Request, protocol string, res decode.Result) {
	c := callOf(r)
	c.tag = append(c.tag, "accepted", res.Accepted, "rejected", res.Rejected)
	a.metrics.accepted.WithLabelValues(protocol).Add(float64(res.Accepted))
	a.metrics.rejected.WithLabelValues(protocol).Add(float64(res.Rejected))
}
