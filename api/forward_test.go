package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest"
	"github.com/millstream/millstream/query"
	"github.com/millstream/millstream/query/promql"
	"github.com/millstream/millstream/rpc"
)

// split is a cluster in one process: a router over HTTP, and queriers behind peers that a test can break.
type split struct {
	*world
	token    string
	router   *httptest.Server
	peers    map[string]*fakePeer
	mu       sync.Mutex
	live     []millstream.Member
	intakes  []millstream.Member
	routing  *API
	queriers map[string]*API
}

func (s *split) setLive(ids ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live = nil
	for _, id := range ids {
		s.live = append(s.live, millstream.Member{ID: millstream.NodeID(id), Roles: []string{"querier"}})
	}
}

// fakePeer is a node behind the internal listener, without the listener.
type fakePeer struct {
	handler http.Handler
	asked   chan *http.Request // every request that reached it

	mu      sync.Mutex
	refuses error // instead of an answer
	cutAt   int   // bytes of a reply after which the connection is lost; 0: never
	flushes int
	drained int
	status  rpc.Status
}

func (p *fakePeer) set(refuses error, cutAt int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuses, p.cutAt = refuses, cutAt
}

type principalKey struct{}

var errLost = millstream.Errorf(millstream.Unavailable, "the connection is lost")

func (p *fakePeer) Forward(w http.ResponseWriter, r *http.Request, principal []byte) (err error) {
	p.mu.Lock()
	refuses, cutAt := p.refuses, p.cutAt
	p.mu.Unlock()
	if refuses != nil {
		w.Header().Set("X-Leak", "of a try that failed")
		return refuses
	}
	// Values of a context do not cross the wire.
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), principalKey{}, principal))
	defer cancel()
	defer context.AfterFunc(r.Context(), cancel)()
	defer func() {
		if v := recover(); v != nil {
			if v != http.ErrAbortHandler { //nolint:errorlint // it is compared as net/http does
				panic(v)
			}
			err = errLost
		}
	}()
	r = r.WithContext(ctx)
	p.asked <- r
	p.handler.ServeHTTP(&cutWriter{ResponseWriter: w, left: cutAt}, r)
	return ctx.Err()
}

func (p *fakePeer) Flush(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flushes++
	return p.refuses
}

func (p *fakePeer) Drain(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drained++
	return p.refuses
}

func (p *fakePeer) Status(context.Context) (rpc.Status, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status, p.refuses
}

// cutWriter loses the connection after some bytes.
type cutWriter struct {
	http.ResponseWriter
	left int // 0: it holds
}

func (w *cutWriter) Write(b []byte) (int, error) {
	if w.left > 0 {
		if w.left -= len(b); w.left <= 0 {
			_, _ = w.ResponseWriter.Write(b[:len(b)+w.left])
			panic(http.ErrAbortHandler)
		}
	}
	return w.ResponseWriter.Write(b)
}

func (w *cutWriter) Flush() { w.ResponseWriter.(http.Flusher).Flush() }

func principalIn(ctx context.Context) []byte { p, _ := ctx.Value(principalKey{}).([]byte); return p }

// newSplit starts a router and the queriers; engine gives each of these what a standalone node has.
func newSplit(t *testing.T, base string, engine func(a *API, id string), ids ...string) *split {
	t.Helper()
	s := &split{world: newWorld(t, func(a *API) { engine(a, "alone") }), peers: map[string]*fakePeer{}, queriers: map[string]*API{}}
	s.token = s.root()
	s.setLive(ids...)
	for _, id := range ids {
		q := *s.api
		q.ending = nil // each node has its own
		q.Registerer, q.Gatherer = newRegistry()
		q.Node, q.BasePath = id, "/elsewhere"
		engine(&q, id)
		h, err := q.QueryHandler(principalIn)
		if err != nil {
			t.Fatal(err)
		}
		s.queriers[id] = &q
		s.peers[id] = &fakePeer{handler: h, asked: make(chan *http.Request, 100)}
	}
	router := *s.api
	router.ending = nil
	router.Registerer, router.Gatherer = newRegistry()
	router.Node, router.BasePath = "router-1", base
	router.Query, router.Queries, router.Metrics, router.Metadata, router.Explore, router.Search, router.Traces, router.Names, router.PromQL, router.Flusher = nil, nil, nil, nil, nil, nil, nil, nil, nil, nil
	router.Peers = &Peers{
		Live: func(role string) []millstream.Member {
			s.mu.Lock()
			defer s.mu.Unlock()
			if role == "intake" {
				return s.intakes
			}
			return s.live
		},
		To: func(m millstream.Member) Peer { return s.peers[string(m.ID)] },
	}
	s.routing = &router
	h, err := router.Handler()
	if err != nil {
		t.Fatal(err)
	}
	s.router = httptest.NewUnstartedServer(nil)
	s.router.Config = Server(h, s.api.Log)
	s.router.Start()
	t.Cleanup(s.router.Close)
	return s
}

