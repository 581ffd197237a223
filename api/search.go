package api

import (
	"context"
	"net/http"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/timespec"
	"github.com/millstream/millstream/query"
)

// searcher knows the search language. *query.Engine fits.
type searcher interface {
	Translate(ctx context.Context, req query.Request) (*query.Translation, error)
	Complete(ctx context.Context, req query.Request, cursor int) (*query.Completion, error)
}

type translateBody struct {
	Language  string `json:"language,omitempty" doc:"search, the only one that is translated"`
	Signal    string `json:"signal,omitempty" doc:"logs or traces; default: logs"`
	Stream    string `json:"stream"`
	Statement string `json:"statement" doc:"a search; empty: all records"`
	Limit     int    `json:"limit,omitempty" doc:"of the statement; default: 1000"`
}

type completeBody struct {
	Signal    string        `json:"signal,omitempty" doc:"logs or traces; default: logs"`
	Stream    string        `json:"stream"`
	Statement string        `json:"statement" doc:"a search, which may be unfinished"`
	Cursor    int           `json:"cursor" doc:"characters (Unicode code points) before the cursor"`
	TimeRange timeRangeBody `json:"time_range,omitzero" doc:"whose values are proposed"`
}

func (a *API) searchRoutes() []route {
	return []route{
		{method: "POST", path: v1 + "/query/translate", policy: readTelemetry(), at: onQuerier, handle: a.translate, doc: operation{summary: "A search as SQL", body: translateBody{}, reply: query.Translation{}}},
		{method: "POST", path: v1 + "/query/complete", policy: readTelemetry(), at: onQuerier, handle: a.complete, doc: operation{summary: "What may stand at the cursor of a search", body: completeBody{}, reply: query.Completion{}}},
	}
}

// signalOf reads a signal; without a name it is logs.
func signalOf(name string) (millstream.Signal, error) {
	if name == "" {
		return millstream.Logs, nil
	}
	return millstream.ParseSignal(name)
}

func (a *API) translate(w http.ResponseWriter, r *http.Request) error {
	var b translateBody
	if err := read(r, &b); err != nil {
		return err
	}
	if b.Language != "" && b.Language != "search" {
		return millstream.Errorf(millstream.Invalid, "the language %q cannot be translated: only search can", b.Language)
	}
	if b.Limit < 0 {
		return millstream.Errorf(millstream.Invalid, "limit %d is negative", b.Limit)
	}
	signal, err := signalOf(b.Signal)
	if err != nil {
		return err
	}
	t, err := a.Search.Translate(r.Context(), query.Request{Org: who(r).Org, User: who(r).Actor(), Signal: signal, Stream: b.Stream, Statement: b.Statement, Limit: b.Limit})
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, t)
}

func (a *API) complete(w http.ResponseWriter, r *http.Request) error {
	var b completeBody
	if err := read(r, &b); err != nil {
		return err
	}
	signal, err := signalOf(b.Signal)
	if err != nil {
		return err
	}
	span, err := timespec.Range(string(b.TimeRange.Start), string(b.TimeRange.End), a.Now())
	if err != nil {
		return err
	}
	c, err := a.Search.Complete(r.Context(), query.Request{Org: who(r).Org, User: who(r).Actor(), Signal: signal, Stream: b.Stream, Statement: b.Statement, Range: span}, b.Cursor)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, c)
}
