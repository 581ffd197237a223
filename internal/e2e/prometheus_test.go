package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millstream/millstream/internal/mstest"
)

// TestPrometheus: what a Prometheus server sends by remote write is in the node sample by sample, and the node answers Prometheus' HTTP API, as Grafana uses it,
// as that server does. The requests of a real Prometheus are replayed and its answers compared; with MS_E2E=full a real Prometheus scrapes, sends and answers beside
// the node, also while the node is down.
func TestPrometheus(t *testing.T) {
	for version, message := range map[string]string{"1.0": "prometheus.WriteRequest", "2.0": "io.prometheus.write.v2.Request"} {
		t.Run("recorded "+version, func(t *testing.T) {
			mstest.EachShape(t, func(t *testing.T, start mstest.Starter) { replayed(t, start(t), load(t, "prometheus-"+version)) })
		})
		if mstest.Full() {
			t.Run("real "+version, func(t *testing.T) { realPrometheus(t, version, message) })
		}
	}
}

// replayed sends what was recorded and compares every answer with the recorded one.
func replayed(t *testing.T, n *mstest.Node, r recording) {
	t.Helper()
	r.replay(t, n)
	stages(t, n, func(stage string) {
		for _, e := range r.Answers {
			if strings.HasPrefix(e.Call, descriptions) && !strings.HasPrefix(stage, "after a flush") {
				continue
			}
			var answer any
			must(t, json.Unmarshal(e.Answer, &answer))
			same(t, stage, e.Call, ask(t, n.URL+promAPI, n.Token, e.Call), answer)
		}
		var all any
		must(t, json.Unmarshal(r.Answers[0].Answer, &all))
		tables(t, n, stage, r.Answers[0].Call, all)
	})
}

const promAPI = "/api/v1/query/prometheus"

const prometheusConfig = `global:
  scrape_interval: 1s
  scrape_native_histograms: true
  always_scrape_classic_histograms: true
scrape_configs:
  - job_name: shop
    static_configs: [{ targets: [%q] }]
%s
remote_write:
  - url: %s/api/v1/intake/prometheus/api/v1/write
    authorization: { credentials: %s }
    protobuf_message: %s
    send_exemplars: true
    send_native_histograms: true
    metadata_config: { send: true, send_interval: 1s }
    queue_config: { batch_send_deadline: 200ms, min_backoff: 100ms, max_backoff: 1s }
`

func realPrometheus(t *testing.T, version, message string) {
	binary := mstest.Tool(t, "prometheus")
	n := mstest.Start(t)
	to, rec := n.URL, (*relay)(nil)
	nodeJob := fmt.Sprintf("  - job_name: node\n    static_configs: [{ targets: [%q] }]", n.URL[len("http://"):])
	if *update { // the node's own metrics are many and of no use in a recording
		rec, nodeJob = startRelay(t, n), ""
		to = rec.URL
	}
	dir, addr := t.TempDir(), mstest.FreeAddr(t)
	config := filepath.Join(dir, "prometheus.yml")
	must(t, os.WriteFile(config, fmt.Appendf(nil, prometheusConfig, startShop(t), nodeJob, to, n.Token, message), 0o600))
	began := time.Now()
	mstest.StartPeer(t, binary, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "tsdb"), "--web.listen-address="+addr,
		"--enable-feature=exemplar-storage,metadata-wal-records")
	pair := pair{node: n, prometheus: "http://" + addr, began: began}
	mstest.WaitFor(t, time.Minute, "ten scrapes", func() bool { return pair.scrapes() >= 10 })
	calls := pair.settle(t)
	if *update {
		r := recording{Sender: "Prometheus 3, remote write " + version, Requests: rec.requests()}
		for _, call := range calls {
			answer, err := json.Marshal(ask(t, pair.prometheus, "", call))
			must(t, err)
			r.Answers = append(r.Answers, exchange{call, answer})
		}
		r.save(t, "prometheus-"+version)
		return
	}
	pair.compare(t, "before a flush", slices.DeleteFunc(slices.Clone(calls), func(call string) bool { return strings.HasPrefix(call, descriptions) }))
	n.Flush()
	pair.compare(t, "after a flush", calls)

	before := pair.scrapes()
	n.Kill()
	mstest.WaitFor(t, time.Minute, "scrapes while the node is down", func() bool { return pair.scrapes() >= before+3 })
	t.Logf("restart after kill -9: ready in %s", n.Run())
	mstest.WaitFor(t, time.Minute, "scrapes after the restart", func() bool { return pair.scrapes() >= before+6 })
	calls = pair.settle(t)
	pair.compare(t, "after an outage", calls)
	n.Flush()
	pair.compare(t, "after an outage and a flush", calls)
	n.Kill()
	n.Run()
	pair.compare(t, "after an outage, a flush and kill -9", calls)
}

