package api

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/millstream/millstream/query"
)

// fakeExplorer records what it is asked; other questions than the tests' have no answer.
type fakeExplorer struct {
	explorer
	around query.Around
	search query.FieldSearch

	patterns query.PatternSearch
}

func (f *fakeExplorer) Context(_ context.Context, a query.Around) (*query.Context, error) {
	f.around = a
	return &query.Context{Before: []json.RawMessage{}, Target: []json.RawMessage{json.RawMessage(`{"n":1}`)}, After: []json.RawMessage{}, MoreAfter: true, Answer: &query.Answer{Warnings: []string{}}}, nil
}

func (f *fakeExplorer) Fields(_ context.Context, _ query.Selection, s query.FieldSearch) (*query.FieldStats, error) {
	f.search = s
	return &query.FieldStats{Answer: &query.Answer{}}, nil
}

func TestFieldsCall(t *testing.T) {
	t.Parallel()
	f := &fakeExplorer{}
	w := newWorld(t, func(a *API) { a.Explore = f })
	token := w.root()
	for body, want := range map[string]string{
		`{"stream":"app"}`: "[] 0  0 -1",
		`{"stream":"app","fields":["a"],"top":3,"search":"x","offset":4,"limit":0}`: "[a] 3 x 4 0",
	} {
		w.want(200, "POST", "/api/v1/query/fields", token, body, nil)
		if s := f.search; fmt.Sprint(s.Names, " ", s.Top, " ", s.Search, " ", s.Offset, " ", s.Limit) != want {
			t.Errorf("%s: %+v", body, s)
		}
	}
	for _, body := range []string{`{"stream":"app","limit":-1}`, `{"stream":"app","offset":-1}`} {
		checkProblem(t, body, w.call("POST", "/api/v1/query/fields", token, body), 400, "invalid_argument", "negative")
	}
}

func (f *fakeExplorer) Patterns(_ context.Context, _ query.Selection, s query.PatternSearch) (*query.Patterns, error) {
	f.patterns = s
	return &query.Patterns{Answer: &query.Answer{}}, nil
}

func TestPatternsCall(t *testing.T) {
	t.Parallel()
	f := &fakeExplorer{}
	w := newWorld(t, func(a *API) { a.Explore = f })
	w.want(200, "POST", "/api/v1/query/patterns", w.root(), `{"stream":"app","field":"body","limit":7,"compare":true,"time_range":{"start":"now-1h","end":"now"}}`, nil)
	if f.patterns != (query.PatternSearch{Field: "body", Limit: 7, Compare: true}) {
		t.Errorf("%+v", f.patterns)
	}
}

func TestContextCall(t *testing.T) {
	t.Parallel()
	f := &fakeExplorer{}
	w := newWorld(t, func(a *API) { a.Explore = f })
	token := w.root()
	var got struct {
		Target    []struct{ N int }
		MoreAfter bool `json:"more_after"`
	}
	w.want(200, "POST", "/api/v1/query/context", token, `{"stream":"app","signal":"traces","at":"2026-11-30T00:00:01.000000007Z","after":0,"by":{"b":9007199254740993,"a":"x","c":null}}`, &got)
	if len(got.Target) != 1 || got.Target[0].N != 1 || !got.MoreAfter {
		t.Errorf("%+v", got)
	}
	a := f.around
	if text := fmt.Sprintf("%s %s %d %d %d %v", a.Signal, a.Stream, a.At, a.Before, a.After, a.By); text != "traces app 1795996801000000007 50 0 [{a x} {b 9007199254740993} {c <nil>}]" {
		t.Errorf("asked for %s", text)
	}
	for body, message := range map[string]string{
		`{"at":"now"}`:                         "no stream",
		`{"stream":"app"}`:                     "at is missing",
		`{"stream":"app","at":"yesterday"}`:    "not a time",
		`{"stream":"app","at":"now","bye":{}}`: "bye",
	} {
		checkProblem(t, body, w.call("POST", "/api/v1/query/context", token, body), 400, "invalid_argument", message)
	}
}
