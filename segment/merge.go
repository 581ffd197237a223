package segment

import (
	"cmp"
	"io"
	"math"
	"slices"

	"context"

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
	size    int
	data    []byte
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
	again := info.rows < clusterRows
	for i := range h.cols {
		c := &h.cols[i]
		again = again || c.name != millstream.TimestampField && c.typ != m.types[c.name]
	}
	if again {
		return m.collect(x)
	}
	m.data, m.index = resize(m.data, int(info.dataSize)), resize(m.index, int(info.size))
	if err := readFull(x.r.data, m.data, info.dataBase); err != nil {
		return err
	}
	if err := readFull(x.r.index, m.index, info.base); err != nil {
		return err
	}
	return m.out.run(info, h.cols, m.data, m.index)
}

// collect keeps a run's records for encoding, together with those of other runs up to the size of one.
func (m *merger) collect(x mergeRun) error {
	rows := x.r.runs[x.i].rows
	if m.rows+rows > runRows || m.size > maxRunBytes/2 {
		if err := m.flush(); err != nil {
			return err
		}
	}
	b, err := x.r.batch(x.i)
	if err != nil {
		return err
	}
	for i := range b.Columns {
		b.Columns[i].Widen(m.types[b.Columns[i].Name])
	}
	m.pending = append(m.pending, b)
	m.rows += rows
	m.size += b.Size()
	return nil
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
	err = eachRun(t, m.level, m.out.run)
	m.pending, m.rows, m.size = nil, 0, 0
	return err
}

// batch reads a whole run back as plain columns.
func (r *Reader) batch(i int) (*millstream.Batch, error) {
	out := &millstream.Batch{}
	for _, f := range r.fields {
		var c millstream.Column
		clearColumn(&c, &millstream.Column{Name: f.Name, Type: f.Type})
		out.Columns = append(out.Columns, c)
	}
	s := Scan{Range: millstream.TimeRange{Start: math.MinInt64, End: math.MaxInt64}, All: true, Times: true}
	x, err := newScanner(context.Background(), r.fields, s, func(b *millstream.Batch) error {
		n := len(b.Times)
		m := firstRows(n)
		for k := range b.Columns {
			appendRows(&out.Columns[k], len(out.Times), &b.Columns[k], &m, n)
		}
		out.Times = append(out.Times, b.Times...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	state := &readers{r: r, data: r.data, stats: &x.stats, byName: map[string]*columnReader{}}
	defer state.release()
	x.pieces = []piece{&runScan{readers: state, run: i, info: &r.runs[i]}}
	return out, x.run()
}
