package metrics

import (
	"cmp"
	"slices"
)

// Of chunks that overlap, a sample's time and place are one number, so that merging them is merging sorted lists of numbers.
const (
	placeBits = 20
	placeMask = 1<<placeBits - 1
	// mostOverlapping is how many samples may be merged so; they are held decoded.
	mostOverlapping = 1 << placeBits
	// mostSpan is within how many milliseconds they must lie, some 500 years.
	mostSpan = 1 << (64 - placeBits)
)

// overlap holds what merging the floats of overlapping chunks needs.
type overlap struct {
	one    floats
	values []float64
	starts []int64
	keys   []uint64 // times since the first, places in values
	spare  []uint64
	ends   []int // of sorted stretches of keys
}

// ranked is a chunk and its place in the order of writing.
type ranked struct {
	*Chunk
	rank int
}

// floatChunks writes the samples of a series of floats, chunks in the order in which they were written. Chunks that are full and overlap no other, and
// one that is alone, are copied; all others are read and packed anew.
func (w *writer) floatChunks(cs []Chunk) error {
	if len(cs) == 1 && cs[0].raw == nil { // nothing can be joined with it
		return w.row(&cs[0])
	}
	sorted := w.sorted[:0]
	for i := range cs {
		sorted = append(sorted, ranked{&cs[i], i})
	}
	w.sorted = sorted
	slices.SortStableFunc(sorted, func(a, b ranked) int { return cmp.Compare(a.Min, b.Min) })
	for len(sorted) > 0 {
		n, last := 1, sorted[0].Max
		for n < len(sorted) && sorted[n].Min <= last {
			last = max(last, sorted[n].Max)
			n++
		}
		if err := w.stretch(sorted[:n], last); err != nil {
			return err
		}
		sorted = sorted[n:]
	}
	return w.flushFloats()
}

// stretch writes chunks of which each overlaps another, or a single one; last is the time of their last sample.
func (w *writer) stretch(cs []ranked, last int64) error {
	if len(cs) == 1 {
		return w.single(cs[0].Chunk)
	}
	slices.SortFunc(cs, func(a, b ranked) int { return a.rank - b.rank })
	first, n := cs[0].Min, 0
	for _, c := range cs {
		first, n = min(first, c.Min), n+c.Count
	}
	if n > mostOverlapping || uint64(last)-uint64(first) >= mostSpan {
		return w.iterate(cs)
	}
	return w.merged(cs, first)
}

func (w *writer) single(c *Chunk) error {
	// Should the samples before it make no chunk worth having, it is joined with them.
	if pending := len(w.floats.Times); c.raw == nil && c.Count >= maxChunkSamples/2 && (pending == 0 || pending >= maxChunkSamples/2) {
		if err := w.flushFloats(); err != nil {
			return err
		}
		return w.row(c)
	}
	f := &w.overlap.one
	if err := f.load(c); err != nil {
		return err
	}
	return w.addFloats(f.ts, f.vs, f.starts)
}

// iterate writes chunks by walking over them, which needs no more memory if they are many.
func (w *writer) iterate(cs []ranked) error {
	list := make([]Chunk, len(cs))
	for i, c := range cs {
		list[i] = *c.Chunk
	}
	return w.samplesOf(list)
}

// merged writes chunks that overlap, in the order in which they were written: of samples of one time the last is kept.
func (w *writer) merged(cs []ranked, first int64) error {
	o := &w.overlap
	o.values, o.starts, o.keys, o.ends = o.values[:0], o.starts[:0], o.keys[:0], o.ends[:0]
	for _, c := range cs {
		if err := o.add(c.Chunk, first); err != nil {
			return err
		}
	}
	o.sort()
	times, values := o.one.ts[:0], o.one.vs[:0]
	var starts []int64
	for i, k := range o.keys {
		if i+1 < len(o.keys) && o.keys[i+1]>>placeBits == k>>placeBits {
			continue
		}
		times, values = append(times, first+int64(k>>placeBits)), append(values, o.values[k&placeMask])
		if len(o.starts) > 0 {
			starts = append(starts, o.starts[k&placeMask])
		}
	}
	o.one.ts, o.one.vs = times, values
	return w.addFloats(times, values, starts)
}

