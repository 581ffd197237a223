package cluster

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millstream/millstream"
)

func segmentKeys(n int) []Key {
	out := make([]Key, n)
	for i := range out {
		out[i] = SegmentKey(millstream.SegmentID(fmt.Sprintf("018f3a52-7c1e-7000-8000-%012d", i)))
	}
	return out
}

// cpus are nodes A, B, C … of so many CPUs.
func cpus(weights ...int) []Node {
	out := make([]Node, len(weights))
	for i, w := range weights {
		out[i] = Node{ID: string(rune('A' + i)), MilliCPU: w * 1000}
	}
	return out
}

func ownerIDs(p *Placement, keys []Key) []string {
	out := make([]string, len(keys))
	for i, k := range keys {
		n, _ := p.Owner(k)
		out[i] = n.ID
	}
	return out
}

func TestNegLog2(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	var worst float64
	for i := range 1_000_000 {
		h := r.Uint64()
		switch i % 3 {
		case 0: // near 1
			h = ^uint64(0) - h>>(10+uint(i%50))
		case 1: // near 0
			h >>= uint(i % 64)
		}
		want := 64 - math.Log2(float64(h)+1)
		if h > 1<<63 { // there the logarithm of a float64 loses digits
			want = -math.Log1p(-float64(^h)/math.Exp2(64)) / math.Ln2
		}
		worst = max(worst, math.Abs(float64(negLog2(h))/(1<<fraction)-want))
	}
	if worst > 1.1e-8 {
		t.Errorf("off by %.3g", worst)
	}
	for _, c := range []struct{ h, want uint64 }{{^uint64(0), 0}, {1<<63 - 1, 1 << fraction}, {1<<62 - 1, 2 << fraction}, {0, 64 << fraction}} {
		if got := negLog2(c.h); got != c.want {
			t.Errorf("negLog2(%#x) = %d, want %d", c.h, got, c.want)
		}
	}
	check := func(h uint64) {
		if h < ^uint64(0) && negLog2(h) < negLog2(h+1) {
			t.Fatalf("grows at %#x", h)
		}
	}
	for range 1_000_000 {
		check(r.Uint64() >> r.UintN(64))
	}
	for i := range uint64(64) { // around the ends of the table's pieces and of the powers of two
		for j := range uint64(4096) {
			edge := (uint64(1)<<63 + j<<51) >> i
			check(edge - 2)
			check(edge - 1)
			check(edge)
		}
	}
}

// What the rules of placement promise for 16, 16 and 8 CPUs, then 16 more, then without the third.
func TestKnownAnswers(t *testing.T) {
	t.Parallel()
	keys := segmentKeys(100_000)
	all := cpus(16, 16, 8, 16)
	three, four, without := ownerIDs(NewPlacement(all[:3]), keys), ownerIDs(NewPlacement(all), keys), ownerIDs(NewPlacement(slices.Delete(slices.Clone(all), 2, 3)), keys)
	percent := func(what string, n, of int, want float64) {
		t.Helper()
		if got := 100 * float64(n) / float64(of); math.Abs(got-want) > 0.6*math.Sqrt(100_000/float64(of)) {
			t.Errorf("%s: %.2f %%, want %.2f %%", what, got, want)
		}
	}
	share, toD, took := map[string]int{}, 0, map[string]int{}
	for i := range keys {
		share[three[i]]++
		if three[i] != four[i] {
			toD++
			if four[i] != "D" {
				t.Fatalf("segment %d moved from %s to %s", i, three[i], four[i])
			}
		}
		if four[i] != without[i] {
			took[without[i]]++
			if four[i] != "C" {
				t.Fatalf("segment %d moved from %s to %s", i, four[i], without[i])
			}
		}
	}
	percent("A of three", share["A"], len(keys), 40)
	percent("B of three", share["B"], len(keys), 40)
	percent("C of three", share["C"], len(keys), 20)
	percent("moved to D", toD, len(keys), 100*16/56.0)
	moved := took["A"] + took["B"] + took["D"]
	percent("moved from C", moved, len(keys), 100*8/56.0)
	for _, id := range []string{"A", "B", "D"} {
		percent("of C's to "+id, took[id], moved, 100/3.0)
	}
}

