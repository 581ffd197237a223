package scan

import (
	"context"
	"reflect"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query/sql"
	"github.com/millstream/millstream/segment"
)

// partial is the groups that one worker has found so far, or, after merging, all of them. A group is known by its number: with one key it is the key's code,
// with more the number of the chain of pairs ((key 0, key 1), key 2) …, without any it is 0.
type partial struct {
	plan    *sql.Plan
	nonNull []bool // keys whose null group is left out of the answer
	keys    []*keyCoder
	pairs   []*pairTable // pairs[i] joins what precedes key i+1 with it
	rows    counter      // rows of each group; with one key a code may have none yet
	aggs    []accumulator

	codes []uint32 // of one key of the batch in hand
	gids  []uint32 // group of each of its rows
}

// pass is one scan of each source: aggregates that share a filter. The first pass sees every row of the statement and so finds the groups.
type pass struct {
	filter segment.Expr // beside the statement's own; nil: none
	aggs   []int        // into Plan.Aggs
	base   bool
	fields []string
}

// groups runs an aggregating plan.
func (r *run) groups(ctx context.Context, emit func(*Rows) error) (Stats, error) {
	p, stats, err := r.collect(ctx)
	if err != nil {
		return stats, err
	}
	return stats, p.emit(emit)
}

// collect finds all groups.
func (r *run) collect(ctx context.Context) (*partial, Stats, error) {
	r.dropNullGroups()
	passes := r.passes()
	workers := max(1, min(r.Workers, len(r.Inputs)))
	partials, stats := make([]*partial, workers), make([]Stats, workers)
	var next atomic.Int64
	g, gctx := errgroup.WithContext(ctx)
	for w := range workers {
		p, err := r.newPartial()
		if err != nil {
			return nil, Stats{}, err
		}
		partials[w] = p
		g.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(r.Inputs) {
					return nil
				}
				err := r.with(gctx, r.Inputs[i], &stats[w], func(src segment.Source) error { return r.groupSource(gctx, p, passes, src, &stats[w]) })
				if err != nil {
					return err
				}
				r.Progress.Sources.Add(1)
			}
		})
	}
	shares := make([]Stats, len(r.Shares))
	others := make([][]*partial, len(r.Shares))
	for i, share := range r.Shares {
		g.Go(func() (err error) {
			others[i], err = r.share(gctx, share, &shares[i])
			return err
		})
	}
	waited := g.Wait()
	total := sumStats(append(stats, shares...))
	if err := halted(ctx, waited, &total); err != nil {
		return nil, total, err
	}
	for _, o := range append(partials[1:], slices.Concat(others...)...) {
		if err := r.budget.take(partials[0].merge(o)); err != nil {
			return nil, total, err
		}
	}
	return partials[0], total, nil
}

