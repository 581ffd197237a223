package ingest

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/cluster"
	"github.com/millstream/millstream/store"
)

// Holder is the node that holds a WAL, as other nodes see it. *Writer and *rpc.Client fit.
type Holder interface {
	Runs(ctx context.Context, a Ask, emit func(Run) error) (Reach, error)
	Pending(ctx context.Context, a PendingAsk) (map[millstream.StreamID]Pending, error)
	Metadata(ctx context.Context, id millstream.WALID, org millstream.OrgID) ([]millstream.Metadata, error)
	Subscribe(ctx context.Context, stream millstream.StreamID, emit func(Tailed) error) error
}

// Dial gives the holder of a registered WAL. It need not be reached yet: then the first call fails.
type Dial func(w store.WALState) (Holder, error)

// viewer is what a Mirror knows of the members; *cluster.Membership fits.
type viewer interface{ View() *cluster.View }

const (
	// mirrorLimit is the default of MirrorConfig.Limit.
	mirrorLimit = 256 << 20
	// mirrorPatience is how long a reader waits for a holder from which nothing comes; impatience, after it was waited for in vain.
	mirrorPatience   = 5 * time.Second
	mirrorImpatience = 500 * time.Millisecond
	// mirrorIdle is how long a stream is kept that nobody reads.
	mirrorIdle = 2 * time.Minute
)

// MirrorConfig says what a Mirror works with. On a node that is alone everything but Writer may be left out.
type MirrorConfig struct {
	Writer  *Writer // this node's; nil if it has none
	Dial    Dial    // nil: other nodes' rows are missing
	Members viewer  // whose batches a live tail follows; nil: this node's alone
	Limit   int64   // bytes that are kept of other nodes' rows; 256 MiB
	TempDir string  // for segments of other nodes; they have no names in it and vanish with the process
	Log     *slog.Logger

	Registerer prometheus.Registerer
	Now        func() time.Time
}

// Mirror gives queries the unflushed rows of all nodes. Those of this node are its Writer's; those of others are copied when a query first needs them and kept, so
// that each row crosses the wire about once and a query reads it as the source that it would be at home. It is safe for concurrent use.
type Mirror struct {
	cfg      MirrorConfig
	log      *slog.Logger
	metrics  mirrorMetrics
	patience time.Duration // tests shorten these

	followEvery time.Duration

	mu      sync.Mutex // guards what follows, entries, flights and the counts of spools; never held over I/O
	flights uint64     // how many were begun
	entries map[entryKey]*entry
	used    *list.List // of *entry, the last used last
	size    int64
	silent  map[millstream.WALID]bool // whose holders were waited for in vain
}

// NewMirror makes a Mirror.
func NewMirror(cfg MirrorConfig) *Mirror {
	if cfg.Limit == 0 {
		cfg.Limit = mirrorLimit
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Mirror{
		cfg: cfg, log: cfg.Log.With("component", "mirror"), metrics: newMirrorMetrics(cfg.Registerer), patience: mirrorPatience, followEvery: followEvery,
		entries: map[entryKey]*entry{}, used: list.New(), silent: map[millstream.WALID]bool{},
	}
}

// Missing is a WAL whose unflushed rows cannot be told, and why.
type Missing struct {
	WAL store.WALState
	Err error
}

// Hold is the local writer's; see there.
func (m *Mirror) Hold() (release func()) {
	if m.cfg.Writer == nil {
		return func() {}
	}
	return m.cfg.Writer.Hold()
}

// Unflushed gives add the rows of streams above the positions that a snapshot has of the WALs: every row that was acknowledged before the call. It is ErrStale if
// rows are gone, so that a new snapshot has them in segments. A WAL that cannot tell is missing; what was given of it may be a part. What add was given is good
// until the Hold and release, if it is not nil, are called.
func (m *Mirror) Unflushed(ctx context.Context, wals []store.WALState, streams []millstream.StreamID, add func(stream int, u Unflushed)) (missing []Missing, release func(), err error) {
	answers, release := m.others(ctx, wals, streams)
	for i, w := range wals {
		switch {
		case w.Clean:
			continue
		case m.own(w.ID):
			err = m.cfg.Writer.unflushed(ctx, w, streams, add)
		default:
			err = answers[i].give(add)
		}
		switch {
		case err == nil:
		case errors.Is(err, ErrStale), ctx.Err() != nil:
			if release != nil {
				release()
			}
			return nil, nil, err
		default:
			missing = append(missing, Missing{w, err})
		}
	}
	return missing, release, nil
}

// unflushed gives the rows of streams above a snapshot's position.
func (w *Writer) unflushed(ctx context.Context, at store.WALState, streams []millstream.StreamID, add func(stream int, u Unflushed)) error {
	for i, id := range streams {
		u, err := w.Unflushed(ctx, at.ID, id, at.Position)
		if err != nil {
			return err
		}
		add(i, u)
	}
	return nil
}

func (m *Mirror) own(id millstream.WALID) bool {
	return m.cfg.Writer != nil && m.cfg.Writer.WAL() == id
}

// others reads the WALs of other nodes, side by side; nil if there are none.
func (m *Mirror) others(ctx context.Context, wals []store.WALState, streams []millstream.StreamID) ([]answer, func()) {
	var out []answer
	var reads sync.WaitGroup
	for i, w := range wals {
		if w.Clean || m.own(w.ID) {
			continue
		}
		if out == nil {
			out = make([]answer, len(wals))
		}
		reads.Go(func() { out[i] = m.read(ctx, w, streams) })
	}
	if out == nil {
		return nil, nil
	}
	reads.Wait()
	return out, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, a := range out {
			a.drop()
		}
	}
}