// randomNodes are n nodes of random weights, some equal.
func randomNodes(r *rand.Rand, n int) []Node {
	out := make([]Node, n)
	for i := range out {
		out[i] = Node{ID: fmt.Sprintf("%016x", r.Uint64()), MilliCPU: 1000 + 500*r.IntN(1+r.IntN(190))}
	}
	return out
}

// Whatever the nodes: a change moves the share of who changed, and nothing between others.
func TestAChangeMovesOnlyItsShare(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 7))
	keys := segmentKeys(4000)
	for range 60 {
		nodes := randomNodes(r, 1+r.IntN(30))
		base := NewPlacement(nodes)
		before := ownerIDs(base, keys)

		joiner := randomNodes(r, 1)[0]
		after := ownerIDs(NewPlacement(append(slices.Clone(nodes), joiner)), keys)
		total, moved := joiner.MilliCPU, 0
		for _, n := range nodes {
			total += n.MilliCPU
		}
		for i := range keys {
			if before[i] != after[i] {
				moved++
				if after[i] != joiner.ID {
					t.Fatal("a join moved segments between others")
				}
			}
		}
		p := float64(joiner.MilliCPU) / float64(total)
		if want := p * float64(len(keys)); math.Abs(float64(moved)-want) > 5*math.Sqrt(want*(1-p))+1 {
			t.Errorf("a join of %.1f %% of the weight moved %d of %d", 100*p, moved, len(keys))
		}

		x := r.IntN(len(nodes))
		if rest := slices.Delete(slices.Clone(nodes), x, x+1); len(rest) > 0 {
			for i, o := range ownerIDs(NewPlacement(rest), keys) {
				want := before[i]
				if want == nodes[x].ID {
					want = base.Rank(keys[i], 2)[1].ID
				}
				if o != want {
					t.Fatal("what a node left behind did not go to the next in its order, or something else moved")
				}
			}
		}

		heavier := slices.Clone(nodes)
		heavier[x].MilliCPU += 1 + r.IntN(32_000)
		for i, o := range ownerIDs(NewPlacement(heavier), keys) {
			if o != before[i] && o != nodes[x].ID {
				t.Fatal("a higher weight moved segments between others")
			}
			if before[i] == nodes[x].ID && o != before[i] {
				t.Fatal("a higher weight took segments away")
			}
		}
	}
}

// The quick ways (one logarithm a class, tables kept by differences) and the plain one agree, and with floating-point logarithms too.
func TestOwnersAreTheLowestCost(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	differs := 0
	keys := segmentKeys(5000)
	for range 10 {
		p := NewPlacement(randomNodes(r, 1+r.IntN(60)))
		for _, k := range keys {
			ranked := p.Rank(k, len(p.nodes))
			owner, _ := p.Owner(k)
			least, lowest := "", math.Inf(1)
			for i, n := range p.nodes {
				u := (float64(pair(k, p.keys[i])) + 1) / math.Exp2(64)
				if c := -math.Log2(u) / float64(n.MilliCPU); c < lowest {
					least, lowest = n.ID, c
				}
			}
			if ranked[0].ID != owner.ID || len(ranked) != len(p.nodes) || !slices.IsSortedFunc(ranked, func(a, b Ranked) int { return cmp.Compare(a.Cost, b.Cost) }) {
				t.Fatalf("owner %s, ranking %v", owner.ID, ranked)
			}
			if least != owner.ID {
				differs++
			}
		}
	}
	if differs > 0 {
		t.Errorf("%d of 50,000 owners are others with floating-point logarithms", differs)
	}
}

