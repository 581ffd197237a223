package segment

import (
	"math"

	"github.com/millstream/millstream"
)

// A run is up to runRows records that were encoded together: one Parquet row group, and one stretch of the index object. All offsets within a run count from its
// own start, so that a merge copies runs as they are.
const (
	runBlocks = 64 // a set of a run's blocks is one word
	runRows   = runBlocks * blockRows
)

// encoding of a column's pages; the numbers are stored.
type encoding uint8

const (
	encBool   encoding = 1 // Parquet PLAIN booleans
	encDelta  encoding = 2 // DELTA_BINARY_PACKED
	encDouble encoding = 3 // PLAIN doubles
	encText   encoding = 4 // DELTA_LENGTH_BYTE_ARRAY
	encDict   encoding = 5 // RLE_DICTIONARY over a PLAIN dictionary page
)

// runInfo is what the segment's footer says of a run.
type runInfo struct {
	rows               int
	minTime, maxTime   int64
	dataBase, dataSize int64 // in the data object
	base, size         int64 // in the index object
	header             region
}

func (r *runInfo) blocks() int { return (r.rows + blockRows - 1) / blockRows }

// allBlocks is the set of n blocks.
func allBlocks(n int) uint64 {
	if n >= runBlocks {
		return math.MaxUint64
	}
	return 1<<n - 1
}

// column is what a run's header says of one of its columns. TimestampField is one of them.
type column struct {
	name       string
	typ        millstream.Type
	wide       bool
	rows       int64 // that have a value
	enc        encoding
	compressed bool
	someNull   uint64 // blocks with a row without a value
	someValue  uint64 // blocks with a row with a value
	offset     int64  // of the chunk in the run's data
	rawSize    int64  // of all pages with their headers, decompressed
	dictCount  int
	dictPage   page // of size 0 without a dictionary
	dictParts  []dictPart
	pageBlocks int // blocks per page
	pages      []page
	lo, hi     []int64  // least and greatest value per block; doubles as their bits; nil for texts and booleans
	values     []string // the dictionary, if it is small
	counts     []uint32 // rows per value of a small dictionary
	masks      []uint64 // blocks per value of a small dictionary
	min, max   []byte   // Parquet statistics of the chunk; nil: none
	tokens     region   // the token index's directory
	bloom      region
}

// page locates a page in its chunk.
type page struct {
	off    int64 // of its header, from the chunk's start
	header int   // bytes of its header
	size   int   // stored bytes that follow
	raw    int   // bytes when decompressed
	sum    uint32
}

// dictPart is a stretch of a dictionary page that can be read alone: a zstd frame of its own. A small dictionary, and one that an earlier version wrote, has none.
type dictPart struct {
	values    int
	size, raw int // bytes as stored, and decompressed
	sum       uint32
}

func (c *column) chunkSize() int64 {
	n := int64(0)
	if c.dictPage.header > 0 {
		n = int64(c.dictPage.header + c.dictPage.size)
	}
	for i := range c.pages {
		n += int64(c.pages[i].header + c.pages[i].size)
	}
	return n
}

const (
	flagCompressed = 1 << iota
	flagSmallDict
	flagZones
	flagStats
	flagTokens
	flagBloom
	flagWide
	flagDictParts
)

func (c *column) append(w *writer) {
	flags := byte(0)
	for _, f := range []struct {
		on  bool
		bit byte
	}{{c.compressed, flagCompressed}, {c.values != nil, flagSmallDict}, {c.lo != nil, flagZones}, {c.min != nil, flagStats},
		{c.tokens.size > 0, flagTokens}, {c.bloom.size > 0, flagBloom}, {c.wide, flagWide}, {c.dictParts != nil, flagDictParts}} {
		if f.on {
			flags |= f.bit
		}
	}
	w.string(c.name)
	w.byte(byte(c.typ))
	w.byte(byte(c.enc))
	w.byte(flags)
	w.sizes(c.rows, c.offset, c.rawSize, int64(c.pageBlocks), int64(len(c.pages)))
	w.fixed64(c.someNull)
	w.fixed64(c.someValue)
	if c.enc == encDict {
		w.uint(uint64(c.dictCount))
		c.dictPage.append(w)
	}
	if c.dictParts != nil {
		w.uint(uint64(len(c.dictParts)))
		for _, x := range c.dictParts {
			w.sizes(int64(x.values), int64(x.size), int64(x.raw))
			w.fixed32(x.sum)
		}
	}
	for i := range c.pages {
		c.pages[i].append(w)
	}
	if c.lo != nil {
		last := int64(0)
		for i := range c.lo {
			w.int(c.lo[i] - last)
			w.uint(uint64(c.hi[i]-c.lo[i]) >> 1 & math.MaxInt64) // in two parts: the difference may need all 64 bits
			w.byte(byte(c.hi[i]-c.lo[i]) & 1)
			last = c.lo[i]
		}
	}
	for i, v := range c.values {
		w.string(v)
		w.uint(uint64(c.counts[i]))
		w.fixed64(c.masks[i])
	}
	if c.min != nil {
		w.string(text(c.min))
		w.string(text(c.max))
	}
	if c.tokens.size > 0 {
		w.region(c.tokens)
	}
	if c.bloom.size > 0 {
		w.region(c.bloom)
	}
}

