package millstream

import (
	"slices"
	"strconv"
)

// Limits bound what one record may hold, and MaxColumns what one batch may; zero values mean the defaults of DefaultLimits.
type Limits struct {
	MaxFields  int // fields a record
	MaxKey     int // bytes of a field name
	MaxRecord  int // bytes of a record's values
	MaxDepth   int // nesting of a decoded document; the decoders enforce it
	MaxColumns int // distinct fields of a batch; what comes beyond goes to the field _overflow
	MaxValues  int // bytes of the values of all records of a batch, the refused ones included
}

// DefaultLimits are the documented input limits.
var DefaultLimits = Limits{MaxFields: 1000, MaxKey: 256, MaxRecord: 1 << 20, MaxDepth: 32, MaxColumns: 2000, MaxValues: 100 << 20}

// A batch pads every column to all rows, so few bytes of input can make many cells. A builder refuses records once its cells exceed freeCells plus
// cellsPerValue for every value that was set, and maxCells in any case: 32 MiB for a tiny request, 256 MiB for the largest.
const (
	freeCells     = 4 << 20
	cellsPerValue = 64
	maxCells      = 32 << 20
	maxColumn     = 1<<32 - 1<<20 // bytes of one column: offsets are 32 bits
	failedCost    = 16            // bytes that each field of a refused record counts for
)

// ErrTooSparse is why a builder takes no more records: the request spreads over more rows times fields than memory is given for. It concerns the request, not
// the record. Its kind is TooLarge.
var ErrTooSparse = Errorf(TooLarge, "the records spread over too many different fields for one request: send smaller batches")

// ErrTooMuch is the other reason: what many records share, such as the attributes of a resource or the labels of a stream, is sent once and stored with each of
// them, so that a small request can stand for any amount of data and work. Its kind is TooLarge.
var ErrTooMuch = Errorf(TooLarge, "the records, with all that they share written out for each, are too large for one request: send smaller batches")

// EndsRequest says whether an error of a record means that no more records of its request will be taken.
func EndsRequest(err error) bool { return err == ErrTooSparse || err == ErrTooMuch }

// Builder turns records into a columnar batch: for each record set its fields, then Commit it with its time, or Abort it, which leaves no trace.
// A field set twice keeps the last value. If types conflict within the batch, the column widens by JoinType. Fields beyond MaxColumns are kept as one JSON
// object in the field _overflow. A field that is called _timestamp or _overflow, which have a meaning of their own, is kept as _timestamp.value or
// _overflow.value. A Builder is for one goroutine; it never allocates per record once its columns have grown. An error of a setter is sticky for
// the record and returned by Commit.
type Builder struct {
	limits Limits
	*scratch
	spare    *Batch // whose memory is taken; nil: there was none
	times    []int64
	start    follow  // the columns that records began with
	after    *follow // the guess for the next column: what followed the last one before
	row      []int   // columns set in the current record
	undo     []widened
	overflow []byte // the current record's fields beyond MaxColumns, as the inside of a JSON object
	extra    int    // how many those are
	size     int    // bytes of the current record
	spent    int    // bytes set in all records, also in those that were dropped, and values converted for those
	values   int    // values set in committed records
	expect   int    // rows to expect in all, 0 if unknown
	err      error
	failed   string // the field err is about
}

type build struct {
	Column
	rows    int // rows appended, the current one included
	values  int // rows that have a value
	next    follow
	wideInt bool
	plain   bool // the name stands in JSON as it is
}

// follow remembers the two columns that came next most recently: senders repeat the order of fields, with a variant or two.
type follow [2]int32

// widened is what a column was before the current record widened it, so that Abort can restore it.
type widened struct {
	col     int
	was     Column
	wideInt bool
}

var noFollow = follow{-1, -1}

// NewBuilder returns an empty builder.
func NewBuilder(l Limits) *Builder {
	for _, f := range []struct {
		v *int
		d int
	}{
		{&l.MaxFields, DefaultLimits.MaxFields}, {&l.MaxKey, DefaultLimits.MaxKey}, {&l.MaxRecord, DefaultLimits.MaxRecord}, {&l.MaxColumns, DefaultLimits.MaxColumns},
		{&l.MaxValues, DefaultLimits.MaxValues},
	} {
		if *f.v == 0 {
			*f.v = f.d
		}
	}
	b := &Builder{limits: l}
	b.reset()
	return b
}

