package millstream

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// value is one value of the model that TestBuilderAgainstModel compares a Builder with.
type value struct {
	t Type
	i int64
	f float64
	s string
}

func (v value) set(b *Builder, name string) {
	n := []byte(name)
	switch v.t {
	case Bool:
		b.Bool(n, v.i != 0)
	case Int64:
		b.Int(n, v.i)
	case Double:
		b.Double(n, v.f)
	case Timestamp:
		b.Time(n, v.i)
	case String:
		b.String(n, []byte(v.s))
	default:
		b.Null(n)
	}
}

// text is what the value must read as in a column of that type.
func (v value) text(t Type) string {
	c := Column{Type: v.t, Ints: []int64{v.i}, Floats: []float64{v.f}}
	switch {
	case v.t == String:
		return v.s
	case t == Double && v.t == Int64:
		return FormatDouble(float64(v.i))
	}
	return c.Text(0)
}

func randomValue(rnd *rand.Rand, field int) value {
	if rnd.IntN(8) == 0 {
		field = rnd.IntN(8)
	}
	switch field % 6 {
	case 0:
		return value{t: Int64, i: rnd.Int64N(1000)}
	case 1:
		return value{t: String, s: fmt.Sprint("text ", rnd.IntN(1000))}
	case 2:
		return value{t: Double, f: rnd.NormFloat64()}
	case 3:
		return value{t: Bool, i: rnd.Int64N(2)}
	case 4:
		return value{t: Timestamp, i: rnd.Int64()}
	}
	if rnd.IntN(2) == 0 {
		return value{t: Int64, i: rnd.Int64()}
	}
	return value{} // null
}

// TestBuilderAgainstModel sets random fields, some twice, some to null, aborts some records, and compares with maps. Types that only aborted records had must leave no trace.
func TestBuilderAgainstModel(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		b := NewBuilder(Limits{})
		var rows []map[string]value
		types := map[string]Type{}
		for range 2 + rnd.IntN(150) {
			row := map[string]value{}
			for range rnd.IntN(9) {
				f := rnd.IntN(8)
				name, v := string(rune('a'+f)), randomValue(rnd, f)
				v.set(b, name)
				if delete(row, name); v.t != 0 {
					row[name] = v
				}
			}
			if rnd.IntN(4) == 0 {
				b.Abort()
				continue
			}
			if len(rows) == 10 {
				b.Reserve(60)
			}
			must(t, b.Commit(int64(len(rows))))
			rows = append(rows, row)
			for name, v := range row {
				types[name] = JoinType(types[name], v.t, v.t == Int64 && (v.i > MaxExactInt || v.i < -MaxExactInt))
			}
		}
		got := b.Batch()
		compareWithModel(t, seed, got, rows, types)
		if got != nil {
			got.Release() // the next seed's builder has its memory
		}
	}
}

func TestBuilderTakesReleasedMemory(t *testing.T) {
	b := NewBuilder(Limits{}) // a builder serves again after Batch
	record := func(n int64) *Batch {
		b.Int([]byte("n"), n)
		b.String([]byte("s"), []byte("some text"))
		must(t, b.Commit(n))
		return b.Batch()
	}
	for range 1000 { // a pool may forget
		old := record(1)
		times, ints, bytes := &old.Times[0], &old.Columns[0].Ints[0], &old.Columns[1].Bytes[0]
		old.Release()
		got := record(2)
		if &got.Times[0] == times && &got.Columns[0].Ints[0] == ints && &got.Columns[1].Bytes[0] == bytes {
			if got.Rows() != 1 || got.Times[0] != 2 || got.Columns[0].Ints[0] != 2 || got.Columns[1].Str(0) != "some text" {
				t.Errorf("a batch in another's memory holds %+v", got)
			}
			return
		}
	}
	t.Error("no builder took the memory of a released batch")
}