func TestTableFollowsItsPlacement(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ segments, steps int }{{1500, 150}, {50_000, 8}} { // the larger is worked on in parts
		follow(t, c.segments, c.steps)
	}
}

func follow(t *testing.T, segments, steps int) {
	t.Helper()
	r := rand.New(rand.NewPCG(5, 6))
	keys := segmentKeys(segments)
	nodes := randomNodes(r, 12)
	table := NewTable(NewPlacement(nil), keys)
	for step := range steps {
		for range 1 + r.IntN(3) {
			x := r.IntN(max(len(nodes), 1))
			switch kind := r.IntN(5); {
			case kind == 0 || len(nodes) == 0:
				nodes = append(nodes, randomNodes(r, 1)...)
			case kind == 1:
				nodes = slices.Delete(nodes, x, x+1)
			case kind == 2:
				nodes[x].MilliCPU += r.IntN(9000)
			case kind == 3:
				nodes[x].MilliCPU = 1 + r.IntN(nodes[x].MilliCPU)
			}
		}
		if step%50 == 7 {
			nodes = nil
		}
		p, want := NewPlacement(nodes), 0
		for i, k := range keys {
			before, after := "", ""
			if o := table.Owner(i); o >= 0 {
				before = table.Placement().Nodes()[o].ID
			}
			if n, ok := p.Owner(k); ok {
				after = n.ID
			}
			if before != after {
				want++
			}
		}
		if moved := table.Move(p); moved != want {
			t.Fatalf("step %d: %d moved, want %d", step, moved, want)
		}
		fresh := NewTable(p, keys)
		if !slices.Equal(table.owner, fresh.owner) || !slices.Equal(table.cost, fresh.cost) || table.Len() != len(keys) {
			t.Fatalf("step %d: the table differs from one made anew", step)
		}
	}
}

// Shares follow the weights: chi-square of 100,000 segments, at most five standard deviations over its mean.
func TestSharesFollowWeights(t *testing.T) {
	t.Parallel()
	keys := segmentKeys(100_000)
	for _, n := range []int{3, 10, 100} {
		r := rand.New(rand.NewPCG(uint64(n), 9))
		p := NewPlacement(randomNodes(r, n))
		got := map[string]int{}
		for _, id := range ownerIDs(p, keys) {
			got[id]++
		}
		chi := 0.0
		for _, s := range p.shares() {
			want := s.Expected * float64(len(keys))
			chi += (float64(got[s.ID]) - want) * (float64(got[s.ID]) - want) / want
		}
		if df := float64(n - 1); chi > df+5*math.Sqrt(2*df) {
			t.Errorf("%d nodes: chi-square %.1f", n, chi)
		}
	}
}