// via sends a request to the router.
func (s *split) via(method, path string, body any, headers ...string) answer {
	s.t.Helper()
	alone := s.http
	defer func() { s.http = alone }()
	s.http = s.router
	return s.call(method, path, s.token, body, headers...)
}

// lines is an engine whose answers have so many rows and say where they come from.
type lines struct {
	fakeQueries
	rows int
	id   string
}

func (l *lines) Run(_ context.Context, req query.Request, sink query.Sink) (*query.Answer, error) {
	switch req.Statement {
	case "busy":
		return nil, &millstream.Error{Kind: millstream.Unavailable, Msg: "the queue is full", RetryAfter: 7}
	case "wrong":
		return nil, &millstream.Error{Kind: millstream.Invalid, Msg: "no such field", Hint: "try another", Position: 3}
	case "unknown":
		return nil, millstream.Errorf(millstream.NotFound, "there is no stream %q", req.Org)
	}
	if err := sink.Columns([]query.Column{{Name: "n", Type: "BIGINT"}, {Name: "s", Type: "VARCHAR"}}); err != nil {
		return nil, err
	}
	if err := sink.Rows(numbered(l.rows, req.User)); err != nil {
		return nil, err
	}
	if req.Statement == "breaks" {
		return nil, errors.New("the segment is damaged")
	}
	return &query.Answer{Warnings: []string{"for " + req.User}, Partial: true, Reasons: []string{"a node is away"}}, nil
}

func linesOf(rows int) func(*API, string) {
	return func(a *API, id string) {
		l := &lines{rows: rows, id: id}
		a.Query, a.Queries, a.Metadata = l, l, ingest.Live{}
		reg, _ := newRegistry()
		a.PromQL = promql.New(promql.Options{Timeout: time.Second, Log: a.Log, Registerer: reg})
	}
}

// A router answers what a standalone node would, to the byte.
func TestForwardedAnswersAreTheSame(t *testing.T) {
	t.Parallel()
	s := newSplit(t, "", linesOf(500), "q-1", "q-2")
	body := func(statement string) string { return `{"statement":"` + statement + `"}` }
	for name, c := range map[string]struct {
		method, path string
		body         any
		headers      []string
		status       int
	}{
		"json":                 {"POST", "/query", body("SELECT 1"), nil, 200},
		"json, gzip":           {"POST", "/query", body("SELECT 1"), []string{"Accept-Encoding", "gzip"}, 200},
		"ndjson, zstd":         {"POST", "/query", body("SELECT 1"), []string{"Accept", "application/x-ndjson", "Accept-Encoding", "zstd"}, 200},
		"csv with trailers":    {"POST", "/query", body("SELECT 1"), []string{"Accept", "text/csv", "Accept-Encoding", "gzip"}, 200},
		"download":             {"POST", "/query?download=a%2Fb", body("SELECT 1"), []string{"Accept", "text/csv"}, 200},
		"parquet":              {"POST", "/query", body("SELECT 1"), []string{"Accept", "application/vnd.apache.parquet"}, 200},
		"an error":             {"POST", "/query", body("wrong"), nil, 400},
		"a full queue":         {"POST", "/query", body("busy"), nil, 503},
		"an unknown stream":    {"POST", "/query", body("unknown"), nil, 404},
		"an unknown format":    {"POST", "/query", body("SELECT 1"), []string{"Accept", "image/png"}, 415},
		"not JSON":             {"POST", "/query", "x", []string{"Content-Type", "text/plain"}, 415},
		"a bad body":           {"POST", "/query", `{"statment":1}`, nil, 400},
		"compressed badly":     {"POST", "/query", "x", []string{"Content-Encoding", "gzip"}, 400},
		"too long":             {"POST", "/query", body(strings.Repeat("x", maxJSON)), nil, 413},
		"a too long form":      {"POST", "/query/prometheus/api/v1/query", strings.Repeat("x", maxForm+10), []string{"Content-Type", "application/x-www-form-urlencoded"}, 413},
		"Prometheus":           {"GET", "/query/prometheus/api/v1/format_query?query=a%2Bb", nil, nil, 200},
		"Prometheus' error":    {"GET", "/query/prometheus/api/v1/query?query=%7B", nil, nil, 400},
		"nobody":               {"POST", "/query", body("SELECT 1"), []string{"Authorization", "Bearer x"}, 401},
		"an empty list":        {"GET", "/query/running", nil, nil, 200},
		"an unknown path":      {"GET", "/query/nothing", nil, nil, 404},
		"another organization": {"POST", "/query", body("SELECT 1"), []string{"X-Org-Id", "nobodys"}, 403},
	} {
		t.Run(name, func(t *testing.T) {
			headers := append([]string{"X-Request-Id", "the-one"}, c.headers...)
			alone, via := s.call(c.method, v1+c.path, s.token, c.body, headers...), s.via(c.method, v1+c.path, c.body, headers...)
			for _, a := range []answer{alone, via} {
				a.header.Del("Date")
			}
			if via.status != c.status || alone.status != via.status {
				t.Fatalf("status %d, alone %d, want %d: %s", via.status, alone.status, c.status, via.body)
			}
			if !slices.Equal(headerLines(alone.header), headerLines(via.header)) || !slices.Equal(headerLines(alone.trailer), headerLines(via.trailer)) {
				t.Errorf("headers\n%v\nalone\n%v\ntrailers %v and %v", via.header, alone.header, via.trailer, alone.trailer)
			}
			if string(via.body) != string(alone.body) && !strings.Contains(string(via.body), `"took_ms"`) {
				t.Errorf("body\n%.400s\nalone\n%.400s", via.body, alone.body)
			}
		})
	}
}

