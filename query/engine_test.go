package query_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query"
	"github.com/millstream/millstream/store"
)

// requests is a small log stream in two parts; between them status widens from int64 to text.
func requests(n *node, flushBetween bool) {
	n.append(millstream.Logs, "app", lines(epoch+60e9,
		"service=cart level=info status=200 ms=1.5 message=request_served",
		"service=cart level=error status=500 ms=80 message=connection_reset_by_peer",
		"service=auth level=info status=200 message=token_issued user=u1",
		"service=auth level=warn status=404 ms=3 message=no_such_key user=u2"))
	if flushBetween {
		n.flush()
	}
	n.append(millstream.Logs, "app", lines(epoch+600e9,
		"service=cart level=info status=n/a ms=2 message=request_served ok=true",
		"service=pay level=error status=503 ms=900 message=upstream_timeout_after_900ms ok=false",
		"service=pay level=info status=200 ms=12 message=Connection_closed user=u1"))
	n.append(millstream.Logs, "other", lines(epoch+61e9, "user=u1 plan=gold", "user=u3 plan=free"))
}

// statements have their answers here for rows that are in the buffer, in segments, or in both. The first line is the columns.
var statements = []struct {
	sql     string
	want    []string
	ordered bool
}{
	{"SELECT count(*) AS n FROM app", []string{"n", "7"}, true},
	{"SELECT service, count(*) AS n FROM app GROUP BY service ORDER BY n DESC, service", []string{"service,n", "cart,3", "auth,2", "pay,2"}, true},
	{"SELECT level FROM app WHERE status >= 500 ORDER BY _timestamp", []string{"level", "error", "error"}, true},
	{"SELECT message FROM app WHERE match_all('connection') ORDER BY _timestamp DESC", []string{"message", "Connection closed", "connection reset by peer"}, true},
	{`SELECT message FROM app WHERE match_all('"reset by peer"')`, []string{"message", "connection reset by peer"}, true},
	{"SELECT message FROM app WHERE match('level','error') AND re_match(message, 'after [0-9]+ms')", []string{"message", "upstream timeout after 900ms"}, true},
	{"SELECT histogram(_timestamp, '5 minutes') AS b, count(*) AS n FROM app GROUP BY b ORDER BY b",
		[]string{"b,n", "2026-11-30T00:00:00.000000000Z,4", "2026-11-30T00:10:00.000000000Z,3"}, true},
	{"SELECT sum(ms) AS s, max(ms) AS m, quantile_cont(ms, 0.5) AS q, count(DISTINCT service) AS d FROM app", []string{"s,m,q,d", "998.5,900,7.5,3"}, true},
	{"SELECT count(*) AS n, sum(ms) AS s FROM app WHERE service = 'none'", []string{"n,s", "0,"}, true},
	{"SELECT service FROM app WHERE service = 'none'", []string{"service"}, true},
	{"SELECT status FROM app WHERE service = 'cart' ORDER BY _timestamp LIMIT 2 OFFSET 1", []string{"status", "500", "n/a"}, true},
	// these need the SQL engine
	{"SELECT a.message, o.plan FROM app a JOIN other o ON a.user = o.user ORDER BY a._timestamp", []string{"message,plan", "token issued,gold", "Connection closed,gold"}, true},
	{"WITH x AS (SELECT service, ms, row_number() OVER (PARTITION BY service ORDER BY ms DESC) AS r FROM app WHERE ms IS NOT NULL) SELECT service, ms FROM x WHERE r = 1 ORDER BY 1",
		[]string{"service,ms", "auth,3", "cart,80", "pay,900"}, true},
	{"SELECT upper(service) AS s, sum(length(message)) AS l FROM app WHERE level = 'info' GROUP BY 1 ORDER BY 1", []string{"s,l", "AUTH,12", "CART,28", "PAY,17"}, true},
	{"SELECT service, match_all('connection') AS hit FROM app WHERE level <> 'warn' ORDER BY _timestamp",
		[]string{"service,hit", "cart,false", "cart,true", "auth,false", "cart,false", "pay,false", "pay,true"}, true},
	{"SELECT list(status ORDER BY status) AS l FROM app WHERE service = 'cart'", []string{"l", `"[""200"",""500"",""n/a""]"`}, true},
	{"SELECT DISTINCT lower(level) AS l FROM app ORDER BY l", []string{"l", "error", "info", "warn"}, true},
	{"SELECT 1 + 1 AS two", []string{"two", "2"}, true},
	{"DESCRIBE other", []string{"column_name,column_type", "_timestamp,TIMESTAMP_NS", "plan,VARCHAR", "user,VARCHAR"}, true},
	{"SHOW TABLES", []string{"name", "app", "other"}, true},
	{"SELECT * FROM other WHERE user = 'u3'", []string{"_timestamp,plan,user", "2026-11-30T00:01:02.000000000Z,free,u3"}, true},
}

