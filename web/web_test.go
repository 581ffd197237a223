package web

import (
	"bytes"
	"context"
	"crypto/tls"
	"html"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/api"
	"github.com/millstream/millstream/ingest"
	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/internal/cipher"
	"github.com/millstream/millstream/internal/config"
	"github.com/millstream/millstream/query"
	"github.com/millstream/millstream/store"
	"github.com/millstream/millstream/store/storetest"
	"github.com/millstream/millstream/ui"
)

const (
	email    = "ada@example.com"
	password = "correct horse battery"
)

// world is the pages inside the API's frame over real HTTP and PostgreSQL, with a clock that stands still unless it is moved on.
type world struct {
	t     testing.TB
	http  *httptest.Server
	store *store.Store
	auth  *auth.Service
	code  string // of the setup

	mu    sync.Mutex
	clock time.Time
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

// emptyWorld has no user yet; change may alter the configuration of the pages.
func emptyWorld(t testing.TB, secure bool, change ...func(*Config)) *world {
	t.Helper()
	w := &world{t: t, store: storetest.New(t), clock: time.Now()}
	sealer, err := cipher.New(bytes.Repeat([]byte{7}, cipher.KeySize))
	must(t, err)
	log := slog.New(slog.DiscardHandler)
	w.auth, err = auth.New(auth.Config{Store: w.store, Cipher: sealer, Log: log, Now: w.now})
	must(t, err)
	w.code, err = w.auth.Start(context.Background(), "", "")
	must(t, err)
	reg := prometheus.NewRegistry()
	a := &api.API{Auth: w.auth, Streams: ingest.Live{Store: w.store}, Nodes: w.store, Log: log, Registerer: reg, Gatherer: reg, Now: w.now, Version: "test", Checks: []api.Check{{Name: "database", Vital: true, Run: w.store.Ping}}}
	c := Config{
		Auth: w.auth, Catalog: ingest.Live{Store: w.store}, Log: log, Now: w.now, Node: "mill-1", Roles: []string{"standalone"}, Version: "test", Started: w.now(), GRPC: ":4317",
		Queries: noQueries{}, Gatherer: reg, Settings: []config.Effective{{Name: "[http].listen", Env: "MS_HTTP_LISTEN", Value: "<b>:5080", Source: "environment", Doc: "address"}},
		Checks: func(ctx context.Context) (out []ui.Check) {
			for _, s := range a.CheckStates(ctx) {
				out = append(out, ui.Check(s))
			}
			return out
		},
	}
	for _, f := range change {
		f(&c)
	}
	pages, err := New(c)
	must(t, err)
	a.BasePath, a.Pages, a.Session = c.BasePath, pages.Handle, pages.Session
	h, err := a.Handler()
	must(t, err)
	w.http = httptest.NewUnstartedServer(h)
	if secure {
		w.http.StartTLS()
	} else {
		w.http.Start()
	}
	t.Cleanup(w.http.Close)
	return w
}

// newWorld has an owner.
func newWorld(t testing.TB, secure bool, change ...func(*Config)) *world {
	t.Helper()
	w := emptyWorld(t, secure, change...)
	_, err := w.auth.Setup(context.Background(), w.code, email, password, "shop", auth.Origin{}, auth.Entry{At: w.now(), Action: "setup", Outcome: auth.OK})
	must(t, err)
	return w
}

// reader is a browser with its own cookies, which follows no redirects. base is the URL it has opened the node by.
type reader struct {
	*world
	client *http.Client
	base   string
}

func (w *world) reader() *reader {
	jar, _ := cookiejar.New(nil) // no options, no error
	addr := w.http.Listener.Addr().String()
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // the test server's own certificate
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		},
	}
	w.t.Cleanup(transport.CloseIdleConnections)
	r := &reader{world: w, client: &http.Client{Jar: jar, Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, base: w.http.URL}
	return r
}

// named opens the node under another name.
func (r *reader) named(base string) *reader { r.base = base; return r }

type answer struct {
	code   int
	header http.Header
	body   string
}

