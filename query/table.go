package query

import (
	"context"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query/scan"
	"github.com/millstream/millstream/query/sql"
	"github.com/millstream/millstream/segment"
	"github.com/millstream/millstream/segment/metrics"
	"github.com/millstream/millstream/store"
)

// table is what one name in a statement stands for: a stream, or a metric of the stream that holds all metrics.
type table struct {
	key      millstream.StreamKey // as the statement names it
	schema   millstream.Schema
	segments []millstream.Segment                                       // published rows; none for a metric, whose rows are all in sources
	sources  []segment.Source                                           // rows at hand
	open     func(t *table, segments []millstream.Segment) []scan.Input // of some of its segments, and of what is at hand
}

// tables are what the references of a statement resolved to, in their order.
type tables struct{ refs []*table }

func (ts *tables) tables() []sql.Table {
	out := make([]sql.Table, len(ts.refs))
	for i, t := range ts.refs {
		out[i] = sql.Table{Key: t.key, Fields: t.schema.Fields}
	}
	return out
}

func (ts *tables) of(k millstream.StreamKey) *table {
	for _, t := range ts.refs {
		if t.key == k {
			return t
		}
	}
	return nil
}

// resolve finds the streams that a statement names and reads the metrics that it names.
func (e *Engine) resolve(ctx context.Context, q *task, stmt *sql.Statement, v *view) (*tables, error) {
	ts := &tables{}
	for _, ref := range stmt.Tables() {
		key := millstream.StreamKey{Org: q.Org, Signal: ref.Signal, Name: ref.Name}
		if t := ts.of(key); t != nil {
			ts.refs = append(ts.refs, t)
			continue
		}
		t, err := e.table(ctx, q, v, key)
		if err != nil {
			return nil, err
		}
		if t == nil {
			return nil, e.unknown(ctx, q.Org, ref)
		}
		ts.refs = append(ts.refs, t)
	}
	return ts, nil
}

// table is one stream or metric of the view; nil if there is none.
func (e *Engine) table(ctx context.Context, q *task, v *view, key millstream.StreamKey) (*table, error) {
	if key.Signal == millstream.Metrics {
		return e.metricTable(ctx, q, v, key)
	}
	st := v.find(key)
	if st == nil {
		return nil, nil
	}
	return e.streamTable(q, st), nil
}

func (e *Engine) streamTable(q *task, st *stream) *table {
	return &table{key: st.Key, schema: st.schema, segments: st.segments, sources: st.tails, open: func(_ *table, segments []millstream.Segment) []scan.Input {
		return append(e.localInputs(q, segments), openedAll(st.tails)...)
	}}
}

func openedAll(sources []segment.Source) []scan.Input {
	ins := make([]scan.Input, len(sources))
	for i, s := range sources {
		ins[i] = scan.Opened(s)
	}
	return ins
}

// metricTable reads the samples of one metric into memory.
func (e *Engine) metricTable(ctx context.Context, q *task, v *view, key millstream.StreamKey) (*table, error) {
	st := v.find(millstream.StreamKey{Org: key.Org, Signal: millstream.Metrics, Name: millstream.MetricStream})
	if st == nil {
		return nil, nil
	}
	srcs, release, err := e.metricSources(ctx, q, st)
	if err != nil {
		return nil, err
	}
	defer release()
	t := &table{key: key, open: func(t *table, _ []millstream.Segment) []scan.Input { return openedAll(t.sources) }}
	size := int64(0)
	memory := e.cfg.Limits.Memory
	if memory <= 0 {
		memory = scan.DefaultMemory
	}
	err = metrics.Table(ctx, srcs, key.Name, v.rng, func(b *millstream.Batch) error {
		if size += int64(b.Size()); size > memory {
			return millstream.Errorf(millstream.Unprocessable, "metric %q has too many samples in the time range for SQL: narrow it, or use PromQL", key.Name)
		}
		t.sources = append(t.sources, segment.Memory(b))
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(t.sources) == 0 {
		return e.emptyMetric(ctx, q, key, t)
	}
	joinFields(t)
	return t, nil
}

// metricFields are the fields that every metric's table has beside its labels.
var metricFields = []millstream.Field{{Name: "value", Type: millstream.Double}}

// joinFields gives a table the fields of its sources.
func joinFields(t *table) {
	st := stream{Stream: store.Stream{}, schema: millstream.Schema{Fields: metricFields}, tails: t.sources}
	st.join(allTime)
	t.schema = st.schema
}

// emptyMetric tells a metric without samples in the range from one that does not exist.
func (e *Engine) emptyMetric(ctx context.Context, q *task, key millstream.StreamKey, t *table) (*table, error) {
	names, err := e.labelValues(ctx, key.Org, q, "__name__", key.Name)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	t.schema.Fields = metricFields
	return t, nil
}
