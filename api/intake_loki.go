package api

import (
	"net/http"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest/decode"
	"github.com/millstream/millstream/ingest/loki"
)

func (a *API) lokiRoutes() []route {
	return []route{{method: "POST", path: v1 + "/intake/loki/api/v1/push", policy: intake(), handle: a.intakeLoki,
		doc: operation{summary: "Loki push, JSON or snappy protobuf", bodyTypes: []string{"application/json", "application/x-protobuf"}}, shape: textShape}}
}

func (a *API) intakeLoki(w http.ResponseWriter, r *http.Request) error {
	contentType := r.Header.Get("Content-Type")
	body, err := loki.Body(r.Body, contentType, r.Header.Get("Content-Encoding"), a.Limits)
	if err != nil {
		return err
	}
	defer decode.Release(body)
	res, err := loki.Decode(streamName(r), contentType, body, a.Now(), a.Limits)
	if err != nil {
		return err
	}
	if err := a.write(w, r, body, res.Batches); err != nil {
		return err
	}
	a.counted(r, "loki", res)
	if text := loki.ErrorText(res); text != "" {
		return millstream.Errorf(millstream.Invalid, "%s", text)
	}
	return empty(w)
}
