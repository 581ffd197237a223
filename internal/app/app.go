// Package app is the composition of a node: which parts it has, and in which order they start and stop. Nothing here is global, so a process may run many nodes.
package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/api"
	"github.com/millstream/millstream/blob"
	"github.com/millstream/millstream/cluster"
	"github.com/millstream/millstream/compactor"
	"github.com/millstream/millstream/ingest"
	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/internal/config"
	"github.com/millstream/millstream/internal/node"
	"github.com/millstream/millstream/internal/telemetry"
	"github.com/millstream/millstream/query"
	"github.com/millstream/millstream/query/cache"
	"github.com/millstream/millstream/query/engine"
	"github.com/millstream/millstream/query/warm"
	"github.com/millstream/millstream/rpc"
	"github.com/millstream/millstream/store"
)

// Options are what a node is told beside its configuration.
type Options struct {
	Version  string
	Settings []config.Effective // for the page of the configuration
	Stderr   io.Writer          // where the log goes
	Pace     Pace
	MilliCPU int              // the node's weight as a querier; 0: what the process has
	Now      func() time.Time // the node's own clock; nil: time.Now
}

// Pace are intervals that a test sets; zeros are those of the configuration.
type Pace struct {
	Heartbeat, PeerTimeout, View, Flush time.Duration // View is how old a view of the members may get, 2 s
	Silence                             time.Duration // of an owner of segments before others are asked as well, query.DefaultSilence
}

// parts is everything a node is made of. Each is made by a function of parts.go; Run says in which order they run.
type parts struct {
	Options
	cfg        *config.Config
	drain      context.CancelFunc // ends the node in order
	log        *slog.Logger
	collector  *telemetry.Collector
	registry   *prometheus.Registry
	store      *store.Store
	auth       *auth.Service
	membership *cluster.Membership
	peers      *rpc.Clients // nil on a node that is alone
	rpc        *rpc.Server  // likewise
	load       load
	bucket     blob.Bucket          // nil on a node that keeps no segments
	writer     *ingest.Writer       // nil without the role intake
	mirror     *ingest.Mirror       // unflushed rows: the writer's, and other nodes'
	router     *ingest.Router       // nil without router and intake
	streams    *ingest.Streams      // of a router without intake; else nil
	limiter    *api.RateLimiter     // of a router in a cluster; else nil
	pool       *engine.Pool         // nil without the role querier
	engine     *query.Engine        // likewise
	segments   *cache.Cache         // nil without the roles querier and compactor
	warmer     *warm.Warmer         // nil without the role querier
	compactor  *compactor.Compactor // nil without the role compactor
	jobs       *cluster.Jobs
	api        *api.API
	handler    http.Handler
	began      time.Time
}

// Run runs a node until ctx ends or it is drained: the parts of its roles start in order, each after the previous is ready, and stop one at a time in reverse.
func Run(ctx context.Context, cfg *config.Config, o Options) (err error) {
	p := newParts(cfg, o)
	ctx, p.drain = context.WithCancel(ctx)
	defer p.drain()
	held, err := lock(cfg.Node.DataDir)
	if err != nil {
		return err
	}
	defer func() { err = joinClose(err, held.Close()) }()
	db, err := p.openDatabase(ctx)
	if err != nil {
		return err
	}
	defer func() { err = joinClose(err, db.close()) }()
	closeParts, err := p.build(ctx)
	if err != nil {
		return err
	}
	defer func() { err = joinClose(err, closeParts()) }()
	p.log.Info("starting", "node", cfg.Node.ID, "roles", cfg.Node.Roles, "version", o.Version)
	return node.Run(ctx, p.log, cfg.Grace(), p.services(db)...)
}

// services are what the node's roles take, in the order of their start. A drain is the list read backwards: the node's row goes first, while it still answers
// everything for as long as others may think that it is there; then requests finish, the intake publishes while its unflushed rows can still be read, and the
// database stops last.
func (p *parts) services(db *database) []node.Service {
	has := p.cfg.Node.Has
	var list []node.Service
	add := func(on bool, name string, run func(context.Context, func()) error) {
		if on {
			list = append(list, node.Service{Name: name, Run: run})
		}
	}
	add(true, "database", db.watch)
	add(true, "membership", p.membership.Run)
	add(p.rpc != nil, "rpc", p.serveRPC)
	add(p.writer != nil, "intake", p.writer.Run)
	add(p.router != nil && p.writer == nil, "pins", p.router.Run)
	add(true, "announcements", p.listen)
	add(p.warmer != nil, "warmer", p.warmer.Run)
	add(has(config.Compactor), "upkeep", p.upkeep)
	add(has(config.Compactor), "collector", p.collect)
	add(true, "jobs", p.jobs.Run)
	add(p.limiter != nil, "rates", p.limiter.Run)
	add(true, "telemetry", p.selfCollect)
	add(p.router != nil, "otlp", p.serveOTLP)
	add(true, "http", p.serveHTTP)
	return append(list, node.Service{Name: "announce", Run: p.announce, Grace: leaveTimeout + p.viewAge()}) // whatever the others have
}

