package ingest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/zeebo/blake3"
	"golang.org/x/sync/errgroup"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/cluster"
	"github.com/millstream/millstream/store"
)

const (
	pinMemory = 15 * time.Minute
	// maxPins bounds the memory of pins; above it keyed writes are refused, never forgotten.
	maxPins = 1 << 20
	// pinsAtOnce is how many requests' pins are put back at a time: they share statements, see store.Pin.
	pinsAtOnce = 512
)

// pin derives the batch ids of a keyed request and records, before anything is sent, which WAL takes each part. A part that was pinned before goes to the WAL
// that took it then, whoever holds that now, and nowhere else. Without the database that cannot be known, and a guess might store the request twice: it is refused.
func (r *Router) pin(ctx context.Context, wr Write, batches []*millstream.Batch) ([]routed, error) {
	if !r.confirmed() {
		return nil, unreachable(errors.New("the database's history is not confirmed"))
	}
	v := r.view()
	pins := make([]store.Pin, len(batches))
	for i, b := range batches {
		id, err := r.cfg.Streams.Resolve(ctx, millstream.StreamKey{Org: b.Org, Signal: b.Signal, Name: b.Name})
		if millstream.KindOf(err) == millstream.Unavailable { // whether the stream is known makes no difference then
			return nil, unreachable(err)
		}
		if err != nil {
			return nil, err
		}
		b.ID = keyedID(wr, id)
		p := store.Pin{Org: wr.Org, Key: wr.Key, BodyHash: wr.BodyHash, Part: id}
		if p.WAL = r.recent.wal(p); p.WAL == "" { // what the database may have lost since is not chosen anew
			p.WAL = r.owner(v, wr, b)
		}
		if p.WAL == "" {
			return nil, errNoIntake
		}
		pins[i] = p
	}
	got := pins
	if !r.mutant.noPin {
		var err error
		got, err = r.cfg.Pins.Pin(ctx, pins)
		if k := millstream.KindOf(err); k == millstream.Conflict || k == millstream.Invalid || k == millstream.NotFound {
			return nil, err
		}
		if err != nil {
			return nil, unreachable(err)
		}
	}
	parts := make([]routed, len(batches))
	for i, p := range got {
		m, ok := r.holder(v, p.WAL)
		if !ok {
			return nil, &millstream.Error{Kind: millstream.Unavailable, Msg: "the node that took the first try of this Idempotency-Key cannot be reached", RetryAfter: 5}
		}
		parts[i] = routed{batches[i], []millstream.Member{m}}
	}
	return parts, r.recent.add(got)
}

// owner is the WAL of the node that a keyed part goes to if it is new; "" if no node has one. A request's metrics stay together: the key's bucket decides.
func (r *Router) owner(v *cluster.View, wr Write, b *millstream.Batch) millstream.WALID {
	name := b.Name
	if b.Signal == millstream.Metrics {
		name = bucketName[hashString(wr.Key)%buckets]
	}
	for _, m := range r.rank(v, b.Org, b.Signal, name) {
		if w := r.walOf(m); w != "" {
			return w
		}
	}
	return ""
}

// walOf is the WAL of a member, as the view has it, of this node as it is.
func (r *Router) walOf(m millstream.Member) millstream.WALID {
	if r.isSelf(m) {
		return r.local.WAL()
	}
	return m.WAL
}

// holder is the member that holds a WAL now, live or not: one that drains still answers repetitions.
func (r *Router) holder(v *cluster.View, w millstream.WALID) (millstream.Member, bool) {
	if w == "" { // not known, which is true of many members at once
		return millstream.Member{}, false
	}
	if r.local != nil && r.local.WAL() == w {
		return r.self[0], true
	}
	if v != nil {
		for _, m := range v.Members() {
			if m.WAL == w && !r.isSelf(m) {
				return m, true
			}
		}
	}
	return millstream.Member{}, false
}

func unreachable(cause error) error {
	return &millstream.Error{Kind: millstream.Unavailable, Msg: "a write with an Idempotency-Key needs the database, which cannot be reached", RetryAfter: 5, Err: cause}
}

// keyedID is the batch id of one part of a keyed request: a hash, with a version digit that tells it from a made one.
func keyedID(wr Write, stream millstream.StreamID) millstream.BatchID {
	h := blake3.New()
	for _, s := range []string{string(wr.Org), wr.Key, string(wr.BodyHash[:]), string(stream)} {
		var n [8]byte
		binary.LittleEndian.PutUint64(n[:], uint64(len(s)))
		h.Write(n[:])
		h.Write([]byte(s))
	}
	var id millstream.BatchID
	copy(id[:], h.Sum(nil))
	id[6] = id[6]&0x0f | 0x80
	return id
}

// recentPins remembers the pins of the last 15 minutes, to put them back into a database that lost them.
type recentPins struct {
	now func() time.Time

	mu    sync.Mutex
	pins  map[pinKey]millstream.WALID
	order []store.Pin // by time; may hold a pin twice
	times []time.Time
}

type pinKey struct {
	org  millstream.OrgID
	key  string
	part millstream.StreamID
}

func keyOf(p store.Pin) pinKey { return pinKey{p.Org, p.Key, p.Part} }

func (r *recentPins) add(pins []store.Pin) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	r.forget(now)
	if len(r.order)+len(pins) > maxPins {
		return &millstream.Error{Kind: millstream.RateLimited, Msg: "too many writes with an idempotency key in the last 15 minutes", RetryAfter: 60}
	}
	if r.pins == nil {
		r.pins = map[pinKey]millstream.WALID{}
	}
	for _, p := range pins {
		if _, ok := r.pins[keyOf(p)]; ok {
			continue
		}
		r.pins[keyOf(p)] = p.WAL
		r.order, r.times = append(r.order, p), append(r.times, now)
	}
	return nil
}

// wal is the WAL that a remembered pin names, "" if none is remembered for the part.
func (r *recentPins) wal(p store.Pin) millstream.WALID {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(r.now())
	return r.pins[keyOf(p)]
}

func (r *recentPins) forget(now time.Time) {
	n := 0
	for n < len(r.times) && now.Sub(r.times[n]) > pinMemory {
		delete(r.pins, keyOf(r.order[n]))
		n++
	}
	r.order, r.times = r.order[n:], r.times[n:]
}

// restorePins puts the recent pins into a database that may have lost them. It must be done before a keyed write is taken again.
func (r *Router) restorePins(ctx context.Context) error {
	r.history.quiet(r.cfg.Now().Add(r.cfg.Settle))
	r.recent.mu.Lock()
	r.recent.forget(r.cfg.Now())
	pins := append([]store.Pin(nil), r.recent.order...)
	r.recent.mu.Unlock()
	if r.mutant.noRestore {
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(pinsAtOnce)
	for len(pins) > 0 {
		n := 1 // the pins of one request stand together
		for n < len(pins) && pins[n].Org == pins[0].Org && pins[n].Key == pins[0].Key {
			n++
		}
		request := pins[:n]
		g.Go(func() error {
			if _, err := r.cfg.Pins.Pin(ctx, request); err != nil && millstream.KindOf(err) != millstream.Conflict {
				return fmt.Errorf("put the idempotency pins back: %w", err)
			}
			return nil
		})
		pins = pins[n:]
	}
	return g.Wait()
}
