package segment

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/zeebo/blake3"

	"github.com/millstream/millstream"
)

var always = millstream.TimeRange{Start: math.MinInt64, End: math.MaxInt64}

// logs makes a batch of one String field, a record a text, at times 0, 1, 2, …
func logs(field string, texts ...string) *millstream.Batch {
	b := millstream.NewBuilder(millstream.Limits{MaxRecord: 8 << 20})
	for i, s := range texts {
		b.String([]byte(field), []byte(s))
		if err := b.Commit(int64(i)); err != nil {
			panic(err)
		}
	}
	return b.Batch()
}

func TestInfo(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	var data, index bytes.Buffer
	batches := randomBatches(r, 2000, true)
	info, err := Encode(&data, &index, batches, Options{})
	if err != nil {
		t.Fatal(err)
	}
	whole := plainBatch(t, batches)
	d, x := blake3.Sum256(data.Bytes()), blake3.Sum256(index.Bytes())
	if info.DataSum != hex.EncodeToString(d[:]) || info.IndexSum != hex.EncodeToString(x[:]) {
		t.Error("the sums are not those of the bytes")
	}
	if info.Rows != 2000 || info.MinTime != whole.Times[0] || info.MaxTime != whole.Times[1999] {
		t.Errorf("%d rows, %d to %d", info.Rows, info.MinTime, info.MaxTime)
	}
	if m := Memory(whole); !slices.Equal(m.Fields(), info.Fields) {
		t.Errorf("fields %v, want %v", info.Fields, m.Fields())
	}
}

func TestNothingToEncode(t *testing.T) {
	if _, err := Encode(io.Discard, io.Discard, []*millstream.Batch{{}}, Options{}); millstream.KindOf(err) != millstream.Invalid {
		t.Error(err)
	}
	if _, err := Merge(io.Discard, io.Discard, nil, Options{}); millstream.KindOf(err) != millstream.Invalid {
		t.Error(err)
	}
	if _, err := Encode(io.Discard, io.Discard, []*millstream.Batch{{Samples: &millstream.Samples{}}}, Options{}); millstream.KindOf(err) != millstream.Invalid {
		t.Error(err)
	}
}

func TestValueCounts(t *testing.T) {
	batches := randomBatches(rand.New(rand.NewPCG(6, 6)), 20000, false)
	whole, r := plainBatch(t, batches), mergeAll(t, batches)
	want := map[string]int64{}
	c := whole.Column("service")
	for i := range whole.Times {
		if c.IsValid(i) {
			want[c.Str(i)]++
		}
	}
	counts, ok := r.ValueCounts("service")
	if !ok || len(counts) != len(want) {
		t.Fatalf("%v, %v", counts, ok)
	}
	for _, v := range counts {
		if want[v.Value] != v.Rows {
			t.Errorf("%q: %d, want %d", v.Value, v.Rows, want[v.Value])
		}
	}
	if _, ok := r.ValueCounts("text"); ok {
		t.Error("counts of a field of many values")
	}
	if _, ok := r.ValueCounts("absent"); ok {
		t.Error("counts of an absent field")
	}
}

// TestLargeTexts has records of a mebibyte, whose pages and tokens are as large.
func TestLargeTexts(t *testing.T) {
	word := strings.Repeat("x", 1<<20)
	var lines strings.Builder
	for i := range 100_000 {
		lines.WriteString(strings.Repeat("y", i%7))
		lines.WriteString(" z\n")
	}
	b := logs("message", word, "short", lines.String(), word+"y needle", "")
	for name, s := range map[string]Source{"memory": Memory(b), "segment": encodeAll(t, Options{}, b)} {
		for _, c := range []struct {
			filter Expr
			want   int64
		}{
			{Match{Query: "needle"}, 1}, {Match{Query: word[:maxToken]}, 2}, {Contains{"message", "xxxy"}, 1}, {Contains{"message", word}, 2}, {nil, 5},
			{Compare{"message", Eq, Value{Kind: StringValue, Str: word}}, 1}, {Compare{"message", Eq, Value{Kind: StringValue}}, 1},
		} {
			if n := count(t, s, Scan{Range: always, Filter: c.filter}); n != c.want {
				t.Errorf("%s, %.60v: %d, want %d", name, c.filter, n, c.want)
			}
		}
		if got := scanAll(t, s, Scan{Range: always}); len(got) != 5 || !strings.Contains(strings.Join(got, ""), word) {
			t.Errorf("%s: %d rows", name, len(got))
		}
	}
}

