package metrics

import (
	"bytes"
	"context"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/zeebo/blake3"
)

// testSegment is the bytes of a segment with samples of all kinds.
func testSegment(t testing.TB, seed uint64) (data, index []byte, content model) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 2))
	clock, content := int64(0), model{}
	h := NewHead()
	for range 20 {
		if _, err := h.Append(randomBatch(rng, content, &clock)); err != nil {
			t.Fatal(err)
		}
	}
	var d, x bytes.Buffer
	info, err := h.Encode(&d, &x)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []struct {
		bytes []byte
		sum   string
	}{{d.Bytes(), info.DataSum}, {x.Bytes(), info.IndexSum}} {
		if sum := blake3.Sum256(o.bytes); hex.EncodeToString(sum[:]) != o.sum {
			t.Fatal("the info's checksum is not the object's")
		}
	}
	return d.Bytes(), x.Bytes(), content
}

// readEverything reads all that a segment has.
func readEverything(data, index []byte) (model, error) {
	ctx := context.Background()
	r, err := Open(bytes.NewReader(data), int64(len(data)), bytes.NewReader(index), int64(len(index)))
	if err != nil {
		return nil, err
	}
	names, err := r.LabelNames(ctx, everything)
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		if _, err := r.LabelValues(ctx, n, everything); err != nil {
			return nil, err
		}
	}
	if _, err := r.Exemplars(ctx, everything); err != nil {
		return nil, err
	}
	list, err := r.Select(ctx, everything)
	if err != nil {
		return nil, err
	}
	got := model{}
	for _, s := range list {
		it := NewIterator(s.Chunks)
		for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
			got.write(s.Key, it.AtT(), point{})
		}
		if err := it.Err(); err != nil {
			return nil, err
		}
	}
	return got, nil
}

// TestDamage changes, cuts and swaps bytes of a segment. Reading then gives an error, or, where the change is in what a query does not read, the same series.
func TestDamage(t *testing.T) {
	data, index, content := testSegment(t, 1)
	rng := rand.New(rand.NewPCG(1, 3))
	for i := range 4000 {
		d, x := bytes.Clone(data), bytes.Clone(index)
		target := &x
		if i%2 == 0 {
			target = &d
		}
		switch rng.IntN(4) {
		case 0:
			*target = (*target)[:rng.IntN(len(*target))]
		case 1:
			at := rng.IntN(len(*target))
			clear((*target)[at:min(at+rng.IntN(64), len(*target))])
		default:
			(*target)[rng.IntN(len(*target))] ^= 1 << rng.IntN(8)
		}
		got, err := readEverything(d, x)
		if err != nil {
			continue
		}
		for key, points := range content {
			if len(got[key]) != len(points) {
				t.Fatalf("try %d: %q has %d samples, want %d, and there was no error", i, key, len(got[key]), len(points))
			}
		}
	}
	if _, err := readEverything(data, nil); err == nil {
		t.Error("a segment without index opens")
	}
	other, _, _ := testSegment(t, 2)
	if _, err := readEverything(other, index); err == nil {
		t.Error("the index of another segment is taken")
	}
}

// FuzzIndex feeds any bytes to the parsers of the index, past its checksums.
func FuzzIndex(f *testing.F) {
	data, index, _ := testSegment(f, 1)
	r, err := Open(bytes.NewReader(data), int64(len(data)), bytes.NewReader(index), int64(len(index)))
	if err != nil {
		f.Fatal(err)
	}
	for i := range r.blocks {
		b, err := r.block(i)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[:min(len(b), 2000)], 7)
	}
	f.Fuzz(func(_ *testing.T, b []byte, n int) {
		if n < 0 {
			return
		}
		_, _ = parseNames(b, n)
		_, _ = parsePages(b, int64(n))
		_, _ = parseLabels(b)
		_, _ = parsePageHeader(b)
		_ = (&Reader{}).parseDirectory(b, int64(n))
		_, _ = decodeExemplars(&Chunk{Count: n, Data: b})
		m := compile(everything)
		_ = eachSeries(b, &nameEntry{series: n, rows: int64(n)}, &m, everything, false, func(*nameEntry, string, []rowRef) {})
		p := pageBuffer{raw: b}
		_ = p.take([]rowRef{{row: 0}, {row: int64(n)}}, 0, int64(n)+1)
	})
}

// FuzzChunk feeds any bytes to the decoder of packed floats.
func FuzzChunk(f *testing.F) {
	var e encoder
	r := &run{Times: []int64{1, 2, 4}, Values: []float64{1, math.Inf(1), 3.5}, Starts: []int64{0, 1, 1}}
	f.Add(e.encodeFloats(nil, r), 3, int64(1), int64(4))
	f.Fuzz(func(t *testing.T, b []byte, count int, first, last int64) {
		c := Chunk{Min: first, Max: last, Count: count, Enc: EncFloats, Data: b}
		var d floats
		if d.load(&c) == nil && (len(d.ts) != count || len(d.vs) != count) {
			t.Fatalf("%d times and %d values of %d", len(d.ts), len(d.vs), count)
		}
	})
}

// FuzzDecodeHistogram: bytes that decode give a histogram that is valid, that encodes to one that decodes the same, and that a head can store and give back.
func FuzzDecodeHistogram(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 4))
	for range 20 {
		f.Add(encodePair(randomHistogram(rng)))
	}
	f.Add(EncodeHistogram(nil, &histogram.Histogram{Schema: histogram.CustomBucketsSchema, Count: 3, PositiveSpans: []histogram.Span{{Length: 2}},
		PositiveBuckets: []int64{1, 1}, CustomValues: []float64{1, 2}}, nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, fh, err := DecodeHistogram(b)
		if err != nil {
			return
		}
		again := EncodeHistogram(nil, h, fh)
		if h2, fh2, err := DecodeHistogram(again); err != nil || !bytes.Equal(EncodeHistogram(nil, h2, fh2), again) {
			t.Fatalf("%x decodes, encodes to %x and then: %v", b, again, err)
		}
		chunks, err := packHistograms(&run{Times: []int64{1, 2}, Hists: [][]byte{b, b}})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for it := NewIterator(chunks); it.Next() != chunkenc.ValNone; n++ {
			it.AtFloatHistogram(nil)
		}
		if n != 2 {
			t.Fatalf("%d of 2 come back", n)
		}
	})
}

func encodePair(h *histogram.Histogram, fh *histogram.FloatHistogram) []byte {
	return EncodeHistogram(nil, h, fh)
}

// TestParquet reads the Parquet object with parquet-go alone: it is complete and in order.
func TestParquet(t *testing.T) {
	data, _, content := testSegment(t, 3)
	rows, err := parquet.Read[row](bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	var last *row
	var series []byte
	count := map[string]int{}
	for i := range rows {
		r := &rows[i]
		if len(r.Labels) > 0 {
			series = r.Labels
		} else if last == nil || r.Min <= last.Max || r.Name != last.Name {
			t.Fatalf("row %d does not follow the one before", i)
		}
		if last != nil && r.Name < last.Name {
			t.Fatalf("row %d: name %q after %q", i, r.Name, last.Name)
		}
		last = r
		count[string(series)] += int(r.Count)
	}
	for key, points := range content {
		if count[key] != len(points) {
			t.Errorf("%q has %d samples, want %d", key, count[key], len(points))
		}
	}
}
