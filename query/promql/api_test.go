package promql

import (
	"context"
	"errors"
	"math"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/segment/metrics"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"

	prom "github.com/prometheus/prometheus/promql"
)

func testAPI(t testing.TB) *API {
	t.Helper()
	a := New(Options{Now: func() time.Time { return time.Unix(100, 0) }})
	t.Cleanup(func() { _ = a.Close() })
	return a
}

func labelSet(t testing.TB, pairs ...string) string {
	t.Helper()
	var ls []millstream.Label
	for i := 0; i < len(pairs); i += 2 {
		ls = append(ls, millstream.Label{Name: pairs[i], Value: pairs[i+1]})
	}
	k, err := millstream.EncodeLabels(nil, ls)
	if err != nil {
		t.Fatal(err)
	}
	return string(k)
}

// testHead holds a counter of two series with an exemplar, special values, a native histogram, and a name that needs quoting.
func testHead(t testing.TB) *metrics.Head {
	t.Helper()
	h := metrics.NewHead()
	hist := metrics.EncodeHistogram(nil, &histogram.Histogram{Count: 3, Sum: 4.5, ZeroThreshold: 0.5, ZeroCount: 1,
		PositiveSpans: []histogram.Span{{Length: 1}}, PositiveBuckets: []int64{2}}, nil)
	b := &millstream.Samples{
		Series: []string{labelSet(t, "__name__", "c", "job", "a"), labelSet(t, "__name__", "c", "job", "b\"\\\n\x01\xff☃"), labelSet(t, "__name__", "special"),
			labelSet(t, "__name__", "h"), labelSet(t, "__name__", "täglich", "größe.m", "x")},
		Ref:       []uint32{0, 0, 0, 1, 1, 2, 3, 4},
		Time:      []int64{0, 50_000, 100_000, 50_000, 99_001, 100_000, 100_000, 100_000},
		Value:     []float64{0, 5, 10, 1e21, 0.5, math.Inf(-1), 0, 1},
		Histogram: [][]byte{nil, nil, nil, nil, nil, nil, hist, nil},
		Exemplars: []millstream.Exemplar{{Ref: 0, Time: 40_500, Value: 4, Labels: labelSet(t, "trace_id", "abc")}},
	}
	if rejected, err := h.Append(b); err != nil || rejected > 0 {
		t.Fatal(rejected, err)
	}
	return h
}

func openOnly(srcs ...metrics.Source) Open {
	return func(context.Context, int64, int64) (Snapshot, error) { return Snapshot{Sources: srcs}, nil }
}

// endpoint calls the method of an endpoint.
func endpoint(a *API, name string, open Open, v url.Values) (*Response, error) {
	ctx := context.Background()
	switch name {
	case "query":
		return a.Query(ctx, open, v)
	case "query_range":
		return a.QueryRange(ctx, open, v)
	case "series":
		return a.Series(ctx, open, v)
	case "labels":
		return a.Labels(ctx, open, v)
	case "query_exemplars":
		return a.Exemplars(ctx, open, v)
	case "format_query":
		return a.FormatQuery(v)
	case "parse_query":
		return a.ParseQuery(v)
	case "metadata":
		return a.Metadata(ctx, func(context.Context) ([]millstream.Metadata, []string, error) {
			return []millstream.Metadata{{Name: "up", Type: "gauge", Help: "is it"}, {Name: "c", Type: "counter", Unit: "bytes"}}, nil, nil
		}, v)
	}
	return a.LabelValues(ctx, open, strings.TrimPrefix(name, "label/"), v)
}

func answer(t *testing.T, r *Response) string {
	t.Helper()
	defer r.Close()
	var b strings.Builder
	if n, err := r.WriteTo(&b); err != nil || n != int64(b.Len()) {
		t.Fatal(n, err)
	}
	return b.String()
}