func headerLines(h http.Header) (out []string) {
	for _, k := range slices.Sorted(maps.Keys(h)) {
		out = append(out, fmt.Sprint(k, h[k]))
	}
	return out
}

func TestQueriersAreAskedInTurn(t *testing.T) {
	t.Parallel()
	s := newSplit(t, "/ms/", linesOf(1), "q-1", "q-2", "q-3")
	for range 9 {
		if a := s.via("POST", "/ms/api/v1/query", `{"statement":"SELECT 1"}`); a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	for id, p := range s.peers {
		if n := len(p.asked); n != 3 {
			t.Errorf("%s was asked %d times", id, n)
		}
	}
	r := <-s.peers["q-1"].asked
	if r.URL.Path != "/api/v1/query" || r.Header.Get("Authorization") != "" || r.Header.Get("Cookie") != "" || r.RemoteAddr != "127.0.0.1:0" {
		t.Errorf("%s %v", r.URL, r.Header)
	}

	// Those that cannot be reached are passed over, whatever the reason; nothing of the attempt is left.
	s.peers["q-1"].set(errLost, 0)
	s.peers["q-2"].set(millstream.Errorf(millstream.Unauthenticated, "the token is not the cluster's"), 0)
	for range 3 {
		a := s.via("POST", "/ms/api/v1/query", `{"statement":"SELECT 1"}`, "X-Request-Id", "over-the-hop")
		if a.status != 200 || a.header.Get("X-Leak") != "" || a.header.Get("X-Request-Id") != "over-the-hop" {
			t.Errorf("%d %v %s", a.status, a.header, a.body)
		}
	}
	if log := s.log.String(); !strings.Contains(log, "request=over-the-hop method=POST route=/api/v1/query status=200") || !strings.Contains(log, "client=127.0.0.1") || !strings.Contains(log, "passed_on=true") ||
		!strings.Contains(log, `msg="a querier cannot be reached, the next one is asked" request=over-the-hop node=q-1`) {
		t.Error(log)
	}
	s.peers["q-3"].set(errLost, 0)
	checkProblem(t, "all lost", s.via("POST", "/ms/api/v1/query", `{"statement":"SELECT 1"}`), 503, "unavailable", "no querier node is available")
	s.setLive()
	for _, path := range []string{"/query", "/query/histogram", "/query/translate"} {
		a := s.via("POST", "/ms/api/v1"+path, `{}`)
		checkProblem(t, path, a, 503, "unavailable", "no querier node is available")
		if a.header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
	}
	if a := s.via("GET", "/ms/api/v1/query/prometheus/api/v1/labels", nil); a.status != 503 || !strings.Contains(string(a.body), `"error":"no querier node is available"`) {
		t.Errorf("%d %s", a.status, a.body)
	}
	checkProblem(t, "running", s.via("GET", "/ms/api/v1/query/running", nil), 503, "unavailable", "no querier node is available")

	// An answer of a querier is the answer: nobody else is asked.
	s.setLive("q-1", "q-2", "q-3")
	for _, p := range s.peers {
		p.set(nil, 0)
		for len(p.asked) > 0 {
			<-p.asked
		}
	}
	for statement, status := range map[string]int{"busy": 503, "wrong": 400, "unknown": 404} {
		if a := s.via("POST", "/ms/api/v1/query", `{"statement":"`+statement+`"}`); a.status != status {
			t.Errorf("%s: %d", statement, a.status)
		}
	}
	if n := len(s.peers["q-1"].asked) + len(s.peers["q-2"].asked) + len(s.peers["q-3"].asked); n != 3 {
		t.Errorf("%d queriers were asked for three answers", n)
	}
	if text := string(s.via("GET", "/ms/metrics", nil).body); !strings.Contains(text, `millstream_api_forwarded_total{result="answered"} 15`) || !strings.Contains(text, `{result="nobody"} 5`) {
		t.Error("the counters of forwarding are wrong")
	}
}

// A path is what the client wrote, and a querier needs to be told nothing of the router's base path.
func TestForwardedPaths(t *testing.T) {
	t.Parallel()
	f := &fakeTracer{}
	s := newSplit(t, "/ms", func(a *API, _ string) { a.Traces = f; a.Query = cutQuerier{} }, "q-1")
	_ = s.via("GET", "/ms/api/v1/query/traces/a%2Fb%20c?stream=x%2By", nil)
	r := <-s.peers["q-1"].asked
	if r.URL.EscapedPath() != "/api/v1/query/traces/a%2Fb%20c" || r.URL.RawQuery != "stream=x%2By" {
		t.Errorf("%q ? %q", r.URL.EscapedPath(), r.URL.RawQuery)
	}
}

// Half an answer never looks whole, wherever it breaks.
func TestBrokenForwardedAnswers(t *testing.T) {
	t.Parallel()
	s := newSplit(t, "", linesOf(20_000), "q-1", "q-2")
	broken := func(what, statement, accept string) {
		t.Helper()
		req, _ := http.NewRequest("POST", s.router.URL+v1+"/query", strings.NewReader(`{"statement":"`+statement+`"}`))
		req.Header = http.Header{"Authorization": {"Bearer " + s.token}, "Content-Type": {"application/json"}, "Accept": {accept}, "Accept-Encoding": {"identity"}}
		resp, err := s.router.Client().Do(req)
		if err != nil {
			return // cut before the head was sent is fine too
		}
		defer resp.Body.Close()
		if text, err := io.ReadAll(resp.Body); err == nil {
			t.Errorf("%s: %d bytes look like the whole answer", what, len(text))
		}
	}
	for _, p := range s.peers {
		p.set(nil, 100_000)
	}
	broken("a lost querier", "SELECT 1", "text/csv")
	broken("a lost querier", "SELECT 1", "application/json")
	for _, p := range s.peers {
		p.set(nil, 0)
	}
	broken("a failed query", "breaks", "text/csv")
	if a := s.via("POST", "/api/v1/query", `{"statement":"SELECT 1"}`); a.status != 200 || len(a.body) < 100_000 {
		t.Errorf("afterwards: %d", a.status)
	}
}

// Frames and events arrive as they come, and a client that goes ends the query on the querier.
func TestForwardedStreams(t *testing.T) {
	t.Parallel()
	goOn, ended := make(chan struct{}), make(chan error, 1)
	f := &fakeQueries{run: func(ctx context.Context, _ query.Request, w query.Watcher) (*query.Answer, error) {
		if err := w.Planned(query.Planned{}); err != nil {
			return nil, err
		}
		<-goOn
		if err := w.Columns([]query.Column{{Name: "n", Type: "BIGINT"}, {Name: "s", Type: "VARCHAR"}}); err != nil {
			return nil, err
		}
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, ctx.Err()
	}}
	s := newSplit(t, "", func(a *API, _ string) { a.Query, a.Queries = f, f }, "q-1")
	s.world.http = s.router
	ctx, leave := context.WithCancel(t.Context())
	next, resp := streamOf(t, ctx, s.world, s.token, `{"statement":"SELECT 1"}`)
	if frame, _ := next(); frame != "meta" || resp.Header.Get("X-Accel-Buffering") != "no" {
		t.Fatalf("%s %v", frame, resp.Header)
	}
	close(goOn)
	for frame := ""; frame != "progress"; {
		frame, _ = next()
	}
	leave()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
