package query_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest"
	"github.com/millstream/millstream/query"
	"github.com/millstream/millstream/segment"
	"github.com/millstream/millstream/segment/metrics"
	"github.com/millstream/millstream/store"
)

// holder is a node's buffer as another node reads it, over the codec of the wire. Every third batch of records is given as a segment.
type holder struct{ n *node }

func (h holder) Runs(_ context.Context, a ingest.Ask, emit func(ingest.Run) error) (ingest.Reach, error) {
	h.n.mu.Lock()
	defer h.n.mu.Unlock()
	for _, s := range a.Streams {
		for _, b := range h.n.buffers {
			if b.stream != s.Stream || b.lsn <= max(s.Have, a.Above) {
				continue
			}
			r, err := h.run(b)
			if err == nil {
				err = emit(r)
			}
			if err != nil {
				return ingest.Reach{}, err
			}
		}
	}
	return ingest.Reach{To: h.n.end}, nil
}

func (h holder) run(b buffered) (r ingest.Run, err error) {
	r = ingest.Run{Stream: b.stream, First: b.lsn, Last: b.lsn, Part: h.n.position + 1}
	if b.head == nil && b.lsn%3 == 0 {
		var data, index bytes.Buffer
		info, err := segment.Encode(&data, &index, []*millstream.Batch{b.batch}, segment.Options{})
		r.Data, r.DataSize, r.Index, r.IndexSize, r.Part = &data, info.DataSize, &index, info.IndexSize, b.lsn
		return r, err
	}
	if b.lsn%3 != 0 && b.head == nil {
		r.Part = b.lsn / 3 * 3 // between two segments
	}
	r.Batch, err = millstream.DecodeBatch(b.batch.AppendTo(nil))
	return r, err
}

func (holder) Pending(context.Context, ingest.PendingAsk) (map[millstream.StreamID]ingest.Pending, error) {
	return nil, nil
}

func (holder) Metadata(context.Context, millstream.WALID, millstream.OrgID) ([]millstream.Metadata, error) {
	return nil, nil
}

func (holder) Subscribe(context.Context, millstream.StreamID, func(ingest.Tailed) error) error {
	return nil
}

// newRemote is a node whose unflushed rows are another's: it reads them through a mirror.
func newRemote(t testing.TB) *node {
	var n *node
	m := ingest.NewMirror(ingest.MirrorConfig{TempDir: t.TempDir(), Dial: func(store.WALState) (ingest.Holder, error) { return holder{n}, nil }})
	n = newNode(t, func(c *query.Config) { c.Unflushed = m })
	return n
}

// forms are the ways to ask, each giving what does not depend on time and cost.
func forms(rnd *rand.Rand, r millstream.TimeRange) map[string]func(t *testing.T, n *node) any {
	level := []string{"info", "warn", "error"}[rnd.IntN(3)]
	statement := func(text string) func(*testing.T, *node) any {
		return func(t *testing.T, n *node) any {
			rows, _, err := n.try(t, query.Request{Org: org, Statement: text, Range: r})
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			return rows
		}
	}
	sel := query.Selection{Org: org, Signal: millstream.Logs, Stream: "app", Range: r}
	some := sel
	some.Filter = "level = '" + level + "'"
	req := query.Request{Org: org, Range: r}
	out := map[string]func(t *testing.T, n *node) any{
		"histogram": func(t *testing.T, n *node) any { return must(n.Histogram(t.Context(), some, time.Minute, "service")) },
		"fields": func(t *testing.T, n *node) any {
			return must(n.Fields(t.Context(), some, query.FieldSearch{Names: []string{"service", "ms"}, Limit: -1}))
		},
		"patterns": func(t *testing.T, n *node) any { return must(n.Patterns(t.Context(), sel, query.PatternSearch{})) },
		"context": func(t *testing.T, n *node) any {
			return must(n.Context(t.Context(), query.Around{Selection: sel, At: (r.Start + r.End) / 2, Before: 7, After: 7}))
		},
		"services": func(t *testing.T, n *node) any { return must(n.Services(t.Context(), req, "default", true)) },
		"traces": func(t *testing.T, n *node) any {
			return must(n.SearchTraces(t.Context(), req, query.TraceSearch{Stream: "default", Status: "error", Limit: 50}))
		},
		"estimate": func(t *testing.T, n *node) any {
			return must(n.Estimate(t.Context(), query.Request{Org: org, Statement: "SELECT * FROM app", Range: r}))
		},
		"metric names": func(t *testing.T, n *node) any { return must(n.MetricNames(t.Context(), req)) },
		"samples":      func(t *testing.T, n *node) any { return samplesOf(t, n, req) },
	}
	for _, text := range []string{
		"SELECT count(*) AS n FROM app",
		"SELECT service, level, count(*) AS n, sum(ms) AS s, min(ms) AS a, max(ms) AS b FROM app GROUP BY service, level ORDER BY 1, 2",
		"SELECT * FROM app WHERE match_all('request') ORDER BY _timestamp DESC, seq LIMIT 20",
		"SELECT seq, message FROM app WHERE level = '" + level + "' AND ms > 300 ORDER BY seq",
		"SELECT level, median(ms) AS m, count(DISTINCT service) AS d FROM app GROUP BY level ORDER BY level",
		"SELECT * FROM (SELECT service, row_number() OVER (PARTITION BY service ORDER BY seq) AS k, seq FROM app) WHERE k < 4 ORDER BY service, k",
		`SELECT job, count(*) AS n, round(sum(value), 6) AS s FROM metrics.load GROUP BY job ORDER BY job`,
		"SELECT service, count(*) AS n FROM traces.default GROUP BY service ORDER BY service",
	} {
		out[text] = statement(text)
	}
	return out
}

