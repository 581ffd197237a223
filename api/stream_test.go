package api

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query"
)

// fakeQueries answers every statement with what run does.
type fakeQueries struct {
	run     func(ctx context.Context, req query.Request, w query.Watcher) (*query.Answer, error)
	stopped chan string
}

func (f *fakeQueries) Run(ctx context.Context, req query.Request, sink query.Sink) (*query.Answer, error) {
	return f.run(ctx, req, sink.(query.Watcher))
}
func (*fakeQueries) Estimate(context.Context, query.Request) (*query.Estimate, error) {
	return &query.Estimate{}, nil
}
func (*fakeQueries) Running(millstream.OrgID) []query.Running { return nil }
func (*fakeQueries) Cancel(millstream.OrgID, string) error    { return nil }
func (f *fakeQueries) Stop(_ millstream.OrgID, id string) error {
	f.stopped <- id
	return nil
}
func (*fakeQueries) Progress(_ millstream.OrgID, id string) (query.Progress, bool) {
	return query.Progress{Segments: query.ProgressSegments{Done: 1, Total: 3}, Rows: int64(len(id)), Nodes: 1}, true
}

func queryWorld(t *testing.T, f *fakeQueries) (*world, string) {
	w := newWorld(t, func(a *API) { a.Query, a.Queries = f, f })
	return w, w.root()
}

// streamOf opens a stream of frames; next gives one at a time, its fields beside its name.
func streamOf(t *testing.T, ctx context.Context, w *world, token, body string) (next func() (string, map[string]any), resp *http.Response) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, "POST", w.http.URL+"/api/v1/query/stream", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+token)
	if resp, err = w.http.Client().Do(req); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	return func() (string, map[string]any) {
		t.Helper()
		if !lines.Scan() {
			return "end", nil
		}
		m := map[string]any{}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		return m["frame"].(string), m
	}, resp
}

// numbered is n rows of a number and a text.
func numbered(n int, text string) *query.Rows {
	r := &query.Rows{N: n, Columns: []millstream.Column{{Name: "n", Type: millstream.Int64}, {Name: "s", Type: millstream.String, Offsets: []uint32{0}}}}
	for i := range n {
		r.Columns[0].Ints = append(r.Columns[0].Ints, int64(i))
		r.Columns[1].Bytes = append(r.Columns[1].Bytes, text...)
		r.Columns[1].Offsets = append(r.Columns[1].Offsets, uint32(len(r.Columns[1].Bytes)))
	}
	return r
}

func TestStreamFrames(t *testing.T) {
	t.Parallel()
	goOn, cols := make(chan struct{}), []query.Column{{Name: "n", Type: "BIGINT"}, {Name: "s", Type: "VARCHAR"}}
	f := &fakeQueries{run: func(_ context.Context, req query.Request, w query.Watcher) (*query.Answer, error) {
		if err := w.Planned(query.Planned{Estimate: query.Estimate{Rows: 1201}, Reasons: []string{"a node is away"}}); err != nil {
			return nil, err
		}
		<-goOn // while progress is told
		if err := w.Columns(cols); err != nil {
			return nil, err
		}
		if err := w.Rows(numbered(1201, "grüße")); err != nil {
			return nil, err
		}
		a := &query.Answer{Partial: true, Stopped: true, Reasons: []string{"a node is away"}, Warnings: []string{"cut"}}
		a.Stats.Segments.Total = 3
		return a, nil
	}}
	w, token := queryWorld(t, f)
	next, resp := streamOf(t, t.Context(), w, token, `{"statement":"SELECT n, s FROM app","id":"my-1","cut":3}`)
	if got := resp.Header.Get("Content-Type"); resp.StatusCode != 200 || got != "application/x-ndjson" {
		t.Fatalf("status %d, %s", resp.StatusCode, got)
	}
	want := func(frame, part string) map[string]any {
		t.Helper()
		name, m := next()
		for name == "progress" && frame != name { // as often as the query takes
			name, m = next()
		}
		text, err := json.Marshal(m)
		if err != nil || name != frame || !strings.Contains(string(text), part) {
			t.Fatalf("got %s %.300s, want %s with %s (%v)", name, text, frame, part, err)
		}
		return m
	}
	if m := want("meta", `"id":"my-1","sql":"SELECT n, s FROM app"`); m["columns"] != nil || m["estimate"].(map[string]any)["rows"] != 1201.0 {
		t.Errorf("%v", m)
	}
	want("warning", `"code":"partial","frame":"warning","text":"a node is away"`)
	want("progress", `"elapsed_ms":0,"frame":"progress","nodes":1,"rows":4,"segments":{"done":1,"pruned":0,"total":3}`)
	close(goOn)
	want("meta", `"columns":[{"name":"n","type":"BIGINT"},{"name":"s","type":"VARCHAR"}]`)
	for i, size := range []int{500, 500, 201} {
		m := want("rows", `["`[:1])
		rows, cuts := m["rows"].([]any), m["cut"].([]any)
		if len(rows) != size || fmt.Sprint(rows[1]) != fmt.Sprintf("[%d gr]", 500*i+1) || len(cuts) != size || fmt.Sprint(cuts[1]) != "[1 1 7]" {
			t.Errorf("frame %d: %d rows, %v, %v", i, len(rows), rows[1], cuts[1])
		}
	}
	want("warning", `"code":"notice","frame":"warning","text":"cut"`)
	if m := want("done", `"segments":{"cached":0,"pruned":0,"scanned":0,"total":3}`); m["stopped"] != true || m["partial"] != true {
		t.Errorf("%v", m)
	}
	if name, _ := next(); name != "end" {
		t.Errorf("%s after the end", name)
	}
}

