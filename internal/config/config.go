// Package config is the one configuration struct: defaults, a TOML file, MS_ variables over it, validation, and the reference page made from it.
package config

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Config is every setting of a node. Tags: toml is the key, doc its line in the reference, secret hides the value and adds the _FILE variant.
type Config struct {
	Node          Node          `toml:"node"`
	HTTP          HTTP          `toml:"http"`
	RPC           Listen        `toml:"rpc" doc:"gRPC between nodes"`
	OTLP          Listen        `toml:"otlp" doc:"OTLP gRPC, on router, intake and standalone"`
	Database      Database      `toml:"database"`
	ObjectStore   ObjectStore   `toml:"object_store"`
	Cluster       Cluster       `toml:"cluster"`
	Placement     Placement     `toml:"placement"`
	WAL           WAL           `toml:"wal"`
	Intake        IntakeLimits  `toml:"intake"`
	Cache         Cache         `toml:"cache"`
	Querier       QuerierLimits `toml:"querier"`
	Compactor     Compacting    `toml:"compactor"`
	Router        RouterLimits  `toml:"router"`
	Auth          Auth          `toml:"auth"`
	Cipher        Cipher        `toml:"cipher"`
	Telemetry     Telemetry     `toml:"telemetry"`
	SelfTelemetry SelfTelemetry `toml:"self_telemetry"`
	Dev           Dev           `toml:"dev"`
}