// add reads a chunk, which continues the stretch of keys before it if it lies behind it.
func (o *overlap) add(c *Chunk, first int64) error {
	if err := o.one.load(c); err != nil {
		return err
	}
	place := uint64(len(o.values))
	o.values = append(o.values, o.one.vs...)
	if o.one.starts != nil {
		o.starts = append(append(o.starts, make([]int64, int(place)-len(o.starts))...), o.one.starts...)
	} else if len(o.starts) > 0 {
		o.starts = append(o.starts, make([]int64, len(o.one.ts))...)
	}
	from := len(o.keys)
	for i, t := range o.one.ts {
		o.keys = append(o.keys, uint64(t-first)<<placeBits|(place+uint64(i)))
	}
	if from > 0 && o.keys[from-1] < o.keys[from] {
		o.ends = o.ends[:len(o.ends)-1]
	}
	o.ends = append(o.ends, len(o.keys))
	return nil
}

// sort merges neighbouring stretches of keys until there is one.
func (o *overlap) sort() {
	o.spare = resize(o.spare, len(o.keys))
	for len(o.ends) > 1 {
		from, ends := 0, o.ends[:0]
		for i := 0; i < len(o.ends); i += 2 {
			middle, end := o.ends[i], o.ends[min(i+1, len(o.ends)-1)]
			mergeKeys(o.spare[from:end], o.keys[from:middle], o.keys[middle:end])
			ends, from = append(ends, end), end
		}
		o.ends, o.keys, o.spare = ends, o.spare, o.keys
	}
}

// mergeKeys merges two sorted lists without a common key. Which of them has the next one is a matter of chance, so the loop counts instead of branching, and it works
// from both ends at once, neither of which waits for the other. While both lists have keys, the least and the greatest are two.
func mergeKeys(dst, a, b []uint64) {
	i, j, p, q := 0, 0, len(a), len(b)
	for i < p && j < q {
		x, y, u, v := a[i], b[j], a[p-1], b[q-1]
		first, last := 0, 0 // 1 if it is b's
		if y < x {
			first = 1
		}
		if v > u {
			last = 1
		}
		dst[i+j], dst[p+q-1] = min(x, y), max(u, v)
		i, j, p, q = i+1-first, j+first, p-1+last, q-last
	}
	n := copy(dst[i+j:], a[i:p])
	copy(dst[i+j+n:], b[j:q])
}

// addFloats adds samples to the chunk that is being filled, and writes those that are full. starts is nil if no start times are known.
func (w *writer) addFloats(times []int64, values []float64, starts []int64) error {
	r := &w.floats
	for len(times) > 0 {
		n := min(len(times), maxChunkSamples-len(r.Times))
		var known []int64
		if starts != nil {
			known, starts = starts[:n], starts[n:]
		}
		r.addStarts(known, n)
		r.Times, r.Values = append(r.Times, times[:n]...), append(r.Values, values[:n]...)
		times, values = times[n:], values[n:]
		if len(r.Times) == maxChunkSamples {
			if err := w.flushFloats(); err != nil {
				return err
			}
		}
	}
	return nil
}

// addStarts adds the start times of n samples, of which none is known if known is empty or 0 throughout.
func (r *run) addStarts(known []int64, n int) {
	some := slices.ContainsFunc(known, func(start int64) bool { return start != 0 })
	if some && r.Starts == nil {
		r.Starts = make([]int64, len(r.Times), maxChunkSamples)
	}
	switch {
	case some:
		r.Starts = append(r.Starts, known...)
	case r.Starts != nil:
		r.Starts = append(r.Starts, make([]int64, n)...)
	}
}