// share waits for what other nodes find.
func (r *run) share(ctx context.Context, share Share, stats *Stats) (out []*partial, err error) {
	states, st, err := share(ctx, r.asked)
	*stats = st
	if err != nil {
		return nil, err
	}
	for _, state := range states {
		p, size, err := r.decode(state)
		if err == nil {
			err = r.budget.take(size)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// dropNullGroups takes a condition that a key is not null out of the filter: it is cheaper to leave its null group out of the answer.
func (r *run) dropNullGroups() {
	r.nonNull = make([]bool, len(r.Plan.Keys))
	var rest segment.And
	for _, c := range conjuncts(r.Plan.Filter, nil) {
		key := -1
		if not, ok := c.(segment.Not); ok {
			if x, ok := not.X.(segment.IsNull); ok {
				key = slices.IndexFunc(r.Plan.Keys, func(k sql.Key) bool { return k.Field == x.Field && k.Bucket == 0 })
			}
		}
		if key < 0 {
			rest = append(rest, c)
		} else {
			r.nonNull[key] = true
		}
	}
	if !slices.Contains(r.nonNull, true) {
		return
	}
	p := *r.Plan
	p.Filter = nil
	if len(rest) > 0 {
		p.Filter = rest
	}
	r.Plan = &p
}

func sumStats(ss []Stats) (out Stats) {
	for _, s := range ss {
		out.ScannedRows += s.ScannedRows
		out.ScannedBytes += s.ScannedBytes
		out.Selected += s.Selected
		out.Pruned += s.Pruned
		out.Stopped = out.Stopped || s.Stopped
	}
	return out
}

func (r *run) newPartial() (*partial, error) {
	p := &partial{plan: r.Plan, nonNull: r.nonNull}
	for i, k := range r.Plan.Keys {
		t := r.typeOf(k.Field)
		p.keys = append(p.keys, &keyCoder{field: k.Field, typ: t, bucket: k.Bucket})
		if i > 0 {
			p.pairs = append(p.pairs, &pairTable{})
		}
	}
	for i, a := range r.Plan.Aggs {
		acc, err := r.accumulator(p, i, a)
		if err != nil {
			return nil, err
		}
		p.aggs = append(p.aggs, acc)
	}
	p.grow()
	return p, nil
}

// accumulator makes the state of an aggregate, or finds what it can share with an earlier one.
func (r *run) accumulator(p *partial, i int, a sql.Agg) (accumulator, error) {
	if a.Func == sql.Count && a.Filter == nil {
		return &p.rows, nil
	}
	if r.masked(a) {
		return newMasked(a, r.typeOf), nil
	}
	for j, b := range r.Plan.Aggs[:i] {
		if q, ok := p.aggs[j].(*quantile); ok && a.Func == sql.Quantile && a.Field == b.Field && reflect.DeepEqual(a.Filter, b.Filter) {
			return &another{of: q, p: a.P}, nil
		}
	}
	return newAccumulator(a, r.typeOf(a.Field), len(r.Plan.Keys) == 0)
}

// masked says whether an aggregate evaluates its filter itself, so that it needs no pass of its own. Without keys the pass may be answered by an index.
func (r *run) masked(a sql.Agg) bool { return len(r.Plan.Keys) > 0 && newMasked(a, r.typeOf) != nil }

// typeOf is a field's type in the answer; a field that no record has is a string.
func (r *run) typeOf(field string) millstream.Type {
	if field == millstream.TimestampField {
		return millstream.Timestamp
	}
	if f, ok := r.Schema.Field(field); ok {
		return f.Type
	}
	return millstream.String
}

// passes divides the aggregates by their filters.
func (r *run) passes() []pass {
	ps := []pass{{base: true}}
next:
	for i, a := range r.Plan.Aggs {
		if r.masked(a) {
			ps[0].aggs = append(ps[0].aggs, i)
			continue
		}
		for j := range ps {
			if reflect.DeepEqual(ps[j].filter, a.Filter) {
				ps[j].aggs = append(ps[j].aggs, i)
				continue next
			}
		}
		ps = append(ps, pass{filter: a.Filter, aggs: []int{i}})
	}
	for i := range ps {
		ps[i].fields = r.passFields(ps[i])
	}
	if len(r.Plan.Keys) == 0 && len(ps[0].aggs) == 0 && !r.nullsIfEmpty() {
		ps = ps[1:] // no groups to find and nothing to count
	}
	return ps
}

// nullsIfEmpty says whether an aggregate wants to know that there is no record at all.
func (r *run) nullsIfEmpty() bool {
	return slices.ContainsFunc(r.Plan.Aggs, func(a sql.Agg) bool { return a.NullIfEmpty })
}

func (r *run) passFields(p pass) (fields []string) {
	seen := map[string]bool{"": true, millstream.TimestampField: true}
	add := func(f string) {
		if !seen[f] {
			seen[f] = true
			fields = append(fields, f)
		}
	}
	for _, k := range r.Plan.Keys {
		add(k.Field)
	}
	for _, i := range p.aggs {
		add(r.Plan.Aggs[i].Field)
		if p.filter == nil {
			eachField(r.Plan.Aggs[i].Filter, add) // of a masked count
		}
	}
	return fields
}

// groupSource adds one source to a partial.
func (r *run) groupSource(ctx context.Context, p *partial, passes []pass, src segment.Source, stats *Stats) error {
	for _, ps := range passes {
		done, err := r.shortcut(ctx, p, ps, src, stats)
		if err != nil {
			return err
		}
		if done {
			continue
		}
		s := segment.Scan{Range: r.Range, Filter: and(r.Plan.Filter, ps.filter), Fields: ps.fields, Times: r.wantTimes(ps)}
		st, err := src.Scan(ctx, s, func(b *millstream.Batch) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return r.budget.take(p.add(b, ps))
		})
		if err != nil {
			return err
		}
		r.scanned(stats, st)
	}
	return nil
}

// wantTimes says whether a pass reads the records' times, which are also how the rows of a batch are counted if it has no column.
func (r *run) wantTimes(p pass) bool {
	for _, k := range r.Plan.Keys {
		if k.Field == millstream.TimestampField {
			return true
		}
	}
	for _, i := range p.aggs {
		if r.Plan.Aggs[i].Field == millstream.TimestampField {
			return true
		}
	}
	return len(p.fields) == 0
}

func and(a, b segment.Expr) segment.Expr {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return segment.And{a, b}
}

// add takes the rows of a batch into a partial and says by how many bytes it grew.
func (p *partial) add(b *millstream.Batch, ps pass) (grown int64) {
	n := rowsOf(b)
	grown = p.number(b, n)
	grown += p.grow()
	gids := p.gids[:n]
	if ps.base {
		grown += p.rows.add(b, gids)
	}
	for _, i := range ps.aggs {
		if p.aggs[i] != accumulator(&p.rows) {
			grown += p.aggs[i].add(b, gids)
		}
	}
	return grown
}

// rowsOf counts a batch's rows also when its times were not asked for.
func rowsOf(b *millstream.Batch) int {
	if len(b.Times) > 0 || len(b.Columns) == 0 {
		return len(b.Times)
	}
	c := &b.Columns[0]
	switch {
	case c.Codes != nil:
		return len(c.Codes)
	case c.Type == millstream.String:
		return len(c.Offsets) - 1
	case c.Type == millstream.Double:
		return len(c.Floats)
	}
	return len(c.Ints)
}

// number fills gids with the group of each of the batch's rows.
func (p *partial) number(b *millstream.Batch, n int) (grown int64) {
	before := cap(p.gids)
	p.gids = enlarge(p.gids, n)
	if cap(p.gids) != before {
		grown = int64(cap(p.gids)-before) * 8
	}
	if len(p.keys) == 0 {
		return grown // they stay 0
	}
	grown += p.keys[0].codes(b, n, p.gids)
	p.codes = enlarge(p.codes, n)
	for i, t := range p.pairs {
		grown += p.keys[i+1].codes(b, n, p.codes)
		for j, code := range p.codes[:n] {
			id, g := t.find(p.gids[j], code)
			p.gids[j] = id
			grown += g
		}
	}
	return grown
}

// groups is how many group numbers are in use.
func (p *partial) groups() int {
	switch len(p.keys) {
	case 0:
		return 1
	case 1:
		return p.keys[0].values()
	}
	return p.pairs[len(p.pairs)-1].len()
}

// grow makes room in every accumulator for the groups in use.
func (p *partial) grow() (grown int64) {
	n := p.groups()
	grown = p.rows.grow(n)
	for _, a := range p.aggs {
		grown += a.grow(n)
	}
	return grown
}

// merge adds another partial of the same plan.
func (p *partial) merge(o *partial) (grown int64) {
	to := []uint32{0}
	for i, k := range p.keys {
		codes, g := k.translate(o.keys[i])
		grown += g
		if i == 0 {
			to = codes
			continue
		}
		next := make([]uint32, o.pairs[i-1].len())
		for id, w := range o.pairs[i-1].words.words {
			next[id], g = p.pairs[i-1].find(to[w>>32], codes[uint32(w)])
			grown += g
		}
		to = next
	}
	grown += p.grow()
	o.grow()
	grown += p.rows.merge(&o.rows, to)
	for i, a := range p.aggs {
		if a != accumulator(&p.rows) {
			grown += a.merge(o.aggs[i], to)
		}
	}
	return grown
}

// emit sorts, cuts and sends the groups.
func (p *partial) emit(emit func(*Rows) error) error {
	n := p.groups()
	p.grow()
	keep := p.kept(n)
	cols := make([]millstream.Column, len(p.plan.Out))
	for i, o := range p.plan.Out {
		if o.Key >= 0 {
			cols[i] = p.keys[o.Key].column(p.keyCodes(o.Key, n))
		} else {
			cols[i] = p.aggs[o.Agg].column(n)
			if p.plan.Aggs[o.Agg].NullIfEmpty && len(p.keys) == 0 && p.rows.n[0] == 0 {
				cols[i].Valid = []uint64{0}
			}
		}
		cols[i].Name = o.Name
	}
	return emitRows(cols, arrange(keep, cols, p.plan), emit)
}

// kept lists the groups that are in the answer.
func (p *partial) kept(n int) []int32 {
	keep := make([]int32, 0, n)
	for i := range n {
		if len(p.keys) == 0 || p.rows.n[i] > 0 {
			keep = append(keep, int32(i))
		}
	}
	for k, nonNull := range p.nonNull {
		if nonNull {
			codes := p.keyCodes(k, n)
			keep = slices.DeleteFunc(keep, func(i int32) bool { return codes[i] == 0 })
		}
	}
	return keep
}

// keyCodes gives the code that key k has in each of the groups.
func (p *partial) keyCodes(k, n int) []uint32 {
	codes := make([]uint32, n)
	for g := range codes {
		id := uint32(g)
		for i := len(p.pairs) - 1; i >= 0; i-- {
			w := p.pairs[i].words.words[id]
			if i+1 == k {
				id = uint32(w)
				break
			}
			id = uint32(w >> 32)
		}
		codes[g] = id
	}
	return codes
}
