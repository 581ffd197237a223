package cluster

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/millstream/millstream"
)

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
