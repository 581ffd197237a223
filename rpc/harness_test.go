package rpc

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/netfault"
)

// fakeIntake keeps what it was given.
type fakeIntake struct {
	write func(ctx context.Context, batches []*millstream.Batch) (int, error) // nil: takes everything
	flush error
	wal   millstream.WALID

	mu  sync.Mutex
	got []*millstream.Batch
}

func (f *fakeIntake) Write(ctx context.Context, batches ...*millstream.Batch) (int, error) {
	if f.write != nil {
		if n, err := f.write(ctx, batches); err != nil || n > 0 {
			return n, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.got = append(f.got, batches...)
	return 0, nil
}

func (f *fakeIntake) WAL() millstream.WALID { return f.wal }

func (f *fakeIntake) Flush(context.Context) error { return f.flush }

func (f *fakeIntake) batches() []*millstream.Batch {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.got
}

// expiring is a context whose deadline passes when the test says so.
type expiring struct {
	context.Context
	over chan struct{}
}

func expires(t testing.TB) expiring { return expiring{t.Context(), make(chan struct{})} }

func (e expiring) Done() <-chan struct{} { return e.over }

func (e expiring) Err() error {
	select {
	case <-e.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// serveOn runs a server on loopback TCP until the test ends, and returns its address.
func serveOn(t testing.TB, s *Server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if s.Node == "" {
		s.Node = "peer"
	}
	g := s.GRPC()
	served := make(chan error, 1)
	go func() { served <- g.Serve(l) }()
	t.Cleanup(func() {
		g.Stop()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return l.Addr().String()
}

// clientsWith makes a pool that the test's end closes.
func clientsWith(t testing.TB, cfg ClientConfig) *Clients {
	t.Helper()
	cfg.Node = "self"
	cs := NewClients(cfg)
	t.Cleanup(cs.Close)
	return cs
}

// connect is a client of a server that trusts its network.
func connect(t testing.TB, s *Server) *Client {
	t.Helper()
	s.Trusted = true
	return clientsWith(t, ClientConfig{}).To(millstream.Member{ID: "peer", Addr: serveOn(t, s)})
}

// connectThrough is connect with a link in between that can be broken.
func connectThrough(t testing.TB, s *Server, cfg ClientConfig) (*Client, *netfault.Link) {
	t.Helper()
	s.Trusted = true
	link := netfault.NewLink(t, serveOn(t, s))
	return clientsWith(t, cfg).To(millstream.Member{ID: "peer", Addr: link.Addr}), link
}

// reset breaks the connections that there are.
func reset(l *netfault.Link) {
	l.Set(netfault.Cut)
	l.Set(netfault.Whole)
}

// logs makes a batch of log records like those of a web server.
func logs(rows int, id byte) *millstream.Batch {
	b := millstream.NewBuilder(millstream.Limits{})
	for i := range rows {
		b.String([]byte("message"), fmt.Appendf(nil, "GET /api/v1/orders/%d answered in %d ms for customer %d of region eu-west-%d", i*7919, i%311, i*31, i%3))
		b.String([]byte("level"), []byte([]string{"info", "warn", "error", "debug"}[i%4]))
		b.String([]byte("service"), []byte("checkout"))
		b.String([]byte("host"), fmt.Appendf(nil, "node-%d", i%20))
		b.String([]byte("trace_id"), fmt.Appendf(nil, "%032x", i*2654435761))
		b.Int([]byte("status"), int64(200+i%5))
		b.Double([]byte("seconds"), float64(i)/1000)
		if err := b.Commit(int64(1_700_000_000_000_000_000 + i)); err != nil {
			panic(err)
		}
	}
	out := b.Batch()
	out.Org, out.Signal, out.Name, out.ID = "11111111-1111-7111-8111-111111111111", millstream.Logs, "web", millstream.BatchID{id, 1, 2, 3}
	return out
}

// quietLog is a log for tests that provoke errors.
func quietLog() *slog.Logger { return slog.New(slog.DiscardHandler) }

// counted is the value of a counter or gauge with a label value among its labels.
func counted(t *testing.T, reg *prometheus.Registry, name, label string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetValue() == label {
					return m.GetCounter().GetValue() + m.GetGauge().GetValue()
				}
			}
			if len(m.GetLabel()) == 0 {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return 0
}