// TestStatementsBeforeAndAfterFlush: the answers are the same wherever the rows are.
func TestStatementsBeforeAndAfterFlush(t *testing.T) {
	n := newNode(t, nil)
	run := func(state string) {
		for _, s := range statements {
			got, answer := n.ask(t, s.sql)
			if len(answer.Warnings) > 0 || answer.Partial {
				t.Errorf("%s: warnings %q, partial %q", s.sql, answer.Warnings, answer.Reasons)
			}
			expect(t, state+": "+s.sql, got, s.want...)
		}
	}
	requests(n, false)
	run("in the buffer")
	n.flush()
	run("in one segment")

	n = newNode(t, nil)
	requests(n, true)
	run("half in a segment")
	n.flush()
	run("in two segments")
}

func TestStats(t *testing.T) {
	n := newNode(t, nil)
	requests(n, true)
	_, a := n.ask(t, "SELECT count(*) FROM app WHERE service = 'cart'")
	if a.Stats.Segments != (query.SegmentStats{Total: 1, Scanned: 1}) || a.Stats.UnflushedRows != 3 || a.Stats.Nodes != 1 {
		t.Errorf("first: %+v", a.Stats)
	}
	_, a = n.ask(t, "SELECT count(*) FROM app WHERE service = 'cart'")
	if a.Stats.Segments.Cached != 1 {
		t.Errorf("second: %+v", a.Stats)
	}
	_, a = n.ask(t, "SELECT * FROM app ORDER BY _timestamp DESC LIMIT 2")
	if a.Stats.Segments != (query.SegmentStats{Total: 1, Pruned: 1}) {
		t.Errorf("a segment older than the latest rows was read: %+v", a.Stats)
	}
}

func TestErrors(t *testing.T) {
	n := newNode(t, func(c *query.Config) { c.Limits.MaxScanRows = 6 })
	requests(n, true)
	for statement, want := range map[string]struct {
		kind millstream.Kind
		text string
	}{
		"SELECT * FROM nope":            {millstream.NotFound, `"nope"`},
		"SELECT * FROM traces.app":      {millstream.NotFound, "traces"},
		"SELECT nope FROM other":        {millstream.Invalid, "nope"},
		"SELEC 1":                       {millstream.Invalid, "SELEC"},
		"DELETE FROM app":               {millstream.Invalid, "SELECT"},
		"SELECT count(*) FROM app":      {millstream.Invalid, "7 rows"},
		"SELECT error(user) FROM other": {millstream.Invalid, "error"},
	} {
		_, _, err := n.try(t, query.Request{Org: org, Statement: statement, Range: day})
		if millstream.KindOf(err) != want.kind || !strings.Contains(fmt.Sprint(err), want.text) {
			t.Errorf("%s: %v (kind %d)", statement, err, millstream.KindOf(err))
		}
	}
	if _, _, err := n.try(t, query.Request{Org: "org-2", Statement: "SELECT * FROM other", Range: day}); millstream.KindOf(err) != millstream.NotFound {
		t.Errorf("another organization's stream: %v", err)
	}
	if _, _, err := n.try(t, query.Request{Org: org, Language: "klingon", Statement: "Qapla'", Range: day}); millstream.KindOf(err) != millstream.Invalid {
		t.Errorf("an unknown language: %v", err)
	}
}

func TestResultRowsAreLimited(t *testing.T) {
	n := newNode(t, func(c *query.Config) { c.Limits.MaxResultRows = 3 })
	requests(n, true)
	for _, statement := range []string{"SELECT message FROM app", "SELECT lower(message) FROM app", "SELECT message, count(*) FROM app GROUP BY message"} {
		got, a := n.ask(t, statement)
		if len(got) != 4 || len(a.Warnings) != 1 || !strings.Contains(a.Warnings[0], "cut at 3 rows") {
			t.Errorf("%s: %d lines, warnings %q", statement, len(got), a.Warnings)
		}
		got, a, err := n.try(t, query.Request{Org: org, Statement: statement, Range: day, Limit: 2})
		if err != nil || len(got) != 3 || len(a.Warnings) != 0 {
			t.Errorf("%s with limit 2: %d lines, warnings %q, %v", statement, len(got), a.Warnings, err)
		}
	}
	if _, a := n.ask(t, "SELECT message FROM app LIMIT 3"); len(a.Warnings) != 0 {
		t.Errorf("an answer that fits gave %q", a.Warnings)
	}
}

