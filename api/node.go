package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/auth"
)

// flusher publishes what is unflushed. *ingest.Writer fits.
type flusher interface {
	Flush(ctx context.Context) error
}

type drainView struct {
	ID    string `json:"id"`
	State string `json:"state" doc:"draining"`
}

func (a *API) nodeRoutes() []route {
	admin := administer(auth.Admin)
	return []route{
		{method: "POST", path: v1 + "/node/flush", policy: admin.audited("node.flush"), handle: a.flush,
			doc: operation{summary: "Publish everything that was acknowledged before the call, now instead of at the next interval; on a node that takes no writes itself, every intake node does"}},
		{method: "POST", path: v1 + "/node/drain", policy: admin.audited("node.drain"), handle: a.drainSelf,
			doc: operation{summary: "Have the node that answers leave the cluster, finish its work and stop", reply: drainView{}, status: http.StatusAccepted}},
		{method: "POST", path: v1 + "/cluster/nodes/{id}/drain", policy: admin.audited("node.drain"), handle: a.drainNode,
			doc: operation{summary: "Have a node leave the cluster, finish its work and stop", reply: drainView{}, status: http.StatusAccepted}},
	}
}

func (a *API) flush(w http.ResponseWriter, r *http.Request) error {
	if err := a.publish(r.Context()); err != nil {
		return err
	}
	return empty(w)
}

// publish flushes this node or every intake. A flush tries until it succeeds; this gives up while there is still time to say what the matter is.
func (a *API) publish(ctx context.Context) (err error) {
	bounded := ctx
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		bounded, cancel = context.WithDeadline(ctx, end.Add(-time.Until(end)/6))
		defer cancel()
	}
	if a.Flusher != nil {
		if err = a.Flusher.Flush(bounded); err != nil {
			err = fmt.Errorf("node %s: %w", a.Node, err)
		}
	} else {
		err = a.Peers.flush(bounded)
	}
	if err == nil || bounded.Err() == nil || ctx.Err() != nil {
		return err
	}
	return &millstream.Error{Kind: millstream.Unavailable, RetryAfter: 5, Err: err,
		Msg:  "what is unflushed could not be published in time: the object store or the database does not answer; nothing is lost, it stays in the logs of the intakes, which go on trying",
		Hint: "see which of the two it is in /api/v1/readyz of the intake nodes, and their logs for the error; then repeat"}
}

// flush has every live intake publish, at once. It fails if any of them does.
func (p *Peers) flush(ctx context.Context) error {
	var intakes []millstream.Member
	if p != nil {
		intakes = p.Live("intake")
	}
	if len(intakes) == 0 {
		return millstream.Errorf(millstream.Unavailable, "no intake node is available")
	}
	errs := make([]error, len(intakes))
	var wg sync.WaitGroup
	for i, m := range intakes {
		wg.Go(func() {
			if err := p.To(m).Flush(ctx); err != nil {
				errs[i] = fmt.Errorf("node %s: %w", m.ID, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (a *API) drainSelf(w http.ResponseWriter, r *http.Request) error { return a.drain(w, r, a.Node) }

func (a *API) drainNode(w http.ResponseWriter, r *http.Request) error {
	id, err := pathValue(r, "id")
	if err != nil {
		return err
	}
	return a.drain(w, r, id)
}

// drain asks this node or another one to leave. It is done when the node has begun to: its work may take as long as its grace.
func (a *API) drain(w http.ResponseWriter, r *http.Request, id string) error {
	begin := a.Drain
	if id != a.Node {
		m, err := a.member(r.Context(), id)
		if err != nil {
			return err
		}
		if begin = nil; a.Peers != nil {
			begin = a.Peers.To(m).Drain
		}
	}
	if begin == nil {
		return millstream.Errorf(millstream.Unprocessable, "node %q cannot be drained from here: nodes ask each other only in a cluster with [cluster].internal_token or trusted_network set", id)
	}
	if err := begin(r.Context()); err != nil {
		return err
	}
	a.record(r, entryOf(r, id))
	return reply(w, http.StatusAccepted, drainView{id, stateDraining})
}

// member finds a node that the cluster knows of.
func (a *API) member(ctx context.Context, id string) (millstream.Member, error) {
	all, err := a.Nodes.Nodes(ctx, listedSilence)
	if err != nil {
		return millstream.Member{}, err
	}
	for _, m := range all {
		if string(m.ID) == id {
			return m, nil
		}
	}
	return millstream.Member{}, millstream.Errorf(millstream.NotFound, "there is no node %q", id)
}
