package segment

import (
	"io"
	"math"

	"github.com/millstream/millstream"
)

// Rebuild writes the index of a data object anew, from that object alone: all that an index says can be read from the rows, but for the names of fields, of which a
// Parquet file has only the ids; names has them by id. The object must have been verified as a whole, because the checksums of its pages are taken of what is there.
// It holds one column of one run at a time. The result is what Encode or Merge would have written with these options; its info has the index's size and sum only.
func Rebuild(index io.Writer, data io.ReaderAt, size int64, names map[string]string, o Options) (Info, error) {
	p, err := openParquet(data, size, names)
	if err != nil {
		return Info{}, err
	}
	out := newFileWriter(io.Discard, index)
	out.indexed = o.Indexed
	for _, f := range p.fields {
		out.field(f)
	}
	w := newRunWriter(o.Level)
	w.setIndexed(o.Indexed)
	for i := range p.groups {
		g := &p.groups[i]
		if err := w.reindex(p, g); err != nil {
			return Info{}, err
		}
		for k := range w.cols { // before the run is added, as everywhere
			if w.cols[k].wide {
				out.field(FieldStat{Name: w.cols[k].name, WideInt: true})
			}
		}
		if err := out.addRun(g.info, w.cols, w.index.p); err != nil {
			return Info{}, err
		}
	}
	return out.closeIndex()
}

// reindex makes a run's part of the index from its stored columns, as write does from the values.
func (w *runWriter) reindex(p *parquetFile, g *parquetGroup) error {
	w.index.p, w.cols = w.index.p[:0], w.cols[:0]
	w.refs = resize(w.refs, g.info.rows)
	for i := range g.cols {
		col := g.cols[i]
		if err := w.recall(p, g, &col); err != nil {
			return err
		}
		if col.name == millstream.TimestampField {
			g.info.minTime, g.info.maxTime = math.MaxInt64, math.MinInt64
			for _, ns := range w.col.Ints {
				g.info.minTime, g.info.maxTime = min(g.info.minTime, ns), max(g.info.maxTime, ns)
			}
		}
		blocks := g.info.blocks()
		dict := col.enc == encDict
		col.nulls(&w.col, g.info.rows, blocks)
		col.zones(&w.col, g.info.rows, blocks)
		if dict {
			col.small(&w.dict, &w.col, g.info.rows)
			if col.values != nil {
				col.dictParts = nil
			}
		}
		col.stats(&w.col, g.info.rows, w.dict.values, dict)
		w.cols = append(w.cols, col)
		if col.name != millstream.TimestampField {
			w.lookups(&w.cols[len(w.cols)-1], dict, false)
		}
	}
	w.header(&g.info)
	return nil
}

// recall reads all values of a stored column into w.col, and of a dictionary into w.dict, and counts them.
func (w *runWriter) recall(p *parquetFile, g *parquetGroup, col *column) error {
	stats := ScanStats{}
	x := &runScan{readers: &readers{data: p.data, stats: &stats}, info: &g.info, need: everywhere}
	r := columnReader{}
	r.open(x, col)
	c := &w.col
	valid := resize(c.Valid[:0], (g.info.rows+63)/64)
	clear(valid)
	*c = millstream.Column{Name: col.name, Type: col.typ, Valid: valid, Ints: c.Ints[:0], Floats: c.Floats[:0], Offsets: append(c.Offsets[:0], 0), Bytes: c.Bytes[:0]}
	w.dict.codes, col.rows = w.dict.codes[:0], 0
	for b := range g.info.blocks() {
		view, err := r.block(b, nil)
		if err != nil {
			return err
		}
		rows := min(blockRows, g.info.rows-b*blockRows)
		all := firstRows(rows)
		if view.Valid != nil {
			clear(all[:])
			copy(all[:], view.Valid)
		}
		col.rows += int64(all.count())
		copy(valid[b*len(all):], all[:])
		w.keep(view, rows)
	}
	if col.rows == int64(g.info.rows) {
		c.Valid = nil
	}
	if col.enc == encDict {
		w.dict.values, w.dict.size = r.dict.values, 0
		for _, v := range w.dict.values {
			w.dict.size += len(v)
		}
	}
	for _, v := range c.Ints {
		col.wide = col.wide || col.typ == millstream.Int64 && (v > millstream.MaxExactInt || v < -millstream.MaxExactInt)
	}
	return nil
}

// keep appends a block's values to w.col, or its codes to w.dict.
func (w *runWriter) keep(view *millstream.Column, rows int) {
	c := &w.col
	switch {
	case view.Codes != nil:
		w.dict.codes = append(w.dict.codes, view.Codes...)
	case view.Type == millstream.String:
		from := view.Offsets[0]
		at := uint32(len(c.Bytes)) - from
		c.Bytes = append(c.Bytes, view.Bytes[from:view.Offsets[rows]]...)
		for _, end := range view.Offsets[1 : rows+1] {
			c.Offsets = append(c.Offsets, at+end)
		}
	case view.Type == millstream.Double:
		c.Floats = append(c.Floats, view.Floats...)
	default:
		c.Ints = append(c.Ints, view.Ints...)
	}
}
