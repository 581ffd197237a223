package query_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query"
	"github.com/millstream/millstream/query/promql"
	"github.com/millstream/millstream/segment"
	"github.com/millstream/millstream/segment/metrics"
)

// mergeAll does what a compactor does: one segment stands for all of each stream's. It gives the objects of data that nothing names any more.
func (n *node) mergeAll() (dead []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []millstream.Segment
	for _, st := range n.streams {
		var old []millstream.Segment
		for _, s := range n.segments {
			if s.Stream == st.ID {
				old, dead = append(old, s), append(dead, s.Data.Key)
			}
		}
		if len(old) > 0 {
			out = append(out, n.merged(old))
		}
	}
	n.segments = out
	return dead
}

func (n *node) merged(old []millstream.Segment) millstream.Segment {
	var data, index bytes.Buffer
	var records []*segment.Reader
	var samples []metrics.Source
	for _, s := range old {
		d, i := n.object(s.Data), n.object(s.Index)
		if s.Signal == millstream.Metrics {
			r, err := metrics.Open(d, s.Data.Length, i, s.Index.Length)
			n.must(err)
			samples = append(samples, r)
			continue
		}
		r, err := segment.Open(d, s.Data.Length, i, s.Index.Length)
		n.must(err)
		records = append(records, r)
	}
	var info segment.Info
	var err error
	if samples != nil {
		info, err = metrics.Merge(&data, &index, samples)
	} else {
		info, err = segment.Merge(&data, &index, records, segment.Options{})
	}
	n.must(err)
	s := old[len(old)-1]
	s.ID += "-merged"
	s.MinTime, s.MaxTime, s.Rows, s.WAL = info.MinTime, info.MaxTime, info.Rows, ""
	s.Data = millstream.Extent{Key: "merged/data/" + string(s.ID), Length: info.DataSize, Checksum: info.DataSum}
	s.Index = millstream.Extent{Key: "merged/index/" + string(s.ID), Length: info.IndexSize, Checksum: info.IndexSum}
	n.must(n.bucket.Put(context.Background(), s.Data.Key, bytes.NewReader(data.Bytes()), info.DataSize))
	n.must(n.bucket.Put(context.Background(), s.Index.Key, bytes.NewReader(index.Bytes()), info.IndexSize))
	return s
}

func (n *node) object(x millstream.Extent) *bytes.Reader {
	r, err := n.bucket.Get(context.Background(), x.Key, x.Offset, x.Length)
	n.must(err)
	defer r.Close()
	b, err := io.ReadAll(r)
	n.must(err)
	return bytes.NewReader(b)
}

func (n *node) must(err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatal(err)
	}
}

// collect merges everything, and the grace is over: what was merged is deleted. Indexes stay, which a query reads first, so that it fails as late as it can.
func (n *node) collect() {
	n.must(n.bucket.Delete(context.Background(), n.mergeAll()...))
}

// manySegments fills a node with segments of all signals.
func manySegments(n *node) {
	const segments, each = 12, 50
	r := rand.New(rand.NewPCG(3, 3))
	for i := range segments {
		for _, signal := range []millstream.Signal{millstream.Logs, millstream.Traces} {
			var texts []string
			for k := range each {
				texts = append(texts, fmt.Sprintf("seq=%d trace_id=%016x text=%x", i*each+k, r.Uint64(), r.Uint64()))
			}
			n.append(signal, "app", lines(epoch+int64(i)*each*1e9, texts...))
		}
		n.append(millstream.Metrics, millstream.MetricStream, randomSamples(n.t, r, epoch/1e6+int64(i)*100_000))
		n.flush()
	}
}

// everyShape is one node, and one that asks the owners of segments.
func everyShape(t *testing.T, f func(t *testing.T, n *node)) {
	t.Run("one node", func(t *testing.T) { f(t, newNode(t, func(c *query.Config) { c.Workers = 1 })) })
	t.Run("owners", func(t *testing.T) { f(t, newFleet(t).node) })
}

