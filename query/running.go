package query

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/millstream/millstream"
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

	answer  Answer
	emitted bool // the sink has seen columns, so the query cannot begin anew
	counts  segmentCounts
}

// segmentCounts are the segments that the workers of a query opened. A statement may read one segment for several of its tables.
type segmentCounts struct {
	mu     sync.Mutex
	opened map[millstream.SegmentID]bool // whether it was on the local disk before the query
	missed map[millstream.SegmentID]bool // those that the query itself fetches ahead
}

// miss notes that a segment is not on the local disk and is being fetched for this query, whoever opens it first.
func (c *segmentCounts) miss(segments []millstream.Segment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range segments {
		c.missed[s.ID] = true
	}
}

func (c *segmentCounts) add(id millstream.SegmentID, cached bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.opened[id]; !ok {
		c.opened[id] = cached && !c.missed[id]
	}
}

func (c *segmentCounts) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opened, c.missed = map[millstream.SegmentID]bool{}, map[millstream.SegmentID]bool{}
}

func (c *segmentCounts) count() (opened, cached int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, was := range c.opened {
		if was {
			cached++
		}
	}
	return len(c.opened), cached
}

// reset forgets an attempt.
func (t *task) reset() {
	t.answer = Answer{Warnings: []string{}}
	t.answer.Stats.Nodes = 1
	t.counts.reset()
	t.progress.Sources.Store(0)
	t.progress.Rows.Store(0)
	t.progress.Bytes.Store(0)
	t.sources.Store(0)
}

// finish completes the answer.
func (t *task) finish(took time.Duration) {
	s := &t.answer.Stats
	s.TookMS = took.Milliseconds()
	opened, cached := t.counts.count()
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
	all map[string]*task
}

func newRunning(now func() time.Time) *running { return &running{now: now, all: map[string]*task{}} }

// start enters a query in the list; the context it gives ends when the query is canceled.
func (r *running) start(ctx context.Context, req Request) (context.Context, *task) {
	ctx, cancel := context.WithCancelCause(ctx)
	t := &task{Request: req, id: uuid.NewString(), started: r.now(), cancel: cancel}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all[t.id] = t
	return ctx, t
}

func (r *running) end(t *task) {
	t.cancel(nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, t.id)
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

func (r *running) cancel(org millstream.OrgID, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.all[id]
	if t == nil || t.Org != org {
		return millstream.Errorf(millstream.NotFound, "there is no running query %q", id)
	}
	t.cancel(errCanceled)
	return nil
}
