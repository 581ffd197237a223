package metrics

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/millstream/millstream"
)

// A rebuilt index is, byte for byte, the one that was written with the data.
func TestRebuildGivesTheSameIndex(t *testing.T) {
	same := func(t *testing.T, data, index []byte) {
		t.Helper()
		var got bytes.Buffer
		info, err := Rebuild(&got, bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), index) {
			t.Fatalf("%d bytes of index, want the %d that were written", got.Len(), len(index))
		}
		r, err := Open(bytes.NewReader(data), int64(len(data)), bytes.NewReader(index), int64(len(index)))
		if err != nil {
			t.Fatal(err)
		}
		first, last := r.Span()
		if info.Rows != r.Samples() || info.MinTime != nanoseconds(first) || info.MaxTime != nanoseconds(last) || info.IndexSize != int64(len(index)) {
			t.Fatalf("info %+v of %d samples in [%d, %d]", info, r.Samples(), first, last)
		}
	}
	for seed := range uint64(5) {
		t.Run(fmt.Sprint("random ", seed), func(t *testing.T) {
			data, index, _ := testSegment(t, seed)
			same(t, data, index)
		})
	}
	t.Run("two row groups", func(t *testing.T) {
		const series = rowGroupRows + 1000
		s := millstream.Samples{Series: []string{""}, Ref: []uint32{0}, Time: []int64{5}, Value: []float64{1}}
		for i := range series {
			s.Series = append(s.Series, key(t, "__name__", fmt.Sprint("metric_", i%50), "series", fmt.Sprint(i)))
			s.Ref, s.Time, s.Value = append(s.Ref, uint32(i+1)), append(s.Time, int64(i)), append(s.Value, float64(i))
		}
		h := NewHead()
		if _, err := h.Append(&s); err != nil {
			t.Fatal(err)
		}
		var data, index bytes.Buffer
		if _, err := h.Encode(&data, &index); err != nil {
			t.Fatal(err)
		}
		same(t, data.Bytes(), index.Bytes())
	})
	t.Run("cut off", func(t *testing.T) {
		data, _, _ := testSegment(t, 1)
		if _, err := Rebuild(&bytes.Buffer{}, bytes.NewReader(data[:len(data)/2]), int64(len(data)/2)); err == nil {
			t.Fatal("half of the data has an index")
		}
	})
}