func TestAnswers(t *testing.T) {
	a, h := testAPI(t), testHead(t)
	sources := map[string]Open{"head": openOnly(h), "segment": openOnly(segmentOf(t, h)), "both": openOnly(segmentOf(t, h), h)}
	for _, c := range []struct{ endpoint, params, want string }{
		{"query", "query=c", `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"c","job":"a"},"value":[100,"10"]},` +
			`{"metric":{"__name__":"c","job":"b\"\\\n\u0001�☃"},"value":[100,"0.5"]}]}}`},
		{"query", "query=c&time=50.001", `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"c","job":"a"},"value":[50.001,"5"]},` +
			`{"metric":{"__name__":"c","job":"b\"\\\n\u0001�☃"},"value":[50.001,"1e+21"]}]}}`},
		{"query", "query=special", `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"special"},"value":[100,"-Inf"]}]}}`},
		{"query", "query=h", `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"h"},"histogram":[100,{"count":"3","sum":"4.5",` +
			`"buckets":[[3,"-0.5","0.5","1"],[0,"0.5","1","2"]]}]}]}}`},
		{"query", "query=1-2", `{"status":"success","data":{"resultType":"scalar","result":[100,"-1"]}}`},
		{"query", `query="x"`, `{"status":"success","data":{"resultType":"string","result":[100,"x"]}}`},
		{"query", "query=none", `{"status":"success","data":{"resultType":"vector","result":[]}}`},
		{"query", `query={"täglich","größe.m"="x"}`, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"täglich","größe.m":"x"},"value":[100,"1"]}]}}`},
		{"query", `query=c{job="a"}[2m]`, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"c","job":"a"},"values":[[0,"0"],[50,"5"],[100,"10"]]}]}}`},
		{"query", "query=c&limit=1", `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"c","job":"a"},"value":[100,"10"]}]},` +
			`"warnings":["results truncated due to limit"]}`},
		{"query_range", `query=c{job="a"}&start=0&end=1970-01-01T00:01:40Z&step=50s`, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"c","job":"a"},` +
			`"values":[[0,"0"],[50,"5"],[100,"10"]]}]}}`},
		{"series", "match[]=c", `{"status":"success","data":[{"__name__":"c","job":"a"},{"__name__":"c","job":"b\"\\\n\u0001�☃"}]}`},
		{"series", `match[]=c{job="a"}&match[]=special&match[]={job="a"}`, `{"status":"success","data":[{"__name__":"c","job":"a"},{"__name__":"special"}]}`},
		{"series", "match[]=c&start=200", `{"status":"success","data":[]}`},
		{"labels", "", `{"status":"success","data":["__name__","größe.m","job"]}`},
		{"series", "match[]=c&limit=1", `{"status":"success","data":[{"__name__":"c","job":"a"}],"warnings":["results truncated due to limit"]}`},
		{"labels", "limit=1", `{"status":"success","data":["__name__"],"warnings":["results truncated due to limit"]}`},
		{"parse_query", `query=sum by(job) (rate(c{job!="a"}[5m] offset 1m)) / 2`, `{"status":"success","data":{"bool":false,"end":49,"lhs":{"end":45,"expr":{"args":[{"end":43,` +
			`"matchers":[{"name":"job","type":"!=","value":"a"},{"name":"__name__","type":"=","value":"c"}],"name":"c","offset":60000,"range":300000,"start":18,"startOrEnd":null,"timestamp":null,"type":"matrixSelector"}],` +
			`"end":44,"func":{"argTypes":["matrix"],"name":"rate","returnType":"vector","variadic":0},"start":13,"type":"call"},"grouping":["job"],"op":"sum","param":null,"start":0,"type":"aggregation","without":false},` +
			`"matching":null,"op":"/","rhs":{"end":49,"start":48,"type":"numberLiteral","val":"2"},"start":0,"type":"binaryExpr"}}`},
		{"parse_query", `query=-(a * on(x) group_left(y) b @ start())`, `{"status":"success","data":{"end":38,"expr":{"end":38,"expr":{"bool":false,"end":37,` +
			`"lhs":{"end":3,"matchers":[{"name":"__name__","type":"=","value":"a"}],"name":"a","offset":0,"start":2,"startOrEnd":null,"timestamp":null,"type":"vectorSelector"},` +
			`"matching":{"card":"many-to-one","fillValues":{"lhs":null,"rhs":null},"include":["y"],"labels":["x"],"on":true},"op":"*",` +
			`"rhs":{"end":37,"matchers":[{"name":"__name__","type":"=","value":"b"}],"name":"b","offset":0,"start":26,"startOrEnd":"start","timestamp":null,"type":"vectorSelector"},` +
			`"start":2,"type":"binaryExpr"},"start":1,"type":"parenExpr"},"op":"-","start":0,"type":"unaryExpr"}}`},
		{"parse_query", "query=round(max_over_time(c[1h:5m] @ 10))", `{"status":"success","data":{"args":[{"args":[{"end":33,` +
			`"expr":{"end":21,"matchers":[{"name":"__name__","type":"=","value":"c"}],"name":"c","offset":0,"start":20,"startOrEnd":null,"timestamp":null,"type":"vectorSelector"},` +
			`"offset":0,"range":3600000,"start":20,"startOrEnd":null,"step":300000,"timestamp":10000,"type":"subquery"}],"end":34,` +
			`"func":{"argTypes":["matrix"],"name":"max_over_time","returnType":"vector","variadic":0},"start":6,"type":"call"}],"end":35,` +
			`"func":{"argTypes":["vector","scalar"],"name":"round","returnType":"vector","variadic":1},"start":0,"type":"call"}}`},
		{"parse_query", `query="text"`, `{"status":"success","data":{"end":6,"start":0,"type":"stringLiteral","val":"text"}}`},
		{"labels", "match[]=special", `{"status":"success","data":["__name__"]}`},
		{"label/__name__", "", `{"status":"success","data":["c","h","special","täglich"]}`},
		{"label/__name__", "limit=2", `{"status":"success","data":["c","h"],"warnings":["results truncated due to limit"]}`},
		{"label/job", `match[]={job="a"}`, `{"status":"success","data":["a"]}`},
		{"label/U__gr_f6__df_e_2e_m", "", `{"status":"success","data":["x"]}`},
		{"label/absent", "", `{"status":"success","data":[]}`},
		{"query_exemplars", "query=rate(c[5m])", `{"status":"success","data":[{"seriesLabels":{"__name__":"c","job":"a"},"exemplars":[{"labels":{"trace_id":"abc"},` +
			`"value":"4","timestamp":40.500}]}]}`},
		{"query_exemplars", "query=rate(c[5m])&start=41", `{"status":"success","data":[]}`},
		{"format_query", "query=sum( rate(c[5m] ) )by(job)", `{"status":"success","data":"sum by (job) (rate(c[5m]))"}`},
		{"metadata", "", `{"status":"success","data":{"c":[{"type":"counter","unit":"bytes","help":""}],"up":[{"type":"gauge","unit":"","help":"is it"}]}}`},
		{"metadata", "metric=up", `{"status":"success","data":{"up":[{"type":"gauge","unit":"","help":"is it"}]}}`},
		{"metadata", "limit=1", `{"status":"success","data":{"c":[{"type":"counter","unit":"bytes","help":""}]}}`},
	} {
		for name, open := range sources {
			r, err := endpoint(a, c.endpoint, open, values(t, c.params))
			if err != nil {
				t.Errorf("%s?%s of a %s: %v", c.endpoint, c.params, name, err)
				continue
			}
			if got := answer(t, r); got != c.want {
				t.Errorf("%s?%s of a %s:\n%s\nwant\n%s", c.endpoint, c.params, name, got, c.want)
			}
		}
	}
}

// values splits a readable query string, which is not escaped.
func values(t *testing.T, s string) url.Values {
	t.Helper()
	v := url.Values{}
	for _, p := range strings.Split(s, "&") {
		if name, value, ok := strings.Cut(p, "="); ok {
			v.Add(name, value)
		}
	}
	return v
}

func TestErrors(t *testing.T) {
	a, h := testAPI(t), testHead(t)
	for _, c := range []struct {
		endpoint, params, kind string
		status                 int
		part                   string
	}{
		{"query", "query=sum(", "bad_data", 400, `invalid parameter \"query\": 1:5: parse error`},
		{"query", "query=", "bad_data", 400, `invalid parameter \"query\"`},
		{"query", "query=c&time=soon", "bad_data", 400, `invalid parameter \"time\": invalid time value for 'time': cannot parse \"soon\" to a valid timestamp`},
		{"query", "query=c&timeout=x", "bad_data", 400, `invalid parameter \"timeout\"`},
		{"query", "query=c&limit=-1", "bad_data", 400, `limit must be non-negative`},
		{"parse_query", "query=sum(", "bad_data", 400, `1:5: parse error`},
		{"query", "query=c&lookback_delta=x", "bad_data", 400, `error parsing lookback delta duration`},
		{"query", "query=c + on() c", "execution", 422, `found duplicate series`},
		{"query", "query=label_replace(c, \"x\", \"y\", \"job\", \"(\")", "execution", 422, `invalid regular expression`},
		{"query", "query=c&timeout=1e-9", "timeout", 503, `query timed out`},
		{"query_range", "query=c&start=0&end=1", "bad_data", 400, `invalid parameter \"step\": cannot parse \"\" to a valid duration`},
		{"query_range", "query=c&start=1&end=0&step=1", "bad_data", 400, `end timestamp must not be before start time`},
		{"query_range", "query=c&start=0&end=1&step=0", "bad_data", 400, `zero or negative query resolution step widths`},
		{"query_range", "query=c&start=0&end=11001&step=1", "bad_data", 400, `exceeded maximum resolution of 11,000 points per timeseries`},
		{"query_range", "query=c[5m]&start=0&end=1&step=1", "bad_data", 400, `invalid expression type`},
		{"series", "", "bad_data", 400, `no match[] parameter provided`},
		{"series", `match[]={job=~".*"}`, "bad_data", 400, `match[] must contain at least one non-empty matcher`},
		{"labels", `match[]={`, "bad_data", 400, `parse error`},
		{"label/", "", "bad_data", 400, `invalid label name: \"\"`},
		{"query_exemplars", "query=c&start=2&end=1", "bad_data", 400, `end timestamp must not be before start timestamp`},
		{"format_query", "query=c{", "bad_data", 400, `invalid parameter \"query\"`},
		{"metadata", "limit=x", "bad_data", 400, `limit must be a number`},
	} {
		r, err := endpoint(a, c.endpoint, openOnly(h), values(t, c.params))
		if err == nil {
			t.Errorf("%s?%s answers %s", c.endpoint, c.params, answer(t, r))
			continue
		}
		body, status := AppendError(nil, err)
		if status != c.status || !strings.HasPrefix(string(body), `{"status":"error","errorType":"`+c.kind+`","error":"`) || !strings.Contains(string(body), c.part) {
			t.Errorf("%s?%s: %d %s", c.endpoint, c.params, status, body)
		}
	}
}

