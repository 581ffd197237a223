package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/api"
	"github.com/millstream/millstream/blob"
	"github.com/millstream/millstream/cluster"
	"github.com/millstream/millstream/ingest"
	"github.com/millstream/millstream/ingest/decode"
	"github.com/millstream/millstream/ingest/wal"
	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/internal/cipher"
	"github.com/millstream/millstream/internal/config"
	"github.com/millstream/millstream/internal/postgres"
	"github.com/millstream/millstream/query"
	"github.com/millstream/millstream/query/cache"
	"github.com/millstream/millstream/query/engine"
	"github.com/millstream/millstream/query/promql"
	"github.com/millstream/millstream/query/sql"
	"github.com/millstream/millstream/rpc"
	"github.com/millstream/millstream/store"
	"github.com/millstream/millstream/ui"
	"github.com/millstream/millstream/web"
)

func newRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// database is the open store and, if the node runs its own, the server behind it.
type database struct {
	store  *store.Store
	server *postgres.Server // nil: somebody else's
}

// openDatabase starts the node's own server if no other is configured, connects and migrates.
func (p *parts) openDatabase(ctx context.Context) (*database, error) {
	d := &database{}
	url := p.cfg.Database.URL
	if url == "" {
		server, err := postgres.Start(ctx, postgres.Options{DataDir: filepath.Join(p.cfg.Node.DataDir, "postgres"), Log: p.log, Metrics: p.registry, MaxConnections: p.cfg.Database.MaxConnections + 10})
		if err != nil {
			return nil, err
		}
		d.server, url = server, server.URL()
	}
	st, err := store.Open(ctx, url, int32(p.cfg.Database.MaxConnections))
	if err == nil {
		d.store, p.store = st, st
		p.registry.MustRegister(st.Collector())
		err = st.Migrate(ctx)
	}
	if err != nil {
		return nil, joinClose(err, d.close())
	}
	return d, nil
}

// watch is a service that fails when the node's own server is lost for good.
func (d *database) watch(ctx context.Context, ready func()) error {
	ready()
	if d.server == nil {
		<-ctx.Done()
		return nil
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-d.server.Done():
		return err
	}
}

func (d *database) close() error {
	if d.store != nil {
		d.store.Close()
	}
	if d.server == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return d.server.Stop(ctx)
}

// joinClose adds the error of a close to the one that is being returned.
func joinClose(err, closeErr error) error { return errors.Join(err, closeErr) }

// build makes the parts that need an open database, none of which runs yet, and returns what closes them.
func (p *parts) build(ctx context.Context) (closeParts func() error, err error) {
	has := p.cfg.Node.Has
	var closers closers
	fail := func(err error) (func() error, error) { return nil, errors.Join(err, closers.close()) }
	if has(config.Intake) || has(config.Querier) || has(config.Compactor) {
		if p.bucket, err = openBucket(ctx, &p.cfg.ObjectStore); err != nil {
			return fail(err)
		}
	}
	if has(config.Querier) || has(config.Compactor) {
		if err := p.openCache(&closers); err != nil {
			return fail(err)
		}
	}
	if err := p.newMembership(); err != nil { // a querier's identity is that of its cache directory, which is its own since it is open
		return fail(err)
	}
	if has(config.Router) || has(config.Intake) || p.cfg.Telemetry.SelfCollect {
		if p.auth, err = p.newAuth(); err != nil {
			return fail(err)
		}
	}
	if has(config.Intake) {
		p.newIntake()
	}
	if p.clustered() {
		p.newRPC(&closers)
	}
	if has(config.Router) || has(config.Intake) {
		p.newRouter()
	}
	if has(config.Router) && !p.cfg.Node.Alone() {
		p.newLimiter()
	}
	if has(config.Router) || has(config.Querier) {
		if err := p.newMirror(); err != nil {
			return fail(err)
		}
	}
	if has(config.Querier) {
		p.newWarmer()
		if err := p.newQuery(&closers); err != nil {
			return fail(err)
		}
	}
	if err := p.newJobs(); err != nil {
		return fail(err)
	}
	if err := p.newAPI(); err != nil {
		return fail(err)
	}
	return closers.close, nil
}

// closers are what is closed when the services have ended, the last first.
type closers []func() error

func (c *closers) add(f func() error) { *c = append(*c, f) }

func (c *closers) close() error {
	var errs []error
	for i := len(*c) - 1; i >= 0; i-- {
		errs = append(errs, (*c)[i]())
	}
	return errors.Join(errs...)
}

