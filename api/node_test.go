package api

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millstream/millstream"
)

func TestDrain(t *testing.T) {
	t.Parallel()
	drains := 0
	var draining bool
	s := newSplit(t, "", func(a *API, _ string) {
		a.Drain = func(context.Context) error { drains++; draining = true; return nil }
		a.Draining = func() bool { return draining }
		a.Nodes = &members{node("q-1", 0, "querier"), node("router-1", 0, "router")}
	}, "q-1", "q-2")
	s.want(200, "GET", "/api/v1/readyz", "", nil, nil)
	var v drainView
	a := s.via("POST", "/api/v1/node/drain", nil)
	if a.into(t, &v); a.status != 202 || v != (drainView{"router-1", "draining"}) || drains != 1 {
		t.Errorf("%d %s", a.status, a.body)
	}
	var ready readyView
	a = s.via("GET", "/api/v1/readyz", nil)
	if a.into(t, &ready); a.status != 503 || ready.Status != "draining" || ready.Checks["postgres"].State != "ok" || a.header.Get("Retry-After") == "" {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := s.via("POST", "/api/v1/cluster/nodes/router-1/drain", nil); a.status != 202 || drains != 2 {
		t.Errorf("by its id: %d %s", a.status, a.body)
	}
	if a := s.via("POST", "/api/v1/cluster/nodes/q-1/drain", nil); a.status != 202 || s.peers["q-1"].drained != 1 || drains != 2 {
		t.Errorf("another node: %d %s", a.status, a.body)
	}
	checkProblem(t, "unknown", s.via("POST", "/api/v1/cluster/nodes/q-2/drain", nil), 404, "not_found", `no node "q-2"`)
	s.peers["q-1"].set(errLost, 0)
	checkProblem(t, "lost", s.via("POST", "/api/v1/cluster/nodes/q-1/drain", nil), 503, "unavailable", "the connection is lost")
	if got := s.actions(s.token); !slices.Equal(got[:3], []string{"node.drain", "node.drain", "node.drain"}) {
		t.Errorf("audited: %v", got)
	}
	_, editor := s.member(s.token, "editor@example.com", "editor")
	for _, path := range []string{"/node/drain", "/cluster/nodes/q-1/drain"} {
		checkProblem(t, path, s.call("POST", v1+path, editor, nil), 403, "permission_denied", "admin")
	}
	s.advance(time.Second)

	// A node that talks to no others drains none of them.
	alone := *s.routing
	alone.Registerer, alone.Gatherer = newRegistry()
	alone.Peers = nil
	s.router = alone.with(t, alone.nodeRoutes()...)
	checkProblem(t, "alone", s.via("POST", "/api/v1/cluster/nodes/q-1/drain", nil), 422, "unprocessable", "internal_token")
}

// stuck is an intake whose object store is away.
type stuck struct{}

func (stuck) Flush(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

// A flush that cannot succeed says what the matter is before its caller's time is over.
func TestFlushWithoutAnObjectStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := (&API{Flusher: stuck{}, Node: "i-1"}).publish(ctx)
		if millstream.KindOf(err) != millstream.Unavailable || !strings.Contains(millstream.Message(err), "object store") || !strings.Contains(err.Error(), "i-1") {
			t.Errorf("%v", err)
		}
		cancel()
		if err := (&API{Flusher: stuck{}, Node: "i-1"}).publish(ctx); millstream.KindOf(err) != millstream.Canceled {
			t.Errorf("a caller who has gone: %v", err)
		}
	})
}

// A node that takes no writes has all that do publish.
func TestFlushOfEveryIntake(t *testing.T) {
	t.Parallel()
	s := newSplit(t, "", func(*API, string) {}, "i-1", "i-2")
	checkProblem(t, "none", s.via("POST", "/api/v1/node/flush", nil), 503, "unavailable", "no intake node is available")
	s.intakes = s.live
	if a := s.via("POST", "/api/v1/node/flush", nil); a.status != 204 || s.peers["i-1"].flushes != 1 || s.peers["i-2"].flushes != 1 {
		t.Errorf("%d %s", a.status, a.body)
	}
	s.peers["i-2"].set(errLost, 0)
	checkProblem(t, "one lost", s.via("POST", "/api/v1/node/flush", nil), 503, "unavailable", "the connection is lost")
}