// A record without fields needs no column; what comes after it must not take its place.
func TestBuilderRecordsWithoutFields(t *testing.T) {
	b := NewBuilder(Limits{})
	for range 2 {
		must(t, b.Commit(1))
		b.Int([]byte("n"), 5)
		must(t, b.Commit(2))
		got := b.Batch()
		if got.Rows() != 2 || got.Times[0] != 1 || got.Times[1] != 2 || len(got.Columns) != 1 || got.Columns[0].IsValid(0) || got.Columns[0].Ints[1] != 5 {
			t.Fatalf("%+v", got)
		}
		got.Release()
	}
	must(t, b.Commit(3))
	if got := b.Batch(); got.Rows() != 1 || len(got.Columns) != 0 {
		t.Fatalf("%+v", got)
	}
}

func compareWithModel(t *testing.T, seed uint64, got *Batch, rows []map[string]value, types map[string]Type) {
	t.Helper()
	if len(rows) == 0 {
		return
	}
	names := slices.Sorted(maps.Keys(types))
	if got.Rows() != len(rows) || len(got.Columns) != len(names) {
		t.Fatalf("seed %d: %d rows of %d columns, want %d of %d", seed, got.Rows(), len(got.Columns), len(rows), len(names))
	}
	for _, name := range names {
		c, nulls := got.Column(name), 0
		for i, row := range rows {
			v, ok := row[name]
			if !ok {
				nulls++
			}
			if c.IsValid(i) != ok || ok && c.Text(i) != v.text(c.Type) {
				t.Fatalf("seed %d: %s of row %d = %q %v, want %+v", seed, name, i, c.Text(i), c.IsValid(i), v)
			}
		}
		if (c.Valid == nil) != (nulls == 0) {
			t.Errorf("seed %d: %s with %d nulls has bitmap %v", seed, name, nulls, c.Valid)
		}
		// A value that was replaced within its record may have widened the column, but to no less than what stayed needs.
		if JoinType(c.Type, types[name], false) != c.Type {
			t.Errorf("seed %d: %s is %v, want %v", seed, name, c.Type, types[name])
		}
	}
}

func TestBuilderAbortLeavesNoTrace(t *testing.T) {
	b, n, s := NewBuilder(Limits{}), []byte("n"), []byte("s")
	b.String(s, []byte("not to be"))
	b.Abort()
	b.Int(n, 1)
	b.Int(s, 5)
	must(t, b.Commit(1))
	b.String(n, []byte("n/a"))
	b.Abort()
	b.Int(n, 1<<60)
	b.Abort()
	b.Double(n, 2.5)
	must(t, b.Commit(2))
	got := b.Batch()
	if c := got.Column("n"); c.Type != Double || c.Floats[0] != 1 || c.Floats[1] != 2.5 {
		t.Errorf("n = %+v", c)
	}
	if c := got.Column("s"); c.Type != Int64 || c.Ints[0] != 5 || c.IsValid(1) {
		t.Errorf("s = %+v", c)
	}
}

func TestBuilderOverflow(t *testing.T) {
	b := NewBuilder(Limits{MaxColumns: 2})
	set := func(names ...string) {
		for i, n := range names {
			b.Int([]byte(n), int64(i))
		}
	}
	set("a", "b")
	must(t, b.Commit(1))
	set("b", "c")
	b.String([]byte("q\"x"), []byte("line\n\x00\xff"))
	b.Double([]byte("d"), 0.5)
	b.Bool([]byte("t"), true)
	b.Int([]byte("gone"), 1)
	b.Null([]byte("gone"))
	must(t, b.Commit(2))
	set("c")
	b.Abort()
	set("a")
	must(t, b.Commit(3))
	got := b.Batch()
	c := got.Column(OverflowField)
	if len(got.Columns) != 3 || c == nil || c.IsValid(0) || !c.IsValid(1) || c.IsValid(2) {
		t.Fatalf("%+v", got.Columns)
	}
	var kept map[string]any
	must(t, json.Unmarshal([]byte(c.Str(1)), &kept))
	want := map[string]any{"c": 1.0, "q\"x": "line\n\x00\ufffd", "d": 0.5, "t": true, "gone": nil}
	if !maps.Equal(kept, want) {
		t.Errorf("%v, want %v", kept, want)
	}
}