func (b *Builder) reset() {
	b.scratch, b.spare = unused, nil
	b.times, b.start, b.after, b.values, b.expect, b.spent = nil, noFollow, &b.start, 0, 0, 0
}

// begin takes memory for the first column.
func (b *Builder) begin() {
	b.scratch = scratches.Get().(*scratch)
	if b.spare, _ = spares.Get().(*Batch); b.spare != nil && b.times == nil {
		b.times = b.spare.Times
	}
}

// Rows is the number of committed records.
func (b *Builder) Rows() int { return len(b.times) }

// Reserve makes room for rows records in all, of the average size of those so far, so that columns need not grow step by step. A wrong guess only costs time or
// memory for a while.
func (b *Builder) Reserve(rows int) {
	have := len(b.times)
	if have == 0 || rows <= have || rows*max(len(b.cols), 1) > maxCells {
		return
	}
	b.expect = rows
	b.times = slices.Grow(b.times, rows-have)
	for _, c := range b.cols {
		c.fit(rows)
		if n := len(c.Bytes); n > 0 {
			c.Bytes = slices.Grow(c.Bytes, int(float64(n)*float64(rows-have)/float64(have))+64)
		}
	}
}

// String sets a field of the current record. Name and value are copied.
func (b *Builder) String(name, v []byte) {
	if f := b.column(name, String); f >= 0 {
		b.SetString(f, v)
	} else if b.spill(name, len(v)) {
		b.overflow = AppendJSONString(b.overflow, unsafeString(v))
	}
}

// Guess is the field that is likely to be set next, by the order of earlier records, and its handle for the setters by handle; -1 if there is no guess. Handles stay
// good until Batch, and setting by handle saves looking the name up. Only names that stand in JSON as they are, without escapes, are guessed.
func (b *Builder) Guess() (name string, field int) {
	if i := b.after[0]; i >= 0 && b.cols[i].plain {
		return b.cols[i].Name, int(i)
	}
	return "", -1
}