func (p *page) append(w *writer) {
	w.sizes(int64(p.header), int64(p.size), int64(p.raw))
	w.fixed32(p.sum)
}

func (d *parser) page(off int64) page {
	return page{off: off, header: int(d.uint()), size: int(d.uint()), raw: int(d.uint()), sum: d.fixed32()}
}

func (d *parser) column(blocks int) column {
	c := column{name: d.string(), typ: millstream.Type(d.byte()), enc: encoding(d.byte())}
	flags := d.byte()
	c.compressed, c.wide = flags&flagCompressed != 0, flags&flagWide != 0
	c.rows, c.offset, c.rawSize, c.pageBlocks = d.size(), d.size(), d.size(), int(d.uint())
	pages := d.count(7)
	c.someNull, c.someValue = d.fixed64(), d.fixed64()
	if c.pageBlocks < 1 || c.pageBlocks > runBlocks || pages != (blocks+c.pageBlocks-1)/c.pageBlocks || !c.fits() {
		d.bad = true
		return c
	}
	at := int64(0)
	if c.enc == encDict {
		if c.dictCount = int(d.uint()); c.dictCount > runRows {
			d.bad = true
			return c
		}
		c.dictPage = d.page(0)
		at = int64(c.dictPage.header + c.dictPage.size)
	}
	if flags&flagDictParts != 0 {
		d.dictParts(&c)
	}
	c.pages = make([]page, pages)
	for i := range c.pages {
		c.pages[i] = d.page(at)
		at += int64(c.pages[i].header + c.pages[i].size)
	}
	if flags&flagZones != 0 {
		d.zones(&c, blocks)
	}
	if flags&flagSmallDict != 0 {
		c.values, c.counts, c.masks = make([]string, c.dictCount), make([]uint32, c.dictCount), make([]uint64, c.dictCount)
		for i := range c.values {
			c.values[i], c.counts[i], c.masks[i] = d.string(), uint32(d.uint()), d.fixed64()
		}
	}
	if flags&flagStats != 0 {
		c.min, c.max = d.take(int(d.uint())), d.take(int(d.uint()))
	}
	if flags&flagTokens != 0 {
		c.tokens = d.region()
	}
	if flags&flagBloom != 0 {
		c.bloom = d.region()
	}
	return c
}

// fits says whether the encoding is one for the type.
func (c *column) fits() bool {
	switch c.typ {
	case millstream.Bool:
		return c.enc == encBool
	case millstream.Int64, millstream.Timestamp:
		return c.enc == encDelta
	case millstream.Double:
		return c.enc == encDouble
	case millstream.String:
		return c.enc == encText || c.enc == encDict
	}
	return false
}

// dictParts reads the parts of a dictionary, which are together all of it.
func (d *parser) dictParts(c *column) {
	c.dictParts = make([]dictPart, d.count(7))
	values, size, raw := c.dictCount, c.dictPage.size, c.dictPage.raw
	for i := range c.dictParts {
		x := dictPart{values: int(d.uint()), size: int(d.uint()), raw: int(d.uint()), sum: d.fixed32()}
		if x.values < 0 || x.values > values || x.size < 0 || x.size > size || x.raw < 0 || x.raw > raw {
			d.bad = true
			return
		}
		c.dictParts[i] = x
		values, size, raw = values-x.values, size-x.size, raw-x.raw
	}
	d.bad = d.bad || values != 0 || size != 0 || raw != 0
}

func (d *parser) zones(c *column, blocks int) {
	c.lo, c.hi = make([]int64, blocks), make([]int64, blocks)
	last := int64(0)
	for i := range blocks {
		c.lo[i] = last + d.int()
		half := d.uint()
		c.hi[i] = c.lo[i] + int64(half<<1|uint64(d.byte()&1))
		last = c.lo[i]
	}
}

// runHeader is a run's header, parsed.
type runHeader struct {
	cols   []column
	byName map[string]int
}

func (h *runHeader) column(name string) *column {
	if i, ok := h.byName[name]; ok {
		return &h.cols[i]
	}
	return nil
}

// parseRunHeader reads a header. The result shares the memory of p.
func parseRunHeader(p []byte, blocks int) (*runHeader, error) {
	d := parser{p: p}
	n := d.count(20)
	h := &runHeader{cols: make([]column, 0, n), byName: make(map[string]int, n)}
	for range n {
		h.cols = append(h.cols, d.column(blocks))
		if d.bad {
			return nil, damaged("a run's header")
		}
		h.byName[h.cols[len(h.cols)-1].name] = len(h.cols) - 1
	}
	return h, nil
}
