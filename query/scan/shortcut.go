package scan

import (
	"context"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query/sql"
	"github.com/millstream/millstream/segment"
)

// shortcut answers a pass over a source without reading its rows, if that can be done exactly.
func (r *run) shortcut(ctx context.Context, p *partial, ps pass, src segment.Source, stats *Stats) (bool, error) {
	first, last := src.Span()
	whole := r.Range.Contains(first) && r.Range.Contains(last) && r.Plan.Filter == nil && ps.filter == nil
	switch {
	case whole && len(p.keys) == 0 && p.fromMeta(ps, src, first, last):
		stats.Selected += int64(src.Rows())
		return true, nil
	case whole && len(p.keys) == 1 && p.fromValueCounts(ps, src):
		stats.Selected += int64(src.Rows())
		return true, r.budget.take(p.grow())
	case len(p.keys) == 0 && p.countsOnly(ps):
		st, err := src.Scan(ctx, segment.Scan{Range: r.Range, Filter: and(r.Plan.Filter, ps.filter), CountOnly: true}, nil)
		if err != nil {
			return false, err
		}
		r.scanned(stats, st)
		p.count(ps, st.Selected)
		return true, nil
	}
	return false, nil
}

// countsOnly says whether a pass does nothing but count records.
func (p *partial) countsOnly(ps pass) bool {
	for _, i := range ps.aggs {
		if p.plan.Aggs[i].Func != sql.Count {
			return false
		}
	}
	return true
}

// count adds n records to the only group's counters.
func (p *partial) count(ps pass, n int64) {
	if ps.base {
		p.rows.n[0] += n
	}
	for _, i := range ps.aggs {
		if c := p.aggs[i].(*counter); c != &p.rows {
			c.n[0] += n
		}
	}
}

// fromMeta answers counts, and the least and greatest time, of a whole source.
func (p *partial) fromMeta(ps pass, src segment.Source, first, last int64) bool {
	for _, i := range ps.aggs {
		switch a := p.plan.Aggs[i]; a.Func {
		case sql.Count, sql.CountField:
		case sql.Min, sql.Max:
			if a.Field != millstream.TimestampField {
				return false
			}
		default:
			return false
		}
	}
	if ps.base {
		p.rows.n[0] += int64(src.Rows())
	}
	for _, i := range ps.aggs {
		switch a := p.aggs[i].(type) {
		case *counter:
			if a != &p.rows {
				a.n[0] += valuesOf(src, a.field)
			}
		case *extreme:
			a.putInt(0, first)
			a.putInt(0, last)
		}
	}
	return true
}

// valuesOf is the number of records that have a field; "" and the time, all have.
func valuesOf(src segment.Source, field string) int64 {
	if field == "" || field == millstream.TimestampField {
		return int64(src.Rows())
	}
	for _, f := range src.Fields() {
		if f.Name == field {
			return f.Rows
		}
	}
	return 0
}

// fromValueCounts answers counts per value of a field of a whole source.
func (p *partial) fromValueCounts(ps pass, src segment.Source) bool {
	key := p.plan.Keys[0]
	if key.Bucket > 0 || key.Field == millstream.TimestampField || p.keys[0].typ != millstream.String {
		return false
	}
	for _, i := range ps.aggs {
		a := p.plan.Aggs[i]
		if a.Filter != nil || a.Func != sql.Count && (a.Func != sql.CountField || a.Field != key.Field) {
			return false
		}
	}
	counts, ok := src.ValueCounts(key.Field)
	if !ok {
		return false
	}
	rest := int64(src.Rows())
	for _, c := range counts {
		code, _ := p.keys[0].strs.find(c.Value)
		p.grow()
		p.tally(ps, code, c.Rows)
		rest -= c.Rows
	}
	p.tally(ps, 0, rest)
	return true
}

// tally adds n records to a group's counters; a field that is the key itself is not counted in the null group.
func (p *partial) tally(ps pass, group uint32, n int64) {
	p.rows.n[group] += n
	for _, i := range ps.aggs {
		if c := p.aggs[i].(*counter); c != &p.rows && (c.field == "" || group != 0) {
			c.n[group] += n
		}
	}
}