// longQuestions are of every kind of query, by kernels and the SQL engine.
var longQuestions = []string{
	"SELECT seq, text FROM app ORDER BY seq",
	"SELECT seq, text FROM traces.app WHERE text <> 'x' ORDER BY seq",
	"SELECT count(*) AS n, count(DISTINCT seq) AS d, min(text) AS t FROM app",
	"SELECT upper(text) AS u FROM traces.app ORDER BY 1",
	"SELECT job, count(*) AS n, sum(value) AS s FROM metrics.requests_total GROUP BY job ORDER BY job",
}

// A query whose segments are merged while it runs, and even deleted because it outlives the grace, gives the right answer: nothing of it was sent, so it begins anew.
func TestQueryDuringAMergeAndAfterTheGrace(t *testing.T) {
	everyShape(t, func(t *testing.T, n *node) {
		manySegments(n)
		want := map[string][]string{}
		for _, statement := range longQuestions {
			want[statement], _ = n.ask(t, statement)
		}
		for name, happens := range map[string]func(){"merge": func() { n.mergeAll() }, "grace": n.collect} {
			for _, statement := range longQuestions {
				var once sync.Once
				n.snapshot = func() { once.Do(happens) }
				expect(t, name+": "+statement, answerOf(n, t, statement), want[statement]...)
				n.snapshot = nil
			}
		}
	})
}

func answerOf(n *node, t *testing.T, statement string) []string {
	t.Helper()
	got, answer := n.ask(t, statement)
	if answer.Partial {
		t.Errorf("%s: partial: %q", statement, answer.Reasons)
	}
	return got
}

// If that goes on for ever, the error says what happened and what to do. A node that has kept what it read before may still give the answer.
func TestQueryThatAlwaysOutlivesTheGrace(t *testing.T) {
	everyShape(t, func(t *testing.T, n *node) {
		manySegments(n)
		failed := 0
		for _, statement := range longQuestions {
			n.snapshot = n.collect
			got, _, err := n.try(t, query.Request{Org: org, Statement: statement, Range: day})
			n.snapshot = nil
			want := answerOf(n, t, statement)
			if err == nil {
				expect(t, statement, got, want...)
				continue
			}
			failed++
			if millstream.KindOf(err) != millstream.Unavailable || !strings.Contains(millstream.Message(err), "merged and deleted") || !strings.Contains(millstream.Message(err), "run the query again") {
				t.Errorf("%s: %v, want an error that says to run it again", statement, err)
			}
		}
		if failed == 0 {
			t.Error("no query failed")
		}
	})
}

// The Prometheus engine reads its sources when it likes and cannot begin anew either.
func TestPromQLThatOutlivesTheGrace(t *testing.T) {
	rate := metricQuestions["rate"]
	everyShape(t, func(t *testing.T, n *node) {
		manySegments(n)
		want, err := rate(t.Context(), n.Engine)
		n.must(err)
		var once sync.Once
		n.snapshot = func() { once.Do(func() { n.mergeAll() }) }
		if got, err := rate(t.Context(), n.Engine); err != nil || got != want {
			t.Errorf("during a merge: %q, %v; want %q", got, err, want)
		}
	})
	everyShape(t, func(t *testing.T, n *node) {
		manySegments(n)
		var once sync.Once
		n.snapshot = func() { once.Do(n.collect) }
		got, err := rate(t.Context(), n.Engine)
		if err == nil {
			t.Fatalf("an answer from objects that are gone: %q", got)
		}
		if e := promql.AsError(err); e.Type != "unavailable" || !strings.Contains(e.Error(), "snapshot is too old") || !strings.Contains(e.Error(), "run the query again") {
			t.Errorf("%s: %v", e.Type, err)
		}
		if got, err := rate(t.Context(), n.Engine); err != nil || got == "" {
			t.Errorf("run again: %q, %v", got, err)
		}
	})
}
