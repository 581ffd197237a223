// Package clustertest runs clusters of split roles and breaks them: in the test's process where intervals must be short, as processes where a signal or a kill must
// be real.
package clustertest

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/millstream/millstream/internal/mstest"
)

func TestMain(m *testing.M) { mstest.Main(m) }

// small is a cluster in the test's process that has every role.
func small(t *testing.T, o mstest.ClusterOptions, roles ...string) *mstest.Cluster {
	t.Helper()
	o.InProcess = true
	return mstest.StartCluster(t, o, roles...)
}

// send writes numbered records and fails the test unless they are acknowledged.
func send(t *testing.T, n *mstest.Node, stream string, from, records int, headers ...string) {
	t.Helper()
	var b strings.Builder
	for i := range records {
		fmt.Fprintf(&b, `{"seq":%d,"message":"record %d"}`+"\n", from+i, from+i)
	}
	if code, reply := n.Do("POST", "/api/v1/intake/json/"+stream, n.Token, "application/x-ndjson", []byte(b.String()), headers...); code != 200 {
		t.Fatalf("a write through %s: %d %s", n.ID, code, reply)
	}
}

// complete wants an answer that has exactly these rows and says that it is complete.
func complete(t *testing.T, n *mstest.Node, stream string, rows int) {
	t.Helper()
	a := n.SQL("SELECT count(*) AS n, count(DISTINCT seq) AS d FROM " + stream)
	if got := fmt.Sprint(a.Rows); got != fmt.Sprintf("[[%d %d]]", rows, rows) || a.Partial {
		t.Fatalf("%s through %s: %s, partial %t; want %d", stream, n.ID, got, a.Partial, rows)
	}
}

// What is acknowledged by one router is in the next answer of another, wherever its rows are: in any intake's memory, on its disk, or published.
func TestRowsAreVisibleAtOnce(t *testing.T) {
	c := small(t, mstest.ClusterOptions{}, "router*2", "intake*2", "querier*2", "compactor", "alert")
	routers, streams := c.Of("router"), []string{"a", "b", "c", "d", "e", "f"}
	total := map[string]int{}
	for round := range 8 {
		for _, s := range streams {
			send(t, routers[round%2], s, total[s], 10+round)
			total[s] += 10 + round
			complete(t, routers[(round+1)%2], s, total[s])
		}
		if round == 3 {
			routers[0].Flush()
		}
	}
	for _, s := range streams {
		complete(t, routers[0], s, total[s])
	}
}

// A node without the API answers three paths, to anybody, and nothing else.
func TestNodesWithoutTheAPI(t *testing.T) {
	c := small(t, mstest.ClusterOptions{}, "intake", "querier", "compactor,alert", "router")
	for _, n := range c.Nodes {
		if n.Has("router") {
			continue
		}
		for path, want := range map[string]int{
			"/api/v1/healthz": 200, "/api/v1/readyz": 200, "/metrics": 200, "/": 404, "/api/v1/query": 404, "/api/v1/intake/json/a": 404, "/api/v1/auth/login": 404, "/login": 404, "/api/v1/cluster/nodes": 404,
		} {
			for _, token := range []string{"", n.Token} {
				req, _ := http.NewRequest("GET", n.URL+path, nil)
				if token != "" {
					req.Header.Set("Authorization", "Bearer "+token)
				}
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				body, _ := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if resp.StatusCode != want {
					t.Errorf("%s %s: %d, want %d: %.200s", n.ID, path, resp.StatusCode, want, body)
				}
			}
		}
	}
}

// Any combination of roles works.
func TestCombinedRoles(t *testing.T) {
	for _, roles := range [][]string{
		{"router,intake,querier,compactor,alert"}, {"router,intake", "querier"}, {"router,querier", "intake,compactor"}, {"intake,querier*2", "router", "alert"},
	} {
		t.Run(strings.Join(roles, " "), func(t *testing.T) {
			c := small(t, mstest.ClusterOptions{}, roles...)
			send(t, c.Router(), "app", 0, 25)
			send(t, c.Router(), "other", 0, 5, "Idempotency-Key: one")
			complete(t, c.Router(), "app", 25)
			c.Router().Flush()
			complete(t, c.Router(), "app", 25)
			complete(t, c.Router(), "other", 5)
		})
	}
}

// Without the role that a request needs it is refused with what is missing, and goes through as soon as a node with it joins.
func TestMissingRoles(t *testing.T) {
	c := small(t, mstest.ClusterOptions{}, "router")
	r := c.Router()
	code, reply := r.Do("POST", "/api/v1/intake/json/app", r.Token, "application/x-ndjson", []byte(`{"seq":0}`))
	if code != 503 || !strings.Contains(string(reply), "no intake node is available") {
		t.Errorf("a write: %d %s", code, reply)
	}
	code, reply = r.Do("POST", "/api/v1/query", r.Token, "application/json", []byte(`{"language":"sql","statement":"SELECT 1"}`))
	if code != 503 || !strings.Contains(string(reply), "no querier node is available") {
		t.Errorf("a query: %d %s", code, reply)
	}
	i, q := c.Add("intake"), c.Add("querier")
	for _, n := range []*mstest.Node{i, q} {
		n.Run()
	}
	c.Members(r, time.Minute, i, q, r)
	mstest.WaitFor(t, time.Minute, "writes are taken", func() bool {
		code, _ := r.Do("POST", "/api/v1/intake/json/app", r.Token, "application/x-ndjson", []byte(`{"seq":0}`))
		return code == 200
	})
	mstest.WaitFor(t, time.Minute, "queries are answered", func() bool {
		a, err := r.TrySQL("SELECT count(*) FROM app")
		return err == nil && fmt.Sprint(a.Rows) == "[[1]]"
	})
}
