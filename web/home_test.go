package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/store"
	"github.com/millstream/millstream/ui"
)

// Every page carries the policy, refers to nothing outside the base path and has nothing inline.
func TestEveryPageHasThePolicy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		base      string
		frames    []string
		ancestors string
	}{
		"plain":     {"", nil, "'none'"},
		"base path": {"/ms", []string{"https://portal.example", "'self'"}, "https://portal.example 'self'"},
	} {
		w := newWorld(t, false, func(cfg *Config) { cfg.BasePath, cfg.FrameAncestors = c.base, c.frames })
		stranger, owner := w.reader(), w.reader().named(w.http.URL+c.base)
		if a := owner.send("/login", "/login", "email", email, "password", password); a.header.Get("Location") != c.base+"/" {
			t.Fatalf("%s: sign-in leads to %q", name, a.header.Get("Location"))
		}
		want := "default-src 'self'; script-src 'self'; style-src 'self'; object-src 'none'; base-uri 'none'; frame-ancestors " + c.ancestors + "; form-action 'self'"
		pages := map[string]answer{
			"home": stranger.get(c.base + "/"), "login": stranger.get(c.base + "/login"), "not found": stranger.get(c.base + "/nothing"), "method": stranger.do("PUT", c.base+"/login", nil),
			"forged": stranger.do("POST", c.base+"/login", nil, "Origin", "https://evil.example"), "streams": owner.get("/"), "token": owner.send("/", "/tokens", "name", "x"),
		}
		for page, a := range pages {
			h := a.header
			if h.Get("Content-Security-Policy") != want || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cache-Control") != "no-store" || h.Get("Content-Type") != "text/html; charset=utf-8" {
				t.Errorf("%s, %s: %d %v", name, page, a.code, h)
			}
			for _, m := range regexp.MustCompile(`(?:href|src|action)="([^"]*)"`).FindAllStringSubmatch(a.body, -1) {
				if !strings.HasPrefix(m[1], c.base+"/") && m[1] != "#main" {
					t.Errorf("%s, %s: refers to %s", name, page, m[1])
				}
			}
		}
		if a := stranger.get(c.base); c.base != "" && (a.code != 303 || a.header.Get("Location") != c.base+"/") {
			t.Errorf("the base path itself: %d", a.code)
		}
		if a := stranger.get("/login"); c.base != "" && a.code != 404 {
			t.Errorf("outside the base path: %d", a.code)
		}
	}
}