func (p *parts) newAuth() (*auth.Service, error) {
	var key []byte
	var err error
	if p.cfg.Cipher.Key != "" {
		key, err = cipher.ParseKey(p.cfg.Cipher.Key)
	} else {
		key, err = cipher.LoadKey(p.cfg.Node.DataDir)
	}
	if err != nil {
		return nil, fmt.Errorf("[cipher].key: %w", err)
	}
	sealer, err := cipher.New(key)
	if err != nil {
		return nil, fmt.Errorf("[cipher].key: %w", err)
	}
	return auth.New(auth.Config{Store: p.store, Cipher: sealer, JWTSecret: p.cfg.Auth.JWTSecretOverride, AccessTTL: secs(p.cfg.Auth.TokenTTLSecs), Log: p.log, Now: p.clock, Own: p.Now})
}

func openBucket(ctx context.Context, c *config.ObjectStore) (blob.Bucket, error) {
	if c.Backend == "s3" {
		return blob.NewS3(ctx, blob.S3Config{
			Bucket: c.Bucket, Region: c.Region, Endpoint: c.Endpoint, PathStyle: c.PathStyle, AccessKey: c.AccessKey, SecretKey: c.SecretKey,
			MultipartThreshold: int64(c.MultipartThresholdSize), MaxConcurrency: c.MaxConcurrency, OpTimeout: secs(c.OpTimeoutSecs),
		})
	}
	return blob.NewDir(c.Root)
}

func (p *parts) newIntake() {
	c := p.cfg
	p.writer = ingest.NewWriter(ingest.WriterConfig{
		Node: millstream.NodeID(c.Node.ID), Addr: c.Cluster.AdvertiseAddr, Incarnation: func() int64 { return p.membership.Incarnation() },
		Catalog: p.store, Bucket: p.bucket,
		WAL:        walOptions(&c.WAL),
		BufferDir:  filepath.Join(c.Node.DataDir, "buffer"),
		BufferSize: int64(c.Intake.BufferSize), BufferTotal: int64(c.Intake.BufferTotal), FlushInterval: cmp.Or(p.Pace.Flush, secs(c.Intake.FlushIntervalSecs)),
		Log: p.log, Registerer: p.registry, Now: p.Now, Clock: p.clock,
	})
}

// newRouter makes the entry of writes: over all intakes on a router, over its own on any other node.
func (p *parts) newRouter() {
	c := ingest.RouterConfig{Self: millstream.NodeID(p.cfg.Node.ID), Local: p.writer, Pins: p.store, Registerer: p.registry, Now: p.Now}
	if p.cfg.Node.Has(config.Router) && !p.cfg.Node.Alone() {
		c.View, c.Settle = p.membership.View, p.peerTimeout()
		c.Dial = p.dialIntake
		if p.writer == nil {
			p.streams = ingest.NewStreams(p.store, p.Now)
			c.Streams = p.streams
		}
	}
	p.router = ingest.NewRouter(c)
}

func (p *parts) dialIntake(m millstream.Member) ingest.Target {
	return rpc.Into{Client: p.peers.To(m), WAL: m.WAL}
}

// newLimiter makes the limits of a router, which all routers keep together.
func (p *parts) newLimiter() {
	c := p.cfg.Router.RateLimit
	p.limiter = api.NewRateLimiter(api.RateLimits{
		Organizations: p.store, Defaults: api.Rates{IntakeQPS: c.IntakeQPS, QueryQPS: c.QueryQPS, Burst: c.BurstMultiplier},
		Leases: p.store, Node: millstream.NodeID(p.cfg.Node.ID), Incarnation: p.membership.Incarnation,
		Routers: func() int { return p.membership.View().Count(cluster.Router) }, Log: p.log, Now: p.Now,
	})
}

func walOptions(c *config.WAL) wal.Options {
	o := wal.Options{Dir: c.Dir, SegmentSize: int64(c.SegmentSize), NoSync: c.Sync == "none", MaxDisk: int64(c.MaxDisk), MinFree: int64(c.MinFree)}
	if o.MinFree == 0 {
		o.MinFree = -1 // a zero means the default to the log
	}
	return o
}

