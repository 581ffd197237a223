package segment

import (
	"cmp"
	"hash/maphash"
	"slices"

	"github.com/millstream/millstream"
)

// table is several batches as one, under one type per field.
type table struct {
	batches []*millstream.Batch
	fields  []tableField
	refs    []ref // all rows in time order
	rawSize int64 // about how many bytes the values take
	longest int64 // no row's texts are longer together
	owned   bool  // the batches are the table's, which empties columns whose values were all gathered
}

// ref is a row of a table.
type ref struct{ batch, row uint32 }

type tableField struct {
	name    string
	typ     millstream.Type
	wide    bool
	cols    []*millstream.Column // per batch, nil where it lacks the field
	size    int64
	longest int64 // of its texts
	spelled int64 // bytes of the texts that stand for codes
}

func newTable(batches []*millstream.Batch) (*table, error) {
	t := &table{batches: batches}
	byName := map[string]int{}
	for k, b := range batches {
		if b.Samples != nil {
			return nil, millstream.Errorf(millstream.Invalid, "a batch of samples is not one of records")
		}
		for i := range b.Columns {
			c := &b.Columns[i]
			f, ok := byName[c.Name]
			if !ok {
				f = len(t.fields)
				byName[c.Name] = f
				t.fields = append(t.fields, tableField{name: c.Name, cols: make([]*millstream.Column, len(batches))})
			}
			t.fields[f].cols[k] = c
		}
	}
	for i := range t.fields {
		t.fields[i].join()
		t.rawSize += t.fields[i].size + t.fields[i].spelled
		t.longest += t.fields[i].longest
	}
	slices.SortFunc(t.fields, func(a, b tableField) int { return cmp.Compare(a.name, b.name) })
	t.sortByTime()
	t.rawSize += 8 * int64(len(t.refs))
	return t, nil
}

// join finds the field's least common type and brings all columns to it.
func (f *tableField) join() {
	for _, c := range f.cols {
		if c != nil && c.Type == millstream.Int64 {
			f.wide = f.wide || slices.ContainsFunc(c.Ints, func(v int64) bool { return v > millstream.MaxExactInt || v < -millstream.MaxExactInt })
		}
	}
	for _, c := range f.cols {
		if c != nil {
			f.typ = millstream.JoinType(f.typ, c.Type, f.wide)
		}
	}
	for k, c := range f.cols {
		if c == nil {
			continue
		}
		if c.Type != f.typ {
			wider := *c
			wider.Widen(f.typ)
			c = &wider
			f.cols[k] = c
		}
		f.size += int64(len(c.Bytes) + 8*len(c.Ints) + 8*len(c.Floats) + 4*len(c.Codes))
		f.texts(c)
	}
}

// texts notes the sizes of a column's texts. Short ones of a dictionary count as their codes.
func (f *tableField) texts(c *millstream.Column) {
	for i := 1; i < len(c.Offsets); i++ {
		f.longest = max(f.longest, int64(c.Offsets[i]-c.Offsets[i-1]))
	}
	long := 0
	for _, s := range c.Dict {
		long = max(long, len(s))
	}
	f.longest = max(f.longest, int64(long))
	if long < 64 {
		return
	}
	for _, code := range c.Codes {
		f.spelled += int64(len(c.Dict[code]))
	}
}

func (t *table) sortByTime() {
	rows, sorted, last := 0, true, int64(0)
	for _, b := range t.batches {
		rows += len(b.Times)
	}
	t.refs = make([]ref, 0, rows)
	for k, b := range t.batches {
		for i, ns := range b.Times {
			sorted = sorted && (len(t.refs) == 0 || ns >= last)
			last = ns
			t.refs = append(t.refs, ref{uint32(k), uint32(i)})
		}
	}
	if !sorted {
		slices.SortStableFunc(t.refs, func(a, b ref) int { return cmp.Compare(t.time(a), t.time(b)) })
	}
}

func (t *table) time(r ref) int64 { return t.batches[r.batch].Times[r.row] }

