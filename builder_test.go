package millstream

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"testing"
)

func TestBuilderWidensAndPads(t *testing.T) {
	b := NewBuilder(Limits{})
	b.Int([]byte("n"), 1)
	b.String([]byte("s"), []byte("x"))
	must(t, b.Commit(10))
	b.Double([]byte("n"), 1.5)
	must(t, b.Commit(20))
	b.Int([]byte("n"), 7)
	b.String([]byte("n"), []byte("n/a")) // twice: the last stays
	must(t, b.Commit(30))
	b.String([]byte("n"), []byte("gone"))
	b.Bool([]byte("new"), true)
	b.Abort()
	got := b.Batch()
	if got.Rows() != 3 || len(got.Columns) != 2 {
		t.Fatalf("rows %d columns %d, want 3 and 2", got.Rows(), len(got.Columns))
	}
	n, s := got.Column("n"), got.Column("s")
	if n.Type != String || n.Valid != nil || n.Str(0) != "1" || n.Str(1) != "1.5" || n.Str(2) != "n/a" {
		t.Fatalf("n = %+v", n)
	}
	if !s.IsValid(0) || s.IsValid(1) || s.IsValid(2) || s.Str(0) != "x" {
		t.Fatalf("s = %+v", s)
	}
}

func TestBuilderKeepsWideIntegers(t *testing.T) {
	b := NewBuilder(Limits{})
	b.Int([]byte("n"), 1<<62+1)
	must(t, b.Commit(1))
	b.Double([]byte("n"), 0.5)
	must(t, b.Commit(2))
	c := b.Batch().Column("n")
	if c.Type != String || c.Str(0) != "4611686018427387905" || c.Str(1) != "0.5" {
		t.Fatalf("%v %q %q", c.Type, c.Str(0), c.Str(1))
	}
}

func TestBuilderLimits(t *testing.T) {
	b := NewBuilder(Limits{MaxFields: 1, MaxRecord: 20, MaxKey: 3})
	b.Int([]byte("a"), 1)
	b.Int([]byte("b"), 1)
	if err := b.Commit(1); KindOf(err) != Invalid {
		t.Errorf("fields: %v", err)
	}
	b.String([]byte("a"), bytes.Repeat([]byte("x"), 21))
	if err := b.Commit(1); KindOf(err) != TooLarge {
		t.Errorf("record: %v", err)
	}
	b.Int([]byte("long"), 1)
	if err := b.Commit(1); KindOf(err) != Invalid {
		t.Errorf("key: %v", err)
	}
	b.Int([]byte("a"), 1)
	must(t, b.Commit(1))
	if got := b.Batch(); got.Rows() != 1 || len(got.Columns) != 1 {
		t.Errorf("the good neighbour is lost: %+v", got)
	}
}

func TestJoinTypeIsALattice(t *testing.T) {
	types := []Type{Bool, Int64, Double, Timestamp, String}
	for _, wide := range []bool{false, true} {
		for _, a := range types {
			for _, b := range types {
				if JoinType(a, b, wide) != JoinType(b, a, wide) {
					t.Errorf("not commutative: %v %v", a, b)
				}
				for _, c := range types {
					l := JoinType(JoinType(a, b, wide), c, wide)
					if r := JoinType(a, JoinType(b, c, wide), wide); l != r {
						t.Errorf("not associative: %v %v %v: %v, %v", a, b, c, l, r)
					}
				}
			}
		}
	}
}

