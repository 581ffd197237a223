// Package cluster is how nodes know of each other and agree, without talking, on who does what: membership by heartbeats in the database, immutable views of
// it, and rendezvous hashing over a view for intakes, divided work and the placement of segments.
package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/millstream/millstream"
)

// registry is what membership asks of the database; *store.Store fits.
type registry interface {
	StartNode(ctx context.Context, m millstream.Member) (incarnation int64, err error)
	EnterNode(ctx context.Context, m millstream.Member) (at time.Time, err error)
	RemoveNode(ctx context.Context, id millstream.NodeID, incarnation int64) error
	Nodes(ctx context.Context, silence time.Duration) ([]millstream.Member, error)
	Now(ctx context.Context) (time.Time, error)
}

// listed is the silence up to which a node is among the members of a view, as one that is not live; rows go after it anyway.
const listed = 5 * time.Minute

// Config of a membership. Zero durations are the defaults.
type Config struct {
	Registry registry
	Self     millstream.Member // its weight is read anew for each heartbeat
	Interval time.Duration     // between heartbeats; 5 s
	Refresh  time.Duration     // how old a view may get while the database answers; 2 s
	Timeouts Timeouts
	// Beat sends one heartbeat and passes on what it learned. If self is draining the row is deleted and not written again.
	Beat func(ctx context.Context, self millstream.Member) (Beat, error)
	// Weight is the node's in milli-CPU; nil: MilliCPU of this process.
	Weight func() int
	// Now is only ever compared with itself, to tell how long ago something was; nil: time.Now.
	Now        func() time.Time
	Log        *slog.Logger
	Registerer prometheus.Registerer // may be nil
}

// Beat is what one heartbeat learned.
type Beat struct {
	At      time.Time // the database's clock
	Written bool      // the row was refreshed
	Fenced  bool      // a newer incarnation of this node exists
}

// Membership keeps this node's row alive and a view of all rows fresh.
type Membership struct {
	cfg     Config
	log     *slog.Logger
	changed chan struct{}

	incarnation atomic.Int64
	ready       atomic.Bool // the node has its row, or gets it with the next heartbeat
	leaving     atomic.Bool // by a drain or a stop: the row goes and stays away
	fenced      atomic.Bool
	entered     atomic.Int64 // the database's time, in ns, since when the node is in the membership without a gap; 0 before
	seen        atomic.Pointer[seen]
	away        bool       // the last reading failed; of readings
	back        time.Time  // the database's time at the first reading after an outage; of readings
	row         sync.Mutex // held by whoever writes or deletes the row, so that no heartbeat under way brings a deleted row back
}

// seen is a view and when it was read, by this node's clock.
type seen struct {
	view *View
	at   time.Time
}

