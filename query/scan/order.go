package scan

import (
	"container/heap"
	"slices"
	"strings"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query/sql"
)

// arrange puts rows (indices into the columns) in the plan's order and cuts them to its offset and limit. Equal rows keep their order.
func arrange(rows []int32, cols []millstream.Column, p *sql.Plan) []int32 {
	end := len(rows)
	if p.Limit >= 0 && p.Limit < end-min(p.Offset, end) {
		end = p.Offset + p.Limit
	}
	if len(p.Order) > 0 {
		cmp := comparer(cols, p)
		if end > 0 && end*16 < len(rows) {
			rows = smallest(rows, end, cmp)
		}
		slices.SortFunc(rows, cmp)
	}
	return rows[min(p.Offset, len(rows)):min(end, len(rows))]
}

// comparer orders two rows by the plan; the row's own number decides a draw, which makes the order total.
func comparer(cols []millstream.Column, p *sql.Plan) func(a, b int32) int {
	return func(a, b int32) int {
		for _, o := range p.Order {
			if c := compareValues(&cols[o.Out], int(a), int(b), o, p.Out[o.Out].Type); c != 0 {
				return c
			}
		}
		return int(a) - int(b)
	}
}

func compareValues(c *millstream.Column, i, j int, o sql.Order, sqlType string) int {
	vi, vj := c.IsValid(i), c.IsValid(j)
	if !vi || !vj {
		switch {
		case vi == vj:
			return 0
		case vi == o.NullsFirst:
			return 1
		}
		return -1
	}
	r := 0
	switch {
	case c.Type == millstream.String && sqlType == "HUGEINT":
		r = compareDecimals(c.Str(i), c.Str(j))
	case c.Type == millstream.String:
		r = strings.Compare(c.Str(i), c.Str(j))
	case c.Type == millstream.Double:
		r = compareFloats(c.Floats[i], c.Floats[j])
	case c.Ints[i] < c.Ints[j]:
		r = -1
	case c.Ints[i] > c.Ints[j]:
		r = 1
	}
	if o.Desc {
		return -r
	}
	return r
}

// compareDecimals orders integers in canonical decimal text.
func compareDecimals(a, b string) int {
	na, nb := strings.HasPrefix(a, "-"), strings.HasPrefix(b, "-")
	switch {
	case na && nb:
		return compareDecimals(b[1:], a[1:])
	case na:
		return -1
	case nb:
		return 1
	case len(a) != len(b):
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

// smallest keeps the k first rows of the order, in no order.
func smallest(rows []int32, k int, cmp func(a, b int32) int) []int32 {
	h := &worstFirst{rows: append([]int32(nil), rows[:k]...), cmp: cmp}
	heap.Init(h)
	for _, r := range rows[k:] {
		if cmp(r, h.rows[0]) < 0 {
			h.rows[0] = r
			heap.Fix(h, 0)
		}
	}
	return h.rows
}

type worstFirst struct {
	rows []int32
	cmp  func(a, b int32) int
}

func (h *worstFirst) Len() int           { return len(h.rows) }
func (h *worstFirst) Less(i, j int) bool { return h.cmp(h.rows[i], h.rows[j]) > 0 }
func (h *worstFirst) Swap(i, j int)      { h.rows[i], h.rows[j] = h.rows[j], h.rows[i] }
func (h *worstFirst) Push(any)           {}
func (h *worstFirst) Pop() any           { return nil }

// emitRows sends the given rows of columns in blocks.
func emitRows(cols []millstream.Column, rows []int32, emit func(*Rows) error) error {
	for len(rows) > 0 {
		n := blockEnd(len(rows), func(k int) (size int64) {
			for i := range cols {
				size += valueSize(&cols[i], int(rows[k]))
			}
			return size
		})
		out := &Rows{N: n, Columns: make([]millstream.Column, len(cols))}
		for i := range cols {
			g := newGather(cols[i].Name, cols[i].Type, n)
			for _, r := range rows[:n] {
				g.take(&cols[i], int(r))
			}
			out.Columns[i] = g.column()
		}
		if err := emit(out); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// gather builds a column of n values taken one by one from others of its type.
type gather struct {
	col   millstream.Column
	i     int
	nulls nulls
}

func newGather(name string, t millstream.Type, n int) *gather {
	g := &gather{col: millstream.Column{Name: name, Type: t}, nulls: newNulls(n)}
	switch t {
	case millstream.String:
		g.col.Offsets = make([]uint32, 1, n+1)
	case millstream.Double:
		g.col.Floats = make([]float64, 0, n)
	default:
		g.col.Ints = make([]int64, 0, n)
	}
	return g
}

// take appends row i of c; a nil column has nulls only.
func (g *gather) take(c *millstream.Column, i int) {
	ok := c != nil && c.IsValid(i)
	if !ok {
		g.nulls.null(g.i)
	}
	g.i++
	switch g.col.Type {
	case millstream.String:
		if ok {
			g.col.Bytes = append(g.col.Bytes, c.Str(i)...)
		}
		g.col.Offsets = append(g.col.Offsets, uint32(len(g.col.Bytes)))
	case millstream.Double:
		v := 0.0
		if ok {
			v = c.Floats[i]
		}
		g.col.Floats = append(g.col.Floats, v)
	default:
		v := int64(0)
		if ok {
			v = c.Ints[i]
		}
		g.col.Ints = append(g.col.Ints, v)
	}
}

func (g *gather) column() millstream.Column {
	g.col.Valid = g.nulls.valid()
	return g.col
}
