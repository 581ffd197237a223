// Package e2e sends telemetry with real senders to real nodes, one alone and a cluster of split roles, and reads it back: before a flush, after it, and after kill -9
// and a restart.
package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/prompb"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/log"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/millstream/millstream/internal/mstest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	mstest.Cleanup()
	os.Exit(code)
}

// stages runs a check on unflushed rows, on segments, and on what a killed node has after its restart.
func stages(t *testing.T, n *mstest.Node, check func(stage string)) {
	t.Helper()
	check("before a flush")
	n.Kill()
	took := n.Run()
	t.Logf("restart after kill -9: ready in %s", took)
	check("after kill -9 and replay")
	n.Flush()
	check("after a flush")
	n.Kill()
	n.Run()
	check("after a flush and kill -9")
}

func TestOpenTelemetrySDK(t *testing.T) { mstest.EachShape(t, testOpenTelemetrySDK) }

func testOpenTelemetrySDK(t *testing.T, start mstest.Starter) {
	n := start(t)
	ctx := context.Background()
	u, err := url.Parse(n.URL)
	must(t, err)
	headers := map[string]string{"Authorization": "Bearer " + n.Token}
	res := resource.NewSchemaless(attribute.String("service.name", "shop"), attribute.String("host.name", "h1"))

	const logs, spans, adds = 500, 300, 40
	lx, err := otlploghttp.New(ctx, otlploghttp.WithEndpoint(u.Host), otlploghttp.WithInsecure(), otlploghttp.WithHeaders(headers), otlploghttp.WithCompression(otlploghttp.GzipCompression))
	must(t, err)
	lp := sdklog.NewLoggerProvider(sdklog.WithProcessor(sdklog.NewBatchProcessor(lx)), sdklog.WithResource(res))
	for i := range logs {
		var r log.Record
		r.SetTimestamp(time.Now())
		r.SetBody(attribute.StringValue(fmt.Sprintf("order %d placed", i)))
		r.SetSeverity(log.SeverityWarn)
		r.AddAttributes(attribute.Int("order.id", i), attribute.Map("cart", attribute.Int("items", i%5)))
		lp.Logger("e2e").Emit(ctx, r)
		if i%100 == 99 {
			must(t, lp.ForceFlush(ctx))
		}
	}
	must(t, lp.Shutdown(ctx))

	tx, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpoint(u.Host), otlptracehttp.WithInsecure(), otlptracehttp.WithHeaders(headers))
	must(t, err)
	tp := sdktrace.NewTracerProvider(sdktrace.WithBatcher(tx), sdktrace.WithResource(res))
	var last string
	for i := range spans {
		sctx, parent := tp.Tracer("e2e").Start(ctx, "parent")
		_, child := tp.Tracer("e2e").Start(sctx, "child")
		child.AddEvent("step")
		child.SetAttributes(attribute.Int("i", i))
		child.End()
		parent.End()
		last = parent.SpanContext().TraceID().String()
	}
	must(t, tp.Shutdown(ctx))

	mx, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpoint(u.Host), otlpmetrichttp.WithInsecure(), otlpmetrichttp.WithHeaders(headers))
	must(t, err)
	mp := metric.NewMeterProvider(metric.WithReader(metric.NewPeriodicReader(mx)), metric.WithResource(res))
	c, err := mp.Meter("e2e").Int64Counter("orders")
	must(t, err)
	h, err := mp.Meter("e2e").Float64Histogram("latency")
	must(t, err)
	for i := range adds {
		c.Add(ctx, 2)
		h.Record(ctx, float64(i))
	}
	must(t, mp.Shutdown(ctx))

	stages(t, n, func(stage string) {
		want(t, stage, n.Count("SELECT count(*) FROM \"default\""), logs)
		want(t, stage, n.Count(`SELECT count(DISTINCT "order.id") FROM "default" WHERE service = 'shop' AND level = 'warn'`), logs)
		want(t, stage, n.Count(`SELECT count(*) FROM "default" WHERE match_all('order placed')`), logs)
		want(t, stage, n.Count(`SELECT sum("cart.items") FROM "default"`), logs*2)
		want(t, stage, n.Count("SELECT count(*) FROM traces.\"default\""), 2*spans)
		want(t, stage, n.Count("SELECT count(DISTINCT trace_id) FROM traces.\"default\" WHERE name = 'parent'"), spans)
		want(t, stage, n.Count("SELECT CAST(max(value) AS BIGINT) FROM metrics.orders"), 2*adds)
		want(t, stage, n.Count("SELECT CAST(max(value) AS BIGINT) FROM metrics.latency_count WHERE service = 'shop'"), adds)
		var trace struct{ Spans []map[string]any }
		n.JSON("GET", "/api/v1/query/traces/"+last, n.Token, nil, &trace)
		want(t, stage, int64(len(trace.Spans)), 2)
		want(t, stage, int64(promValue(t, n, `max(orders{service="shop"})`)), 2*adds)
	})
}

func TestOtherSenders(t *testing.T) { mstest.EachShape(t, testOtherSenders) }

