package clustertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millstream/millstream/internal/mstest"
)

// questions are asked again and again of data that does not change, each by a goroutine of its own: whatever happens to the nodes, an answer is the one of quiet
// times, or says that it is partial and why.
type questions struct {
	pick  func() *mstest.Node
	pause time.Duration // of each after an answer
	list  []*question
	stop  chan struct{}
	once  sync.Once
	wg    sync.WaitGroup
}

// question is one of them, and what came of it.
type question struct {
	name string
	ask  func(n *mstest.Node) (status int, body []byte)
	want string

	mu      sync.Mutex
	answers int
	partial []string // reasons
	wrong   []string
	failed  []mstest.Failure
	slowest time.Duration
}

// Sizes of what is asked for: each round is published by a flush, so it is a segment of each stream.
const (
	askedRounds = 10
	askedRows   = 400 // of a round
	askedTraces = 5   // of a round, of three spans each
)

// publishAsked writes logs, traces and metrics through a router and publishes them in rounds.
func publishAsked(t *testing.T, n *mstest.Node) (from time.Time) {
	t.Helper()
	from = time.Now().Add(-time.Hour).Truncate(time.Minute)
	post := func(path, contentType, body string) {
		t.Helper()
		if code, reply := n.Do("POST", path, n.Token, contentType, []byte(body)); code != http.StatusOK {
			t.Fatalf("%s: %d %s", path, code, reply)
		}
	}
	for round := range askedRounds {
		at := from.Add(time.Duration(round) * time.Minute).UnixNano()
		var logs, spans, points []string
		for i := range askedRows {
			seq := round*askedRows + i
			logs = append(logs, fmt.Sprintf(`{"_timestamp":%d,"seq":%d,"level":%q,"message":"order %d of customer %d"}`, at+int64(i)*1e6, seq, []string{"info", "warn", "error"}[seq%3], seq, seq%7))
		}
		for i := range askedTraces {
			for s := range 3 {
				parent := ""
				if s > 0 {
					parent = fmt.Sprintf("%08x%08x", round*askedTraces+i+1, 1)
				}
				spans = append(spans, fmt.Sprintf(`{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"svc-%d"}}]},"scopeSpans":[{"spans":[{"traceId":"%s","spanId":"%08x%08x","parentSpanId":%q,"name":"op-%d","kind":2,"startTimeUnixNano":"%d","endTimeUnixNano":"%d"}]}]}`,
					s, traceID(round*askedTraces+i), round*askedTraces+i+1, s+1, parent, s, at+int64(i)*1e9+int64(s)*1e6, at+int64(i)*1e9+int64(s)*1e6+5e6))
			}
		}
		for host := range 3 {
			points = append(points, fmt.Sprintf(`{"asInt":"%d","timeUnixNano":"%d","attributes":[{"key":"host","value":{"stringValue":"h%d"}}]}`, round*10+host, at, host))
		}
		post("/api/v1/intake/json/asked", "application/x-ndjson", strings.Join(logs, "\n"))
		post("/v1/traces", "application/json", `{"resourceSpans":[`+strings.Join(spans, ",")+`]}`)
		post("/v1/metrics", "application/json", `{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"asked_load","gauge":{"dataPoints":[`+strings.Join(points, ",")+`]}}]}]}]}`)
		n.Flush()
	}
	return from
}

func traceID(i int) string { return fmt.Sprintf("%032x", 0xabc000+i) }