func (r *reader) do(method, path string, form url.Values, headers ...string) answer {
	r.t.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	req, err := http.NewRequest(method, r.base+path, body)
	must(r.t, err)
	req.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", r.base)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := r.client.Do(req)
	must(r.t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	must(r.t, err)
	return answer{resp.StatusCode, resp.Header, string(text)}
}

func (r *reader) get(path string, headers ...string) answer {
	r.t.Helper()
	return r.do("GET", path, nil, headers...)
}

var (
	tokenField = regexp.MustCompile(`name="form_token" value="([^"]*)"`)
	apiToken   = regexp.MustCompile(`ms_[a-z2-7]{8}_[a-z2-7]{52}`)
	alertText  = regexp.MustCompile(`role="alert"[^>]*><p><strong>([^<]*)`)
)

// send opens a form and sends it filled in with names and values.
func (r *reader) send(page, action string, fields ...string) answer {
	r.t.Helper()
	form := url.Values{}
	if m := tokenField.FindStringSubmatch(r.get(page).body); m != nil {
		form.Set("form_token", m[1])
	}
	for i := 0; i+1 < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	return r.do("POST", action, form)
}

// script makes a request as the script of a page does.
func (r *reader) script(method, path, token string, headers ...string) answer {
	r.t.Helper()
	return r.do(method, path, nil, append([]string{"Accept", "application/json", "X-CSRF-Token", token, "Sec-Fetch-Site", "same-origin"}, headers...)...)
}

// grant is a session of the owner.
func (w *world) grant() auth.Grant {
	w.t.Helper()
	g, err := w.auth.Login(context.Background(), email, password, "", auth.Origin{}, auth.Entry{At: w.now(), Action: "session.create"})
	must(w.t, err)
	return g
}

func (w *world) org() millstream.OrgID {
	w.t.Helper()
	all, err := w.store.Organizations(context.Background(), "")
	must(w.t, err)
	return all[0].ID
}

func (r *reader) signIn() *reader {
	r.t.Helper()
	if a := r.send("/login", "/login", "email", email, "password", password); a.code != http.StatusSeeOther || a.header.Get("Location") != "/" {
		r.t.Fatalf("sign-in: %d %s", a.code, a.body)
	}
	return r
}

// alert is what the page's alert says.
func (a answer) alert() string {
	if m := alertText.FindStringSubmatch(a.body); m != nil {
		return html.UnescapeString(m[1])
	}
	return ""
}

// cookies are what a reply sets, by name.
func (a answer) cookies() map[string]*http.Cookie {
	out := map[string]*http.Cookie{}
	for _, c := range (&http.Response{Header: a.header}).Cookies() {
		out[c.Name] = c
	}
	return out
}

func (r *reader) signedIn() bool {
	r.t.Helper()
	return r.get("/").header.Get("Location") == "/shop/logs"
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// noQueries are none that run.
type noQueries struct{}

func (noQueries) Running(context.Context, *auth.Principal) ([]query.Running, []string, error) {
	return nil, nil, nil
}
func (noQueries) CancelQuery(_ context.Context, _ *auth.Principal, id string) error {
	return millstream.Errorf(millstream.NotFound, "there is no running query %q", id)
}

// faultyCatalog is a catalog that a test breaks or adds to.
type faultyCatalog struct {
	ingest.Live
	more      []store.StreamSummary // listed besides the store's
	pending   ingest.Pending        // of every stream
	uncounted []string              // reasons that come with it
	mu        sync.Mutex
	err       error
}

func (f *faultyCatalog) Unflushed(context.Context, millstream.StreamID) (ingest.Pending, []string, error) {
	return f.pending, f.uncounted, nil
}

func (f *faultyCatalog) fault() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

func (f *faultyCatalog) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *faultyCatalog) Streams(ctx context.Context, org millstream.OrgID, sig millstream.Signal) ([]store.StreamSummary, []string, error) {
	if err := f.fault(); err != nil {
		return nil, nil, err
	}
	all, err := f.Store.Streams(ctx, org, sig)
	return append(all, f.more...), f.uncounted, err
}

var discard = slog.New(slog.DiscardHandler)
