package scan_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query/scan"
	qsql "github.com/millstream/millstream/query/sql"
	"github.com/millstream/millstream/segment"
)

// TestMemoryIsBounded: every kind of state stops at the request's memory.
func TestMemoryIsBounded(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	w := newWorld(t, r, 60_000)
	ins := w.sources(t, func(i int) bool { return i%2 == 0 })
	for _, text := range []string{
		"SELECT user_id, count(*) FROM t GROUP BY user_id",
		"SELECT count(DISTINCT message) FROM t",
		"SELECT n, mixed, level, count(*) FROM t GROUP BY ALL",
		"SELECT quantile_cont(d, 0.5) FROM t",
		"SELECT * FROM t ORDER BY _timestamp",
	} {
		p := w.bind(t, text).Plan
		if p == nil {
			t.Fatalf("%s has no plan", text)
		}
		run := func(memory int64) error {
			_, err := scan.Run(t.Context(), scan.Request{Plan: p, Range: w.rng, Schema: w.schema, Inputs: ins, Memory: memory}, func(*scan.Rows) error { return nil })
			return err
		}
		if err := run(100 << 10); !errors.Is(err, scan.ErrMemory) {
			t.Errorf("%s in 100 KiB: %v", text, err)
		}
		if err := run(256 << 20); err != nil {
			t.Errorf("%s in 256 MiB: %v", text, err)
		}
	}
}

// TestKeptRowsAreFew: the latest rows of much data take little memory.
func TestKeptRowsAreFew(t *testing.T) {
	w := newWorld(t, rand.New(rand.NewPCG(4, 4)), 60_000)
	p := w.bind(t, "SELECT * FROM t ORDER BY _timestamp LIMIT 50").Plan
	_, err := scan.Run(t.Context(), scan.Request{Plan: p, Range: w.rng, Schema: w.schema, Inputs: w.sources(t, func(int) bool { return true }), Memory: 4 << 20},
		func(*scan.Rows) error { return nil })
	if err != nil {
		t.Error(err)
	}
}

// watched is an input that counts how often it is opened.
func watched(in scan.Input, opened *int) scan.Input {
	open := in.Open
	in.Open = func(ctx context.Context) (segment.Source, func(), error) {
		*opened++
		return open(ctx)
	}
	return in
}

func TestLatestRowsLeaveOldSourcesAlone(t *testing.T) {
	w := &world{rng: millstream.TimeRange{Start: 0, End: math.MaxInt64}, schema: millstream.Schema{Fields: []millstream.Field{{Name: "n", Type: millstream.Int64}}}}
	var ins []scan.Input
	opened := make([]int, 5)
	for i := range 5 {
		b := millstream.NewBuilder(millstream.Limits{})
		for k := range 10 {
			b.Int([]byte("n"), int64(i*10+k))
			if err := b.Commit(epoch + int64(i*10+k)); err != nil {
				t.Fatal(err)
			}
		}
		ins = append(ins, watched(scan.Opened(segment.Memory(b.Batch())), &opened[i]))
	}
	plan := func(desc bool, limit, offset int) *qsql.Plan {
		return &qsql.Plan{Out: []qsql.Output{{Name: "n", Field: "n"}}, Order: []qsql.Order{{Desc: desc}}, Limit: limit, Offset: offset}
	}
	if got := w.kernels(t, plan(true, 3, 0), ins, 1); !slices.EqualFunc(got, [][]string{{"49"}, {"48"}, {"47"}}, slices.Equal) || !slices.Equal(opened, []int{0, 0, 0, 0, 1}) {
		t.Errorf("newest: %v, opened %v", got, opened)
	}
	clear(opened)
	if got := w.kernels(t, plan(false, 2, 9), ins, 1); !slices.EqualFunc(got, [][]string{{"9"}, {"10"}}, slices.Equal) || !slices.Equal(opened, []int{1, 1, 0, 0, 0}) {
		t.Errorf("oldest: %v, opened %v", got, opened)
	}
}

