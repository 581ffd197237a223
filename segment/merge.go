package segment

import (
	"cmp"
	"io"
	"slices"

	"github.com/millstream/millstream"
)

// Merge writes the records of several segments as one. Runs are copied as they are, data and index alike, under new footers; only runs that are small, or that
// hold a field under another type than the whole has it, are encoded anew.
func Merge(data, index io.Writer, in []*Reader, o Options) (Info, error) {
	m := merger{out: newFileWriter(data, index), level: o}
	m.out.indexed = o.Indexed
	all := m.plan(in)
	if len(all) == 0 {
		return Info{}, millstream.Errorf(millstream.Invalid, "a merge needs at least one segment")
	}
	for _, r := range all {
		err := m.add(r)
		if err != nil {
			return Info{}, err
		}
	}
	if err := m.flush(); err != nil {
		return Info{}, err
	}
	return m.out.close()
}

type merger struct {
	out     *fileWriter
	level   Options
	types   map[string]millstream.Type
	pending []*millstream.Batch // records to encode anew
	rows    int
	size    int64
	index   []byte
}

// mergeRun is a run to be merged.
type mergeRun struct {
	r *Reader
	i int
}

// plan joins the fields of all segments and orders their runs by time.
func (m *merger) plan(in []*Reader) []mergeRun {
	var all []mergeRun
	var fields []FieldStat
	at := map[string]int{}
	for _, r := range in {
		for i := range r.runs {
			all = append(all, mergeRun{r, i})
		}
		for _, f := range r.fields {
			if k, ok := at[f.Name]; ok {
				fields[k].WideInt = fields[k].WideInt || f.WideInt
				continue
			}
			at[f.Name] = len(fields)
			fields = append(fields, f)
		}
	}
	m.types = make(map[string]millstream.Type, len(fields))
	for _, r := range in {
		for _, f := range r.fields {
			m.types[f.Name] = millstream.JoinType(m.types[f.Name], f.Type, fields[at[f.Name]].WideInt)
		}
	}
	slices.SortFunc(fields, func(a, b FieldStat) int { return cmp.Compare(a.Name, b.Name) })
	for _, f := range fields {
		m.out.field(FieldStat{Name: f.Name, Type: m.types[f.Name], WideInt: f.WideInt})
	}
	slices.SortStableFunc(all, func(a, b mergeRun) int { return cmp.Compare(a.r.runs[a.i].minTime, b.r.runs[b.i].minTime) })
	return all
}

func (m *merger) add(x mergeRun) error {
	h, err := x.r.header(x.i)
	if err != nil {
		return err
	}
	info := x.r.runs[x.i]
	size, fits := int64(0), true
	for i := range h.cols {
		c := &h.cols[i]
		size += c.rawSize
		fits = fits && (c.name == millstream.TimestampField || c.typ == m.types[c.name])
	}
	if !fits || !full(info.rows, size) {
		return m.collect(x, h)
	}
	m.index = resize(m.index, int(info.size))
	if err := readFull(x.r.index, m.index, info.base); err != nil {
		return err
	}
	return m.out.copyRun(info, h.cols, x.r.data, m.index)
}

// full says whether a run of so many records and bytes is as large as runs are made, more or less: encoding it together with others would gain little.
func full(rows int, size int64) bool {
	return rows >= clusterRows || size >= maxRunBytes/2 || size >= largeRunBytes/2 && size >= largeRow*int64(rows)
}

// collect keeps a run's records for encoding, together with those of other runs up to the size of one. Of a run that is larger under the types of the whole it keeps
// some blocks at a time.
func (m *merger) collect(x mergeRun, h *runHeader) error {
	info := &x.r.runs[x.i]
	each := m.sizeOf(info.rows, h)/int64(info.blocks()) + 1
	step := info.blocks()
	if each*int64(step) > maxRunBytes {
		step = int(max(maxRunBytes/2/each, 1))
	}
	for from := 0; from < info.blocks(); from += step {
		to := min(from+step, info.blocks())
		rows := min(to*blockRows, info.rows) - from*blockRows
		if m.rows+rows > runRows || m.size+each*int64(to-from) > maxRunBytes {
			if err := m.flush(); err != nil {
				return err
			}
		}
		b, err := x.r.batch(x.i, from, to, m.types)
		if err != nil {
			return err
		}
		m.pending = append(m.pending, b)
		m.rows += rows
		m.size += int64(b.Size())
	}
	return nil
}