func TestTimeRangeAlwaysApplies(t *testing.T) {
	n := newNode(t, nil)
	requests(n, true)
	for _, statement := range []string{"SELECT count(*) FROM app", "SELECT count(upper(service)) FROM app"} {
		got, _, err := n.try(t, query.Request{Org: org, Statement: statement, Range: millstream.TimeRange{Start: epoch + 61e9, End: epoch + 601e9}})
		if err != nil || got[1] != "4" {
			t.Errorf("%s: %q %v", statement, got, err)
		}
	}
}

func TestStaleSnapshotIsTakenAnew(t *testing.T) {
	n := newNode(t, nil)
	requests(n, true)
	n.stale = 2
	if got, _ := n.ask(t, "SELECT count(*) FROM app"); got[1] != "7" {
		t.Errorf("got %q", got)
	}
	n.stale = 3
	if _, _, err := n.try(t, query.Request{Org: org, Statement: "SELECT count(*) FROM app", Range: day}); millstream.KindOf(err) != millstream.Unavailable {
		t.Errorf("got %v", err)
	}
	n.stale = 0
	// a flush between the snapshot and the unflushed rows
	once := sync.Once{}
	n.snapshot = func() { once.Do(n.flush) }
	if got, a := n.ask(t, "SELECT count(*) FROM app"); got[1] != "7" || a.Stats.UnflushedRows != 0 {
		t.Errorf("got %q, %+v", got, a.Stats)
	}
}

// TestMergedSegment: an object that is gone by the time it is read means a new snapshot.
func TestMergedSegment(t *testing.T) {
	n := newNode(t, nil)
	requests(n, true)
	n.flush()
	once := sync.Once{}
	n.snapshot = func() {
		once.Do(func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			var keep []millstream.Segment
			for _, s := range n.segments {
				if s.Stream == n.streams[0].ID {
					if err := n.bucket.Delete(context.Background(), s.Data.Key); err != nil {
						t.Error(err)
					}
					continue
				}
				keep = append(keep, s)
			}
			n.segments, n.position, n.end = keep, 1, 2
			n.buffers = []buffered{{stream: n.streams[0].ID, lsn: 2, batch: lines(epoch+1e9, "service=merged")}}
		})
	}
	if got, _ := n.ask(t, "SELECT service FROM app"); len(got) != 2 || got[1] != "merged" {
		t.Errorf("got %q", got)
	}
}

func TestUnreachableWALMakesPartial(t *testing.T) {
	n := newNode(t, nil)
	requests(n, true)
	n.other = []store.WALState{
		{ID: "wal-2", Node: "node-2", LastPublish: time.Unix(0, epoch)},
		{ID: "wal-3", Node: "node-3", Clean: true},
	}
	got, a := n.ask(t, "SELECT count(*) FROM app")
	if got[1] != "7" || !a.Partial || len(a.Reasons) != 1 || !strings.Contains(a.Reasons[0], "node-2") || !strings.Contains(a.Reasons[0], "2026-11-30T00:00:00Z") {
		t.Errorf("got %q, partial %v %q", got, a.Partial, a.Reasons)
	}
}

// endless is a statement that no engine finishes.
const endless = "SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE a.range * b.range = -1"

