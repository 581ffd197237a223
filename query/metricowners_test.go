package query_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query"
	"github.com/millstream/millstream/query/cache"
	"github.com/millstream/millstream/query/promql"
	"github.com/millstream/millstream/segment/metrics"
)

// alone is a node that reads all of the fleet's segments itself.
func (f *fleet) alone(changes ...func(*query.Config)) *node {
	return newNode(f.t, func(c *query.Config) {
		for _, change := range changes {
			change(c)
		}
		own, err := cache.Open(cache.Config{Bucket: f.bucket, Dir: filepath.Join(f.t.TempDir(), "cache"), Open: query.SegmentOpener()})
		if err != nil {
			f.t.Fatal(err)
		}
		f.t.Cleanup(func() { _ = own.Close() })
		c.Catalog, c.Unflushed, c.Cache = f.node, f.node, own
	})
}

// randomSamples is a batch of counters, gauges and histograms, with samples out of order and repeated, markers of the end of a series, start times and exemplars.
func randomSamples(t testing.TB, rng *rand.Rand, from int64) *millstream.Batch {
	t.Helper()
	s := &millstream.Samples{}
	for i := range 8 {
		if rng.IntN(4) == 0 {
			continue
		}
		name := []string{"requests_total", "load", "latency"}[i%3]
		key, err := millstream.EncodeLabels(nil, []millstream.Label{{Name: "__name__", Value: name}, {Name: "job", Value: "job" + strconv.Itoa(i)}, {Name: "odd", Value: []string{"", "ÿes"}[i%2]}})
		if err != nil {
			t.Fatal(err)
		}
		ref := uint32(len(s.Series))
		s.Series = append(s.Series, string(key))
		at := from
		for range rng.IntN(30) {
			at += int64(rng.IntN(3)) * 15_000
			v, hist := float64(at/1000%977), []byte(nil)
			switch {
			case rng.IntN(12) == 0:
				v = math.Float64frombits(value.StaleNaN)
			case name == "latency":
				n := int64(1 + rng.IntN(9))
				v, hist = 0, metrics.EncodeHistogram(nil, &histogram.Histogram{Count: uint64(n), Sum: float64(n) / 3, ZeroThreshold: 0.01,
					PositiveSpans: []histogram.Span{{Offset: int32(rng.IntN(3)), Length: 1}}, PositiveBuckets: []int64{n}}, nil)
			}
			back := int64(rng.IntN(8)/7) * 60_000
			s.Ref, s.Time, s.Value = append(s.Ref, ref), append(s.Time, at-back), append(s.Value, v)
			s.Start, s.Histogram = append(s.Start, from), append(s.Histogram, hist)
			if rng.IntN(6) == 0 {
				s.Exemplars = append(s.Exemplars, millstream.Exemplar{Ref: ref, Time: at, Value: v + 1, Labels: exemplarLabels(t, at)})
			}
		}
	}
	return &millstream.Batch{Samples: s}
}

func exemplarLabels(t testing.TB, at int64) string {
	ls, err := millstream.EncodeLabels(nil, []millstream.Label{{Name: "trace_id", Value: fmt.Sprint(at)}})
	if err != nil {
		t.Fatal(err)
	}
	return string(ls)
}

// spreadSamples flushes batches of random samples whose times meet, each into a segment, and keeps the last one unflushed.
func (f *fleet) spreadSamples(rng *rand.Rand, batches int) {
	for i := range batches {
		f.append(millstream.Metrics, millstream.MetricStream, randomSamples(f.t, rng, epoch/1e6+int64(i)*100_000))
		if i < batches-1 {
			f.flush()
		}
	}
}