// newQuestions publishes, asks each question once through a node while all is quiet, and compares what the answers must have.
func newQuestions(t *testing.T, n *mstest.Node, pick func() *mstest.Node, pause time.Duration) *questions {
	t.Helper()
	from := publishAsked(t, n)
	to := from.Add(askedRounds * time.Minute)
	span := map[string]string{"start": from.Format(time.RFC3339), "end": to.Format(time.RFC3339)}
	post := func(path string, body map[string]any) func(n *mstest.Node) (int, []byte) {
		body["time_range"] = span
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		return func(n *mstest.Node) (int, []byte) { return n.Do("POST", path, n.Token, "application/json", text) }
	}
	sql := func(statement string) func(n *mstest.Node) (int, []byte) {
		return post("/api/v1/query", map[string]any{"statement": statement})
	}
	get := func(path string, q map[string]string) func(n *mstest.Node) (int, []byte) {
		values := url.Values{}
		for _, m := range []map[string]string{span, q} {
			for k, v := range m {
				values.Set(k, v)
			}
		}
		return func(n *mstest.Node) (int, []byte) { return n.Do("GET", path+"?"+values.Encode(), n.Token, "", nil) }
	}
	rows := askedRounds * askedRows
	qs := &questions{pick: pick, pause: pause, stop: make(chan struct{})}
	for name, q := range map[string]struct {
		ask   func(n *mstest.Node) (int, []byte)
		count int    // how often the answer has
		text  string // this
	}{
		"groups":         {sql("SELECT level, count(*) AS n, sum(seq) AS s FROM asked GROUP BY level ORDER BY level"), 1, fmt.Sprintf(`["info",%d,`, (rows+2)/3)},
		"SQL engine":     {sql("SELECT upper(level) AS l, count(DISTINCT message) AS n FROM asked GROUP BY 1 ORDER BY 1"), 1, fmt.Sprintf(`["WARN",%d]`, (rows+1)/3)},
		"all rows":       {sql("SELECT seq, message FROM asked"), rows, `"order `},
		"latest rows":    {sql("SELECT seq FROM asked WHERE level = 'error' ORDER BY _timestamp DESC LIMIT 100"), 1, fmt.Sprintf("[%d]", rows-2)},
		"search":         {post("/api/v1/query", map[string]any{"language": "search", "stream": "asked", "statement": `level:warn "customer 3"`, "limit": 10_000}), rows / 21, `of customer 3"`},
		"frames":         {post("/api/v1/query/stream", map[string]any{"statement": "SELECT seq, message FROM asked"}), rows, `"order `},
		"fields":         {post("/api/v1/query/fields", map[string]any{"stream": "asked", "fields": []string{"level"}}), 1, fmt.Sprintf(`"rows":%d`, (rows+2)/3)},
		"histogram":      {post("/api/v1/query/histogram", map[string]any{"stream": "asked", "interval": "60s"}), askedRounds, fmt.Sprintf(`%d`, askedRows)},
		"PromQL":         {get("/api/v1/query/prometheus/api/v1/query_range", map[string]string{"query": "sum by (host) (asked_load)", "step": "60"}), 2, fmt.Sprintf(`"%d"`, askedRounds*10-10+2)},
		"PromQL as rows": {post("/api/v1/query", map[string]any{"language": "promql", "statement": "max(asked_load)", "params": map[string]string{"step": "60s"}}), 1, fmt.Sprint(askedRounds*10 - 10 + 2)},
		"labels":         {get("/api/v1/query/prometheus/api/v1/label/host/values", nil), 1, `"h0","h1","h2"`},
		"traces":         {get("/api/v1/query/traces", map[string]string{"service": "svc-1", "limit": "1000"}), askedRounds * askedTraces, `"trace_id"`},
		"a trace":        {get("/api/v1/query/traces/"+traceID(17), nil), 2, `"parent_span_id"`},
		"services":       {get("/api/v1/query/services", map[string]string{"edges": "true"}), 2, fmt.Sprintf(`"calls":%d`, askedRounds*askedTraces)},
	} {
		x := &question{name: name, ask: q.ask}
		status, body := x.ask(n)
		text, reasons, err := quiet(body)
		if status != http.StatusOK || err != nil || len(reasons) > 0 || strings.Count(text, q.text) < q.count {
			t.Errorf("%s: %d, %v, partial %v, %d times %s in %.2000s", name, status, err, reasons, strings.Count(text, q.text), q.text, body)
		}
		x.want = text
		qs.list = append(qs.list, x)
	}
	if t.Failed() {
		t.FailNow()
	}
	for _, x := range qs.list {
		qs.wg.Go(func() { qs.again(x) })
	}
	t.Cleanup(qs.halt)
	return qs
}

func (qs *questions) again(x *question) {
	for {
		select {
		case <-qs.stop:
			return
		case <-time.After(qs.pause):
		}
		x.put(qs.pick())
	}
}

// put asks once and judges what comes.
func (x *question) put(n *mstest.Node) {
	begin := time.Now()
	status, body := x.ask(n)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.slowest = max(x.slowest, time.Since(begin))
	if status != http.StatusOK {
		x.failed = append(x.failed, mstest.Failure{At: time.Now(), Node: n.ID, Status: status, Reply: string(body[:min(len(body), 300)])})
		return
	}
	text, reasons, err := quiet(body)
	switch {
	case err != nil: // an answer in frames says itself that it failed, or ends without a last frame
		x.failed = append(x.failed, mstest.Failure{At: time.Now(), Node: n.ID, Reply: err.Error()})
		return
	case len(reasons) > 0:
		x.partial = append(x.partial, reasons...)
	case text != x.want:
		x.wrong = append(x.wrong, fmt.Sprintf("%.1000s instead of %.1000s", text, x.want))
	}
	x.answers++
}

