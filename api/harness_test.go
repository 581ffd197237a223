package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/cluster"
	"github.com/millstream/millstream/ingest"
	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/internal/cipher"
	"github.com/millstream/millstream/internal/postgres/pgtest"
	"github.com/millstream/millstream/store"
)

// Who the tests sign in as.
const (
	rootEmail = "root@example.com"
	password  = "correct horse battery"
)

// world is an API over real HTTP and a real PostgreSQL, with a clock that stands still unless it is moved on.
type world struct {
	t     testing.TB
	api   *API
	http  *httptest.Server
	store *store.Store
	auth  *auth.Service
	log   *logBuffer
	clock time.Time
	mu    sync.Mutex
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.clock
}

func (w *world) advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clock = w.clock.Add(d)
}

// logBuffer keeps what is logged.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func migrate(ctx context.Context, url string) error {
	s, err := store.Open(ctx, url, 2)
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Migrate(ctx)
}

// empty starts a world without any user; change may add to the API before it is built.
func emptyWorld(t testing.TB, change ...func(*API)) *world {
	t.Helper()
	ctx := context.Background()
	s, err := store.Open(ctx, pgtest.Clone(t, "api", migrate), 8)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	sealer, err := cipher.New(bytes.Repeat([]byte{7}, cipher.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, store: s, log: &logBuffer{}, clock: time.Now()}
	log := slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if w.auth, err = auth.New(auth.Config{Store: s, Cipher: sealer, Log: log, Now: w.now}); err != nil {
		t.Fatal(err)
	}
	reg := prometheus.NewRegistry()
	w.api = &API{Auth: w.auth, Streams: ingest.Live{Store: s}, Nodes: s, Placed: s, View: alone, Documents: s, Finder: s, Query: cutQuerier{}, Log: log, Registerer: reg, Gatherer: reg, Now: w.now, Version: "test",
		Checks: []Check{{Name: "postgres", Vital: true, Run: s.Ping}}}
	for _, f := range change {
		f(w.api)
	}
	h, err := w.api.Handler()
	if err != nil {
		t.Fatal(err)
	}
	w.http = httptest.NewUnstartedServer(nil)
	w.http.Config = Server(h, log)
	w.http.Start()
	t.Cleanup(w.http.Close)
	return w
}

// newWorld starts a world with its first owner.
func newWorld(t testing.TB, change ...func(*API)) *world {
	t.Helper()
	w := emptyWorld(t, change...)
	if code, err := w.auth.Start(context.Background(), rootEmail, password); err != nil || code != "" {
		t.Fatalf("first owner: %q, %v", code, err)
	}
	return w
}

// answer is a reply, read whole.
type answer struct {
	status  int
	header  http.Header
	body    []byte
	trailer http.Header
}

func (a answer) into(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal(a.body, v); err != nil {
		t.Fatalf("status %d, body %s: %v", a.status, a.body, err)
	}
}

func (a answer) problem(t testing.TB) errorDetail {
	t.Helper()
	var e errorBody
	a.into(t, &e)
	return e.Error
}

// call sends a request: token is a Bearer credential or empty, body a value for JSON, a string to send as it is, or nil.
func (w *world) call(method, path, token string, body any, headers ...string) answer {
	w.t.Helper()
	var text []byte
	switch b := body.(type) {
	case nil:
	case string:
		text = []byte(b)
	default:
		var err error
		if text, err = json.Marshal(b); err != nil {
			w.t.Fatal(err)
		}
	}
	req, err := http.NewRequest(method, w.http.URL+path, bytes.NewReader(text))
	if err != nil {
		w.t.Fatal(err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return w.do(req)
}

func (w *world) do(req *http.Request) answer {
	w.t.Helper()
	resp, err := w.http.Client().Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, text, resp.Trailer}
}

// want makes a call and fails the test unless it answers with the status; into, if not nil, gets the body.
func (w *world) want(status int, method, path, token string, body, into any, headers ...string) answer {
	w.t.Helper()
	a := w.call(method, path, token, body, headers...)
	if a.status != status {
		w.t.Fatalf("%s %s: status %d, want %d: %s", method, path, a.status, status, a.body)
	}
	if into != nil {
		a.into(w.t, into)
	}
	return a
}

func (w *world) login(email, secret string) grantView {
	w.t.Helper()
	var g grantView
	w.want(200, "POST", "/api/v1/auth/login", "", loginBody{Email: email, Password: secret}, &g)
	return g
}

func (w *world) root() string { w.t.Helper(); return w.login(rootEmail, password).Token }

// member adds somebody with a password to the organization of whoever token belongs to and signs them in.
func (w *world) member(token, email, role string) (id, session string) {
	w.t.Helper()
	var m newMemberView
	w.want(201, "POST", "/api/v1/users", token, newUserBody{Email: email, Role: role, Password: password}, &m)
	return m.User.ID, w.login(email, password).Token
}

// apiToken makes an API token.
func (w *world) apiToken(token string, scopes ...string) (text, id string) {
	w.t.Helper()
	var v tokenView
	w.want(201, "POST", "/api/v1/auth/tokens", token, newTokenBody{Name: "test", Scopes: scopes}, &v)
	return v.Token, v.ID
}

// actions lists the audit log's actions, newest first, with the outcome of those that are not ok.
func (w *world) actions(token string) []string {
	w.t.Helper()
	var v auditView
	w.want(200, "GET", "/api/v1/audit?limit=1000", token, nil, &v)
	out := make([]string, len(v.Entries))
	for i, e := range v.Entries {
		out[i] = e.Action
		if e.Outcome != "ok" {
			out[i] += ":" + e.Outcome
		}
	}
	return out
}

// other makes a second organization with an owner of its own who does not belong to the first.
func (w *world) other() (owner string, org auth.Organization) {
	w.t.Helper()
	ctx := context.Background()
	u := auth.User{ID: "018f0000-0000-7000-8000-0000000000aa", Email: "other@example.com", CreatedAt: w.now()}
	var root membershipView
	var me meView
	token := w.root()
	w.want(200, "GET", "/api/v1/auth/me", token, nil, &me)
	root = me.Organization
	inv := w.want(201, "POST", "/api/v1/users", token, newUserBody{Email: u.Email, Role: "owner", Password: password}, nil)
	var m newMemberView
	inv.into(w.t, &m)
	org = auth.Organization{ID: "018f0000-0000-7000-8000-0000000000bb", Slug: "other", Name: "Other", CreatedAt: w.now()}
	if err := w.store.CreateOrganization(ctx, org, m.User.ID, auth.Entry{At: w.now(), Actor: "system", Action: "organization.create", Outcome: auth.OK}); err != nil {
		w.t.Fatal(err)
	}
	w.want(204, "DELETE", "/api/v1/users/"+m.User.ID, token, nil, nil)
	g := w.login(u.Email, password)
	if g.Organization.Slug != "other" || g.Organization.ID == root.ID {
		w.t.Fatalf("the other owner works in %+v", g.Organization)
	}
	return g.Token, org
}

// stream makes a log stream.
func (w *world) stream(org, name string) store.Stream {
	w.t.Helper()
	s, err := w.store.EnsureStream(context.Background(), millstream.StreamKey{Org: millstream.OrgID(org), Signal: millstream.Logs, Name: name})
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func checkProblem(t testing.TB, what string, a answer, status int, code, message string) {
	t.Helper()
	if a.status != status {
		t.Errorf("%s: status %d, want %d: %s", what, a.status, status, a.body)
		return
	}
	if e := a.problem(t); e.Code != code || !strings.Contains(e.Message+" "+e.Hint, message) {
		t.Errorf("%s: %s, want code %s and %q", what, a.body, code, message)
	}
}

func newRegistry() (prometheus.Registerer, prometheus.Gatherer) {
	reg := prometheus.NewRegistry()
	return reg, reg
}

func sprint(args ...any) string { return fmt.Sprint(args...) }

// alone is the view of a node that is the only one.
func alone() *cluster.View {
	m := millstream.Member{ID: "alone", PlacementID: "volume", Roles: []string{cluster.Standalone}, MilliCPU: 4000}
	return cluster.NewView([]millstream.Member{m}, time.Time{}, cluster.Timeouts{})
}
