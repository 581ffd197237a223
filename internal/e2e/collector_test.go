package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

// TestCollector: logs that an OpenTelemetry Collector tails from a file, and logs, traces and metrics that an application sends to it, arrive in the node, all and
// once. The requests of a real Collector are replayed; with MS_E2E=full a real Collector sends, also while the node is down.
func TestCollector(t *testing.T) {
	t.Run("recorded", func(t *testing.T) {
		mstest.EachShape(t, func(t *testing.T, start mstest.Starter) {
			n := start(t)
			r := load(t, "collector")
			r.replay(t, n)
			stages(t, n, func(stage string) { collected(t, n, stage) })
		})
	})
	if mstest.Full() {
		t.Run("real", realCollector)
	}
}

// What a session sends before the node is killed for the first time.
const (
	tailed  = 500
	emitted = 300
	traced  = 100
)

// collected checks that all of a session is there once.
func collected(t *testing.T, n *mstest.Node, stage string) {
	t.Helper()
	want(t, stage+": lines", n.Count(`SELECT count(*) FROM "default" WHERE "log.file.name" = 'app.log'`), tailed)
	want(t, stage+": lines, distinct", n.Count(`SELECT count(DISTINCT "order") FROM "default" WHERE "log.file.name" = 'app.log' AND match_all('shipped')`), tailed)
	want(t, stage+": lines by level", n.Count(`SELECT count(*) FROM "default" WHERE "log.file.name" = 'app.log' AND level = 'error' AND severity_number = 17`), tailed/10)
	want(t, stage+": lines by time", n.Count(`SELECT count(*) FROM "default" WHERE "log.file.name" = 'app.log' AND _timestamp >= TIMESTAMP '2026-03-04 05:06:00' AND _timestamp < TIMESTAMP '2026-03-04 05:06:10'`), 10)
	want(t, stage+": records", n.Count(`SELECT count(*) FROM "default" WHERE service = 'shop'`), emitted)
	want(t, stage+": records, distinct", n.Count(`SELECT count(DISTINCT "order.id") FROM "default" WHERE service = 'shop' AND level = 'warn'`), emitted)
	want(t, stage+": spans", n.Count(`SELECT count(*) FROM traces."default" WHERE service = 'shop'`), traced)
	want(t, stage+": traces", n.Count(`SELECT count(DISTINCT trace_id) FROM traces."default"`), traced)
	want(t, stage+": counter", n.Count(`SELECT CAST(max(value) AS BIGINT) FROM metrics.orders WHERE service = 'shop'`), traced)
}

const collectorConfig = `receivers:
  file_log:
    include: [%[1]s/app.log]
    start_at: beginning
    poll_interval: 50ms
    retry_on_failure: { enabled: true, initial_interval: 100ms, max_interval: 1s, max_elapsed_time: 0 }
    operators:
      - type: json_parser
        timestamp: { parse_from: attributes.time, layout_type: gotime, layout: "2006-01-02T15:04:05.999999999Z07:00" }
        severity: { parse_from: attributes.severity }
  otlp:
    protocols:
      http: { endpoint: %[2]s }
exporters:
  otlp_http:
    endpoint: %[3]s
    headers: { Authorization: "Bearer ${env:MS_TOKEN}" }
    retry_on_failure: { enabled: true, initial_interval: 100ms, max_interval: 1s, max_elapsed_time: 0 }
service:
  telemetry: { metrics: { level: none } }
  pipelines:
    logs: { receivers: [file_log, otlp], exporters: [otlp_http] }
    traces: { receivers: [otlp], exporters: [otlp_http] }
    metrics: { receivers: [otlp], exporters: [otlp_http] }
`

func realCollector(t *testing.T) {
	binary := mstest.Tool(t, "otelcol")
	n := mstest.Start(t)
	to, rec := n.URL, (*relay)(nil)
	if *update {
		rec = startRelay(t, n)
		to = rec.URL
	}
	dir, otlp := t.TempDir(), mstest.FreeAddr(t)
	config := filepath.Join(dir, "collector.yaml")
	must(t, os.WriteFile(config, fmt.Appendf(nil, collectorConfig, dir, otlp, to), 0o600))
	t.Setenv("MS_TOKEN", n.Token)
	mstest.StartPeer(t, binary, "--config", "file:"+config)
	mstest.WaitFor(t, time.Minute, "the Collector listens", func() bool { return listens(otlp) })

	f, err := os.Create(filepath.Join(dir, "app.log"))
	must(t, err)
	defer func() { _ = f.Close() }()
	line(t, f, 0, tailed)
	app := instrument(t, otlp)
	app.send(t, 0, emitted, traced)
	app.flush(t)
	mstest.WaitFor(t, time.Minute, "all arrives", func() bool {
		return countOr0(n, `SELECT count(*) FROM "default"`) >= tailed+emitted && countOr0(n, `SELECT count(*) FROM traces."default"`) >= traced &&
			countOr0(n, "SELECT count(*) FROM metrics.orders") > 0
	})
	collected(t, n, "before a flush")
	if *update {
		recording{Sender: "OpenTelemetry Collector 0.165, filelog and otlp to otlphttp", Requests: rec.requests()}.save(t, "collector")
		return
	}
	n.Flush()
	collected(t, n, "after a flush")
	outage(t, n, f, app)
}

