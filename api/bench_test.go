package api

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func BenchmarkRequestWithAPIToken(b *testing.B) {
	w := newWorld(b)
	a := *w.api
	a.Registerer, a.Gatherer = newRegistry()
	h, err := a.build([]route{{method: "POST", path: "/in", policy: intake(), handle: func(w http.ResponseWriter, _ *http.Request) error { return empty(w) }}})
	if err != nil {
		b.Fatal(err)
	}
	token, _ := w.apiToken(w.root(), "intake")
	a.Log, a.Now = slog.New(slog.DiscardHandler), time.Now
	req := httptest.NewRequest(http.MethodPost, "/in", nil)
	req.Header.Set("Authorization", "Bearer "+token)
	out := discard{http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(out, req)
	}
}

// discard is a reply that goes nowhere.
type discard struct{ h http.Header }

func (d discard) Header() http.Header { return d.h }

func (d discard) Write(p []byte) (int, error) { return len(p), nil }

func (d discard) WriteHeader(int) {}
