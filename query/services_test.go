package query_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query"
	"github.com/millstream/millstream/segment"
)

// span is a span of a generated trace; fields that are empty are left out of its record.
type span struct {
	at                  int64
	trace, id, parent   string
	service, name       string
	failed              bool
	ns                  int64
	untimed, fractional bool
}

// traffic makes so many traces, a few spans each, with a second between their beginnings. Calls of a trace go on for up to an hour.
func traffic(rnd *rand.Rand, traces int) []span {
	var out []span
	for t := range traces {
		at := epoch + int64(t)*1e9
		trace := fmt.Sprintf("%032x", rnd.Uint64())
		var ids []string
		for i := range 1 + rnd.IntN(9) {
			s := span{
				at: at, trace: trace, id: fmt.Sprintf("%016x", rnd.Uint64()), service: fmt.Sprintf("service-%d", rnd.IntN(9)),
				name: fmt.Sprintf("operation %d", rnd.IntN(90)), failed: rnd.IntN(20) == 0, ns: int64(math.Exp(rnd.NormFloat64()*2 + 14)), untimed: rnd.IntN(50) == 0,
			}
			switch rnd.IntN(40) {
			case 0:
				s.service = ""
			case 1:
				s.name = fmt.Sprintf("GET /items/%d", rnd.Uint32()) // a name with an id in it
			}
			if i > 0 {
				s.parent = ids[rnd.IntN(len(ids))]
			}
			ids = append(ids, s.id)
			out = append(out, s)
			at += rnd.Int64N(600e9)
		}
	}
	slices.SortStableFunc(out, func(a, b span) int { return cmp.Compare(a.at, b.at) })
	return out
}

func traceBatch(spans []span) *millstream.Batch {
	b := millstream.NewBuilder(millstream.Limits{})
	for _, s := range spans {
		for k, v := range map[string]string{"trace_id": s.trace, "span_id": s.id, "parent_span_id": s.parent, "service": s.service, "name": s.name} {
			if v != "" {
				b.String([]byte(k), []byte(v))
			}
		}
		b.String([]byte("status"), []byte(map[bool]string{true: "error", false: "ok"}[s.failed]))
		switch {
		case s.untimed:
		case s.fractional:
			b.Double([]byte("duration_ns"), float64(s.ns))
		default:
			b.Int([]byte("duration_ns"), s.ns)
		}
		if err := b.Commit(s.at); err != nil {
			panic(err)
		}
	}
	return b.Batch()
}

// figures are what is known of some spans.
type figures struct {
	spans, errors int64
	ns            []int64
}

func (f *figures) add(s span) {
	f.spans++
	if s.failed {
		f.errors++
	}
	if !s.untimed {
		f.ns = append(f.ns, s.ns)
	}
}

// check compares figures with those of an answer: counts are equal, quantiles exact for few spans.
func (f *figures) check(t *testing.T, what string, got query.RED) {
	t.Helper()
	slices.Sort(f.ns)
	for p, v := range map[float64]float64{0.5: got.P50, 0.95: got.P95, 0.99: got.P99} {
		want, slack := 0.0, 1e-12
		if n := len(f.ns); n > 0 {
			at := p * float64(n-1)
			low := int(at)
			want = float64(f.ns[low]) + (float64(f.ns[min(low+1, n-1)])-float64(f.ns[low]))*(at-float64(low))
			if n > 256 {
				want, slack = float64(f.ns[int(math.Round(at))]), 0.004
			}
		}
		if math.Abs(v-want) > slack*want {
			t.Errorf("%s: quantile %g is %g, want %g", what, p, v, want)
		}
	}
	if got.Spans != f.spans || got.Errors != f.errors {
		t.Errorf("%s: %d spans with %d errors, want %d with %d", what, got.Spans, got.Errors, f.spans, f.errors)
	}
}

