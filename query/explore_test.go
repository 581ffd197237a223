package query_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query"
	"github.com/millstream/millstream/segment/metrics"
)

func app(filter string) query.Selection {
	return query.Selection{Org: org, Stream: "app", Range: millstream.TimeRange{Start: epoch, End: epoch + 900e9}, Filter: filter}
}

func TestHistogram(t *testing.T) {
	n := newNode(t, nil)
	requests(n, true)
	h, err := n.Histogram(t.Context(), app(""), 5*time.Minute, "level")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range h.Series {
		got = append(got, fmt.Sprint(*s.Value, s.Total, s.Counts))
	}
	expect(t, "series", got, "info4 [2 0 2]", "error2 [1 0 1]", "warn1 [1 0 0]")
	if h.Total != 7 || h.Warnings == nil || len(h.Buckets) != 3 || h.Buckets[1] != "2026-11-30T00:05:00.000000000Z" {
		t.Errorf("%+v", h)
	}
	h, err = n.Histogram(t.Context(), app("level = 'error' -- the bad ones"), 0, "")
	if err != nil || h.Interval != "15s" || h.Total != 2 || len(h.Series) != 1 || h.Series[0].Value != nil {
		t.Errorf("%+v %v", h, err)
	}
	if _, err := n.Histogram(t.Context(), app("level = 'error') OR (1=1"), 0, ""); err != nil {
		t.Errorf("a filter is any condition of the same stream: %v", err)
	}
	if _, err := n.Histogram(t.Context(), app(""), time.Millisecond, ""); millstream.KindOf(err) != millstream.Invalid {
		t.Errorf("too fine: %v", err)
	}
	if _, err := n.Histogram(t.Context(), app("1); DROP TABLE app; --"), 0, ""); millstream.KindOf(err) != millstream.Invalid {
		t.Errorf("two statements: %v", err)
	}
}

func TestHistogramFoldsRareValues(t *testing.T) {
	n := newNode(t, nil)
	var records []string
	for i := range 15 {
		for range i + 1 {
			records = append(records, fmt.Sprintf("k=v%d", i))
		}
	}
	n.append(millstream.Logs, "app", lines(epoch, records...))
	h, err := n.Histogram(t.Context(), app(""), time.Hour, "k")
	if err != nil {
		t.Fatal(err)
	}
	last := h.Series[len(h.Series)-1]
	if len(h.Series) != 11 || !last.Other || last.Total != 1+2+3+4+5 || h.Total != 120 {
		t.Errorf("%d series, the last %+v", len(h.Series), last)
	}
}

// spans is two traces in one stream and a third in another; a failing one calls from web to db.
func spans(n *node) {
	n.append(millstream.Traces, "default", lines(epoch+1e9,
		"trace_id=aa01 span_id=01 name=GET_/ service=web kind=server status=ok duration_ns=5000 http.path=/",
		"trace_id=aa01 span_id=02 parent_span_id=01 name=SELECT service=db kind=client status=error duration_ns=3000 events=[1]",
		"trace_id=aa02 span_id=01 name=GET_/ service=web kind=server status=ok duration_ns=900"))
	n.append(millstream.Traces, "batch", lines(epoch+100e9, "trace_id=aa03 span_id=07 name=job service=worker status=ok duration_ns=70",
		"trace_id=aa01 span_id=03 parent_span_id=02 name=audit service=worker status=ok duration_ns=10"))
}

func TestTraces(t *testing.T) {
	for _, flushed := range []bool{false, true} {
		n := newNode(t, nil)
		spans(n)
		if flushed {
			n.flush()
		}
		tr, err := n.Trace(t.Context(), query.Request{Org: org}, "", "AA01")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range tr.Spans {
			got = append(got, fmt.Sprint(s.Stream, " ", s.SpanID, " ", s.ParentSpanID, " ", s.Name, " ", s.Service, " ", s.Status, " ", s.DurationNS, " ", s.Attributes, " ", string(s.Events)))
		}
		expect(t, "spans", got,
			"default 01  GET / web ok 5000 map[http.path:/] ", "default 02 01 SELECT db error 3000 map[] [1]", "batch 03 02 audit worker ok 10 map[] ")
		if _, err := n.Trace(t.Context(), query.Request{Org: org}, "default", "ff"); millstream.KindOf(err) != millstream.NotFound {
			t.Errorf("unknown trace: %v", err)
		}
		if _, err := n.Trace(t.Context(), query.Request{Org: org}, "", "x'; --"); millstream.KindOf(err) != millstream.Invalid {
			t.Errorf("no trace id: %v", err)
		}
		search(t, n)
	}
}