// NewMembership makes a membership that is empty until Run.
func NewMembership(cfg Config) *Membership {
	cfg.Interval = cmp.Or(cfg.Interval, 5*time.Second)
	cfg.Refresh = cmp.Or(cfg.Refresh, 2*time.Second)
	cfg.Timeouts = cfg.Timeouts.orDefault()
	if cfg.Weight == nil {
		cfg.Weight = func() int { return MilliCPU(os.DirFS("/"), runtime.NumCPU()) }
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	m := &Membership{cfg: cfg, log: cfg.Log.With("component", "membership", "node", cfg.Self.ID), changed: make(chan struct{}, 1)}
	m.seen.Store(&seen{view: NewView(nil, time.Time{}, cfg.Timeouts), at: cfg.Now()})
	m.register(cfg.Registerer)
	return m
}

// Self is the id of this node.
func (m *Membership) Self() millstream.NodeID { return m.cfg.Self.ID }

// Incarnation is the number of this start of the node; 0 before Run has registered it.
func (m *Membership) Incarnation() int64 { return m.incarnation.Load() }

// View is the last reading of the members; it never blocks and is never nil. While the database is away the last one stays, with who was live then.
func (m *Membership) View() *View { return m.seen.Load().view }

// Now is the database's clock: as of the last reading, and then by the time that has passed on this node. It counts from when Run is ready.
func (m *Membership) Now() time.Time {
	s := m.seen.Load()
	return s.view.at.Add(m.cfg.Now().Sub(s.at))
}

// Changed says that a node came or went: the members are read at once. It does not block.
func (m *Membership) Changed() {
	select {
	case m.changed <- struct{}{}:
	default: // a reading that has not begun yet is due anyway
	}
}

// Drain takes the node out of the membership with its next heartbeat, for good: it finishes what it has and gets nothing new.
func (m *Membership) Drain() {
	if !m.leaving.Swap(true) {
		m.log.Info("draining: the next heartbeat takes this node out of the membership")
	}
}

// Draining says whether the node has left or is about to.
func (m *Membership) Draining() bool { return m.leaving.Load() }

// Fenced says whether another process was started under this node's id.
func (m *Membership) Fenced() bool { return m.fenced.Load() }

// settled says whether the node has been in the membership for a peer timeout without a gap and stays: then every other node counts on it.
func (m *Membership) settled() bool {
	entered := m.entered.Load()
	return entered != 0 && !m.Fenced() && !m.Draining() && m.Now().Sub(time.Unix(0, entered)) >= m.cfg.Timeouts.Peer
}

// Run registers the start of the node, reads the members, calls ready, and sends heartbeats until ctx ends. It is the first to start and so the last to stop:
// peers are told by Announce, later and earlier, that the node comes and goes. Until then it has no row, and the one of its former life is deleted: nobody sends
// work to a node that still reads its log.
func (m *Membership) Run(ctx context.Context, ready func()) error {
	self := m.cfg.Self
	self.MilliCPU = m.cfg.Weight()
	self.Draining = true
	var err error
	if self.Incarnation, err = m.cfg.Registry.StartNode(ctx, self); err != nil {
		return fmt.Errorf("register the node: %w", err)
	}
	m.incarnation.Store(self.Incarnation)
	if err := m.read(ctx); err != nil {
		return fmt.Errorf("read the members: %w", err)
	}
	m.log.Info("registered", "incarnation", self.Incarnation)
	ready()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { m.beats(ctx, self); return nil })
	g.Go(func() error { m.readings(ctx); return nil })
	return g.Wait()
}

func (m *Membership) beats(ctx context.Context, self millstream.Member) {
	tick := time.NewTicker(m.cfg.Interval)
	defer tick.Stop()
	var last time.Time // of a heartbeat that was written, by the database's clock
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		self.MilliCPU = m.cfg.Weight()
		b, err := m.beat(ctx, self)
		if err != nil {
			if ctx.Err() == nil {
				m.log.Warn("heartbeat failed", "error", err)
			}
			continue
		}
		if m.fenced.Store(b.Fenced); b.Fenced {
			m.log.Error("another process runs under this node's id: this one is fenced and takes nothing more; give each node its own [node].id and restart", "incarnation", self.Incarnation)
		}
		if b.Written {
			if entered := time.Unix(0, m.entered.Load()); entered.After(last) {
				last = entered
			}
			if b.At.Sub(last) > m.cfg.Timeouts.Peer { // the others gave this node up meanwhile, if they knew it
				m.entered.Store(b.At.UnixNano())
			}
			last = b.At
		}
	}
}

func (m *Membership) beat(ctx context.Context, self millstream.Member) (Beat, error) {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.Interval)
	defer cancel()
	m.row.Lock()
	defer m.row.Unlock()
	self.Draining = m.Draining() || !m.ready.Load()
	return m.cfg.Beat(ctx, self)
}

// readings keeps the view fresh. Announcements that come in a burst are one reading.
func (m *Membership) readings(ctx context.Context) {
	burst := min(m.cfg.Refresh/20, 100*time.Millisecond)
	wait := time.NewTimer(0)
	defer wait.Stop()
	pause := func(d time.Duration, wake <-chan struct{}) bool {
		wait.Reset(d)
		select {
		case <-ctx.Done():
			return false
		case <-wait.C:
		case <-wake:
		}
		return true
	}
	for pause(m.cfg.Refresh*8/10, m.changed) {
		bounded, cancel := context.WithTimeout(ctx, m.cfg.Timeouts.Peer/3)
		err := m.read(bounded)
		cancel()
		if ctx.Err() == nil {
			m.noteReading(err)
		}
		if !pause(burst, nil) {
			return
		}
	}
}

