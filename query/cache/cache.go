// Package cache keeps segments on the local disk, as much of each as is read, and open for reading.
//
// A segment's index is fetched whole; of its data the blocks that somebody reads. Every byte is checked when it is first read in a process, DESIGN.md tells
// against what. Segments in use are pinned; of the others the data of the least recently used goes first, and the indexes that the node is to keep go last. What
// the object store already holds as a file of its own on this machine is read in place and takes no room.
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
	"sync/atomic"
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
	Open func(s millstream.Segment, data, index File) (any, error)
	// Lost is told of a segment whose index is gone or not what the catalog says, also when it is fetched again; nil: nobody is.
	Lost       func(ctx context.Context, s millstream.Segment)
	Log        *slog.Logger
	Registerer prometheus.Registerer
}

// Defaults of Config.
const (
	DefaultMaxSize = 10 << 30
	DefaultMaxOpen = 256
)

const (
	maxFetches   = 16              // fetches at a time
	fetchTimeout = 2 * time.Minute // a fetch goes on when the query that started it has gone
	maxInPlace   = 64 << 10        // closed segments of local objects that are remembered as checked
)

// ErrGone is a segment whose object is no longer there: it was merged away and deleted.
var ErrGone = millstream.Errorf(millstream.NotFound, "the segment's object is gone")

// Bucket is what the cache reads objects from.
type Bucket interface {
	Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error)
}

// placed is a bucket whose objects are local files.
type placed interface{ Path(key string) string }

// File is one extent of a segment. That of the data may be a *Blocks, which fetches what is read.
type File struct {
	io.ReaderAt
	Size int64
}

// Cache keeps segments. It is safe for concurrent use.
type Cache struct {
	cfg     Config
	metrics *cacheMetrics
	lock    *os.File        // keeps other processes off the directory
	ctx     context.Context // of fetches; ends with Close
	stop    context.CancelFunc
	wg      sync.WaitGroup // fetches
	fetches chan struct{}  // holds a token per running fetch

	mu      sync.Mutex
	entries map[string]*entry  // by key
	idle    list.List          // entries without pins whose files are open, least recently used first
	rest    [classes]list.List // entries without pins by what may be removed of them, least recently used first
	size    int64              // bytes of own files
	kept    int64              // of these, bytes of indexes that are to be kept
	round   int64              // of Keep; 0 before the first one has ended
}

// entry is one segment. Its fields are guarded by Cache.mu.
type entry struct {
	key     string
	pins    int
	load    *load       // under way; nil: none
	value   any         // what Open gave; nil while the files are closed
	files   []io.Closer // that are open
	blocks  *Blocks     // of the data; nil while it is closed, or read in place
	checked [2]bool     // what lies here of data and index was compared with the catalog in this process
	onDisk  [2]int64    // bytes of own files of data and index
	round   int64       // the last round of Keep that named it
	open    place       // in idle
	at      place       // in rest

	fetched *atomic.Int64 // bytes, since the entry was made; of its own, because meters outlive the entry
}

func newEntry(key string) *entry { return &entry{key: key, fetched: new(atomic.Int64)} }

// load is the opening of a segment's files, or only the fetch of its index; its results are there once done is closed.
type load struct {
	done   chan struct{}
	value  any
	blocks *Blocks
	err    error
}

// Open opens the cache, taking over the files that an earlier process left. A directory serves one process at a time.
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
	dir, err := filepath.Abs(cfg.Dir) // the SQL engine, which is told of files in it, works in another directory
	if err != nil {
		return nil, millstream.Wrap(millstream.Unavailable, err, "cannot use the cache directory %s", cfg.Dir)
	}
	cfg.Dir = dir
	held, err := lock(cfg.Dir)
	if err != nil {
		return nil, err
	}
	c := &Cache{cfg: cfg, metrics: newMetrics(cfg.Registerer), lock: held, fetches: make(chan struct{}, maxFetches), entries: map[string]*entry{}}
	c.ctx, c.stop = context.WithCancel(context.Background())
	if err := c.takeOver(); err != nil {
		_ = held.Close()
		return nil, millstream.Wrap(millstream.Unavailable, err, "cannot use the cache directory %s", cfg.Dir)
	}
	return c, nil
}

// Handle pins a segment; Release it when done.
type Handle struct {
	cache  *Cache
	entry  *entry
	data   millstream.Extent
	value  any
	blocks *Blocks // nil: the data is read in place
	once   sync.Once
	meter  *Meter
	// Cached says that the segment's index was on the local disk already.
	Cached bool
}

