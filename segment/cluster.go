package segment

import (
	"cmp"
	"slices"

	"github.com/millstream/millstream"
)

// clustering puts the records of a run that read alike next to each other, so that a word or phrase of a message's fixed part stands in few blocks, and pages
// compress better. Nothing relies on it but speed and size.
const (
	clusterRows   = 8 * blockRows // smaller runs stay in time order
	clusterTokens = 8             // leading tokens of a text that make its shape
	clusterShare  = 512           // a token in fewer rows than one in so many is taken for a variable
)

// clusterer finds a run's order. Its memory is reused.
type clusterer struct {
	keys  []shapeKey
	codes []uint8 // per token: its rank among the most frequent, from 1; 0 for a variable
	order []uint32
}

type shapeKey struct {
	shape uint64
	row   uint32
}

// mainText is the index of the field whose texts make the shape: the String field with the most bytes; -1 if none is worth it.
func (t *table) mainText() int {
	best, size := -1, int64(16*len(t.refs)) // less than 16 bytes a row are no text
	for i := range t.fields {
		f := &t.fields[i]
		if f.typ == millstream.String && f.size > size && !IsID(f.name) {
			best, size = i, f.size
		}
	}
	return best
}

// sort orders rows by shape, then as they came. ids are the tokens of each row's text, row i's ending at ends[i].
func (c *clusterer) sort(t *tokenTable, ids []uint32, ends []int) []uint32 {
	rows := len(ends)
	c.order = resize(c.order, rows)
	c.rank(t, rows)
	c.keys = c.keys[:0]
	at := 0
	for i, end := range ends {
		var shape uint64
		for k := range clusterTokens {
			shape <<= 8
			if at+k < end {
				shape |= uint64(c.codes[ids[at+k]])
			}
		}
		c.keys = append(c.keys, shapeKey{shape, uint32(i)})
		at = end
	}
	slices.SortFunc(c.keys, func(a, b shapeKey) int {
		if a.shape != b.shape {
			return cmp.Compare(a.shape, b.shape)
		}
		return cmp.Compare(a.row, b.row)
	})
	for i := range c.keys {
		c.order[i] = c.keys[i].row
	}
	return c.order
}

// rank gives the most frequent tokens that are no numbers their codes.
func (c *clusterer) rank(t *tokenTable, rows int) {
	c.codes = resize(c.codes, len(t.tokens))
	clear(c.codes)
	var top []uint32
	for id := range t.tokens {
		k := &t.tokens[id]
		if first := t.arena[t.keys[id].off]; int(k.rows)*clusterShare >= rows && (first < '0' || first > '9') {
			top = append(top, uint32(id))
		}
	}
	slices.SortFunc(top, func(a, b uint32) int {
		if d := cmp.Compare(t.tokens[b].rows, t.tokens[a].rows); d != 0 {
			return d
		}
		return cmp.Compare(a, b)
	})
	for i, id := range top[:min(len(top), 255)] {
		c.codes[id] = uint8(i + 1)
	}
}
