package ingest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/store"
)

// flight is one asking of a WAL for some streams. Queries that want the same share it, but only those that came before it began: else a row could be missing that
// was acknowledged after the holder had answered and before the query came. A stream is in one flight at a time.
type flight struct {
	number  uint64
	wal     store.WALState // with the position above which rows were asked for
	entries []*entry
	cancel  context.CancelFunc
	done    chan struct{}

	// guarded by Mirror.mu
	waiters  int
	canceled bool // the last waiter left
	err      error
	results  map[millstream.StreamID][]*piece // held until the last waiter has left
}

// read gives what a WAL has of streams above its position.
func (m *Mirror) read(ctx context.Context, w store.WALState, streams []millstream.StreamID) answer {
	a := answer{streams: make([][]*piece, len(streams))}
	if m.cfg.Dial == nil {
		_, a.err = m.holder(w)
		return a
	}
	todo := make([]int, len(streams))
	for i := range todo {
		todo[i] = i
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	arrived := m.flights
	for {
		todo = slices.DeleteFunc(todo, func(i int) bool { return m.fresh(&a, i, w, streams[i], arrived) })
		if len(todo) == 0 || a.err != nil {
			return a
		}
		mine, others := m.board(w, streams, todo, arrived)
		m.mu.Unlock()
		err := wait(ctx, mine, others)
		m.mu.Lock()
		todo = slices.DeleteFunc(todo, func(i int) bool { return m.take(&a, i, w, streams[i], mine) })
		for _, f := range mine {
			m.leave(f)
		}
		if err != nil && a.err == nil {
			a.err = err
		}
	}
}

// fresh gives what is kept of a stream, if a flight brought it that began after the query arrived. The caller holds mu.
func (m *Mirror) fresh(a *answer, i int, w store.WALState, stream millstream.StreamID, arrived uint64) bool {
	e := m.entries[entryKey{w.ID, stream}]
	if e == nil || e.brought <= arrived || w.Position < e.low || w.Position > e.high {
		return false
	}
	pieces, ok := above(e.pieces, w.Position)
	if ok {
		holdAll(pieces)
		a.streams[i] = pieces
	}
	return ok
}

// board finds a flight for each stream: one that others began after the query arrived, or a new one; mine are those whose results the query takes. Others
// are in the way and must end first. The caller holds mu.
func (m *Mirror) board(w store.WALState, streams []millstream.StreamID, todo []int, arrived uint64) (mine, others []*flight) {
	own := &flight{wal: w, done: make(chan struct{})}
	enter := func(list *[]*flight, f *flight) {
		if !slices.Contains(*list, f) {
			*list = append(*list, f)
		}
	}
	for _, i := range todo {
		e := m.entry(entryKey{w.ID, streams[i]})
		switch f := e.flight; {
		case f == nil:
			e.flight = own
			own.entries = append(own.entries, e)
		case f == own:
		case f.number > arrived && f.wal.Position <= w.Position && !f.canceled:
			enter(&mine, f)
		default:
			enter(&others, f)
		}
	}
	if len(own.entries) > 0 {
		enter(&mine, own)
		m.begin(own)
	}
	for _, f := range mine {
		f.waiters++
	}
	return mine, others
}

// begin starts a flight. It ends when it has what it was to bring, when nothing comes any more, or when nobody waits for it. The caller holds mu.
func (m *Mirror) begin(f *flight) {
	m.flights++
	f.number = m.flights
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	patience := m.patience
	if m.silent[f.wal.ID] {
		patience = min(patience, mirrorImpatience)
	}
	base := make([]keptRows, len(f.entries))
	for i, e := range f.entries {
		base[i] = e.above(f.wal)
	}
	go m.fly(ctx, f, base, patience)
}

// keptRows is what an entry has that a flight need not bring. The entry holds it as long as it is in flight.
type keptRows struct {
	pieces []*piece
	have   millstream.LSN
}

// above is what is kept of the rows above a WAL's position.
func (e *entry) above(w store.WALState) keptRows {
	if e.incarnation == w.Incarnation && e.low <= w.Position && w.Position <= e.high {
		if pieces, ok := above(e.pieces, w.Position); ok {
			return keptRows{pieces, e.high}
		}
	}
	return keptRows{have: w.Position}
}

// wait waits until flights have ended.
func wait(ctx context.Context, lists ...[]*flight) error {
	for _, list := range lists {
		for _, f := range list {
			select {
			case <-f.done:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return nil
}

// take moves a stream's rows from the flight that brought them to an answer; false if none has and it must be tried again. The caller holds mu.
func (m *Mirror) take(a *answer, i int, w store.WALState, stream millstream.StreamID, mine []*flight) bool {
	for _, f := range mine {
		if !slices.ContainsFunc(f.entries, func(e *entry) bool { return e.stream == stream }) {
			continue
		}
		switch {
		case f.results == nil && f.err == nil: // the query does not wait for it any more
			return false
		case errors.Is(f.err, ErrStale) && f.wal.Position != w.Position: // for the other query
			return false
		case f.err != nil:
			a.err = f.err
			return true
		}
		pieces, ok := above(f.results[stream], w.Position)
		if ok {
			holdAll(pieces)
			a.streams[i] = pieces
		}
		return ok
	}
	return false
}

// leave ends a query's interest in a flight. The caller holds mu.
func (m *Mirror) leave(f *flight) {
	if f.waiters--; f.waiters > 0 {
		return
	}
	f.canceled = true
	f.cancel()
	f.dropResults()
}

func (f *flight) dropResults() {
	for _, pieces := range f.results {
		dropAll(pieces)
	}
	f.results = nil
}

// fly asks the holder and keeps what it gives.
func (m *Mirror) fly(ctx context.Context, f *flight, base []keptRows, patience time.Duration) {
	got, reach, err := m.fetch(ctx, f, base, patience)
	if errors.Is(err, errMisfit) {
		for i := range base {
			base[i] = keptRows{have: f.wal.Position}
		}
		got, reach, err = m.fetch(ctx, f, base, patience)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.silent, f.wal.ID)
	if errors.Is(err, errSilent) {
		m.silent[f.wal.ID] = true
	}
	f.err = err
	for i, e := range f.entries {
		e.flight = nil
		if err == nil {
			e.incarnation, e.low, e.high, e.brought = reach.Incarnation, f.wal.Position, reach.To, f.number
			m.keep(e, got[i])
		}
	}
	if err == nil && f.waiters > 0 {
		f.results = make(map[millstream.StreamID][]*piece, len(got))
		for i, e := range f.entries {
			holdAll(got[i])
			f.results[e.stream] = got[i]
		}
	}
	m.evict()
	f.cancel()
	close(f.done)
}

// errSilent: nothing came from a holder for too long.
var errSilent = errors.New("the node does not answer")

// fetch asks a WAL's holder for what is not kept, and gives all that there is of each of the flight's streams.
func (m *Mirror) fetch(ctx context.Context, f *flight, base []keptRows, patience time.Duration) (out [][]*piece, reach Reach, err error) {
	holder, err := m.holder(f.wal)
	if err != nil {
		return nil, reach, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(patience, func() { cancel(errSilent) })
	defer late.Stop()
	ask := Ask{WAL: f.wal.ID, Incarnation: f.wal.Incarnation, Above: f.wal.Position, Streams: make([]StreamAsk, len(base))}
	for i, e := range f.entries {
		ask.Streams[i] = StreamAsk{Stream: e.stream, Have: base[i].have, Segments: segmentsOf(base[i].pieces)}
	}
	var got []*piece
	var of []millstream.StreamID
	m.metrics.asks.Inc()
	reach, err = holder.Runs(ctx, ask, func(r Run) error {
		p, err := newPiece(r, m.cfg.TempDir, func(n int) {
			late.Reset(patience)
			m.metrics.fetched.Add(float64(n))
		})
		got, of = append(got, p), append(of, r.Stream)
		return err
	})
	if err == nil {
		out, err = assemble(f, base, got, of, reach.Incarnation == ask.Incarnation)
	}
	if err != nil {
		m.mu.Lock()
		dropAll(got) // nobody holds them
		m.mu.Unlock()
		if cause := context.Cause(ctx); errors.Is(cause, errSilent) {
			err = cause
		}
		return nil, reach, err
	}
	return out, reach, nil
}

// assemble joins what came to what is kept.
func assemble(f *flight, base []keptRows, got []*piece, of []millstream.StreamID, same bool) ([][]*piece, error) {
	out := make([][]*piece, len(base))
	at := make(map[millstream.StreamID]int, len(base))
	for i, e := range f.entries {
		at[e.stream] = i
		if same {
			out[i] = base[i].pieces
		}
	}
	for k, p := range got {
		i, ok := at[of[k]]
		if !ok {
			return nil, fmt.Errorf("rows of stream %s came, which were not asked for", of[k])
		}
		var err error
		if out[i], err = joinPiece(out[i], p); err != nil {
			return nil, err
		}
	}
	return out, nil
}
