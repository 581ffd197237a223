package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/store"
	"github.com/millstream/millstream/store/storetest"
)

// cpuTime reports the processor time of an operation: on a shared machine the elapsed time says little. What reset does before each is not counted.
func cpuTime(b *testing.B, f func(), reset ...func()) {
	b.Helper()
	used := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	begin, apart := used(), time.Duration(0)
	for b.Loop() {
		if len(reset) > 0 {
			b.StopTimer()
			at := used()
			reset[0]()
			apart += used() - at
			b.StartTimer()
		}
		f()
	}
	b.ReportMetric(float64(used()-begin-apart)/float64(b.N)/1e3, "cpu-µs/op")
}

func BenchmarkOwner(b *testing.B) {
	for _, n := range []int{10, 100} {
		b.Run(fmt.Sprint("nodes=", n), func(b *testing.B) {
			p, keys := NewPlacement(equalNodes(n)), segmentKeys(4096)
			i := 0
			cpuTime(b, func() { p.Owner(keys[i&4095]); i++ })
		})
	}
}

// equalNodes have three weights in turn.
func equalNodes(n int) []Node {
	out := make([]Node, n)
	for i := range out {
		out[i] = Node{ID: fmt.Sprint("query-", i), MilliCPU: 8000 << (i % 3)}
	}
	return out
}

// BenchmarkOwnersOf10000 is a query's plan: 10,000 segments on 10 nodes, and with the members that read them.
func BenchmarkOwnersOf10000(b *testing.B) {
	p := NewPlacement(equalNodes(10))
	names := make([]millstream.SegmentID, 10_000)
	for i := range names {
		names[i] = millstream.SegmentID(fmt.Sprintf("018f3a52-7c1e-7000-8000-%012d", i))
	}
	keys := segmentKeys(10_000)
	b.Run("keys kept", func(b *testing.B) {
		cpuTime(b, func() {
			for _, k := range keys {
				p.Owner(k)
			}
		})
	})
	b.Run("from ids", func(b *testing.B) {
		cpuTime(b, func() {
			for _, id := range names {
				p.Owner(SegmentKey(id))
			}
		})
	})
	b.Run("who reads", func(b *testing.B) {
		members := crowd(10, Querier)
		for i, n := range equalNodes(10) {
			members[i].MilliCPU = n.MilliCPU
		}
		v := NewView(members, at, Timeouts{})
		cpuTime(b, func() {
			for _, id := range names {
				if v.Reader(SegmentKey(id), 3, nil) == nil {
					b.Fatal("nobody reads")
				}
			}
		})
	})
}

func BenchmarkTableOf1M(b *testing.B) {
	keys := segmentKeys(1_000_000)
	nodes := equalNodes(100)
	base := NewPlacement(nodes)
	b.Run("build", func(b *testing.B) { cpuTime(b, func() { NewTable(base, keys) }) })
	heavier := slices.Clone(nodes)
	heavier[50].MilliCPU += 4000
	more, most := NewPlacement(append(slices.Clone(nodes), Node{ID: "query-new", MilliCPU: 16000})), NewPlacement(heavier)
	for _, c := range []struct {
		name     string
		from, to *Placement
	}{{"add", base, more}, {"remove", more, base}, {"raise", base, most}, {"lower", most, base}} {
		b.Run(c.name, func(b *testing.B) {
			before, t := NewTable(c.from, keys), NewTable(c.from, keys)
			cpuTime(b, func() { t.Move(c.to) }, func() {
				t.placement = c.from
				copy(t.owner, before.owner)
				copy(t.cost, before.cost)
			})
		})
	}
}

func BenchmarkRank(b *testing.B) {
	v := NewView(crowd(1000, Intake), at, Timeouts{})
	key := StreamKey("org", millstream.Logs, "app")
	cpuTime(b, func() { v.Rank(Intake, key, 3) })
}

func BenchmarkNewView(b *testing.B) {
	members := crowd(1000, Standalone)
	cpuTime(b, func() { NewView(members, at, Timeouts{}) })
}

// BenchmarkRefresh reads 1,000 members, each with a WAL, from a real database and makes a view of them.
func BenchmarkRefresh(b *testing.B) {
	s, ctx := storetest.New(b), context.Background()
	for i := range 1000 {
		m := millstream.Member{ID: millstream.NodeID(fmt.Sprintf("node-%04d", i)), Addr: "10.0.0.1:5082", Roles: []string{Querier, Intake}, MilliCPU: 4000, PlacementID: uuid.NewString()}
		incarnation, err := s.StartNode(ctx, m)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := s.TakeWAL(ctx, store.WALTake{ID: millstream.WALID(uuid.NewString()), Node: m.ID, Incarnation: incarnation, Addr: m.Addr, Identity: "1:2"}); err != nil {
			b.Fatal(err)
		}
	}
	m := NewMembership(Config{Registry: s, Timeouts: Timeouts{Peer: time.Hour, Drop: time.Hour}, Log: slog.New(slog.DiscardHandler)})
	var took []time.Duration
	cpuTime(b, func() {
		begin := time.Now()
		if err := m.read(ctx); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begin))
	})
	if n := m.View().Count(Intake); n != 1000 || m.view("node-0999").WAL == "" {
		b.Fatalf("%d members", n)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[0].Microseconds())/1000, "best-ms")
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
}
