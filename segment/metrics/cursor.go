package metrics

import (
	"math"
	"sort"

	"github.com/prometheus/prometheus/model/histogram"
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
	packed chunkenc.Iterator // of a histogram chunk
	hists  [][]byte          // of a head's histograms
	starts []int64
	times  []int64
	err    error
}

// open puts the cursor on the first sample.
func (c *cursor) open(chunk *Chunk, rank int) bool {
	c.chunk, c.rank, c.i, c.err, c.hists, c.kind = chunk, rank, -1, nil, nil, chunkenc.ValNone
	switch {
	case !chunk.isHistogram():
		c.err = c.floats.load(chunk)
		c.times, c.starts = c.floats.ts, c.floats.starts
		c.kind = chunkenc.ValFloat
	case chunk.raw != nil:
		c.hists, c.starts, c.times = chunk.raw.Hists, chunk.raw.Starts, chunk.raw.Times
	default:
		p, err := chunk.prometheusChunk()
		if err != nil {
			c.err = err
			return false
		}
		c.packed, c.times = p.Iterator(c.packed), nil
	}
	return c.err == nil && c.next()
}

func (c *cursor) next() bool {
	c.i++
	if c.times != nil {
		if c.i >= len(c.times) {
			return false
		}
		c.t = c.times[c.i]
		if c.hists != nil {
			c.kind = chunkenc.ValHistogram
			if c.hists[c.i][0] == histogramFloats {
				c.kind = chunkenc.ValFloatHistogram
			}
		}
		return true
	}
	if c.kind = c.packed.Next(); c.kind == chunkenc.ValNone {
		c.err = c.packed.Err()
		return false
	}
	c.t = c.packed.AtT()
	return true
}

// seek moves on to the first sample that is not before t.
func (c *cursor) seek(t int64) bool {
	if c.t >= t {
		return true
	}
	if c.times == nil || c.hists != nil {
		for c.t < t {
			if !c.next() {
				return false
			}
		}
		return true
	}
	// Steps of a query mostly move by few samples.
	for range 8 {
		if c.i++; c.i >= len(c.times) {
			return false
		}
		if c.t = c.times[c.i]; c.t >= t {
			return true
		}
	}
	rest := c.times[c.i:]
	c.i += sort.Search(len(rest), func(k int) bool { return rest[k] >= t })
	if c.i >= len(c.times) {
		return false
	}
	c.t = c.times[c.i]
	return true
}

func (c *cursor) start() int64 {
	switch {
	case c.times == nil:
		return c.packed.AtST()
	case c.starts == nil:
		return 0
	}
	return c.starts[c.i]
}

func (c *cursor) histogram(h *histogram.Histogram) *histogram.Histogram {
	if c.times == nil {
		_, h = c.packed.AtHistogram(h)
		return h
	}
	x, _, err := decodeHistogram(c.hists[c.i])
	if err != nil || x == nil {
		c.err = errDamaged("a histogram")
		return &histogram.Histogram{}
	}
	if h == nil {
		return x
	}
	x.CopyTo(h)
	return h
}

func (c *cursor) floatHistogram(fh *histogram.FloatHistogram) *histogram.FloatHistogram {
	if c.times == nil {
		_, fh = c.packed.AtFloatHistogram(fh)
		return fh
	}
	h, x, err := decodeHistogram(c.hists[c.i])
	switch {
	case err != nil:
		c.err = errDamaged("a histogram")
		return &histogram.FloatHistogram{}
	case h != nil:
		return h.ToFloat(fh)
	case fh == nil:
		return x
	}
	x.CopyTo(fh)
	return fh
}

// Iterator walks over the samples of a series in time order, one per time. It implements chunkenc.Iterator and may be used again with Reset.
type Iterator struct {
	chunks []Chunk // sorted by Min
	ranks  []int   // of chunks; nil: the position is the rank
	next   int     // the first chunk that is not open yet
	active []*cursor
	spare  []*cursor
	cur    *cursor
	solo   bool // nothing overlaps what is left of cur
	broken bool // the sample before this one came from another chunk
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
	if it.solo {
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
	h = it.cur.histogram(h)
	h.CounterResetHint = it.hint(h.CounterResetHint)
	it.note()
	return it.cur.t, h
}

// AtFloatHistogram implements chunkenc.Iterator.
func (it *Iterator) AtFloatHistogram(fh *histogram.FloatHistogram) (int64, *histogram.FloatHistogram) {
	fh = it.cur.floatHistogram(fh)
	fh.CounterResetHint = it.hint(fh.CounterResetHint)
	it.note()
	return it.cur.t, fh
}

// hint withdraws what a chunk says about the sample before, when that came from another chunk: the reader then compares the two itself.
func (it *Iterator) hint(h histogram.CounterResetHint) histogram.CounterResetHint {
	if it.broken && (h == histogram.NotCounterReset || h == histogram.CounterReset && !it.solo) {
		return histogram.UnknownCounterReset
	}
	return h
}

func (it *Iterator) note() {
	if it.cur.err != nil && it.err == nil {
		it.err = it.cur.err
	}
}

// Err implements chunkenc.Iterator.
func (it *Iterator) Err() error { return it.err }
