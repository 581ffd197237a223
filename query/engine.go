package query

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest"
	"github.com/millstream/millstream/query/cache"
	"github.com/millstream/millstream/query/engine"
	"github.com/millstream/millstream/query/scan"
	"github.com/millstream/millstream/query/sql"
	"github.com/millstream/millstream/store"
)

// catalog is what the engine reads of the metadata store; *store.Store fits.
type catalog interface {
	Snapshot(ctx context.Context, org millstream.OrgID, keys []millstream.StreamKey, r millstream.TimeRange) (store.Snapshot, error)
	Streams(ctx context.Context, org millstream.OrgID, sig millstream.Signal) ([]store.StreamSummary, error)
}

// unflushed gives the rows that are not in the catalog yet; *ingest.Mirror fits.
type unflushed interface {
	Hold() (release func())
	Unflushed(ctx context.Context, wals []store.WALState, streams []millstream.StreamID, add func(stream int, u ingest.Unflushed)) (missing []ingest.Missing, release func(), err error)
	Follow(ctx context.Context, stream millstream.StreamID, emit func(ingest.Followed) error) error
}

// Limits bound queries; zero values mean no limit unless said otherwise.
type Limits struct {
	Timeout       time.Duration // of a query; 0: a minute
	MaxScanRows   int64         // rows after pruning; a query over it is refused with its estimate
	MaxResultRows int           // rows of an answer, which is cut there with a warning; 0: 100,000
	AsyncRows     int64         // estimated rows from which on a query counts as long
	Memory        int64         // bytes of a query's state in kernels; 0: scan.DefaultMemory
	TempSize      int64         // bytes that one query may write to the temporary directory; 0: 8 GiB
	MaxConcurrent int           // queries of one organization at a time; 0: twice the CPUs
	Queue         int           // of one organization that may wait; 0: 64
	LeafQueue     int           // parts of other nodes' queries of one organization that may wait; 0: 1,024
}

func (l Limits) withDefaults() Limits {
	set := func(v *int, def int) {
		if *v <= 0 {
			*v = def
		}
	}
	set(&l.MaxResultRows, 100_000)
	set(&l.MaxConcurrent, 2*runtime.GOMAXPROCS(0))
	set(&l.Queue, 64)
	set(&l.LeafQueue, 1024)
	if l.Timeout <= 0 {
		l.Timeout = time.Minute
	}
	if l.TempSize <= 0 {
		l.TempSize = 8 << 30
	}
	return l
}

// Config is what an Engine works with. Catalog, Unflushed, Cache, Gate and SQL must be set.
type Config struct {
	Catalog   catalog
	Unflushed unflushed
	Cache     *cache.Cache // its Open must be of SegmentOpener
	Gate      *sql.Gate
	SQL       sqlEngine
	TempDir   string // private to this process; emptied at start

	Owners *Owners // of segments in a cluster; nil: this node reads all

	Pins     pins          // of the snapshots of long queries; nil: there are none
	PinAfter time.Duration // how long a query must run to be one; 0: 5 min

	Limits     Limits
	Workers    int // sources that one query scans at a time; 0: one per CPU
	Log        *slog.Logger
	Registerer prometheus.Registerer
	Now        func() time.Time
}

// Engine answers queries. It is safe for concurrent use.
type Engine struct {
	cfg     Config
	log     *slog.Logger
	metrics *engineMetrics
	running *running
	gate    *admission
	leaves  *admission // of parts of other nodes' queries; apart from gate, so that nodes that ask each other do not wait for each other
	tails   *admission
	lists   *metricLists
	kept    *summaries // of parts of trace segments
}

