package cluster

import (
	"math/bits"
	"runtime"
	"sync"
)

// Table is the owners of many segments, kept while nodes come and go at the cost of what changes. It is not safe for concurrent use.
type Table struct {
	placement *Placement
	keys      []Key
	owner     []int32 // into the placement's nodes; -1 without any
	cost      []uint64
}

// NewTable computes the owners of segments; it keeps the slice of keys.
func NewTable(p *Placement, keys []Key) *Table {
	t := &Table{placement: p, keys: keys, owner: make([]int32, len(keys)), cost: make([]uint64, len(keys))}
	t.parts(func(from, to int) int {
		for i := from; i < to; i++ {
			t.place(i)
		}
		return 0
	})
	return t
}

// parts calls f for parts of the table on all processors, and adds up what it counts.
func (t *Table) parts(f func(from, to int) int) (sum int) {
	const least = 1 << 14 // with fewer segments another goroutine is not worth it
	n := min(runtime.GOMAXPROCS(0), len(t.keys)/least+1)
	counts := make([]int, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { counts[i] = f(i*len(t.keys)/n, (i+1)*len(t.keys)/n) })
	}
	wg.Wait()
	for _, c := range counts {
		sum += c
	}
	return sum
}

func (t *Table) place(i int) {
	if len(t.placement.nodes) == 0 {
		t.owner[i], t.cost[i] = -1, 0
		return
	}
	b := t.placement.best(t.keys[i])
	t.owner[i], t.cost[i] = b.index, b.cost
}

// Len is the number of segments.
func (t *Table) Len() int { return len(t.keys) }

// Owner is that of the i-th segment, as an index into the placement's nodes; -1 without any.
func (t *Table) Owner(i int) int { return int(t.owner[i]) }

// Placement is what the table is computed for.
func (t *Table) Placement() *Placement { return t.placement }

// Move brings the table to another placement and returns how many segments have another owner then. Only segments of nodes that went or became lighter are
// computed anew; of the others nodes that came or became heavier may take some, which is one comparison each.
func (t *Table) Move(to *Placement) (moved int) {
	c := changes(t.placement, to)
	if len(t.placement.nodes) == 0 {
		*t = *NewTable(to, t.keys)
		if len(to.nodes) > 0 {
			moved = len(t.keys)
		}
		return moved
	}
	t.placement = to
	return t.parts(func(first, end int) int { return t.move(first, end, c) })
}

func (t *Table) move(first, end int, c change) (moved int) {
	for i := first; i < end; i++ {
		was := t.owner[i]
		now := c.now[was]
		switch c.fate[was] {
		case lost:
			t.place(i)
			if now < 0 || t.owner[i] != now {
				moved++
			}
			continue
		case raised:
			t.cost[i] = t.placement.bid(t.keys[i], int(now)).cost
		}
		t.owner[i] = now
		if t.challenge(i, c.challengers) {
			moved++
		}
	}
	return moved
}

// challenge gives the i-th segment to the best of the challengers that beats its owner.
func (t *Table) challenge(i int, challengers []int32) (changed bool) {
	p, key := t.placement, t.keys[i]
	for _, c := range challengers {
		if c == t.owner[i] {
			continue
		}
		weight := uint64(p.nodes[c].MilliCPU)
		h := pair(key, p.keys[c])
		// cost <= t.cost[i] without the division: most challengers lose.
		if hi, lo := bits.Mul64(t.cost[i]+1, weight); hi == 0 && negLog2(h) >= lo {
			continue
		}
		if b := p.bid(key, int(c)); b.beats(p.bid(key, int(t.owner[i]))) {
			t.owner[i], t.cost[i] = c, b.cost
			changed = true
		}
	}
	return changed
}

// What a change of the placement means for a node that was there.
type fate uint8

const (
	stays  fate = iota
	raised      // keeps what it has
	lost        // may lose any of its segments
)

type change struct {
	now         []int32 // where a former node is now; -1: gone
	fate        []fate
	challengers []int32 // nodes that came or became heavier
}

func changes(from, to *Placement) change {
	c := change{now: make([]int32, len(from.nodes)), fate: make([]fate, len(from.nodes))}
	j := 0
	for i, was := range from.nodes {
		for ; j < len(to.nodes) && to.nodes[j].ID < was.ID; j++ {
			c.challengers = append(c.challengers, int32(j))
		}
		if j == len(to.nodes) || to.nodes[j].ID != was.ID {
			c.now[i], c.fate[i] = -1, lost
			continue
		}
		c.now[i] = int32(j)
		switch is := to.nodes[j]; {
		case is.MilliCPU > was.MilliCPU:
			c.fate[i] = raised
			c.challengers = append(c.challengers, int32(j))
		case is.MilliCPU < was.MilliCPU:
			c.fate[i] = lost
		}
		j++
	}
	for ; j < len(to.nodes); j++ {
		c.challengers = append(c.challengers, int32(j))
	}
	return c
}