// verify asks for services and edges and compares them with what a plain loop over the spans finds. It gives the rows that were read.
func verify(t *testing.T, what string, n *node, all []span, r millstream.TimeRange, edges bool) *query.Services {
	t.Helper()
	got, err := n.Services(t.Context(), query.Request{Org: org, Range: r}, "", edges)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	type operation struct{ service, name string }
	services, operations, owner := map[string]*figures{}, map[operation]*figures{}, map[string]string{}
	for _, s := range all {
		if s.at < r.Start || s.at >= r.End {
			continue
		}
		op := operation{s.service, s.name}
		if services[s.service] == nil {
			services[s.service] = &figures{}
		}
		if operations[op] == nil {
			operations[op] = &figures{}
		}
		services[s.service].add(s)
		operations[op].add(s)
		owner[s.trace+s.id] = s.service
	}
	if len(got.Services) != len(services) {
		t.Errorf("%s: %d services, want %d", what, len(got.Services), len(services))
	}
	for _, s := range got.Services {
		services[s.Name].check(t, what+": "+s.Name, s.RED)
		var most []int64
		for op, f := range operations {
			if op.service == s.Name {
				most = append(most, f.spans)
			}
		}
		slices.SortFunc(most, func(a, b int64) int { return cmp.Compare(b, a) })
		for i, op := range s.Operations {
			if op.Spans != most[i] {
				t.Errorf("%s: operation %d of %s has %d spans, want %d", what, i, s.Name, op.Spans, most[i])
			}
			operations[operation{s.Name, op.Name}].check(t, what+": "+s.Name+" "+op.Name, op.RED)
		}
		if len(s.Operations) != min(50, len(most)) {
			t.Errorf("%s: %d operations of %s", what, len(s.Operations), s.Name)
		}
	}
	if edges {
		verifyEdges(t, what, got.Edges, all, r, owner)
	} else if len(got.Edges) != 0 {
		t.Errorf("%s: %d edges that nobody asked for", what, len(got.Edges))
	}
	return got
}