func TestPlacementOfAView(t *testing.T) {
	t.Parallel()
	querier := func(id, placement string, silence, age time.Duration) millstream.Member {
		m := member(id, silence, Querier)
		m.PlacementID, m.StartedAt = placement, at.Add(-age)
		return m
	}
	drains := querier("e", "vol-e", 0, time.Hour)
	drains.Draining = true
	all := member("f", 0, Standalone)
	members := []millstream.Member{
		querier("a", "vol-a", 30*time.Second, time.Hour), querier("b", "vol-b", 30*time.Second+1, time.Hour), querier("old", "vol-c", 20*time.Second, time.Hour),
		querier("new", "vol-c", 0, time.Minute), drains, all, member("g", 0, Intake, Compactor),
	}
	v := NewView(members, at, Timeouts{})
	var got []string
	for _, n := range v.Placement().Nodes() {
		got = append(got, n.ID+"="+string(n.Node))
	}
	equal(t, "placed", got, []string{"f=f", "vol-a=a", "vol-c=new"})
	key := SegmentKey("s")
	owners := v.Owners(key, 5)
	for i, r := range v.Placement().Rank(key, 5) {
		if owners[i].ID != r.Node.Node {
			t.Errorf("owner %d is %s, want %s", i, owners[i].ID, r.Node.Node)
		}
	}
	if len(owners) != 3 || len(v.Owners(key, 2)) != 2 {
		t.Errorf("owners %v", ids(owners))
	}
	if a, _ := v.Member("a"); v.State(a) != Silent {
		t.Error("a silent owner is not told")
	}
	for i := range 200 {
		key := SegmentKey(millstream.SegmentID(fmt.Sprint("s", i)))
		for _, failed := range [][]millstream.NodeID{nil, {"new"}, {"f", "b"}, {"new", "f"}} {
			var want []string
			for _, m := range v.Owners(key, 3) {
				if m.ID != "a" && !slices.Contains(failed, m.ID) { // a is silent
					want = append(want, string(m.ID))
				}
			}
			m := v.Reader(key, 3, failed)
			if (m == nil) != (len(want) == 0) || m != nil && string(m.ID) != want[0] {
				t.Fatalf("without %v segment %d is read by %v, want the first of %v", failed, i, m, want)
			}
		}
	}

	later := at.Add(4 * time.Second)
	for i := range members {
		members[i].HeartbeatAt = members[i].HeartbeatAt.Add(4 * time.Second)
	}
	same := newView(members, later, Timeouts{}, v)
	if same.Placement() != v.Placement() || v.Placement().Version() != 1 {
		t.Errorf("heartbeats alone made placement %d of %d", same.Placement().Version(), v.Placement().Version())
	}
	members[0].MilliCPU = 1500
	if p := newView(members, later, Timeouts{}, v).Placement(); p.Version() != 2 {
		t.Errorf("version %d after a new weight, want 2", p.Version())
	}
	if p := NewView(nil, at, Timeouts{}).Placement(); p.Version() != 0 || len(p.Rank(key, 3)) != 0 {
		t.Error("a view of nobody places segments")
	}
	if _, ok := NewPlacement(nil).Owner(key); ok {
		t.Error("an owner of nobody")
	}
}

