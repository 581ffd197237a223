// Package promql answers PromQL and the Prometheus HTTP API's questions with the Prometheus engine over metric sources. It knows neither HTTP nor where
// sources come from: the caller opens a snapshot for a time range, routes requests, and writes what a Response encodes.
package promql

import (
	"context"
	"log/slog"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/segment/metrics"
	"github.com/prometheus/client_golang/prometheus"
	prom "github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

// Snapshot is what one query reads.
type Snapshot struct {
	Sources  []metrics.Source // in the order in which they were written: of two samples of one series and time the later source's counts
	Warnings []string         // why the answer is partial, if it is
	Close    func()           // nil, or called when the sources are no longer used
}

// Open gives the sources with samples of [first, last] ms, both included, of the organization that asks. It is called once per query.
type Open func(ctx context.Context, first, last int64) (Snapshot, error)

// Metadata gives what is known of the metric names of the organization that asks, and why some may be missing.
type Metadata func(ctx context.Context) (all []millstream.Metadata, reasons []string, err error)

// Options of an API. The zero value means the defaults.
type Options struct {
	Lookback   time.Duration // how old a sample may be to count as current; 5 min
	Timeout    time.Duration // of a query; 2 min
	MaxSamples int           // samples of a query in memory at once; 50 M
	Log        *slog.Logger
	Registerer prometheus.Registerer
	Now        func() time.Time
}

// API has a method per endpoint of the Prometheus HTTP API. It is safe for concurrent use.
type API struct {
	engine  *prom.Engine
	parser  parser.Parser
	timeout time.Duration
	now     func() time.Time
}

// New returns an API. The engine is Prometheus' with its defaults; experimental functions are allowed, since they are what dashboards of newer Prometheus
// servers use and they change no other query's answer.
func New(o Options) *API {
	if o.Lookback == 0 {
		o.Lookback = 5 * time.Minute
	}
	if o.Timeout == 0 {
		o.Timeout = 2 * time.Minute
	}
	if o.MaxSamples == 0 {
		o.MaxSamples = 50_000_000
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	p := parser.NewParser(parser.Options{EnableExperimentalFunctions: true})
	return &API{parser: p, timeout: o.Timeout, now: o.Now, engine: prom.NewEngine(prom.EngineOpts{
		Logger:                   o.Log,
		Reg:                      o.Registerer,
		MaxSamples:               o.MaxSamples,
		Timeout:                  o.Timeout,
		LookbackDelta:            o.Lookback,
		NoStepSubqueryIntervalFn: func(int64) int64 { return defaultStep.Milliseconds() },
		EnableAtModifier:         true,
		EnableNegativeOffset:     true,
		Parser:                   p,
	})}
}

// Close ends the engine.
func (a *API) Close() error { return a.engine.Close() }
