// Package cache keeps segments on the local disk and open for reading.
//
// A file of the cache is one extent, named by its segment's checksums, so it is either the right bytes or damaged; every byte is checked when it is fetched and
// again when a process first opens the file. Segments in use are pinned; of the others the least recently used go first. What the object store already holds as a file of
// its own on this machine is read in place and takes no room.
package cache

import (
	"container/list"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millstream/millstream"
)

// Config is what a cache needs. Bucket, Dir and Open must be set.
type Config struct {
	Bucket  Bucket
	Dir     string
	MaxSize int64 // bytes of files; 0: DefaultMaxSize
	MinFree int64 // bytes to leave free on the disk
	MaxOpen int   // segments kept open beside the pinned ones; 0: DefaultMaxOpen
	// Open makes a reader of a segment's two files. The readers share the files, which stay open as long as the value is in use.
	Open       func(s millstream.Segment, data, index File) (any, error)
	Log        *slog.Logger
	Registerer prometheus.Registerer
}

// Defaults of Config.
const (
	DefaultMaxSize = 10 << 30
	DefaultMaxOpen = 256
)

const (
	maxFetches   = 8               // fetches at a time
	fetchTimeout = 2 * time.Minute // a fetch goes on when the query that started it has gone
	maxShut      = 64 << 10        // closed segments that are remembered
)

// Bucket is what the cache reads objects from.
type Bucket interface {
	Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error)
}

// placed is a bucket whose objects are local files.
type placed interface{ Path(key string) string }

// File is one local file of a segment.
type File struct {
	io.ReaderAt
	Size int64
	Path string
}

// Cache keeps segments. It is safe for concurrent use.
type Cache struct {
	cfg     Config
	metrics *cacheMetrics
	ctx     context.Context // of fetches; ends with Close
	stop    context.CancelFunc
	wg      sync.WaitGroup // fetches
	fetches chan struct{}  // holds a token per running fetch

	mu      sync.Mutex
	entries map[string]*entry // by key
	idle    *list.List        // of *entry without pins whose files are open, least recently used first
	shut    *list.List        // of *entry without pins whose files are closed, least recently used first; all were used before those of idle
	size    int64             // bytes of own files
	stray   map[string]int64  // files of an earlier process that no segment has asked for yet, by name
}

// entry is one segment. Its fields are guarded by Cache.mu; a loading entry belongs to its loader until loaded is closed.
type entry struct {
	key    string
	loaded chan struct{} // closed once the load ended
	err    error         // of the load; the entry is then out of the map
	parts  [2]part       // data, index
	value  any           // what Open gave; nil while the files are closed
	closed func() error
	pins   int
	item   *list.Element // in list; nil while pinned or loading
	list   *list.List    // idle or shut
}

// part is one extent as a local file.
type part struct {
	path string
	size int64
	own  bool // a file of the cache, not of the object store
}

// Open opens the cache, taking over the files that an earlier process left.
func Open(cfg Config) (*Cache, error) {
	if cfg.MaxSize <= 0 {
		cfg.MaxSize = DefaultMaxSize
	}
	if cfg.MaxOpen <= 0 {
		cfg.MaxOpen = DefaultMaxOpen
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Log = cfg.Log.With("component", "cache")
	c := &Cache{cfg: cfg, metrics: newMetrics(cfg.Registerer), fetches: make(chan struct{}, maxFetches),
		entries: map[string]*entry{}, idle: list.New(), shut: list.New(), stray: map[string]int64{}}
	c.ctx, c.stop = context.WithCancel(context.Background())
	if err := c.takeOver(); err != nil {
		return nil, millstream.Wrap(millstream.Unavailable, err, "cannot use the cache directory %s", cfg.Dir)
	}
	return c, nil
}

// takeOver counts the files that are there and removes unfinished ones.
func (c *Cache) takeOver() error {
	if err := os.MkdirAll(c.cfg.Dir, 0o700); err != nil {
		return err
	}
	files, err := os.ReadDir(c.cfg.Dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		path := filepath.Join(c.cfg.Dir, f.Name())
		info, err := f.Info()
		if err != nil || !f.Type().IsRegular() {
			continue
		}
		switch filepath.Ext(f.Name()) {
		case exts[0], exts[1]:
			c.stray[f.Name()] = info.Size()
			c.size += info.Size()
		case tmpExt:
			if err := os.Remove(path); err != nil {
				return err
			}
		}
	}
	c.metrics.bytes.Set(float64(c.size))
	return nil
}

// Handle pins a segment; Release it when done.
type Handle struct {
	cache *Cache
	entry *entry
	once  sync.Once
	// Cached says that the segment was on the local disk already.
	Cached bool
}

// Value is what Config.Open made of the segment.
func (h *Handle) Value() any { return h.entry.value }

// DataPath is the local file with exactly the segment's data extent. It exists until Release.
func (h *Handle) DataPath() string { return h.entry.parts[0].path }

// Release unpins the segment. Further calls do nothing.
func (h *Handle) Release() { h.once.Do(func() { h.cache.unpin(h.entry) }) }

// Get pins a segment, fetching it if it is not there. Several callers of one segment share a fetch, which goes on when one of them leaves.
func (c *Cache) Get(ctx context.Context, s millstream.Segment) (*Handle, error) {
	e, loaded, cached := c.pin(s)
	select {
	case <-loaded:
	case <-ctx.Done():
		c.unpin(e)
		return nil, ctx.Err()
	}
	if e.err != nil {
		c.unpin(e)
		return nil, e.err
	}
	if cached {
		c.metrics.hits.Inc()
	} else {
		c.metrics.misses.Inc()
	}
	return &Handle{cache: c, entry: e, Cached: cached}, nil
}

// Has says whether a segment is on the local disk already.
func (c *Cache) Has(s millstream.Segment) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[keyOf(s)]
	if e == nil {
		return c.present(s)
	}
	select {
	case <-e.loaded:
		return true
	default:
		return false
	}
}