func TestFrameAncestorsAreOrigins(t *testing.T) {
	for _, bad := range []string{"", "https://a.example; script-src *", "a b", "x,y", "x\ny"} {
		if _, err := policy([]string{bad}); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// What is not there: pages for people, JSON for programs, whatever they ask for below the API's roots.
func TestNothingThere(t *testing.T) {
	t.Parallel()
	r := newWorld(t, false).reader()
	for _, c := range []struct {
		method, path, accept string
		status               int
		page                 bool
	}{
		{"GET", "/nothing", "text/html", 404, true},
		{"GET", "/nothing", "*/*", 404, false},
		{"GET", "/api/v1/nothing", "text/html", 404, false},
		{"GET", "/v1/nothing", "text/html", 404, false},
		{"POST", "/nothing", "text/html", 404, false},
		{"GET", "/assets/nothing.css", "text/html", 404, false},
		{"GET", "/login/", "text/html", 404, true},
		{"GET", "/logout", "text/html", 405, true},
		{"DELETE", "/", "text/html", 405, true},
		{"DELETE", "/api/v1/healthz", "text/html", 405, false},
	} {
		a := r.do(c.method, c.path, nil, "Accept", c.accept)
		if a.code != c.status || strings.HasPrefix(a.body, "<!doctype") != c.page {
			t.Errorf("%s %s for %s: %d %.80s", c.method, c.path, c.accept, a.code, a.body)
		}
		if !c.page && !json.Valid([]byte(a.body)) {
			t.Errorf("%s %s: %s", c.method, c.path, a.body)
		}
		if c.status == 405 && a.header.Get("Allow") == "" {
			t.Errorf("%s %s: no Allow", c.method, c.path)
		}
	}
	if a := r.do("HEAD", "/", nil); a.code != 200 || a.body != "" {
		t.Errorf("HEAD: %d", a.code)
	}
}

func TestAssets(t *testing.T) {
	t.Parallel()
	r := newWorld(t, false).reader()
	found := regexp.MustCompile(`"(/assets/[a-z]+\.[0-9a-f]{12}\.(css|js|svg))"`).FindAllStringSubmatch(r.get("/login").body, -1)
	if len(found) != 3 {
		t.Fatalf("assets of the page: %v", found)
	}
	for _, m := range found {
		a := r.get(m[1])
		if a.code != 200 || a.header.Get("Cache-Control") != "public, max-age=31536000, immutable" || len(a.body) < 200 {
			t.Errorf("%s: %d %v", m[1], a.code, a.header)
		}
	}
}

// Names of streams come from senders. The store refuses such as these; the page does not rely on it.
func TestHostileStreamNames(t *testing.T) {
	t.Parallel()
	var catalog faultyCatalog
	w := newWorld(t, false, func(c *Config) {
		catalog.Store = c.Catalog.(*store.Store)
		c.Catalog = &catalog
	})
	for _, name := range []string{`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, "rtl\u202egpj.exe", "plain"} {
		catalog.more = append(catalog.more, store.StreamSummary{Stream: store.Stream{Key: millstream.StreamKey{Org: w.org(), Signal: millstream.Logs, Name: name}}})
	}
	body := w.reader().signIn().get("/").body
	for _, bad := range []string{"<script>alert", "<img", "\u202e"} {
		if strings.Contains(body, bad) {
			t.Errorf("%q is in the page", bad)
		}
	}
	for _, want := range []string{"&lt;script&gt;alert(1)", "rtl[U+202E]gpj.exe", "plain", "4 streams"} {
		if !strings.Contains(body, want) {
			t.Errorf("%q is not in the page", want)
		}
	}
}

func (w *world) org() millstream.OrgID {
	w.t.Helper()
	all, err := w.store.Organizations(context.Background(), "")
	must(w.t, err)
	return all[0].ID
}

func TestManyStreams(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	for i := range maxStreams + 5 {
		_, err := w.store.EnsureStream(context.Background(), millstream.StreamKey{Org: w.org(), Signal: millstream.Logs, Name: fmt.Sprintf("s%03d", i)})
		must(t, err)
	}
	body := w.reader().signIn().get("/").body
	if n := strings.Count(body, `<th scope="row">`); n != maxStreams || !strings.Contains(body, "The first 200 of 205") {
		t.Errorf("%d lines", n)
	}
}

// One sees the streams of one's own organizations and of no other.
func TestOrganizations(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	ctx := context.Background()
	r := w.reader().signIn()
	members, err := w.store.Members(ctx, w.org())
	must(t, err)
	second := auth.Organization{ID: millstream.OrgID(uuid.NewString()), Slug: "second", Name: "Second", CreatedAt: w.now()}
	must(t, w.store.CreateOrganization(ctx, second, members[0].ID, auth.Entry{Action: "organization.create", Org: second.ID}))
	w.auth.Changed()
	_, err = w.store.EnsureStream(ctx, millstream.StreamKey{Org: second.ID, Signal: millstream.Logs, Name: "only-there"})
	must(t, err)
	first, other := r.get("/").body, r.get("/?org=second").body
	if strings.Contains(first, "only-there") || !strings.Contains(first, `href="/?org=second"`) {
		t.Error("the first organization shows the second's streams, or does not lead there")
	}
	if !strings.Contains(other, "only-there") || !strings.Contains(other, `name="org" value="second"`) || !strings.Contains(other, `href="/?org=shop"`) {
		t.Error("the second organization is not shown")
	}
	if a := r.get("/?org=third"); a.code != http.StatusNotFound {
		t.Errorf("a foreign organization: %d", a.code)
	}
	a := r.send("/?org=second", "/tokens", "name", "x", "org", "second")
	if who, err := w.auth.Authenticate(ctx, "Bearer "+apiToken.FindString(a.body), ""); err != nil || who.Slug != "second" {
		t.Errorf("the token belongs to %+v, %v", who, err)
	}
}

// The first page is there whatever fails, and says what.
func TestUnhealthy(t *testing.T) {
	t.Parallel()
	var catalog faultyCatalog
	w := newWorld(t, false, func(c *Config) {
		catalog.Store = c.Catalog.(*store.Store)
		c.Catalog = &catalog
		c.Checks = func(context.Context) []ui.Check { return []ui.Check{{Name: "database", Message: "no <answer>"}} }
	})
	r := w.reader().signIn()
	catalog.set(millstream.Errorf(millstream.Unavailable, "the database does not answer"))
	a := r.get("/")
	for _, want := range []string{"not ready", "no &lt;answer&gt;", "The streams cannot be listed", "The database does not answer.", "Send data"} {
		if !strings.Contains(a.body, want) {
			t.Errorf("%q is not in the page", want)
		}
	}
	if a.code != 200 {
		t.Errorf("status %d", a.code)
	}
}

// The snippets go into shells: a Host header that is none is not repeated there.
func TestTargets(t *testing.T) {
	for name, c := range map[string]struct{ host, grpc, external, url, at string }{
		"as opened":                   {host: "node.example:5080", grpc: ":4317", url: "http://node.example:5080/b", at: "node.example:4317"},
		"IPv6":                        {host: "[::1]:5080", grpc: "0.0.0.0:4317", url: "http://[::1]:5080/b", at: "[::1]:4317"},
		"a command":                   {host: "x;reboot", grpc: ":4317", url: "http://localhost/b", at: "localhost:4317"},
		"a substitution":              {host: "$(reboot)", grpc: ":4317", url: "http://localhost/b", at: "localhost:4317"},
		"configured":                  {host: "10.0.0.1:5080", grpc: ":4317", external: "https://ms.example.com/b", url: "https://ms.example.com/b", at: "ms.example.com:4317"},
		"gRPC on this machine only":   {host: "node.example", grpc: "127.0.0.1:4317", url: "http://node.example/b"},
		"gRPC here, seen from here":   {host: "localhost:5080", grpc: "127.0.0.1:4317", url: "http://localhost:5080/b", at: "localhost:4317"},
		"gRPC at no address we know ": {host: "node.example", url: "http://node.example/b"},
	} {
		p, err := New(Config{BasePath: "/b", ExternalURL: c.external, GRPC: c.grpc, Log: discard})
		must(t, err)
		got := p.targets(&http.Request{Host: c.host}, "")
		if got.URL != c.url || got.GRPC != c.at {
			t.Errorf("%s: %+v", name, got)
		}
	}
	for _, bad := range []string{"ms.example.com", "ftp://x", "http://", "%"} {
		if _, err := New(Config{ExternalURL: bad, Log: discard}); err == nil {
			t.Errorf("external URL %q was taken", bad)
		}
	}
}