// TestStorageErrors checks how errors of the snapshot come out, and that what is internal stays inside.
func TestStorageErrors(t *testing.T) {
	a := testAPI(t)
	for _, c := range []struct {
		err    error
		status int
		part   string
	}{
		{millstream.Wrap(millstream.Unavailable, errors.New("10.0.0.1 refused"), "the object store does not answer"), 503, `"unavailable","error":"the object store does not answer"`},
		{millstream.Errorf(millstream.Internal, "secret"), 500, `"internal","error":"internal error"`},
		{context.Canceled, 499, `"canceled"`},
		{context.DeadlineExceeded, 503, `"timeout"`},
	} {
		open := func(context.Context, int64, int64) (Snapshot, error) { return Snapshot{}, c.err }
		for _, name := range []string{"query", "labels", "series", "query_exemplars"} {
			_, err := endpoint(a, name, open, url.Values{"query": {"c"}, "match[]": {"c"}})
			if err == nil {
				t.Fatalf("%s: no error for %v", name, c.err)
			}
			body, status := AppendError(nil, err)
			if status != c.status || !strings.Contains(string(body), c.part) {
				t.Errorf("%s, %v: %d %s", name, c.err, status, body)
			}
		}
	}
}

// TestPartial checks that the reasons of a partial answer are warnings, and that every snapshot is closed once.
func TestPartial(t *testing.T) {
	a, h := testAPI(t), testHead(t)
	for _, name := range []string{"query", "query_range", "labels", "series", "query_exemplars", "label/job"} {
		opened, closed := 0, 0
		open := func(context.Context, int64, int64) (Snapshot, error) {
			opened++
			return Snapshot{Sources: []metrics.Source{h}, Warnings: []string{"node n2 does not answer"}, Close: func() { closed++ }}, nil
		}
		r, err := endpoint(a, name, open, url.Values{"query": {"c"}, "match[]": {"c"}, "start": {"0"}, "end": {"9"}, "step": {"1"}})
		if err != nil {
			t.Fatal(err)
		}
		if got := answer(t, r); !strings.Contains(got, `"warnings":["node n2 does not answer"]`) || opened != 1 || closed != 1 {
			t.Errorf("%s: %s; %d opened, %d closed", name, got, opened, closed)
		}
	}
}

