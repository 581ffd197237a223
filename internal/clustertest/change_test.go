package clustertest

import (
	"strings"
	"testing"
	"time"

	"github.com/millstream/millstream/internal/app"
	"github.com/millstream/millstream/internal/mstest"
)

// ledgers write with and without idempotency keys.
func ledgers(t *testing.T, pick func() *mstest.Node) []*mstest.Ledger {
	ls := []*mstest.Ledger{
		mstest.NewLedger("plain", mstest.LedgerOptions{Writers: 2, Pause: 5 * time.Millisecond, Streams: 8}, pick),
		mstest.NewLedger("keyed", mstest.LedgerOptions{Writers: 2, Pause: 5 * time.Millisecond, Streams: 8, Keyed: true}, pick),
	}
	for _, l := range ls {
		t.Cleanup(l.End)
	}
	return ls
}

// settled waits until writes of all ledgers are acknowledged again.
func settled(t *testing.T, limit time.Duration, ls ...*mstest.Ledger) {
	t.Helper()
	for _, l := range ls {
		before := l.Acked()
		mstest.WaitFor(t, limit, "writes to "+l.Streams[0]+" go on", func() bool { return l.Acked() > before })
	}
}

// finish stops the ledgers and compares them with what can be read: before a flush and after it.
func finish(t *testing.T, n *mstest.Node, when string, ls ...*mstest.Ledger) {
	t.Helper()
	for _, l := range ls {
		l.End()
		l.Check(t, n, when)
	}
	n.Flush()
	for _, l := range ls {
		l.Check(t, n, when+" and a flush")
	}
}

// failures are replies of 5xx, or none, since a time; want says how many may be.
func noFailures(t *testing.T, since time.Time, what string, ls ...*mstest.Ledger) {
	t.Helper()
	for _, l := range ls {
		for _, f := range l.Failures(since) {
			t.Errorf("%s: %s through %s at +%s: %d %s", what, l.Streams[0], f.Node, f.At.Sub(since).Round(time.Millisecond), f.Status, f.Reply)
		}
	}
}

// A node that is stopped in order, or drained by the API, costs no request: others notice before it refuses anything.
func TestDrainRefusesNothing(t *testing.T) {
	c := small(t, mstest.ClusterOptions{}, "router*2", "intake*2", "querier*2", "compactor", "alert")
	pick := mstest.NewBalancer(t, c.Of("router")...).Pick
	ls, reads := ledgers(t, pick), startReader(t, pick, "plain")
	settled(t, time.Minute, ls...)
	begin := time.Now()
	for _, role := range []string{"intake", "querier", "compactor", "alert", "router"} {
		n := c.Of(role)[0]
		if role == "intake" || role == "compactor" {
			c.Router().JSON("POST", "/api/v1/cluster/nodes/"+n.ID+"/drain", n.Token, nil, nil)
		} else {
			n.End()
		}
		if !n.Ended(time.Minute) {
			t.Errorf("%s did not end in order:\n%s", n.ID, n.Log())
		}
		settled(t, time.Minute, ls...)
		n.Run()
		settled(t, time.Minute, ls...)
	}
	noFailures(t, begin, "a drain of each node in turn", ls...)
	reads.end(t, begin)
	finish(t, c.Router(), "after drains", ls...)
}

// unflushed is a pace at which rows stay where they were written until somebody asks for a flush.
var unflushed = app.Pace{Heartbeat: mstest.Quick.Heartbeat, PeerTimeout: mstest.Quick.PeerTimeout, View: mstest.Quick.View, Flush: time.Hour}

// A crash loses nothing that was acknowledged; what only the dead node has is missing from answers that say so, until it is back.
func TestCrashOfAnIntake(t *testing.T) {
	c := small(t, mstest.ClusterOptions{Pace: unflushed}, "router", "intake*2", "querier")
	r := c.Router()
	ls := ledgers(t, mstest.Only(r))
	settled(t, time.Minute, ls...)
	for _, n := range c.Of("intake") {
		n.Kill()
		time.Sleep(100 * time.Millisecond)
		a, err := r.TrySQL("SELECT count(*) FROM plain")
		if err == nil && !a.Partial {
			t.Fatalf("an answer without the rows of %s says that it is complete: %v", n.ID, a.Rows)
		}
		settled(t, time.Minute, ls[0])
		n.Run()
		settled(t, time.Minute, ls...)
	}
	finish(t, r, "after crashes", ls...)
}

// Two processes with one id: the older one is fenced. It stays up and says so, refuses writes and keeps its log, which its next start under an id of its own
// publishes.
func TestTwoProcessesWithOneID(t *testing.T) {
	c := small(t, mstest.ClusterOptions{Pace: unflushed}, "router", "intake", "querier")
	r, older := c.Router(), c.Of("intake")[0]
	send(t, r, "app", 0, 50)
	complete(t, r, "app", 50)
	newer := c.AddAs(older.ID, "intake")
	newer.Run()
	mstest.WaitFor(t, time.Minute, "the older one knows that it is fenced", func() bool { return !older.IsReady() })
	if !older.Runs() || !strings.Contains(older.Log(), "another process runs under this node's id") {
		t.Errorf("the older process runs %t and says\n%s", older.Runs(), older.Log())
	}
	mstest.WaitFor(t, time.Minute, "the newer one takes writes", func() bool {
		code, _ := r.Do("POST", "/api/v1/intake/json/app", r.Token, "application/x-ndjson", []byte(`{"seq":50}`))
		return code == 200
	})
	if a := r.SQL("SELECT count(*) FROM app"); !a.Partial {
		t.Errorf("an answer without the older one's rows says that it is complete: %v", a.Rows)
	}
	if older.Stop() {
		t.Error("a process that keeps unpublished rows ended without an error")
	}
	older.SetEnv("MS_NODE_ID=intake-of-its-own")
	older.Run()
	mstest.WaitFor(t, time.Minute, "its rows are back", func() bool {
		a, err := r.TrySQL("SELECT count(*), count(DISTINCT seq) FROM app")
		return err == nil && !a.Partial && len(a.Rows) == 1 && a.Rows[0][0] == a.Rows[0][1]
	})
	complete(t, r, "app", 51)
}

// A node with another token is no member of the conversation: nothing is lost to it, and both sides say why.
func TestWrongToken(t *testing.T) {
	c := small(t, mstest.ClusterOptions{}, "router", "intake", "querier")
	r := c.Router()
	stranger := c.Add("intake")
	stranger.SetEnv("MS_CLUSTER_INTERNAL_TOKEN=the token of another cluster")
	stranger.Run()
	mstest.WaitFor(t, time.Minute, "the stranger is listed as one that refuses calls", func() bool {
		var view struct{ Nodes []struct{ ID, State string } }
		r.JSON("GET", "/api/v1/cluster/nodes", r.Token, nil, &view)
		for _, n := range view.Nodes {
			if n.ID == stranger.ID {
				return n.State == "refused"
			}
		}
		return false
	})
	for i := range 20 {
		send(t, r, "app-"+string(rune('a'+i)), 0, 10)
	}
	if !strings.Contains(stranger.Log(), "internal_token must be the same on all nodes") {
		t.Errorf("the stranger says\n%s", stranger.Log())
	}
}
