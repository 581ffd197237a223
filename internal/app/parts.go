package app

import (
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
	if p.auth, err = p.newAuth(); err != nil {
		return nil, err
	}
	bucket, err := openBucket(ctx, &p.cfg.ObjectStore)
	if err != nil {
		return nil, err
	}
	p.bucket = bucket
	p.newIntake(bucket)
	p.newMembership()
	closeQuery, err := p.newQuery(bucket)
	if err != nil {
		return nil, err
	}
	if err := p.newAPI(); err != nil {
		return nil, errors.Join(err, closeQuery())
	}
	return closeQuery, nil
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
	return auth.New(auth.Config{Store: p.store, Cipher: sealer, JWTSecret: p.cfg.Auth.JWTSecretOverride, AccessTTL: time.Duration(p.cfg.Auth.TokenTTLSecs) * time.Second, Log: p.log})
}

func openBucket(ctx context.Context, c *config.ObjectStore) (blob.Bucket, error) {
	if c.Backend == "s3" {
		return blob.NewS3(ctx, blob.S3Config{
			Bucket: c.Bucket, Region: c.Region, Endpoint: c.Endpoint, PathStyle: c.PathStyle, AccessKey: c.AccessKey, SecretKey: c.SecretKey,
			MultipartThreshold: int64(c.MultipartThresholdSize), MaxConcurrency: c.MaxConcurrency, OpTimeout: time.Duration(c.OpTimeoutSecs) * time.Second,
		})
	}
	return blob.NewDir(c.Root)
}

func (p *parts) newIntake(bucket blob.Bucket) {
	c := p.cfg
	p.writer = ingest.NewWriter(ingest.WriterConfig{
		Node: millstream.NodeID(c.Node.ID), Addr: c.Cluster.AdvertiseAddr, Incarnation: func() int64 { return p.membership.Incarnation() },
		Catalog: p.store, Bucket: bucket,
		WAL:        walOptions(&c.WAL),
		BufferDir:  filepath.Join(c.Node.DataDir, "buffer"),
		BufferSize: int64(c.Intake.BufferSize), BufferTotal: int64(c.Intake.BufferTotal), FlushInterval: time.Duration(c.Intake.FlushIntervalSecs) * time.Second,
		Log: p.log, Registerer: p.registry,
	})
	p.router = ingest.NewRouter(ingest.RouterConfig{Self: millstream.NodeID(c.Node.ID), Local: p.writer, Pins: p.store, Registerer: p.registry})
}

func walOptions(c *config.WAL) wal.Options {
	o := wal.Options{Dir: c.Dir, SegmentSize: int64(c.SegmentSize), NoSync: c.Sync == "none", MaxDisk: int64(c.MaxDisk), MinFree: int64(c.MinFree)}
	if o.MinFree == 0 {
		o.MinFree = -1 // a zero means the default to the log
	}
	return o
}

func (p *parts) newMembership() {
	c := &p.cfg.Cluster
	p.membership = cluster.NewMembership(cluster.Config{
		Registry: p.store, Log: p.log, Registerer: p.registry, Interval: time.Duration(c.HeartbeatIntervalSecs) * time.Second,
		Self:     millstream.Member{ID: millstream.NodeID(p.cfg.Node.ID), Addr: c.AdvertiseAddr, Roles: p.cfg.Node.Roles, Version: p.Version, StartedAt: p.began},
		Timeouts: cluster.Timeouts{Peer: time.Duration(c.PeerTimeoutSecs) * time.Second},
		Beat:     p.beat,
	})
}

// beat sends a heartbeat and tells the intake what the database says of its WAL.
func (p *parts) beat(ctx context.Context, self millstream.Member) (cluster.Beat, error) {
	var wals []millstream.WALID
	if id := p.writer.WAL(); id != "" { // none before the intake has opened its directory
		wals = append(wals, id)
	}
	b, err := p.store.Heartbeat(ctx, self, wals)
	if err == nil {
		p.writer.Beat(b)
	}
	return cluster.Beat{At: b.Now, Written: b.Written, Fenced: b.Fenced}, err
}