func TestErrorsEndARun(t *testing.T) {
	w := newWorld(t, rand.New(rand.NewPCG(5, 5)), 3000)
	ins := w.sources(t, func(int) bool { return true })
	boom := errors.New("boom")
	for _, text := range []string{"SELECT * FROM t", "SELECT * FROM t ORDER BY _timestamp LIMIT 5", "SELECT service, sum(n) FROM t GROUP BY service"} {
		p := w.bind(t, text).Plan
		req := scan.Request{Plan: p, Range: w.rng, Schema: w.schema, Inputs: ins}
		if _, err := scan.Run(t.Context(), req, func(*scan.Rows) error { return boom }); !errors.Is(err, boom) {
			t.Errorf("%s: emit's error became %v", text, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := scan.Run(ctx, req, func(*scan.Rows) error { return nil }); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: canceled: %v", text, err)
		}
		req.Inputs = append(slices.Clone(ins), scan.Input{Rows: 1, First: epoch, Last: epoch, Open: func(context.Context) (segment.Source, func(), error) { return nil, nil, boom }})
		if _, err := scan.Run(t.Context(), req, func(*scan.Rows) error { return nil }); !errors.Is(err, boom) {
			t.Errorf("%s: an input's error became %v", text, err)
		}
	}
}

// TestSumsBeyondInt64: sums of integers are exact decimals.
func TestSumsBeyondInt64(t *testing.T) {
	b := millstream.NewBuilder(millstream.Limits{})
	for i, v := range []int64{math.MaxInt64, math.MaxInt64, math.MinInt64, math.MinInt64, math.MinInt64, 5} {
		b.Int([]byte("v"), v)
		b.String([]byte("k"), strconv.AppendInt(nil, int64(i/2), 10))
		if err := b.Commit(epoch); err != nil {
			t.Fatal(err)
		}
	}
	batch := b.Batch()
	w := &world{rng: millstream.TimeRange{Start: 0, End: math.MaxInt64}, schema: millstream.Schema{Fields: []millstream.Field{{Name: "v", Type: millstream.Int64}, {Name: "k", Type: millstream.String}}}}
	p := &qsql.Plan{
		Aggregate: true, Keys: []qsql.Key{{Field: "k"}}, Aggs: []qsql.Agg{{Func: qsql.Sum, Field: "v"}, {Func: qsql.Avg, Field: "v"}}, Limit: -1,
		Out:   []qsql.Output{{Name: "s", Agg: 0, Key: -1, Type: "HUGEINT"}, {Name: "a", Agg: 1, Key: -1, Type: "DOUBLE"}},
		Order: []qsql.Order{{Out: 0, Desc: true}},
	}
	got := w.kernels(t, p, []scan.Input{scan.Opened(segment.Memory(batch))}, 1)
	want := [][]string{{"18446744073709551614", "9.22337203685e+18"}, {"-9223372036854775803", "-4.61168601843e+18"}, {"-18446744073709551616", "-9.22337203685e+18"}}
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestQuantileSelection compares with a sort, on data that partitions badly too.
func TestQuantileSelection(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	shapes := map[string]func(i, n int) float64{
		"random": func(int, int) float64 { return r.NormFloat64() },
		"equal":  func(int, int) float64 { return 7 },
		"sorted": func(i, _ int) float64 { return float64(i) },
		"saw":    func(i, _ int) float64 { return float64(i % 9) },
		"organ":  func(i, n int) float64 { return float64(min(i, n-i)) },
		"nan": func(i, _ int) float64 {
			if i%5 == 0 {
				return math.NaN()
			}
			return float64(i % 100)
		},
	}
	for name, f := range shapes {
		for _, n := range []int{1, 2, 63, 1000, 20_000} {
			b := millstream.NewBuilder(millstream.Limits{})
			var values []float64
			for i := range n {
				values = append(values, f(i, n))
				b.Double([]byte("v"), values[i])
				if err := b.Commit(epoch); err != nil {
					t.Fatal(err)
				}
			}
			slices.SortFunc(values, func(a, b float64) int {
				switch {
				case a != a && b != b:
					return 0
				case a != a || a > b:
					return 1
				case b != b || a < b:
					return -1
				}
				return 0
			})
			w := &world{rng: millstream.TimeRange{Start: 0, End: math.MaxInt64}, schema: millstream.Schema{Fields: []millstream.Field{{Name: "v", Type: millstream.Double}}}}
			p := &qsql.Plan{Aggregate: true, Limit: -1}
			var want []string
			for i, at := range []float64{0, 0.1, 0.5, 0.95, 1} {
				p.Aggs = append(p.Aggs, qsql.Agg{Func: qsql.Quantile, Field: "v", P: at})
				p.Out = append(p.Out, qsql.Output{Name: fmt.Sprint(i), Key: -1, Agg: i, Type: "DOUBLE"})
				rank := float64(n-1) * at
				lo := int(rank)
				v := values[lo]
				if float64(lo) != rank {
					v += (values[lo+1] - v) * (rank - float64(lo))
				}
				want = append(want, strconv.FormatFloat(v, 'g', 12, 64))
			}
			got := w.kernels(t, p, []scan.Input{scan.Opened(segment.Memory(b.Batch()))}, 1)
			if !slices.Equal(got[0], want) {
				t.Errorf("%s of %d: got %v, want %v", name, n, got[0], want)
			}
		}
	}
}

// TestManyGroups: keys of every length are told apart, and partials of several workers merge to the same groups.
func TestManyGroups(t *testing.T) {
	want := map[string]int{}
	var ins []scan.Input
	r := rand.New(rand.NewPCG(6, 6))
	for range 6 {
		b := millstream.NewBuilder(millstream.Limits{})
		for range 5000 {
			k := strings.Repeat("x", r.IntN(12)) + strconv.Itoa(r.IntN(3000))
			if r.IntN(50) == 0 {
				k = strings.Repeat("\x00", r.IntN(9))
			}
			want[k]++
			b.String([]byte("k"), []byte(k))
			if err := b.Commit(epoch); err != nil {
				t.Fatal(err)
			}
		}
		ins = append(ins, scan.Opened(encoded(t, b.Batch())))
	}
	w := &world{rng: millstream.TimeRange{Start: 0, End: math.MaxInt64}, schema: millstream.Schema{Fields: []millstream.Field{{Name: "k", Type: millstream.String}}}}
	p := &qsql.Plan{Aggregate: true, Keys: []qsql.Key{{Field: "k"}}, Aggs: []qsql.Agg{{}}, Limit: -1, Out: []qsql.Output{{Name: "k", Agg: -1}, {Name: "n", Key: -1}}}
	for _, workers := range []int{1, 3} {
		got := w.kernels(t, p, ins, workers)
		if len(got) != len(want) {
			t.Fatalf("%d groups, want %d", len(got), len(want))
		}
		for _, g := range got {
			if fmt.Sprint(want[g[0]]) != g[1] {
				t.Errorf("group %q has %s, want %d", g[0], g[1], want[g[0]])
			}
		}
	}
}

// TestAnswersAreCutByBytes: the rows up to the bound are the first of the answer, in blocks of a bounded size, and no more are held than that.
func TestAnswersAreCutByBytes(t *testing.T) {
	const width, rows, sources = 100 << 10, 200, 3
	schema := millstream.Schema{Fields: []millstream.Field{{Name: "message", Type: millstream.String}}}
	var ins []scan.Input
	for s := range sources {
		b := millstream.NewBuilder(millstream.Limits{})
		for i := range rows {
			b.String([]byte("message"), []byte(fmt.Sprintf("%06d", i*sources+s)+strings.Repeat("x", width)))
			if err := b.Commit(epoch + int64(i*sources+s)); err != nil {
				t.Fatal(err)
			}
		}
		var data, index bytes.Buffer
		if _, err := segment.Encode(&data, &index, []*millstream.Batch{b.Batch()}, segment.Options{}); err != nil {
			t.Fatal(err)
		}
		r, err := segment.Open(bytes.NewReader(data.Bytes()), int64(data.Len()), bytes.NewReader(index.Bytes()), int64(index.Len()))
		if err != nil {
			t.Fatal(err)
		}
		ins = append(ins, scan.Opened(r))
	}
	for name, c := range map[string]struct {
		plan  qsql.Plan
		first int // number of the first row
		step  int // to the next; 0: not told
		rows  int
		cut   bool
	}{
		"newest":    {plan: qsql.Plan{Order: []qsql.Order{{Desc: true}}, Limit: 1000}, first: rows*sources - 1, step: -1, rows: 103, cut: true},
		"oldest":    {plan: qsql.Plan{Order: []qsql.Order{{}}, Limit: 1000}, step: 1, rows: 103, cut: true},
		"offset":    {plan: qsql.Plan{Order: []qsql.Order{{}}, Offset: 100, Limit: 1000}, first: 100, step: 1, rows: 103, cut: true},
		"unordered": {plan: qsql.Plan{Limit: 1000}, first: -1, rows: 103, cut: true},
		"few":       {plan: qsql.Plan{Order: []qsql.Order{{}}, Limit: 90}, step: 1, rows: 90},
	} {
		t.Run(name, func(t *testing.T) {
			c.plan.Star = true
			n := 0
			stats, err := scan.Run(t.Context(), scan.Request{Plan: &c.plan, Range: millstream.TimeRange{End: math.MaxInt64}, Schema: schema, Inputs: ins, Memory: 48 << 20, MaxBytes: 10 << 20, Workers: 2}, func(r *scan.Rows) error {
				if r.Size() > scan.BlockBytes {
					t.Errorf("a block of %d bytes", r.Size())
				}
				for i := range r.N {
					number, err := strconv.Atoi(r.Columns[1].Str(i)[:6])
					if err != nil || c.first >= 0 && number != c.first+n*c.step {
						t.Fatalf("row %d is number %d, %v", n, number, err)
					}
					n++
				}
				return nil
			})
			if err != nil || n != c.rows || stats.Cut != c.cut {
				t.Errorf("%d rows, cut %v, %v", n, stats.Cut, err)
			}
		})
	}
}