// openCache opens the local copies of segments, which queries and merges share.
func (p *parts) openCache(closers *closers) (err error) {
	c := &p.cfg.Cache
	p.segments, err = cache.Open(cache.Config{Bucket: p.bucket, Dir: c.Dir, MaxSize: int64(c.MaxSize), MinFree: int64(c.MinFree), Open: query.SegmentOpener(), Lost: p.lostIndex, Log: p.log, Registerer: p.registry})
	if err == nil {
		closers.add(p.segments.Close)
	}
	return err
}

func (p *parts) newQuery(closers *closers) error {
	c := &p.cfg.Querier
	gate, err := sql.NewGate()
	if err != nil {
		return err
	}
	closers.add(gate.Close)
	children, err := scratch(p.cfg.Node.DataDir, "engine")
	if err != nil {
		return err
	}
	pool, err := engine.New(engine.Options{Dir: children, Children: max(2, c.Threads), Threads: c.Threads, Memory: int64(c.MemoryLimit) / int64(max(2, c.Threads)), Log: p.log, Registerer: p.registry})
	if err != nil {
		return err
	}
	p.pool = pool
	closers.add(pool.Close)
	temp, err := scratch(p.cfg.Node.DataDir, "query")
	if err != nil {
		return err
	}
	p.engine, err = query.New(query.Config{
		Catalog: p.store, Unflushed: p.mirror, Cache: p.segments, Owners: p.owners(), Pins: p.store, Gate: gate, SQL: pool, TempDir: temp, Workers: c.Threads, Log: p.log, Registerer: p.registry,
		Limits: query.Limits{Timeout: secs(c.TimeoutSecs), MaxScanRows: int64(c.MaxScanRows), MaxResultRows: c.MaxResultRows, AsyncRows: int64(c.AutoAsyncThresholdRows)},
	})
	if p.rpc != nil {
		p.rpc.Leaves = p.engine
	}
	return err
}

// owners says which queriers read which segments; nil on a node that is alone.
func (p *parts) owners() *query.Owners {
	if p.peers == nil {
		return nil
	}
	return &query.Owners{
		Self: millstream.NodeID(p.cfg.Node.ID),
		Reader: func(id millstream.SegmentID, failed []millstream.NodeID) *millstream.Member {
			return p.membership.View().Reader(cluster.SegmentKey(id), standbys, failed)
		},
		Silence: p.Pace.Silence,
		Dial:    func(m millstream.Member) query.LeafNode { return p.peers.To(m) },
	}
}

// standbys is how many nodes a segment is read on before the coordinating node does it itself.
const standbys = 3

// scratch makes a private directory for temporary files below the data directory.
func scratch(dataDir, name string) (string, error) {
	dir, err := filepath.Abs(filepath.Join(dataDir, "tmp", name))
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return "", fmt.Errorf("directory for temporary files: %w", err)
	}
	return dir, nil
}

// readiness are the checks of readyz. Without the database, or fenced, the node is not ready; without the others it does less: reads what it has, or takes writes
// up to its limits.
func (p *parts) readiness() []api.Check {
	checks := []api.Check{{Name: "database", Vital: true, Run: p.store.Ping}, {Name: "membership", Vital: true, Run: p.checkFence}}
	if p.bucket != nil {
		checks = append(checks, api.Check{Name: "object_store", Run: p.checkBucket})
	}
	if p.writer != nil {
		checks = append(checks, api.Check{Name: "wal", Run: p.writer.Check})
	}
	if p.pool != nil {
		checks = append(checks, api.Check{Name: "sql_engine", Run: p.pool.Check})
	}
	return checks
}

// checkBucket asks the object store for what is not there.
func (p *parts) checkBucket(ctx context.Context) error {
	r, err := p.bucket.Get(ctx, "readiness", 0, 1)
	if err == nil {
		return r.Close()
	}
	if millstream.KindOf(err) == millstream.NotFound {
		return nil
	}
	return millstream.Wrap(millstream.Unavailable, err, "the object store cannot be reached")
}

// newMirror makes what knows the unflushed rows, this node's and others'.
// mirrorLimit is what a node keeps in memory of others' unflushed rows: a sixteenth of what it may use, which no setting needs to follow.
func mirrorLimit(memory config.Size) int64 {
	const least = 64 << 20
	return max(int64(memory)/16, least)
}

func (p *parts) newMirror() (err error) {
	c := ingest.MirrorConfig{Writer: p.writer, Limit: mirrorLimit(config.Memory()), Log: p.log, Registerer: p.registry}
	if p.peers != nil {
		c.Members = p.membership
		c.Dial = func(w store.WALState) (ingest.Holder, error) {
			return p.peers.To(millstream.Member{ID: w.Node, Addr: w.Addr}), nil
		}
	}
	if c.TempDir, err = scratch(p.cfg.Node.DataDir, "rows"); err == nil {
		p.mirror = ingest.NewMirror(c)
	}
	return err
}

