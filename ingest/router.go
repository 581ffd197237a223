package ingest

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/cluster"
	"github.com/millstream/millstream/store"
)

// Target takes the writes of one node; *Writer, which keeps the batches, and the client of another node's, which does not, fit. Unavailable means that nothing was taken, unless
// errors.Is(err, wal.ErrUnknown): then only the same batches with the same ids may be sent again, to the same WAL.
type Target interface {
	Write(ctx context.Context, batches ...*millstream.Batch) (repeated int, err error)
}

// localIntake is what a Router asks of the node's own intake; *Writer fits.
type localIntake interface {
	Target
	WAL() millstream.WALID
	Confirmed() bool
}

// resolver gives the id of a stream and makes the stream if there is none; *Writer and *Streams fit.
type resolver interface {
	Resolve(ctx context.Context, k millstream.StreamKey) (millstream.StreamID, error)
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

// RouterConfig says where a Router sends.
type RouterConfig struct {
	Self  millstream.NodeID
	Local *Writer // this node's own intake, called directly; nil: it has none
	// View is the cluster as this node sees it; nil: there is no other node, everything goes to Local.
	View func() *cluster.View
	// Dial gives the target of another node. It takes writes only if the node holds the member's WAL, so that a batch is never repeated into another one.
	Dial    func(m millstream.Member) Target
	Streams resolver // for keyed requests; nil: Local
	Pins    pinner
	// Settle is for how long keyed requests wait after the database went to another history, so that every other router has noticed it and has put its pins
	// back: the peer timeout, after which a silent node counts as dead. Without other nodes there is nothing to wait for.
	Settle     time.Duration
	Registerer prometheus.Registerer // nil: no metrics
	Now        func() time.Time
}

// Router is the entry of every intake handler: it gives each part of a request its batch id, chooses the node that takes it, pins keyed requests, and repeats
// what it may.
type Router struct {
	cfg     RouterConfig
	local   localIntake         // nil: the node has no intake
	self    []millstream.Member // this node, if it has an intake
	recent  recentPins
	history history
	metrics routerMetrics
	mutant  mutant

	patience, tryTimeout time.Duration // see the constants; tests shorten them
}

// NewRouter makes a Router. One with a Writer of its own learns from it when the database went to another history; any other must be given the heartbeats
// (Beat) and run (Run).
func NewRouter(cfg RouterConfig) *Router {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	r := &Router{cfg: cfg, metrics: newRouterMetrics(cfg.Registerer), patience: unknownPatience, tryTimeout: tryTimeout}
	r.recent.now, r.history.kick = cfg.Now, make(chan struct{}, 1)
	if w := cfg.Local; w != nil {
		r.local, r.self = w, []millstream.Member{{ID: cfg.Self}}
		w.cfg.OnConfirm = r.restorePins
		if cfg.Streams == nil {
			r.cfg.Streams = w
		}
	}
	return r
}

// Write returns once everything is durable and visible. With a Key it happens exactly once however often it is repeated within 15 minutes, and replayed says
// that an earlier call did it; the same Key with another body is a Conflict. Without a Key it happens at least once if the sender repeats: the parts of a request
// may lie on several nodes, and if one of them fails the others may have been stored. The batches belong to the Router afterwards.
func (r *Router) Write(ctx context.Context, wr Write) (replayed bool, err error) {
	for _, b := range wr.Batches {
		if b.Name == millstream.SelfStream && b.Signal != millstream.Metrics {
			return false, millstream.Errorf(millstream.Forbidden, "the stream %s is the node's own and takes nothing from senders: use another name", millstream.SelfStream)
		}
	}
	return r.write(ctx, wr)
}

// Append is Write without a key and without the ban of the reserved stream: the way of a node's own telemetry. Each batch has its Org, and belongs
// to the Router afterwards.
func (r *Router) Append(ctx context.Context, batches ...*millstream.Batch) error {
	if len(batches) == 0 {
		return nil
	}
	_, err := r.write(ctx, Write{Org: batches[0].Org, Batches: batches})
	return err
}

func (r *Router) write(ctx context.Context, wr Write) (replayed bool, err error) {
	if len(wr.Batches) == 0 {
		return false, nil
	}
	batches := make([]*millstream.Batch, len(wr.Batches))
	for i, b := range wr.Batches {
		c := *b
		c.Org = wr.Org
		batches[i] = &c
		if err := check(&c); err != nil { // before anything is stored anywhere
			return false, err
		}
	}
	var parts []routed
	if wr.Key == "" {
		parts, err = r.place(batches)
	} else {
		parts, err = r.pin(ctx, wr, batches)
	}
	if err != nil {
		return false, err
	}
	repeated, err := r.send(ctx, parts)
	if err != nil {
		return false, err
	}
	if r.local == nil { // they were sent, and are nobody's now
		for _, b := range batches {
			b.Release()
		}
	}
	return repeated == len(parts), nil
}

// makeID gives a part of a request without a key an id of its own.
func makeID(b *millstream.Batch) error {
	id, err := uuid.NewV7()
	b.ID = millstream.BatchID(id)
	return err
}
