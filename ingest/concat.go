package ingest

import (
	"github.com/millstream/millstream"
)

// concat joins batches of one stream into a new one, rows in order. Where a column's types differ it widens as a schema would.
func concat(batches []*millstream.Batch) *millstream.Batch {
	out := *batches[0]
	rows := 0
	at := map[string]int{}
	var fields []millstream.Field
	for _, b := range batches {
		rows += b.Rows()
		for i := range b.Columns {
			f := fieldOf(&b.Columns[i])
			if k, ok := at[f.Name]; !ok {
				at[f.Name] = len(fields)
				fields = append(fields, f)
			} else if old := fields[k]; teaches(old, f) {
				fields[k] = old.Join(f)
			}
		}
	}
	out.Times = make([]int64, 0, rows)
	for _, b := range batches {
		out.Times = append(out.Times, b.Times...)
	}
	out.Columns = make([]millstream.Column, len(fields))
	for k, f := range fields {
		out.Columns[k] = concatColumn(f, batches, rows)
	}
	return &out
}

func concatColumn(f millstream.Field, batches []*millstream.Batch, rows int) millstream.Column {
	col := newColumn(f, batches, rows)
	row := 0
	for _, b := range batches {
		src := b.Column(f.Name)
		for i := range b.Rows() {
			if src != nil && src.IsValid(i) {
				col.Valid[row>>6] |= 1 << (row & 63)
				appendValue(&col, src, i)
			} else {
				appendNull(&col)
			}
			row++
		}
	}
	if full(col.Valid, rows) {
		col.Valid = nil
	}
	return col
}

func newColumn(f millstream.Field, batches []*millstream.Batch, rows int) millstream.Column {
	col := millstream.Column{Name: f.Name, Type: f.Type, Valid: make([]uint64, (rows+63)/64)}
	if len(f.Seen) > 1 {
		col.Seen = f.Seen
	}
	switch f.Type {
	case millstream.String:
		size := 0
		for _, b := range batches {
			if c := b.Column(f.Name); c != nil {
				size += len(c.Bytes)
			}
		}
		col.Offsets, col.Bytes = make([]uint32, 1, rows+1), make([]byte, 0, size)
	case millstream.Double:
		col.Floats = make([]float64, 0, rows)
	default:
		col.Ints = make([]int64, 0, rows)
	}
	return col
}

func appendValue(dst, src *millstream.Column, i int) {
	switch dst.Type {
	case millstream.String:
		if src.Type == millstream.String {
			dst.Bytes = append(dst.Bytes, src.Str(i)...)
		} else {
			dst.Bytes = append(dst.Bytes, src.Text(i)...)
		}
		dst.Offsets = append(dst.Offsets, uint32(len(dst.Bytes)))
	case millstream.Double:
		if src.Type == millstream.Double {
			dst.Floats = append(dst.Floats, src.Floats[i])
		} else {
			dst.Floats = append(dst.Floats, float64(src.Ints[i]))
		}
	default:
		dst.Ints = append(dst.Ints, src.Ints[i])
	}
}

func appendNull(dst *millstream.Column) {
	switch dst.Type {
	case millstream.String:
		dst.Offsets = append(dst.Offsets, uint32(len(dst.Bytes)))
	case millstream.Double:
		dst.Floats = append(dst.Floats, 0)
	default:
		dst.Ints = append(dst.Ints, 0)
	}
}

// rowsFrom is a copy of a batch's rows from one on.
func rowsFrom(b *millstream.Batch, from int) *millstream.Batch {
	out := *b
	out.Times = b.Times[from:]
	out.Columns = make([]millstream.Column, len(b.Columns))
	rows := len(out.Times)
	for k := range b.Columns {
		src := &b.Columns[k]
		col := millstream.Column{Name: src.Name, Type: src.Type, Seen: src.Seen, Valid: make([]uint64, (rows+63)/64)}
		if src.Type == millstream.String {
			col.Offsets = make([]uint32, 1, rows+1)
		}
		for i := range rows {
			if src.IsValid(from + i) {
				col.Valid[i>>6] |= 1 << (i & 63)
				appendValue(&col, src, from+i)
			} else {
				appendNull(&col)
			}
		}
		if full(col.Valid, rows) {
			col.Valid = nil
		}
		out.Columns[k] = col
	}
	return &out
}

func full(valid []uint64, rows int) bool {
	for i := range rows >> 6 {
		if valid[i] != ^uint64(0) {
			return false
		}
	}
	rest := rows & 63
	return rest == 0 || valid[rows>>6] == 1<<rest-1
}
