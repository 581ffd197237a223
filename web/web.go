// Package web is the server-rendered pages: what a node is and how to send to it, the first run, and signing in and out.
//
// The pages answer what no route of the API does, inside the API's frame (request id, log, metrics, compression, panics). A handler reads, calls once and
// renders; an error becomes a page in one place, by the same table as the API's. Pages work without script and refer to nothing foreign.
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

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/internal/proxy"
	"github.com/millstream/millstream/store"
	"github.com/millstream/millstream/ui"
)

// Config is what the pages need. Settings have the names of [http] and mean the same.
type Config struct {
	Auth    *auth.Service
	Catalog catalog                              // *store.Store
	Checks  func(ctx context.Context) []ui.Check // what readyz answers
	Log     *slog.Logger
	Now     func() time.Time

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

// catalog is what the pages show of the database. *store.Store fits.
type catalog interface {
	Streams(ctx context.Context, org millstream.OrgID, sig millstream.Signal) ([]store.StreamSummary, error)
	Organizations(ctx context.Context, user string) ([]auth.Organization, error)
}

// Pages serves the pages. It is safe for concurrent use.
type Pages struct {
	Config
	log      *slog.Logger
	routes   map[string]map[string]handler // path below the base path, method
	external *url.URL                      // nil: not configured
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
	p.routes = map[string]map[string]handler{
		"":        {"GET": p.toHome}, // the base path itself
		"/":       {"GET": p.home},
		"/setup":  {"GET": p.setupForm, "POST": p.setup},
		"/login":  {"GET": p.loginForm, "POST": p.login},
		"/logout": {"POST": p.logout},
		"/tokens": {"POST": p.newToken},
	}
	return p, nil
}

// Handle answers a request that is not the API's. An error that it returns is one for programs, to be answered as the API answers them.
func (p *Pages) Handle(w http.ResponseWriter, r *http.Request) error {
	path, ok := strings.CutPrefix(r.URL.Path, p.BasePath)
	if name, found := strings.CutPrefix(path, ui.AssetRoot); ok && found {
		return asset(w, r, name)
	}
	methods := p.routes[path]
	if !ok || methods == nil {
		err := millstream.Errorf(millstream.NotFound, "there is nothing at this path")
		if !forReaders(r, path) {
			return err
		}
		p.fail(w, r, err)
		return nil
	}
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	h := methods[method]
	if h == nil {
		h = notAllowed(methods)
	}
	if err := p.origins.Check(r); err != nil {
		h = func(http.ResponseWriter, *http.Request) error {
			return &millstream.Error{Kind: millstream.Forbidden, Msg: "the form came from another site", Hint: "open the page here and send it again; behind a proxy, set [http].external_url", Err: err}
		}
	}
	if err := h(w, r); err != nil {
		p.fail(w, r, err)
	}
	return nil
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
	h.Set("Content-Type", a.Type)
	h.Set("Content-Length", strconv.Itoa(len(a.Body)))
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	_, err := w.Write(a.Body)
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
	return "default-src 'self'; script-src 'self'; style-src 'self'; object-src 'none'; base-uri 'none'; frame-ancestors " + frames + "; form-action 'self'", nil
}

// gone marks a failed write as what it is: the client went away.
func gone(err error) error {
	if err == nil {
		return nil
	}
	return millstream.Wrap(millstream.Canceled, err, "the client went away")
}
