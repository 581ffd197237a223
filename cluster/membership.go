// Package cluster is membership: the heartbeats by which nodes know of each other, in the database's clock.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/millstream/millstream"
)

// registry is what membership asks of the database; *store.Store fits.
type registry interface {
	StartNode(ctx context.Context, m millstream.Member) (incarnation int64, err error)
	RemoveNode(ctx context.Context, id millstream.NodeID, incarnation int64) error
}

// Membership keeps this node's row alive and passes on what heartbeats learn.
type Membership struct {
	Registry registry
	Self     millstream.Member
	Interval time.Duration
	// Beat sends one heartbeat and passes on what it learned; fenced says that a newer incarnation of this node exists.
	Beat func(ctx context.Context, self millstream.Member) (fenced bool, err error)
	Log  *slog.Logger

	incarnation atomic.Int64
}

// Incarnation is the number of this start of the node; 0 before Run has registered it.
func (m *Membership) Incarnation() int64 { return m.incarnation.Load() }

// Run registers the start of the node, calls ready, and sends heartbeats until ctx ends. It is the first to start and so the last to stop: peers are told that
// the node goes by Leave, earlier.
func (m *Membership) Run(ctx context.Context, ready func()) error {
	self := m.Self
	var err error
	if self.Incarnation, err = m.Registry.StartNode(ctx, self); err != nil {
		return fmt.Errorf("register the node: %w", err)
	}
	m.incarnation.Store(self.Incarnation)
	m.Log.Info("registered", "component", "membership", "node", self.ID, "incarnation", self.Incarnation)
	ready()
	tick := time.NewTicker(m.Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			m.beat(ctx, self)
		}
	}
}

func (m *Membership) beat(ctx context.Context, self millstream.Member) {
	bounded, cancel := context.WithTimeout(ctx, m.Interval)
	defer cancel()
	fenced, err := m.Beat(bounded, self)
	if err != nil {
		if ctx.Err() == nil {
			m.Log.Warn("heartbeat failed", "component", "membership", "error", err)
		}
		return
	}
	if fenced {
		m.Log.Error("another process runs under this node's id: this one is fenced and takes nothing more; give each node its own [node].id and restart", "component", "membership", "node", self.ID)
	}
}

// Announce is a service that is ready when the whole node is. It is the last to start and the first to stop; stopping, it deletes the node's row, so that
// peers stop using the node before it finishes its work.
func (m *Membership) Announce(ctx context.Context, ready func()) error {
	ready()
	<-ctx.Done()
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := m.Registry.RemoveNode(bounded, m.Self.ID, m.Incarnation()); err != nil && !errors.Is(err, context.Canceled) {
		m.Log.Warn("the node's row could not be removed; peers will notice by its silence", "component", "membership", "error", err)
	}
	return nil
}
