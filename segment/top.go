package segment

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/millstream/millstream"
)

// A limited scan makes topChunk records at a time, fewer if their texts are larger than topBytes.
const (
	topChunk = 4096
	topBytes = 16 << 20
)

// hit is a selected record.
type hit struct {
	time  int64
	piece int
	row   int
}

// hits is a heap of the best records so far, the worst on top.
type hits struct {
	all    []hit
	newest bool
}

// worse orders hits from the worst to the best; of equal times any may be kept.
func (h *hits) worse(a, b int64) bool {
	if h.newest {
		return a < b
	}
	return a > b
}

func (h *hits) Len() int           { return len(h.all) }
func (h *hits) Less(i, j int) bool { return h.worse(h.all[i].time, h.all[j].time) }
func (h *hits) Swap(i, j int)      { h.all[i], h.all[j] = h.all[j], h.all[i] }
func (h *hits) Push(v any)         { h.all = append(h.all, v.(hit)) }
func (h *hits) Pop() any           { return nil } // never called: the worst is replaced in place

// runTop finds the newest or oldest records first, by their times alone, and then reads what is emitted of them. Pieces come in the order that fills the heap
// soonest, and the search ends at the first that can hold nothing better.
func (x *scanner) runTop() error {
	h := &hits{newest: x.s.Newest}
	edge := func(p piece) int64 {
		first, last := p.span()
		if h.newest {
			return last
		}
		return first
	}
	slices.SortStableFunc(x.pieces, func(a, b piece) int {
		if h.newest {
			return cmp.Compare(edge(b), edge(a))
		}
		return cmp.Compare(edge(a), edge(b))
	})
	useless := func(best int64) bool { return len(h.all) == x.s.Limit && !h.worse(h.all[0].time, best) }
	for k, p := range x.pieces {
		x.current = k
		if useless(edge(p)) {
			break
		}
		if first, last := p.span(); !x.s.Range.Overlaps(first, last) {
			continue
		}
		if err := p.start(); err != nil {
			return err
		}
		skip := func(i int) bool {
			lo, hi := p.times(i)
			if h.newest {
				return useless(hi)
			}
			return useless(lo)
		}
		err := x.each(p, h.newest, skip, func(b block, i int, m *bitmap) error {
			c, err := b.column(millstream.TimestampField)
			if err != nil {
				return err
			}
			m.each(func(row int) {
				switch v := (hit{c.Ints[row], k, i*blockRows + row}); {
				case len(h.all) < x.s.Limit:
					heap.Push(h, v)
				case h.worse(h.all[0].time, v.time):
					h.all[0] = v
					heap.Fix(h, 0)
				}
			})
			return nil
		})
		if err != nil {
			return err
		}
	}
	slices.SortFunc(h.all, func(a, b hit) int {
		if a.time != b.time {
			if h.worse(b.time, a.time) {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.piece, b.piece), cmp.Compare(a.row, b.row))
	})
	x.stats.Selected = int64(len(h.all))
	for n := topChunk; len(h.all) > 0; {
		part := h.all[:min(n, len(h.all))]
		fit, err := x.emitHits(part)
		if err != nil {
			return err
		}
		if fit >= len(part) {
			h.all = h.all[len(part):]
		}
		n = min(fit, topChunk)
	}
	return nil
}

// emitHits reads the records in the order in which they are stored, and emits them in the order of all. It says how many such records are likely to fit into
// topBytes; if that is less than these, it has emitted none.
func (x *scanner) emitHits(all []hit) (fit int, err error) {
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(all[a].piece, all[b].piece), cmp.Compare(all[a].row, all[b].row))
	})
	x.expectHits(all)
	stored := make([]millstream.Column, len(x.names))
	for i, name := range x.names {
		clearColumn(&stored[i], &millstream.Column{Name: name, Type: x.types[i]})
	}
	for from := 0; from < len(order); {
		first := all[order[from]]
		to, m, need := from, bitmap{}, uint64(0)
		for k := from; k < len(order) && all[order[k]].piece == first.piece; k++ {
			need |= 1 << (all[order[k]].row / blockRows)
		}
		for to < len(order) && all[order[to]].piece == first.piece && all[order[to]].row/blockRows == first.row/blockRows {
			m.set(all[order[to]].row % blockRows)
			to++
		}
		p := x.pieces[first.piece]
		if x.started != p { // else the block that it stands on is still decoded
			if err := p.start(); err != nil {
				return 0, err
			}
			x.started = p
		}
		p.want(need)
		b := p.at(first.row / blockRows)
		if err := x.ctx.Err(); err != nil {
			return 0, err
		}
		size := 1
		for i, name := range x.names {
			c, err := b.some(name, &m)
			if err != nil {
				return 0, err
			}
			appendRows(&stored[i], from, c, &m, to-from)
			size += len(stored[i].Bytes)
		}
		if fit = max(1, to*topBytes/size); fit < len(all) && size > topBytes {
			return fit, nil
		}
		from = to
	}
	return max(fit, len(all)), x.emitOrdered(all, order, stored)
}

// emitOrdered permutes the stored columns: all[order[k]] is row k of them.
func (x *scanner) emitOrdered(all []hit, order []int, stored []millstream.Column) error {
	at := make([]int, len(order))
	for k, i := range order {
		at[i] = k
	}
	out := millstream.Batch{Times: make([]int64, len(all))}
	for i := range all {
		out.Times[i] = all[i].time
	}
	for i := range stored {
		c := millstream.Column{}
		clearColumn(&c, &stored[i])
		c.Valid = make([]uint64, (len(all)+63)/64)
		for row, k := range at {
			if stored[i].IsValid(k) {
				c.Valid[row>>6] |= 1 << (row & 63)
			}
			switch c.Type {
			case millstream.String:
				c.Bytes = append(c.Bytes, stored[i].Str(k)...)
				c.Offsets = append(c.Offsets, uint32(len(c.Bytes)))
			case millstream.Double:
				c.Floats = append(c.Floats, stored[i].Floats[k])
			default:
				c.Ints = append(c.Ints, stored[i].Ints[k])
			}
		}
		out.Columns = append(out.Columns, c)
	}
	return x.emit(&out)
}
