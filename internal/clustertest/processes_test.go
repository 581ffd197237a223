package clustertest

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millstream/millstream/internal/mstest"
	"github.com/millstream/millstream/internal/postgres"
	"github.com/millstream/millstream/internal/postgres/pgtest"
)

// full says that the long campaign runs: make cluster-test.
var full = os.Getenv("MS_CLUSTER") == "full"

// site is a cluster of processes over a PostgreSQL and an S3 server of its own, under a load that writes through whichever router is ready, with and without
// idempotency keys, and reads all the time.
type site struct {
	*mstest.Cluster
	t        *testing.T
	database *postgres.Server
	s3       *mstest.Gateway
	plain    *mstest.Ledger
	keyed    *mstest.Ledger
	reads    []*reader
	asks     *questions
}

func newSite(t *testing.T, roles ...string) *site {
	t.Helper()
	s := &site{t: t, database: pgtest.Start(t), s3: mstest.NewGateway(t)}
	s.Cluster = mstest.StartCluster(t, mstest.ClusterOptions{
		Database: s.database.URL(), S3: s.s3,
		Env: []string{"MS_INTAKE_FLUSH_INTERVAL_SECS=2", "MS_QUERIER_MAX_RESULT_ROWS=100000000", "MS_DATABASE_MAX_CONNECTIONS=3", "MS_QUERIER_TIMEOUT_SECS=30", "GOMAXPROCS=2"},
	}, roles...)
	s.load()
	return s
}

// load begins to write and read.
func (s *site) load() {
	s.t.Helper()
	pick := mstest.NewBalancer(s.t, s.Of("router")...).Pick
	pause := 20 * time.Millisecond
	s.plain = mstest.NewLedger("plain", mstest.LedgerOptions{Writers: 4, Pause: pause, Streams: 9}, pick)
	s.keyed = mstest.NewLedger("keyed", mstest.LedgerOptions{Writers: 4, Pause: pause, Streams: 9, Keyed: true}, pick)
	for _, l := range s.ledgers() {
		s.t.Cleanup(l.End)
	}
	s.reads = nil
	for _, stream := range []string{"plain", "plain_1", "keyed_2"} {
		mstest.WaitFor(s.t, time.Minute, "there are records in "+stream, func() bool {
			_, err := s.Router().TrySQL("SELECT count(*) FROM " + stream)
			return err == nil
		})
		s.reads = append(s.reads, startReader(s.t, pick, stream))
	}
	s.asks = newQuestions(s.t, s.Router(), pick, 300*time.Millisecond)
}

func (s *site) ledgers() []*mstest.Ledger { return []*mstest.Ledger{s.plain, s.keyed} }

// fault injects one thing, and waits until writes with and without keys go on.
func (s *site) fault(name string, limit time.Duration, inject func()) {
	s.t.Helper()
	for _, l := range s.ledgers() {
		l.Gap()
	}
	begin := time.Now()
	inject()
	settled(s.t, limit, s.ledgers()...)
	s.t.Logf("%s: %s; longest time without an acknowledgement: plain %s, keyed %s; replies of 5xx: plain %d, keyed %d", name, time.Since(begin).Round(10*time.Millisecond),
		s.plain.Gap().Round(10*time.Millisecond), s.keyed.Gap().Round(10*time.Millisecond), len(s.plain.Failures(begin)), len(s.keyed.Failures(begin)))
}

// restart ends a node in order and starts it again.
func (s *site) restart(n *mstest.Node) {
	s.t.Helper()
	n.End()
	if !n.Ended(60 * time.Second) {
		s.t.Errorf("%s did not end in order:\n%s", n.ID, n.Log())
	}
	n.Run()
}

// end stops the load and compares: before and after a flush, and after a kill of every node.
func (s *site) end() {
	s.t.Helper()
	for _, r := range s.reads {
		r.check(s.t)
	}
	s.asks.check(s.t, 40*time.Second, s.Nodes)
	finish(s.t, s.Router(), "at the end", s.ledgers()...)
	for _, n := range s.Nodes {
		n.Kill()
	}
	s.Start()
	for _, l := range s.ledgers() {
		l.Check(s.t, s.Router(), "after kill -9 of every node")
	}
}

