package api

import (
	"net/http"
	"strconv"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest/decode"
	"github.com/millstream/millstream/ingest/prometheus"
)

func (a *API) prometheusWriteRoutes() []route {
	return []route{{method: "POST", path: v1 + "/intake/prometheus/api/v1/write", policy: intake(), handle: a.intakePrometheus,
		doc: operation{summary: "Prometheus remote write 1.0 and 2.0", bodyTypes: []string{"application/x-protobuf"}}, shape: textShape}}
}

// textShape is the error body of products that answer in plain text.
func textShape(_ *http.Request, _ int, d errorDetail) (string, []byte) {
	text := d.Message
	if d.Hint != "" {
		text += " (" + d.Hint + ")"
	}
	return "text/plain; charset=utf-8", []byte(text + "\n")
}

func (a *API) intakePrometheus(w http.ResponseWriter, r *http.Request) error {
	if enc := r.Header.Get("Content-Encoding"); enc != "snappy" {
		return millstream.Errorf(millstream.Unsupported, "content encoding %q: remote write sends snappy", enc)
	}
	body, err := a.body(r)
	if err != nil {
		return err
	}
	defer decode.Release(body)
	res, written, v2, err := prometheus.Decode(r.Header.Get("Content-Type"), body, a.Now(), a.Limits)
	if err != nil {
		return err
	}
	if err := a.write(w, r, body, res.Batches); err != nil {
		return err
	}
	a.counted(r, "prometheus", res)
	if v2 {
		h := w.Header()
		h.Set("X-Prometheus-Remote-Write-Samples-Written", strconv.Itoa(written.Samples))
		h.Set("X-Prometheus-Remote-Write-Histograms-Written", strconv.Itoa(written.Histograms))
		h.Set("X-Prometheus-Remote-Write-Exemplars-Written", strconv.Itoa(written.Exemplars))
	}
	if res.Rejected > 0 { // the good series are stored; 400 tells the sender not to repeat the bad ones
		first := res.Errors[0]
		return millstream.Errorf(millstream.Invalid, "%d series rejected and the others stored; the first is number %d (label %q): %s", res.Rejected, first.Index, first.Field, first.Reason)
	}
	return empty(w)
}