func TestSimulate(t *testing.T) {
	t.Parallel()
	pieces := make([]Piece, 20_000)
	for i, k := range segmentKeys(len(pieces)) {
		pieces[i] = Piece{Key: k, Bytes: int64(i % 7)}
	}
	run := func(nodes []Node, c Change) Simulation {
		t.Helper()
		s, err := Simulate(nodes, c, pieces)
		if err != nil {
			t.Fatal(err)
		}
		checkSimulation(t, nodes, c, pieces, s)
		return s
	}
	near := func(what string, got int, want float64) {
		t.Helper()
		if p := 100 * float64(got) / float64(len(pieces)); math.Abs(p-want) > 1 {
			t.Errorf("%s: %.2f %%, want %.2f %%", what, p, want)
		}
	}
	three := cpus(16, 16, 8)
	near("a node of 16 comes", run(three, Change{Add: []Node{{ID: "D", MilliCPU: 16000}}}).MovedSegments, 100*16/56.0)
	near("a node of 8 goes", run(cpus(16, 16, 8, 16), Change{Remove: []string{"C"}}).MovedSegments, 100*8/56.0)
	near("8 becomes 16", run(three, Change{Reweigh: []Node{{ID: "C", MilliCPU: 16000}}}).MovedSegments, 100*(16/48.0-8/40.0))
	near("one for another", run(three, Change{Remove: []string{"C"}, Add: []Node{{ID: "C", MilliCPU: 8000}}}).MovedSegments, 0)
	if s := run(nil, Change{Add: three}); s.MovedSegments != len(pieces) || s.Moves[0].From != "" {
		t.Errorf("the first nodes get %d segments", s.MovedSegments)
	}
	if s, err := Simulate(three, Change{}, nil); err != nil || s.MovedSegments != 0 || len(s.Shares) != 3 || s.Shares[0].Expected != 0.4 {
		t.Errorf("of nothing: %+v, %v", s, err)
	}
	for what, c := range map[string]Change{
		"unknown":    {Remove: []string{"X"}},
		"twice":      {Remove: []string{"A", "A"}},
		"nobody":     {Remove: []string{"A", "B", "C"}},
		"there":      {Add: []Node{{ID: "A", MilliCPU: 1}}},
		"nameless":   {Add: []Node{{MilliCPU: 1}}},
		"weightless": {Add: []Node{{ID: "D"}}},
		"reweigh":    {Reweigh: []Node{{ID: "X", MilliCPU: 1}}},
		"to zero":    {Reweigh: []Node{{ID: "A"}}},
	} {
		if _, err := Simulate(three, c, pieces); millstream.KindOf(err) != millstream.Invalid {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// checkSimulation counts by hand what a simulation says.
func checkSimulation(t *testing.T, nodes []Node, c Change, pieces []Piece, s Simulation) {
	t.Helper()
	changed, err := c.apply(nodes)
	if err != nil {
		t.Fatal(err)
	}
	before, after := NewPlacement(nodes), NewPlacement(changed)
	moves, owned, total := map[string]Move{}, map[string]int{}, int64(0)
	for _, p := range pieces {
		from, _ := before.Owner(p.Key)
		to, _ := after.Owner(p.Key)
		owned[to.ID]++
		total += p.Bytes
		if from.ID != to.ID {
			m := moves[from.ID+">"+to.ID]
			moves[from.ID+">"+to.ID] = Move{from.ID, to.ID, m.Segments + 1, m.Bytes + p.Bytes}
		}
	}
	segments, bytes := 0, int64(0)
	for _, m := range s.Moves {
		if moves[m.From+">"+m.To] != m {
			t.Errorf("move %+v, want %+v", m, moves[m.From+">"+m.To])
		}
		segments, bytes = segments+m.Segments, bytes+m.Bytes
	}
	if len(s.Moves) != len(moves) || segments != s.MovedSegments || bytes != s.MovedBytes || s.Segments != len(pieces) || s.Bytes != total {
		t.Errorf("%d moves of %d: %+v", len(s.Moves), len(moves), s)
	}
	expected, actual := 0.0, 0.0
	for _, share := range s.Shares {
		if owned[share.ID] != share.Segments || math.Abs(share.Expected-share.Actual) > 0.02 {
			t.Errorf("share %+v of %d segments", share, owned[share.ID])
		}
		expected, actual = expected+share.Expected, actual+share.Actual
	}
	if math.Abs(expected-1) > 1e-9 || math.Abs(actual-1) > 1e-9 {
		t.Errorf("shares add up to %v and %v", expected, actual)
	}
}

// The version on /metrics grows when a querier comes or goes, and with nothing else.
func TestThePlacementsVersionIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase()
		querier := func(c *Config) { c.Self.Roles = []string{Querier} }
		a := d.join(t, "a", querier)
		version := func() float64 { return value(t, a.reg, "millstream_placement_version", "") }
		time.Sleep(20 * time.Second)
		alone := version()
		if alone < 1 {
			t.Errorf("version %v of one querier", alone)
		}
		worker := d.join(t, "worker", func(c *Config) { c.Self.Roles = []string{Compactor} })
		time.Sleep(20 * time.Second)
		if got := version(); got != alone {
			t.Errorf("a compactor made version %v of %v", got, alone)
		}
		b := d.join(t, "b", querier)
		time.Sleep(20 * time.Second)
		two := version()
		if two <= alone {
			t.Errorf("a second querier made version %v of %v", two, alone)
		}
		b.kill(t)
		time.Sleep(time.Minute)
		if got := version(); got <= two {
			t.Errorf("a querier that went made version %v of %v", got, two)
		}
		killAll(t, a, worker)
	})
}