// answer is what a query has of a WAL: for each stream its pieces, each held once.
type answer struct {
	streams [][]*piece
	err     error
}

func (a *answer) give(add func(stream int, u Unflushed)) error {
	for i, pieces := range a.streams {
		var u Unflushed
		for _, p := range pieces {
			p.source(&u)
		}
		add(i, u)
	}
	return a.err
}

// drop gives the pieces back. The caller holds mu.
func (a *answer) drop() {
	for _, pieces := range a.streams {
		dropAll(pieces)
	}
}

type entryKey struct {
	wal    millstream.WALID
	stream millstream.StreamID
}

// entry is what is kept of one stream of a WAL: every row in (low, high].
type entry struct {
	entryKey
	incarnation int64
	low, high   millstream.LSN
	pieces      []*piece // in the order of writing; the slice is replaced, never changed
	size        int64
	flight      *flight // that brings more; nil if none is under way
	brought     uint64  // the number of the flight that brought the last
	usedAt      time.Time
	place       *list.Element
}

// entry finds or makes an entry, and notes its use. The caller holds mu.
func (m *Mirror) entry(k entryKey) *entry {
	e := m.entries[k]
	if e == nil {
		e = &entry{entryKey: k}
		e.place = m.used.PushBack(e)
		m.entries[k] = e
	}
	m.used.MoveToBack(e.place)
	e.usedAt = m.cfg.Now()
	return e
}

// keep puts pieces in the place of what an entry has. The caller holds mu.
func (m *Mirror) keep(e *entry, pieces []*piece) {
	holdAll(pieces)
	dropAll(e.pieces)
	m.size -= e.size
	e.pieces, e.size = pieces, 0
	for _, p := range pieces {
		e.size += p.size
	}
	m.size += e.size
}

// evict forgets the entries that were used least, as long as too much is kept, and those that nobody uses. The caller holds mu.
func (m *Mirror) evict() {
	before := m.cfg.Now().Add(-mirrorIdle)
	for at := m.used.Front(); at != nil; {
		e := at.Value.(*entry)
		at = at.Next()
		if m.size <= m.cfg.Limit && e.usedAt.After(before) {
			break
		}
		if e.flight == nil {
			m.keep(e, nil)
			m.used.Remove(e.place)
			delete(m.entries, e.entryKey)
		}
	}
	m.metrics.kept.Set(float64(m.size))
}

// alone is the WAL of a node that is alone.
func (m *Mirror) alone() []store.WALState {
	w := m.cfg.Writer
	if w == nil {
		return nil
	}
	return []store.WALState{{ID: w.WAL(), Node: w.cfg.Node}}
}

const (
	// askPatience is how long a holder may take for a small question; askImpatience, one that was waited for in vain.
	askPatience   = 2 * time.Second
	askImpatience = 200 * time.Millisecond
)

// ask puts a question to the holders of WALs, side by side, and gives what they say to add, one after the other. It says which did not tell, and why.
func ask[T any](ctx context.Context, m *Mirror, wals []store.WALState, question func(context.Context, Holder, millstream.WALID) (T, error), add func(T)) (missing []Missing) {
	answers, errs := make([]T, len(wals)), make([]error, len(wals))
	var asking sync.WaitGroup
	for i, w := range wals {
		asking.Go(func() {
			h, err := m.holder(w)
			if err != nil {
				errs[i] = err
				return
			}
			ctx, cancel := context.WithTimeout(ctx, m.askPatience(w.ID))
			defer cancel()
			answers[i], errs[i] = question(ctx, h, w.ID)
			m.heard(w.ID, !errors.Is(ctx.Err(), context.DeadlineExceeded))
		})
	}
	asking.Wait()
	for i, err := range errs {
		if err != nil {
			m.log.Warn("a node did not tell what it has not flushed", "node", wals[i].Node, "wal", wals[i].ID, "error", err)
			missing = append(missing, Missing{wals[i], err})
			continue
		}
		add(answers[i])
	}
	return missing
}

// holder is this node's writer, or another node.
func (m *Mirror) holder(w store.WALState) (Holder, error) {
	switch {
	case m.own(w.ID):
		return m.cfg.Writer, nil
	case m.cfg.Dial == nil:
		return nil, fmt.Errorf("WAL %s is not this node's: %w", w.ID, ErrNotReady)
	}
	return m.cfg.Dial(w)
}

func (m *Mirror) askPatience(id millstream.WALID) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.silent[id] {
		return askImpatience
	}
	return askPatience
}

// heard notes whether a holder answered in time.
func (m *Mirror) heard(id millstream.WALID, inTime bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if inTime {
		delete(m.silent, id)
	} else {
		m.silent[id] = true
	}
}
