package cluster

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
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
	keys := segmentKeys(200_000)
	all := cpus(16, 16, 8, 16)
	three, four, without := ownerIDs(NewPlacement(all[:3]), keys), ownerIDs(NewPlacement(all), keys), ownerIDs(NewPlacement(slices.Delete(slices.Clone(all), 2, 3)), keys)
	percent := func(what string, n, of int, want float64) {
		t.Helper()
		if got := 100 * float64(n) / float64(of); math.Abs(got-want) > 0.4*math.Sqrt(200_000/float64(of)) {
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
	r := rand.New(rand.NewPCG(5, 6))
	keys := segmentKeys(1500)
	nodes := randomNodes(r, 12)
	table := NewTable(NewPlacement(nil), keys)
	for step := range 150 {
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
		if step%50 == 49 {
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

	later := at.Add(4 * time.Second)
	for i := range members {
		members[i].HeartbeatAt = members[i].HeartbeatAt.Add(4 * time.Second)
	}
	same := newView(members, later, Timeouts{}, v.Placement())
	if same.Placement() != v.Placement() || v.Placement().Version() != 1 {
		t.Errorf("heartbeats alone made placement %d of %d", same.Placement().Version(), v.Placement().Version())
	}
	members[0].MilliCPU = 1500
	if p := newView(members, later, Timeouts{}, v.Placement()).Placement(); p.Version() != 2 {
		t.Errorf("version %d after a new weight, want 2", p.Version())
	}
	if p := NewView(nil, at, Timeouts{}).Placement(); p.Version() != 0 || len(p.Rank(key, 3)) != 0 {
		t.Error("a view of nobody places segments")
	}
	if _, ok := NewPlacement(nil).Owner(key); ok {
		t.Error("an owner of nobody")
	}
}

// vectors are for implementations in other languages: everything is in testdata/placement.json.
type vectors struct {
	About []string     `json:"about"`
	Log2  [][2]string  `json:"neg_log2"` // hash, -log2((hash+1)/2^64) in Q6.57
	Keys  []keyVector  `json:"keys"`
	Cases []caseVector `json:"cases"`
}

type keyVector struct {
	ID string `json:"id"`
	Lo string `json:"lo"`
	Hi string `json:"hi"`
}

type caseVector struct {
	Nodes    []nodeVector    `json:"nodes"`
	Segments []segmentVector `json:"segments"`
}

type nodeVector struct {
	ID       string `json:"id"`
	MilliCPU int    `json:"milli_cpu"`
}

type segmentVector struct {
	ID      string   `json:"id"`
	Owner   string   `json:"owner"`
	Ranking []string `json:"ranking"`
	Hashes  []string `json:"hashes"`
	Costs   []string `json:"costs"`
}

var update = flag.Bool("update", false, "write testdata/placement.json anew")

// TestVectors fails when any owner anywhere would change with a release: nodes of two releases would then disagree.
func TestVectors(t *testing.T) {
	t.Parallel()
	const file = "testdata/placement.json"
	got, err := json.MarshalIndent(makeVectors(), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s differs from what this build computes", file)
	}
}

func hexOf(x uint64) string { return fmt.Sprintf("%016x", x) }

func makeVectors() vectors {
	v := vectors{About: []string{
		"Weighted rendezvous placement. All numbers of 64 bits are hexadecimal.",
		"key(id) = BLAKE3(id), bytes 0-7 as lo and 8-15 as hi, both little-endian.",
		"hash(segment, node): (hi, lo) = 128-bit product of (segment.lo xor node.lo) and (segment.hi xor node.hi); x = hi xor lo xor rotl(node.lo, 32) xor segment.hi;",
		"then x ^= x>>33; x *= ff51afd7ed558ccd; x ^= x>>33; x *= c4ceb9fe1a85ec53; x ^= x>>33, modulo 2^64.",
		"neg_log2(h) in Q6.57: v = h+1 (2^64 gives 0); z = leading zeros of v; m = v<<z; i = bits 51-62 of m; part = high half of (T[i+1]-T[i]) * (m<<13);",
		"neg_log2 = ((z+1)<<57) - (T[i]+part), where T[i] = floor(2^57 * log2(1+i/4096)) as computed by 57 squarings that each drop the bits below 2^-63 of the mantissa.",
		"cost = floor(neg_log2(hash) / milli_cpu). Ranking: by cost, then the higher hash, then the lower id. The first is the owner.",
	}}
	for _, h := range []uint64{0, 1, 2, 1<<32 - 1, 1<<62 - 1, 1 << 62, 1<<63 - 1, 1 << 63, 0x8123456789abcdef, 0xb504f333f9de6484, 0xfffffffffffffffe, ^uint64(0)} {
		v.Log2 = append(v.Log2, [2]string{hexOf(h), hexOf(negLog2(h))})
	}
	uuid := func(kind, i int) string { return fmt.Sprintf("%08x-0000-4000-8000-%012x", kind, i*0x9e3779b1) }
	sets := [][]int{{4000}, {16000, 16000, 8000}, {16000, 16000, 8000, 16000}, {1000, 1500, 2500, 64000, 1500}, {8000, 8000, 8000, 8000, 8000, 8000, 8000, 8000}, {1000, 2000, 3000, 4000, 6000, 8000, 12000, 16000, 24000, 32000, 48000, 64000, 96000, 128000}}
	for s, weights := range sets {
		var nodes []Node
		var c caseVector
		for i, w := range weights {
			nodes = append(nodes, Node{ID: uuid(0xa0+s/2, i), MilliCPU: w})
			c.Nodes = append(c.Nodes, nodeVector{nodes[i].ID, w})
		}
		p := NewPlacement(nodes)
		for i := range 12 {
			id := uuid(0x5e, i+100*s)
			seg := segmentVector{ID: id}
			for _, r := range p.Rank(SegmentKey(millstream.SegmentID(id)), len(nodes)) {
				seg.Ranking = append(seg.Ranking, r.ID)
				seg.Hashes = append(seg.Hashes, hexOf(pair(KeyOf(id), KeyOf(r.ID))))
				seg.Costs = append(seg.Costs, hexOf(r.Cost))
			}
			owner, _ := p.Owner(KeyOf(id))
			seg.Owner = owner.ID
			c.Segments = append(c.Segments, seg)
		}
		v.Cases = append(v.Cases, c)
	}
	for _, id := range []string{"", "a", v.Cases[0].Nodes[0].ID, v.Cases[1].Segments[0].ID, v.Cases[5].Segments[3].ID} {
		k := KeyOf(id)
		v.Keys = append(v.Keys, keyVector{id, hexOf(k.lo), hexOf(k.hi)})
	}
	return v
}

func BenchmarkOwner(b *testing.B) {
	for _, n := range []int{10, 100} {
		b.Run(fmt.Sprint("nodes=", n), func(b *testing.B) {
			p, keys := NewPlacement(equalNodes(n)), segmentKeys(4096)
			for i := 0; b.Loop(); i++ {
				p.Owner(keys[i&4095])
			}
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

// BenchmarkOwnersOf10000 is a query's plan: 10,000 segments on 10 nodes, from their ids.
func BenchmarkOwnersOf10000(b *testing.B) {
	p := NewPlacement(equalNodes(10))
	names := make([]millstream.SegmentID, 10_000)
	for i := range names {
		names[i] = millstream.SegmentID(fmt.Sprintf("018f3a52-7c1e-7000-8000-%012d", i))
	}
	keys := segmentKeys(10_000)
	b.Run("keys kept", func(b *testing.B) {
		for b.Loop() {
			for _, k := range keys {
				p.Owner(k)
			}
		}
	})
	b.Run("from ids", func(b *testing.B) {
		for b.Loop() {
			for _, id := range names {
				p.Owner(SegmentKey(id))
			}
		}
	})
}

func BenchmarkTableOf1M(b *testing.B) {
	keys := segmentKeys(1_000_000)
	nodes := equalNodes(100)
	base := NewPlacement(nodes)
	b.Run("build", func(b *testing.B) {
		for b.Loop() {
			NewTable(base, keys)
		}
	})
	heavier := slices.Clone(nodes)
	heavier[50].MilliCPU += 4000
	for name, other := range map[string][]Node{"add and remove": append(slices.Clone(nodes), Node{ID: "query-new", MilliCPU: 16000}), "raise and lower": heavier} {
		b.Run(name, func(b *testing.B) { // two changes each
			t, to := NewTable(base, keys), NewPlacement(other)
			for b.Loop() {
				t.Move(to)
				t.Move(base)
			}
		})
	}
}