// countOr0 is the single number of an answer, and 0 while the stream does not exist.
func countOr0(n *mstest.Node, statement string) int64 {
	a, err := n.TrySQL(statement)
	if err != nil || len(a.Rows) != 1 {
		return 0
	}
	v, _ := a.Rows[0][0].(json.Number)
	count, _ := v.Int64()
	return count
}

// outage kills the node under load and starts it again after a while: the Collector repeats what was not acknowledged, so that nothing is missing; a request that was
// stored just before its reply was lost may be there twice.
func outage(t *testing.T, n *mstest.Node, f *os.File, app *application) {
	t.Helper()
	const rounds, lines, records = 30, 50, 10
	for i := range rounds {
		line(t, f, tailed+i*lines, lines)
		app.send(t, emitted+i*records, records, 0)
		app.flush(t)
		switch i {
		case rounds / 3:
			n.Kill()
		case rounds * 2 / 3:
			t.Logf("restart after kill -9: ready in %s", n.Run())
		}
		time.Sleep(50 * time.Millisecond)
	}
	lineCount := func() int64 {
		return n.Count(`SELECT count(DISTINCT "order") FROM "default" WHERE "log.file.name" = 'app.log'`)
	}
	recordCount := func() int64 {
		return n.Count(`SELECT count(DISTINCT "order.id") FROM "default" WHERE service = 'shop'`)
	}
	mstest.WaitFor(t, time.Minute, "what was sent during the outage arrives", func() bool {
		return lineCount() >= tailed+rounds*lines && recordCount() >= emitted+rounds*records
	})
	stages(t, n, func(stage string) {
		want(t, stage+": lines", lineCount(), tailed+rounds*lines)
		want(t, stage+": records", recordCount(), emitted+rounds*records)
	})
	t.Logf("%d rows for %d records sent", n.Count(`SELECT count(*) FROM "default"`), tailed+rounds*lines+emitted+rounds*records)
}

// line appends numbered lines to the tailed file, a second apart in their own time; each tenth is an error.
func line(t *testing.T, f *os.File, from, count int) {
	t.Helper()
	var b strings.Builder
	began := time.Date(2026, 3, 4, 5, 6, 0, 0, time.UTC)
	for i := from; i < from+count; i++ {
		severity := "info"
		if i%10 == 0 {
			severity = "error"
		}
		fmt.Fprintf(&b, `{"time":%q,"severity":%q,"msg":"order %d shipped","order":%d}`+"\n", began.Add(time.Duration(i)*time.Second).Format(time.RFC3339Nano), severity, i, i)
	}
	_, err := f.WriteString(b.String())
	must(t, err)
}

// application is a program with the OpenTelemetry SDK that sends to the Collector.
type application struct {
	logs    *sdklog.LoggerProvider
	traces  *sdktrace.TracerProvider
	metrics *metric.MeterProvider
}

func instrument(t *testing.T, addr string) *application {
	t.Helper()
	ctx := context.Background()
	res := resource.NewSchemaless(attribute.String("service.name", "shop"))
	lx, err := otlploghttp.New(ctx, otlploghttp.WithEndpoint(addr), otlploghttp.WithInsecure())
	must(t, err)
	tx, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpoint(addr), otlptracehttp.WithInsecure())
	must(t, err)
	mx, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpoint(addr), otlpmetrichttp.WithInsecure())
	must(t, err)
	a := &application{
		logs:    sdklog.NewLoggerProvider(sdklog.WithProcessor(sdklog.NewBatchProcessor(lx)), sdklog.WithResource(res)),
		traces:  sdktrace.NewTracerProvider(sdktrace.WithBatcher(tx), sdktrace.WithResource(res)),
		metrics: metric.NewMeterProvider(metric.WithReader(metric.NewPeriodicReader(mx, metric.WithInterval(time.Hour))), metric.WithResource(res)),
	}
	t.Cleanup(func() {
		_ = a.logs.Shutdown(ctx)
		_ = a.traces.Shutdown(ctx)
		_ = a.metrics.Shutdown(ctx)
	})
	return a
}

// send emits numbered log records, and spans that are each counted.
func (a *application) send(t *testing.T, from, logs, spans int) {
	t.Helper()
	ctx := context.Background()
	for i := from; i < from+logs; i++ {
		var r log.Record
		r.SetTimestamp(time.Now())
		r.SetBody(attribute.StringValue(fmt.Sprintf("order %d placed", i)))
		r.SetSeverity(log.SeverityWarn)
		r.AddAttributes(attribute.Int("order.id", i))
		a.logs.Logger("e2e").Emit(ctx, r)
	}
	if spans == 0 {
		return
	}
	counter, err := a.metrics.Meter("e2e").Int64Counter("orders")
	must(t, err)
	for range spans {
		_, span := a.traces.Tracer("e2e").Start(ctx, "ship")
		span.End()
		counter.Add(ctx, 1)
	}
}

func (a *application) flush(t *testing.T) {
	t.Helper()
	ctx := context.Background()
	must(t, a.logs.ForceFlush(ctx))
	must(t, a.traces.ForceFlush(ctx))
	must(t, a.metrics.ForceFlush(ctx))
}

func listens(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err == nil {
		_ = c.Close()
	}
	return err == nil
}
