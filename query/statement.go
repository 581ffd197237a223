package query

import (
	"context"
	"errors"
	"slices"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query/scan"
	"github.com/millstream/millstream/query/sql"
)

// Run answers a statement into sink. After an error the sink may have seen a part of the answer.
func (e *Engine) Run(ctx context.Context, req Request, sink Sink) (*Answer, error) {
	if req.Language == "" {
		req.Language = "sql"
	}
	if req.Language != "sql" && req.Language != languageSearch {
		return nil, millstream.Errorf(millstream.Invalid, "the query language %q is not served here: use sql or search", req.Language)
	}
	sent := false
	answer, err := e.do(ctx, req, func(ctx context.Context, q *task) error {
		err := e.statement(ctx, q, sink)
		sent = q.emitted
		return err
	})
	if err == nil && !sent { // it was stopped before it had columns
		err = sink.Columns([]Column{})
	}
	return answer, err
}

// statement answers a query's own statement; one in the search language is put into SQL first.
func (e *Engine) statement(ctx context.Context, q *task, sink Sink) error {
	text := q.Statement
	if q.Language == languageSearch {
		t, err := e.Translate(ctx, q.Request)
		if err != nil {
			return err
		}
		text, q.answer.SQL, q.answer.Warnings = t.SQL, t.SQL, t.Warnings
	}
	return e.answer(ctx, q, text, q.Params, sink)
}

// answer answers one statement of a query, over the query's range, up to its limit.
func (e *Engine) answer(ctx context.Context, q *task, text string, params sql.Params, sink Sink) error {
	stmt, err := e.cfg.Gate.Parse(ctx, text, params)
	if err != nil {
		return err
	}
	out := newLimited(q, sink, e.cfg.Limits.MaxResultRows)
	switch stmt.Kind {
	case sql.ShowTables:
		return e.showTables(ctx, q, out)
	case sql.Describe:
		return e.describe(ctx, q, stmt, out)
	}
	b, err := e.bind(ctx, q, stmt)
	if err != nil {
		return err
	}
	defer b.view.release()
	if err := b.tell(sink, q); err != nil {
		return err
	}
	if p := b.bound.Plan; p != nil {
		err := e.runPlan(ctx, q, p, b.tables.of(p.Stream), out)
		if !errors.Is(err, scan.ErrMemory) || q.emitted {
			return err
		}
		e.log.Info("a query outgrew the kernels' memory and goes to the SQL engine", "query", q.id)
	}
	e.metrics.fallback.Inc()
	return e.runSQL(ctx, q, b.bound, b.tables, out)
}

// binding is a statement over a snapshot. The view is its owner's to release.
type binding struct {
	view   *view
	tables *tables
	bound  *sql.Bound
}

// bind takes a snapshot of the query's range and finds what a statement's names stand for in it.
func (e *Engine) bind(ctx context.Context, q *task, stmt *sql.Statement) (b *binding, err error) {
	b = &binding{}
	if b.view, err = e.open(ctx, q.Org, keysOf(q.Org, stmt.Tables()), q.Range); err != nil {
		return nil, err
	}
	if err = e.begin(q, b.view); err == nil {
		b.tables, err = e.resolve(ctx, q, stmt, b.view)
	}
	if err == nil {
		b.bound, err = stmt.Bind(ctx, b.tables.tables(), e.cfg.Now())
	}
	if err != nil {
		b.view.release()
		return nil, err
	}
	return b, nil
}

// tell tells a sink that wants to know what is about to be read.
func (b *binding) tell(sink Sink, q *task) error {
	w, ok := sink.(Watcher)
	if !ok {
		return nil
	}
	p := Planned{SQL: q.answer.SQL, Estimate: b.view.estimate(), Reasons: q.answer.Reasons}
	if b.bound.Plan != nil {
		p.Columns = planColumns(b.bound.Plan, b.tables.of(b.bound.Plan.Stream).schema)
	}
	return w.Planned(p)
}

// keysOf are the streams that a statement names, each once. All metrics of an organization are one stream.
func keysOf(org millstream.OrgID, refs []sql.TableRef) []millstream.StreamKey {
	var keys []millstream.StreamKey
	for _, r := range refs {
		k := millstream.StreamKey{Org: org, Signal: r.Signal, Name: r.Name}
		if r.Signal == millstream.Metrics {
			k.Name = millstream.MetricStream
		}
		if !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	return keys
}

// runPlan runs a plan on kernels.
func (e *Engine) runPlan(ctx context.Context, q *task, plan *sql.Plan, t *table, out *limited) error {
	if most := out.most(); plan.Limit < 0 || plan.Limit > most {
		p := *plan
		p.Limit = most
		plan = &p
	}
	req := e.request(q, t, plan)
	if plan.Aggregate || plan.Filter != nil {
		defer e.prefetch(ctx, q, e.own(t.segments))()
	}
	stats, err := scan.Run(ctx, req, func(r *Rows) error {
		if err := out.Columns(planColumns(plan, t.schema)); err != nil {
			return err
		}
		return out.Rows(r)
	})
	q.scanned(stats)
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	if stats.Cut {
		out.tooLarge()
	}
	return out.Columns(planColumns(plan, t.schema)) // an empty answer has columns too
}

// scanned adds what kernels read to the answer's statistics.
func (t *task) scanned(s scan.Stats) {
	t.answer.Stats.ScannedRows += s.ScannedRows
	t.answer.Stats.ScannedBytes += s.ScannedBytes
	t.answer.Stats.Segments.Pruned += s.Pruned
	t.answer.Stopped = t.answer.Stopped || s.Stopped
}

// planColumns names the output of a plan.
func planColumns(p *sql.Plan, schema millstream.Schema) []Column {
	if !p.Star {
		out := make([]Column, len(p.Out))
		for i, o := range p.Out {
			out[i] = Column{o.Name, o.Type}
		}
		return out
	}
	out := []Column{{millstream.TimestampField, SQLType(millstream.Timestamp)}}
	for _, name := range scan.StarFields(schema) {
		f, _ := schema.Field(name)
		out = append(out, Column{name, SQLType(f.Type)})
	}
	return out
}

// SQLType is the SQL type of a field's type.
func SQLType(t millstream.Type) string {
	switch t {
	case millstream.Bool:
		return "BOOLEAN"
	case millstream.Int64:
		return "BIGINT"
	case millstream.Double:
		return "DOUBLE"
	case millstream.Timestamp:
		return "TIMESTAMP_NS"
	}
	return "VARCHAR"
}

// Estimate says what a statement would read, by the catalog alone.
func (e *Engine) Estimate(ctx context.Context, req Request) (*Estimate, error) {
	if req.Language == languageSearch {
		t, err := e.Translate(ctx, req)
		if err != nil {
			return nil, err
		}
		req.Statement = t.SQL
	}
	stmt, err := e.cfg.Gate.Parse(ctx, req.Statement, req.Params)
	if err != nil {
		return nil, err
	}
	est := &Estimate{}
	if stmt.Kind != sql.Select {
		return est, nil
	}
	keys := keysOf(req.Org, stmt.Tables())
	v, err := e.open(ctx, req.Org, keys, req.Range)
	if err != nil {
		return nil, err
	}
	defer v.release()
	for _, ref := range stmt.Tables() {
		if v.find(keysOf(req.Org, []sql.TableRef{ref})[0]) == nil {
			return nil, e.unknown(ctx, req.Org, ref)
		}
	}
	*est = v.estimate()
	est.Async = e.cfg.Limits.AsyncRows > 0 && est.Rows > e.cfg.Limits.AsyncRows
	return est, nil
}
