package query_test

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/blob"
	"github.com/millstream/millstream/query"
	"github.com/millstream/millstream/query/cache"
)

// slowNode is a node whose object store can be made to hang.
func slowNode(t *testing.T, change func(*query.Config)) (*node, *blob.Faulty) {
	t.Helper()
	memory := blob.NewMemory()
	slow := blob.NewFaulty(memory, 1, blob.Faults{})
	c, err := cache.Open(cache.Config{Bucket: slow, Dir: filepath.Join(t.TempDir(), "slow"), Open: query.SegmentOpener()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	n := newNode(t, func(cfg *query.Config) {
		cfg.Cache = c
		if change != nil {
			change(cfg)
		}
	})
	n.bucket = memory
	return n, slow
}

// stopped runs a statement, stops it once reached says so, and gives its rows.
func (n *node) stopped(t *testing.T, statement string, reached func(query.Progress) bool) (string, *query.Answer) {
	t.Helper()
	type outcome struct {
		text   string
		answer *query.Answer
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		var out bytes.Buffer
		enc := query.NewEncoder(query.JSON, &out)
		answer, err := n.Run(t.Context(), query.Request{ID: "mine", Org: org, Statement: statement, Range: day}, enc)
		if err == nil {
			err = enc.Close(answer)
		}
		done <- outcome{out.String(), answer, err}
	}()
	for {
		if p, ok := n.Progress(org, "mine"); ok && reached(p) {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if err := n.Stop("org-2", "mine"); millstream.KindOf(err) != millstream.NotFound {
		t.Errorf("another organization's stop: %v", err)
	}
	if err := n.Stop(org, "mine"); err != nil {
		t.Fatal(err)
	}
	select {
	case o := <-done:
		if o.err != nil {
			t.Fatalf("%s: %v", statement, o.err)
		}
		if !o.answer.Stopped || !o.answer.Partial || len(o.answer.Reasons) != 1 {
			t.Errorf("%s: %+v", statement, o.answer)
		}
		return o.text, o.answer
	case <-time.After(time.Minute - 10*time.Second): // before the slow reads of these tests end
		t.Fatalf("%s: still running long after its stop", statement)
	}
	return "", nil
}

// TestStop: a query that is stopped answers with what it has, however slow the rest is.
func TestStop(t *testing.T) {
	n, slow := slowNode(t, nil)
	n.append(millstream.Logs, "app", lines(epoch, "level=info ms=1", "level=info ms=2")) // will hang
	n.flush()
	n.append(millstream.Logs, "app", lines(epoch+600e9, "level=info ms=3", "level=error ms=4"))
	n.flush()
	n.append(millstream.Logs, "app", lines(epoch+900e9, "level=error ms=5"))
	late := millstream.TimeRange{Start: epoch + 600e9, End: day.End}
	if _, _, err := n.try(t, query.Request{Org: org, Statement: "SELECT * FROM app", Range: late}); err != nil {
		t.Fatal(err) // the later segment is on the local disk now
	}
	slow.SetFaults(blob.Faults{Timeout: 1, Delay: time.Minute})
	two := func(p query.Progress) bool { return p.Segments.Done == 2 && p.Segments.Total == 3 }
	for statement, want := range map[string]string{
		"SELECT ms FROM app ORDER BY _timestamp DESC LIMIT 10":                   `"rows":[[5],[4],[3]]`,
		"SELECT level, count(*) AS n FROM app GROUP BY level ORDER BY level":     `"rows":[["error",2],["info",1]]`,
		"SELECT count(*) AS n, max(ms) AS m, avg(ms) AS a FROM app WHERE ms > 2": `"rows":[[3,5,4]]`,
		"SELECT lower(level) AS l FROM app":                                      `{"columns":[],"rows":[]`, // the engine begins when it has all files
	} {
		if got, _ := n.stopped(t, statement, two); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", statement, got, want)
		}
	}
	streamed, _ := n.stopped(t, "SELECT ms FROM app", two)
	for _, row := range []string{"[3]", "[4]", "[5]"} {
		if !strings.Contains(streamed, row) {
			t.Errorf("without an order: %s lacks %s", streamed, row)
		}
	}
	if len(n.Running(org)) != 0 {
		t.Error("a stopped query is still listed")
	}
}

func TestStopSQLEngine(t *testing.T) {
	n := newNode(t, nil)
	requests(n, true)
	began := time.Now()
	got, _ := n.stopped(t, endless, func(query.Progress) bool { return time.Since(began) > 300*time.Millisecond })
	if !strings.Contains(got, `"rows":[]`) {
		t.Errorf("%.200s", got)
	}
}

// TestStopWhileWaiting: a query that has no turn yet is stopped, too.
func TestStopWhileWaiting(t *testing.T) {
	n := newNode(t, func(c *query.Config) { c.Limits.MaxConcurrent = 1 })
	requests(n, true)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = n.Run(ctx, query.Request{Org: org, Statement: strings.Replace(endless, "FROM", "FROM app,", 1), Range: day}, query.NewEncoder(query.JSON, &bytes.Buffer{}))
	}()
	for r := n.Running(org); len(r) == 0 || r[0].Sources == 0; r = n.Running(org) { // it has the turn when it has looked for its sources
		time.Sleep(time.Millisecond)
	}
	got, _ := n.stopped(t, "SELECT ms FROM app", func(query.Progress) bool { return len(n.Running(org)) == 2 })
	if !strings.HasPrefix(got, `{"columns":[],"rows":[],"stats"`) || !strings.Contains(got, `"warnings":[]`) {
		t.Errorf("%s", got)
	}
	cancel()
	<-done
}

func TestQueryIDs(t *testing.T) {
	n := newNode(t, nil)
	requests(n, true)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := n.Run(ctx, query.Request{ID: "x", Org: org, Statement: endless, Range: day}, query.NewEncoder(query.JSON, &bytes.Buffer{}))
		done <- err
	}()
	for len(n.Running(org)) == 0 {
		time.Sleep(time.Millisecond)
	}
	if _, _, err := n.try(t, query.Request{ID: "x", Org: org, Statement: "SELECT 1 AS one", Range: day}); millstream.KindOf(err) != millstream.Conflict {
		t.Errorf("an id in use: %v", err)
	}
	if _, _, err := n.try(t, query.Request{ID: "x", Org: "org-2", Statement: "SELECT 1 AS one", Range: day}); err != nil {
		t.Errorf("the same id in another organization: %v", err)
	}
	cancel()
	<-done
	if _, ok := n.Progress(org, "x"); ok {
		t.Error("progress of a query that has ended")
	}
	if err := n.Stop(org, "x"); millstream.KindOf(err) != millstream.NotFound {
		t.Errorf("stop of a query that has ended: %v", err)
	}
}

func TestStopMetrics(t *testing.T) {
	n := newNode(t, nil)
	n.append(millstream.Metrics, millstream.MetricStream, samples(0))
	s, err := n.OpenMetrics(t.Context(), query.Request{ID: "m", Org: org, Range: day})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Stop(org, "m"); err != nil {
		t.Error(err)
	}
	<-s.Done
	if a := s.Close(); a == nil || !a.Stopped || !a.Partial {
		t.Errorf("%+v", a)
	}
}

// cutLine is the way to a node that cannot be reached.
type cutLine struct{ tried *atomic.Bool }

func (c cutLine) Leaf(context.Context, []byte, func([]byte) error) error {
	c.tried.Store(true)
	return millstream.Errorf(millstream.Unavailable, "the line is cut")
}

// TestStopWhileOwnersAreReplaced: the segments are another node's, which is away, so this node reads them. What it has when the query is stopped is not the whole,
// and the answer says so.
func TestStopWhileOwnersAreReplaced(t *testing.T) {
	var tried atomic.Bool
	n, slow := slowNode(t, func(c *query.Config) {
		c.Owners = &query.Owners{
			Self: "a", Reader: reader(func(millstream.SegmentID) []millstream.Member { return []millstream.Member{{ID: "b"}, {ID: "a"}} }),
			Dial: func(millstream.Member) query.LeafNode { return cutLine{&tried} },
		}
	})
	n.append(millstream.Logs, "app", lines(epoch, "level=info ms=1", "level=info ms=2")) // will hang
	n.flush()
	n.append(millstream.Logs, "app", lines(epoch+600e9, "level=info ms=3", "level=error ms=4"))
	n.flush()
	late := millstream.TimeRange{Start: epoch + 600e9, End: day.End}
	if _, _, err := n.try(t, query.Request{Org: org, Statement: "SELECT * FROM app", Range: late}); err != nil {
		t.Fatal(err)
	}
	slow.SetFaults(blob.Faults{Timeout: 1, Delay: time.Minute})
	for statement, want := range map[string]string{
		"SELECT level, count(*) AS n FROM app GROUP BY level ORDER BY level": `"rows":[["error",1],["info",1]]`,
		"SELECT ms FROM app ORDER BY _timestamp DESC LIMIT 10":               `"columns":[{"name":"ms"`,
		"SELECT ms FROM app": `"columns":[{"name":"ms"`,
	} {
		tried.Store(false)
		reading := func(p query.Progress) bool {
			return tried.Load() && (!strings.Contains(statement, "GROUP BY") || p.Segments.Done > 0)
		}
		if got, _ := n.stopped(t, statement, reading); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", statement, got, want)
		}
	}
}
