package ingest

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/zeebo/blake3"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest/wal"
	"github.com/millstream/millstream/store"
)

// unknownPatience is how long a write of unknown outcome is repeated, on the same node with the same batch ids, before the sender is told to come back.
const unknownPatience = 5 * time.Second

// writer is what a Router sends to; *Writer fits.
type writer interface {
	Write(ctx context.Context, batches ...*millstream.Batch) (repeated int, err error)
	Resolve(ctx context.Context, k millstream.StreamKey) (millstream.StreamID, error)
	WAL() millstream.WALID
}

// pinner keeps which WAL took the parts of a keyed request; *store.Store fits.
type pinner interface {
	Pin(ctx context.Context, pins []store.Pin) ([]store.Pin, error)
}

// Write is one request: the batches it was decoded to, one a stream. Key is the sender's Idempotency-Key, "" if it gave none; BodyHash is then the hash of the
// body as received, by which a key that is used for another body is noticed.
type Write struct {
	Org      millstream.OrgID
	Batches  []*millstream.Batch
	Key      string
	BodyHash [16]byte
}

// Router is the entry of every intake handler: it gives each part of a request its batch id, pins keyed requests, and repeats what it may.
type Router struct {
	writer writer
	pins   pinner
	now    func() time.Time
	recent recentPins
	mutant mutant
}

// NewRouter makes a Router over the node's own writer. confirmed tells whether the database's history is trusted, see (*Writer).Confirmed.
func NewRouter(w *Writer, pins pinner) *Router {
	r := &Router{writer: w, pins: pins, now: w.cfg.Now}
	r.recent.now = r.now
	w.cfg.OnConfirm = r.restorePins
	r.recent.confirmed = w.Confirmed
	return r
}

// Write returns once everything is durable and visible. With a Key it happens exactly once however often it is repeated within 15 minutes, and replayed says
// that an earlier call did it; the same Key with another body is a Conflict. Without a Key it happens at least once if the sender repeats.
func (r *Router) Write(ctx context.Context, wr Write) (replayed bool, err error) {
	if len(wr.Batches) == 0 {
		return false, nil
	}
	parts := make([]*millstream.Batch, len(wr.Batches))
	for i, b := range wr.Batches {
		if b.Name == millstream.SelfStream && b.Signal != millstream.Metrics {
			return false, millstream.Errorf(millstream.Forbidden, "the stream %s is the node's own and takes nothing from senders: use another name", millstream.SelfStream)
		}
		c := *b
		c.Org = wr.Org
		parts[i] = &c
	}
	if wr.Key == "" {
		err = makeIDs(parts)
	} else {
		err = r.pin(ctx, wr, parts)
	}
	if err != nil {
		return false, err
	}
	repeated, err := r.send(ctx, parts)
	return err == nil && repeated == len(parts), err
}

func makeIDs(parts []*millstream.Batch) error {
	for _, b := range parts {
		id, err := uuid.NewV7()
		if err != nil {
			return err
		}
		b.ID = millstream.BatchID(id)
	}
	return nil
}

// pin derives the batch ids of a keyed request and records, before anything is sent, that this node's WAL takes them. Without the database that cannot be
// known, and a guess might store the request twice: it is refused.
func (r *Router) pin(ctx context.Context, wr Write, parts []*millstream.Batch) error {
	if r.recent.confirmed != nil && !r.recent.confirmed() {
		return unreachable(errors.New("the database's history is not confirmed"))
	}
	pins := make([]store.Pin, len(parts))
	for i, b := range parts {
		id, err := r.writer.Resolve(ctx, millstream.StreamKey{Org: b.Org, Signal: b.Signal, Name: b.Name})
		if err != nil {
			return err
		}
		b.ID = keyedID(wr, id)
		pins[i] = store.Pin{Org: wr.Org, Key: wr.Key, BodyHash: wr.BodyHash, Part: id, WAL: r.writer.WAL()}
	}
	got, err := r.pins.Pin(ctx, pins)
	if k := millstream.KindOf(err); k == millstream.Conflict || k == millstream.Invalid || k == millstream.NotFound {
		return err
	}
	if err != nil {
		return unreachable(err)
	}
	for _, p := range got {
		if p.WAL != r.writer.WAL() {
			return &millstream.Error{Kind: millstream.Unavailable, Msg: "the node that took the first try of this Idempotency-Key cannot be reached", RetryAfter: 5}
		}
	}
	return r.recent.add(got)
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

// send repeats a write of unknown outcome with the same ids. Unknown is sticky: that a later try is refused does not tell that the first one was not done.
func (r *Router) send(ctx context.Context, parts []*millstream.Batch) (repeated int, err error) {
	deadline := r.now().Add(unknownPatience)
	var doubt error
	for try := 0; ; try++ {
		repeated, err = r.writer.Write(ctx, parts...)
		if err == nil {
			if doubt != nil { // what looks like a repetition is this request's own first try
				repeated = 0
			}
			return repeated, nil
		}
		if errors.Is(err, wal.ErrUnknown) {
			doubt = err
		}
		if doubt == nil {
			return 0, err
		}
		if r.now().After(deadline) || sleep(ctx, 20*time.Millisecond<<min(try, 5)) != nil {
			return 0, &millstream.Error{Kind: millstream.Unavailable, Msg: "the outcome of the write is unknown: send it again", RetryAfter: 2, Err: errors.Join(wal.ErrUnknown, doubt)}
		}
		if r.mutant.newBatchID {
			if err := makeIDs(parts); err != nil {
				return 0, err
			}
		}
	}
}