// pair is a node and the Prometheus that sends to it.
type pair struct {
	node       *mstest.Node
	prometheus string
	began      time.Time
}

// scrapes is how often Prometheus has scraped the shop.
func (p pair) scrapes() int {
	resp, err := http.Get(p.prometheus + "/api/v1/query?query=" + url.QueryEscape(`count_over_time(up{job="shop"}[1h])`))
	if err != nil {
		return 0
	}
	defer func() { _ = resp.Body.Close() }()
	var out struct {
		Data struct{ Result []struct{ Value [2]any } }
	}
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil || len(out.Data.Result) != 1 {
		return 0
	}
	n, _ := strconv.Atoi(out.Data.Result[0].Value[1].(string))
	return n
}

// settle waits until all that Prometheus has up to now is in the node too: every sample of every series. It returns the calls that compare the two until now.
func (p pair) settle(t *testing.T) []string {
	t.Helper()
	now := time.Now().Truncate(time.Millisecond)
	calls := p.calls(now)
	for deadline := now.Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		got, all := ask(t, p.node.URL+promAPI, p.node.Token, calls[0]), ask(t, p.prometheus, "", calls[0])
		if reflect.DeepEqual(got, all) {
			break
		}
		if time.Now().After(deadline) {
			same(t, "samples", calls[0], got, all)
			t.FailNow()
		}
	}
	return calls
}

// calls are queries of a dashboard's kind up to a time; the first asks for all samples of all series.
func (p pair) calls(now time.Time) []string {
	seconds := func(at time.Time) string { return strconv.FormatFloat(float64(at.UnixMilli())/1e3, 'f', 3, 64) }
	instant := func(expr string) string {
		return "/api/v1/query?" + url.Values{"query": {expr}, "time": {seconds(now)}}.Encode()
	}
	over := url.Values{"start": {seconds(p.began)}, "end": {seconds(now)}}
	with := func(path string, more ...string) string {
		v := url.Values{"start": over["start"], "end": over["end"]}
		for i := 0; i < len(more); i += 2 {
			v.Add(more[i], more[i+1])
		}
		return path + "?" + v.Encode()
	}
	calls := []string{instant(fmt.Sprintf(`{__name__=~".+"}[%dms]`, now.Sub(p.began).Milliseconds()))}
	for _, expr := range instants {
		calls = append(calls, instant(expr))
	}
	for _, expr := range ranges {
		calls = append(calls, with("/api/v1/query_range", "query", expr, "step", "1.5"))
	}
	return append(calls,
		with("/api/v1/series", "match[]", `{__name__=~"shop.+"}`, "match[]", "up"),
		with("/api/v1/series", "match[]", "shop_stock"),
		with("/api/v1/labels", "match[]", `{job="shop"}`),
		with("/api/v1/labels", "match[]", "shop_orders_total"),
		with("/api/v1/label/__name__/values", "match[]", `{job="shop"}`),
		with("/api/v1/label/region/values"),
		with("/api/v1/label/le/values", "match[]", "shop_latency_seconds_bucket"),
		with("/api/v1/query_exemplars", "query", "shop_orders_total"),
		with("/api/v1/query_exemplars", "query", "histogram_quantile(0.9, rate(shop_latency_seconds_bucket[5s]))"),
		descriptions+"shop_orders_total",
		descriptions+"shop_latency_seconds",
		descriptions+"shop_native_seconds",
		descriptions+"shop_size_bytes",
		descriptions+"shop.open",
		descriptions+"nothing",
		"/api/v1/format_query?query="+url.QueryEscape("sum by(job)(rate(up[5m]))"),
	)
}

// descriptions begins the calls for types and help texts; the node has them since the flush after they were sent.
const descriptions = "/api/v1/metadata?metric="

var instants = []string{
	"up", "shop_stock", "shop_odd", `{"shop.open"}`, "shop_native_seconds", "vector(1)", "1 + 2", "time()", `"text"`, "absent(nothing)", "shop_stock offset 2s",
	"count by (__name__) ({job=\"shop\"})", "topk(2, shop_orders_total)", "bottomk(1, shop_stock)", "sum without (status) (shop_orders_total)",
	"shop_orders_total / on(region) group_left shop_orders_total{status=\"ok\"}", "resets(shop_orders_total[20s])", "changes(shop_stock[20s])",
	"histogram_quantile(0.9, sum by (le) (rate(shop_latency_seconds_bucket[8s])))", "histogram_quantile(0.5, sum(rate(shop_native_seconds[8s])))",
	"histogram_count(shop_native_seconds)", "histogram_avg(rate(shop_native_seconds[8s]))", "histogram_fraction(0, 1, shop_native_seconds)",
	"max_over_time(rate(shop_orders_total[3s])[8s:1s])", "quantile_over_time(0.5, shop_stock[8s])", "last_over_time(shop_stock[1m])", "timestamp(up)",
	`label_replace(up, "a", "$1", "job", "(.).*")`, "count_values(\"v\", shop_stock)", "shop_orders_total > bool 3", `shop_orders_total{region!~"e.",status=~"ok|failed"}`,
	"shop_size_bytes", "predict_linear(shop_stock[8s], 60)", "stddev_over_time(shop_stock[8s])", "sort_desc(shop_stock)", "group by (region) (shop_orders_total) unless shop_orders_total",
}