func TestStreamErrors(t *testing.T) {
	t.Parallel()
	f := &fakeQueries{run: func(_ context.Context, req query.Request, w query.Watcher) (*query.Answer, error) {
		if req.Statement == "late" {
			if err := w.Columns([]query.Column{{Name: "n"}, {Name: "s"}}); err != nil {
				return nil, err
			}
			if err := w.Rows(numbered(2, "x")); err != nil {
				return nil, err
			}
		}
		return nil, &millstream.Error{Kind: millstream.Invalid, Msg: "no such thing", Position: 3}
	}}
	w, token := queryWorld(t, f)
	checkProblem(t, "early", w.call("POST", "/api/v1/query/stream", token, `{"statement":"x"}`), 400, "invalid_argument", "no such thing")
	checkProblem(t, "a bad id", w.call("POST", "/api/v1/query/stream", token, `{"statement":"x","id":"a b"}`), 400, "invalid_argument", "letters")
	checkProblem(t, "a bad cut", w.call("POST", "/api/v1/query/stream", token, `{"statement":"x","cut":-1}`), 400, "invalid_argument", "negative")
	checkProblem(t, "a language", w.call("POST", "/api/v1/query/stream", token, `{"statement":"x","language":"klingon"}`), 400, "invalid_argument", "klingon")
	checkProblem(t, "no credentials", w.call("POST", "/api/v1/query/stream", "", `{"statement":"x"}`), 401, "unauthenticated", "")
	next, _ := streamOf(t, t.Context(), w, token, `{"statement":"late"}`)
	var got []string
	for {
		name, m := next()
		if name == "end" {
			break
		}
		got = append(got, name)
		if name == "error" && sprint(m["error"].(map[string]any)["position"]) != "3" {
			t.Errorf("%v", m)
		}
	}
	if sprint(got) != "[meta rows error]" {
		t.Errorf("frames %v", got)
	}
}

// TestStreamEndsWithItsClient: nobody computes what nobody reads.
func TestStreamEndsWithItsClient(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	f := &fakeQueries{run: func(ctx context.Context, _ query.Request, w query.Watcher) (*query.Answer, error) {
		if err := w.Planned(query.Planned{}); err != nil {
			return nil, err
		}
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, ctx.Err()
	}}
	w, token := queryWorld(t, f)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	next, _ := streamOf(t, ctx, w, token, `{"statement":"endless"}`)
	if name, _ := next(); name != "meta" {
		t.Fatal(name)
	}
	cancel()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the query goes on after its client went")
	}
}

func TestStopQuery(t *testing.T) {
	t.Parallel()
	f := &fakeQueries{stopped: make(chan string, 1)}
	w, token := queryWorld(t, f)
	w.want(204, "POST", "/api/v1/query/running/my-1/stop", token, nil, nil)
	if id := <-f.stopped; id != "my-1" {
		t.Errorf("stopped %q", id)
	}
}

// TestFramesTellThatTheyLive: a slow query without progress is not taken for a dead one.
func TestFramesTellThatTheyLive(t *testing.T) {
	t.Parallel()
	rec := httptest.NewRecorder()
	f := &frames{w: rec, flush: func() error { return nil }}
	var told query.Progress
	p := query.Progress{Rows: 7, ElapsedMS: 1}
	lines := func() int {
		if err := f.tell(p, &told); err != nil {
			t.Fatal(err)
		}
		return strings.Count(rec.Body.String(), "\n")
	}
	if got := []int{lines(), lines()}; got[0] != 1 || got[1] != 1 {
		t.Errorf("%v lines without progress", got)
	}
	p.ElapsedMS = 5000
	f.last = f.last.Add(-frameAlive)
	if got := lines(); got != 2 {
		t.Errorf("%d lines after a long silence", got)
	}
	p.Rows++
	if got := lines(); got != 3 {
		t.Errorf("%d lines with progress", got)
	}
}