func (m *Membership) read(ctx context.Context) error {
	members, err := m.cfg.Registry.Nodes(ctx, listed)
	if err != nil {
		return err
	}
	last, now, at := m.View(), m.cfg.Now(), m.Now()
	if len(members) > 0 {
		at = members[0].HeartbeatAt.Add(members[0].HeartbeatAge)
	} else if at, err = m.cfg.Registry.Now(ctx); err != nil {
		return err
	}
	if m.away && at.Sub(last.at) > m.cfg.Timeouts.Peer/3 { // for less, heartbeats are in time all the same
		m.back = at
	}
	if at.Sub(m.back) <= m.cfg.Timeouts.Peer {
		members = hold(members, last, m.back)
	}
	m.seen.Store(&seen{view: newView(members, at, m.cfg.Timeouts, last), at: now})
	return nil
}

// hold counts no silence from before the database was back: nobody could send a heartbeat then. Who was live before, and has not been heard since, is taken to
// have been heard at that moment, also if its row has been deleted as that of a silent node.
func hold(members []millstream.Member, last *View, back time.Time) []millstream.Member {
	out := slices.Clone(members)
	index := make(map[millstream.NodeID]int, len(out))
	for i := range out {
		index[out[i].ID] = i
	}
	for _, m := range last.members {
		if last.State(m) != Up || m.HeartbeatAt.After(back) {
			continue
		}
		i, ok := index[m.ID]
		if !ok {
			m.HeartbeatAt = back
			out = append(out, m)
		} else if out[i].HeartbeatAt.Before(back) {
			out[i].HeartbeatAt = back
		}
	}
	return out
}

// noteReading tells once when the view begins to age, and once when it is fresh again.
func (m *Membership) noteReading(err error) {
	was := m.away
	m.away = err != nil
	switch {
	case err != nil && !was:
		m.log.Warn("the members could not be read; the last view stays", "error", err)
	case err == nil && was:
		m.log.Info("the members are read again")
	}
}

// Enter makes the node a member: now others send it work.
func (m *Membership) Enter(ctx context.Context) error {
	m.ready.Store(true)
	m.row.Lock()
	defer m.row.Unlock()
	self := m.cfg.Self
	self.MilliCPU, self.Incarnation = m.cfg.Weight(), m.Incarnation()
	at, err := m.cfg.Registry.EnterNode(ctx, self)
	if err != nil {
		return err
	}
	m.entered.Store(at.UnixNano())
	m.Changed()
	return nil
}

// Announce is a service that is ready when the whole node is. It is the last to start and the first to stop: it makes the node a member, and, stopping, deletes
// the node's row, so that peers stop using the node before it finishes its work.
func (m *Membership) Announce(ctx context.Context, ready func()) error {
	if err := m.Enter(ctx); err != nil && ctx.Err() == nil {
		m.log.Warn("the node could not be announced; a heartbeat will do it", "error", err)
	}
	ready()
	<-ctx.Done()
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := m.Leave(bounded); err != nil && !errors.Is(err, context.Canceled) {
		m.log.Warn("the node's row could not be removed; peers will notice by its silence", "error", err)
	}
	return nil
}

// Leave takes the node out of the membership now, for good.
func (m *Membership) Leave(ctx context.Context) error {
	m.leaving.Store(true)
	m.row.Lock()
	defer m.row.Unlock()
	return m.cfg.Registry.RemoveNode(ctx, m.cfg.Self.ID, m.Incarnation())
}

func (m *Membership) register(reg prometheus.Registerer) {
	if reg == nil {
		return
	}
	gauge := func(name, help string, f func() float64) {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f))
	}
	gauge("millstream_cluster_members", "Members that have a row, live or not.", func() float64 { return float64(len(m.View().members)) })
	gauge("millstream_cluster_view_age_seconds", "Time since the members were read.", func() float64 { return m.cfg.Now().Sub(m.seen.Load().at).Seconds() })
	gauge("millstream_placement_version", "Grows whenever the queriers that own segments, or their weights, change; compare it with itself only.", func() float64 { return float64(m.View().Placement().Version()) })
	gauge("millstream_cluster_fenced", "1 when another process was started under this node's id.", func() float64 { return number(m.Fenced()) })
	gauge("millstream_cluster_draining", "1 when this node has left the membership or is about to.", func() float64 { return number(m.Draining()) })
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