// SetString is String by handle.
func (b *Builder) SetString(field int, v []byte) {
	c := b.set(field, String, len(v))
	if c == nil {
		return
	}
	if c.Type != String || c.Seen != nil {
		b.mixed(c, String)
	}
	if c.Type != String {
		b.widen(c, String)
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
	if f := b.column(name, t); f >= 0 {
		b.SetNumber(f, t, v)
	} else {
		b.spillNumber(name, t, v)
	}
}

// SetNumber is Int, Bool (0 or 1) or Time by handle, as the type says.
func (b *Builder) SetNumber(field int, t Type, v int64) {
	c := b.set(field, t, 8)
	if c == nil {
		return
	}
	if c.Type != t || c.Seen != nil {
		b.mixed(c, t)
	}
	if t == Int64 && (v > MaxExactInt || v < -MaxExactInt) && !c.wideInt {
		b.remember(c)
		c.wideInt = true
	}
	if c.Type != t || c.wideInt {
		if want := JoinType(c.Type, t, c.wideInt); want != c.Type {
			b.widen(c, want)
		}
	}
	switch c.Type {
	case String:
		c.Bytes = appendNumber(c.Bytes, t, v)
		c.Offsets = append(c.Offsets, uint32(len(c.Bytes)))
	case Double:
		c.Floats = append(c.Floats, float64(v))
	default:
		c.Ints = append(c.Ints, v)
	}
}

// appendNumber appends the canonical text of a Bool, Int64 or Timestamp.
func appendNumber(dst []byte, t Type, v int64) []byte {
	switch t {
	case Bool:
		return strconv.AppendBool(dst, v != 0)
	case Timestamp:
		return append(dst, FormatTime(v)...)
	}
	return strconv.AppendInt(dst, v, 10)
}

// Double sets a field of the current record.
func (b *Builder) Double(name []byte, v float64) {
	if f := b.column(name, Double); f >= 0 {
		b.SetDouble(f, v)
	} else if b.spill(name, 8) {
		b.overflow = appendDouble(b.overflow, v)
	}
}

// SetDouble is Double by handle.
func (b *Builder) SetDouble(field int, v float64) {
	c := b.set(field, Double, 8)
	if c == nil {
		return
	}
	if c.Type != Double || c.Seen != nil {
		b.mixed(c, Double)
	}
	if c.Type != Double {
		if want := JoinType(c.Type, Double, c.wideInt); want != c.Type {
			b.widen(c, want)
		}
	}
	if c.Type == String {
		c.Bytes = append(c.Bytes, FormatDouble(v)...)
		c.Offsets = append(c.Offsets, uint32(len(c.Bytes)))
		return
	}
	c.Floats = append(c.Floats, v)
}

// Null takes back a value that the current record has for the field, if it has one: a null that comes after it wins.
func (b *Builder) Null(name []byte) {
	if b.err != nil {
		return
	}
	if i := b.find(name); i >= 0 && b.cols[i].rows == len(b.times)+1 {
		b.drop(i)
	} else if i < 0 && b.extra > 0 && b.spill(name, 0) {
		b.overflow = append(b.overflow, "null"...)
	}
}

// column finds or adds the column of a field. It is -1 if the record has failed or the batch has enough columns.
func (b *Builder) column(name []byte, t Type) int {
	if b.err != nil {
		return -1
	}
	if i := b.find(name); i >= 0 {
		return i
	}
	return b.add(name, t)
}

// set readies column i for a value of the current record: pads it with nulls up to it and marks the value as set. It returns nil if the record has failed.
func (b *Builder) set(i int, t Type, size int) *build {
	if b.err != nil {
		return nil
	}
	c := b.cols[i]
	b.after = &c.next
	row := len(b.times)
	if c.rows == row+1 { // set before in this record: the last value stays
		b.drop(i)
	}
	b.spent += size + 1
	if b.size += size; b.spent > b.limits.MaxValues || b.size > b.limits.MaxRecord || len(b.row)+b.extra >= b.limits.MaxFields || len(c.Bytes) > maxColumn-size {
		return b.refuse(c.Name)
	}
	if c.values == 0 && c.Type != t { // of what it held nothing is left
		*c = build{Column: Column{Name: c.Name, Type: t}, next: c.next, plain: c.plain}
		c.fit(max(b.expect, row+1))
	}
	if c.rows < row {
		c.pad(row)
	}
	if c.Valid != nil {
		c.setValid(row)
	}
	c.rows = row + 1
	c.values++
	b.row = append(b.row, i)
	return c
}

func (b *Builder) find(name []byte) int {
	for _, i := range b.after {
		if i >= 0 && b.cols[i].Name == string(name) {
			return int(i)
		}
	}
	i, ok := b.byName[string(name)]
	if !ok {
		return -1
	}
	b.after[1], b.after[0] = b.after[0], int32(i)
	return i
}

// add makes a new column, or says -1 if the name is no good or the batch has enough columns.
func (b *Builder) add(name []byte, t Type) int {
	if len(name) == 0 || len(name) > b.limits.MaxKey {
		b.fail(string(name[:min(len(name), b.limits.MaxKey)]), Errorf(Invalid, "a field name of %d bytes: use 1 to %d", len(name), b.limits.MaxKey))
		return -1
	}
	if string(name) == TimestampField || string(name) == OverflowField {
		name = append(slices.Clip(name), ".value"...)
		if i := b.find(name); i >= 0 {
			return i
		}
	}
	if len(b.cols) >= b.limits.MaxColumns {
		return -1
	}
	return b.newColumn(name, t)
}

func (b *Builder) newColumn(name []byte, t Type) int {
	if b.scratch == unused {
		b.begin()
	}
	i := len(b.cols)
	c := b.alloc(i)
	*c = build{Column: b.spare.column(i, name, t), next: noFollow, plain: isPlain(name)}
	c.fit(max(b.expect, len(b.times)+1))
	b.cols = append(b.cols, c)
	b.byName[c.Name] = i
	b.after[1], b.after[0] = b.after[0], int32(i)
	return i
}

// refuse says which limit the record broke with its field.
func (b *Builder) refuse(name string) *build {
	switch {
	case b.spent > b.limits.MaxValues:
		return b.fail(name, ErrTooMuch)
	case b.size > b.limits.MaxRecord:
		return b.fail(name, Errorf(TooLarge, "the record is larger than %d bytes", b.limits.MaxRecord))
	case len(b.row)+b.extra >= b.limits.MaxFields:
		return b.fail(name, Errorf(Invalid, "the record has more than %d fields", b.limits.MaxFields))
	}
	return b.fail(name, Errorf(TooLarge, "a column of the request holds more than %d bytes", maxColumn))
}

// fail ends the record. One of very many fields has cost time, which counts as if it were memory.
func (b *Builder) fail(field string, err error) *build {
	b.spent += len(b.row) * failedCost
	b.err, b.failed = err, field
	return nil
}

// drop takes the current record's value of column i back.
func (b *Builder) drop(i int) {
	b.cols[i].pop()
	k := slices.Index(b.row, i)
	b.row = slices.Delete(b.row, k, k+1)
}

// remember keeps what the column is for Abort. Its slices stay as they are, because widening makes new ones.
func (b *Builder) remember(c *build) {
	b.undo = append(b.undo, widened{col: b.byName[c.Name], was: c.Column, wideInt: c.wideInt})
}

// mixed notes the type of a value where a column holds, or is about to hold, values of several.
func (b *Builder) mixed(c *build, t Type) {
	if containsType(c.Seen, t) {
		return
	}
	b.remember(c)
	if c.Seen == nil {
		c.Seen = []Type{c.Type}
	}
	c.Seen = append(slices.Clip(c.Seen), t)
}

func (b *Builder) widen(c *build, t Type) {
	b.remember(c)
	c.Widen(t)
}

// Err is the error of the current record so far.
func (b *Builder) Err() error { return b.err }

// Failed is the field that the error of the current record is about.
func (b *Builder) Failed() string { return b.failed }

// Commit ends the current record with its time. If a setter failed, the record is dropped and the error returned; if EndsRequest says so of the
// error, no more records will be taken.
func (b *Builder) Commit(ns int64) error {
	if cells := (len(b.times) + 1) * len(b.cols); b.err == nil && cells > freeCells && cells > min(maxCells, freeCells+cellsPerValue*b.values) {
		b.err = ErrTooSparse
	}
	if b.extra > 0 && b.err == nil {
		b.setOverflow()
	}
	if b.err != nil {
		err := b.err
		b.Abort()
		return err
	}
	b.times = append(b.times, ns)
	b.values += len(b.row)
	b.next()
	return nil
}

// Abort drops the current record.
func (b *Builder) Abort() {
	for _, i := range b.row {
		b.cols[i].pop()
	}
	for _, u := range slices.Backward(b.undo) {
		c := b.cols[u.col]
		if c.Type != u.was.Type { // all its rows were converted, for a record that is dropped
			b.spent += c.rows
		}
		c.restore(u)
	}
	b.next()
}

// next readies the builder for the next record.
func (b *Builder) next() {
	b.row, b.undo, b.size, b.after, b.err, b.failed = b.row[:0], b.undo[:0], 0, &b.start, nil, ""
	b.overflow, b.extra = b.overflow[:0], 0
}

// Batch returns the committed records and leaves the builder empty. Columns without any value are left out. It returns nil when there are no records.
func (b *Builder) Batch() *Batch {
	b.Abort()
	out := &Batch{Times: b.times, Columns: make([]Column, 0, len(b.cols))}
	for _, c := range b.cols {
		if c.values > 0 {
			c.pad(len(b.times))
			out.Columns = append(out.Columns, c.Column)
		}
	}
	b.scratch.release()
	b.reset()
	if len(out.Times) == 0 {
		return nil
	}
	return out
}