func search(t *testing.T, n *node) {
	t.Helper()
	for name, c := range map[string]struct {
		search query.TraceSearch
		want   []string
	}{
		"all":       {query.TraceSearch{}, []string{"aa01 GET / web 3 1 [db web worker] 3", "aa03 job worker 1 0 [worker] 1", "aa02 GET / web 1 0 [web] 1"}},
		"service":   {query.TraceSearch{Service: "web"}, []string{"aa02 GET / web 1 0 [web] 1", "aa01 GET / web 3 1 [db web worker] 1"}},
		"operation": {query.TraceSearch{Operation: "job"}, []string{"aa03 job worker 1 0 [worker] 1"}},
		"failed":    {query.TraceSearch{Status: "error"}, []string{"aa01 GET / web 3 1 [db web worker] 1"}},
		"slow":      {query.TraceSearch{MinDuration: 4000, Stream: "default"}, []string{"aa01 GET / web 2 1 [db web] 1"}},
		"quick":     {query.TraceSearch{MaxDuration: 50}, []string{"aa01 GET / web 3 1 [db web worker] 1"}},
		"limit":     {query.TraceSearch{Limit: 1, Service: "web"}, []string{"aa02 GET / web 1 0 [web] 1"}},
		"none":      {query.TraceSearch{Service: "nope"}, nil},
		"roots":     {query.TraceSearch{Roots: true, MaxDuration: 50}, nil},
		"searched":  {query.TraceSearch{Search: "status:error -name:job"}, []string{"aa01 GET / web 3 1 [db web worker] 1"}},
	} {
		found, err := n.SearchTraces(t.Context(), query.Request{Org: org, Range: day}, c.search)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range found.Traces {
			got = append(got, fmt.Sprint(s.TraceID, " ", s.Root, " ", s.Service, " ", s.Spans, " ", s.Errors, " ", s.Services, " ", s.Matched))
		}
		expect(t, name, got, c.want...)
	}
}

func TestServices(t *testing.T) {
	n := newNode(t, nil)
	spans(n)
	s, err := n.Services(t.Context(), query.Request{Org: org, Range: day}, "", true)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, v := range s.Services {
		got = append(got, fmt.Sprint(v.Name, " ", v.Spans, " ", v.Errors, " ", v.P50, " ", v.Operations[0].Name, " ", v.Operations[0].Spans))
	}
	expect(t, "services", got, "db 1 1 3000 SELECT 1", "web 2 0 2950 GET / 2", "worker 2 0 40 audit 1")
	got = nil
	for _, e := range s.Edges {
		got = append(got, fmt.Sprint(e.From, " ", e.To, " ", e.Calls, " ", e.Errors, " ", e.AvgNS))
	}
	expect(t, "edges", got, "db worker 1 0 10", "web db 1 1 3000")
	if math.Abs(s.Services[1].Rate-2.0/86400) > 1e-12 {
		t.Errorf("rate %g", s.Services[1].Rate)
	}
	if _, err := n.Services(t.Context(), query.Request{Org: org, Range: day}, "nope", false); millstream.KindOf(err) != millstream.NotFound {
		t.Errorf("unknown stream: %v", err)
	}
}

// samples are two series of cpu and one of memory, a sample a minute.
func samples(from int) *millstream.Batch {
	s := &millstream.Samples{}
	for _, labels := range [][]millstream.Label{
		{{Name: "__name__", Value: "cpu"}, {Name: "host", Value: "a"}}, {{Name: "__name__", Value: "cpu"}, {Name: "host", Value: "b"}}, {{Name: "__name__", Value: "memory"}, {Name: "host", Value: "a"}},
	} {
		key, err := millstream.EncodeLabels(nil, labels)
		if err != nil {
			panic(err)
		}
		for i := range 5 {
			s.Ref = append(s.Ref, uint32(len(s.Series)))
			s.Time = append(s.Time, epoch/1e6+int64(from+i)*60_000)
			s.Value = append(s.Value, float64(from+i)+float64(len(s.Series))/2)
		}
		s.Series = append(s.Series, string(key))
	}
	return &millstream.Batch{Samples: s}
}

