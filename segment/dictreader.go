package segment

import (
	"encoding/binary"
	"slices"
)

// dictReader is what was read of the dictionary of a column in a run.
type dictReader struct {
	values []string // by code; while it is not whole, only those of the parts that were read
	parts  []bool   // that were read
	whole  bool
}

// needDict reads what is missing of the dictionary: all of it, or, if rows of the current view are given, the parts with their values. A dictionary that is not
// whole may not leave this package: others find out about all of a dictionary once.
func (c *columnReader) needDict(rows *bitmap) (err error) {
	d := &c.dict
	switch {
	case d.whole:
	case c.col.values != nil:
		d.values, d.whole = c.col.values, true
	case rows == nil || c.col.dictParts == nil:
		err = c.loadDict()
	default:
		if d.values == nil {
			d.values, d.parts = make([]string, c.col.dictCount), make([]bool, len(c.col.dictParts))
		}
		rows.each(func(i int) {
			if err == nil && c.view.IsValid(i) {
				err = c.loadPart(int(c.view.Codes[i]))
			}
		})
	}
	return err
}

// loadDict reads the whole dictionary.
func (c *columnReader) loadDict() error {
	pg := &c.col.dictPage
	values := make([]string, c.col.dictCount)
	body, err := c.dictBytes(0, pg.header, pg.size, pg.raw, pg.sum)
	if err != nil {
		return err
	}
	c.dict = dictReader{values: values, whole: true}
	return parseDict(values, body)
}

// loadPart reads the part of the dictionary that has a code.
func (c *columnReader) loadPart(code int) error {
	off, first := int64(c.col.dictPage.header), 0
	for k, x := range c.col.dictParts {
		if code < first+x.values {
			if c.dict.parts[k] {
				return nil
			}
			body, err := c.dictBytes(off, 0, x.size, x.raw, x.sum)
			if err != nil {
				return err
			}
			c.dict.parts[k] = true
			return parseDict(c.dict.values[first:first+x.values], body)
		}
		off, first = off+int64(x.size), first+x.values
	}
	return damaged("a page of codes")
}

// dictBytes reads and verifies a header and size bytes at an offset of the chunk, and gives what follows the header, decompressed, in memory of its own: the values
// stay when the buffers go on.
func (c *columnReader) dictBytes(off int64, header, size, raw int, sum uint32) ([]byte, error) {
	if err := c.read(off, off+int64(header+size)); err != nil {
		return nil, err
	}
	if checksum(c.window) != sum {
		if err := c.again(off, int64(header+size), sum, "a dictionary's checksum differs"); err != nil {
			return nil, err
		}
	}
	c.winEnd = 0 // these are no pages
	c.x.stats.ScannedBytes += int64(header + size)
	if c.col.compressed {
		return decompress(nil, c.window[header:], raw)
	}
	return slices.Clone(c.window[header:]), nil
}

// parseDict makes values of a dictionary's bytes, whose memory they share.
func parseDict(values []string, body []byte) error {
	for i := range values {
		if len(body) < 4 {
			return damaged("a dictionary ends early")
		}
		n := binary.LittleEndian.Uint32(body)
		if uint64(n) > uint64(len(body)-4) {
			return damaged("a dictionary ends early")
		}
		values[i] = text(body[4 : 4+n])
		body = body[4+n:]
	}
	return nil
}