// Value is what Config.Open made of the segment.
func (h *Handle) Value() any { return h.value }

// Meter tells what is fetched of the segment.
func (h *Handle) Meter() *Meter { return h.meter }

// Release unpins the segment. Further calls do nothing.
func (h *Handle) Release() {
	h.once.Do(func() {
		if h.Cached && Fetched(h.meter) == 0 {
			h.cache.metrics.hits.Inc()
		} else {
			h.cache.metrics.misses.Inc()
		}
		h.meter.end()
		h.cache.unpin(h.entry)
	})
}

// Get pins a segment, fetching its index if it is not there. Several callers of one segment share a fetch, which goes on when one of them leaves.
func (c *Cache) Get(ctx context.Context, s millstream.Segment) (*Handle, error) {
	e, cached := c.pin(s)
	h := &Handle{cache: c, entry: e, data: s.Data, meter: newMeter(e.fetched), Cached: cached}
	for h.value == nil { // a load under way may be one that opens nothing
		l, err := c.await(ctx, e, s, true)
		if err != nil {
			c.unpin(e)
			return nil, err
		}
		h.value, h.blocks = l.value, l.blocks
	}
	if h.blocks != nil {
		h.blocks.told(s.Data)
	}
	return h, nil
}

// Has says whether a segment's index is on the local disk already.
func (c *Cache) Has(s millstream.Segment) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[keyOf(s)]
	return e != nil && e.onDisk[indexFile] > 0 || c.whole(s.Index)
}

// keyOf names an entry by content: a segment whose bytes are equal is the same.
func keyOf(s millstream.Segment) string { return s.Data.Checksum + s.Index.Checksum }

// pin finds or makes the entry of a segment and pins it.
func (c *Cache) pin(s millstream.Segment) (e *entry, cached bool) {
	key := keyOf(s)
	c.mu.Lock()
	defer c.mu.Unlock()
	if e = c.entries[key]; e == nil {
		e = newEntry(key)
		c.entries[key] = e
	}
	c.hold(e)
	return e, e.onDisk[indexFile] > 0 || c.whole(s.Index)
}

// hold adds a pin. The caller holds the lock.
func (c *Cache) hold(e *entry) {
	e.pins++
	e.open.leave()
	e.at.leave()
}

// await waits until a pinned entry is open, or, if that is all that is asked, has its index; it starts what is missing. The value is nil if the load that it found
// under way was one that opens nothing.
func (c *Cache) await(ctx context.Context, e *entry, s millstream.Segment, open bool) (*load, error) {
	c.mu.Lock()
	if e.load == nil {
		if e.value != nil || !open && (e.onDisk[indexFile] > 0 || c.whole(s.Index)) {
			defer c.mu.Unlock()
			return &load{value: e.value, blocks: e.blocks}, nil
		}
		c.start(e, s, open)
	}
	l := e.load
	c.mu.Unlock()
	select {
	case <-l.done:
		return l, l.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// start loads an entry in the background, with a pin of its own. The caller holds the lock.
func (c *Cache) start(e *entry, s millstream.Segment, open bool) {
	l := &load{done: make(chan struct{})}
	e.load = l
	c.hold(e)
	c.wg.Go(func() {
		ctx, cancel := context.WithTimeout(c.ctx, fetchTimeout)
		defer cancel()
		if l.err = c.load(ctx, e, s, open); l.err != nil {
			l.err = fmt.Errorf("segment %s: %w", s.ID, l.err)
		}
		c.mu.Lock()
		l.value, l.blocks, e.load = e.value, e.blocks, nil
		c.mu.Unlock()
		close(l.done)
		c.unpin(e)
		c.shrink()
	})
}

// unpin gives a pin back; an entry without pins may be evicted.
func (c *Cache) unpin(e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.pins--; e.pins > 0 {
		return
	}
	c.settle(e)
	if e.value != nil {
		e.open.enter(&c.idle, e)
	}
	for c.idle.Len() > c.cfg.MaxOpen {
		c.close(c.idle.Front().Value.(*entry))
	}
	for c.rest[inPlace].Len() > maxInPlace {
		c.forget(c.rest[inPlace].Front().Value.(*entry))
	}
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
	clear(c.entries)
	return c.lock.Close()
}