// runEnd is the end of the run that begins at from: runRows later, or sooner if the values of so many records are larger than limit, or those of the large ones
// among them than limitLarge.
func (t *table) runEnd(from int, limit, limitLarge int64) int {
	end := min(from+runRows, len(t.refs))
	if t.rawSize <= limit && (t.rawSize <= limitLarge || t.longest < largeRow) {
		return end
	}
	size, large := int64(0), int64(0)
	for to := from; to < end; to++ {
		texts := t.texts(t.refs[to])
		size += texts + int64(8*len(t.fields))
		if texts >= largeRow {
			large += texts
		}
		if (size > limit || large > limitLarge) && to > from {
			return to
		}
	}
	return end
}

// texts is how many bytes a row's texts have.
func (t *table) texts(r ref) (n int64) {
	for i := range t.fields {
		if c := t.fields[i].cols[r.batch]; c != nil && c.Type == millstream.String {
			n += int64(len(c.Str(int(r.row))))
		}
	}
	return n
}

// gather copies a field's values of the given rows into out, whose memory is reused; size is about what they take. The result is plain; Valid is nil if no value is
// missing.
func (f *tableField) gather(out *millstream.Column, refs []ref, size int) (values int) {
	valid := resize(out.Valid[:0], (len(refs)+63)/64)
	clear(valid)
	*out = millstream.Column{Name: f.name, Type: f.typ, Valid: valid, Ints: out.Ints[:0], Floats: out.Floats[:0], Offsets: out.Offsets[:0], Bytes: out.Bytes[:0]}
	if f.typ == millstream.String {
		out.Offsets = append(slices.Grow(out.Offsets, len(refs)+1), 0)
		out.Bytes = slices.Grow(out.Bytes, size)
	}
	for i, r := range refs {
		c := f.cols[r.batch]
		ok := c != nil && c.IsValid(int(r.row))
		if ok {
			valid[i>>6] |= 1 << (i & 63)
			values++
		}
		switch f.typ {
		case millstream.String:
			if ok {
				out.Bytes = append(out.Bytes, c.Str(int(r.row))...)
			}
			out.Offsets = append(out.Offsets, uint32(len(out.Bytes)))
		case millstream.Double:
			v := 0.0
			if ok {
				v = c.Floats[r.row]
			}
			out.Floats = append(out.Floats, v)
		default:
			v := int64(0)
			if ok {
				v = c.Ints[r.row]
			}
			out.Ints = append(out.Ints, v)
		}
	}
	if values == len(refs) {
		out.Valid = nil
	}
	return values
}

// release gives back a field's memory, where that is the table's.
func (t *table) release(f *tableField) {
	for _, c := range f.cols {
		if t.owned && c != nil {
			*c = millstream.Column{}
		}
	}
}

// dictionary finds the distinct texts of a column. Its memory is reused.
type dictionary struct {
	seed   maphash.Seed
	slots  []uint32 // index into values + 1; a power of two of them
	values []string // share the column's memory
	codes  []uint32
	size   int // bytes of all values
}

// build codes the column's values; ok is false if too many are distinct for a dictionary to pay.
func (d *dictionary) build(c *millstream.Column, rows, values int) (ok bool) {
	const sample = 8192
	d.slots = resize(d.slots, 1<<bitsFor(values+2))
	clear(d.slots)
	d.codes = resize(d.codes, rows)
	clear(d.codes)
	d.values, d.size = d.values[:0], 0
	mask, seen := uint64(len(d.slots)-1), 0
	for i := range rows {
		if !c.IsValid(i) {
			continue
		}
		s := text(c.Bytes[c.Offsets[i]:c.Offsets[i+1]])
		code := d.find(s, mask)
		if d.codes[i] = code; int(code) == len(d.values) {
			d.values = append(d.values, s)
			d.size += len(s)
			if len(d.values) > values/2+1 {
				return false
			}
		}
		if seen++; seen == sample && len(d.values) > sample-sample/8 {
			return false
		}
	}
	return len(d.values) <= max(values/2, 1)
}

// find is the code of a value, that of the next new one if it is not there yet.
func (d *dictionary) find(s string, mask uint64) uint32 {
	for i := maphash.String(d.seed, s) & mask; ; i = (i + 1) & mask {
		switch k := d.slots[i]; {
		case k == 0:
			d.slots[i] = uint32(len(d.values) + 1)
			return uint32(len(d.values))
		case d.values[k-1] == s:
			return k - 1
		}
	}
}
