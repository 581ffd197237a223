package app

import (
	"context"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/cluster"
	"github.com/millstream/millstream/query/warm"
)

// newWarmer makes what keeps the cache of a querier warm.
func (p *parts) newWarmer() {
	p.warmer = warm.New(warm.Config{
		Catalog: p.store, Cache: p.segments, Self: millstream.NodeID(p.cfg.Node.ID), Log: p.log, Registerer: p.registry,
		Placement: func() *cluster.Placement { return p.membership.View().Placement() },
	})
	if p.rpc != nil {
		p.rpc.Cache = p.warmer
	}
}

// pushMerged offers a merged segment to its owner. One that is declined, or cannot be offered, is fetched when it is asked for.
func (p *parts) pushMerged(ctx context.Context, s millstream.Segment) {
	v := p.membership.View()
	owners := v.Owners(cluster.SegmentKey(s.ID), 1)
	if len(owners) == 0 || v.State(owners[0]) != cluster.Up {
		return
	}
	var accepted bool
	var err error
	switch owner := owners[0]; {
	case owner.ID == millstream.NodeID(p.cfg.Node.ID) && p.warmer != nil:
		accepted, err = p.warmer.Push(ctx, s)
	case p.peers != nil:
		accepted, err = p.peers.To(owner).Push(ctx, s)
	}
	p.log.Debug("a merged segment was pushed to its owner", "component", "compactor", "segment", s.ID, "node", owners[0].ID, "accepted", accepted, "error", err)
}