func TestBuilderOverflowCountsTowardsTheLimits(t *testing.T) {
	b := NewBuilder(Limits{MaxColumns: 1, MaxFields: 3, MaxRecord: 100})
	for _, n := range []string{"a", "b", "c"} {
		b.Int([]byte(n), 1)
	}
	must(t, b.Commit(1))
	for _, n := range []string{"a", "b", "c", "d"} {
		b.Int([]byte(n), 1)
	}
	if failed := b.Failed(); failed != "d" {
		t.Errorf("failed: %q", failed)
	}
	if err := b.Commit(2); KindOf(err) != Invalid {
		t.Errorf("fields: %v", err)
	}
	b.Int([]byte("a"), 1)
	b.String([]byte("b"), []byte(strings.Repeat("x", 100)))
	if err := b.Commit(2); KindOf(err) != TooLarge {
		t.Errorf("size: %v", err)
	}
}

func TestBuilderReservedNames(t *testing.T) {
	b := NewBuilder(Limits{})
	for i := range 2 {
		b.Int([]byte(TimestampField), int64(i))
		b.String([]byte(OverflowField), []byte("mine"))
		must(t, b.Commit(int64(i)))
	}
	got := b.Batch()
	if len(got.Columns) != 2 || got.Column("_timestamp.value").Ints[1] != 1 || got.Column("_overflow.value").Str(0) != "mine" {
		t.Errorf("%+v", got.Columns)
	}
}

func TestBuilderRefusesToExplode(t *testing.T) {
	b := NewBuilder(Limits{})
	for i := range 2000 {
		b.Int(fmt.Append(nil, "f", i), 1)
		if i%1000 == 999 {
			must(t, b.Commit(0))
		}
	}
	for i := range 10_000 {
		if err := b.Commit(0); err == ErrTooSparse {
			if i < 1000 || KindOf(err) != TooLarge {
				t.Errorf("after %d rows: %v", i, err)
			}
			return
		}
	}
	t.Error("20 million cells from 2,000 values were accepted")
}

func BenchmarkBuilder(b *testing.B) {
	names := make([][]byte, 16)
	for i := range names {
		names[i] = fmt.Appendf(nil, "field_%d", i)
	}
	text := []byte("a value of some length, as they are")
	b.ReportAllocs()
	for b.Loop() {
		bl := NewBuilder(Limits{})
		for i := range 2000 {
			if i == 32 {
				bl.Reserve(2000)
			}
			for k, n := range names {
				if k%4 == 3 {
					bl.Int(n, int64(i))
				} else if k != 5 || i%3 != 0 {
					bl.String(n, text)
				}
			}
			if err := bl.Commit(int64(i)); err != nil {
				b.Fatal(err)
			}
		}
		bl.Batch()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/2000/16, "ns/field")
}

// What many records share must not make a small request large: the values of all records are counted, also those of records that were dropped.
func TestBuilderCountsWhatItIsGiven(t *testing.T) {
	long := []byte(strings.Repeat("x", 1<<10))
	for name, drop := range map[string]bool{"kept": false, "dropped": true} {
		b := NewBuilder(Limits{MaxValues: 100 << 10})
		rows := 0
		for ; rows < 1000; rows++ {
			b.String([]byte("shared"), long)
			if drop && b.Err() == nil {
				b.Abort()
				continue
			}
			if err := b.Commit(1); err != nil {
				if !EndsRequest(err) || KindOf(err) != TooLarge {
					t.Errorf("%s: %v", name, err)
				}
				break
			}
		}
		if rows != 99 {
			t.Errorf("%s: %d records of 1 KiB fit into 100 KiB", name, rows)
		}
		b.Batch()
	}
}
