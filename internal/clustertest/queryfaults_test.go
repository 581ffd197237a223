package clustertest

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millstream/millstream/internal/mstest"
)

// Queriers are killed, hang, and leave in order while questions of every kind are asked: none gets a short answer, or waits longer than a query may. A tail ends with
// its querier; it never just falls silent.
func TestQueriesSurviveTheirQueriers(t *testing.T) {
	const timeout = 40 * time.Second
	c := small(t, mstest.ClusterOptions{Pace: unflushed, S3: mstest.NewGateway(t), Env: []string{"MS_QUERIER_TIMEOUT_SECS=40"}}, "router", "intake", "querier*3")
	r, q := c.Router(), c.Of("querier")
	qs := newQuestions(t, r, mstest.Only(r), 100*time.Millisecond)
	send(t, r, "tailed", 0, 1)
	told := 0
	var tails []*tail // through each of the queriers in turn
	for range q {
		tails = append(tails, startTail(t, r, "tailed"))
	}
	for _, f := range []struct {
		name        string
		node        *mstest.Node
		begin, mend func(n *mstest.Node)
		fails       bool // what was under way may fail, and says so
	}{
		{"a kill", q[0], (*mstest.Node).Kill, func(n *mstest.Node) { n.Run() }, true},
		{"a connection that hangs", q[1], func(n *mstest.Node) { n.Internal.Set(mstest.Blackhole) }, func(n *mstest.Node) { n.Internal.Set(mstest.Whole) }, true},
		{"a drain", q[2], func(n *mstest.Node) {
			r.JSON("POST", "/api/v1/cluster/nodes/"+n.ID+"/drain", n.Token, nil, nil)
			if !n.Ended(time.Minute) {
				t.Errorf("%s did not end in order", n.ID)
			}
		}, func(n *mstest.Node) { n.Run() }, false},
	} {
		qs.answered(t, time.Minute)
		begin := time.Now()
		f.begin(f.node)
		qs.answered(t, 2*timeout) // two answers of each
		send(t, r, "tailed", told+1, 5)
		told += 5
		for i, x := range tails {
			mstest.WaitFor(t, timeout, fmt.Sprintf("tail %d ends, or has all records", i), func() bool { return x.ended() || x.has(told) })
		}
		failed := qs.since(begin)
		t.Logf("%s of %s: %s, %d questions without an answer", f.name, f.node.ID, time.Since(begin).Round(time.Millisecond), len(failed))
		for _, x := range failed {
			if !f.fails {
				t.Errorf("%s: %s", f.name, x)
			}
			t.Log(x)
		}
		f.mend(f.node)
		c.Members(r, time.Minute, c.Nodes...)
	}
	qs.answered(t, time.Minute)
	for i, x := range tails {
		if !x.ended() {
			t.Errorf("tail %d has outlived its querier", i)
		}
	}
	qs.check(t, timeout+5*time.Second, c.Nodes)
}

// More queries at once than two queriers run and let wait, each of which needs the other for half of its segments: every one ends, right or told to try again.
func TestFloodOfQueries(t *testing.T) {
	c := small(t, mstest.ClusterOptions{Pace: unflushed}, "router", "intake", "querier*2")
	r := c.Router()
	publishAsked(t, r)
	body := []byte(`{"statement":"SELECT level, count(*) AS n, sum(seq) AS s FROM asked GROUP BY level ORDER BY level"}`)
	_, quietly := r.Do("POST", "/api/v1/query", r.Token, "application/json", body)
	want, _, err := quiet(quietly)
	if err != nil || !strings.Contains(want, `["error",`) {
		t.Fatalf("%v: %s", err, quietly)
	}
	var answered, refused atomic.Int64
	var wg sync.WaitGroup
	for range 300 {
		wg.Go(func() {
			switch status, reply := r.Do("POST", "/api/v1/query", r.Token, "application/json", body); status {
			case http.StatusOK:
				answered.Add(1)
				if got, reasons, err := quiet(reply); got != want || len(reasons) > 0 || err != nil {
					t.Errorf("%s, partial %v, %v; want %s", got, reasons, err, want)
				}
			case http.StatusTooManyRequests:
				refused.Add(1)
			default:
				t.Errorf("%d %s", status, reply)
			}
		})
	}
	wg.Wait()
	t.Logf("%d answered, %d told to try again", answered.Load(), refused.Load())
	if answered.Load() < 100 { // those of which one querier alone runs some and lets 64 wait
		t.Errorf("%d of 300 were answered", answered.Load())
	}
	if a := r.SQL("SELECT count(*) FROM asked"); mstest.Number(a.Rows[0][0]) != askedRounds*askedRows || len(a.Stats.Parts) != 2 {
		t.Errorf("after it: %v by %+v", a.Rows, a.Stats.Parts)
	}
}
