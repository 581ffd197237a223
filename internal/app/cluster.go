package app

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/cluster"
	"github.com/millstream/millstream/ingest"
	"github.com/millstream/millstream/internal/config"
	"github.com/millstream/millstream/store"
)

func secs(n int) time.Duration { return time.Duration(n) * time.Second }

// clustered says whether other nodes may call this one.
func (p *parts) clustered() bool {
	return !p.cfg.Node.Alone() || p.cfg.Cluster.InternalToken != "" || p.cfg.Cluster.TrustedNetwork
}

// viewAge is how long another node may go by what it has read of the members.
func (p *parts) viewAge() time.Duration { return cmp.Or(p.Pace.View, 2*time.Second) }

// peerTimeout is the silence after which a node gets no work.
func (p *parts) peerTimeout() time.Duration {
	return cmp.Or(p.Pace.PeerTimeout, secs(p.cfg.Cluster.PeerTimeoutSecs))
}

// clock is the database's: whatever nodes must agree on, or one node with its former life, goes by it. No part asks for it before the membership is ready.
func (p *parts) clock() time.Time { return p.membership.Now() }

func (p *parts) newMembership() error {
	c := &p.cfg.Cluster
	var placement string
	if p.cfg.Node.Has(config.Querier) {
		var err error
		if placement, err = cluster.PlacementID(p.cfg.Cache.Dir); err != nil {
			return err
		}
	}
	var weight func() int // nil: what the process has
	if p.MilliCPU > 0 {
		weight = func() int { return p.MilliCPU }
	}
	p.membership = cluster.NewMembership(cluster.Config{
		Weight:   weight,
		Registry: p.store, Log: p.log, Registerer: p.registry, Interval: cmp.Or(p.Pace.Heartbeat, secs(c.HeartbeatIntervalSecs)), Refresh: p.viewAge(),
		Self:     millstream.Member{ID: millstream.NodeID(p.cfg.Node.ID), Addr: c.AdvertiseAddr, Roles: p.cfg.Node.Roles, PlacementID: placement, Version: p.Version, StartedAt: p.began},
		Timeouts: cluster.Timeouts{Peer: p.peerTimeout(), Drop: cmp.Or(2*p.Pace.PeerTimeout, secs(p.cfg.Placement.DropAfterSecs))},
		Beat:     p.beat, Now: p.Now,
	})
	return nil
}

// beat sends a heartbeat and tells the intake what the database says of its WAL, or the router without one what it says of its history.
func (p *parts) beat(ctx context.Context, self millstream.Member) (cluster.Beat, error) {
	var wals []millstream.WALID
	if p.writer != nil {
		if id := p.writer.WAL(); id != "" { // none before the intake has opened its directory
			wals = append(wals, id)
		}
	}
	b, err := p.store.Heartbeat(ctx, self, wals)
	switch {
	case err != nil:
	case p.writer != nil:
		p.writer.Beat(b)
	case p.router != nil:
		p.router.Beat(b)
	}
	return cluster.Beat{At: b.Now, Written: b.Written, Fenced: b.Fenced}, err
}

// checkFence says whether another process runs under this node's id.
func (p *parts) checkFence(ctx context.Context) error {
	fenced := p.membership.Fenced()
	if p.writer != nil && !fenced { // a refused publish tells it before the next heartbeat
		fenced = errors.Is(p.writer.Check(ctx), ingest.ErrFenced)
	}
	if !fenced {
		return nil
	}
	return millstream.Wrap(millstream.Unavailable, store.ErrFenced, "another process runs under this node's id: give each node its own [node].id and restart")
}