// The sections, in the order of the reference page.
type (
	// Node is the process itself.
	Node struct {
		ID               string   `toml:"id" doc:"name of the node, up to 64 characters, unique in the cluster; default: the host name"`
		Roles            []string `toml:"roles" doc:"what the process does: any of router, intake, querier, compactor and alert, or standalone, which is all of them in one process; a change needs a restart"`
		DataDir          string   `toml:"data_dir" doc:"everything local: WAL, cache, embedded PostgreSQL, local objects"`
		DrainTimeoutSecs int      `toml:"drain_timeout_secs" doc:"seconds each part of the node may take to finish its work when the node stops"`
	}
	// HTTP is the full API and UI.
	HTTP struct {
		Listen          string   `toml:"listen" doc:"address of the API and UI on router and standalone, and of health, readiness and metrics alone on other nodes"`
		ExternalURL     string   `toml:"external_url" doc:"the address users reach the node by; used in snippets"`
		BasePath        string   `toml:"base_path" doc:"path prefix when a proxy serves the node below one, such as /millstream"`
		FrameAncestors  []string `toml:"frame_ancestors" doc:"origins that may embed the UI in a frame"`
		TrustedProxies  []string `toml:"trusted_proxies" doc:"CIDRs whose X-Forwarded-For header is believed"`
		InsecureCookies bool     `toml:"insecure_cookies" doc:"allow sign-in over plain HTTP from other hosts than localhost"`
	}
	// Listen is one listener.
	Listen struct {
		Listen string `toml:"listen" doc:"address to listen on"`
	}
	// Database is PostgreSQL.
	Database struct {
		URL            string `toml:"url" secret:"true" doc:"PostgreSQL, as postgres://user:password@host/database, one for all nodes; empty, on standalone only: the node starts and supervises a server of its own from the installed binaries"`
		MaxConnections int    `toml:"max_connections" doc:"most connections of the pool"`
	}
	// ObjectStore is where segments live.
	ObjectStore struct {
		Backend                string `toml:"backend" doc:"local or s3"`
		Root                   string `toml:"root" doc:"directory of the local backend, which nodes of a cluster share; default, on standalone only: objects below the data directory"`
		Bucket                 string `toml:"bucket" doc:"S3 bucket"`
		Region                 string `toml:"region" doc:"S3 region"`
		Endpoint               string `toml:"endpoint" doc:"URL of an S3-compatible server; empty: AWS"`
		PathStyle              bool   `toml:"path_style" doc:"address the bucket in the path instead of the host name"`
		AccessKey              string `toml:"access_key" secret:"true" doc:"S3 access key; empty: the SDK's own chain of credentials"`
		SecretKey              string `toml:"secret_key" secret:"true" doc:"S3 secret key"`
		MultipartThresholdSize Size   `toml:"multipart_threshold_size" doc:"objects at least this large go up in parts"`
		MaxConcurrency         int    `toml:"max_concurrency" doc:"most requests in flight"`
		OpTimeoutSecs          int    `toml:"op_timeout_secs" doc:"seconds until one request is given up and tried again"`
	}
	// Cluster is membership, and what nodes need to trust each other.
	Cluster struct {
		AdvertiseAddr         string `toml:"advertise_addr" doc:"address at which other nodes reach this one's internal gRPC; default: [rpc].listen, with the host name for an address of all interfaces"`
		HeartbeatIntervalSecs int    `toml:"heartbeat_interval_secs" doc:"seconds between heartbeats"`
		PeerTimeoutSecs       int    `toml:"peer_timeout_secs" doc:"seconds without a heartbeat after which no work goes to a node; also how long a new compactor or alert node waits before it takes work"`
		TrustedNetwork        bool   `toml:"trusted_network" doc:"nodes of split roles may run without [cluster].internal_token: none but the nodes can reach [rpc].listen"`
		InternalToken         string `toml:"internal_token" secret:"true" doc:"shared by all nodes, which know each other by it; required for split roles unless [cluster].trusted_network is true"`
	}
	// Placement says which querier caches and scans a segment.
	Placement struct {
		DropAfterSecs int `toml:"drop_after_secs" doc:"seconds without a heartbeat after which a querier's segments belong to others; until then the next in order stands in"`
	}
	// WAL is the write-ahead log.
	WAL struct {
		Dir         string `toml:"dir" doc:"directory; default: wal below the data directory"`
		SegmentSize Size   `toml:"segment_size" doc:"size at which a file is closed and the next begun"`
		Sync        string `toml:"sync" doc:"group: acknowledge after fdatasync, shared by concurrent writes; none: acknowledge after write (a crash of the machine may lose records)"`
		MaxDisk     Size   `toml:"max_disk" doc:"above this size writes get 503"`
		MinFree     Size   `toml:"min_free" doc:"with less than this free on the directory's disk writes get 503; 0: only when it is full"`
	}
	// IntakeLimits is what is accepted and how it is buffered.
	IntakeLimits struct {
		BufferSize        Size `toml:"buffer_size" doc:"unflushed bytes of one stream that start a flush"`
		BufferTotal       Size `toml:"buffer_total" doc:"unflushed bytes in memory of all streams; above it writes get 503"`
		FlushIntervalSecs int  `toml:"flush_interval_secs" doc:"seconds between flushes"`
		MaxBody           Size `toml:"max_body" doc:"compressed request body"`
		MaxDecoded        Size `toml:"max_decoded" doc:"decompressed request body"`
		MaxRecord         Size `toml:"max_record" doc:"one record"`
		MaxFields         int  `toml:"max_fields" doc:"fields of one record"`
		MaxDepth          int  `toml:"max_depth" doc:"nesting of one record"`
		MaxPastHours      int  `toml:"max_past_hours" doc:"records older than this are rejected; 0: no limit"`
		MaxFutureSecs     int  `toml:"max_future_secs" doc:"records further ahead than this are rejected"`
	}
	// Cache is the local copy of segments.
	Cache struct {
		Dir     string `toml:"dir" doc:"directory; default: cache below the data directory"`
		MaxSize Size   `toml:"max_size" doc:"most bytes kept"`
		MinFree Size   `toml:"min_free" doc:"free space left to others"`
	}
	// QuerierLimits is the limits of queries.
	QuerierLimits struct {
		MemoryLimit            Size `toml:"memory_limit" doc:"memory of the SQL engine; 0: 60 % of the machine's"`
		Threads                int  `toml:"threads" doc:"threads of a query; 0: the CPUs"`
		TimeoutSecs            int  `toml:"timeout_secs" doc:"seconds a query may take"`
		MaxScanRows            int  `toml:"max_scan_rows" doc:"rows a query may have to scan after pruning; 0: no limit"`
		MaxResultRows          int  `toml:"max_result_rows" doc:"rows of an answer; a longer one is cut and says so"`
		AutoAsyncThresholdRows int  `toml:"auto_async_threshold_rows" doc:"estimated rows above which a query counts as long (would_be_async)"`
	}
	// RouterLimits is what a router lets through.
	RouterLimits struct {
		RateLimit RateLimit `toml:"rate_limit"`
	}
	// RateLimit is of each organization, in the whole cluster.
	RateLimit struct {
		IntakeQPS       int `toml:"intake_qps" doc:"requests a second that write telemetry, per organization over all routers; 0: no limit. A standalone node has none"`
		QueryQPS        int `toml:"query_qps" doc:"requests a second that read telemetry, per organization over all routers; 0: no limit"`
		BurstMultiplier int `toml:"burst_multiplier" doc:"seconds' worth of requests that may come at once"`
	}
	// Compacting is the merging and deletion of segments.
	Compacting struct {
		IntervalSecs        int  `toml:"interval_secs" doc:"seconds between two rounds over a node's streams"`
		TargetSize          Size `toml:"target_size" doc:"size that segments are merged toward"`
		MaxConcurrentGroups int  `toml:"max_concurrent_groups" doc:"merges at a time, of each compactor node"`
		RetentionDays       int  `toml:"retention_days" doc:"days that records are kept, by their own time, where neither the stream nor its organization says otherwise; 0: for ever"`
	}
	// Auth is sign-in.
	Auth struct {
		RootEmail         string `toml:"root_email" doc:"creates the first owner when there is no user yet"`
		RootPassword      string `toml:"root_password" secret:"true" doc:"password of the first owner"`
		TokenTTLSecs      int    `toml:"token_ttl_secs" doc:"life of an access token; a refresh token lives 12 h"`
		JWTSecretOverride string `toml:"jwt_secret_override" secret:"true" doc:"pins the signing secret, 32 bytes or more"`
	}
	// Cipher is the key of stored secrets.
	Cipher struct {
		Key string `toml:"key" secret:"true" doc:"32 bytes in base64 that encrypt stored secrets, the same on every node; required for split roles, generated into the data directory on standalone"`
	}
	// Telemetry is the node's own.
	Telemetry struct {
		SelfCollect bool   `toml:"self_collect" doc:"write the node's own logs and metrics to the reserved _millstream streams"`
		LogLevel    string `toml:"log_level" doc:"debug, info, warn or error"`
		LogFormat   string `toml:"log_format" doc:"text or json"`
	}
	// SelfTelemetry is how the node's own telemetry gets to a node with intake.
	SelfTelemetry struct {
		ClusterToken string `toml:"cluster_token" secret:"true" doc:"with which nodes without the intake role send their own telemetry; required on them while [telemetry].self_collect is on"`
	}
	// Dev is for work on the product itself.
	Dev struct {
		Assets string `toml:"assets" doc:"serve the web pages' assets from this directory, as make ui builds it, instead of the embedded ones"`
	}
)