func TestMetricTables(t *testing.T) {
	n := newNode(t, nil)
	n.append(millstream.Metrics, millstream.MetricStream, samples(0))
	n.flush()
	n.append(millstream.Metrics, millstream.MetricStream, samples(5))
	for statement, want := range map[string][]string{
		"SELECT host, count(*) AS n, max(value) AS m FROM metrics.cpu GROUP BY host ORDER BY host":                                         {"host,n,m", "a,10,9", "b,10,9.5"},
		"SELECT c.value + m.value AS v FROM metrics.cpu c JOIN metrics.memory m USING (_timestamp, host) ORDER BY _timestamp DESC LIMIT 1": {"v", "19"},
		"SELECT count(*) AS n FROM metrics.cpu WHERE host = 'b' AND value >= 7":                                                            {"n", "3"},
	} {
		got, a := n.ask(t, statement)
		expect(t, statement, got, want...)
		if a.Stats.Segments.Scanned != 1 || a.Stats.UnflushedRows != 15 {
			t.Errorf("%s: %+v", statement, a.Stats)
		}
	}
	later := millstream.TimeRange{Start: epoch + 7200e9, End: epoch + 9000e9}
	got, _, err := n.try(t, query.Request{Org: org, Statement: "SELECT count(*) AS n, max(value) AS v FROM metrics.cpu", Range: later})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "a metric without samples in the range", got, "n,v", "0,")
	if _, _, err := n.try(t, query.Request{Org: org, Statement: "SELECT * FROM metrics.disk", Range: day}); millstream.KindOf(err) != millstream.NotFound {
		t.Errorf("unknown metric: %v", err)
	}
	total := int64(0)
	_, err = n.Metrics(t.Context(), query.Request{Org: org, Range: day}, func(_ context.Context, srcs []metrics.Source, _ []string) error {
		for _, s := range srcs {
			total += s.Samples()
		}
		return nil
	})
	if err != nil || total != 30 {
		t.Errorf("%d samples, %v", total, err)
	}
}

// One organization cannot take the node's memory with tails that nobody reads, and does not stand in the way of others.
func TestTooManyTails(t *testing.T) {
	n := newNode(t, nil)
	requests(n, true)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	const most = 100
	for range most {
		go func() { done <- n.Tail(ctx, app(""), nil, func(query.TailEvent) error { return nil }) }()
	}
	for range most {
		<-n.subbed
	}
	if err := n.Tail(ctx, app(""), nil, nil); millstream.KindOf(err) != millstream.RateLimited {
		t.Errorf("one tail more: %v", err)
	}
	elsewhere := app("")
	elsewhere.Org = "another"
	if err := n.Tail(ctx, elsewhere, nil, nil); millstream.KindOf(err) != millstream.NotFound { // it has no such stream
		t.Errorf("another organization: %v", err)
	}
	cancel()
	for range most {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if err := n.Tail(ctx, app("length(message) > 3"), nil, nil); millstream.KindOf(err) == millstream.RateLimited {
		t.Errorf("after all have ended: %v", err)
	}
}

func TestTail(t *testing.T) {
	n := newNode(t, nil)
	requests(n, true)
	ctx, cancel := context.WithCancel(t.Context())
	events, done := make(chan query.TailEvent), make(chan error)
	go func() {
		done <- n.Tail(ctx, app("level = 'error' OR match_all('rare')"), nil, func(e query.TailEvent) error {
			events <- e
			return nil
		})
	}()
	<-n.subbed
	n.append(millstream.Logs, "app", lines(epoch+700e9, "level=info message=rare_thing", "level=info message=common", "level=error message=boom fresh=1"))
	e := <-events
	got := string(query.AppendObjects(nil, &e.Rows))
	want := `[{"_timestamp":"2026-11-30T00:11:40.000000000Z","level":"info","message":"rare thing"},` +
		`{"_timestamp":"2026-11-30T00:11:42.000000000Z","fresh":1,"level":"error","message":"boom"}]`
	if got != want || e.Dropped != 0 {
		t.Errorf("got %s, dropped %d", got, e.Dropped)
	}
	// a reader that does not read loses records, and is told how many
	const burst = 200
	for i := range burst {
		n.append(millstream.Logs, "app", lines(epoch+800e9+int64(i)*1e9, "level=error"))
	}
	seen, dropped := 0, int64(0)
	for seen+int(dropped) < burst {
		e := <-events
		seen, dropped = seen+e.N, dropped+e.Dropped
		if seen == 40 { // the queue is empty; one more record carries the count
			n.append(millstream.Logs, "app", lines(epoch+1100e9, "level=error"))
		}
	}
	if dropped == 0 {
		t.Error("nothing was dropped")
	}
	cancel()
	go func() {
		for range events {
		}
	}()
	if err := <-done; err != nil {
		t.Error(err)
	}
	close(events)
	if err := n.Tail(t.Context(), app("length(message) > 3"), nil, nil); millstream.KindOf(err) != millstream.Invalid {
		t.Errorf("a filter without a kernel: %v", err)
	}
}
