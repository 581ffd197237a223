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
	const want = limit * int(measure/time.Second)
	flooded := func(d time.Duration, through ...*mstest.Node) (passed [2]int) {
		var wg sync.WaitGroup
		until := time.Now().Add(d)
		for i, r := range through {
			wg.Go(func() { passed[i] = flood(t, r, until) })
		}
		wg.Wait()
		return passed
	}
	// measured floods until what passes is right: a time in which the machine stood still tells nothing, but it does not do so every time.
	measured := func(what string, right func(sum, least int) bool, through ...*mstest.Node) {
		t.Helper()
		var all [][2]int
		for range 5 {
			got := flooded(measure, through...)
			if right(got[0]+got[1], min(got[0], got[1])) {
				return
			}
			all = append(all, got)
		}
		t.Errorf("%s got %v requests through in %v each time, want %d in all", what, all, measure, want)
	}
	flooded(settle, routers[0]) // until the burst is used and the whole is leased
	measured("one client", func(sum, _ int) bool { return sum >= want*9/10 && sum <= want*21/20 }, routers[0])
	flooded(settle, routers...)
	measured("two clients", func(sum, least int) bool { return sum >= want*8/10 && sum <= want*21/20 && least >= want/5 }, routers...)
	c.EachDatabase(mstest.Cut)
	defer c.EachDatabase(mstest.Whole)
	measured("without the database two clients", func(sum, least int) bool { return sum <= want*21/20 && least >= want/5 }, routers...)
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
