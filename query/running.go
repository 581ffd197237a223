package query

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query/cache"
	"github.com/millstream/millstream/query/scan"
)

// task is one running query and what is known of its answer so far. Only progress is touched by other goroutines.
type task struct {
	Request
	id       string
	started  time.Time
	cancel   context.CancelCauseFunc
	progress scan.Progress
	sources  atomic.Int64

	pruned atomic.Int64 // segments that other nodes opened in vain

	answer  Answer
	emitted bool // the sink has seen columns, so the query cannot begin anew
	counts  segmentCounts
}

// segmentCounts are the segments that the workers of a query opened. A statement may read one segment for several of its tables, and ask its owner several times.
type segmentCounts struct {
	mu     sync.Mutex
	opened map[millstream.SegmentID]openSegment
	missed map[millstream.SegmentID]bool                              // those that the query itself fetches ahead
	nodes  map[millstream.NodeID]map[millstream.SegmentID]readSegment // by other nodes that took part
}

// readSegment is a segment that a node opened for a query.
type readSegment struct {
	ID      millstream.SegmentID
	Cached  bool  // what was read of it was on the local disk before the query
	Fetched int64 // bytes, else
}

// openSegment is a segment that this node opened. What was fetched of it is known when it has been read.
type openSegment struct {
	had    bool // its index was on the local disk
	meters []*cache.Meter
}

func (o openSegment) read(id millstream.SegmentID) readSegment {
	n := cache.Fetched(o.meters...)
	return readSegment{ID: id, Cached: o.had && n == 0, Fetched: n}
}

// miss notes that a segment is not on the local disk and is being fetched for this query, whoever opens it first.
func (c *segmentCounts) miss(segments []millstream.Segment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range segments {
		c.missed[s.ID] = true
	}
}

func (c *segmentCounts) add(id millstream.SegmentID, h *cache.Handle) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o, again := c.opened[id]
	switch {
	case again:
	case c.missed[id]: // what was fetched ahead counts
		o.meters = append(o.meters, h.Meter().Stay())
	default:
		o.had = h.Cached
	}
	o.meters = append(o.meters, h.Meter())
	c.opened[id] = o
}

// own are the segments that this node opened.
func (c *segmentCounts) own() []readSegment {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.read()))
}

// read is what this node read. The caller holds the lock.
func (c *segmentCounts) read() map[millstream.SegmentID]readSegment {
	out := make(map[millstream.SegmentID]readSegment, len(c.opened))
	for id, o := range c.opened {
		out[id] = o.read(id)
	}
	return out
}

// took adds what another node opened. What it opened before for this query was on its disk if it was each time.
func (c *segmentCounts) took(node millstream.NodeID, read []readSegment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.nodes[node]
	if all == nil {
		all = map[millstream.SegmentID]readSegment{}
		c.nodes[node] = all
	}
	for _, s := range read {
		if before, ok := all[s.ID]; ok {
			s.Cached, s.Fetched = s.Cached && before.Cached, s.Fetched+before.Fetched
		}
		all[s.ID] = s
	}
}

// parts are what each node did, this one first.
func (c *segmentCounts) parts(self millstream.NodeID) []NodePart {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := []NodePart{partOf(self, c.read())}
	for node, read := range c.nodes {
		out = append(out, partOf(node, read))
	}
	slices.SortFunc(out[1:], func(a, b NodePart) int { return cmp.Compare(a.Node, b.Node) })
	return out
}

func partOf(node millstream.NodeID, read map[millstream.SegmentID]readSegment) NodePart {
	p := NodePart{Node: node, Segments: len(read)}
	for _, s := range read {
		if s.Cached {
			p.Cached++
		}
		p.FetchedBytes += s.Fetched
	}
	return p
}

func (c *segmentCounts) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opened, c.missed = map[millstream.SegmentID]openSegment{}, map[millstream.SegmentID]bool{}
	c.nodes = map[millstream.NodeID]map[millstream.SegmentID]readSegment{}
}

// count is how many segments were opened, on whatever nodes, and how many of them from a local disk each time.
func (c *segmentCounts) count() (opened, cached int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.read()
	for _, read := range c.nodes {
		for id, s := range read {
			if before, ok := all[id]; ok {
				s.Cached = s.Cached && before.Cached
			}
			all[id] = s
		}
	}
	return len(all), partOf("", all).Cached
}

