package cache

import (
	"cmp"
	"context"
	"io"
	"slices"
)

// Sizes of fetches. A request to the object store costs about as much time as the transfer of some megabytes, so it is a goal that requests are not more than two
// and one per goalSize fetched, of each segment of a query: one is that of the index.
const (
	goalSize   = 4 << 20
	firstFetch = 1 << 20  // of a segment of which nothing is known to be wanted
	nextFetch  = 4 << 20  // of such a segment once something was fetched
	wholeFetch = 16 << 20 // the most at once: if what is wanted is known
	nearBlocks = 2        // gaps of so many blocks are always fetched along
	aheadMost  = 4        // fetches that run ahead of a reader
)

// reading is one reader of a segment's data. It belongs to one goroutine.
type reading struct {
	*Blocks
	ctx      context.Context
	most     int64             // what is fetched at once; 0: as the reader's expectations say
	expect   func() [][2]int64 // asked when something is missing
	plan     []stretch         // what is going to be read and was missing, by place; fetches of it that have not begun
	begun    []*fetch          // fetches of the plan
	requests int               // that it made
	blocks   int               // that they were for
}

// stretch is a run of blocks.
type stretch struct{ first, end int }

// Bind gives the data to a reader whose reads end with a context. What is being fetched then is fetched on. It is for one goroutine.
func (b *Blocks) Bind(ctx context.Context) io.ReaderAt { return &reading{Blocks: b, ctx: ctx} }

// ReadAt implements io.ReaderAt. It may wait for the object store.
func (r *reading) ReadAt(p []byte, off int64) (int, error) { return r.readAt(r, p, off) }

// Expect sets what tells, if something turns out to be missing, which parts of the data are going to be read: pairs of offsets, the second not included.
func (r *reading) Expect(plan func() [][2]int64) { r.expect = plan }

// ask makes the plan, if there is somebody to be asked for it.
func (r *reading) ask() {
	if r.expect == nil {
		return
	}
	if parts := r.expect(); len(parts) > 0 {
		r.plan = r.outline(parts)
	}
}

// outline divides what is missing of some parts into fetches.
func (r *reading) outline(parts [][2]int64) []stretch {
	wanted := make([]bool, r.count)
	for _, p := range parts {
		for i := max(p[0], 0) / blockSize; i < int64(r.count) && i*blockSize < p[1]; i++ {
			wanted[i] = true
		}
	}
	r.mu.Lock()
	for i := range wanted {
		wanted[i] = wanted[i] && r.sums[i] == (sum{}) && r.underWay(i) == nil
	}
	r.mu.Unlock()
	var all []stretch
	for i, w := range wanted {
		switch {
		case !w:
		case len(all) > 0 && i-all[len(all)-1].end <= nearBlocks:
			all[len(all)-1].end = i + 1
		default:
			all = append(all, stretch{i, i + 1})
		}
	}
	return split(join(all, r.requests, r.blocks))
}

const wholeBlocks = wholeFetch / blockSize

func (s stretch) requests() int { return (s.end - s.first + wholeBlocks - 1) / wholeBlocks }

// join closes the smallest gaps between stretches until the requests, with those made before, are not too many for what they bring: one, and one for each goalSize.
func join(all []stretch, requests, blocks int) []stretch {
	gaps := make([]int, 0, len(all)) // of stretch i to the one before it, by i
	for i, s := range all {
		requests += s.requests()
		blocks += s.end - s.first
		if i > 0 {
			gaps = append(gaps, i)
		}
	}
	gap := func(i int) int { return all[i].first - all[i-1].end }
	slices.SortFunc(gaps, func(a, b int) int { return cmp.Or(cmp.Compare(gap(a), gap(b)), cmp.Compare(a, b)) })
	closed := make([]bool, len(all))
	for _, i := range gaps {
		if (requests-1)*goalSize <= (blocks-1)*blockSize { // the last block may be short
			break
		}
		closed[i] = true
		requests, blocks = requests-1, blocks+gap(i)
	}
	out := all[:0]
	for i, s := range all {
		if closed[i] {
			out[len(out)-1].end = s.end
		} else {
			out = append(out, s)
		}
	}
	return out
}

// split bounds the size of stretches.
func split(all []stretch) (out []stretch) {
	for _, s := range all {
		n := s.requests()
		for k := range n {
			out = append(out, stretch{s.first + (s.end-s.first)*k/n, s.first + (s.end-s.first)*(k+1)/n})
		}
	}
	return out
}

// enter begins a fetch because blocks from i up to last are wanted, of which i is missing. If it was expected, all that goes with it comes along. The caller holds
// the lock.
func (r *reading) enter(i, last int) *fetch {
	for _, s := range r.plan {
		if i < s.first || i >= s.end {
			continue
		}
		first := i
		for first > s.first && r.sums[first-1] == (sum{}) && r.underWay(first-1) == nil {
			first--
		}
		return r.add(first, s.end)
	}
	most := cmp.Or(r.most, nextFetch)
	reach := most
	if r.most == 0 && r.held == 0 && len(r.fetches) == 0 {
		reach = firstFetch
	}
	return r.add(i, min(r.count, i+int(most/blockSize), max(last+1, i+int(reach/blockSize))))
}

// add enters a fetch.
func (r *reading) add(first, end int) *fetch {
	f := r.Blocks.enter(first, end)
	r.requests, r.blocks = r.requests+1, r.blocks+f.end-f.first
	return f
}

// expects says whether a block is in the plan. The caller holds the lock.
func (r *reading) expects(i int) bool {
	return slices.ContainsFunc(r.plan, func(s stretch) bool { return i >= s.first && i < s.end })
}

// ahead enters planned fetches as long as few are under way. The caller holds the lock, and lets them begin.
func (r *reading) ahead() (begun []*fetch) {
	r.begun = slices.DeleteFunc(r.begun, func(f *fetch) bool { return !slices.Contains(r.fetches, f) })
	for len(r.plan) > 0 && len(r.begun) < aheadMost {
		s := &r.plan[0]
		for s.first < s.end && (r.sums[s.first] != (sum{}) || r.underWay(s.first) != nil) {
			s.first++
		}
		if s.first >= s.end {
			r.plan = r.plan[1:]
			continue
		}
		f := r.add(s.first, s.end)
		s.first = f.end
		r.begun, begun = append(r.begun, f), append(begun, f)
	}
	return begun
}