// metricQuestions are questions whose answers as texts one node and many must agree about.
var metricQuestions = map[string]func(ctx context.Context, e *query.Engine) (string, error){
	"all samples":            selectText(),
	"samples of a name":      selectText(labels.MustNewMatcher(labels.MatchEqual, "__name__", "latency")),
	"samples by expressions": selectText(labels.MustNewMatcher(labels.MatchRegexp, "job", "job[1-5]"), labels.MustNewMatcher(labels.MatchNotEqual, "odd", ""), labels.MustNewMatcher(labels.MatchNotRegexp, "__name__", "lo.*")),
	"no samples":             selectText(labels.MustNewMatcher(labels.MatchEqual, "job", "none")),
	"names": func(ctx context.Context, e *query.Engine) (string, error) {
		names, err := e.MetricNames(ctx, query.Request{Org: org, Range: day})
		return fmt.Sprint(names), err
	},
	"list": func(ctx context.Context, e *query.Engine) (string, error) {
		found, total, _, err := e.FindMetrics(ctx, query.Request{Org: org}, "", 100)
		return fmt.Sprint(found, total), err
	},
	"table":      sqlText(`SELECT * FROM metrics.load ORDER BY _timestamp, job`),
	"histogram":  sqlText(`SELECT _timestamp, job, "count", "sum", histogram, exemplar_trace_id FROM metrics.latency ORDER BY 1, 2`),
	"aggregate":  sqlText(`SELECT job, count(*), sum(value) FROM metrics.requests_total GROUP BY job ORDER BY job`),
	"two tables": sqlText(`SELECT l.job, count(*) FROM metrics.load l JOIN metrics.requests_total r ON l._timestamp = r._timestamp GROUP BY 1 ORDER BY 1`),
	"rate":       promText("query_range", "query", `sum by (odd) (rate(requests_total[3m]))`, "step", "30"),
	"selectors":  promText("query_range", "query", `load / on(job) group_left load offset 2m + count(latency) `, "step", "15"),
	"quantile":   promText("query_range", "query", `histogram_quantile(0.9, sum(rate(latency[5m])))`, "step", "30"),
	"resets":     promText("query_range", "query", `increase(latency[4m])`, "step", "45"),
	"series":     promText("series", "match[]", `{job=~"job[0-4]"}`, "match[]", "load"),
	"labels":     promText("labels"),
	"labels of":  promText("labels", "match[]", "latency"),
	"values":     promText("values"),
	"values of":  promText("values", "match[]", `{odd!=""}`),
	"exemplars":  promText("exemplars", "query", `requests_total + latency`),
}

// selectText reads all samples that match, with what iterators know of them.
func selectText(ms ...*labels.Matcher) func(context.Context, *query.Engine) (string, error) {
	return func(ctx context.Context, e *query.Engine) (text string, err error) {
		_, err = e.Metrics(ctx, query.Request{Org: org, Range: day}, func(ctx context.Context, srcs []metrics.Source, reasons []string) error {
			text = fmt.Sprint(reasons)
			q := metrics.Query{Min: epoch/1e6 + 90_000, Max: epoch/1e6 + 900_000, Matchers: ms}
			found, err := metrics.Select(ctx, srcs, q)
			for _, s := range found {
				text += fmt.Sprintf("\n%q %q", s.Name, s.Key)
				it := metrics.NewIterator(s.Chunks)
				for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
					text += fmt.Sprint(" ", it.AtT(), " ", it.AtST(), " ")
					if kind == chunkenc.ValFloat {
						_, v := it.At()
						text += fmt.Sprint(math.Float64bits(v))
						continue
					}
					_, fh := it.AtFloatHistogram(nil)
					text += fmt.Sprint(kind, fh.CounterResetHint, fh)
				}
				if it.Err() != nil {
					return it.Err()
				}
			}
			return err
		})
		return text, err
	}
}

func sqlText(statement string) func(context.Context, *query.Engine) (string, error) {
	return func(ctx context.Context, e *query.Engine) (string, error) {
		var out strings.Builder
		enc := query.NewEncoder(query.CSV, &out)
		answer, err := e.Run(ctx, query.Request{Org: org, Statement: statement, Range: day}, enc)
		if err != nil {
			return "", err
		}
		err = enc.Close(answer)
		return out.String(), err
	}
}

