package clustertest

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millstream/millstream/internal/mstest"
)

// flood writes through a router as fast as it answers and counts what passes; anything but success and 429 fails the test.
func flood(t *testing.T, n *mstest.Node, until time.Time) (passed int) {
	for time.Now().Before(until) {
		switch code, reply := n.Do("POST", "/api/v1/intake/json/app", n.Token, "application/x-ndjson", []byte(`{"seq":1}`)); code {
		case 200:
			passed++
		case 429:
			time.Sleep(2 * time.Millisecond)
		default:
			t.Errorf("through %s: %d %s", n.ID, code, reply)
			return passed
		}
	}
	return passed
}

// An organization's limit is one over all routers: a client of one router gets it whole, clients of two share it.
func TestRateLimitsHoldOverAllRouters(t *testing.T) {
	const limit = 40
	c := small(t, mstest.ClusterOptions{Env: []string{fmt.Sprint("MS_ROUTER_RATE_LIMIT_INTAKE_QPS=", limit)}}, "router*2", "intake", "querier")
	routers := c.Of("router")
	const settle, measure = 6 * time.Second, 6 * time.Second
	flood(t, routers[0], time.Now().Add(settle)) // until the burst is used and the whole is leased
	if got, want := flood(t, routers[0], time.Now().Add(measure)), limit*int(measure/time.Second); got < want*9/10 || got > want*21/20 {
		t.Errorf("one client got %d requests through in %v, want %d", got, measure, want)
	}
	both := func(d time.Duration) (passed [2]int) {
		var wg sync.WaitGroup
		until := time.Now().Add(d)
		for i, r := range routers {
			wg.Go(func() { passed[i] = flood(t, r, until) })
		}
		wg.Wait()
		return passed
	}
	both(settle)
	got, want := both(measure), limit*int(measure/time.Second)
	if sum := got[0] + got[1]; sum < want*8/10 || sum > want*21/20 || min(got[0], got[1]) < want/5 {
		t.Errorf("two clients got %v requests through in %v, want %d in all", got, measure, want)
	}
	c.EachDatabase(mstest.Cut)
	defer c.EachDatabase(mstest.Whole)
	if got := both(measure); got[0]+got[1] > want*21/20 || min(got[0], got[1]) < want/5 {
		t.Errorf("without the database two clients got %v requests through in %v, want %d in all", got, measure, want)
	}
}

// A node without intake sends its own telemetry to one that has it, for the organization of its token. A wrong token is complained of and stops nothing.
func TestOwnTelemetryOfNodesWithoutIntake(t *testing.T) {
	c := small(t, mstest.ClusterOptions{}, "router", "intake", "querier")
	r := c.Router()
	var made struct{ Token string }
	r.JSON("POST", "/api/v1/auth/tokens", r.Token, map[string]any{"name": "telemetry", "scopes": []string{"intake"}}, &made)
	nodes := map[string]*mstest.Node{}
	for id, roles := range map[string][]string{"works": {"alert"}, "routes": {"router"}, "astray": {"compactor"}} {
		n := c.AddAs(id, roles...)
		token := made.Token
		if id == "astray" {
			token = "ms_wrong"
		}
		n.SetEnv("MS_TELEMETRY_SELF_COLLECT=true", "MS_SELF_TELEMETRY_CLUSTER_TOKEN="+token)
		n.Run()
		nodes[id] = n
	}
	for id, n := range nodes { // the last words are written when the node stops, sooner than by the clock
		if !n.Stop() {
			t.Errorf("%s did not end in order:\n%s", id, n.Log())
		}
	}
	for _, id := range []string{"works", "routes"} {
		if got := r.Count(`SELECT count(*) FROM _millstream WHERE node = '` + id + `' AND message = 'ready'`); got != 1 {
			t.Errorf("%d records say that %s became ready, want 1", got, id)
		}
		if got := r.Count(`SELECT count(*) FROM metrics.go_goroutines WHERE instance = '` + id + `'`); got == 0 {
			t.Errorf("no metrics of %s", id)
		}
	}
	if got := r.Count(`SELECT count(*) FROM _millstream WHERE node = 'astray'`); got != 0 {
		t.Errorf("%d records with a wrong token", got)
	}
	if !strings.Contains(nodes["astray"].Log(), "[self_telemetry].cluster_token") {
		t.Errorf("a wrong token is not complained of:\n%s", nodes["astray"].Log())
	}
	if code, reply := r.Do("POST", "/api/v1/intake/json/_millstream", r.Token, "application/x-ndjson", []byte(`{"a":1}`)); code != 403 {
		t.Errorf("a sender writes to the reserved stream: %d %s", code, reply)
	}
}