func (p *parts) newQuery(bucket blob.Bucket) (closeAll func() error, err error) {
	c := &p.cfg.Querier
	var closers []func() error
	closeAll = func() error {
		var errs []error
		for i := len(closers) - 1; i >= 0; i-- {
			errs = append(errs, closers[i]())
		}
		return errors.Join(errs...)
	}
	fail := func(err error) (func() error, error) { return nil, errors.Join(err, closeAll()) }
	segments, err := cache.Open(cache.Config{Bucket: bucket, Dir: p.cfg.Cache.Dir, MaxSize: int64(p.cfg.Cache.MaxSize), MinFree: int64(p.cfg.Cache.MinFree), Open: query.SegmentOpener(), Log: p.log, Registerer: p.registry})
	if err != nil {
		return fail(err)
	}
	closers = append(closers, segments.Close)
	gate, err := sql.NewGate()
	if err != nil {
		return fail(err)
	}
	closers = append(closers, gate.Close)
	children, err := scratch(p.cfg.Node.DataDir, "engine")
	if err != nil {
		return fail(err)
	}
	pool, err := engine.New(engine.Options{Dir: children, Children: max(2, c.Threads), Threads: c.Threads, Memory: int64(c.MemoryLimit) / int64(max(2, c.Threads)), Log: p.log, Registerer: p.registry})
	if err != nil {
		return fail(err)
	}
	p.pool = pool
	closers = append(closers, pool.Close)
	temp, err := scratch(p.cfg.Node.DataDir, "query")
	if err != nil {
		return fail(err)
	}
	p.engine, err = query.New(query.Config{
		Catalog: p.store, Unflushed: p.writer, Cache: segments, Gate: gate, SQL: pool, TempDir: temp, Workers: c.Threads, Log: p.log, Registerer: p.registry,
		Limits: query.Limits{Timeout: time.Duration(c.TimeoutSecs) * time.Second, MaxScanRows: int64(c.MaxScanRows), MaxResultRows: c.MaxResultRows, AsyncRows: int64(c.AutoAsyncThresholdRows)},
	})
	if err != nil {
		return fail(err)
	}
	return closeAll, nil
}

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

// readiness are the checks of readyz. Without the database the node is not ready; without the others it does less: reads what it has, or takes writes up to its
// limits.
func (p *parts) readiness() []api.Check {
	return []api.Check{
		{Name: "database", Vital: true, Run: p.store.Ping},
		{Name: "object_store", Run: p.checkBucket},
		{Name: "wal", Run: p.writer.Check},
		{Name: "sql_engine", Run: p.pool.Check},
	}
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

// live is the catalog with what this node has not published yet.
func (p *parts) live() ingest.Live { return ingest.Live{Store: p.store, Writer: p.writer} }

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
		Auth: p.auth, Streams: live, Nodes: p.store, Documents: p.store, Finder: p.store, Names: p.engine, Intake: p.router, Query: p.engine, Queries: p.engine, Metrics: p.engine, Metadata: live, Explore: p.engine, Search: p.engine, Traces: p.engine, Flusher: p.writer, Node: c.Node.ID,
		PromQL: promql.New(promql.Options{Timeout: time.Duration(c.Querier.TimeoutSecs) * time.Second, Log: p.log, Registerer: p.registry}),
		Checks: p.readiness(),
		Limits: decode.Limits{
			Limits:  millstream.Limits{MaxFields: c.Intake.MaxFields, MaxRecord: int(c.Intake.MaxRecord), MaxDepth: c.Intake.MaxDepth},
			MaxBody: int64(c.Intake.MaxBody), MaxDecoded: int64(c.Intake.MaxDecoded), MaxPast: time.Duration(c.Intake.MaxPastHours) * time.Hour, MaxFuture: time.Duration(c.Intake.MaxFutureSecs) * time.Second,
		},
		Log: p.log, Registerer: p.registry, Gatherer: p.registry, Now: time.Now, BasePath: c.HTTP.BasePath, TrustedProxies: proxies, Version: p.Version,
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
		Auth: p.auth, Catalog: p.live(), Checks: p.checks, Queries: p.engine, Gatherer: p.registry, Settings: p.Settings, Log: p.log, Now: time.Now,
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
