package api

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/millstream/millstream/query"
	"github.com/millstream/millstream/query/search"
)

// fakeSearcher records what it is asked.
type fakeSearcher struct {
	querier
	req    query.Request
	cursor int
}

func (f *fakeSearcher) Translate(_ context.Context, req query.Request) (*query.Translation, error) {
	f.req = req
	if _, err := search.Parse(req.Statement); err != nil {
		return nil, err
	}
	return &query.Translation{SQL: "SELECT 1", Filter: "TRUE", Warnings: []string{"w"}, Terms: []search.Term{{Text: "x", Kind: "word"}}}, nil
}

func (f *fakeSearcher) Complete(_ context.Context, req query.Request, cursor int) (*query.Completion, error) {
	f.req, f.cursor = req, cursor
	return &query.Completion{From: 1, To: 2, Items: []query.CompletionItem{{Label: "a", Kind: "field", Apply: "a:"}}}, nil
}

func (f *fakeSearcher) Run(_ context.Context, req query.Request, sink query.Sink) (*query.Answer, error) {
	f.req = req
	if err := sink.Columns([]query.Column{{Name: "n", Type: "BIGINT"}}); err != nil {
		return nil, err
	}
	return &query.Answer{SQL: "SELECT 1", Warnings: []string{}}, nil
}

func TestSearchCalls(t *testing.T) {
	t.Parallel()
	f := &fakeSearcher{}
	w := newWorld(t, func(a *API) { a.Search, a.Query = f, f })
	token := w.root()
	asked := func() string {
		return fmt.Sprint(f.req.Language, " ", f.req.Signal, " ", f.req.Stream, " ", f.req.Statement, " ", f.req.Limit)
	}

	a := w.want(200, "POST", "/api/v1/query/translate", token, `{"language":"search","stream":"app","signal":"traces","statement":"x","limit":5}`, nil)
	if want := `{"sql":"SELECT 1","filter":"TRUE","warnings":["w"],"terms":[{"text":"x","kind":"word"}]}`; strings.TrimSpace(string(a.body)) != want || asked() != " traces app x 5" {
		t.Errorf("%s of %s", a.body, asked())
	}
	a = w.want(200, "POST", "/api/v1/query/complete", token, `{"stream":"app","statement":"ab","cursor":2}`, nil)
	if want := `{"from":1,"to":2,"items":[{"label":"a","kind":"field","apply":"a:"}]}`; strings.TrimSpace(string(a.body)) != want || asked() != " logs app ab 0" || f.cursor != 2 {
		t.Errorf("%s of %s at %d", a.body, asked(), f.cursor)
	}
	var answered struct{ SQL string }
	w.want(200, "POST", "/api/v1/query", token, `{"language":"search","stream":"app","statement":"x","limit":7}`, &answered)
	if answered.SQL != "SELECT 1" || asked() != "search logs app x 7" {
		t.Errorf("%+v of %s", answered, asked())
	}
	a = w.call("POST", "/api/v1/query/translate", token, `{"stream":"app","statement":"ä \"open"}`)
	if p := a.problem(t); a.status != 400 || p.Position != 3 || p.Hint != `add " at the end` {
		t.Errorf("%s", a.body)
	}
	for body, message := range map[string]string{
		`{"language":"sql","stream":"app","statement":"x"}`: "only search can",
		`{"stream":"app","statement":"x","limit":-1}`:       "negative",
		`{"stream":"app","signal":"smoke","statement":"x"}`: "smoke",
	} {
		checkProblem(t, body, w.call("POST", "/api/v1/query/translate", token, body), 400, "invalid_argument", message)
	}
}