// promText asks the Prometheus API over twenty minutes.
func promText(endpoint string, params ...string) func(context.Context, *query.Engine) (string, error) {
	v := url.Values{"start": {strconv.FormatInt(epoch/1e9, 10)}, "end": {strconv.FormatInt(epoch/1e9+1200, 10)}}
	for i := 0; i < len(params); i += 2 {
		v.Add(params[i], params[i+1])
	}
	return func(ctx context.Context, e *query.Engine) (string, error) {
		api := promql.New(promql.Options{})
		defer api.Close()
		open := openOf(e)
		var r *promql.Response
		var err error
		switch endpoint {
		case "query_range":
			r, err = api.QueryRange(ctx, open, v)
		case "series":
			r, err = api.Series(ctx, open, v)
		case "labels":
			r, err = api.Labels(ctx, open, v)
		case "values":
			r, err = api.LabelValues(ctx, open, "job", v)
		case "exemplars":
			r, err = api.Exemplars(ctx, open, v)
		}
		if err != nil {
			return "", err
		}
		defer r.Close()
		var out strings.Builder
		_, err = r.WriteTo(&out)
		return out.String(), err
	}
}

// openOf is how the Prometheus API gets at an engine's samples.
func openOf(e *query.Engine) promql.Open {
	return func(ctx context.Context, first, last int64) (promql.Snapshot, error) {
		s, err := e.OpenMetrics(ctx, query.Request{Org: org, Range: millstream.TimeRange{Start: first * 1e6, End: (last + 1) * 1e6}})
		if err != nil {
			return promql.Snapshot{}, err
		}
		return promql.Snapshot{Sources: s.Sources, Warnings: s.Reasons, Close: func() { s.Close() }}, nil
	}
}

// randomly lets calls go well, fail at once or on the way, end too early, say what nobody understands, or be late.
func randomly(seed uint64) func(ctx context.Context, to millstream.NodeID, emit func([]byte) error, ask func(func([]byte) error) error) error {
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(seed, 5))
	return func(_ context.Context, _ millstream.NodeID, emit func([]byte) error, ask func(func([]byte) error) error) error {
		mu.Lock()
		what, frames := rng.IntN(8), rng.IntN(4)
		mu.Unlock()
		switch what {
		case 0:
			return errLine
		case 1, 2, 3:
			return ask(func(frame []byte) error {
				if frames--; frames >= 0 {
					return emit(frame)
				}
				switch what {
				case 1:
					return errLine
				case 2:
					return emit(append([]byte{frame[0]}, 0xff, 0xff, 0xff))
				}
				return nil // never said
			})
		case 4:
			time.Sleep(200 * time.Millisecond)
		}
		return ask(emit)
	}
}

func TestMetricsOfOwners(t *testing.T) {
	now := func(c *query.Config) { c.Now = func() time.Time { return time.Unix(0, epoch).Add(time.Hour) } }
	for seed := range uint64(3) {
		f := newFleet(t, now)
		f.spreadSamples(rand.New(rand.NewPCG(seed, 1)), 16)
		one := f.alone(now)
		for _, ruin := range []string{"all are well", "nodes fail at random"} {
			if f.ruin = nil; ruin != "all are well" {
				f.ruin, f.owners.Silence = randomly(seed), 150*time.Millisecond
			}
			for name, ask := range metricQuestions {
				want, err := ask(t.Context(), one.Engine)
				if err != nil {
					t.Fatal(name, err)
				}
				if name != "no samples" && len(want) < 25 {
					t.Errorf("%s: there is nothing to compare: %s", name, want)
				}
				got, err := ask(t.Context(), f.Engine)
				if err != nil || got != want {
					t.Errorf("seed %d, %s, %s: %v\n got %s\nwant %s", seed, ruin, name, err, got, want)
				}
			}
		}
	}
}

