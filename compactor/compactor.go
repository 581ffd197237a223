// Package compactor merges small segments into large ones, takes out what is past its retention, builds indexes that are missing or outdated, deletes dead objects and
// compares the catalog with the object store. Every change that readers see is one transaction of the catalog, so two compactors on the same work cost effort and never a record. DESIGN.md says why it
// is as it is.
package compactor

import (
	"context"
	"io"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/blob"
	"github.com/millstream/millstream/query/cache"
	"github.com/millstream/millstream/store"
)

// catalog is what the compactor asks of the database; *store.Store fits.
type catalog interface {
	merges
	sealing
	collector
	inventory
	rebuilds
	StreamIDs(ctx context.Context) ([]string, error)
	OrganizationIDs(ctx context.Context) ([]string, error)
}

type merges interface {
	MergeCandidates(ctx context.Context, id millstream.StreamID) ([]store.Candidate, error)
	ReplaceSegments(ctx context.Context, r store.Replacement) error
	ExpireOld(ctx context.Context, node millstream.NodeID, incarnation int64, id millstream.StreamID, fallbackDays int) (int64, error)
	StreamByID(ctx context.Context, id millstream.StreamID) (store.Stream, error)
}

type rebuilds interface {
	OutdatedIndexes(ctx context.Context, org millstream.OrgID, after *store.Outdated, most int) ([]store.Outdated, error)
	OutdatedManifests(ctx context.Context, org millstream.OrgID) ([]string, error)
	UnsealOutdated(ctx context.Context, manifest string) ([]store.Outdated, error)
}

type collector interface {
	CollectDead(ctx context.Context, grace time.Duration, most int) (n int, unreadable []error, err error)
	Garbage(ctx context.Context, most int) ([]string, error)
	DropGarbage(ctx context.Context, keys []string) error
}

type inventory interface {
	DeletedOrganizations(ctx context.Context, age time.Duration) ([]string, error)
	Inventory(org millstream.OrgID) *store.Inventory
}

// bucket is the object store; blob.Bucket fits.
type bucket interface {
	blob.Uploader
	Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error)
	Delete(ctx context.Context, keys ...string) error
	List(ctx context.Context, prefix string) iter.Seq2[blob.Info, error]
}

// segments gives a segment's local copy; *cache.Cache fits.
type segments interface {
	Get(ctx context.Context, s millstream.Segment) (*cache.Handle, error)
}

// Config is what a Compactor works with. Zero times and sizes mean the documented defaults.
type Config struct {
	Node        millstream.NodeID
	Incarnation func() int64
	Catalog     catalog
	Bucket      bucket
	Segments    segments // of query.SegmentOpener
	TempDir     string   // private to this process
	// Warm tells the owner of a merged segment, before readers can see it, to fetch it; nil: nobody is told. That it fails does not matter.
	Warm func(ctx context.Context, s millstream.Segment)

	TargetSize    int64         // bytes of a merged segment, 512 MiB
	Groups        int           // merges at a time, 4
	RetentionDays int           // of streams and organizations that set none; 0: for ever
	Grace         time.Duration // between a segment's death and the deletion of its objects; see Grace
	OrphanAge     time.Duration // of an object that nothing names, 24 h
	RebuildRate   int64         // bytes of data a second that are read to build indexes, 32 MiB

	Log        *slog.Logger
	Registerer prometheus.Registerer
	Now        func() time.Time
}

// Defaults of Config.
const (
	DefaultTargetSize = 512 << 20
	DefaultGroups     = 4
	DefaultOrphanAge  = 24 * time.Hour
	leastGrace        = 15 * time.Minute
	rebuildRate       = 32 << 20
)

// Grace is how long a dead segment's objects stay: twice the longest query that this node knows of, so that whoever has it in a snapshot can read it, and long enough
// for a database that went back to a somewhat older state. Queriers may be told a longer time than this node: a query pins its snapshot long before the least grace ends.
func Grace(longestQuery time.Duration) time.Duration { return max(2*longestQuery, leastGrace) }

// Compactor does the work of a compactor node. It is safe for concurrent use.
type Compactor struct {
	cfg     Config
	log     *slog.Logger
	metrics *instruments
	groups  chan struct{} // holds a token per running merge
	attempt atomic.Int64  // of uploads, part of the object keys
	hook    func(step string)
	page    int // objects that a reconciliation compares at a time

	mu         sync.Mutex
	knownSince time.Time // since when all nodes are seen to know manifests; see sealable
	missing    map[millstream.SegmentID]missing
}

// New makes a compactor; it does nothing by itself: Jobs says what to call when.
func New(cfg Config) *Compactor {
	if cfg.TargetSize <= 0 {
		cfg.TargetSize = DefaultTargetSize
	}
	if cfg.Groups <= 0 {
		cfg.Groups = DefaultGroups
	}
	if cfg.Grace <= 0 {
		cfg.Grace = leastGrace
	}
	if cfg.OrphanAge <= 0 {
		cfg.OrphanAge = DefaultOrphanAge
	}
	if cfg.RebuildRate <= 0 {
		cfg.RebuildRate = rebuildRate
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	c := &Compactor{cfg: cfg, log: cfg.Log.With("component", "compactor"), groups: make(chan struct{}, cfg.Groups), page: pageObjects, missing: map[millstream.SegmentID]missing{}}
	c.metrics = newInstruments(cfg.Registerer, c.countMissing)
	return c
}

// step calls the test hook.
func (c *Compactor) step(name string) {
	if c.hook != nil {
		c.hook(name)
	}
}

// Streams are the units of Compact and Seal.
func (c *Compactor) Streams(ctx context.Context) ([]string, error) {
	return c.cfg.Catalog.StreamIDs(ctx)
}

// remembered is for how long a deleted organization is reconciled: several times as long as objects take to be orphans.
const remembered = 7 * 24 * time.Hour

// Reconciled are the units of Reconcile: all organizations, and those that were deleted in the last days. A flush or a merge that met the deletion has left objects that
// are too young to be orphans when the last row of the organization goes.
func (c *Compactor) Reconciled(ctx context.Context) ([]string, error) {
	all, err := c.cfg.Catalog.OrganizationIDs(ctx)
	if err != nil {
		return nil, err
	}
	deleted, err := c.cfg.Catalog.DeletedOrganizations(ctx, remembered)
	if err != nil {
		return nil, err
	}
	all = append(all, deleted...)
	slices.Sort(all)
	return slices.Compact(all), nil
}

// Organizations are the units of RebuildIndexes.
func (c *Compactor) Organizations(ctx context.Context) ([]string, error) {
	return c.cfg.Catalog.OrganizationIDs(ctx)
}
