package metrics

import (
	"math"
	"sort"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// cursor walks over one chunk. Floats are decoded as a whole; histograms one by one.
type cursor struct {
	chunk  *Chunk
	rank   int // of chunks with a sample of the same time, the one of the highest rank has it
	t      int64
	kind   chunkenc.ValueType
	i      int
	floats floats
	hists  chunkenc.Iterator         // of a histogram chunk
	last   *histogram.FloatHistogram // the last one of the chunk, once passed
	err    error
}

// open puts the cursor on the first sample.
func (c *cursor) open(chunk *Chunk, rank int) bool {
	c.chunk, c.rank, c.i, c.err = chunk, rank, -1, nil
	if !chunk.isHistogram() {
		c.err = c.floats.load(chunk)
		c.kind = chunkenc.ValFloat
		return c.err == nil && c.next()
	}
	p, err := chunk.prometheusChunk()
	if err != nil {
		c.err = err
		return false
	}
	c.hists, c.kind = p.Iterator(c.hists), chunkenc.ValNone
	return c.next()
}

func (c *cursor) next() bool {
	c.i++
	if c.kind == chunkenc.ValFloat {
		if c.i >= len(c.floats.ts) {
			return false
		}
		c.t = c.floats.ts[c.i]
		return true
	}
	if c.i == c.chunk.Count {
		_, c.last = c.hists.AtFloatHistogram(c.last)
	}
	if c.kind = c.hists.Next(); c.kind == chunkenc.ValNone {
		c.err = c.hists.Err()
		return false
	}
	c.t = c.hists.AtT()
	return true
}

// seek moves on to the first sample that is not before t.
func (c *cursor) seek(t int64) bool {
	if c.t >= t {
		return true
	}
	if c.kind != chunkenc.ValFloat {
		for c.t < t {
			if !c.next() {
				return false
			}
		}
		return true
	}
	times := c.floats.ts
	// Steps of a query mostly move by few samples.
	for range 8 {
		if c.i++; c.i >= len(times) {
			return false
		}
		if c.t = times[c.i]; c.t >= t {
			return true
		}
	}
	rest := times[c.i:]
	c.i += sort.Search(len(rest), func(k int) bool { return rest[k] >= t })
	if c.i >= len(times) {
		return false
	}
	c.t = times[c.i]
	return true
}

func (c *cursor) start() int64 {
	switch {
	case c.kind != chunkenc.ValFloat:
		return c.hists.AtST()
	case c.floats.starts == nil:
		return 0
	}
	return c.floats.starts[c.i]
}

// Iterator walks over the samples of a series in time order, one per time. It implements chunkenc.Iterator and may be used again with Reset.
type Iterator struct {
	chunks []Chunk // sorted by Min
	ranks  []int   // of chunks; nil: the position is the rank
	next   int     // the first chunk that is not open yet
	active []*cursor
	spare  []*cursor
	cur    *cursor
	solo   bool                      // nothing overlaps what is left of cur
	broken bool                      // the sample before this one came from another chunk
	before *histogram.FloatHistogram // that sample, if it is known; this one is the first of its chunk then
	err    error
}

// NewIterator returns an iterator over chunks of one series given in the order of writing.
func NewIterator(chunks []Chunk) *Iterator {
	it := &Iterator{}
	it.Reset(chunks)
	return it
}

// Reset starts the iterator anew on other chunks.
func (it *Iterator) Reset(chunks []Chunk) {
	it.spare = append(it.spare, it.active...)
	it.active, it.next, it.cur, it.solo, it.broken, it.err = it.active[:0], 0, nil, false, false, nil
	it.chunks, it.ranks = chunks, nil
	for i := 1; i < len(chunks); i++ {
		if chunks[i].Min < chunks[i-1].Min {
			it.sort(chunks)
			return
		}
	}
}

func (it *Iterator) sort(chunks []Chunk) {
	it.ranks = make([]int, len(chunks))
	for i := range it.ranks {
		it.ranks[i] = i
	}
	sort.SliceStable(it.ranks, func(a, b int) bool { return chunks[it.ranks[a]].Min < chunks[it.ranks[b]].Min })
	it.chunks = make([]Chunk, len(chunks))
	for i, r := range it.ranks {
		it.chunks[i] = chunks[r]
	}
}

// Next implements chunkenc.Iterator.
func (it *Iterator) Next() chunkenc.ValueType {
	if it.solo {
		it.broken = false
		if it.cur.next() {
			return it.cur.kind
		}
	} else if it.cur != nil && !it.step() {
		return chunkenc.ValNone
	}
	return it.settle(math.MinInt64)
}

// step moves the open cursors beyond the current time.
func (it *Iterator) step() bool {
	t := it.cur.t
	kept := it.active[:0]
	for _, c := range it.active {
		if c.t > t || c.next() {
			kept = append(kept, c)
		} else if !it.release(c) {
			return false
		}
	}
	it.active = kept
	return true
}

func (it *Iterator) release(c *cursor) bool {
	if c.err != nil {
		it.fail(c.err)
		return false
	}
	it.spare = append(it.spare, c)
	return true
}

func (it *Iterator) fail(err error) {
	it.err, it.active, it.next, it.cur, it.solo = err, it.active[:0], len(it.chunks), nil, false
}

// settle opens the chunks that may hold the next sample from t on and chooses it. All open cursors stand on samples that were not given yet, or, if solo is
// set, on the end.
func (it *Iterator) settle(t int64) chunkenc.ValueType {
	previous := it.cur
	it.before = nil
	if it.solo {
		if previous.kind == chunkenc.ValNone && previous.i == previous.chunk.Count {
			it.before, previous.last = previous.last, it.before
		}
		it.solo, it.active = false, it.active[:0]
		if !it.release(it.cur) {
			return chunkenc.ValNone
		}
	}
	it.cur = nil
	for _, c := range it.active {
		it.prefer(c)
	}
	for it.next < len(it.chunks) && (it.cur == nil || it.chunks[it.next].Min <= it.cur.t) {
		if !it.openNext(t) {
			return chunkenc.ValNone
		}
	}
	if it.cur == nil {
		return chunkenc.ValNone
	}
	it.broken = it.cur != previous || it.cur.i == 0
	it.solo = len(it.active) == 1 && (it.next == len(it.chunks) || it.chunks[it.next].Min > it.cur.chunk.Max)
	return it.cur.kind
}

func (it *Iterator) openNext(t int64) bool {
	chunk, rank := &it.chunks[it.next], it.next
	if it.ranks != nil {
		rank = it.ranks[it.next]
	}
	it.next++
	if chunk.Max < t {
		return true
	}
	var c *cursor
	if n := len(it.spare); n > 0 {
		c, it.spare = it.spare[n-1], it.spare[:n-1]
	} else {
		c = &cursor{}
	}
	if !c.open(chunk, rank) || !c.seek(t) {
		return it.release(c)
	}
	it.active = append(it.active, c)
	it.prefer(c)
	return true
}

func (it *Iterator) prefer(c *cursor) {
	if it.cur == nil || c.t < it.cur.t || c.t == it.cur.t && c.rank > it.cur.rank {
		it.cur = c
	}
}

// millis is a time in milliseconds. As an alias it keeps vet from taking Iterator for an io.Seeker.
type millis = int64

// Seek implements chunkenc.Iterator.
func (it *Iterator) Seek(t millis) chunkenc.ValueType {
	if it.cur != nil && it.cur.t >= t {
		return it.cur.kind
	}
	if it.solo {
		if it.broken = false; it.cur.seek(t) {
			return it.cur.kind
		}
		return it.settle(t)
	}
	kept := it.active[:0]
	for _, c := range it.active {
		if c.seek(t) {
			kept = append(kept, c)
		} else if !it.release(c) {
			return chunkenc.ValNone
		}
	}
	it.active = kept
	return it.settle(t)
}

// At implements chunkenc.Iterator.
func (it *Iterator) At() (int64, float64) { return it.cur.t, it.cur.floats.vs[it.cur.i] }

// AtT implements chunkenc.Iterator.
func (it *Iterator) AtT() int64 { return it.cur.t }

// AtST implements chunkenc.Iterator.
func (it *Iterator) AtST() int64 { return it.cur.start() }

// AtHistogram implements chunkenc.Iterator.
func (it *Iterator) AtHistogram(h *histogram.Histogram) (int64, *histogram.Histogram) {
	_, h = it.cur.hists.AtHistogram(h)
	if it.broken && h.CounterResetHint != histogram.GaugeType {
		h.CounterResetHint = it.hint(func() *histogram.FloatHistogram { return h.ToFloat(nil) })
	}
	return it.cur.t, h
}

// AtFloatHistogram implements chunkenc.Iterator.
func (it *Iterator) AtFloatHistogram(fh *histogram.FloatHistogram) (int64, *histogram.FloatHistogram) {
	_, fh = it.cur.hists.AtFloatHistogram(fh)
	if it.broken && fh.CounterResetHint != histogram.GaugeType {
		fh.CounterResetHint = it.hint(fh.Copy)
	}
	return it.cur.t, fh
}

// hint says what is known of a counter reset before the first sample that comes from another chunk than the one before it. As in Prometheus' storage a reset
// is never claimed there, since a reader that finds "unknown" compares the two samples itself.
func (it *Iterator) hint(current func() *histogram.FloatHistogram) histogram.CounterResetHint {
	if it.before == nil || value.IsStaleNaN(it.before.Sum) || it.before.CounterResetHint == histogram.GaugeType {
		return histogram.UnknownCounterReset
	}
	fh := current()
	if fh.CounterResetHint = histogram.UnknownCounterReset; fh.DetectReset(it.before) {
		return histogram.UnknownCounterReset
	}
	return histogram.NotCounterReset
}

// Err implements chunkenc.Iterator.
func (it *Iterator) Err() error { return it.err }
