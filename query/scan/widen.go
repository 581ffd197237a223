package scan

import (
	"context"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/segment"
)

// Widened gives the source as the stream's schema sees it: fields of narrower types are read as the stream's type, also by filters.
func Widened(s segment.Source, schema millstream.Schema) segment.Source {
	return widen(s, typesOf(schema))
}

func typesOf(schema millstream.Schema) map[string]millstream.Type {
	types := make(map[string]millstream.Type, len(schema.Fields))
	for _, f := range schema.Fields {
		types[f.Name] = f.Type
	}
	return types
}

func widen(s segment.Source, types map[string]millstream.Type) segment.Source {
	w := &widened{Source: s}
	for _, f := range s.Fields() {
		t, ok := types[f.Name]
		if !ok || t == f.Type {
			continue
		}
		if w.narrow == nil {
			w.narrow = map[string]narrow{}
		}
		w.narrow[f.Name] = narrow{from: f.Type, to: t, exact: f.Type == millstream.Double || f.Type == millstream.Int64 && !f.WideInt}
		w.text = w.text || t == millstream.String
	}
	if w.narrow == nil {
		return s
	}
	return w
}

// widened is a source some of whose fields have a narrower type than in the stream. Parts of a filter that could tell the difference are evaluated on the
// converted values, batch by batch; the rest goes to the source and its index.
type widened struct {
	segment.Source
	narrow map[string]narrow
	text   bool // some field reads as text in the stream but not here, which matters to match_all
}

type narrow struct {
	from, to millstream.Type
	exact    bool // a number that every wider type holds without loss
}

func (w *widened) Fields() []segment.FieldStat {
	fs := append([]segment.FieldStat(nil), w.Source.Fields()...)
	for i := range fs {
		if n, ok := w.narrow[fs[i].Name]; ok {
			fs[i].Type = n.to
		}
	}
	return fs
}

func (w *widened) ValueCounts(field string) ([]segment.ValueCount, bool) {
	if _, ok := w.narrow[field]; ok {
		return nil, false
	}
	return w.Source.ValueCounts(field)
}

// Scan implements segment.Source, but for a filter that it evaluates itself it may emit more records than the limit, in any order: what it emits includes the
// records asked for.
func (w *widened) Scan(ctx context.Context, s segment.Scan, emit func(*millstream.Batch) error) (segment.ScanStats, error) {
	safe, unsafe := w.split(s.Filter)
	if len(unsafe) == 0 {
		return w.Source.Scan(ctx, s, func(b *millstream.Batch) error {
			w.convert(b)
			return emit(b)
		})
	}
	inner := segment.Scan{Range: s.Range, Filter: safe, All: s.All, Times: true}
	if !s.All {
		inner.Fields, inner.All = withFields(s.Fields, unsafe)
	}
	rest := segment.Scan{Range: s.Range, Filter: unsafe, Fields: s.Fields, All: s.All, Times: s.Times, CountOnly: s.CountOnly}
	selected := int64(0)
	stats, err := w.Source.Scan(ctx, inner, func(b *millstream.Batch) error {
		w.convert(b)
		st, err := segment.Memory(b).Scan(ctx, rest, emit)
		selected += st.Selected
		return err
	})
	stats.Selected = selected
	return stats, err
}

// reorders says whether a scan of the source, in spite of a limit, emits records in another order than that of their times.
func reorders(src segment.Source, filter segment.Expr) bool {
	w, ok := src.(*widened)
	if !ok {
		return false
	}
	_, unsafe := w.split(filter)
	return len(unsafe) > 0
}

func (w *widened) convert(b *millstream.Batch) {
	for i := range b.Columns {
		if n, ok := w.narrow[b.Columns[i].Name]; ok {
			b.Columns[i].Widen(n.to)
		}
	}
}

// split divides the conjuncts of a filter by whether they read the same on the narrower types.
func (w *widened) split(e segment.Expr) (safe segment.Expr, unsafe segment.And) {
	var pass segment.And
	for _, x := range conjuncts(e, nil) {
		if w.same(x) {
			pass = append(pass, x)
		} else {
			unsafe = append(unsafe, x)
		}
	}
	if len(pass) > 0 {
		safe = pass
	}
	return safe, unsafe
}

func conjuncts(e segment.Expr, dst []segment.Expr) []segment.Expr {
	switch x := e.(type) {
	case nil:
		return dst
	case segment.And:
		for _, y := range x {
			dst = conjuncts(y, dst)
		}
		return dst
	}
	return append(dst, e)
}

// same says whether the expression gives the same answer on the source's types as on the stream's.
func (w *widened) same(e segment.Expr) bool {
	switch x := e.(type) {
	case segment.And:
		return w.allSame(x)
	case segment.Or:
		return w.allSame(x)
	case segment.Not:
		return w.same(x.X)
	case segment.IsNull:
		return true
	case segment.Match:
		if x.Field == "" {
			return !w.text
		}
	case segment.Compare:
		n, ok := w.narrow[x.Field]
		return !ok || n.exact && exactNumber(x.Value)
	}
	same := true
	eachField(e, func(name string) {
		if _, ok := w.narrow[name]; ok {
			same = false
		}
	})
	return same
}

func (w *widened) allSame(xs []segment.Expr) bool {
	for _, x := range xs {
		if !w.same(x) {
			return false
		}
	}
	return true
}

// exactNumber says whether a literal is a number that a double holds exactly.
func exactNumber(v segment.Value) bool {
	switch v.Kind {
	case segment.FloatValue:
		return true
	case segment.IntValue:
		return v.Int <= millstream.MaxExactInt && v.Int >= -millstream.MaxExactInt
	}
	return false
}

// eachField calls f for the field names of an expression; a Match over every field gives "".
func eachField(e segment.Expr, f func(name string)) {
	switch x := e.(type) {
	case segment.And:
		for _, y := range x {
			eachField(y, f)
		}
	case segment.Or:
		for _, y := range x {
			eachField(y, f)
		}
	case segment.Not:
		eachField(x.X, f)
	case segment.Compare:
		f(x.Field)
	case segment.In:
		f(x.Field)
	case segment.IsNull:
		f(x.Field)
	case segment.Like:
		f(x.Field)
	case segment.Contains:
		f(x.Field)
	case segment.Regex:
		f(x.Field)
	case segment.Match:
		f(x.Field)
	}
}

// withFields adds the fields that the expressions read; all says that they read every field.
func withFields(fields []string, es segment.And) (out []string, all bool) {
	seen := map[string]bool{}
	for _, f := range fields {
		seen[f] = true
	}
	out = append(out, fields...)
	eachField(es, func(name string) {
		all = all || name == ""
		if !seen[name] && name != millstream.TimestampField {
			seen[name] = true
			out = append(out, name)
		}
	})
	return out, all
}