// keyOf names an entry by content: a segment whose bytes are equal is the same.
func keyOf(s millstream.Segment) string { return s.Data.Checksum + s.Index.Checksum }

// pin finds or starts an entry and pins it; loaded is closed once it is usable, or has failed.
func (c *Cache) pin(s millstream.Segment) (e *entry, loaded <-chan struct{}, cached bool) {
	key := keyOf(s)
	c.mu.Lock()
	defer c.mu.Unlock()
	if e = c.entries[key]; e == nil {
		e = &entry{key: key, loaded: make(chan struct{}), pins: 1}
		c.entries[key] = e
		c.start(e, s)
		return e, e.loaded, c.present(s)
	}
	e.pins++
	if e.item != nil {
		e.list.Remove(e.item)
		e.item = nil
	}
	select {
	case <-e.loaded:
	default:
		return e, e.loaded, false
	}
	if e.value == nil { // its files were closed meanwhile
		e.loaded = make(chan struct{})
		c.start(e, s)
	}
	return e, e.loaded, true
}

// start loads an entry in the background. The loader holds a pin of its own.
func (c *Cache) start(e *entry, s millstream.Segment) {
	e.pins++
	c.wg.Add(1)
	go func() {
		defer c.wg.Done()
		ctx, cancel := context.WithTimeout(c.ctx, fetchTimeout)
		defer cancel()
		err := c.load(ctx, e, s)
		c.mu.Lock()
		if err != nil {
			e.err = fmt.Errorf("segment %s: %w", s.ID, err)
			delete(c.entries, e.key)
		}
		close(e.loaded)
		c.mu.Unlock()
		c.unpin(e)
		c.shrink()
	}()
}

// unpin gives a pin back; an entry without pins may be evicted.
func (c *Cache) unpin(e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.pins--; e.pins > 0 {
		return
	}
	if e.err != nil || c.entries[e.key] != e {
		c.drop(e)
		return
	}
	c.rest(e, c.idle)
	for c.idle.Len() > c.cfg.MaxOpen {
		old := c.idle.Front().Value.(*entry)
		c.idle.Remove(old.item)
		c.close(old)
		c.rest(old, c.shut)
	}
	for c.shut.Len() > maxShut {
		c.forgetEntry(c.shut.Front().Value.(*entry))
	}
}

// rest puts an entry at the end of a list.
func (c *Cache) rest(e *entry, l *list.List) { e.item, e.list = l.PushBack(e), l }

// forgetEntry removes an entry that is not pinned, and its files. The caller holds the lock.
func (c *Cache) forgetEntry(e *entry) {
	e.list.Remove(e.item)
	e.item = nil
	delete(c.entries, e.key)
	c.drop(e)
}

// Close ends running fetches and closes all files. Handles must have been released.
func (c *Cache) Close() error {
	c.stop()
	c.wg.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.entries {
		c.close(e)
	}
	c.entries, c.idle, c.shut = map[string]*entry{}, list.New(), list.New()
	return nil
}
