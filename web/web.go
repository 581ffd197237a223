// Package web is the handlers of the pages: the first run, signing in and out, the shells of the explorers, and what is rendered on the server.
//
// The pages answer what no route of the API does, inside the API's frame (request id, log, metrics, compression, panics). A handler reads, calls once and
// renders; an error becomes a page in one place, by the same table as the API's. The script of a page asks the API with the page's session; see Session.
package web

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest"
	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/internal/config"
	"github.com/millstream/millstream/internal/proxy"
	"github.com/millstream/millstream/query"
	"github.com/millstream/millstream/store"
	"github.com/millstream/millstream/ui"
)

// Config is what the pages need. Settings have the names of [http] and mean the same.
type Config struct {
	Auth     *auth.Service
	Catalog  catalog                              // *store.Store
	Checks   func(ctx context.Context) []ui.Check // what readyz answers
	Queries  queries                              // *api.API
	Gatherer prometheus.Gatherer                  // the node's own metrics
	Settings []config.Effective                   // in force
	Log      *slog.Logger
	Now      func() time.Time

	Node    string
	Roles   []string
	Version string
	Started time.Time
	GRPC    string // the address OTLP gRPC listens on

	BasePath        string
	ExternalURL     string
	FrameAncestors  []string
	TrustedProxies  []netip.Prefix
	InsecureCookies bool
}

// catalog is what the pages show of the database. ingest.Live fits.
type catalog interface {
	Streams(ctx context.Context, org millstream.OrgID, sig millstream.Signal) (all []store.StreamSummary, reasons []string, err error)
	Stream(ctx context.Context, k millstream.StreamKey) (store.Stream, error)
	StreamSegments(ctx context.Context, id millstream.StreamID) ([]millstream.Segment, error)
	Unflushed(ctx context.Context, id millstream.StreamID) (p ingest.Pending, reasons []string, err error)
	UpdateStream(ctx context.Context, id millstream.StreamID, p store.StreamPatch, a auth.Entry) (store.Stream, error)
	DeleteStream(ctx context.Context, id millstream.StreamID, a auth.Entry) error
	Organizations(ctx context.Context, user string) ([]auth.Organization, error)
	PreferencesID(ctx context.Context, by store.Author) (string, error)
	Document(ctx context.Context, by store.Author, kind store.DocumentKind, id string) (store.Document, error)
}

// queries shows and ends the queries that are running on any node. *api.API fits.
type queries interface {
	Running(ctx context.Context, by *auth.Principal) (list []query.Running, warnings []string, err error)
	CancelQuery(ctx context.Context, by *auth.Principal, id string) error
}

// Pages serves the pages. It is safe for concurrent use.
type Pages struct {
	Config
	log      *slog.Logger
	routes   *chi.Mux // paths below the base path
	external *url.URL // nil: not configured
	trusted  proxy.Trusted
	policy   string // Content-Security-Policy
	origins  *http.CrossOriginProtection
	renewals renewals
	settled  atomic.Bool // the node has been set up, which never becomes untrue
}

// handler reads, calls once and renders; its error becomes a page in fail.
type handler func(w http.ResponseWriter, r *http.Request) error

// New makes the pages. It asks nothing of anybody yet.
func New(c Config) (*Pages, error) {
	p := &Pages{Config: c, log: c.Log.With("component", "web"), trusted: c.TrustedProxies, origins: http.NewCrossOriginProtection(), renewals: renewals{recent: map[auth.Hash]renewal{}}}
	var err error
	if p.policy, err = policy(c.FrameAncestors); err != nil {
		return nil, err
	}
	if c.ExternalURL != "" {
		u, err := url.Parse(c.ExternalURL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, fmt.Errorf("[http].external_url %q is not an http or https URL", c.ExternalURL)
		}
		if err := p.origins.AddTrustedOrigin(u.Scheme + "://" + u.Host); err != nil {
			return nil, fmt.Errorf("[http].external_url: %w", err)
		}
		p.external = u
	}
	p.routes = p.mux()
	return p, nil
}

