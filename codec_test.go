package millstream

import (
	"bytes"
	"encoding/binary"
	"runtime/metrics"
	"testing"
)

// FuzzDecodeBatch: whatever comes over a network, the answer is an error or a batch that can be used, and costs no more memory than its size allows.
func FuzzDecodeBatch(f *testing.F) {
	b := NewBuilder(Limits{})
	for i := range 70 {
		b.String([]byte("s"), []byte("text"))
		if i%2 == 0 {
			b.Int([]byte("i"), int64(i))
			b.Double([]byte("d"), 1.5)
			b.Bool([]byte("b"), true)
			b.Time([]byte("t"), 5)
		}
		if err := b.Commit(int64(i)); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(b.Batch().AppendTo(nil))
	f.Add((&Batch{Signal: Metrics, Samples: &Samples{
		Series: []string{"a", "b"}, Ref: []uint32{0, 1}, Time: []int64{1, 2}, Value: []float64{1, 2}, Start: []int64{0, 1}, Histogram: [][]byte{nil, {1}},
		Exemplars: []Exemplar{{Ref: 1, Labels: "x"}}, Metadata: []Metadata{{"a", "b", "c", "d"}},
	}}).AppendTo(nil))
	for _, kind := range []byte{0, 1} { // many columns, many series
		p := append([]byte{codecVersion, byte(Logs)}, make([]byte, 16)...)
		p = binary.AppendUvarint(append(p, kind, 0), 2_000)
		f.Add(append(p, make([]byte, 2_000*minColumn)...))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		before := allocated()
		got, err := DecodeBatch(p)
		if spent, most := allocated()-before, uint64(100*len(p)+1<<20); spent > most {
			t.Errorf("%d bytes of memory for %d of input", spent, len(p))
		}
		if err != nil {
			return
		}
		for i := range got.Columns {
			for row := range got.Rows() {
				_ = got.Columns[i].Text(row)
			}
		}
		again, err := DecodeBatch(got.AppendTo(nil))
		if err != nil || !bytes.Equal(again.AppendTo(nil), got.AppendTo(nil)) {
			t.Errorf("the decoded batch does not survive the codec: %v", err)
		}
	})
}

// allocated is how many bytes the process has allocated so far.
func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// A decoded batch lies in the bytes it came in, wherever those are: its values may be at odd addresses, and what is appended to a column must not reach the next.
func TestDecodedBatchSharesItsBytes(t *testing.T) {
	b := NewBuilder(Limits{})
	for i := range 9 {
		b.Int([]byte("i"), int64(i)<<40)
		b.Double([]byte("d"), float64(i)/3)
		b.String([]byte("s"), []byte("text"))
		if i%3 == 0 {
			b.Bool([]byte("b"), true)
		}
		must(t, b.Commit(int64(i)))
	}
	want := b.Batch().AppendTo(nil)
	for at := range 8 {
		p := append(make([]byte, at, at+len(want)), want...)[at:]
		got, err := DecodeBatch(p)
		must(t, err)
		if again := got.AppendTo(nil); !bytes.Equal(again, want) {
			t.Fatalf("at %d the batch reads differently", at)
		}
		got.Times = append(got.Times, -1)
		for i := range got.Columns {
			c := &got.Columns[i]
			c.Ints, c.Floats, c.Bytes, c.Valid, c.Offsets = append(c.Ints, -1), append(c.Floats, -1), append(c.Bytes, 'x'), append(c.Valid, 0), append(c.Offsets, 7)
		}
		if !bytes.Equal(p, want) {
			t.Fatalf("at %d what was appended to the batch changed the bytes", at)
		}
	}
}