// A question is one call to each owner, however many segments it has, and what all questions of a query read is counted once.
func TestOneCallPerOwnerAndQuestion(t *testing.T) {
	f := newFleet(t)
	f.spreadSamples(rand.New(rand.NewPCG(4, 4)), 13)
	var sources []metrics.Source
	answer, err := f.Metrics(t.Context(), query.Request{Org: org, Range: day}, func(ctx context.Context, srcs []metrics.Source, _ []string) error {
		sources = srcs
		all := metrics.Query{Min: math.MinInt64, Max: math.MaxInt64}
		none := metrics.Query{Min: 1, Max: 2}
		for name, want := range map[string]int64{"select": 2, "keys": 2, "label names": 2, "label values": 2, "names": 2, "exemplars": 2, "another time": 0} {
			before, src := f.asked.Load(), srcs[0]
			var err error
			switch name {
			case "select":
				_, err = src.Select(ctx, all)
			case "keys":
				_, err = src.Select(ctx, metrics.Query{Min: all.Min, Max: all.Max, KeysOnly: true})
			case "label names":
				_, err = src.LabelNames(ctx, all)
			case "label values":
				_, err = src.LabelValues(ctx, "job", all)
			case "names":
				_, err = src.Names()
			case "exemplars":
				_, err = src.Exemplars(ctx, all)
			case "another time":
				_, err = src.Select(ctx, none)
			}
			if n := f.asked.Load() - before; err != nil || n != want {
				t.Errorf("%s: %d calls, want %d; %v", name, n, want, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(sources) != 2 { // all segments, and what is not flushed
		t.Errorf("%d sources", len(sources))
	}
	s := answer.Stats
	if s.Segments != (query.SegmentStats{Total: 12, Scanned: 12, Cached: 0}) || s.Nodes != 3 || len(s.Parts) != 3 {
		t.Errorf("statistics %+v", s)
	}
	segments, fetched := 0, int64(0)
	for _, p := range s.Parts {
		segments, fetched = segments+p.Segments, fetched+p.FetchedBytes
	}
	size := int64(0)
	for _, s := range f.segments {
		size += s.Data.Length + s.Index.Length
	}
	if segments != 12 || fetched != size {
		t.Errorf("the nodes read %d segments and fetched %d bytes of %d: %+v", segments, fetched, size, s.Parts)
	}
	for _, s := range f.segments {
		for id, c := range f.caches {
			if own := owners(s.ID)[0].ID == id; c.Has(s) != own {
				t.Errorf("segment %s on node %s: cached %v, owned %v", s.ID, id, c.Has(s), own)
			}
		}
	}
}

// A metric segment that is gone on its owner begins a statement anew; what cannot begin anew fails and says so.
func TestOwnerLacksAMetricSegment(t *testing.T) {
	f := newFleet(t)
	f.spreadSamples(rand.New(rand.NewPCG(4, 4)), 7)
	var lost atomic.Int64
	f.ruin = func(_ context.Context, _ millstream.NodeID, emit func([]byte) error, ask func(func([]byte) error) error) error {
		if lost.Add(-1) >= 0 {
			return millstream.Errorf(millstream.NotFound, "there is no object")
		}
		return ask(emit)
	}
	for name, again := range map[string]bool{"names": true, "table": true, "list": true, "rate": false} {
		lost.Store(1)
		got, err := metricQuestions[name](t.Context(), f.Engine)
		switch {
		case again && (err != nil || got == ""):
			t.Errorf("%s after a new snapshot: %q, %v", name, got, err)
		case !again && (err == nil || promql.AsError(err).Type != "unavailable" || !strings.Contains(err.Error(), "run the query again")):
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// When every other node is gone the coordinating one reads all.
func TestMetricsWithoutOwners(t *testing.T) {
	f := newFleet(t)
	f.spreadSamples(rand.New(rand.NewPCG(4, 4)), 7)
	want, err := metricQuestions["rate"](t.Context(), f.Engine)
	if err != nil {
		t.Fatal(err)
	}
	f.ruin = func(context.Context, millstream.NodeID, func([]byte) error, func(func([]byte) error) error) error {
		return errLine
	}
	if got, err := metricQuestions["rate"](t.Context(), f.Engine); err != nil || got != want {
		t.Errorf("%v\n got %s\nwant %s", err, got, want)
	}
	for _, s := range f.segments {
		if !f.caches["a"].Has(s) {
			t.Errorf("segment %s was not read by the node that coordinates", s.ID)
		}
	}
}