// TestRunEnd cuts runs where the values of large records would exceed the limit, wherever they stand.
func TestRunEnd(t *testing.T) {
	big := strings.Repeat("x", 1000)
	all, err := newTable([]*millstream.Batch{logs("m", "a", big, big, big, "b", "c", strings.Repeat("x", 5000), "d")})
	if err != nil {
		t.Fatal(err)
	}
	var got []int
	for from := 0; from < len(all.refs); {
		from = all.runEnd(from, 2500, 1<<20)
		got = append(got, from)
	}
	if want := []int{3, 6, 7, 8}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if end := all.runEnd(0, 1<<20, 1<<20); end != 8 {
		t.Errorf("%d, want all", end)
	}
	large := strings.Repeat("x", largeRow)
	all, err = newTable([]*millstream.Batch{logs("m", large, big, big, large, big, large, large[1:], big, large, large, large)})
	if err != nil {
		t.Fatal(err)
	}
	got = got[:0]
	for from := 0; from < len(all.refs); {
		from = all.runEnd(from, 1<<20, 2*largeRow)
		got = append(got, from)
	}
	if want := []int{5, 9, 11}; !slices.Equal(got, want) {
		t.Errorf("by large records: %v, want %v", got, want)
	}
}

func TestScanStops(t *testing.T) {
	batches := randomBatches(rand.New(rand.NewPCG(8, 8)), 5000, false)
	for name, s := range map[string]Source{"memory": Memory(plainBatch(t, batches)), "segment": encodeAll(t, Options{}, batches...)} {
		ctx, cancel := context.WithCancel(context.Background())
		emitted := 0
		_, err := s.Scan(ctx, Scan{Range: always, All: true}, func(*millstream.Batch) error { emitted++; cancel(); return nil })
		if !errors.Is(err, context.Canceled) || emitted != 1 {
			t.Errorf("%s: %v after %d batches", name, err, emitted)
		}
		stop := errors.New("stop")
		if _, err := s.Scan(context.Background(), Scan{Range: always, All: true}, func(*millstream.Batch) error { return stop }); err != stop {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestScanFields checks which columns a batch has, and in which order.
func TestScanFields(t *testing.T) {
	b := logs("b", "x", "y")
	b.Columns = append(b.Columns, logs("a", "1", "2").Columns...)
	for name, s := range map[string]Source{"memory": Memory(b), "segment": encodeAll(t, Options{}, b)} {
		_, err := s.Scan(context.Background(), Scan{Range: always, Fields: []string{"absent", "b", "a"}}, func(x *millstream.Batch) error {
			if len(x.Columns) != 2 || x.Columns[0].Name != "b" || x.Columns[1].Name != "a" || x.Rows() != 2 || x.Columns[1].Str(1) != "2" {
				t.Errorf("%s: %+v", name, x)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestConcurrentScans shares a Reader among scans, whose buffers come from a pool.
func TestConcurrentScans(t *testing.T) {
	batches := randomBatches(rand.New(rand.NewPCG(9, 9)), 9000, false)
	r := encodeAll(t, Options{}, batches...)
	want := scanAll(t, r, Scan{Range: always})
	errs := make(chan error)
	for range 4 {
		go func() {
			var got []string
			_, err := r.Scan(context.Background(), Scan{Range: always, All: true, Times: true}, func(b *millstream.Batch) error {
				for i := range b.Times {
					got = append(got, rowText(b, i))
				}
				return nil
			})
			if err == nil && !slices.Equal(got, want) {
				err = errors.New("another answer")
			}
			errs <- err
		}()
	}
	for range 4 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// TestHuffmanFrames checks that frames of Huffman coding alone are ones that any decoder reads.
func TestHuffmanFrames(t *testing.T) {
	r := rand.New(rand.NewPCG(10, 10))
	c := newCompressor(1)
	made := 0
	for _, size := range []int{1024, 5000, 64 << 10, 64<<10 + 1, 128<<10 - 1, 128 << 10, 300_000} {
		for _, letters := range []int{2, 16, 250, 256} {
			p := make([]byte, size)
			for i := range p {
				p[i] = byte(r.IntN(letters))
			}
			frame, ok := c.huffman(nil, p)
			if !ok {
				continue
			}
			made++
			got, err := decompress(nil, frame, size)
			if err != nil || !bytes.Equal(got, p) {
				t.Errorf("%d bytes of %d letters: %v", size, letters, err)
			}
			if letters == 16 && len(frame) > size/2+size/50+200 {
				t.Errorf("%d bytes of 16 letters take %d", size, len(frame))
			}
		}
	}
	if made < 14 {
		t.Errorf("only %d frames", made)
	}
}