// live is the catalog with what the nodes have not published yet.
func (p *parts) live() ingest.Live { return ingest.Live{Store: p.store, Mirror: p.mirror} }

func (p *parts) newAPI() error {
	c := p.cfg
	var proxies []netip.Prefix
	for _, s := range c.HTTP.TrustedProxies {
		prefix, err := netip.ParsePrefix(s)
		if err != nil {
			return fmt.Errorf("[http].trusted_proxies: %w", err)
		}
		proxies = append(proxies, prefix)
	}
	live := p.live()
	p.api = &api.API{
		Auth: p.auth, Streams: live, Nodes: p.store, Placed: p.store, View: p.membership.View, Documents: p.store, Finder: p.store, Metadata: live, Node: c.Node.ID,
		Drain: p.drainSelf, Draining: p.membership.Draining, Status: p.status, PeerTimeout: p.peerTimeout(),
		Checks: p.readiness(),
		Limits: decode.Limits{
			Limits:  millstream.Limits{MaxFields: c.Intake.MaxFields, MaxRecord: int(c.Intake.MaxRecord), MaxDepth: c.Intake.MaxDepth},
			MaxBody: int64(c.Intake.MaxBody), MaxDecoded: int64(c.Intake.MaxDecoded), MaxPast: time.Duration(c.Intake.MaxPastHours) * time.Hour, MaxFuture: time.Duration(c.Intake.MaxFutureSecs) * time.Second,
		},
		Log: p.log, Registerer: p.registry, Gatherer: p.registry, Now: p.Now, BasePath: c.HTTP.BasePath, TrustedProxies: proxies, Version: p.Version,
	}
	if p.peers != nil {
		p.api.Peers = &api.Peers{
			Live: func(role string) []millstream.Member { return p.membership.View().Live(role) },
			To:   func(m millstream.Member) api.Peer { return p.peers.To(m) },
		}
	}
	if p.writer != nil { // an interface that holds a nil pointer is not nil
		p.api.Flusher = p.writer
	}
	if p.router != nil {
		p.api.Intake = p.router
	}
	if p.limiter != nil {
		p.api.Limiter = p.limiter
	}
	if e := p.engine; e != nil {
		p.api.Query, p.api.Queries, p.api.Metrics, p.api.Explore, p.api.Search, p.api.Traces, p.api.Names = e, e, e, e, e, e, e
		p.api.PromQL = promql.New(promql.Options{Timeout: secs(c.Querier.TimeoutSecs), Log: p.log, Registerer: p.registry})
	}
	if p.rpc != nil && p.engine != nil {
		var err error
		if p.rpc.Query, err = p.api.QueryHandler(rpc.PrincipalOf); err != nil {
			return err
		}
	}
	if !c.Node.Has(config.Router) {
		var err error
		p.handler, err = p.api.HealthHandler()
		return err
	}
	pages, err := p.newPages(proxies)
	if err != nil {
		return err
	}
	p.api.Pages, p.api.Session = pages.Handle, pages.Session
	p.handler, err = p.api.Handler()
	return err
}

func (p *parts) newPages(proxies []netip.Prefix) (*web.Pages, error) {
	c := p.cfg
	if c.Dev.Assets != "" {
		if err := ui.UseDir(c.Dev.Assets); err != nil {
			return nil, err
		}
	}
	return web.New(web.Config{
		Auth: p.auth, Catalog: p.live(), Checks: p.checks, Queries: p.api, Gatherer: p.registry, Settings: p.Settings, Log: p.log, Now: p.Now,
		Node: c.Node.ID, Roles: c.Node.Roles, Version: p.Version, Started: p.began, GRPC: c.OTLP.Listen,
		BasePath: c.HTTP.BasePath, ExternalURL: c.HTTP.ExternalURL, FrameAncestors: c.HTTP.FrameAncestors, TrustedProxies: proxies, InsecureCookies: c.HTTP.InsecureCookies,
	})
}

// checks is what readyz answers, for the pages.
func (p *parts) checks(ctx context.Context) []ui.Check {
	states := p.api.CheckStates(ctx)
	out := make([]ui.Check, len(states))
	for i, s := range states {
		out[i] = ui.Check(s)
	}
	return out
}