// Size is a number of bytes; in text it may carry B, KiB, MiB, GiB, TiB (or KB, MB, GB, TB for powers of ten).
type Size int64

// UnmarshalText reads "512 MiB" or a plain number of bytes.
func (s *Size) UnmarshalText(text []byte) error {
	t := strings.TrimSpace(string(text))
	i := len(t)
	for i > 0 && (t[i-1] < '0' || t[i-1] > '9') {
		i--
	}
	n, err := strconv.ParseInt(strings.TrimSpace(t[:i]), 10, 64)
	unit, ok := units[strings.ToLower(strings.TrimSpace(t[i:]))]
	if err != nil || !ok || n < 0 || n > (1<<62)/unit {
		return fmt.Errorf("%q is not a size: write 1048576, 512 MiB or 10 GB", t)
	}
	*s = Size(n * unit)
	return nil
}

var units = map[string]int64{"": 1, "b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12}

func (s Size) String() string {
	for _, u := range []string{"TiB", "GiB", "MiB", "KiB"} {
		if n := Size(units[strings.ToLower(u)]); s >= n && s%n == 0 {
			return fmt.Sprintf("%d %s", s/n, u)
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// Default is the configuration of a standalone node that nobody configured.
func Default() Config {
	return Config{
		Node:        Node{Roles: []string{Standalone}, DataDir: "./data", DrainTimeoutSecs: 30},
		HTTP:        HTTP{Listen: ":5080"},
		RPC:         Listen{":5082"},
		OTLP:        Listen{":4317"},
		Database:    Database{MaxConnections: 16},
		ObjectStore: ObjectStore{Backend: "local", Region: "us-east-1", MultipartThresholdSize: 32 << 20, MaxConcurrency: 32, OpTimeoutSecs: 30},
		Cluster:     Cluster{HeartbeatIntervalSecs: 5, PeerTimeoutSecs: 15},
		Placement:   Placement{DropAfterSecs: 30},
		WAL:         WAL{SegmentSize: 128 << 20, Sync: "group", MaxDisk: 16 << 30, MinFree: 1 << 30},
		Intake:      IntakeLimits{BufferSize: 256 << 20, BufferTotal: 512 << 20, FlushIntervalSecs: 30, MaxBody: 20 << 20, MaxDecoded: 100 << 20, MaxRecord: 1 << 20, MaxFields: 1000, MaxDepth: 32, MaxFutureSecs: 3600},
		Cache:       Cache{MaxSize: 10 << 30, MinFree: 1 << 30},
		Querier:     QuerierLimits{TimeoutSecs: 60, MaxResultRows: 100000, AutoAsyncThresholdRows: 50_000_000},
		Router:      RouterLimits{RateLimit{IntakeQPS: 1000, QueryQPS: 100, BurstMultiplier: 2}},
		Compactor:   Compacting{IntervalSecs: 60, TargetSize: 512 << 20, MaxConcurrentGroups: 4, RetentionDays: 30},
		Auth:        Auth{TokenTTLSecs: 900},
		Telemetry:   Telemetry{SelfCollect: true, LogLevel: "info", LogFormat: "text"},
	}
}

// fill derives the settings whose default depends on others.
func (c *Config) fill() error {
	if c.Node.ID == "" {
		host, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("[node].id is empty and the host name is unknown: %w", err)
		}
		c.Node.ID = host
	}
	c.Node.Roles = normalRoles(c.Node.Roles)
	for _, d := range []struct {
		p   *string
		sub string
	}{{&c.ObjectStore.Root, "objects"}, {&c.WAL.Dir, "wal"}, {&c.Cache.Dir, "cache"}} {
		if *d.p == "" && (d.p != &c.ObjectStore.Root || c.Node.Alone()) {
			*d.p = filepath.Join(c.Node.DataDir, d.sub)
		}
	}
	if c.Querier.Threads == 0 {
		c.Querier.Threads = runtime.GOMAXPROCS(0)
	}
	if c.Querier.MemoryLimit == 0 {
		c.Querier.MemoryLimit = Memory() / 10 * 6
	}
	if c.Cluster.AdvertiseAddr == "" {
		var err error
		c.Cluster.AdvertiseAddr, err = advertised(c.RPC.Listen)
		return err
	}
	return nil
}

// Grace is how long each service of the node may drain.
func (c *Config) Grace() time.Duration { return time.Duration(c.Node.DrainTimeoutSecs) * time.Second }

// Validate checks every bound and reports all that are broken.
func (c *Config) Validate() []error {
	var errs []error
	bad := func(ok bool, key, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s: %s", key, fmt.Sprintf(format, args...)))
		}
	}
	bad(len(c.Node.ID) <= 64, "[node].id", "%d characters; at most 64", len(c.Node.ID))
	c.checkRoles(bad)
	bad(c.Node.Alone() || reachable(c.Cluster.AdvertiseAddr), "[cluster].advertise_addr", "%q; other nodes must be able to dial it: write host:port", c.Cluster.AdvertiseAddr)
	bad(c.Cluster.InternalToken == "" || len(c.Cluster.InternalToken) >= 16, "[cluster].internal_token", "shorter than 16 characters")
	bad(c.Cluster.PeerTimeoutSecs > c.Cluster.HeartbeatIntervalSecs, "[cluster].peer_timeout_secs", "%d; more than [cluster].heartbeat_interval_secs, which is %d", c.Cluster.PeerTimeoutSecs, c.Cluster.HeartbeatIntervalSecs)
	bad(c.Placement.DropAfterSecs >= c.Cluster.PeerTimeoutSecs, "[placement].drop_after_secs", "%d; at least [cluster].peer_timeout_secs, which is %d", c.Placement.DropAfterSecs, c.Cluster.PeerTimeoutSecs)
	bad(c.Node.DataDir != "", "[node].data_dir", "empty; name a directory")
	bad(c.ObjectStore.Backend == "local" || c.ObjectStore.Backend == "s3", "[object_store].backend", "%q; use local or s3", c.ObjectStore.Backend)
	bad(c.ObjectStore.Backend != "s3" || c.ObjectStore.Bucket != "", "[object_store].bucket", "empty; the s3 backend needs one")
	bad(c.ObjectStore.MultipartThresholdSize >= 5<<20, "[object_store].multipart_threshold_size", "%s; at least 5 MiB", c.ObjectStore.MultipartThresholdSize)
	bad(c.WAL.Sync == "group" || c.WAL.Sync == "none", "[wal].sync", "%q; use group or none", c.WAL.Sync)
	bad(c.WAL.SegmentSize >= 1<<20, "[wal].segment_size", "%s; at least 1 MiB", c.WAL.SegmentSize)
	bad(c.WAL.MaxDisk >= 2*c.WAL.SegmentSize, "[wal].max_disk", "%s; at least twice [wal].segment_size", c.WAL.MaxDisk)
	bad(c.Intake.BufferTotal >= c.Intake.BufferSize, "[intake].buffer_total", "%s; at least [intake].buffer_size", c.Intake.BufferTotal)
	bad(c.Intake.MaxRecord <= c.Intake.MaxDecoded, "[intake].max_record", "%s; at most [intake].max_decoded", c.Intake.MaxRecord)
	bad(c.Compactor.TargetSize >= 1<<20, "[compactor].target_size", "%s; at least 1 MiB", c.Compactor.TargetSize)
	bad(c.Querier.MemoryLimit >= 64<<20, "[querier].memory_limit", "%s; at least 64 MiB", c.Querier.MemoryLimit)
	bad(slices.Contains([]string{"debug", "info", "warn", "error"}, c.Telemetry.LogLevel), "[telemetry].log_level", "%q; use debug, info, warn or error", c.Telemetry.LogLevel)
	bad(c.Telemetry.LogFormat == "text" || c.Telemetry.LogFormat == "json", "[telemetry].log_format", "%q; use text or json", c.Telemetry.LogFormat)
	bad(c.HTTP.BasePath == "" || strings.HasPrefix(c.HTTP.BasePath, "/") && !strings.HasSuffix(c.HTTP.BasePath, "/"), "[http].base_path", "%q; begin with a slash and end without", c.HTTP.BasePath)
	bad((c.Auth.RootEmail == "") == (c.Auth.RootPassword == ""), "[auth].root_email", "set it and [auth].root_password together")
	bad(c.Auth.JWTSecretOverride == "" || len(c.Auth.JWTSecretOverride) >= 32, "[auth].jwt_secret_override", "shorter than 32 bytes")
	for key, n := range map[string]int{
		"[node].drain_timeout_secs": c.Node.DrainTimeoutSecs, "[database].max_connections": c.Database.MaxConnections, "[object_store].max_concurrency": c.ObjectStore.MaxConcurrency,
		"[object_store].op_timeout_secs": c.ObjectStore.OpTimeoutSecs, "[cluster].heartbeat_interval_secs": c.Cluster.HeartbeatIntervalSecs,
		"[intake].flush_interval_secs": c.Intake.FlushIntervalSecs, "[compactor].interval_secs": c.Compactor.IntervalSecs, "[compactor].max_concurrent_groups": c.Compactor.MaxConcurrentGroups, "[intake].max_fields": c.Intake.MaxFields, "[intake].max_depth": c.Intake.MaxDepth, "[querier].threads": c.Querier.Threads,
		"[querier].timeout_secs": c.Querier.TimeoutSecs, "[querier].max_result_rows": c.Querier.MaxResultRows, "[router.rate_limit].burst_multiplier": c.Router.RateLimit.BurstMultiplier, "[auth].token_ttl_secs": c.Auth.TokenTTLSecs,
	} {
		bad(n >= 1, key, "%d; at least 1", n)
	}
	for key, n := range map[string]int{
		"[querier].max_scan_rows": c.Querier.MaxScanRows, "[intake].max_past_hours": c.Intake.MaxPastHours, "[intake].max_future_secs": c.Intake.MaxFutureSecs,
		"[router.rate_limit].intake_qps": c.Router.RateLimit.IntakeQPS, "[router.rate_limit].query_qps": c.Router.RateLimit.QueryQPS,
	} {
		bad(n >= 0, key, "%d; not negative", n)
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errs
}

// Memory is what the machine, or the container, has; 4 GiB if that cannot be told.
func Memory() Size {
	for _, f := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		if b, err := os.ReadFile(f); err == nil {
			if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil && n < 1<<50 {
				return Size(n)
			}
		}
	}
	b, err := os.ReadFile("/proc/meminfo")
	if err == nil {
		if f := strings.Fields(string(b)); len(f) > 1 && f[0] == "MemTotal:" {
			if kb, err := strconv.ParseInt(f[1], 10, 64); err == nil {
				return Size(kb << 10)
			}
		}
	}
	return 4 << 30
}
