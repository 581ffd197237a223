package metrics

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/millstream/millstream"
	"github.com/prometheus/prometheus/model/labels"
)

// Series that went over the wire in pieces of any size are the series that were found, whatever holds them.
func TestSeriesOverTheWire(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	for range 20 {
		clock, want, h := int64(0), model{}, NewHead()
		for range 1 + rng.IntN(5) {
			if _, err := h.Append(randomBatch(rng, want, &clock)); err != nil {
				t.Fatal(err)
			}
		}
		for name, src := range map[string]Source{"head": h, "segment": encode(t, h)} {
			found, err := src.Select(context.Background(), everything)
			if err != nil {
				t.Fatal(err)
			}
			for _, size := range []int{0, 1, 300, 1 << 20} {
				var lists [][]Series
				for piece := range Pieces(found, size) {
					b := AppendSeries([]byte("before"), piece)
					got, err := DecodeSeries(b[len("before"):])
					if err != nil {
						t.Fatal(err)
					}
					lists = append(lists, got)
				}
				if size == 1<<20 && len(lists) > 1 || size == 1 && len(lists) < len(found) {
					t.Errorf("%d pieces of %d series at %d bytes a piece", len(lists), len(found), size)
				}
				got := model{}
				var it Iterator
				for _, s := range MergeSeries(lists) {
					it.Reset(s.Chunks)
					readSeries(t, s.Key, &it, got)
				}
				compareModels(t, name, got, want)
			}
		}
	}
}

func TestSeriesWithoutChunksOverTheWire(t *testing.T) {
	want := []Series{{Name: "a", Key: testKey(1)}, {Name: "b", Key: testKey(2)}}
	for i := range want {
		want[i].Name = "m" + string(rune('1'+i))
	}
	got, err := DecodeSeries(AppendSeries(nil, want))
	if err != nil || len(got) != 2 || got[0].Key != want[0].Key || got[1].Name != "m2" || len(got[0].Chunks) != 0 {
		t.Fatalf("%+v, %v", got, err)
	}
}

// Bytes that are not what was sent are an error, never series.
func TestDamagedSeriesOverTheWire(t *testing.T) {
	clock, rng := int64(0), rand.New(rand.NewPCG(9, 9))
	h := NewHead()
	if _, err := h.Append(randomBatch(rng, model{}, &clock)); err != nil {
		t.Fatal(err)
	}
	found, err := encode(t, h).Select(context.Background(), everything)
	if err != nil {
		t.Fatal(err)
	}
	whole := AppendSeries(nil, found)
	for range 500 {
		b := append([]byte(nil), whole...)
		switch rng.IntN(3) {
		case 0:
			b = b[:rng.IntN(len(b))]
		case 1:
			b[rng.IntN(len(b))] ^= byte(1 + rng.IntN(255))
		case 2:
			b = append(b, byte(rng.IntN(256)))
		}
		if got, err := DecodeSeries(b); err == nil {
			t.Fatalf("%d series of damaged bytes", len(got))
		}
	}
}

func TestQueriesOverTheWire(t *testing.T) {
	for _, q := range []Query{
		{},
		{Min: math.MinInt64, Max: math.MaxInt64, KeysOnly: true},
		{Min: -5, Max: 7},
		{Max: 1, Matchers: []*labels.Matcher{
			labels.MustNewMatcher(labels.MatchEqual, nameLabel, "up"), labels.MustNewMatcher(labels.MatchNotEqual, "a", ""),
			labels.MustNewMatcher(labels.MatchRegexp, "b", "x.*|\xc3\xbc"), labels.MustNewMatcher(labels.MatchNotRegexp, "c", ".+"),
		}},
	} {
		b, err := q.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		var got Query
		if err := got.UnmarshalBinary(b); err != nil {
			t.Fatal(err)
		}
		if len(got.Matchers) != len(q.Matchers) {
			t.Fatalf("%d matchers, want %d", len(got.Matchers), len(q.Matchers))
		}
		for i, m := range q.Matchers {
			if got.Matchers[i].String() != m.String() || got.Matchers[i].Matches("xyz") != m.Matches("xyz") {
				t.Errorf("matcher %s became %s", m, got.Matchers[i])
			}
		}
		got.Matchers, q.Matchers = nil, nil
		if !reflect.DeepEqual(got, q) {
			t.Errorf("%+v became %+v", q, got)
		}
		for n := range b {
			if got.UnmarshalBinary(b[:n]) == nil {
				t.Errorf("%d of %d bytes are a query", n, len(b))
			}
		}
	}
}

// The joined exemplars do not depend on the order in which lists are joined, even where values are not numbers.
func TestMergeExemplarsInAnyOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	values := []float64{math.NaN(), math.Copysign(0, -1), 0, 1, math.Inf(1)}
	var lists [][]SeriesExemplars
	for range 20 {
		e := SeriesExemplars{Key: testKey(rng.IntN(2))}
		for range 6 {
			e.Exemplars = append(e.Exemplars, millstream.Exemplar{Time: int64(rng.IntN(3)), Value: values[rng.IntN(len(values))]})
		}
		lists = append(lists, []SeriesExemplars{e})
	}
	want := fmt.Sprint(MergeExemplars(lists))
	for range 20 {
		rng.Shuffle(len(lists), func(i, j int) { lists[i], lists[j] = lists[j], lists[i] })
		got := MergeExemplars(lists)
		if fmt.Sprint(got) != want || len(got[0].Exemplars) != 3*len(values) {
			t.Fatalf(" got %v\nwant %s", got, want)
		}
	}
}
