package api

import (
	"mime"
	"net/http"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest/decode"
	"github.com/millstream/millstream/ingest/json"
)

type intakeReply struct {
	Accepted int                `json:"accepted"`
	Rejected int                `json:"rejected"`
	Errors   []decode.Rejection `json:"errors" doc:"the first 100 rejections"`
}

func (a *API) jsonRoutes() []route {
	return []route{{method: "POST", path: v1 + "/intake/json/{stream}", policy: intake(), handle: a.intakeJSON,
		doc: operation{summary: "Log records as a JSON array, one object, or a line each", bodyTypes: []string{"application/json", "application/x-ndjson"}, reply: intakeReply{}}}}
}

// jsonTypes are the content types that JSON and NDJSON travel under; a request without one is taken for JSON.
var jsonTypes = map[string]bool{"": true, "application/json": true, "application/x-ndjson": true, "application/ndjson": true, "application/jsonl": true, "application/x-jsonlines": true,
	"application/stream+json": true, "text/plain": true, "application/x-www-form-urlencoded": true} // the last is what curl -d sends

func (a *API) intakeJSON(w http.ResponseWriter, r *http.Request) error {
	stream, err := pathValue(r, "stream")
	if err != nil {
		return err
	}
	typ, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if !jsonTypes[typ] {
		return millstream.Errorf(millstream.Unsupported, "content type %q: send application/json or application/x-ndjson", typ)
	}
	body, err := a.body(r)
	if err != nil {
		return err
	}
	defer decode.Release(body)
	res, err := json.Decode(stream, body, a.Now(), a.Limits)
	if err != nil {
		return err
	}
	if err := a.write(w, r, body, res.Batches); err != nil {
		return err
	}
	a.counted(r, "json", res)
	code := http.StatusOK
	if res.Accepted == 0 && res.Rejected > 0 {
		code = http.StatusBadRequest
	}
	if res.Errors == nil {
		res.Errors = []decode.Rejection{}
	}
	return reply(w, code, intakeReply{res.Accepted, res.Rejected, res.Errors})
}
