package scan_test

import (
	"bytes"
	"context"
	"encoding/gob"
	"math/rand/v2"
	"testing"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query/scan"
	qsql "github.com/millstream/millstream/query/sql"
	"github.com/millstream/millstream/segment"
)

// travel sends a value as it goes from node to node.
func travel[T any](t testing.TB, v T) (out T) {
	t.Helper()
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(&v); err != nil {
		t.Fatalf("encode %+v: %v", v, err)
	}
	if err := gob.NewDecoder(&b).Decode(&out); err != nil {
		t.Fatalf("decode %+v: %v", v, err)
	}
	return out
}

// faraway are inputs on another node, as a source that asks it.
type faraway struct {
	t   testing.TB
	w   *world
	ins []scan.Input
}

func (f *faraway) Rows() (n int) {
	for _, in := range f.ins {
		n += in.Rows
	}
	return n
}

func (f *faraway) Span() (first, last int64) {
	for i, in := range f.ins {
		if i == 0 {
			first, last = in.First, in.Last
		}
		first, last = min(first, in.First), max(last, in.Last)
	}
	return first, last
}

func (f *faraway) Fields() (out []segment.FieldStat) {
	for _, field := range f.w.schema.Fields {
		out = append(out, segment.FieldStat{Name: field.Name, Type: field.Type, WideInt: field.WideInt})
	}
	return out
}

func (f *faraway) ValueCounts(string) ([]segment.ValueCount, bool) { return nil, false }

func (f *faraway) Scan(ctx context.Context, s segment.Scan, emit func(*millstream.Batch) error) (segment.ScanStats, error) {
	st, err := scan.Batches(ctx, scan.Request{Schema: f.w.schema, Range: s.Range, Inputs: f.ins, Workers: 2}, travel(f.t, s), func(b *millstream.Batch) error {
		got, err := millstream.DecodeBatch(b.AppendTo(nil))
		if err != nil {
			return err
		}
		return emit(got)
	})
	return segment.ScanStats{Selected: st.Selected, ScannedRows: st.ScannedRows, ScannedBytes: st.ScannedBytes}, err
}

// spread runs a plan with its inputs divided between three nodes.
func (w *world) spread(t *testing.T, p *qsql.Plan, ins []scan.Input, r *rand.Rand) [][]string {
	t.Helper()
	var nodes [3][]scan.Input
	for _, in := range ins {
		i := r.IntN(3)
		nodes[i] = append(nodes[i], in)
	}
	req := scan.Request{Plan: p, Range: w.rng, Schema: w.schema, Inputs: nodes[0], Workers: 2}
	for _, theirs := range nodes[1:] {
		if p.Aggregate {
			req.Shares = append(req.Shares, func(ctx context.Context, asked scan.Request) (states [][]byte, st scan.Stats, err error) {
				if asked.Plan != p {
					t.Error("a share is asked for another plan")
				}
				var state []byte
				state, st, err = scan.Groups(ctx, scan.Request{Plan: travel(t, p), Range: asked.Range, Schema: travel(t, asked.Schema), Inputs: theirs, Workers: 2})
				return [][]byte{state}, st, err
			})
		} else if len(theirs) > 0 {
			req.Inputs = append(req.Inputs, scan.Opened(&faraway{t, w, theirs}))
		}
	}
	return w.run(t, req)
}

func FuzzForeignState(f *testing.F) {
	schema := millstream.Schema{Fields: []millstream.Field{{Name: "a", Type: millstream.String}, {Name: "n", Type: millstream.Int64}}}
	plan := &qsql.Plan{Aggregate: true, Keys: []qsql.Key{{Field: "a"}, {Field: "n"}}, Limit: -1,
		Aggs: []qsql.Agg{{Func: qsql.Count}, {Func: qsql.CountDistinct, Field: "a"}, {Func: qsql.Sum, Field: "n"}, {Func: qsql.Min, Field: "a"}, {Func: qsql.Quantile, Field: "n", P: .5}},
		Out:  []qsql.Output{{Name: "a", Key: 0, Agg: -1, Type: "VARCHAR"}, {Name: "c", Key: -1, Agg: 1, Type: "BIGINT"}, {Name: "s", Key: -1, Agg: 2, Type: "HUGEINT"}, {Name: "m", Key: -1, Agg: 3, Type: "VARCHAR"}, {Name: "q", Key: -1, Agg: 4, Type: "DOUBLE"}}}
	batch := &millstream.Batch{Times: []int64{1, 2, 3}, Columns: []millstream.Column{
		{Name: "a", Type: millstream.String, Offsets: []uint32{0, 1, 2, 14}, Bytes: []byte("xya longer text")[:14]}, {Name: "n", Type: millstream.Int64, Ints: []int64{1, 2, 3}}}}
	req := scan.Request{Plan: plan, Range: millstream.TimeRange{End: 10}, Schema: schema, Inputs: []scan.Input{scan.Opened(segment.Memory(batch))}}
	state, _, err := scan.Groups(f.Context(), req)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(state)
	f.Fuzz(func(t *testing.T, state []byte) {
		r := req
		r.Shares = []scan.Share{func(context.Context, scan.Request) ([][]byte, scan.Stats, error) {
			return [][]byte{state}, scan.Stats{}, nil
		}}
		_, _ = scan.Run(t.Context(), r, func(*scan.Rows) error { return nil }) // it must not panic
	})
}