// New makes an engine.
func New(cfg Config) (*Engine, error) {
	cfg.Limits = cfg.Limits.withDefaults()
	if cfg.Workers <= 0 {
		cfg.Workers = runtime.GOMAXPROCS(0)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.PinAfter <= 0 {
		cfg.PinAfter = defaultPinAfter
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if err := emptyDir(cfg.TempDir); err != nil {
		return nil, millstream.Wrap(millstream.Unavailable, err, "cannot use the temporary directory of queries %s", cfg.TempDir)
	}
	return &Engine{
		cfg: cfg, log: cfg.Log.With("component", "query"), metrics: newMetrics(cfg.Registerer),
		running: newRunning(cfg.Now), gate: newAdmission(cfg.Limits.MaxConcurrent, cfg.Limits.Queue), tails: newAdmission(maxTails, 0),
		leaves: newAdmission(cfg.Limits.MaxConcurrent, cfg.Limits.LeafQueue),
		lists:  &metricLists{orgs: map[millstream.OrgID]*metricList{}},
		kept:   newSummaries(maxSummaries),
	}, nil
}

// Causes by which a query's context ends.
var (
	errTimeout  = errors.New("query timeout")
	errCanceled = errors.New("query canceled by a user")
)

// do runs one query under the engine's limits: admission, time, the running list, and up to three snapshots should one turn out stale.
func (e *Engine) do(ctx context.Context, req Request, f func(ctx context.Context, q *task) error) (*Answer, error) {
	began := e.cfg.Now()
	ctx, q, err := e.running.start(ctx, req)
	if err != nil {
		return nil, err
	}
	defer e.running.end(q)
	ctx, cancel := context.WithTimeoutCause(ctx, e.cfg.Limits.Timeout, errTimeout)
	defer cancel()
	release, err := e.gate.enter(ctx, req.Org)
	if err == nil {
		defer release()
		err = e.attempts(ctx, q, f)
	}
	err = q.stopped(ctx, e.explain(ctx, err))
	took := e.cfg.Now().Sub(began)
	e.metrics.observe(req.Language, took, q.answer, err)
	if err != nil {
		return nil, err
	}
	q.finish(took)
	if e.cfg.Owners != nil {
		if parts := q.counts.parts(e.cfg.Owners.Self); len(parts) > 1 {
			q.answer.Stats.Parts, q.answer.Stats.Nodes = parts, len(parts)
		}
	}
	return &q.answer, nil
}

// maxSnapshots is how often a query is begun anew because its snapshot went stale.
const maxSnapshots = 3

func (e *Engine) attempts(ctx context.Context, q *task, f func(ctx context.Context, q *task) error) error {
	for try := 1; ; try++ {
		q.reset()
		err := f(ctx, q)
		if !isStale(err) || ctx.Err() != nil {
			return err
		}
		if q.emitted {
			return tooOld(err)
		}
		if try == maxSnapshots {
			return millstream.Wrap(millstream.Unavailable, err, "segments that the query was reading were merged and deleted, or rows published, %d times since it began: run the query again", try)
		}
	}
}

// isStale says whether a new snapshot may help: rows were published and dropped from the buffer meanwhile, or a segment was merged and deleted.
func isStale(err error) bool {
	return errors.Is(err, ingest.ErrStale) || errors.Is(err, errGone)
}

// tooOld is the error of a query that cannot begin anew with a newer snapshot: it outlived the grace after which what was merged away is deleted.
func tooOld(err error) error {
	return millstream.Wrap(millstream.Unavailable, err, "the query's snapshot is too old: segments that it was reading have been merged and deleted since it began; run the query again")
}

// explain gives the end of a query's context its reason.
func (e *Engine) explain(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errTimeout):
		return millstream.Wrap(millstream.Timeout, err, "the query took longer than %s: narrow its time range or filter more", e.cfg.Limits.Timeout)
	case errors.Is(cause, errCanceled):
		return millstream.Wrap(millstream.Canceled, err, "the query was canceled")
	}
	return err
}

// Busy is how many queries run now, of all organizations.
func (e *Engine) Busy() int { return e.running.count() }

// Running lists the queries of an organization that have not ended, oldest first.
func (e *Engine) Running(org millstream.OrgID) []Running { return e.running.list(org) }

// Progress is what a running query of an organization has done so far; false if it is not running.
func (e *Engine) Progress(org millstream.OrgID, id string) (Progress, bool) {
	return e.running.progress(org, id)
}

// Cancel ends a running query of an organization, without an answer; an unknown id is NotFound.
func (e *Engine) Cancel(org millstream.OrgID, id string) error {
	return e.running.cancel(org, id, errCanceled)
}

// Stop ends a running query of an organization with the rows that are ready: its answer is then partial. An unknown id is NotFound.
func (e *Engine) Stop(org millstream.OrgID, id string) error {
	return e.running.cancel(org, id, scan.ErrStopped)
}

// stopped forgives the error of a query that a user stopped, and notes that its answer is not the whole.
func (t *task) stopped(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), scan.ErrStopped) {
		t.answer.Stopped, err = true, nil
	}
	if t.answer.Stopped {
		t.partial("the query was stopped before it had read everything")
	}
	return err
}

var (
	_ catalog   = (*store.Store)(nil)
	_ unflushed = (*ingest.Mirror)(nil)
	_ pins      = (*store.Store)(nil)
	_ sqlEngine = (*engine.Pool)(nil)
)
