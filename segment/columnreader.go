package segment

import (
	"encoding/binary"
	"math"
	"slices"
	"unsafe"

	"github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/encoding/rle"

	"github.com/millstream/millstream"
)

// readAhead bounds how many bytes of neighbouring wanted pages are read at once.
const readAhead = 256 << 10

// columnReader decodes the pages of one column of a run. What it gives is valid until the next page.
type columnReader struct {
	col    *column
	x      *runScan
	window []byte // stored bytes of pages, from winOff of the chunk
	winOff int64
	winEnd int64
	raw    []byte
	dict   dictReader
	page   int // decoded page, -1: none
	rows   int // of it
	vec    millstream.Column
	view   millstream.Column
	valid  []uint64
	ints   []int64
	floats []float64
	codes  []int32
	offs   []uint32
}

// open aims the reader at a column. Dictionaries are made anew for each run: they may be known by their address.
func (c *columnReader) open(x *runScan, col *column) {
	c.x, c.col, c.page, c.winEnd, c.dict = x, col, -1, 0, dictReader{}
}

func (c *columnReader) close() { c.col = nil }

// block gives the column's values in one block; if rows are given, only theirs are sure to be there.
func (c *columnReader) block(i int, rows *bitmap) (*millstream.Column, error) {
	p := i / c.col.pageBlocks
	if p != c.page {
		if err := c.load(p); err != nil {
			return nil, err
		}
	}
	from := (i - p*c.col.pageBlocks) * blockRows
	to := min(from+blockRows, c.rows)
	c.view = sliceColumn(&c.vec, from, to)
	if c.col.enc == encDict {
		if err := c.needDict(rows); err != nil {
			return nil, err
		}
		c.view.Dict = c.dict.values
	}
	return &c.view, nil
}

// sliceColumn is the rows [from, to) of a column, from being a multiple of 64. It shares memory.
func sliceColumn(c *millstream.Column, from, to int) millstream.Column {
	out := millstream.Column{Name: c.Name, Type: c.Type, Dict: c.Dict}
	if c.Valid != nil {
		out.Valid = c.Valid[from/64 : (to+63)/64]
	}
	switch {
	case c.Codes != nil:
		out.Codes = c.Codes[from:to]
	case c.Type == millstream.String:
		out.Offsets, out.Bytes = c.Offsets[from:to+1], c.Bytes
	case c.Type == millstream.Double:
		out.Floats = c.Floats[from:to]
	default:
		out.Ints = c.Ints[from:to]
	}
	return out
}

// load reads and decodes a page.
func (c *columnReader) load(p int) error {
	c.page = -1
	body, err := c.stored(p)
	if err != nil {
		return err
	}
	pg := &c.col.pages[p]
	if body, err = c.inflate(pg, body); err != nil {
		return err
	}
	c.rows = min(c.col.pageBlocks*blockRows, c.x.info.rows-p*c.col.pageBlocks*blockRows)
	if err := c.decode(body); err != nil {
		return err
	}
	c.page = p
	return nil
}

func (c *columnReader) inflate(pg *page, body []byte) ([]byte, error) {
	if !c.col.compressed {
		return body, nil
	}
	var err error
	c.raw, err = decompress(c.raw, body, pg.raw)
	return c.raw, err
}

// stored gives the stored bytes of a page, verified. It reads the wanted pages that follow along with it.
func (c *columnReader) stored(p int) ([]byte, error) {
	pg := &c.col.pages[p]
	size := int64(pg.header + pg.size)
	if pg.off < c.winOff || pg.off+size > c.winEnd {
		end := pg.off + size
		for k := p + 1; k < len(c.col.pages) && end-pg.off < readAhead && c.wanted(k); k++ {
			end = c.col.pages[k].off + int64(c.col.pages[k].header+c.col.pages[k].size)
		}
		if err := c.read(pg.off, end); err != nil {
			return nil, err
		}
	}
	b := c.window[pg.off-c.winOff:][:size]
	if checksum(b) != pg.sum {
		if err := c.again(pg.off, size, pg.sum, "a page's checksum differs"); err != nil {
			return nil, err
		}
		b = c.window
	}
	c.x.stats.ScannedBytes += size
	return b[pg.header:], nil
}

// again reads bytes that fail their checksum once more, if that may give others.
func (c *columnReader) again(off, size int64, sum uint32, what string) error {
	if !Distrust(c.x.data, c.x.info.dataBase+c.col.offset+off, size) {
		return damaged(what)
	}
	if err := c.read(off, off+size); err != nil {
		return err
	}
	if checksum(c.window) != sum {
		return damaged(what)
	}
	return nil
}

func (c *columnReader) wanted(p int) bool {
	blocks := allBlocks(c.col.pageBlocks) << (p * c.col.pageBlocks)
	return c.x.need&blocks != 0
}

func (c *columnReader) read(from, end int64) error {
	c.winEnd = 0
	if from < 0 || end < from || c.col.offset > c.x.info.dataSize-end || end > math.MaxInt32 {
		return damaged("a page lies outside of its run")
	}
	c.window = resize(c.window, int(end-from))
	if err := readFull(c.x.data, c.window, c.x.info.dataBase+c.col.offset+from); err != nil {
		return err
	}
	c.winOff, c.winEnd = from, end
	return nil
}