// TestProcesses breaks a cluster of processes in every way that it must survive: each once, or, by make cluster-test, more nodes, longer faults and several rounds.
func TestProcesses(t *testing.T) {
	if full {
		campaign(t)
		return
	}
	s := newSite(t, "intake*2", "querier*2", "router*2")
	intake, querier := s.Of("intake")[0], s.Of("querier")[0]
	s.rolling(intake, querier, s.Router())
	s.fault("kill -9 of an intake", 30*time.Second, func() {
		intake.Kill()
		time.Sleep(time.Second)
		intake.Run()
	})
	s.fault("kill -9 of a querier", 30*time.Second, func() { querier.Kill(); querier.Run() })
	s.fault("an intake that does not hear", 30*time.Second, func() {
		intake.Internal.Set(mstest.Blackhole)
		time.Sleep(3 * time.Second)
		intake.Internal.Set(mstest.Whole)
	})
	s.fault("an intake whose replies are lost", 30*time.Second, func() {
		intake.Internal.Set(mstest.NoReplies)
		time.Sleep(3 * time.Second)
		intake.Internal.Set(mstest.Whole)
	})
	s.fault("the database crashes", 30*time.Second, func() { _ = syscall.Kill(s.database.PID(), syscall.SIGQUIT) })
	s.end()
}

// rolling restarts nodes one after the other, which no request may notice.
func (s *site) rolling(nodes ...*mstest.Node) {
	s.t.Helper()
	begin := time.Now()
	for _, n := range nodes {
		s.fault("rolling restart of "+n.ID, 30*time.Second, func() { s.restart(n) })
	}
	noFailures(s.t, begin, "a rolling restart", s.ledgers()...)
	for _, r := range s.reads {
		r.noneFailed(s.t, begin)
	}
	for _, f := range s.asks.since(begin) {
		s.t.Errorf("a rolling restart: %s", f)
	}
}

// campaign has real nodes of every role over a real database and a real S3 server.
func campaign(t *testing.T) {
	s := newSite(t, "intake*3", "querier*3", "compactor*2", "alert*2", "router*2")
	for round := range 3 {
		t.Logf("round %d", round)
		s.rolling(s.Nodes...)
		s.crashes()
		s.pauses()
		s.lines()
		s.stores()
		s.drains()
	}
	s.takeover()
	s.end()
}

// crashes kill every node. What is under way through a router when it is killed gets no answer.
func (s *site) crashes() {
	for _, role := range []string{"intake", "querier", "compactor", "alert"} {
		for _, n := range s.Of(role) {
			s.fault("kill -9 of "+n.ID, time.Minute, func() {
				n.Kill()
				time.Sleep(3 * time.Second)
				n.Run()
			})
		}
	}
	for _, n := range s.Of("router") {
		s.fault("kill -9 of "+n.ID, time.Minute, func() { n.Kill(); n.Run() })
	}
}

// pauses stop processes for longer than the peer timeout, as a suspended machine does.
func (s *site) pauses() {
	for _, n := range []*mstest.Node{s.Of("intake")[1], s.Of("querier")[1]} {
		s.fault("25 s of SIGSTOP of "+n.ID, time.Minute, func() {
			n.Signal(syscall.SIGSTOP)
			time.Sleep(25 * time.Second)
			n.Signal(syscall.SIGCONT)
		})
	}
}

// lines break what is between the nodes.
func (s *site) lines() {
	for name, f := range map[string]mstest.Fault{"blackhole": mstest.Blackhole, "lost replies": mstest.NoReplies, "lost requests": mstest.NoRequests, "cut": mstest.Cut} {
		for _, n := range []*mstest.Node{s.Of("intake")[2], s.Of("querier")[2]} {
			s.fault("10 s of "+name+" before "+n.ID, time.Minute, func() {
				n.Internal.Set(f)
				time.Sleep(10 * time.Second)
				n.Internal.Set(mstest.Whole)
			})
		}
	}
}