func TestTimeoutAndCancel(t *testing.T) {
	n := newNode(t, func(c *query.Config) { c.Limits.Timeout = 300 * time.Millisecond })
	if _, _, err := n.try(t, query.Request{Org: org, Statement: endless, Range: day}); millstream.KindOf(err) != millstream.Timeout {
		t.Errorf("timeout: %v", err)
	}
	n = newNode(t, nil)
	done := make(chan error)
	go func() {
		_, _, err := n.try(t, query.Request{Org: org, User: "ada", Statement: endless, Range: day})
		done <- err
	}()
	var list []query.Running
	for len(list) == 0 {
		list = n.Running(org)
	}
	if list[0].User != "ada" || list[0].Statement != endless || len(n.Running("org-2")) != 0 {
		t.Errorf("running: %+v", list)
	}
	if err := n.Cancel("org-2", list[0].ID); millstream.KindOf(err) != millstream.NotFound {
		t.Errorf("another organization's cancel: %v", err)
	}
	if err := n.Cancel(org, list[0].ID); err != nil {
		t.Error(err)
	}
	if err := <-done; millstream.KindOf(err) != millstream.Canceled {
		t.Errorf("cancel: %v", err)
	}
	if len(n.Running(org)) != 0 {
		t.Error("the canceled query is still listed")
	}
}

func TestAdmission(t *testing.T) {
	n := newNode(t, func(c *query.Config) { c.Limits.MaxConcurrent, c.Limits.Queue = 1, 1 })
	requests(n, true)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() {
			enc := query.NewEncoder(query.JSON, &strings.Builder{})
			if _, err := n.Run(ctx, query.Request{Org: org, Statement: endless, Range: day}, enc); !errors.Is(err, context.Canceled) && millstream.KindOf(err) != millstream.Canceled {
				t.Errorf("got %v", err)
			}
		})
		for n.Inside(org) <= i {
			time.Sleep(time.Millisecond)
		}
	}
	_, _, err := n.try(t, query.Request{Org: org, Statement: "SELECT 1 AS x", Range: day})
	if millstream.KindOf(err) != millstream.RateLimited {
		t.Errorf("the third query: %v", err)
	}
	cancel()
	wg.Wait()
}

func TestEstimate(t *testing.T) {
	n := newNode(t, func(c *query.Config) { c.Limits.AsyncRows = 6 })
	requests(n, true)
	e, err := n.Engine.Estimate(t.Context(), query.Request{Org: org, Statement: "SELECT * FROM app", Range: day})
	if err != nil || e.Rows != 7 || e.Bytes == 0 || e.Segments.ToScan != 1 || !e.Async {
		t.Errorf("%+v %v", e, err)
	}
	if _, err := n.Engine.Estimate(t.Context(), query.Request{Org: org, Statement: "SELECT * FROM ap", Range: day}); millstream.KindOf(err) != millstream.NotFound {
		t.Errorf("unknown stream: %v", err)
	}
}

// TestQueriesDuringFlushes: no row is missing or twice while a writer appends and flushes.
func TestQueriesDuringFlushes(t *testing.T) {
	n := newNode(t, nil)
	n.append(millstream.Logs, "app", lines(epoch, "seq=0"))
	const total = 400
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 1; i < total; i++ {
			n.append(millstream.Logs, "app", lines(epoch+int64(i)*1e9, fmt.Sprintf("seq=%d", i)))
			if i%7 == 0 {
				n.flush()
			}
		}
	}()
	for last := 0; last < total; {
		got, _, err := n.try(t, query.Request{Org: org, Statement: "SELECT count(*) AS n, count(DISTINCT seq) AS d, max(seq) AS m FROM app", Range: day})
		if millstream.KindOf(err) == millstream.Unavailable {
			continue // stale three times in a row: this writer flushes all the time
		}
		if err != nil {
			t.Fatal(err)
		}
		var count, distinct, most int
		if _, err := fmt.Sscanf(got[1], "%d,%d,%d", &count, &distinct, &most); err != nil {
			t.Fatal(err)
		}
		if count != distinct || count != most+1 || count < last {
			t.Fatalf("count %d, distinct %d, max %d, before %d", count, distinct, most, last)
		}
		last = count
	}
	<-done
}

func TestParallelQueries(t *testing.T) {
	n := newNode(t, nil)
	requests(n, true)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range statements {
				s := statements[(i*5+w)%len(statements)]
				got, _, err := n.try(t, query.Request{Org: org, Statement: s.sql, Range: day})
				if err != nil || !slices.Equal(got, s.want) {
					t.Errorf("%s: %q %v", s.sql, got, err)
				}
			}
		})
	}
	wg.Wait()
}

// A column without an alias is called as its text.
func TestNamesOfExpressions(t *testing.T) {
	n := newNode(t, nil)
	rows, _ := n.ask(t, "SELECT 1, 'x', 1 + 2, 3 AS three")
	expect(t, "constants", rows, "1,'x',(1 + 2),three", "1,x,3,3")
}