func (qs *questions) halt() {
	qs.once.Do(func() { close(qs.stop) })
	qs.wg.Wait()
}

// answered waits until each question was answered that is asked from now on.
func (qs *questions) answered(t *testing.T, limit time.Duration) {
	t.Helper()
	counts := func() (out []int) {
		for _, x := range qs.list {
			x.mu.Lock()
			out = append(out, x.answers)
			x.mu.Unlock()
		}
		return out
	}
	before := counts()
	mstest.WaitFor(t, limit, "all questions are answered", func() bool {
		for i, n := range counts() {
			if n < before[i]+2 { // one may have been under way
				return false
			}
		}
		return true
	})
}

// since are the questions that got no answer since a time.
func (qs *questions) since(begin time.Time) (out []string) {
	for _, x := range qs.list {
		x.mu.Lock()
		for _, f := range x.failed {
			if f.At.After(begin) {
				out = append(out, fmt.Sprintf("%s through %s at +%s: %d %s", x.name, f.Node, f.At.Sub(begin).Round(time.Millisecond), f.Status, f.Reply))
			}
		}
		x.mu.Unlock()
	}
	return out
}

// check ends the questions and reports wrong answers, those that took longer than a query may, and partial ones that name none of the nodes.
func (qs *questions) check(t *testing.T, limit time.Duration, nodes []*mstest.Node) {
	t.Helper()
	qs.halt()
	for _, x := range qs.list {
		t.Logf("%s: %d answers, %d partial, %d failed; slowest %s", x.name, x.answers, len(x.partial), len(x.failed), x.slowest.Round(time.Millisecond))
		if x.answers == 0 {
			t.Errorf("%s: no answer at all; %v", x.name, x.failed)
		}
		if x.slowest > limit {
			t.Errorf("%s: took %s", x.name, x.slowest)
		}
		for _, w := range x.wrong {
			t.Errorf("%s: %s", x.name, w)
		}
		for _, reason := range x.partial {
			if !slices.ContainsFunc(nodes, func(n *mstest.Node) bool { return strings.Contains(reason, n.ID) }) {
				t.Errorf("%s: partial without a node's name: %s", x.name, reason)
			}
		}
	}
}

// quiet is an answer without what differs each time, its rows in order, and why it is partial, if it is.
func quiet(body []byte) (text string, reasons []string, err error) {
	if bytes.HasPrefix(body, []byte(`{"frame"`)) || bytes.Contains(body, []byte("\n{")) {
		return quietFrames(body)
	}
	var v map[string]any
	if err := decode(body, &v); err != nil {
		return "", nil, err
	}
	return quietObject(v)
}

func decode(body []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("%w in %.300s", err, body)
	}
	return nil
}

// quietObject takes the reasons of Millstream's own answers, and of Prometheus's, which has them among its warnings.
func quietObject(v map[string]any) (text string, reasons []string, err error) {
	list, _ := v["partial_reasons"].([]any)
	if v["partial"] == nil {
		warnings, _ := v["warnings"].([]any)
		list = append(list, warnings...)
	}
	for _, r := range list {
		reasons = append(reasons, fmt.Sprint(r))
	}
	if v["partial"] == true && len(reasons) == 0 {
		reasons = append(reasons, "no reason")
	}
	for _, name := range []string{"stats", "took_ms", "warnings", "partial", "partial_reasons"} {
		delete(v, name)
	}
	if rows, ok := v["rows"].([]any); ok {
		sortTexts(rows)
	}
	out, err := json.Marshal(v)
	return string(out), reasons, err
}

// sortTexts brings rows, whose order nobody asked for, into one.
func sortTexts(rows []any) {
	slices.SortFunc(rows, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
}

// quietFrames is quiet of an answer in frames, which is whole only with its last frame.
func quietFrames(body []byte) (text string, reasons []string, err error) {
	whole, rows := map[string]any{}, []any{}
	done := false
	for line := range bytes.Lines(body) {
		var f map[string]any
		if err := decode(line, &f); err != nil {
			return "", nil, err
		}
		switch f["frame"] {
		case "rows":
			list, _ := f["rows"].([]any)
			rows = append(rows, list...)
		case "done":
			done = true
			maps.Copy(whole, f)
		case "error":
			return "", nil, fmt.Errorf("the last frame is %s", line)
		}
	}
	if !done {
		return "", nil, fmt.Errorf("the frames end without the last one: %d rows", len(rows))
	}
	whole["rows"] = rows
	return quietObject(whole)
}
