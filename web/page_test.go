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
	"github.com/millstream/millstream/ingest"
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
		want := "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; worker-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors " + c.ancestors
		pages := map[string]answer{
			"login": stranger.get(c.base + "/login"), "not found": stranger.get(c.base + "/nothing"), "method": stranger.do("PUT", c.base+"/login", nil),
			"forged": stranger.do("POST", c.base+"/login", nil, "Origin", "https://evil.example"), "logs": owner.get("/shop/logs"), "dashboard": owner.get("/shop/dashboards/1"),
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

var crumbText = regexp.MustCompile(`(?s)<nav class="crumbs[^>]*>(.*?)</nav>`)

// What is below a list says so, with a way back to it.
func TestCrumbs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false, func(c *Config) { c.BasePath = "/ms" })
	w.stream(millstream.Logs, "app")
	r := w.reader().named(w.http.URL + "/ms")
	r.send("/login", "/login", "email", email, "password", password)
	for path, want := range map[string]string{
		"/shop/traces":                "/ Traces",
		"/shop/traces/4bf92f3577b34d": `/ <a href="/ms/shop/traces">Traces</a> / Trace`,
		"/shop/services":              `/ <a href="/ms/shop/traces">Traces</a> / Services`,
		"/shop/dashboards":            "/ Dashboards",
		"/shop/dashboards/1":          `/ <a href="/ms/shop/dashboards">Dashboards</a> / Dashboard`,
		"/shop/streams":               "/ Streams",
		"/shop/streams/logs/app":      `/ <a href="/ms/shop/streams">Streams</a> / app`,
		"/settings":                   "/ Settings",
		"/settings/configuration":     "/ Settings",
	} {
		a := r.get(path)
		m := crumbText.FindStringSubmatch(a.body)
		if a.code != http.StatusOK || m == nil {
			t.Errorf("%s: %d, no breadcrumbs", path, a.code)
			continue
		}
		if got := strings.Join(strings.Fields(regexp.MustCompile(`</?span[^>]*>`).ReplaceAllString(m[1], " ")), " "); got != want {
			t.Errorf("%s: %s; want %s", path, got, want)
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
	if a := r.do("HEAD", "/login", nil); a.code != 200 || a.body != "" {
		t.Errorf("HEAD: %d", a.code)
	}
}

func TestAssets(t *testing.T) {
	t.Parallel()
	r := newWorld(t, false).reader()
	found := regexp.MustCompile(`"(/assets/[a-z-]+\.[0-9A-Z]{8}\.(css|js|svg|woff2))"`).FindAllStringSubmatch(r.get("/login").body, -1)
	if len(found) != 4 {
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
		catalog.Live = c.Catalog.(ingest.Live)
		c.Catalog = &catalog
	})
	names := []string{`</script><script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, "plain"}
	for i, name := range names {
		catalog.more = append(catalog.more, store.StreamSummary{Stream: store.Stream{Key: millstream.StreamKey{Org: w.org(), Signal: millstream.Logs, Name: name}}, MaxTime: int64(-i)})
	}
	body := w.reader().signIn().get("/shop/logs").body
	for _, bad := range []string{"<script>alert", "<img"} {
		if strings.Contains(body, bad) {
			t.Errorf("%q is in the page", bad)
		}
	}
	boot := bootOf(t, body)
	for i, name := range names {
		if boot.Streams[i].Name != name {
			t.Errorf("the script is told of %v", boot.Streams)
		}
	}
}

// boot is what a page's script is told.
type boot struct {
	Base, Org, CSRF, Role, Page string
	Streams                     []ui.StreamRef
	Data                        struct{ Orgs []string }
}

func bootOf(t *testing.T, body string) (b boot) {
	t.Helper()
	m := regexp.MustCompile(`(?s)<script id="boot" type="application/json">(.*?)</script>`).FindStringSubmatch(body)
	if m == nil {
		t.Fatalf("no boot data: %.200s", body)
	}
	must(t, json.Unmarshal([]byte(m[1]), &b))
	return b
}

// The script is told of the streams with the newest data, and of no more than the page can hold.
func TestManyStreams(t *testing.T) {
	t.Parallel()
	var catalog faultyCatalog
	w := newWorld(t, false, func(c *Config) {
		catalog.Live = c.Catalog.(ingest.Live)
		c.Catalog = &catalog
	})
	for i := range maxStreams + 5 {
		catalog.more = append(catalog.more, store.StreamSummary{Stream: store.Stream{Key: millstream.StreamKey{Org: w.org(), Signal: millstream.Logs, Name: fmt.Sprintf("s%03d", i)}}, MaxTime: int64(i)})
	}
	b := bootOf(t, w.reader().signIn().get("/shop/logs").body)
	if len(b.Streams) != maxStreams || b.Streams[0].Name != "s504" {
		t.Errorf("%d streams, the first %v", len(b.Streams), b.Streams[0])
	}
}

// One works in one's own organizations and in no other; the one worked in last is the next time's.
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
	first := bootOf(t, r.get("/shop/logs").body)
	if len(first.Streams) != 0 || first.Org != "shop" || len(first.Data.Orgs) != 2 {
		t.Errorf("the first organization: %+v", first)
	}
	other := bootOf(t, r.get("/second/logs").body)
	if len(other.Streams) != 1 || other.Streams[0].Name != "only-there" || other.Org != "second" {
		t.Errorf("the second organization: %+v", other)
	}
	if a := r.get("/"); a.header.Get("Location") != "/second/logs" {
		t.Errorf("the next time leads to %q", a.header.Get("Location"))
	}
	if a := r.get("/third/logs"); a.code != http.StatusNotFound {
		t.Errorf("a foreign organization: %d", a.code)
	}
	if a := r.script("GET", "/api/v1/streams", "", "X-Org-Id", "second"); !strings.Contains(a.body, "only-there") {
		t.Errorf("the script does not work in the second organization: %s", a.body)
	}
	if a := r.script("GET", "/api/v1/streams", "", "X-Org-Id", "third"); a.code != http.StatusNotFound {
		t.Errorf("the script works in a foreign organization: %d", a.code)
	}
}

// The session's cookie is a credential for the API only in requests of our own pages.
func TestScriptsOfOtherSites(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	r := w.reader().signIn()
	token := bootOf(t, r.get("/shop/logs").body).CSRF
	foreign := bootOf(t, w.reader().signIn().get("/shop/logs").body).CSRF
	query := "/api/v1/auth/jwt/rotate"
	for name, c := range map[string]struct {
		method, path, token string
		headers             []string
		status              int
	}{
		"ours reads":                     {"GET", "/api/v1/auth/me", "", nil, 200},
		"typed into the address bar":     {"GET", "/api/v1/auth/me", "", []string{"Sec-Fetch-Site", "none"}, 200},
		"another site reads":             {"GET", "/api/v1/auth/me", "", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		"a sibling site reads":           {"GET", "/api/v1/auth/me", "", []string{"Sec-Fetch-Site", "same-site"}, 403},
		"ours changes":                   {"POST", query, token, nil, 200},
		"no token":                       {"POST", query, "", nil, 403},
		"another reader's token":         {"POST", query, foreign, nil, 403},
		"another site, with the token":   {"POST", query, token, []string{"Sec-Fetch-Site", "cross-site"}, 403},
		"another origin, with the token": {"POST", query, token, []string{"Sec-Fetch-Site", "", "Origin", "https://evil.example"}, 403},
	} {
		if a := r.script(c.method, c.path, c.token, c.headers...); a.code != c.status {
			t.Errorf("%s: %d %s", name, a.code, a.body)
		}
	}
	if a := w.reader().script("GET", "/api/v1/auth/me", ""); a.code != 401 {
		t.Errorf("a stranger: %d", a.code)
	}
	// A credential of its own needs no token, whatever cookies come along.
	if a := r.do("POST", query, nil, "Authorization", "Bearer "+w.grant().Token); a.code != 200 {
		t.Errorf("with a credential: %d %s", a.code, a.body)
	}
}

// A page that cannot be made says why.
func TestUnhealthy(t *testing.T) {
	t.Parallel()
	var catalog faultyCatalog
	w := newWorld(t, false, func(c *Config) {
		catalog.Live = c.Catalog.(ingest.Live)
		c.Catalog = &catalog
	})
	r := w.reader().signIn()
	catalog.set(millstream.Errorf(millstream.Unavailable, "the database does not answer"))
	if a := r.get("/shop/logs"); a.code != 503 || !strings.Contains(a.body, "The database does not answer.") || a.header.Get("Retry-After") == "" {
		t.Errorf("%d %s", a.code, a.body)
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

// The pages of the cluster are for administrators, and the navigation leads there.
func TestClusterPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	r := w.reader().signIn()
	who, err := w.auth.Authenticate(t.Context(), "Bearer "+w.grant().Token, "")
	must(t, err)
	_, _, err = w.auth.AddMember(t.Context(), who, auth.NewMember{Email: "bob@example.com", Role: auth.Editor, Password: password}, auth.Entry{Action: "user.create", Org: who.Org})
	must(t, err)
	bob := w.reader()
	bob.send("/login", "/login", "email", "bob@example.com", "password", password)
	for _, page := range []string{"nodes", "ownership"} {
		path := "/cluster/" + page
		if a := r.get("/" + page); a.code != http.StatusSeeOther || a.header.Get("Location") != path {
			t.Errorf("%s: %d to %q", page, a.code, a.header.Get("Location"))
		}
		if a := r.get(path); a.code != http.StatusOK || !strings.Contains(a.body, page+".") {
			t.Errorf("%s: %d %.300s", path, a.code, a.body)
		}
		if body := r.get("/settings").body; !strings.Contains(body, `href="`+path+`"`) {
			t.Errorf("the navigation does not lead to %s", path)
		}
		if a := bob.get(path); a.code != http.StatusForbidden || !strings.Contains(a.body, "for administrators") {
			t.Errorf("%s for an editor: %d", path, a.code)
		}
		if strings.Contains(bob.get("/settings").body, path) {
			t.Errorf("the navigation leads an editor to %s, which is not for him", path)
		}
	}
	// Who was given an organization of his own has no nodes with it.
	u, err := w.store.UserByEmail(t.Context(), "bob@example.com")
	must(t, err)
	must(t, w.store.CreateOrganization(t.Context(), auth.Organization{ID: "018f0000-0000-7000-8000-0000000000bb", Slug: "bobs", Name: "Bob's", CreatedAt: w.now()}, u.ID, auth.Entry{Action: "organization.create"}))
	w.auth.Changed()
	bob.get("/bobs/access")
	for _, path := range []string{"/cluster/nodes", "/cluster/ownership"} {
		if a := bob.get(path); a.code != http.StatusForbidden {
			t.Errorf("%s for the owner of another organization: %d", path, a.code)
		}
	}
	if body := bob.get("/bobs/access").body; strings.Contains(body, "/cluster/nodes") || strings.Contains(body, "/cluster/ownership") || !strings.Contains(body, "New user") && !strings.Contains(body, "Role") {
		t.Error("the owner of another organization is led to the nodes")
	}
	if a := bob.get("/settings/configuration"); a.code != http.StatusForbidden || strings.Contains(bob.get("/settings").body, "/settings/configuration") {
		t.Errorf("the configuration of the node: %d", a.code)
	}
}