// stores take the database and the object store away.
func (s *site) stores() {
	for range 3 {
		s.fault("the database crashes", time.Minute, func() {
			_ = syscall.Kill(s.database.PID(), syscall.SIGQUIT)
			time.Sleep(2 * time.Second)
		})
	}
	s.fault("60 s without the database", time.Minute, func() {
		s.EachDatabase(mstest.Cut)
		time.Sleep(5 * time.Second) // what was under way has ended
		begin, plain := time.Now(), s.plain.Acked()
		time.Sleep(55 * time.Second)
		if got := s.plain.Acked() - plain; got == 0 {
			s.t.Error("no write without a key was taken while the database was away")
		}
		noFailures(s.t, begin, "writes without a key while the database is away", s.plain)
		for _, f := range s.keyed.Failures(begin) {
			if f.Status != 503 {
				s.t.Errorf("a keyed write while the database is away: %d %s", f.Status, f.Reply)
			}
		}
		if len(s.keyed.Failures(begin)) == 0 {
			s.t.Error("keyed writes were taken while the database was away")
		}
		s.EachDatabase(mstest.Whole)
	})
	for range 2 {
		s.fault("15 s without the object store", time.Minute, func() {
			s.s3.Kill()
			time.Sleep(15 * time.Second)
			s.s3.Start()
		})
	}
}

// drains end nodes over the API, as the cluster map does.
func (s *site) drains() {
	begin := time.Now()
	for _, n := range []*mstest.Node{s.Of("intake")[0], s.Of("querier")[0], s.Of("compactor")[0], s.Of("alert")[0]} {
		s.fault("drain of "+n.ID+" by the API", time.Minute, func() {
			s.Router().JSON("POST", "/api/v1/cluster/nodes/"+n.ID+"/drain", n.Token, nil, nil)
			if !n.Ended(60 * time.Second) {
				s.t.Errorf("%s did not end in order:\n%s", n.ID, n.Log())
			}
			n.Run()
		})
	}
	noFailures(s.t, begin, "drains", s.ledgers()...)
	for _, f := range s.asks.since(begin) {
		s.t.Errorf("drains: %s", f)
	}
}

// takeover measures how long the others need to take over the work of a compactor node: by the gauges that tell how many units each owns.
func (s *site) takeover() {
	compactors := s.Of("compactor")
	leaver, stayer := compactors[0], compactors[1]
	units := func(n *mstest.Node) float64 { return metric(s.t, n, `work_ownership_owned_units{work="compaction"}`) }
	members := func(n *mstest.Node) float64 { return metric(s.t, n, `work_ownership_members{role="compactor"}`) }
	mstest.WaitFor(s.t, 3*time.Minute, "both compactors own streams", func() bool { return units(leaver)+units(stayer) >= 2 && members(stayer) == 2 })
	for name, end := range map[string]func(){"kill -9": leaver.Kill, "SIGTERM": leaver.End} {
		begin := time.Now()
		end()
		mstest.WaitFor(s.t, time.Minute, "the other one takes over", func() bool { return members(stayer) == 1 })
		took := time.Since(begin)
		s.t.Logf("takeover after %s: %s", name, took.Round(10*time.Millisecond))
		if name == "SIGTERM" && took > 3*time.Second || took > 19*time.Second {
			s.t.Errorf("takeover after %s took %s", name, took)
		}
		leaver.Ended(60 * time.Second)
		leaver.Run()
		mstest.WaitFor(s.t, time.Minute, "both are members", func() bool { return members(stayer) == 2 })
	}
}

// metric is one sample of a node's metrics.
func metric(t testing.TB, n *mstest.Node, name string) (v float64) {
	t.Helper()
	code, body := n.Do("GET", "/metrics", "", "", nil)
	if code != 200 {
		t.Fatalf("metrics of %s: %d", n.ID, code)
	}
	for line := range strings.Lines(string(body)) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			if _, err := fmt.Sscan(rest, &v); err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	return 0
}
