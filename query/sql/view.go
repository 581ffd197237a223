package sql

import (
	"fmt"
	"slices"
	"strings"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/segment"
)

// view collects what a statement needs of one reference to a stream.
type view struct {
	ref      int
	name     string
	fields   []millstream.Field // _timestamp first, then by name
	names    []string           // what the view calls them
	needed   []bool
	pushable bool // a filter on it may run before the joins
	filters  []segment.Expr
	computed []Computed
}

// timestampField is the field that every stream has.
var timestampField = millstream.Field{Name: millstream.TimestampField, Type: millstream.Timestamp}

func newView(ref int, name string, t *Table) *view {
	v := &view{ref: ref, name: name, pushable: true}
	v.fields = append(v.fields, timestampField)
	for _, f := range t.Fields {
		if f.Name != millstream.TimestampField {
			v.fields = append(v.fields, f)
		}
	}
	slices.SortFunc(v.fields[1:], func(a, b millstream.Field) int { return strings.Compare(a.Name, b.Name) })
	v.names = viewNames(v.fields)
	v.needed = make([]bool, len(v.fields))
	v.needed[0] = true // a view needs a column, and this one costs least
	return v
}

// viewNames gives each field a name that DuckDB, which folds case, can tell from the others: its own where it is the first of its kind.
func viewNames(fields []millstream.Field) []string {
	names, taken := make([]string, len(fields)), make(map[string]bool, len(fields))
	for i, f := range fields {
		name := f.Name
		if name == "" || strings.IndexByte(name, 0) >= 0 {
			name = millstream.FieldID(f.Name)
		}
		for n := 2; taken[strings.ToLower(name)]; n++ {
			name = fmt.Sprintf("%s#%d", f.Name, n)
		}
		taken[strings.ToLower(name)] = true
		names[i] = name
	}
	return names
}

func (v *view) columns() []column {
	out := make([]column, len(v.fields))
	for i, f := range v.fields {
		out[i] = column{name: f.Name, actual: v.names[i], view: v, field: i}
	}
	return out
}

func (v *view) needAll() {
	for i := range v.needed {
		v.needed[i] = true
	}
}

// compute gives the name of the column that holds the truth of e. Equal expressions share one.
func (v *view) compute(e segment.Expr, unique int) (name string, added bool) {
	key := fmt.Sprintf("%#v", e)
	for _, c := range v.computed {
		if fmt.Sprintf("%#v", c.Expr) == key {
			return c.Name, false
		}
	}
	name = fmt.Sprintf("__match_%d", unique)
	for containsFold(v.names, name) {
		name = "_" + name
	}
	v.computed = append(v.computed, Computed{Name: name, Expr: e})
	return name, true
}

func (v *view) bound() BoundTable {
	t := BoundTable{Ref: v.ref, View: v.name, Computed: v.computed}
	for i, f := range v.fields {
		if v.needed[i] {
			t.Columns = append(t.Columns, ViewColumn{Field: f.Name, ID: columnID(f.Name), Name: v.names[i], Type: f.Type})
		}
	}
	for _, c := range v.computed {
		t.Columns = append(t.Columns, ViewColumn{ID: c.Name, Name: c.Name, Type: millstream.Bool})
	}
	switch len(v.filters) {
	case 0:
	case 1:
		t.Filter = v.filters[0]
	default:
		t.Filter = segment.And(v.filters)
	}
	return t
}

// columnID is the name of a field's column inside Parquet files.
func columnID(field string) string {
	if field == millstream.TimestampField {
		return field
	}
	return millstream.FieldID(field)
}
