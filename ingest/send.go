package ingest

import (
	"context"
	"errors"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest/wal"
)

const (
	// unknownPatience is how long a write of unknown outcome is repeated, on the same node with the same batch ids, before the sender is told to come back; and
	// how long after the first try another node may still be asked.
	unknownPatience = 5 * time.Second
	// tryTimeout bounds one call of another node, so that a request that got lost on the way is repeated, and a node that does not even take the connection costs
	// little. It is a little longer than a write waits for room.
	tryTimeout = roomPatience + 250*time.Millisecond
	// firstPause is before the first repetition; the pauses double.
	firstPause = 20 * time.Millisecond
	// fanOut is how many other nodes one request is sent to at a time.
	fanOut = 16
)

// delivery is one request on its way.
type delivery struct {
	*Router
	until time.Time
	slots chan struct{}
}

// send brings every part to a node. If one fails the others may have been stored nevertheless.
func (r *Router) send(ctx context.Context, parts []routed) (repeated int, err error) {
	d := &delivery{Router: r, until: time.Now().Add(r.patience), slots: make(chan struct{}, fanOut)}
	return d.deliver(ctx, parts)
}

// deliver sends the parts of each node in one call, to all nodes at once.
func (d *delivery) deliver(ctx context.Context, parts []routed) (repeated int, err error) {
	groups := byNode(parts)
	if len(groups) == 1 {
		return d.offer(ctx, groups[0])
	}
	type result struct {
		repeated int
		err      error
	}
	results := make(chan result, len(groups))
	for _, g := range groups {
		go func() {
			n, err := d.offer(ctx, g)
			results <- result{n, err}
		}()
	}
	for range groups {
		res := <-results
		repeated += res.repeated
		err = worse(err, res.err)
	}
	return repeated, err
}

// byNode gathers the parts whose next node is the same, in the order of their first.
func byNode(parts []routed) [][]routed {
	if len(parts) == 1 {
		return [][]routed{parts}
	}
	var groups [][]routed
	at := map[millstream.NodeID]int{}
	for _, p := range parts {
		id := p.nodes[0].ID
		i, ok := at[id]
		if !ok {
			i = len(groups)
			at[id], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], p)
	}
	return groups
}

// worse is the error that the sender gets of two: what would be the same another time, then what is unknown, then what is refused for now.
func worse(a, b error) error {
	if severity(b) > severity(a) {
		return b
	}
	return a
}

func severity(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, wal.ErrUnknown):
		return 2
	case refused(err):
		return 1
	}
	return 3
}

// refused says that a node took nothing and another may.
func refused(err error) bool {
	k := millstream.KindOf(err)
	return (k == millstream.Unavailable || k == millstream.RateLimited) && !errors.Is(err, wal.ErrUnknown)
}

// offer sends parts to the node that is next for all of them, and if it takes nothing to those that come then. A part without a further node ends it: the request
// has failed, and what else of it gets stored would only be stored again with the sender's next try.
func (d *delivery) offer(ctx context.Context, parts []routed) (repeated int, err error) {
	batches := make([]*millstream.Batch, len(parts))
	for i, p := range parts {
		batches[i] = p.batch
	}
	repeated, err = d.insist(ctx, parts[0].nodes[0], batches)
	free := refused(err) || d.mutant.unknownIsRefused && errors.Is(err, wal.ErrUnknown)
	if !free || !time.Now().Before(d.until) || ctx.Err() != nil {
		return repeated, err
	}
	next := make([]routed, len(parts))
	for i, p := range parts {
		if len(p.nodes) == 1 {
			return 0, err
		}
		next[i] = routed{p.batch, p.nodes[1:]}
	}
	d.metrics.moved.Inc()
	return d.deliver(ctx, next)
}

// insist repeats a write of unknown outcome on the same node with the same ids. Unknown is sticky: that a later try is refused does not tell that the first one
// was not done.
func (d *delivery) insist(ctx context.Context, m millstream.Member, batches []*millstream.Batch) (repeated int, err error) {
	var doubt error
	for try := 0; ; try++ {
		repeated, err = d.call(ctx, m, batches)
		if err == nil {
			if doubt != nil { // what looks like a repetition is this request's own first try
				repeated = 0
			}
			return repeated, nil
		}
		if errors.Is(err, wal.ErrUnknown) && !d.mutant.unknownIsRefused {
			doubt = err
		}
		if doubt == nil || d.mutant.unknownForgotten && refused(err) {
			return 0, err
		}
		if time.Now().After(d.until) || sleep(ctx, min(firstPause<<min(try, 5), d.patience/8)) != nil {
			d.metrics.unknown.Inc()
			return 0, &millstream.Error{Kind: millstream.Unavailable, Msg: "the outcome of the write is unknown: send it again", RetryAfter: 2, Err: errors.Join(wal.ErrUnknown, doubt)}
		}
		d.metrics.repeated.Inc()
		if now, ok := d.holder(d.view(), d.walOf(m)); ok { // it may have restarted under another address
			m = now
		}
		if d.mutant.newBatchID {
			for _, b := range batches {
				if err := makeID(b); err != nil {
					return 0, err
				}
			}
		}
	}
}

// call is one try on one node. A call of another node that its context ended without any other word may have been heard; the context may have ended there, where
// the deadline is the same, a moment before it ends here.
func (d *delivery) call(ctx context.Context, m millstream.Member, batches []*millstream.Batch) (repeated int, err error) {
	if d.isSelf(m) {
		return d.local.Write(ctx, batches...)
	}
	if err := d.slot(ctx); err != nil {
		return 0, err
	}
	defer func() { <-d.slots }()
	deadline := time.Now().Add(d.tryTimeout)
	if d.until.Before(deadline) {
		deadline = d.until
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	repeated, err = d.cfg.Dial(m).Write(ctx, batches...)
	if k := millstream.KindOf(err); err != nil && (k == millstream.Timeout || k == millstream.Canceled || ctx.Err() != nil && k != millstream.Unavailable) {
		err = unknown(err)
	}
	d.metrics.forwarded.Inc()
	return repeated, err
}

// slot waits for its turn to call another node, as long as there is time for that.
func (d *delivery) slot(ctx context.Context) error {
	select {
	case d.slots <- struct{}{}:
		return nil
	default: // without a timer, mostly
	}
	ctx, cancel := context.WithDeadline(ctx, d.until)
	defer cancel()
	select {
	case d.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return &millstream.Error{Kind: millstream.Unavailable, Msg: "the request's other parts took too long", RetryAfter: 2, Err: ctx.Err()}
	}
}

func (r *Router) isSelf(m millstream.Member) bool { return r.local != nil && m.ID == r.cfg.Self }
