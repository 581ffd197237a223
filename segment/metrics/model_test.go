package metrics

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/millstream/millstream"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// point is a sample of the model.
type point struct {
	start int64
	bits  uint64 // of the value of a float
	hist  string // text of a histogram
}

// model is the plainest store there is: the last sample written of each series and time.
type model map[string]map[int64]point

func (m model) write(key string, t int64, p point) {
	if m[key] == nil {
		m[key] = map[int64]point{}
	}
	m[key][t] = p
}

func testKey(i int) string {
	key, err := millstream.EncodeLabels(nil, []millstream.Label{
		{Name: "__name__", Value: fmt.Sprintf("m%d", i%7)}, {Name: "i", Value: fmt.Sprint(i)}, {Name: "odd", Value: []string{"", "yes"}[i%2]},
		{Name: "weird \xf0\x9f\x98\x80", Value: "ünï \x00\xff" + fmt.Sprint(i%3)},
	})
	if err != nil {
		panic(err)
	}
	return string(key)
}

var testValues = []float64{0, 1, -1, math.Copysign(0, -1), math.NaN(), math.Float64frombits(value.StaleNaN), math.Inf(1), math.Inf(-1), math.MaxFloat64,
	math.SmallestNonzeroFloat64, 1e15 + 0.5, 1 << 60, -(1 << 62), 0.1, 0.30000000000000004, 1.0 / 3, 123456.789, 1e-9, 9007199254740993}

func randomValue(rng *rand.Rand, t int64) float64 {
	switch rng.IntN(5) {
	case 0:
		return testValues[rng.IntN(len(testValues))]
	case 1:
		return rng.NormFloat64()
	case 2:
		return math.Round(rng.Float64()*1e6) / 1000
	}
	return float64(t / 7)
}

func randomHistogram(rng *rand.Rand) (*histogram.Histogram, *histogram.FloatHistogram) {
	n := 1 + rng.IntN(4)
	h := &histogram.Histogram{Schema: int32(rng.IntN(3)), ZeroThreshold: 0.001, ZeroCount: uint64(rng.IntN(5)), Sum: rng.Float64(),
		CounterResetHint: histogram.CounterResetHint(rng.IntN(2) * 3), PositiveSpans: []histogram.Span{{Offset: int32(rng.IntN(5) - 2), Length: uint32(n)}}}
	count := h.ZeroCount
	for last := int64(0); n > 0; n-- {
		v := int64(rng.IntN(20))
		h.PositiveBuckets = append(h.PositiveBuckets, v-last)
		count += uint64(v)
		last = v
	}
	h.Count = count
	if rng.IntN(2) == 0 {
		return nil, h.ToFloat(nil)
	}
	return h, nil
}

// randomBatch makes a batch and writes it to the model. Times go forward, with some steps back and some repetitions.
func randomBatch(rng *rand.Rand, m model, clock *int64) *millstream.Samples {
	b := &millstream.Samples{}
	series := rng.Perm(20)[:1+rng.IntN(10)]
	for _, i := range series {
		b.Series = append(b.Series, testKey(i))
	}
	starts, hists := rng.IntN(3) == 0, rng.IntN(3) == 0
	for range rng.IntN(200) {
		*clock += int64(rng.IntN(3)) * 500
		t := *clock
		switch rng.IntN(20) {
		case 0:
			t -= int64(rng.IntN(100_000))
		case 1:
			t += int64(rng.IntN(1000))
		}
		ref := rng.IntN(len(series))
		v, p := randomValue(rng, t), point{}
		var hist []byte
		if hists && ref%2 == 0 {
			h, fh := randomHistogram(rng)
			hist = EncodeHistogram(nil, h, fh)
			p.hist, v = histogramText(h, fh), 0
		}
		if starts && rng.IntN(2) == 0 {
			p.start = t - int64(rng.IntN(1000)) - 1
		}
		if hist == nil {
			p.bits = math.Float64bits(v)
		}
		b.Ref, b.Time, b.Value = append(b.Ref, uint32(ref)), append(b.Time, t), append(b.Value, v)
		b.Start, b.Histogram = append(b.Start, p.start), append(b.Histogram, hist)
		m.write(b.Series[ref], t, p)
	}
	if !starts {
		b.Start = nil
	}
	if !hists {
		b.Histogram = nil
	}
	return b
}

