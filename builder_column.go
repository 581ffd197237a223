package millstream

import (
	"math"
	"slices"
	"strconv"
	"sync"
	"unicode/utf8"
)

// scratch is what a builder needs beside the columns' values: it is of no use to a batch and serves the next builder, so that small requests cost little.
type scratch struct {
	cols   []*build
	byName map[string]int
	builds [32]build // the first columns; further ones are allocated
}

// unused is that of a builder without columns.
var unused = &scratch{}

var scratches = sync.Pool{New: func() any { return &scratch{byName: map[string]int{}} }}

// alloc is the memory of column i.
func (s *scratch) alloc(i int) *build {
	if i < len(s.builds) {
		return &s.builds[i]
	}
	return new(build)
}

// release gives the scratch back. It must not hold on to what the batch owns.
func (s *scratch) release() {
	if s == unused || len(s.cols) > 8*len(s.builds) {
		return
	}
	clear(s.builds[:min(len(s.cols), len(s.builds))])
	clear(s.cols)
	clear(s.byName)
	s.cols = s.cols[:0]
	scratches.Put(s)
}

// spares are released batches: senders repeat themselves, so the memory of one mostly fits the next.
var spares sync.Pool

// keepSpare is the largest batch whose memory is kept, in bytes.
const keepSpare = 4 << 20

// Release gives the batch's memory to builders to come; for who made the batch, or was given it, and has sent it elsewhere. Nobody may use the batch, a copy of
// it or a value in it afterwards.
func (b *Batch) Release() {
	if b.Samples == nil && b.Size() <= keepSpare {
		spares.Put(&Batch{Times: b.Times[:0], Columns: b.Columns})
	}
}

// column is a new column i, empty, with the memory of the released batch's if that is of the same type. It may be asked for each once; a nil batch has none.
func (b *Batch) column(i int, name []byte, t Type) Column {
	if b == nil || i >= len(b.Columns) || b.Columns[i].Type != t {
		return Column{Name: string(name), Type: t}
	}
	p := &b.Columns[i]
	c := Column{Name: p.Name, Type: t, Offsets: p.Offsets[:0], Bytes: p.Bytes[:0], Ints: p.Ints[:0], Floats: p.Floats[:0]}
	if c.Name != string(name) {
		c.Name = string(name)
	}
	return c
}

// fit makes room for rows rows and readies the offsets of a String column.
func (c *build) fit(rows int) {
	switch c.Type {
	case String:
		c.Offsets = slices.Grow(c.Offsets, max(0, rows+1-len(c.Offsets)))
		if len(c.Offsets) == 0 {
			c.Offsets = append(c.Offsets, 0)
		}
	case Double:
		c.Floats = slices.Grow(c.Floats, max(0, rows-len(c.Floats)))
	default:
		c.Ints = slices.Grow(c.Ints, max(0, rows-len(c.Ints)))
	}
}

func (c *build) setValid(row int) {
	for len(c.Valid) <= row>>6 {
		c.Valid = append(c.Valid, 0)
	}
	c.Valid[row>>6] |= 1 << (row & 63)
}

// pad appends nulls up to row. Until the first null a column needs no bitmap.
func (c *build) pad(row int) {
	n := row - c.rows
	if n <= 0 {
		return
	}
	if c.Valid == nil {
		c.Valid = make([]uint64, (c.rows+63)>>6, (row+127)>>6)
		for i := range c.Valid {
			c.Valid[i] = math.MaxUint64
		}
		if c.rows&63 != 0 {
			c.Valid[c.rows>>6] = 1<<(c.rows&63) - 1
		}
	}
	for len(c.Valid) < (row+63)>>6 {
		c.Valid = append(c.Valid, 0)
	}
	switch c.Type {
	case String:
		for end := uint32(len(c.Bytes)); n > 0; n-- {
			c.Offsets = append(c.Offsets, end)
		}
	case Double:
		c.Floats = append(c.Floats, make([]float64, n)...)
	default:
		c.Ints = append(c.Ints, make([]int64, n)...)
	}
	c.rows = row
}

// pop removes the last row's value.
func (c *build) pop() {
	c.rows--
	c.values--
	if c.Valid != nil {
		c.Valid[c.rows>>6] &^= 1 << (c.rows & 63)
	}
	switch c.Type {
	case String:
		c.Offsets = c.Offsets[:len(c.Offsets)-1]
		c.Bytes = c.Bytes[:c.Offsets[len(c.Offsets)-1]]
	case Double:
		c.Floats = c.Floats[:len(c.Floats)-1]
	default:
		c.Ints = c.Ints[:len(c.Ints)-1]
	}
}

// restore undoes a widening. The current row's value was popped before, so what is left are the committed rows in both forms.
func (c *build) restore(u widened) {
	valid := c.Valid
	c.Column, c.wideInt = u.was, u.wideInt
	c.Valid = valid
}

// spill begins an entry of the overflow object and says whether its value is to be appended. It is called for a field without a column, which is one beyond
// MaxColumns unless the record has failed.
func (b *Builder) spill(name []byte, size int) bool {
	if b.err != nil {
		return false
	}
	b.size += size + len(name)
	if b.extra++; b.size > b.limits.MaxRecord || len(b.row)+b.extra > b.limits.MaxFields {
		b.extra--
		b.refuse(string(name))
		return false
	}
	b.overflow = append(b.overflow, ',')
	b.overflow = append(AppendJSONString(b.overflow, unsafeString(name)), ':')
	return true
}

func (b *Builder) spillNumber(name []byte, t Type, v int64) {
	if !b.spill(name, 8) {
		return
	}
	if t == Timestamp {
		b.overflow = AppendJSONString(b.overflow, FormatTime(v))
		return
	}
	b.overflow = appendNumber(b.overflow, t, v)
}

// setOverflow sets the field _overflow of the current record, which has a column beyond all limits.
func (b *Builder) setOverflow() {
	i, ok := b.byName[OverflowField]
	if !ok {
		i = b.newColumn([]byte(OverflowField), String)
	}
	c, row := b.cols[i], len(b.times)
	c.pad(row)
	if c.Valid != nil {
		c.setValid(row)
	}
	b.overflow[0] = '{'
	b.overflow = append(b.overflow, '}')
	c.Bytes = append(c.Bytes, b.overflow...)
	c.Offsets = append(c.Offsets, uint32(len(c.Bytes)))
	c.rows = row + 1
	c.values++
	b.row = append(b.row, i)
}

// isPlain says whether a name needs no escapes in JSON.
func isPlain(name []byte) bool {
	for _, c := range name {
		if c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// appendDouble appends a double as JSON; what JSON cannot say as a number is quoted.
func appendDouble(dst []byte, f float64) []byte {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return strconv.AppendQuote(dst, FormatDouble(f))
	}
	return append(dst, FormatDouble(f)...)
}
