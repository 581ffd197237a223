package api

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/cluster"
	"github.com/millstream/millstream/store"
)

func BenchmarkRequestWithAPIToken(b *testing.B) {
	w := newWorld(b)
	a := *w.api
	a.Registerer, a.Gatherer = newRegistry()
	h, err := a.build([]route{{method: "POST", path: "/in", policy: intake(), handle: func(w http.ResponseWriter, _ *http.Request) error { return empty(w) }}})
	if err != nil {
		b.Fatal(err)
	}
	token, _ := w.apiToken(w.root(), "intake")
	a.Log, a.Now = slog.New(slog.DiscardHandler), time.Now
	req := httptest.NewRequest(http.MethodPost, "/in", nil)
	req.Header.Set("Authorization", "Bearer "+token)
	out := discard{http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(out, req)
	}
}

// discard is a reply that goes nowhere.
type discard struct{ h http.Header }

func (d discard) Header() http.Header { return d.h }

func (d discard) Write(p []byte) (int, error) { return len(p), nil }

func (d discard) WriteHeader(int) {}

// crowded is a catalog of generated segments.
type crowded struct {
	placed
	ids []millstream.SegmentID
}

func (c crowded) Footprints(_ context.Context, _ millstream.OrgID, _ millstream.StreamID, f func(store.Footprint) error) error {
	for i, id := range c.ids {
		if err := f(store.Footprint{ID: id, MaxTime: int64(i), Bytes: 1 << 20}); err != nil {
			return err
		}
	}
	return nil
}

// BenchmarkOwnershipOf1M is who owns what of 1 M segments at 100 nodes of three weights, and what one more node would move, without the database.
func BenchmarkOwnershipOf1M(b *testing.B) {
	ids := make([]millstream.SegmentID, 1_000_000)
	for i := range ids {
		ids[i] = millstream.SegmentID(fmt.Sprintf("018f3a52-7c1e-7000-8000-%012d", i))
	}
	a := &API{Placed: crowded{ids: ids}}
	nodes := make([]cluster.Node, 100)
	for i := range nodes {
		nodes[i] = cluster.Node{ID: fmt.Sprint("query-", i), MilliCPU: 8000 << (i % 3)}
	}
	used := func() time.Duration {
		var u syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	report := func(b *testing.B, begin time.Duration) { // on a shared machine the elapsed time says little
		b.ReportMetric(float64((used()-begin).Milliseconds())/float64(b.N), "cpu-ms/op")
	}
	b.Run("tally", func(b *testing.B) {
		defer report(b, used())
		for b.Loop() {
			t := cluster.NewTally(cluster.NewPlacement(nodes), cluster.Grid{Width: 5000, Columns: 200})
			if err := a.eachPlaced(b.Context(), "", "", t.Add); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("simulate", func(b *testing.B) {
		defer report(b, used())
		for b.Loop() {
			s, err := cluster.NewSimulator(nodes, cluster.Change{Add: []cluster.Node{{ID: "new", MilliCPU: 16000}}})
			if err == nil {
				err = a.eachPlaced(b.Context(), "", "", func(part []cluster.Timed) { s.Add(pieces(part)) })
			}
			if err != nil || s.Result().Segments != 1_000_000 {
				b.Fatal(err)
			}
		}
	})
}