// decode fills vec from a page's decompressed bytes.
func (c *columnReader) decode(p []byte) error {
	c.vec = millstream.Column{Name: c.col.name, Type: c.col.typ}
	values := c.rows
	if c.col.name != millstream.TimestampField {
		if len(p) < 4 || uint64(binary.LittleEndian.Uint32(p)) > uint64(len(p)-4) {
			return damaged("a page's levels")
		}
		n := 4 + binary.LittleEndian.Uint32(p)
		var ok bool
		if values, ok = c.levels(p[4:n]); !ok {
			return damaged("a page's levels")
		}
		p = p[n:]
	}
	if values < c.rows {
		c.vec.Valid = c.valid
	}
	switch c.col.enc {
	case encDelta:
		return c.decodeInts(p, values)
	case encDouble:
		return c.decodeFloats(p, values)
	case encText:
		return c.decodeTexts(p, values)
	case encDict:
		return c.decodeCodes(p, values)
	}
	return c.decodeBools(p, values)
}

// levels decodes definition levels to c.valid and counts the ones.
func (c *columnReader) levels(p []byte) (values int, ok bool) {
	c.valid = resize(c.valid, (c.rows+63)/64)
	clear(c.valid)
	for row := 0; row < c.rows; {
		h, n := binary.Uvarint(p)
		if n <= 0 {
			return 0, false
		}
		p = p[n:]
		if h&1 == 0 {
			run := int(min(h>>1, uint64(c.rows-row)))
			if run == 0 || len(p) == 0 {
				return 0, false
			}
			if p[0]&1 != 0 {
				setBits(c.valid, row, row+run)
				values += run
			}
			p = p[1:]
			row += run
			continue
		}
		groups := int(min(h>>1, uint64(len(p))))
		if groups == 0 {
			return 0, false
		}
		for _, b := range p[:groups] {
			if left := c.rows - row; left < 8 {
				b &= 1<<max(left, 0) - 1
			}
			for ; b != 0; b &= b - 1 {
				i := row + trailing(b)
				c.valid[i>>6] |= 1 << (i & 63)
				values++
			}
			row += 8
		}
		p = p[groups:]
	}
	return values, true
}

func trailing(b byte) int {
	n := 0
	for b&1 == 0 {
		b >>= 1
		n++
	}
	return n
}

func setBits(m []uint64, from, to int) {
	for from < to {
		n := min(64-from&63, to-from)
		m[from>>6] |= (^uint64(0) >> (64 - n)) << (from & 63)
		from += n
	}
}

// spread moves the values of a dense slice to the rows that have one, and zeroes the others.
func spread[T any](v []T, values, rows int, valid []uint64) []T {
	if values == rows {
		return v[:rows]
	}
	v = slices.Grow(v[:values], rows-values)[:rows]
	var zero T
	for i := rows - 1; i >= 0; i-- {
		if valid[i>>6]&(1<<(i&63)) != 0 {
			values--
			v[i] = v[values]
		} else {
			v[i] = zero
		}
	}
	return v
}

func (c *columnReader) decodeInts(p []byte, values int) error {
	c.ints = slices.Grow(c.ints[:0], c.rows)
	if values > 0 {
		var e delta.BinaryPackedEncoding
		out, err := e.DecodeInt64(c.ints, p)
		if err != nil || len(out) != values {
			return damaged("a page of integers")
		}
		c.ints = out
	}
	c.ints = spread(c.ints[:values], values, c.rows, c.valid)
	c.vec.Ints = c.ints
	return nil
}

func (c *columnReader) decodeFloats(p []byte, values int) error {
	if len(p) != 8*values {
		return damaged("a page of doubles")
	}
	c.floats = resize(c.floats, c.rows)
	copy(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(c.floats))), len(p)), p)
	c.floats = spread(c.floats[:values], values, c.rows, c.valid)
	c.vec.Floats = c.floats
	return nil
}

func (c *columnReader) decodeBools(p []byte, values int) error {
	if len(p) != (values+7)/8 {
		return damaged("a page of booleans")
	}
	c.ints = resize(c.ints, c.rows)
	for i := range values {
		c.ints[i] = int64(p[i>>3] >> (i & 7) & 1)
	}
	c.ints = spread(c.ints[:values], values, c.rows, c.valid)
	c.vec.Ints = c.ints
	return nil
}

func (c *columnReader) decodeTexts(p []byte, values int) error {
	c.codes = slices.Grow(c.codes[:0], c.rows)
	var e delta.BinaryPackedEncoding
	lengths := c.codes[:0]
	if values > 0 {
		out, err := e.DecodeInt32(lengths, p)
		if err != nil || len(out) != values {
			return damaged("a page of texts")
		}
		lengths = out
	}
	c.codes = spread(lengths, values, c.rows, c.valid)
	c.offs = resize(c.offs, c.rows+1)
	sum := uint64(0)
	for i, n := range c.codes {
		c.offs[i] = uint32(sum)
		sum += uint64(uint32(n))
	}
	if sum > uint64(len(p)) {
		return damaged("a page of texts")
	}
	c.offs[c.rows] = uint32(sum)
	c.vec.Offsets, c.vec.Bytes = c.offs, p[uint64(len(p))-sum:]
	return nil
}

func (c *columnReader) decodeCodes(p []byte, values int) error {
	if len(p) < 1 || p[0] > 32 {
		return damaged("a page of codes")
	}
	c.codes = slices.Grow(c.codes[:0], c.rows+64)
	if values > 0 {
		e := rle.Encoding{BitWidth: int(p[0])}
		out, err := e.DecodeInt32(c.codes, p[1:])
		if err != nil || len(out) < values {
			return damaged("a page of codes")
		}
		c.codes = out
	}
	most := uint32(0)
	for _, v := range c.codes[:values] {
		most = max(most, uint32(v))
	}
	if values > 0 && int(most) >= c.col.dictCount {
		return damaged("a page of codes")
	}
	c.codes = spread(c.codes[:values], values, c.rows, c.valid)
	c.vec.Codes = asUint32(c.codes)
	return nil
}
