package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/millstream/millstream"
)

func TestReadiness(t *testing.T) {
	t.Parallel()
	state, store := make(chan error, 1), error(nil)
	now := time.Unix(1_800_000_000, 0)
	w := emptyWorld(t, func(a *API) {
		a.Now = func() time.Time { return now }
		a.Checks = append(a.Checks, Check{"intake", true, func(context.Context) error { return <-state }}, Check{"object store", false, func(context.Context) error { return store }})
	})
	state <- nil
	var v readyView
	w.want(200, "GET", "/api/v1/readyz", "", nil, &v)
	if v.Status != "ready" || v.Checks["postgres"].State != "ok" {
		t.Errorf("%+v", v)
	}
	w.want(200, "GET", "/api/v1/readyz", "", nil, nil) // asks nobody: the channel is empty
	now = now.Add(readyFor)
	state <- nil
	store = millstream.Wrap(millstream.Unavailable, errors.New("dial 10.0.0.2"), "the object store does not answer")
	w.want(200, "GET", "/api/v1/readyz", "", nil, &v) // the node can do without it for a while
	if c := v.Checks["object store"]; v.Status != "ready" || c.State != "failing" || c.Message != "the object store does not answer" {
		t.Errorf("%+v", v)
	}
	now = now.Add(readyFor)
	state <- millstream.Wrap(millstream.Unavailable, errors.New("dial 10.0.0.1"), "the intake does not answer")
	a := w.want(503, "GET", "/api/v1/readyz", "", nil, &v)
	if v.Status != "not_ready" || v.Checks["intake"].State != "failing" || v.Checks["intake"].Message != "the intake does not answer" || a.header.Get("Retry-After") == "" {
		t.Errorf("%+v", v)
	}
	w.want(200, "GET", "/api/v1/healthz", "", nil, nil)
}

// A node without the full API answers health, readiness and metrics and nothing else: no page, no sign-in, no intake, whoever asks.
func TestHealthHandler(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	token := w.root()
	for _, base := range []string{"", "/ms"} {
		a := *w.api
		a.Registerer, a.Gatherer = newRegistry()
		a.BasePath = base
		a.Pages = func(w http.ResponseWriter, _ *http.Request) error { w.WriteHeader(http.StatusOK); return nil }
		h, err := a.HealthHandler()
		if err != nil {
			t.Fatal(err)
		}
		status := func(method, path string) int {
			rec := httptest.NewRecorder()
			r := httptest.NewRequest(method, path, strings.NewReader("{}"))
			r.Header.Set("Authorization", "Bearer "+token)
			r.Header.Set("Accept", "text/html")
			h.ServeHTTP(rec, r)
			return rec.Code
		}
		for _, path := range []string{"/api/v1/healthz", "/api/v1/readyz", "/metrics"} {
			if code := status("GET", base+path); code != 200 {
				t.Errorf("%s%s: %d", base, path, code)
			}
		}
		for _, path := range []string{
			"/", "", "/login", "/setup", "/logout", "/settings", "/default/logs", "/cluster/nodes", "/cluster/status", "/assets/app.js", "/favicon.ico", "/robots.txt", "/api", "/api/v1", "/api/v1/", "/api/v1/healthz/", "/api/v1/readyz/x", "/metrics/",
			"/api/v1/users", "/api/v1/openapi.json", "/api/v1/auth/login", "/api/v1/cluster/nodes", "/api/v1/node/drain", "/api/v1/node/flush", "/api/v1/query", "/api/v1/intake/json/app", "/v1/logs", "/v1/metrics", "/v1/traces", "/debug/pprof/",
		} {
			for _, method := range []string{"GET", "POST"} {
				if code := status(method, cmp.Or(base+path, "/x")); code != 404 {
					t.Errorf("%s %s%s: %d", method, base, path, code)
				}
			}
		}
		if base != "" && status("GET", "/api/v1/healthz") != 404 {
			t.Error("health is answered outside the base path")
		}
	}
}
