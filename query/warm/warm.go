// Package warm keeps a querier's cache warm: the indexes of the segments that the node owns are fetched before somebody asks, newest first and no faster than
// allowed, and merged segments as they are pushed.
package warm

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/cluster"
	"github.com/millstream/millstream/query/cache"
	"github.com/millstream/millstream/store"
)

// catalog lists segments; *store.Store fits.
type catalog interface {
	LiveSegments(ctx context.Context, after store.Place, most int) ([]millstream.Segment, error)
}

// Config is what a Warmer needs. Catalog, Cache, Placement and Self must be set; zeros are the defaults.
type Config struct {
	Catalog   catalog
	Cache     *cache.Cache
	Placement func() *cluster.Placement // the latest; the same one as long as it has not changed
	Self      millstream.NodeID
	Rate      int64         // bytes a second; 32 MiB
	Parallel  int           // fetches at a time; 4
	Every     time.Duration // between rounds over the whole share if nothing changes; 10 min
	Settle    time.Duration // from a change to what it causes, so that many cause it once; 1 s
	Now       func() time.Time

	Log        *slog.Logger
	Registerer prometheus.Registerer
}

const (
	page        = 500              // segments that are listed at once
	oldPages    = 2                // pages without anything new after which the newest are known
	mostMissing = 20_000           // segments that are remembered as missing at a time
	smallData   = 1 << 20          // of a pushed segment: so much data is fetched along
	pushTime    = 15 * time.Second // a push may take
)

// Warmer warms one node's cache. Make it with New; Run must run.
type Warmer struct {
	cfg     Config
	metrics *metrics
	budget  *budget
	changed chan struct{}
	round   atomic.Int64 // over the whole share: the last that ended
	mu      sync.Mutex
	share   Share
	of      *cluster.Placement // by which share was counted; only Run's goroutine changes it
}

// Share is how much of the node's share is there.
type Share struct {
	Segments int   // live ones that the node owns
	Warm     int   // of them, those whose index is on the disk
	Rounds   int64 // over the whole share, since the process began
	Moved    bool  // the placement has changed since: what the node owns now is not counted yet

	in, out int // segments that came and left since the pass before, by the placement's change
}

// Percent is how much of the share is warm; nil while the share is not known. A node that owns nothing is warm.
func (s Share) Percent() *float64 {
	if s.Rounds == 0 || s.Moved {
		return nil
	}
	percent := 100.0
	if s.Segments > 0 {
		percent *= float64(s.Warm) / float64(s.Segments)
	}
	return &percent
}

// New makes a warmer, which does nothing before Run.
func New(cfg Config) *Warmer {
	if cfg.Rate <= 0 {
		cfg.Rate = 32 << 20
	}
	if cfg.Parallel <= 0 {
		cfg.Parallel = 4
	}
	if cfg.Every <= 0 {
		cfg.Every = 10 * time.Minute
	}
	if cfg.Settle <= 0 {
		cfg.Settle = time.Second
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Log = cfg.Log.With("component", "warmer")
	return &Warmer{cfg: cfg, metrics: newMetrics(cfg.Registerer), budget: newBudget(cfg.Rate, cfg.Now), changed: make(chan struct{}, 1)}
}

// Changed says that segments were published. It does not block.
func (w *Warmer) Changed() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// Share is how the node's share stands.
func (w *Warmer) Share() Share {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.share
	s.Moved = w.of != w.cfg.Placement()
	return s
}

// Run warms until ctx ends: over the whole share at first, when the placement has changed and from time to time; when segments were published, over the newest. What
// fails is tried again.
func (w *Warmer) Run(ctx context.Context, ready func()) error {
	ready()
	var p *cluster.Placement
	var began time.Time
	failures := 0
	for whole := true; ; {
		placed := p
		p = w.cfg.Placement()
		if whole = whole || p != placed || w.cfg.Now().Sub(began) >= w.cfg.Every; whole {
			began = w.cfg.Now()
		}
		left, err := w.pass(ctx, p, whole)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			w.cfg.Log.Warn("indexes of segments could not be fetched ahead; it will be tried again", "error", err)
			w.Changed()
			failures++
		} else {
			whole, failures = left, 0
		}
		if !left && !w.rest(ctx, w.cfg.Settle<<min(failures, 6), p, began) {
			return nil
		}
	}
}

// rest waits until there may be something to do, and some time at least; false: ctx has ended.
func (w *Warmer) rest(ctx context.Context, some time.Duration, p *cluster.Placement, began time.Time) bool {
	tick := time.NewTicker(some)
	defer tick.Stop()
	changed := false
	for {
		select {
		case <-ctx.Done():
			return false
		case <-w.changed:
			changed = true
		case <-tick.C:
			if changed || w.cfg.Placement() != p || w.cfg.Now().Sub(began) >= w.cfg.Every {
				return true
			}
		}
	}
}