func TestCodecRoundTrip(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		b := NewBuilder(Limits{})
		for range rnd.IntN(50) + 1 {
			for f := range rnd.IntN(6) {
				name := []byte{byte('a' + f)}
				switch (f + rnd.IntN(2)) % 5 {
				case 0:
					b.Int(name, rnd.Int64()-rnd.Int64())
				case 1:
					b.Double(name, rnd.NormFloat64())
				case 2:
					b.Bool(name, rnd.IntN(2) == 0)
				case 3:
					b.String(name, []byte{0, 255, byte(rnd.IntN(256))})
				case 4:
					b.Time(name, rnd.Int64())
				}
			}
			must(t, b.Commit(rnd.Int64()))
		}
		in := b.Batch()
		in.ID = BatchID{1, 2, 3}
		enc := in.AppendTo(nil)
		out, err := DecodeBatch(enc)
		must(t, err)
		if !reflect.DeepEqual(normal(in), normal(out)) {
			t.Fatalf("in  %+v\nout %+v", in, out)
		}
		for i := range enc { // a cut payload is an error, never a panic
			if _, err := DecodeBatch(enc[:i]); err == nil {
				t.Fatalf("a payload cut at %d of %d was accepted", i, len(enc))
			}
		}
	}
}

func TestCodecSamples(t *testing.T) {
	key, err := EncodeLabels(nil, []Label{{"job", "a"}, {"__name__", "up"}, {"empty", ""}})
	must(t, err)
	in := &Batch{Signal: Metrics, Samples: &Samples{
		Series: []string{string(key)}, Ref: []uint32{0, 0}, Time: []int64{1, 2}, Value: []float64{1, 2}, Start: []int64{0, 1},
		Histogram: [][]byte{nil, {1, 2}}, Exemplars: []Exemplar{{Ref: 0, Time: 3, Value: 4, Labels: string(key)}}, Metadata: []Metadata{{"up", "gauge", "s", "help"}},
	}}
	out, err := DecodeBatch(in.AppendTo(nil))
	must(t, err)
	if !reflect.DeepEqual(in.Samples, out.Samples) {
		t.Fatalf("in  %+v\nout %+v", in.Samples, out.Samples)
	}
	if got := LabelValue(string(key), "job"); got != "a" {
		t.Errorf("job = %q", got)
	}
}

// normal makes nil and empty slices alike.
func normal(b *Batch) *Batch {
	c := *b
	c.Columns = append([]Column(nil), b.Columns...)
	for i := range c.Columns {
		if len(c.Columns[i].Bytes) == 0 {
			c.Columns[i].Bytes = nil
		}
	}
	return &c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestBuilderTellsWhichTypesCame(t *testing.T) {
	b := NewBuilder(Limits{})
	b.Int([]byte("n"), 1)
	must(t, b.Commit(1))
	b.Bool([]byte("n"), true) // aborted: it leaves no trace
	b.Abort()
	b.String([]byte("n"), []byte("x"))
	must(t, b.Commit(2))
	b.Double([]byte("n"), 1.5)
	b.Int([]byte("same"), 7)
	must(t, b.Commit(3))
	b.Int([]byte("n"), 2)
	must(t, b.Commit(4))
	in := b.Batch()
	out, err := DecodeBatch(in.AppendTo(nil))
	must(t, err)
	for _, batch := range []*Batch{in, out} {
		if got := batch.Column("n").Seen; !reflect.DeepEqual(got, []Type{Int64, String, Double}) {
			t.Errorf("seen %v", got)
		}
		if got := batch.Column("same").Seen; got != nil {
			t.Errorf("one type, but seen %v", got)
		}
	}
}

// A record that is dropped may have had all values of a column before it converted, so a request of many such records would cost the square of its size.
func TestBuilderCountsConversionsForNothing(t *testing.T) {
	b := NewBuilder(Limits{MaxValues: 100_000})
	for i := range 1000 {
		b.Int([]byte("n"), int64(i))
		must(t, b.Commit(int64(i)))
	}
	dropped := 0
	for ; !EndsRequest(b.Err()) && dropped < 1000; dropped++ {
		b.Abort()
		b.String([]byte("n"), []byte("x"))
	}
	if dropped < 50 || dropped > 150 {
		t.Errorf("%d conversions of a thousand values within 100,000 bytes", dropped)
	}
	if got := b.Batch(); got.Rows() != 1000 || got.Columns[0].Type != Int64 || got.Columns[0].Ints[999] != 999 {
		t.Errorf("%d records, %+v", got.Rows(), got.Columns)
	}
}
