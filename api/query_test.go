package api

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/millstream/millstream/query"
)

// cutQuerier answers with a row, a warning and a reason why rows are missing.
type cutQuerier struct{}

func (cutQuerier) Run(_ context.Context, _ query.Request, sink query.Sink) (*query.Answer, error) {
	a := &query.Answer{Partial: true, Reasons: []string{"node b is away"}, Warnings: []string{"the answer was cut"}}
	return a, sink.Columns([]query.Column{{Name: "n", Type: "BIGINT"}})
}

func (cutQuerier) Estimate(context.Context, query.Request) (*query.Estimate, error) {
	return &query.Estimate{}, nil
}

// What is said beside the rows is in the body where the format has a place for it, else in the trailer.
func TestWarningsOfEveryFormat(t *testing.T) {
	w := newWorld(t, func(a *API) { a.Query = cutQuerier{} })
	root := w.root()
	for accept, inBody := range map[string]bool{
		"application/json": true, "application/x-ndjson": true, "text/csv": false, "application/vnd.apache.arrow.stream": false, "application/vnd.apache.parquet": false,
	} {
		req, err := http.NewRequest("POST", w.http.URL+"/api/v1/query", strings.NewReader(`{"statement":"SELECT 1"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"Authorization": {"Bearer " + root}, "Content-Type": {"application/json"}, "Accept": {accept}}
		a := w.do(req)
		warning, partial := a.trailer.Get("Millstream-Warning"), a.trailer.Get("Millstream-Partial")
		switch {
		case inBody && (warning+partial != "" || !strings.Contains(string(a.body), "the answer was cut") || !strings.Contains(string(a.body), "node b is away")):
			t.Errorf("%s: trailer %v, body %s", accept, a.trailer, a.body)
		case !inBody && (warning != "the answer was cut" || partial != "node b is away"):
			t.Errorf("%s: trailer %v", accept, a.trailer)
		}
	}
}