func testOtherSenders(t *testing.T, start mstest.Starter) {
	n := start(t)
	const rows = 400
	now := time.Now()
	var nd, bulk bytes.Buffer
	var values []string
	for i := range rows {
		at := now.Add(time.Duration(i) * time.Millisecond)
		fmt.Fprintf(&nd, `{"_timestamp":%q,"message":"line %d","n":%d}`+"\n", at.Format(time.RFC3339Nano), i, i)
		fmt.Fprintf(&bulk, `{"create":{"_index":"app-%s"}}`+"\n"+`{"@timestamp":%q,"message":"doc %d","n":%d}`+"\n", now.Format("2006.01.02"), at.Format(time.RFC3339Nano), i, i)
		values = append(values, fmt.Sprintf(`["%d","loki %d"]`, at.UnixNano(), i))
	}
	post := func(path, contentType string, body []byte, headers ...string) []byte {
		t.Helper()
		code, reply := n.Do("POST", path, n.Token, contentType, body, headers...)
		if code/100 != 2 {
			t.Fatalf("%s: %d %s", path, code, reply)
		}
		return reply
	}
	post("/api/v1/intake/json/nd", "application/x-ndjson", nd.Bytes())
	if reply := post("/api/v1/intake/elastic/_bulk", "application/x-ndjson", bulk.Bytes()); !bytes.Contains(reply, []byte(`"errors":false`)) {
		t.Fatalf("bulk: %s", reply)
	}
	post("/api/v1/intake/loki/api/v1/push", "application/json", []byte(`{"streams":[{"stream":{"app":"shop"},"values":[`+strings.Join(values, ",")+`]}]}`), "Stream-Name: lk")
	wr := &prompb.WriteRequest{}
	for i := range rows {
		wr.Timeseries = append(wr.Timeseries, prompb.TimeSeries{Labels: []prompb.Label{{Name: "__name__", Value: "temp"}, {Name: "i", Value: fmt.Sprint(i)}}, Samples: []prompb.Sample{{Value: float64(i), Timestamp: now.UnixMilli()}}})
	}
	body, err := wr.Marshal()
	must(t, err)
	post("/api/v1/intake/prometheus/api/v1/write", "application/x-protobuf", snappy.Encode(nil, body), "Content-Encoding: snappy")

	stages(t, n, func(stage string) {
		for stream, like := range map[string]string{"nd": "line %", "app": "doc %", "lk": "loki %"} {
			want(t, stage+" "+stream, n.Count("SELECT count(*) FROM "+stream+" WHERE message LIKE '"+like+"'"), rows)
		}
		want(t, stage, n.Count("SELECT count(DISTINCT n) FROM nd"), rows)
		want(t, stage, n.Count("SELECT CAST(sum(n) AS BIGINT) FROM app"), rows*(rows-1)/2)
		want(t, stage, n.Count("SELECT count(*) FROM metrics.temp"), rows)
		want(t, stage, int64(promValue(t, n, "sum(temp)")), rows*(rows-1)/2)
	})
}

func TestIdempotencyKey(t *testing.T) { mstest.EachShape(t, testIdempotencyKey) }

func testIdempotencyKey(t *testing.T, start mstest.Starter) {
	n := start(t)
	send := func(body string) (int, string) {
		req, err := http.NewRequest(http.MethodPost, n.URL+"/api/v1/intake/json/once", strings.NewReader(body))
		must(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+n.Token)
		req.Header.Set("Idempotency-Key", "k1")
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		defer func() { _ = resp.Body.Close() }()
		return resp.StatusCode, resp.Header.Get("Idempotency-Replayed")
	}
	if code, replayed := send(`{"message":"a"}`); code != 200 || replayed != "" {
		t.Fatalf("first: %d %q", code, replayed)
	}
	if code, replayed := send(`{"message":"a"}`); code != 200 || replayed != "true" {
		t.Errorf("repeat: %d %q", code, replayed)
	}
	n.Flush()
	n.Kill()
	n.Run()
	if code, replayed := send(`{"message":"a"}`); code != 200 || replayed != "true" {
		t.Errorf("repeat after a restart: %d %q", code, replayed)
	}
	if code, _ := send(`{"message":"b"}`); code != 409 {
		t.Errorf("another body: %d", code)
	}
	want(t, "once", n.Count("SELECT count(*) FROM once"), 1)
}

// promValue is the value of an instant query that gives one sample.
func promValue(t *testing.T, n *mstest.Node, expr string) float64 {
	t.Helper()
	var out struct {
		Data struct{ Result []struct{ Value [2]any } }
	}
	n.JSON("GET", "/api/v1/query/prometheus/api/v1/query?query="+url.QueryEscape(expr), n.Token, nil, &out)
	if len(out.Data.Result) != 1 {
		t.Errorf("%s: %d samples", expr, len(out.Data.Result))
		return math.NaN()
	}
	var v float64
	must(t, json.Unmarshal([]byte(out.Data.Result[0].Value[1].(string)), &v))
	return v
}

func want(t *testing.T, what string, got, want int64) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %d, want %d", what, got, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
