package cluster

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millstream/millstream"
)

// database is the table of members as the real one behaves, with a clock of its own; in a synctest bubble its time is exact.
type database struct {
	mu           sync.Mutex
	ahead        time.Duration
	down         bool
	reads        int
	rows         map[millstream.NodeID]millstream.Member
	incarnations map[millstream.NodeID]int64
	listeners    []*Membership // of announcements
}

func newDatabase() *database {
	return &database{ahead: 77 * time.Hour, rows: map[millstream.NodeID]millstream.Member{}, incarnations: map[millstream.NodeID]int64{}}
}

func (d *database) now() time.Time { return time.Now().Add(d.ahead).Round(0) }

func (d *database) locked(f func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.down {
		return millstream.Errorf(millstream.Unavailable, "the database cannot be reached")
	}
	return f()
}

func (d *database) notify() {
	for _, m := range d.listeners {
		m.Changed()
	}
}

func (d *database) StartNode(_ context.Context, m millstream.Member) (int64, error) {
	err := d.locked(func() error {
		d.incarnations[m.ID]++
		m.Incarnation = d.incarnations[m.ID]
		delete(d.rows, m.ID)
		d.notify()
		return nil
	})
	return m.Incarnation, err
}

func (d *database) EnterNode(_ context.Context, m millstream.Member) (at time.Time, err error) {
	err = d.locked(func() error {
		at = d.now()
		m.StartedAt, m.HeartbeatAt = at, at
		d.rows[m.ID] = m
		d.notify()
		return nil
	})
	return at, err
}

func (d *database) RemoveNode(_ context.Context, id millstream.NodeID, incarnation int64) error {
	return d.locked(func() error {
		if d.rows[id].Incarnation == incarnation {
			delete(d.rows, id)
			d.notify()
		}
		return nil
	})
}

func (d *database) Nodes(_ context.Context, silence time.Duration) (out []millstream.Member, err error) {
	err = d.locked(func() error {
		d.reads++
		for _, m := range d.rows {
			if m.HeartbeatAge = d.now().Sub(m.HeartbeatAt); m.HeartbeatAge <= silence {
				out = append(out, m)
			}
		}
		slices.SortFunc(out, func(a, b millstream.Member) int { return cmp.Compare(a.ID, b.ID) })
		return nil
	})
	return out, err
}

func (d *database) Now(context.Context) (at time.Time, err error) {
	err = d.locked(func() error { at = d.now(); return nil })
	return at, err
}

func (d *database) beat(ctx context.Context, m millstream.Member) (b Beat, err error) {
	if m.Draining {
		if err := d.RemoveNode(ctx, m.ID, m.Incarnation); err != nil {
			return Beat{}, err
		}
	}
	err = d.locked(func() error {
		b = Beat{At: d.now(), Fenced: d.incarnations[m.ID] > m.Incarnation}
		if b.Written = !b.Fenced && !m.Draining; b.Written {
			m.StartedAt, m.HeartbeatAt = cmp.Or(d.rows[m.ID].StartedAt, d.now()), d.now()
			d.rows[m.ID] = m
		}
		return nil
	})
	return b, err
}

// announceTo makes announcements reach members, as a listening connection does.
func (d *database) announceTo(peers ...*peer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range peers {
		d.listeners = append(d.listeners, p.Membership)
	}
}

func (d *database) readings() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.reads
}

func (d *database) set(down bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.down = down
}

// peer is a node of a test with the compactor's and the alert node's work.
type peer struct {
	*Membership
	compactor, alert *Work
	reg              *prometheus.Registry
	stop             context.CancelFunc // and nothing else: peers see it as a crash
	done             chan error
}

// join starts a node and waits until it is a member.
func (d *database) join(t testing.TB, id string, change ...func(*Config)) *peer {
	t.Helper()
	p := d.start(t, id, change...)
	if err := p.Enter(context.Background()); err != nil {
		t.Fatal(err)
	}
	synctest.Wait() // it sees itself
	return p
}

// start starts a node that is no member yet.
func (d *database) start(t testing.TB, id string, change ...func(*Config)) *peer {
	t.Helper()
	p := &peer{reg: prometheus.NewRegistry(), done: make(chan error, 1)}
	cfg := Config{
		Registry: d, Self: millstream.Member{ID: millstream.NodeID(id), Addr: id, Roles: []string{Compactor, Alert}}, Beat: d.beat,
		Weight: func() int { return 4000 }, Log: slog.New(slog.DiscardHandler), Registerer: p.reg,
	}
	for _, f := range change {
		f(&cfg)
	}
	p.Membership = NewMembership(cfg)
	p.compactor, p.alert = NewWork(Compactor, p.Membership, p.reg), NewWork(Alert, p.Membership, p.reg)
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	ready := make(chan struct{})
	go func() { p.done <- p.Run(ctx, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-p.done:
		t.Fatalf("node %s ended: %v", id, err)
	}
	return p
}

func (p *peer) kill(t testing.TB) {
	t.Helper()
	p.stop()
	if err := <-p.done; err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("node %s: %v", p.Self(), err)
	}
}

func killAll(t testing.TB, peers ...*peer) {
	t.Helper()
	for _, p := range peers {
		p.kill(t)
	}
}

// owners counts, for each unit, on how many of the peers it is.
func owners(units []string, peers []*peer) map[string]int {
	n := map[string]int{}
	for _, u := range units {
		n[u] = 0
		for _, p := range peers {
			if p.compactor.Mine(u) {
				n[u]++
			}
		}
	}
	return n
}

func once(n map[string]int) bool {
	for _, c := range n {
		if c != 1 {
			return false
		}
	}
	return true
}

// value is one sample of a registry; NaN-free tests only.
func value(t testing.TB, reg *prometheus.Registry, name, labels string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			text := ""
			for _, l := range m.GetLabel() {
				text += l.GetName() + "=" + l.GetValue()
			}
			if f.GetName() == name && text == labels {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("no sample %s{%s}", name, labels)
	return 0
}