func must(v any, err error) any {
	if err != nil {
		return err.Error()
	}
	return v
}

// samplesOf lists all samples of an organization.
func samplesOf(t *testing.T, n *node, req query.Request) (out []string) {
	_, err := n.Metrics(t.Context(), req, func(ctx context.Context, srcs []metrics.Source, _ []string) error {
		out = nil
		series, err := metrics.Select(ctx, srcs, metrics.Query{Min: math.MinInt64, Max: math.MaxInt64})
		var it metrics.Iterator
		for _, s := range series {
			for it.Reset(s.Chunks); it.Next() != chunkenc.ValNone; {
				at, v := it.At()
				out = append(out, fmt.Sprintf("%q %d %g", s.Key, at, v))
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// text is an answer without what it cost.
func text(t *testing.T, v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var doc any
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	if o, ok := doc.(map[string]any); ok {
		delete(o, "stats")
	}
	b, _ = json.Marshal(doc)
	return string(b)
}

// TestAnswersDoNotDependOnWhereRowsAre asks every form of a node that holds the unflushed rows and of one that mirrors them, between writes and flushes.
func TestAnswersDoNotDependOnWhereRowsAre(t *testing.T) {
	for seed := range uint64(3) {
		rnd := rand.New(rand.NewPCG(seed, 21))
		home, remote := newNode(t, nil), newRemote(t)
		seq := 0
		for step := range 12 {
			for range 1 + rnd.IntN(3) {
				sig, name, b := randomBatch(rnd, &seq)
				home.append(sig, name, b)
				remote.append(sig, name, b)
			}
			if step%5 == 4 {
				home.flush()
				remote.flush()
			}
			if step < 2 { // until there is something of each signal
				continue
			}
			r := millstream.TimeRange{Start: epoch + rnd.Int64N(600e9), End: epoch + 4000e9}
			for name, f := range forms(rnd, r) {
				if want, got := text(t, f(t, home)), text(t, f(t, remote)); want != got {
					t.Fatalf("seed %d, step %d, %s:\nat home %s\nremote  %s", seed, step, name, want, got)
				}
			}
		}
	}
}

// randomBatch is records of one of three streams; the first three are of each.
func randomBatch(rnd *rand.Rand, seq *int) (millstream.Signal, string, *millstream.Batch) {
	kind := rnd.IntN(3)
	if *seq < 3 {
		kind = *seq
	}
	*seq++
	switch kind {
	case 0:
		records := make([]string, 1+rnd.IntN(200))
		for i := range records {
			records[i] = fmt.Sprintf("seq=%d service=svc%d level=%s ms=%d.5 message=request_%d_was_served", *seq*1000+i, rnd.IntN(5), []string{"info", "warn", "error"}[rnd.IntN(3)], rnd.IntN(977), i%5)
			if rnd.IntN(9) == 0 {
				records[i] += fmt.Sprintf(" extra%d=%d", rnd.IntN(3), i)
			}
		}
		return millstream.Logs, "app", lines(epoch+rnd.Int64N(3000e9), records...)
	case 1:
		return millstream.Traces, "default", traceBatch(traffic(rnd, 1+rnd.IntN(20)))
	}
	sm := &millstream.Samples{}
	for i := range 1 + rnd.IntN(4) {
		key, err := millstream.EncodeLabels(nil, []millstream.Label{{Name: "__name__", Value: "load"}, {Name: "job", Value: fmt.Sprint("job", i)}})
		if err != nil {
			panic(err)
		}
		sm.Series = append(sm.Series, string(key))
		for range rnd.IntN(50) {
			sm.Ref, sm.Time, sm.Value = append(sm.Ref, uint32(i)), append(sm.Time, epoch/1e6+rnd.Int64N(3000e3)), append(sm.Value, rnd.Float64())
		}
	}
	if len(sm.Ref) == 0 {
		sm.Ref, sm.Time, sm.Value = []uint32{0}, []int64{epoch / 1e6}, []float64{1}
	}
	return millstream.Metrics, millstream.MetricStream, &millstream.Batch{Org: org, Signal: millstream.Metrics, Name: millstream.MetricStream, Samples: sm}
}

// TestRemoteRowsMissing: a node that cannot be reached makes the answer partial, and says which.
func TestRemoteRowsMissing(t *testing.T) {
	m := ingest.NewMirror(ingest.MirrorConfig{Dial: func(store.WALState) (ingest.Holder, error) {
		return nil, millstream.Errorf(millstream.Unavailable, "connection refused")
	}})
	n := newNode(t, func(c *query.Config) { c.Unflushed = m })
	n.append(millstream.Logs, "app", lines(epoch, "level=info"))
	n.flush()
	n.append(millstream.Logs, "app", lines(epoch, "level=info"))
	got, answer := n.ask(t, "SELECT count(*) AS n FROM app")
	if !slices.Equal(got, []string{"n", "1"}) || !answer.Partial || len(answer.Reasons) != 1 {
		t.Errorf("%q, %+v", got, answer)
	}
}