// histogramText is the histogram as text without the hint, which storage may weaken, and without how it is laid out.
func histogramText(h *histogram.Histogram, fh *histogram.FloatHistogram) string {
	kind := "float"
	if h != nil {
		kind, fh = "int", h.ToFloat(nil)
	}
	return fmt.Sprintf("%s %d %s", kind, fh.Schema, fh.Copy().Compact(0).String())
}

func readAll(t *testing.T, srcs []Source, q Query) model {
	t.Helper()
	series, err := Select(context.Background(), srcs, q)
	if err != nil {
		t.Fatal(err)
	}
	got := model{}
	var it Iterator
	for i := range series {
		if i > 0 && compareSeries(&series[i-1], &series[i]) >= 0 {
			t.Fatalf("series %q does not sort before %q", series[i-1].Key, series[i].Key)
		}
		it.Reset(series[i].Chunks)
		readSeries(t, series[i].Key, &it, got)
	}
	return got
}

func readSeries(t *testing.T, key string, it *Iterator, into model) {
	t.Helper()
	last := int64(math.MinInt64)
	for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
		p := point{start: it.AtST()}
		switch kind {
		case chunkenc.ValFloat:
			_, v := it.At()
			p.bits = math.Float64bits(v)
		case chunkenc.ValHistogram:
			_, h := it.AtHistogram(nil)
			p.hist = histogramText(h, nil)
		case chunkenc.ValFloatHistogram:
			_, fh := it.AtFloatHistogram(nil)
			p.hist = histogramText(nil, fh)
		}
		if it.AtT() <= last {
			t.Fatalf("%q: time %d follows %d", key, it.AtT(), last)
		}
		last = it.AtT()
		into.write(key, last, p)
	}
	if err := it.Err(); err != nil {
		t.Fatal(err)
	}
}

func compareModels(t *testing.T, what string, got, want model) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d series, want %d", what, len(got), len(want))
	}
	for key, points := range want {
		if len(got[key]) != len(points) {
			t.Errorf("%s: %q has %d samples, want %d", what, key, len(got[key]), len(points))
		}
		for at, p := range points {
			if got[key][at] != p {
				t.Fatalf("%s: %q at %d is %+v, want %+v", what, key, at, got[key][at], p)
			}
		}
	}
}

var everything = Query{Min: math.MinInt64, Max: math.MaxInt64}

func encode(t testing.TB, srcs ...Source) *Reader {
	t.Helper()
	var data, index bytes.Buffer
	info, err := Merge(&data, &index, srcs)
	if err != nil {
		t.Fatal(err)
	}
	if info.DataSize != int64(data.Len()) || info.IndexSize != int64(index.Len()) {
		t.Fatalf("the info says %d and %d bytes, there are %d and %d", info.DataSize, info.IndexSize, data.Len(), index.Len())
	}
	r, err := Open(bytes.NewReader(data.Bytes()), info.DataSize, bytes.NewReader(index.Bytes()), info.IndexSize)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestModel compares heads, segments and merges with a plain map, for random batches with samples out of order, repeated, of all kinds.
func TestModel(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 1))
		want, clock := model{}, int64(0)
		var heads, segments, mixed []Source
		for range 1 + rng.IntN(4) {
			h, alone := NewHead(), model{}
			for range 1 + rng.IntN(15) {
				b := randomBatch(rng, alone, &clock)
				if rejected, err := h.Append(b); err != nil || rejected != 0 {
					t.Fatal(rejected, err)
				}
			}
			for key, points := range alone {
				for at, p := range points {
					want.write(key, at, p)
				}
			}
			compareModels(t, "a head", readAll(t, []Source{h}, everything), alone)
			r := encode(t, h)
			compareModels(t, "a segment", readAll(t, []Source{r}, everything), alone)
			heads, segments = append(heads, h), append(segments, r)
			mixed = append(mixed, []Source{h, r}[rng.IntN(2)])
		}
		compareModels(t, "heads", readAll(t, heads, everything), want)
		compareModels(t, "segments", readAll(t, segments, everything), want)
		compareModels(t, "heads and segments", readAll(t, mixed, everything), want)
		merged := encode(t, mixed...)
		compareModels(t, "a merge", readAll(t, []Source{merged}, everything), want)
		compareModels(t, "a merge of a merge", readAll(t, []Source{encode(t, merged)}, everything), want)
		checkQueries(t, rng, append(heads, merged), want)
	}
}