// sizeOf is about how many bytes a run's values take as plain columns of the types of the whole.
func (m *merger) sizeOf(rows int, h *runHeader) (n int64) {
	for i := range h.cols {
		c := &h.cols[i]
		switch {
		case c.typ == millstream.String:
			n += c.textSize() + 4*int64(rows)
		case m.types[c.name] == millstream.String:
			n += 24 * int64(rows)
		default:
			n += 8 * int64(rows)
		}
	}
	return n
}

// flush encodes the collected records.
func (m *merger) flush() error {
	if m.rows == 0 {
		return nil
	}
	t, err := newTable(m.pending)
	if err != nil {
		return err
	}
	t.owned = true
	err = eachRun(t, m.level, m.out.run)
	m.pending, m.rows, m.size = nil, 0, 0
	return err
}

// batch reads some blocks of a run back as plain columns of the given types, one column after the other. It has the fields that the run has.
func (r *Reader) batch(i, from, to int, types map[string]millstream.Type) (*millstream.Batch, error) {
	h, err := r.header(i)
	if err != nil {
		return nil, err
	}
	var stats ScanStats
	run := &runScan{readers: &readers{data: r.data, stats: &stats}, info: &r.runs[i], need: allBlocks(to) &^ allBlocks(from)}
	rows := min(to*blockRows, run.info.rows) - from*blockRows
	var reader columnReader
	out := &millstream.Batch{Columns: make([]millstream.Column, 0, len(h.cols))}
	for k := range h.cols {
		stored := &h.cols[k]
		c := roomy(stored, rows, run.info.rows)
		reader.open(run, stored)
		for b := from; b < to; b++ {
			view, err := reader.block(b, nil)
			if err != nil {
				return nil, err
			}
			n := min(blockRows, run.info.rows-b*blockRows)
			all := firstRows(n)
			appendRows(&c, (b-from)*blockRows, view, &all, n)
		}
		if stored.name == millstream.TimestampField {
			out.Times = c.Ints
			continue
		}
		spell(&c, reader.dict.values)
		c.Widen(types[c.Name])
		out.Columns = append(out.Columns, c)
	}
	return out, nil
}

// roomy is an empty column of a stored one's kind, with room for some of all its rows; of a dictionary it takes the codes.
func roomy(stored *column, rows, all int) millstream.Column {
	c := millstream.Column{Name: stored.name, Type: stored.typ, Valid: make([]uint64, 0, (rows+63)/64)}
	switch stored.enc {
	case encDict:
		c.Codes = make([]uint32, 0, rows)
	case encText:
		c.Offsets, c.Bytes = append(make([]uint32, 0, rows+1), 0), make([]byte, 0, stored.textSize()*int64(rows)/int64(all))
	case encDouble:
		c.Floats = make([]float64, 0, rows)
	default:
		c.Ints = make([]int64, 0, rows)
	}
	return c
}

// spell writes out the texts that codes stand for.
func spell(c *millstream.Column, dict []string) {
	if c.Codes == nil {
		return
	}
	size := 0
	for i, code := range c.Codes {
		if c.IsValid(i) {
			size += len(dict[code])
		}
	}
	c.Offsets, c.Bytes = append(make([]uint32, 0, len(c.Codes)+1), 0), make([]byte, 0, size)
	for i, code := range c.Codes {
		if c.IsValid(i) {
			c.Bytes = append(c.Bytes, dict[code]...)
		}
		c.Offsets = append(c.Offsets, uint32(len(c.Bytes)))
	}
	c.Codes = nil
}

// textSize is about how many bytes the texts of a column have, exactly those of a small dictionary; 0 of other types.
func (c *column) textSize() (n int64) {
	switch {
	case c.typ != millstream.String:
		return 0
	case c.enc == encText:
		return c.rawSize
	case c.values == nil:
		return min(int64(c.dictPage.raw)/int64(max(c.dictCount, 1))*c.rows, maxRunBytes)
	}
	for i, s := range c.values {
		n += int64(len(s)) * int64(c.counts[i])
	}
	return n
}