func verifyEdges(t *testing.T, what string, got []query.Edge, all []span, r millstream.TimeRange, owner map[string]string) {
	t.Helper()
	want := map[string]*query.Edge{}
	for _, s := range all {
		from, ok := owner[s.trace+s.parent]
		if s.at < r.Start || s.at >= r.End || s.parent == "" || !ok || from == s.service {
			continue
		}
		e := want[from+">"+s.service]
		if e == nil {
			e = &query.Edge{From: from, To: s.service}
			want[from+">"+s.service] = e
		}
		e.Calls++
		if s.failed {
			e.Errors++
		}
		if !s.untimed {
			e.AvgNS += float64(s.ns)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s: %d edges, want %d", what, len(got), len(want))
	}
	for _, e := range got {
		w := want[e.From+">"+e.To]
		if w == nil || e.Calls != w.Calls || e.Errors != w.Errors || math.Abs(e.AvgNS*float64(w.Calls)/w.AvgNS-1) > 1e-9 {
			t.Errorf("%s: edge %+v, want %+v", what, e, w)
		}
	}
}

// merge replaces all segments of a node's only stream by one.
func (n *node) merge() {
	n.mu.Lock()
	defer n.mu.Unlock()
	var readers []*segment.Reader
	for _, s := range n.segments {
		read := func(key string, x millstream.Extent) *bytes.Reader {
			r, err := n.bucket.Get(context.Background(), key, x.Offset, x.Length)
			if err != nil {
				n.t.Fatal(err)
			}
			p, err := io.ReadAll(r)
			if err != nil {
				n.t.Fatal(err)
			}
			return bytes.NewReader(p)
		}
		r, err := segment.Open(read(s.Data.Key, s.Data), s.Data.Length, read(s.Index.Key, s.Index), s.Index.Length)
		if err != nil {
			n.t.Fatal(err)
		}
		readers = append(readers, r)
	}
	var data, index bytes.Buffer
	info, err := segment.Merge(&data, &index, readers, segment.Options{})
	if err != nil {
		n.t.Fatal(err)
	}
	merged := n.segments[0]
	merged.ID, merged.MinTime, merged.MaxTime, merged.Rows = "merged", info.MinTime, info.MaxTime, info.Rows
	merged.Data = millstream.Extent{Key: "data/merged", Length: info.DataSize, Checksum: info.DataSum}
	merged.Index = millstream.Extent{Key: "index/merged", Length: info.IndexSize, Checksum: info.IndexSum}
	for key, buf := range map[string]*bytes.Buffer{"data/merged": &data, "index/merged": &index} {
		if err := n.bucket.Put(context.Background(), key, bytes.NewReader(buf.Bytes()), int64(buf.Len())); err != nil {
			n.t.Fatal(err)
		}
	}
	n.segments = []millstream.Segment{merged}
}

// TestServicesHoweverSpansLie compares services and edges with a plain loop over the spans: unflushed, in several segments, in some that the range cuts, merged
// into one of several runs, and with new spans above; each time twice, the second time from what the first left behind.
func TestServicesHoweverSpansLie(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	all := traffic(rnd, 14_000) // about 70,000 spans: a merged segment has more than one run
	n := newNode(t, nil)
	end := all[len(all)-1].at
	half := epoch + (end-epoch)/2
	ranges := []struct { // the first leaves summaries of parts, with edges
		name string
		millstream.TimeRange
	}{
		{"second half", millstream.TimeRange{Start: half, End: day.End}}, {"all", day}, {"first half", millstream.TimeRange{Start: epoch, End: half}},
		{"middle", millstream.TimeRange{Start: epoch + (end-epoch)/5, End: epoch + (end-epoch)/5*4}}, {"last span", millstream.TimeRange{Start: end, End: end + 1}},
	}
	state := func(what string, spans []span) {
		t.Helper()
		for _, r := range ranges {
			verify(t, what+", "+r.name, n, spans, r.TimeRange, false)
			first := verify(t, what+", "+r.name+" with edges", n, spans, r.TimeRange, true)
			again := verify(t, what+", "+r.name+" again", n, spans, r.TimeRange, true)
			if first.Stats.ScannedBytes < again.Stats.ScannedBytes {
				t.Errorf("%s, %s: %d bytes, then %d", what, r.name, first.Stats.ScannedBytes, again.Stats.ScannedBytes)
			}
		}
	}
	third := len(all) / 3
	n.append(millstream.Traces, "default", traceBatch(all[:third]))
	state("unflushed", all[:third])
	n.flush()
	state("one segment", all[:third])
	n.append(millstream.Traces, "default", traceBatch(all[third:2*third]))
	state("segment and unflushed", all[:2*third])
	n.flush()
	n.append(millstream.Traces, "default", traceBatch(all[2*third:]))
	n.flush()
	state("three segments", all)
	n.merge()
	state("merged", all)
	late := traffic(rnd, 50)
	for i := range late {
		late[i].fractional = true // the schema widens
	}
	n.append(millstream.Traces, "default", traceBatch(late))
	state("merged and unflushed", slices.Concat(all, late))

	if s := verify(t, "from memory", n, slices.Concat(all, late), day, true); s.Stats.ScannedBytes != 0 {
		t.Errorf("%d bytes were read of a segment whose summary is kept", s.Stats.ScannedBytes)
	}
	n.mu.Lock()
	n.streams, n.segments, n.buffers = nil, nil, nil
	n.mu.Unlock()
	verify(t, "deleted", n, nil, day, true)
}

// TestServicesFollowTheSchema keeps a summary and then widens a field: what was kept must not answer for it.
func TestServicesFollowTheSchema(t *testing.T) {
	n := newNode(t, nil)
	n.append(millstream.Traces, "default", lines(epoch, "service=web name=a status=ok duration_ns=700", "service=web name=a status=error duration_ns=900"))
	n.flush()
	p50 := func() float64 {
		t.Helper()
		s, err := n.Services(t.Context(), query.Request{Org: org, Range: day}, "default", false)
		if err != nil {
			t.Fatal(err)
		}
		return s.Services[0].P50
	}
	if got := p50(); got != 800 {
		t.Errorf("median of whole numbers: %g", got)
	}
	n.append(millstream.Traces, "default", lines(epoch+10e9, "service=web name=a status=ok duration_ns=1000.5"))
	if got := p50(); got != 900 {
		t.Errorf("median of numbers: %g", got)
	}
	n.append(millstream.Traces, "default", lines(epoch+20e9, "service=web name=a status=ok duration_ns=long"))
	if got := p50(); got != 0 {
		t.Errorf("median of texts: %g", got)
	}
}

// TestServicesInBounds has less memory than the figures need.
func TestServicesInBounds(t *testing.T) {
	n := newNode(t, func(c *query.Config) { c.Limits.Memory = 10_000 })
	n.append(millstream.Traces, "default", traceBatch(traffic(rand.New(rand.NewPCG(5, 6)), 1000)))
	for _, what := range []string{"unflushed", "flushed"} {
		_, err := n.Services(t.Context(), query.Request{Org: org, Range: day}, "default", false)
		if millstream.KindOf(err) != millstream.Unprocessable || !strings.Contains(err.Error(), "narrow the time range") {
			t.Errorf("%s: got %v", what, err)
		}
		if what == "unflushed" {
			n.flush()
		}
	}
}