// pass looks for indexes that are missing, and fetches them. left says that there are more to be fetched, or others.
func (w *Warmer) pass(ctx context.Context, p *cluster.Placement, whole bool) (left bool, err error) {
	round := w.round.Load()
	if whole {
		round++
	}
	seen, missing, err := w.look(ctx, p, whole, round)
	if err != nil {
		return false, err
	}
	if whole {
		w.cfg.Cache.EndRound(round)
		w.round.Store(round)
		w.note(seen, p)
		w.metrics.moved.WithLabelValues("in").Add(float64(seen.in))
		w.metrics.moved.WithLabelValues("out").Add(float64(seen.out))
	}
	cut := len(missing) == mostMissing
	moved, full, err := w.fetch(ctx, p, missing, round, !whole)
	return (cut || moved) && !full, err
}

// look lists the live segments, newest first, all or as far as there is something new, and marks what the node owns. missing are those without an index here.
func (w *Warmer) look(ctx context.Context, p *cluster.Placement, whole bool, round int64) (seen Share, missing []millstream.Segment, err error) {
	var at store.Place
	for old := 0; ; {
		segments, err := w.cfg.Catalog.LiveSegments(ctx, at, page)
		if err != nil {
			return seen, nil, err
		}
		before := len(missing)
		for _, s := range segments {
			mine := w.owns(p, s.ID)
			if w.of != nil && w.of != p && w.owns(w.of, s.ID) != mine {
				if mine {
					seen.in++
				} else {
					seen.out++
				}
			}
			if !mine {
				continue
			}
			seen.Segments++
			if w.cfg.Cache.Has(s) {
				if _, err := w.cfg.Cache.Keep(ctx, s, round); err == nil {
					seen.Warm++
				}
			} else if len(missing) < mostMissing {
				missing = append(missing, s)
			}
		}
		if len(missing) == before {
			old++
		}
		if len(segments) < page || !whole && old == oldPages {
			return seen, missing, nil
		}
		at = store.Place{MaxTime: segments[len(segments)-1].MaxTime, ID: segments[len(segments)-1].ID}
	}
}

// owns says whether a segment is this node's by a placement.
func (w *Warmer) owns(p *cluster.Placement, id millstream.SegmentID) bool {
	owner, ok := p.Owner(cluster.SegmentKey(id))
	return ok && owner.Node == w.cfg.Self
}

// fetch has indexes fetched and kept, until the cache takes no more or the placement has moved. New ones were not counted in the share yet.
func (w *Warmer) fetch(ctx context.Context, p *cluster.Placement, missing []millstream.Segment, round int64, news bool) (moved, full bool, err error) {
	var filled atomic.Bool
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(w.cfg.Parallel)
	for _, s := range missing {
		moved = w.cfg.Placement() != p
		if moved || filled.Load() || w.budget.wait(gctx, s.Index.Length) != nil {
			break
		}
		g.Go(func() error {
			_, err := w.cfg.Cache.Keep(gctx, s, round)
			switch {
			case cache.Full(err):
				filled.Store(true)
			case errors.Is(err, cache.ErrGone): // merged away since it was listed
			case err != nil:
				return err
			default:
				w.metrics.bytes.Add(float64(s.Index.Length))
				w.add(news)
			}
			return nil
		})
	}
	err = errors.Join(g.Wait(), ctx.Err())
	return moved, filled.Load(), err
}

// note makes the share by a placement known.
func (w *Warmer) note(s Share, p *cluster.Placement) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.Rounds = w.round.Load()
	w.share, w.of = s, p
	w.show()
}

// add counts a segment that has become warm.
func (w *Warmer) add(news bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.share.Warm++
	if news {
		w.share.Segments++
	}
	w.show()
}

// show sets the gauges. The caller holds the lock.
func (w *Warmer) show() {
	s := w.share
	w.metrics.share.Set(float64(s.Segments))
	w.metrics.warm.Set(float64(s.Warm))
	if percent := s.Percent(); percent != nil {
		w.metrics.ratio.Set(*percent / 100)
	}
}

// Push takes a segment into the cache that the node is going to own, before it can be queried: its index and, if they are small, its data. It declines while it is
// at its rate, or the cache has no room for more indexes: then the segment is fetched when it is asked for.
func (w *Warmer) Push(ctx context.Context, s millstream.Segment) (accepted bool, err error) {
	size := s.Index.Length
	if s.Data.Length <= smallData {
		size += s.Data.Length
	}
	if !w.budget.take(size) {
		w.metrics.pushes.WithLabelValues("declined").Inc()
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, pushTime)
	defer cancel()
	_, err = w.cfg.Cache.Keep(ctx, s, w.round.Load()+1) // also if the round under way has listed the segments already
	if err == nil && size > s.Index.Length {
		err = w.complete(ctx, s)
	}
	switch {
	case cache.Full(err):
		w.metrics.pushes.WithLabelValues("declined").Inc()
		return false, nil
	case err != nil:
		w.metrics.pushes.WithLabelValues("failed").Inc()
		return false, err
	}
	w.metrics.pushes.WithLabelValues("accepted").Inc()
	w.metrics.bytes.Add(float64(size))
	return true, nil
}

func (w *Warmer) complete(ctx context.Context, s millstream.Segment) error {
	h, err := w.cfg.Cache.Get(ctx, s)
	if err != nil {
		return err
	}
	defer h.Release()
	return h.Complete(ctx)
}
