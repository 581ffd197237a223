package metrics

import (
	"context"
	"sync"
	"testing"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/segment/metrics/metricstest"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// TestReadWhileAppending reads a head while it grows. Every read must see whole batches: the same number of samples of each series, never fewer than before.
func TestReadWhileAppending(t *testing.T) {
	const series, ticks = 40, 400
	w := metricstest.New(series)
	h := NewHead()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for tick := range ticks {
			b := w.Batch(0, series, tick, tick+1)
			if tick%10 == 9 { // one late sample per series
				for i := range series {
					b.Ref, b.Time, b.Value = append(b.Ref, uint32(i)), append(b.Time, w.Start+int64(tick-5)*w.Step+1), append(b.Value, 1)
				}
			}
			if _, err := h.Append(b); err != nil {
				t.Error(err)
			}
		}
	}()
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			last := 0
			for running := true; running; {
				select {
				case <-done:
					running = false
				default:
				}
				last = readWhole(t, h, last)
			}
			if last != ticks+ticks/10 {
				t.Errorf("the last read saw %d samples a series, want %d", last, ticks+ticks/10)
			}
		})
	}
	readers.Wait()
}

// readWhole returns how many samples each series has.
func readWhole(t *testing.T, h *Head, atLeast int) int {
	list, err := h.Select(context.Background(), everything)
	if err != nil {
		t.Error(err)
	}
	count := -1
	var it Iterator
	for i := range list {
		it.Reset(list[i].Chunks)
		n := 0
		for it.Next() != chunkenc.ValNone {
			n++
		}
		if it.Err() != nil || n < atLeast || count >= 0 && n != count {
			t.Errorf("%d samples, others have %d, before there were %d; %v", n, count, atLeast, it.Err())
		}
		count = n
	}
	return max(count, 0)
}

// TestAppendRefuses checks that a batch with wrong references adds nothing, and that invalid histograms are rejected one by one.
func TestAppendRefuses(t *testing.T) {
	k := key(t, "__name__", "m")
	for name, b := range map[string]*millstream.Samples{
		"sample reference":   {Series: []string{k}, Ref: []uint32{0, 1}, Time: []int64{1, 2}, Value: []float64{1, 2}},
		"column lengths":     {Series: []string{k}, Ref: []uint32{0, 0}, Time: []int64{1}, Value: []float64{1, 2}},
		"starts":             {Series: []string{k}, Ref: []uint32{0}, Time: []int64{1}, Value: []float64{1}, Start: []int64{}},
		"histograms":         {Series: []string{k}, Ref: []uint32{0}, Time: []int64{1}, Value: []float64{1}, Histogram: [][]byte{nil, nil}},
		"exemplar reference": {Series: []string{k}, Exemplars: []millstream.Exemplar{{Ref: 1}}},
	} {
		h := NewHead()
		if _, err := h.Append(b); millstream.KindOf(err) != millstream.Invalid || h.Samples() != 0 || h.Series() != 0 {
			t.Errorf("%s: %v, %d samples, %d series", name, err, h.Samples(), h.Series())
		}
	}
	h := NewHead()
	rejected, err := h.Append(&millstream.Samples{Series: []string{k}, Ref: []uint32{0, 0}, Time: []int64{1, 2}, Value: []float64{0, 5},
		Histogram: [][]byte{[]byte("nonsense"), nil}})
	if err != nil || rejected != 1 || h.Samples() != 1 {
		t.Errorf("%d rejected, %v, %d samples", rejected, err, h.Samples())
	}
}

// TestEmpty checks heads and segments without anything in them.
func TestEmpty(t *testing.T) {
	h := NewHead()
	for name, src := range map[string]Source{"head": h, "segment": encode(t, h), "merge": encode(t)} {
		if first, last := src.Span(); first <= last || src.Samples() != 0 {
			t.Errorf("%s: from %d to %d, %d samples", name, first, last, src.Samples())
		}
		if got := readAll(t, []Source{src}, everything); len(got) != 0 {
			t.Errorf("%s has %d series", name, len(got))
		}
	}
}

// TestExemplars checks exemplars of heads, segments and merges, of series with and without samples.
func TestExemplars(t *testing.T) {
	a, b := key(t, "__name__", "m", "x", "1"), key(t, "__name__", "m", "x", "2")
	h := NewHead()
	if _, err := h.Append(&millstream.Samples{Series: []string{a, b}, Ref: []uint32{0}, Time: []int64{10}, Value: []float64{1}, Exemplars: []millstream.Exemplar{
		{Ref: 1, Time: 30, Value: 3, Labels: key(t, "trace_id", "c")}, {Ref: 0, Time: 20, Value: 2}, {Ref: 0, Time: 5, Value: 1, Labels: key(t, "trace_id", "a")},
		{Ref: 0, Time: 20, Value: 2},
	}, Metadata: []millstream.Metadata{{Name: "m", Type: "counter", Help: "old"}, {Name: "m", Type: "counter", Help: "new"}}}); err != nil {
		t.Fatal(err)
	}
	if m := h.Metadata(); len(m) != 1 || m[0].Help != "new" {
		t.Errorf("metadata %v", m)
	}
	segment := encode(t, h)
	for name, srcs := range map[string][]Source{"head": {h}, "segment": {segment}, "both": {segment, h}, "merge": {encode(t, segment, h)}} {
		got, err := Exemplars(context.Background(), srcs, everything)
		if err != nil || len(got) != 2 || len(got[0].Exemplars) != 2 || len(got[1].Exemplars) != 1 || got[0].Exemplars[0].Labels != key(t, "trace_id", "a") {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		got, err = Exemplars(context.Background(), srcs, Query{Min: 6, Max: 20})
		if err != nil || len(got) != 1 || len(got[0].Exemplars) != 1 || got[0].Exemplars[0].Time != 20 {
			t.Errorf("%s, from 6 to 20: %+v, %v", name, got, err)
		}
		if series := readAll(t, srcs, everything); len(series) != 1 {
			t.Errorf("%s: %d series with samples", name, len(series))
		}
	}
}