var ranges = []string{
	"up", "shop_stock", "shop_odd", "rate(shop_orders_total[4s])", "sum by (status) (increase(shop_orders_total[4s]))", "irate(shop_orders_total[4s])",
	"histogram_quantile(0.99, rate(shop_latency_seconds_bucket[4s]))", "rate(shop_native_seconds[4s])", "sum(shop_native_seconds)", "shop_orders_total @ end()",
	"avg_over_time(shop_stock[3s:500ms])", "scalar(shop_stock{item=\"apple\"})", "absent_over_time(shop_stock{item=\"pear\"}[2s])", "delta(shop_stock[3s])",
}

func (p pair) compare(t *testing.T, stage string, calls []string) {
	t.Helper()
	for _, call := range calls {
		same(t, stage, call, ask(t, p.node.URL+promAPI, p.node.Token, call), ask(t, p.prometheus, "", call))
	}
	all := ask(t, p.prometheus, "", calls[0])
	t.Logf("%s: %d samples, %d calls", stage, tables(t, p.node, stage, calls[0], all), len(calls))
}

// tables checks that SQL sees as many samples of each metric of the shop as Prometheus' answer to the call for all samples has, and counts those. NaN is left out:
// the markers that end a series are such values too, and no answer of Prometheus has them.
func tables(t *testing.T, n *mstest.Node, stage, call string, answer any) (samples int64) {
	t.Helper()
	u, err := url.Parse(call)
	must(t, err)
	until, err := strconv.ParseFloat(u.Query().Get("time"), 64)
	must(t, err)
	counts := map[string]int64{}
	for _, series := range answer.(map[string]any)["data"].(map[string]any)["result"].([]any) {
		s := series.(map[string]any)
		values, _ := s["values"].([]any)
		histograms, _ := s["histograms"].([]any)
		values = slices.DeleteFunc(values, func(v any) bool { return v.([]any)[1] == "NaN" })
		count := int64(len(values) + len(histograms))
		samples += count
		if labels := s["metric"].(map[string]any); labels["job"] == "shop" {
			counts[labels["__name__"].(string)] += count
		}
	}
	if len(counts) < 10 {
		t.Errorf("%s: only %d metrics", stage, len(counts))
	}
	for name, count := range counts {
		want(t, stage+": "+name, n.Count(fmt.Sprintf(`SELECT count(*) FROM metrics.%q WHERE job = 'shop' AND epoch_ms(_timestamp) <= %d AND (value IS NULL OR NOT isnan(value))`, name, int64(math.Round(until*1e3)))), count)
	}
	return samples
}

func same(t *testing.T, stage, call string, got, want any) {
	t.Helper()
	if reflect.DeepEqual(got, want) {
		return
	}
	text, err := url.QueryUnescape(call)
	must(t, err)
	g, err := json.Marshal(got)
	must(t, err)
	w, err := json.Marshal(want)
	must(t, err)
	at := 0
	for at < min(len(g), len(w)) && g[at] == w[at] {
		at++
	}
	cut := func(b []byte) string { return string(b[max(0, at-200):min(len(b), at+300)]) }
	t.Errorf("%s: %s\n the node answers\n  …%s\n Prometheus answers\n  …%s", stage, text, cut(g), cut(w))
}

// ask makes a call of Prometheus' HTTP API; the answer's lists of series and names are put into order.
func ask(t *testing.T, base, token, call string) any {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, base+call, nil)
	must(t, err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	var answer any
	if err := json.Unmarshal(body, &answer); err != nil {
		t.Fatalf("%s: %d %s", call, resp.StatusCode, body)
	}
	order(answer)
	return answer
}

// order sorts every list of objects by their JSON: neither product promises an order of series.
func order(v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			order(e)
		}
	case []any:
		objects := len(v) > 0
		for _, e := range v {
			order(e)
			_, ok := e.(map[string]any)
			objects = objects && ok
		}
		if objects {
			slices.SortFunc(v, func(a, b any) int { return bytes.Compare(text(a), text(b)) })
		}
	}
}

func text(v any) []byte {
	b, _ := json.Marshal(v) // decoded JSON always encodes
	return b
}