// TestCutHistogram is the one difference to an unbroken series that testdata/misses.txt tells of: values are equal, a warning is not given.
func TestCutHistogram(t *testing.T) {
	engine := prom.NewEngine(prom.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, EnableAtModifier: true, Parser: testAPI(t).parser})
	t.Cleanup(func() { _ = engine.Close() })
	script := `
load 7m
  m {{count:1 buckets:[1]}} {{count:2 buckets:[2]}} {{count:1 buckets:[1]}}

eval instant at 14m histogram_count(sum_over_time(m[8m]))
  expect no_warn
  {} 3

eval instant at 14m histogram_count(increase(m[15m]))
  {} 2.142857142857143
`
	promqltest.RunTestWithStorage(t, script, engine, func(tb testing.TB) storage.Storage {
		return &testStorage{tb: tb, flushAfter: 1, head: metrics.NewHead()}
	})
}

// TestStale checks that a series ends at a stale marker, in a head and in a segment.
func TestStale(t *testing.T) {
	a, h := testAPI(t), metrics.NewHead()
	if _, err := h.Append(&millstream.Samples{Series: []string{labelSet(t, "__name__", "m")}, Ref: []uint32{0, 0}, Time: []int64{50_000, 90_000},
		Value: []float64{1, math.Float64frombits(value.StaleNaN)}}); err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string]int{"89": 1, "90": 0, "100": 0} {
		for _, src := range []metrics.Source{h, segmentOf(t, h)} {
			r, err := a.Query(context.Background(), openOnly(src), url.Values{"query": {"m"}, "time": {at}})
			if err != nil || length(r.Value()) != want {
				t.Errorf("at %s: %v, %v", at, r, err)
			}
		}
	}
}