// checkQueries compares selections by matchers and time.
func checkQueries(t *testing.T, rng *rand.Rand, srcs []Source, want model) {
	t.Helper()
	for range 20 {
		q := Query{Min: int64(rng.IntN(100_000)) - 1000}
		q.Max = q.Min + int64(rng.IntN(50_000))
		q.Matchers = randomMatchers(rng)
		got := readAll(t, srcs, q)
		expect := model{}
		for key, points := range want {
			if !matchesAll(q.Matchers, key) {
				continue
			}
			for at, p := range points {
				if at >= q.Min && at <= q.Max {
					expect.write(key, at, p)
				}
			}
		}
		for key, points := range got {
			for at := range points {
				if at < q.Min || at > q.Max {
					delete(points, at) // whole chunks are given
				}
			}
			if len(points) == 0 {
				delete(got, key)
			}
		}
		compareModels(t, fmt.Sprint(q), got, expect)
		checkSeek(t, rng, srcs, q)
	}
}

func randomMatchers(rng *rand.Rand) []*labels.Matcher {
	all := []*labels.Matcher{
		labels.MustNewMatcher(labels.MatchEqual, "__name__", "m3"),
		labels.MustNewMatcher(labels.MatchRegexp, "__name__", "m[1-4]|m6"),
		labels.MustNewMatcher(labels.MatchNotEqual, "__name__", "m2"),
		labels.MustNewMatcher(labels.MatchEqual, "odd", ""),
		labels.MustNewMatcher(labels.MatchNotEqual, "odd", ""),
		labels.MustNewMatcher(labels.MatchRegexp, "i", "1.*"),
		labels.MustNewMatcher(labels.MatchNotRegexp, "i", "2|3"),
		labels.MustNewMatcher(labels.MatchEqual, "absent", ""),
		labels.MustNewMatcher(labels.MatchEqual, "zzz", "no"),
	}
	rng.Shuffle(len(all), func(a, b int) { all[a], all[b] = all[b], all[a] })
	return all[:rng.IntN(3)]
}

func matchesAll(ms []*labels.Matcher, key string) bool {
	for _, m := range ms {
		if !m.Matches(millstream.LabelValue(key, m.Name)) {
			return false
		}
	}
	return true
}

// checkSeek walks each series by random Seek and Next and compares with a plain walk.
func checkSeek(t *testing.T, rng *rand.Rand, srcs []Source, q Query) {
	t.Helper()
	series, err := Select(context.Background(), srcs, q)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range series {
		plain := model{}
		readSeries(t, s.Key, NewIterator(s.Chunks), plain)
		var times []int64
		for at := range plain[s.Key] {
			times = append(times, at)
		}
		slices.Sort(times)
		it, pos := NewIterator(s.Chunks), -1
		for {
			var kind chunkenc.ValueType
			if rng.IntN(2) == 0 {
				kind, pos = it.Next(), pos+1
			} else {
				target := times[rng.IntN(len(times))] + int64(rng.IntN(3)) - 1
				kind = it.Seek(target)
				pos = max(pos, sort.Search(len(times), func(i int) bool { return times[i] >= target }))
			}
			if pos >= len(times) {
				if kind != chunkenc.ValNone {
					t.Fatalf("%q goes on after its end", s.Key)
				}
				break
			}
			if kind == chunkenc.ValNone || it.AtT() != times[pos] {
				t.Fatalf("%q is at %v, want time %d", s.Key, kind, times[pos])
			}
		}
	}
}
