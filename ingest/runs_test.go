package ingest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"testing"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/segment"
	"github.com/millstream/millstream/segment/metrics"
)

// seqs are the numbers of a run's records.
func seqs(t *testing.T, r Run) (out []int64) {
	t.Helper()
	src := segment.Source(nil)
	if r.Batch != nil {
		src = segment.Memory(r.Batch)
	} else {
		data, index := segmentBytes(t, r)
		s, err := segment.Open(bytes.NewReader(data), r.DataSize, bytes.NewReader(index), r.IndexSize)
		if err != nil {
			t.Fatal(err)
		}
		src = s
	}
	all := segment.Scan{Range: millstream.TimeRange{Start: math.MinInt64, End: math.MaxInt64}, Fields: []string{"seq"}}
	if _, err := src.Scan(context.Background(), all, func(b *millstream.Batch) error {
		out = append(out, b.Column("seq").Ints...)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	slices.Sort(out)
	return out
}

func segmentBytes(t *testing.T, r Run) (data, index []byte) {
	t.Helper()
	data, err := io.ReadAll(r.Data)
	if err == nil {
		index, err = io.ReadAll(r.Index)
	}
	if err != nil || int64(len(data)) != r.DataSize || int64(len(index)) != r.IndexSize {
		t.Fatalf("%d and %d bytes of %d and %d: %v", len(data), len(index), r.DataSize, r.IndexSize, err)
	}
	return data, index
}

// ask gathers the runs of one stream.
func (s *site) ask(id millstream.StreamID, above, have millstream.LSN, segments ...millstream.LSN) (kinds string, got []int64, reach Reach) {
	s.t.Helper()
	a := Ask{WAL: s.w.WAL(), Incarnation: s.incarnation, Above: above, Streams: []StreamAsk{{Stream: id, Have: have, Segments: segments}}}
	reach, err := s.w.Runs(context.Background(), a, func(r Run) error {
		if r.Stream != id || r.First > r.Last || r.Part > r.First {
			s.t.Errorf("a run of (%d, %d], part %d", r.First, r.Last, r.Part)
		}
		kind := "b"
		if r.Batch == nil {
			kind = "s"
		}
		kinds, got = kinds+kind, append(got, seqs(s.t.(*testing.T), r)...)
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	slices.Sort(got)
	return kinds, got, reach
}

func span(from, to int) (out []int64) {
	for i := from; i < to; i++ {
		out = append(out, int64(i))
	}
	return out
}

func TestRunsGiveWhatAReaderLacks(t *testing.T) {
	s := newSite(t)
	s.start()
	id := s.stream("app")
	want := func(above, have millstream.LSN, kinds string, rows []int64, segments ...millstream.LSN) Reach {
		t.Helper()
		gotKinds, got, reach := s.ask(id, above, have, segments...)
		if gotKinds != kinds || !slices.Equal(got, rows) {
			t.Fatalf("above %d having %d: %q with %d rows from %v; want %q with %d", above, have, gotKinds, len(got), got[:min(3, len(got))], kinds, len(rows))
		}
		return reach
	}
	for i := range 20 { // 16 are merged to one run
		s.append(rows("app", i, 1))
	}
	if reach := want(0, 0, "bbbbb", span(0, 20)); reach.To != 20 || reach.Incarnation != s.incarnation {
		t.Errorf("%+v", reach)
	}
	want(0, 5, "bbbbb", span(5, 20)) // a run is cut
	want(0, 18, "bb", span(18, 20))
	want(0, 20, "", nil)
	s.append(rows("other", 0, 1), rows("app", 20, sealRows))
	waitFor(t, "a sealed part", func() bool {
		s.w.room.mu.Lock()
		defer s.w.room.mu.Unlock()
		return s.w.room.sealing == 0
	})
	want(0, 20, "s", span(0, 20+sealRows)) // a segment holds what it was made of
	want(0, 22, "s", span(0, 20+sealRows)) // and is given instead of batches
	want(0, 22, "", nil, 22)
	s.append(rows("app", 20+sealRows, 3))
	want(0, 22, "b", span(20+sealRows, 23+sealRows), 22)
	s.flush()
	if _, err := s.w.Runs(t.Context(), Ask{WAL: s.w.WAL(), Above: 7}, nil); !errors.Is(err, ErrStale) && !errors.Is(err, ErrNotReady) {
		t.Errorf("a position inside of a published range: %v", err)
	}
	want(0, 0, "s", span(0, 23+sealRows)) // still there for an older snapshot
	want(0, 22, "s", span(0, 23+sealRows))
	want(0, 23, "", nil)
	want(23, 23, "", nil)
	if _, err := s.w.Runs(t.Context(), Ask{WAL: s.w.WAL(), Above: 99}, nil); !errors.Is(err, ErrNotReady) {
		t.Errorf("a position above the end: %v", err)
	}
	if _, err := s.w.Runs(t.Context(), Ask{WAL: "other"}, nil); !errors.Is(err, ErrNotReady) {
		t.Errorf("another WAL: %v", err)
	}
}

func TestRunsOfSamplesAreGivenOnce(t *testing.T) {
	s := newSite(t)
	s.start()
	var id millstream.StreamID
	head := metrics.NewHead() // the reader's
	var have, above millstream.LSN
	total := int64(0)
	ask := func(wantKinds string) {
		t.Helper()
		kinds := ""
		a := Ask{WAL: s.w.WAL(), Incarnation: s.incarnation, Above: above, Streams: []StreamAsk{{Stream: id, Have: have}}}
		reach, err := s.w.Runs(t.Context(), a, func(r Run) error {
			if r.Batch != nil {
				kinds += "b"
				_, err := head.Append(r.Batch.Samples)
				return err
			}
			kinds += "s"
			data, index := segmentBytes(t, r)
			m, err := metrics.Open(bytes.NewReader(data), r.DataSize, bytes.NewReader(index), r.IndexSize)
			if err == nil {
				total = m.Samples()
				head = metrics.NewHead()
			}
			return err
		})
		if err != nil || kinds != wantKinds {
			t.Fatalf("%q instead of %q: %v", kinds, wantKinds, err)
		}
		have = reach.To
	}
	s.append(sampleBatch(0, 10), sampleBatch(10, 10))
	st, err := s.model.EnsureStream(t.Context(), millstream.StreamKey{Org: testOrg, Signal: millstream.Metrics, Name: millstream.MetricStream})
	if err != nil {
		t.Fatal(err)
	}
	id = st.ID
	ask("s")
	ask("")
	s.append(sampleBatch(20, 5))
	s.append(sampleBatch(25, 5))
	ask("bb")
	if got := total + head.Samples(); got != 30 {
		t.Errorf("%d samples of 30", got)
	}
	s.flush()
	above = s.w.position
	s.append(sampleBatch(30, 5))
	ask("b")
	s.w.mu.Lock()
	s.w.recent.limit = 1
	s.w.mu.Unlock()
	s.append(sampleBatch(35, 5)) // not kept: everything above the position comes as a segment
	ask("s")
	if got := total + head.Samples(); got != 10 {
		t.Errorf("%d samples of 10", got)
	}
}
