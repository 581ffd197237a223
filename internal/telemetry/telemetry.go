// Package telemetry is the node's own: the logger, and a collector that writes the node's logs and metrics into the reserved _millstream streams.
package telemetry

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millstream/millstream"
)

// NewLogger makes the process's logger and the collector that copies what it logs. Level is debug, info, warn or error; format is text or json.
func NewLogger(w io.Writer, level, format string) (*slog.Logger, *Collector) {
	var l slog.Level
	_ = l.UnmarshalText([]byte(level)) // the configuration has checked it
	opts := &slog.HandlerOptions{Level: l}
	var h slog.Handler = slog.NewTextHandler(w, opts)
	if format == "json" {
		h = slog.NewJSONHandler(w, opts)
	}
	c := &Collector{}
	return slog.New(&handler{Handler: h, c: c}), c
}

// appender is where own telemetry goes: the node's writer.
type appender interface {
	Append(ctx context.Context, batches ...*millstream.Batch) error
}

// maxQueued bounds the log records that wait for the next write; more are dropped and counted, since telemetry must never hold up the node.
const maxQueued = 10_000

// Interval is how often own telemetry is written.
const Interval = 15 * time.Second

// Collector queues copies of log records and writes them, with a reading of every metric, as ordinary records. What the writing itself logs is not collected,
// so that a failing write cannot feed itself.
type Collector struct {
	mu      sync.Mutex
	on      bool
	queue   []entry
	dropped atomic.Int64
}

type entry struct {
	at     time.Time
	level  slog.Level
	msg    string
	fields []slog.Attr
}

// Config is what the collector needs to write.
type Config struct {
	Node     millstream.NodeID
	To       appender
	Gatherer prometheus.Gatherer
	// Org names the organization that owns the node's telemetry; ok is false while there is none yet, before first-run setup.
	Org      func(ctx context.Context) (org millstream.OrgID, ok bool)
	Log      *slog.Logger
	Interval time.Duration
}

// Run writes until ctx ends, then writes what is left.
func (c *Collector) Run(ctx context.Context, cfg Config, ready func()) error {
	c.setOn(true)
	defer c.setOn(false)
	ready()
	tick := time.NewTicker(cfg.Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			c.write(last, cfg)
			return nil
		case <-tick.C:
			c.write(ctx, cfg)
		}
	}
}

func (c *Collector) setOn(on bool) {
	c.mu.Lock()
	c.on = on
	c.mu.Unlock()
}

func (c *Collector) write(ctx context.Context, cfg Config) {
	org, ok := cfg.Org(ctx)
	if !ok {
		return
	}
	c.mu.Lock()
	entries := c.queue
	c.queue = nil
	c.mu.Unlock()
	var batches []*millstream.Batch
	if b := logBatch(cfg.Node, entries); b != nil {
		b.Org = org
		batches = append(batches, b)
	}
	if b := metricBatch(cfg.Node, cfg.Gatherer, time.Now()); b != nil {
		b.Org = org
		batches = append(batches, b)
	}
	if len(batches) == 0 {
		return
	}
	if err := cfg.To.Append(ctx, batches...); err != nil && ctx.Err() == nil {
		c.dropped.Add(int64(len(entries)))
		cfg.Log.Warn("own telemetry could not be written", own, true, "records", len(entries), "error", err)
	}
}

// own marks a log record as one of the collector's, which is not collected.
const own = "self_telemetry"

// Dropped is the number of log records that were not written.
func (c *Collector) Dropped() int64 { return c.dropped.Load() }

func (c *Collector) add(e entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !c.on && len(c.queue) >= maxQueued/10: // not started, or switched off: keep the start of the log only
	case len(c.queue) >= maxQueued:
		c.dropped.Add(1)
	default:
		c.queue = append(c.queue, e)
	}
}

// handler passes records on to the wrapped handler and copies them to the collector.
type handler struct {
	slog.Handler
	c      *Collector
	group  string
	fields []slog.Attr
}

func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	e := entry{at: r.Time, level: r.Level, msg: r.Message, fields: h.fields[:len(h.fields):len(h.fields)]}
	mine := false
	r.Attrs(func(a slog.Attr) bool {
		mine = mine || a.Key == own
		e.fields = append(e.fields, h.named(a))
		return true
	})
	if !mine {
		h.c.add(e)
	}
	return h.Handler.Handle(ctx, r)
}

func (h *handler) named(a slog.Attr) slog.Attr {
	a.Key = h.group + a.Key
	return a
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	out := *h
	out.Handler = h.Handler.WithAttrs(attrs)
	out.fields = h.fields[:len(h.fields):len(h.fields)]
	for _, a := range attrs {
		out.fields = append(out.fields, h.named(a))
	}
	return &out
}

func (h *handler) WithGroup(name string) slog.Handler {
	out := *h
	out.Handler = h.Handler.WithGroup(name)
	out.group = h.group + name + "."
	return &out
}