// mux is the table of the pages. Those of an organization are below its slug.
func (p *Pages) mux() *chi.Mux {
	m := chi.NewRouter()
	add := func(method, pattern string, h handler) { m.Method(method, pattern, p.respond(h)) }
	add("GET", "/", p.signedIn("", p.home))
	add("GET", "/setup", p.setupForm)
	add("POST", "/setup", p.setup)
	add("GET", "/login", p.loginForm)
	add("POST", "/login", p.login)
	add("POST", "/logout", p.logout)
	for _, e := range []struct{ path, page, title, script string }{
		{"logs", "logs", "Logs", "logs.js"},
		{"metrics", "metrics", "Metrics", "metrics.js"},
		{"traces", "traces", "Traces", "traces.js"},
		{"traces/{id}", "traces", "Trace", "trace.js"},
		{"services", "traces", "Services", "services.js"},
		{"dashboards", "dashboards", "Dashboards", "dashboards.js"},
		{"dashboards/{id}", "dashboards", "Dashboard", "dashboard.js"},
	} {
		add("GET", "/{org}/"+e.path, p.signedIn(e.page, p.explorer(e.title, e.script)))
	}
	p.accessRoutes(add)
	p.streamRoutes(add)
	add("GET", "/{org}/send", p.signedIn("send", p.send))
	add("POST", "/{org}/send", p.signedIn("send", p.sendToken))
	add("GET", "/nodes", func(w http.ResponseWriter, _ *http.Request) error { return p.redirect(w, "/cluster/nodes") })
	add("GET", "/cluster/nodes", p.signedIn("cluster/nodes", p.nodes))
	add("GET", "/ownership", func(w http.ResponseWriter, _ *http.Request) error { return p.redirect(w, "/cluster/ownership") })
	add("GET", "/cluster/ownership", p.signedIn("cluster/ownership", p.ownership))
	add("GET", "/cluster/status", p.signedIn("cluster/status", p.statusPage))
	add("POST", "/cluster/status/cancel", p.signedIn("cluster/status", p.cancelQuery))
	add("GET", "/settings", p.signedIn("settings", p.settings))
	add("POST", "/settings/password", p.signedIn("settings", p.changePassword))
	add("GET", "/settings/configuration", p.signedIn("settings", p.configuration))
	m.MethodNotAllowed(p.respond(p.notAllowed))
	return m
}

// respond turns a handler's error into a page.
func (p *Pages) respond(h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := p.origins.Check(r)
		if err != nil {
			err = &millstream.Error{Kind: millstream.Forbidden, Msg: "the form came from another site", Hint: "open the page here and send it again; behind a proxy, set [http].external_url", Err: err}
		} else {
			err = h(w, r)
		}
		if err != nil {
			p.fail(w, r, err)
		}
	}
}

// Handle answers a request that is not the API's. An error that it returns is one for programs, to be answered as the API answers them.
func (p *Pages) Handle(w http.ResponseWriter, r *http.Request) error {
	path, ok := strings.CutPrefix(r.URL.Path, p.BasePath)
	if name, found := strings.CutPrefix(path, ui.AssetRoot); ok && found {
		return asset(w, r, name)
	}
	r = r.WithContext(ui.WithBase(r.Context(), p.BasePath))
	if ok && path == "" {
		return p.toHome(w, r)
	}
	if !ok || len(p.methods(path)) == 0 {
		err := millstream.Errorf(millstream.NotFound, "there is nothing at this path")
		if !forReaders(r, path) {
			return err
		}
		p.fail(w, r, err)
		return nil
	}
	ctx := chi.NewRouteContext()
	ctx.RoutePath, ctx.RouteMethod = path, r.Method
	if r.Method == http.MethodHead {
		ctx.RouteMethod = http.MethodGet
	}
	p.routes.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), chi.RouteCtxKey, ctx)))
	return nil
}

// methods are those that a path takes; none: there is no such page.
func (p *Pages) methods(path string) (list []string) {
	for _, m := range []string{"DELETE", "GET", "PATCH", "POST", "PUT"} {
		if p.routes.Match(chi.NewRouteContext(), m, path) {
			list = append(list, m)
		}
	}
	return list
}

// forReaders says whether a request for a page that does not exist is a person's. Below the API's roots nobody gets HTML.
func forReaders(r *http.Request, path string) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead || strings.HasPrefix(path, "/api/") || strings.HasPrefix(path, "/v1/") {
		return false
	}
	return strings.Contains(r.Header.Get("Accept"), "text/html")
}

// asset serves a file whose name has its content's hash, so that it never has to be asked for again.
func asset(w http.ResponseWriter, r *http.Request, name string) error {
	a, ok := ui.FindAsset(name)
	if !ok || r.Method != http.MethodGet && r.Method != http.MethodHead {
		return millstream.Errorf(millstream.NotFound, "there is no such file")
	}
	h := w.Header()
	body := a.Body
	h.Set("Content-Type", a.Type)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Vary", "Accept-Encoding")
	if a.Gzip != nil && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		body = a.Gzip
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	_, err := w.Write(body)
	return gone(err)
}

// policy is the Content-Security-Policy of every page.
func policy(ancestors []string) (string, error) {
	frames := "'none'"
	for _, a := range ancestors {
		if a == "" || strings.ContainsAny(a, ";, \t\r\n") {
			return "", fmt.Errorf("[http].frame_ancestors: %q is not one origin, such as https://example.com", a)
		}
	}
	if len(ancestors) > 0 {
		frames = strings.Join(ancestors, " ")
	}
	return "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; worker-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors " + frames, nil
}

// gone marks a failed write as what it is: the client went away.
func gone(err error) error {
	if err == nil {
		return nil
	}
	return millstream.Wrap(millstream.Canceled, err, "the client went away")
}
