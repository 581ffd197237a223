package api

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
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

// A node without the full API answers health, readiness and metrics and nothing else.
func TestHealthHandler(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t)
	a := *w.api
	a.Registerer, a.Gatherer = newRegistry()
	h, err := a.HealthHandler()
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{"/api/v1/healthz": 200, "/api/v1/readyz": 200, "/metrics": 200, "/api/v1/users": 404, "/api/v1/openapi.json": 404, "/api/v1/auth/login": 404} {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, path, nil))
		if rec.Code != want {
			t.Errorf("%s: %d", path, rec.Code)
		}
	}
}
