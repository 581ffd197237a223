package cluster

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/store"
	"github.com/millstream/millstream/store/storetest"
)

// real is a node over a real database, with intervals of milliseconds; its announcements come by the database's.
func real(t *testing.T, s *store.Store, id string, change ...func(*Config)) *peer {
	t.Helper()
	p := &peer{reg: prometheus.NewRegistry(), done: make(chan error, 1)}
	cfg := Config{
		Registry: s, Self: millstream.Member{ID: millstream.NodeID(id), Addr: id, Roles: []string{Compactor, Alert}}, Interval: 100 * time.Millisecond, Refresh: time.Hour,
		Timeouts: Timeouts{Peer: 10 * time.Second}, Log: slog.New(slog.DiscardHandler), Registerer: p.reg,
		Beat: func(ctx context.Context, self millstream.Member) (Beat, error) {
			b, err := s.Heartbeat(ctx, self, nil)
			return Beat{At: b.Now, Written: b.Written, Fenced: b.Fenced}, err
		},
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
	listening := make(chan error, 1)
	go func() {
		listening <- s.Listen(ctx, func(channel, _ string) {
			if channel == store.ChannelNodes {
				p.Changed()
			}
		})
	}()
	t.Cleanup(func() {
		p.stop()
		if err := errors.Join(<-p.done, ignoreCanceled(<-listening)); err != nil {
			t.Error(err)
		}
	})
	<-ready
	if err := p.Enter(ctx); err != nil {
		t.Fatal(err)
	}
	return p
}

func ignoreCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for begin := time.Now(); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

func TestNodesOfARealDatabase(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	a := real(t, s, "a")
	b := real(t, s, "b", func(c *Config) { c.Now = func() time.Time { return time.Now().Add(-10 * time.Minute) } })
	// A reading is due in an hour: announcements bring it.
	eventually(t, "the nodes see each other", func() bool { return a.View().Count(Compactor) == 2 && b.View().Count(Compactor) == 2 })
	id := millstream.WALID(uuid.NewString())
	if _, err := s.TakeWAL(t.Context(), store.WALTake{ID: id, Node: "b", Incarnation: b.Incarnation(), Addr: "b", Identity: "1:2"}); err != nil {
		t.Fatal(err)
	}
	a.Changed()
	eventually(t, "b's WAL is seen", func() bool { return a.view("b").WAL == id && a.view("a").WAL == "" })
	eventually(t, "b is warm", func() bool { a.Changed(); b.Changed(); return b.compactor.Active() })
	if d := b.Now().Sub(time.Now()).Abs(); d > time.Minute {
		t.Errorf("b takes the database's clock to be %v off", d)
	}
	b.Drain()
	eventually(t, "b has drained", func() bool { return a.View().Count(Compactor) == 1 })
	time.Sleep(300 * time.Millisecond)
	members, err := s.Nodes(t.Context(), time.Hour)
	if err != nil || len(members) != 1 || members[0].ID != "a" {
		t.Errorf("rows after the drain: %v, %v", ids(members), err)
	}
	if err := a.Leave(t.Context()); err != nil {
		t.Error(err)
	}
	eventually(t, "a has left", func() bool { return len(b.View().Members()) == 0 })
}

func TestTwoProcessesOfOneIDOnARealDatabase(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	var log logged
	older := real(t, s, "a", func(c *Config) { c.Log, c.Self.Addr = slog.New(slog.NewTextHandler(&log, nil)), "older" })
	newer := real(t, s, "a", func(c *Config) { c.Self.Addr = "newer" })
	eventually(t, "the older one says so", func() bool { return log.count("another process runs under this node's id") >= 3 })
	if !older.Fenced() || newer.Fenced() || value(t, older.reg, "millstream_cluster_fenced", "") != 1 {
		t.Errorf("fenced: older %v, newer %v", older.Fenced(), newer.Fenced())
	}
	newer.Changed()
	eventually(t, "the row is the newer one's", func() bool { m := newer.view("a"); return m.Addr == "newer" && m.Incarnation == newer.Incarnation() })
}