// LimitHeap makes the garbage collector work harder rather than let the process's heap pass the node's share: of what the SQL engine may not have, a quarter is
// left to the database and the page cache. GOMEMLIMIT overrides it.
//
// It also keeps the collector from running for every few megabytes while the heap is small, as that of a router is, which holds nothing: a collection comes when
// the heap has doubled, and a block that nobody touches counts in the heap without taking memory.
func LimitHeap(cfg *config.Config) {
	heapFloor = make([]byte, heapFloorSize)
	if debug.SetMemoryLimit(-1) == math.MaxInt64 {
		debug.SetMemoryLimit(heapLimit(config.Memory(), cfg))
	}
}

// heapFloor is the untouched block. At 32 MiB a small heap is collected every 50 MB or so instead of every 10 to 20, and the process is that much larger.
var heapFloor []byte

const heapFloorSize = 32 << 20

func heapLimit(memory config.Size, cfg *config.Config) int64 {
	const least = 512 << 20 // beside the buffer of unflushed rows; with less the collector would hardly stop
	engine := cfg.Querier.MemoryLimit
	if !cfg.Node.Has(config.Querier) {
		engine = 0
	}
	return int64(max((memory-engine)/4*3, cfg.Intake.BufferTotal+least))
}

func newParts(cfg *config.Config, o Options) *parts {
	p := &parts{Options: o, cfg: cfg, began: time.Now(), registry: newRegistry()}
	if p.Now == nil {
		p.Now = time.Now
	}
	p.log, p.collector = telemetry.NewLogger(o.Stderr, cfg.Telemetry.LogLevel, cfg.Telemetry.LogFormat)
	return p
}

// WithStore calls f with the node's database, its schema brought up to date as every start does. A server of the node's own runs meanwhile: the node itself must
// be stopped.
func WithStore(ctx context.Context, cfg *config.Config, o Options, f func(*store.Store, *slog.Logger) error) (err error) {
	p := newParts(cfg, o)
	db, err := p.openDatabase(ctx)
	if err != nil {
		return err
	}
	defer func() { err = joinClose(err, db.close()) }()
	return f(p.store, p.log)
}

// leaveTimeout is longer than membership tries to delete the node's row.
const leaveTimeout = 6 * time.Second

// announce is the last to start: then the node is ready, and says how to use it. It is the first to stop: the row goes, and the node goes on as before until no
// other can have a view with it.
func (p *parts) announce(ctx context.Context, ready func()) error {
	err := p.membership.Announce(ctx, func() {
		p.log.Info("ready", "took", time.Since(p.began).Round(time.Millisecond), "version", p.Version)
		ready()
	})
	if p.clustered() && err == nil {
		time.Sleep(p.viewAge())
	}
	return err
}

// upkeep deletes what has expired in the database.
func (p *parts) upkeep(ctx context.Context, ready func()) error {
	ready()
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if n, err := p.store.Sweep(ctx); err != nil && ctx.Err() == nil {
				p.log.Warn("expired rows could not be deleted", "component", "upkeep", "error", err)
			} else if n > 0 {
				p.log.Debug("deleted expired rows", "component", "upkeep", "rows", n)
			}
		}
	}
}

// listen drops what is cached of streams, nodes and rights that change.
func (p *parts) listen(ctx context.Context, ready func()) error {
	ready()
	err := p.store.Listen(ctx, func(channel, payload string) {
		switch channel {
		case store.ChannelStreams:
			switch id := millstream.StreamID(payload); {
			case p.writer != nil:
				p.writer.Forget(id)
			case p.streams != nil:
				p.streams.Forget(id)
			}
		case store.ChannelSegments:
			if p.warmer != nil {
				p.warmer.Changed()
			}
		case store.ChannelNodes:
			p.membership.Changed()
		case store.ChannelAuth:
			if p.auth != nil {
				p.auth.Changed()
			}
		}
	})
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("listen for announcements: %w", err)
}
