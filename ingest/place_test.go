package ingest

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/cluster"
)

// TestMetricsAreSplitByOwner: each series goes to its bucket's node with all that belongs to it, one part a node; keyed and single-node requests stay whole.
func TestMetricsAreSplitByOwner(t *testing.T) {
	p := newPeers("a", "b", "c")
	b := manySeries(t, 300)
	if _, err := p.router(nil).Write(t.Context(), Write{Org: testOrg, Batches: []*millstream.Batch{b}}); err != nil {
		t.Fatal(err)
	}
	want, got := samplesOf(t, b.Samples), map[string]int{}
	owners, metadata := map[string]millstream.NodeID{}, 0
	for id, calls := range p.calls {
		if len(calls) != 1 || len(calls[0]) != 1 {
			t.Fatalf("node %s: %d calls", id, len(calls))
		}
		s := calls[0][0].Samples
		metadata += len(s.Metadata)
		for k, n := range samplesOf(t, s) {
			got[k] += n
		}
		for _, series := range s.Series {
			if o, ok := owners[series]; ok && o != id {
				t.Errorf("a series went to %s and %s", o, id)
			}
			owners[series] = id
		}
	}
	if len(p.calls) != 3 || metadata != len(b.Samples.Metadata) {
		t.Errorf("%d nodes, %d metadata", len(p.calls), metadata)
	}
	if len(got) != len(want) {
		t.Errorf("%d samples and exemplars, want %d", len(got), len(want))
	}
	for k, n := range want {
		if got[k] != n {
			t.Errorf("%q: %d times, want %d", k, got[k], n)
		}
	}

	p.calls = map[millstream.NodeID][][]*millstream.Batch{}
	if _, err := p.router(newModel()).Write(t.Context(), keyed("k", 1, b)); err != nil || len(p.calls) != 1 {
		t.Errorf("a keyed request went to %d nodes, %v", len(p.calls), err)
	}
	one := newPeers("a")
	if _, err := one.router(nil).Write(t.Context(), Write{Org: testOrg, Batches: []*millstream.Batch{b}}); err != nil {
		t.Fatal(err)
	}
	if sent := one.calls["a"][0][0]; sent.Samples != b.Samples {
		t.Error("with one node the samples were copied")
	}
	alone := &millstream.Batch{Org: testOrg, Signal: millstream.Metrics, Name: millstream.MetricStream, Samples: &millstream.Samples{Metadata: b.Samples.Metadata}}
	p.calls = map[millstream.NodeID][][]*millstream.Batch{}
	if _, err := p.router(nil).Write(t.Context(), Write{Org: testOrg, Batches: []*millstream.Batch{alone}}); err != nil || len(p.calls) != 1 {
		t.Errorf("metadata alone: %v, %d nodes", err, len(p.calls))
	}
}

// manySeries has n series with two samples, a histogram, an exemplar and a start time here and there, and one that has an exemplar alone.
func manySeries(t testing.TB, n int) *millstream.Batch {
	s := &millstream.Samples{Metadata: []millstream.Metadata{{Name: "m", Type: "counter"}, {Name: "n", Type: "gauge"}}}
	for i := range n + 1 {
		k, err := millstream.EncodeLabels(nil, []millstream.Label{{Name: "__name__", Value: "m"}, {Name: "i", Value: fmt.Sprint(i)}})
		if err != nil {
			t.Fatal(err)
		}
		s.Series = append(s.Series, string(k))
	}
	for j := range 2 {
		for i := range n {
			s.Ref, s.Time, s.Value = append(s.Ref, uint32(i)), append(s.Time, int64(1000*i+j)), append(s.Value, math.Float64frombits(uint64(i)<<20|uint64(j)))
			s.Start = append(s.Start, int64(i))
			var h []byte
			if i%7 == 0 {
				h = fmt.Appendf(nil, "histogram %d", i)
			}
			s.Histogram = append(s.Histogram, h)
		}
	}
	for i := 0; i <= n; i += 10 {
		s.Exemplars = append(s.Exemplars, millstream.Exemplar{Ref: uint32(i), Time: int64(i), Value: float64(i), Labels: "x"})
	}
	s.Exemplars = append(s.Exemplars, millstream.Exemplar{Ref: uint32(n), Time: 1})
	return &millstream.Batch{Org: testOrg, Signal: millstream.Metrics, Name: millstream.MetricStream, Samples: s}
}

// samplesOf counts each sample and exemplar by all that it is.
func samplesOf(t *testing.T, s *millstream.Samples) map[string]int {
	out := map[string]int{}
	for i, r := range s.Ref {
		out[fmt.Sprintf("%q %d %x %d %s", s.Series[r], s.Time[i], math.Float64bits(s.Value[i]), s.Start[i], bytes.Clone(s.Histogram[i]))]++
	}
	for _, e := range s.Exemplars {
		out[fmt.Sprintf("exemplar %q %d %v %q", s.Series[e.Ref], e.Time, e.Value, e.Labels)]++
	}
	return out
}

// TestOnlyTheOwnStreamsMove: a node that joins takes streams and buckets to itself only, one that leaves gives up its own only.
func TestOnlyTheOwnStreamsMove(t *testing.T) {
	p := newPeers("a", "b", "c")
	before := map[string]millstream.NodeID{}
	for i := range 2000 {
		name := fmt.Sprint("s", i)
		before[name] = p.order(name)[0]
	}
	p.live = append(p.live, "d")
	moved := 0
	for name, was := range before {
		switch now := p.order(name)[0]; {
		case now == was:
		case now == "d":
			moved++
		default:
			t.Fatalf("%s moved from %s to %s", name, was, now)
		}
	}
	if moved < 400 || moved > 600 {
		t.Errorf("%d of 2000 streams moved to the fourth node, want about 500", moved)
	}
	p.live = []millstream.NodeID{"a", "c"}
	for name, was := range before {
		if now := p.order(name)[0]; was != "b" && now != was {
			t.Fatalf("%s moved from %s to %s when b left", name, was, now)
		}
	}
}

// BenchmarkPlace is the choice of nodes for a request of one stream, and the division of 500 samples, among 3, 100 and 1,000 intakes.
func BenchmarkPlace(b *testing.B) {
	for _, n := range []int{1, 3, 100, 1000} {
		p := newPeers()
		for i := range n {
			p.live = append(p.live, millstream.NodeID(fmt.Sprint("intake-", i)))
		}
		v := p.view()
		r := p.router(nil)
		r.cfg.View = func() *cluster.View { return v }
		for name, batch := range map[string]*millstream.Batch{"logs": rows("app", 0, 500), "metrics": manySeries(b, 250)} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := r.place([]*millstream.Batch{batch}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