// reset forgets an attempt.
func (t *task) reset() {
	t.answer = Answer{Warnings: []string{}}
	t.answer.Stats.Nodes = 1
	t.counts.reset()
	t.progress.Sources.Store(0)
	t.progress.Pruned.Store(0)
	t.progress.Rows.Store(0)
	t.progress.Bytes.Store(0)
	t.sources.Store(0)
	t.pruned.Store(0)
}

// finish completes the answer.
func (t *task) finish(took time.Duration) {
	s := &t.answer.Stats
	s.TookMS = took.Milliseconds()
	opened, cached := t.counts.count()
	s.Segments.Pruned += int(t.pruned.Load())
	s.Segments.Scanned = max(0, opened-s.Segments.Pruned)
	s.Segments.Pruned = max(0, s.Segments.Total-s.Segments.Scanned)
	s.Segments.Cached = min(cached, s.Segments.Scanned)
	t.answer.Partial = len(t.answer.Reasons) > 0
}

func (t *task) warn(text string) {
	if !slices.Contains(t.answer.Warnings, text) {
		t.answer.Warnings = append(t.answer.Warnings, text)
	}
}

func (t *task) partial(reason string) {
	if !slices.Contains(t.answer.Reasons, reason) {
		t.answer.Reasons = append(t.answer.Reasons, reason)
	}
}

// running is the list of queries that have not ended.
type running struct {
	now func() time.Time
	mu  sync.Mutex
	all map[taskKey]*task
}

// taskKey is a query's name; a client that names its own cannot meet another organization's.
type taskKey struct {
	org millstream.OrgID
	id  string
}

func newRunning(now func() time.Time) *running {
	return &running{now: now, all: map[taskKey]*task{}}
}

// start enters a query in the list; the context it gives ends when the query is canceled or stopped. An id that is in use is a Conflict.
func (r *running) start(ctx context.Context, req Request) (context.Context, *task, error) {
	t := &task{Request: req, id: cmp.Or(req.ID, uuid.NewString()), started: r.now()}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all[t.key()] != nil {
		return ctx, nil, millstream.Errorf(millstream.Conflict, "a query with the id %q is running: give each query an id of its own", t.id)
	}
	t.reset()
	ctx, t.cancel = context.WithCancelCause(ctx)
	r.all[t.key()] = t
	return ctx, t, nil
}

func (t *task) key() taskKey { return taskKey{t.Org, t.id} }

func (r *running) end(t *task) {
	t.cancel(nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, t.key())
}

// progress is what a running query has done so far; false if there is none of the id.
func (r *running) progress(org millstream.OrgID, id string) (p Progress, ok bool) {
	r.mu.Lock()
	t := r.all[taskKey{org, id}]
	r.mu.Unlock()
	if t == nil {
		return p, false
	}
	_, cached := t.counts.count()
	total := t.sources.Load()
	return Progress{
		Segments: ProgressSegments{Done: min(t.progress.Sources.Load(), total), Total: total, Pruned: t.progress.Pruned.Load()},
		Rows:     t.progress.Rows.Load(), Bytes: t.progress.Bytes.Load(), Cached: cached, Nodes: 1, ElapsedMS: r.now().Sub(t.started).Milliseconds(),
	}, true
}

func (r *running) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.all)
}

func (r *running) list(org millstream.OrgID) []Running {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := []Running{}
	for _, t := range r.all {
		if t.Org == org {
			out = append(out, Running{
				ID: t.id, Org: t.Org, User: t.User, Language: t.Language, Statement: t.Statement, Started: t.started, Sources: t.sources.Load(),
				SourcesDone: t.progress.Sources.Load(), ScannedRows: t.progress.Rows.Load(), ScannedBytes: t.progress.Bytes.Load(),
			})
		}
	}
	slices.SortFunc(out, func(a, b Running) int {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// cancel ends a query's context with a cause.
func (r *running) cancel(org millstream.OrgID, id string, cause error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.all[taskKey{org, id}]
	if t == nil {
		return millstream.Errorf(millstream.NotFound, "there is no running query %q", id)
	}
	t.cancel(cause)
	return nil
}
