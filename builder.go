package millstream

import (
	"math/bits"
	"strconv"
)

// Limits bound what one record may hold; zero values mean the defaults of DefaultLimits.
type Limits struct {
	MaxFields int // fields a record
	MaxKey    int // bytes of a field name
	MaxRecord int // bytes of a record's values
	MaxDepth  int // nesting of a decoded document; the decoders enforce it
}

// DefaultLimits are the documented input limits.
var DefaultLimits = Limits{MaxFields: 1000, MaxKey: 256, MaxRecord: 1 << 20, MaxDepth: 32}

// Builder turns records into a columnar batch: for each record set its fields, then Commit it with its time, or Abort it, which leaves no trace.
// A field set twice keeps the last value. If types conflict within the batch, the column widens by JoinType. A Builder is for one goroutine; it never
// allocates per record once its columns have grown. An error of a setter is sticky for the record and returned by Commit.
type Builder struct {
	limits Limits
	times  []int64
	cols   []*build
	byName map[string]int
	next   int   // the column guessed to come next: senders repeat the order of fields
	row    []int // columns set in the current record
	size   int   // bytes of the current record
	err    error
}

type build struct {
	Column
	rows    int // rows appended, the current one included
	wideInt bool
}

// NewBuilder returns an empty builder.
func NewBuilder(l Limits) *Builder {
	if l.MaxFields == 0 {
		l.MaxFields = DefaultLimits.MaxFields
	}
	if l.MaxKey == 0 {
		l.MaxKey = DefaultLimits.MaxKey
	}
	if l.MaxRecord == 0 {
		l.MaxRecord = DefaultLimits.MaxRecord
	}
	return &Builder{limits: l, byName: map[string]int{}}
}

// Rows is the number of committed records.
func (b *Builder) Rows() int { return len(b.times) }

// String sets a field of the current record. Name and value are copied.
func (b *Builder) String(name, v []byte) {
	c := b.field(name, String, len(v))
	if c == nil {
		return
	}
	if c.Type != String {
		c.Widen(String)
	}
	c.Bytes = append(c.Bytes, v...)
	c.Offsets = append(c.Offsets, uint32(len(c.Bytes)))
}

// Int sets a field of the current record.
func (b *Builder) Int(name []byte, v int64) { b.number(name, Int64, v) }

// Bool sets a field of the current record.
func (b *Builder) Bool(name []byte, v bool) {
	n := int64(0)
	if v {
		n = 1
	}
	b.number(name, Bool, n)
}

// Time sets a field of the current record to a time in nanoseconds.
func (b *Builder) Time(name []byte, ns int64) { b.number(name, Timestamp, ns) }

func (b *Builder) number(name []byte, t Type, v int64) {
	c := b.field(name, t, 8)
	if c == nil {
		return
	}
	wide := t == Int64 && (v > MaxExactInt || v < -MaxExactInt)
	c.wideInt = c.wideInt || wide
	if want := JoinType(c.Type, t, c.wideInt); want != c.Type {
		c.Widen(want)
	}
	switch c.Type {
	case String:
		switch t {
		case Bool:
			c.Bytes = strconv.AppendBool(c.Bytes, v != 0)
		case Timestamp:
			c.Bytes = append(c.Bytes, FormatTime(v)...)
		default:
			c.Bytes = strconv.AppendInt(c.Bytes, v, 10)
		}
		c.Offsets = append(c.Offsets, uint32(len(c.Bytes)))
	case Double:
		c.Floats = append(c.Floats, float64(v))
	default:
		c.Ints = append(c.Ints, v)
	}
}

// Double sets a field of the current record.
func (b *Builder) Double(name []byte, v float64) {
	c := b.field(name, Double, 8)
	if c == nil {
		return
	}
	if want := JoinType(c.Type, Double, c.wideInt); want != c.Type {
		c.Widen(want)
	}
	if c.Type == String {
		c.Bytes = append(c.Bytes, FormatDouble(v)...)
		c.Offsets = append(c.Offsets, uint32(len(c.Bytes)))
		return
	}
	c.Floats = append(c.Floats, v)
}

// field finds or adds the column, pads it with nulls up to the current record and marks the record's value as set.
func (b *Builder) field(name []byte, t Type, size int) *build {
	if b.err != nil {
		return nil
	}
	i := b.find(name)
	if i < 0 {
		if len(name) == 0 || len(name) > b.limits.MaxKey {
			b.err = Errorf(Invalid, "a field name of %d bytes: use 1 to %d", len(name), b.limits.MaxKey)
			return nil
		}
		i = len(b.cols)
		c := &build{Column: Column{Name: string(name), Type: t}}
		c.fit()
		b.cols = append(b.cols, c)
		b.byName[c.Name] = i
	}
	b.next = i + 1
	c := b.cols[i]
	row := len(b.times)
	if c.rows == row+1 { // set before in this record: the last value stays
		c.pop()
		b.drop(i)
	}
	if b.size += size; b.size > b.limits.MaxRecord {
		b.err = Errorf(TooLarge, "the record is larger than %d bytes", b.limits.MaxRecord)
		return nil
	}
	if len(b.row) >= b.limits.MaxFields {
		b.err = Errorf(Invalid, "the record has more than %d fields", b.limits.MaxFields)
		return nil
	}
	if uint64(len(c.Bytes))+uint64(size) > 1<<32-1<<20 {
		b.err = Errorf(TooLarge, "a column of the request holds more than 4 GiB")
		return nil
	}
	c.pad(row)
	c.setValid(row)
	c.rows = row + 1
	b.row = append(b.row, i)
	return c
}

func (b *Builder) find(name []byte) int {
	if b.next < len(b.cols) && b.cols[b.next].Name == string(name) {
		return b.next
	}
	if len(b.cols) > 0 && b.cols[0].Name == string(name) {
		return 0
	}
	if i, ok := b.byName[string(name)]; ok {
		return i
	}
	return -1
}

func (b *Builder) drop(i int) {
	for k, x := range b.row {
		if x == i {
			b.row = append(b.row[:k], b.row[k+1:]...)
			return
		}
	}
}

// Err is the error of the current record so far.
func (b *Builder) Err() error { return b.err }

// Commit ends the current record with its time. If a setter failed, the record is dropped and the error returned.
func (b *Builder) Commit(ns int64) error {
	if b.err != nil {
		err := b.err
		b.Abort()
		return err
	}
	b.times = append(b.times, ns)
	b.row, b.size, b.next = b.row[:0], 0, 0
	return nil
}

// Abort drops the current record.
func (b *Builder) Abort() {
	for _, i := range b.row {
		b.cols[i].pop()
	}
	b.row, b.size, b.next, b.err = b.row[:0], 0, 0, nil
}

// Batch returns the committed records and leaves the builder empty. Columns without any value are left out. It returns nil when there are no records.
func (b *Builder) Batch() *Batch {
	b.Abort()
	out := &Batch{Times: b.times}
	for _, c := range b.cols {
		if c.rows == 0 {
			continue
		}
		c.pad(len(b.times))
		if c.full(len(b.times)) {
			c.Valid = nil
		} else if c.empty() {
			continue
		}
		out.Columns = append(out.Columns, c.Column)
	}
	b.times, b.cols, b.byName, b.next = nil, nil, map[string]int{}, 0
	if len(out.Times) == 0 {
		return nil
	}
	return out
}

// fit readies the offsets of a String column.
func (c *build) fit() {
	if c.Type == String && len(c.Offsets) == 0 {
		c.Offsets = append(c.Offsets, 0)
	}
}

func (c *build) setValid(row int) {
	for len(c.Valid) <= row>>6 {
		c.Valid = append(c.Valid, 0)
	}
	c.Valid[row>>6] |= 1 << (row & 63)
}

func (c *build) pad(row int) {
	for ; c.rows < row; c.rows++ {
		switch c.Type {
		case String:
			c.Offsets = append(c.Offsets, uint32(len(c.Bytes)))
		case Double:
			c.Floats = append(c.Floats, 0)
		default:
			c.Ints = append(c.Ints, 0)
		}
	}
	for len(c.Valid) < (row+63)>>6 {
		c.Valid = append(c.Valid, 0)
	}
}

// pop removes the last row's value.
func (c *build) pop() {
	c.rows--
	c.Valid[c.rows>>6] &^= 1 << (c.rows & 63)
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

func (c *build) full(rows int) bool {
	n := 0
	for _, w := range c.Valid {
		n += bits.OnesCount64(w)
	}
	return n == rows
}

func (c *build) empty() bool {
	for _, w := range c.Valid {
		if w != 0 {
			return false
		}
	}
	return true
}
