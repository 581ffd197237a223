package segment

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/millstream/millstream"
)

// rebuildNames are the names of a segment's fields, by id.
func rebuildNames(r *Reader) map[string]string {
	out := map[string]string{}
	for _, f := range r.Fields() {
		out[millstream.FieldID(f.Name)] = f.Name
	}
	return out
}

func rebuilt(t *testing.T, r *Reader, data []byte, o Options) ([]byte, Info) {
	t.Helper()
	var index bytes.Buffer
	info, err := Rebuild(&index, bytesAt(data), int64(len(data)), rebuildNames(r), o)
	if err != nil {
		t.Fatal(err)
	}
	if info.IndexSize != int64(index.Len()) {
		t.Fatalf("%d bytes of index, said to be %d", index.Len(), info.IndexSize)
	}
	return index.Bytes(), info
}

// manyBatches are n records of enough shapes and values that each kind of column is there.
func manyBatches(n int, seed uint64) []*millstream.Batch {
	return randomBatches(rand.New(rand.NewPCG(seed, 1)), n, true)
}

// A rebuilt index is, byte for byte, the one that was written with the data: of one run and of several, of clustered rows and of merges that copied and encoded anew.
func TestRebuildGivesTheSameIndex(t *testing.T) {
	indexed := []string{"addr", "status", "service", "none"}
	for name, c := range map[string]struct {
		rows int
		o    Options
	}{
		"one record":      {1, Options{}},
		"a block":         {1000, Options{}},
		"three blocks":    {2600, Options{}},
		"clustered":       {20000, Options{}},
		"in order":        {20000, Options{TimeOrder: true}},
		"two runs":        {runRows + 3000, Options{}},
		"indexed":         {20000, Options{Indexed: indexed}},
		"indexed, a pair": {runRows + 3000, Options{Indexed: indexed[:1]}},
	} {
		t.Run(name, func(t *testing.T) {
			r, data, index := encodeBytes(t, c.o, manyBatches(c.rows, uint64(c.rows))...)
			got, info := rebuilt(t, r, data, c.o)
			if !bytes.Equal(got, index) {
				t.Fatalf("%d bytes of index, want the %d that were written", len(got), len(index))
			}
			if first, last := r.Span(); info.Rows != int64(r.Rows()) || info.MinTime != first || info.MaxTime != last || !slices.Equal(info.Indexed, c.o.Indexed) {
				t.Fatalf("info %+v", info)
			}
		})
	}
	t.Run("merged", func(t *testing.T) {
		var in []*Reader
		for i, n := range []int{300, 12000, 9000, 40} {
			r, _, _ := encodeBytes(t, Options{}, manyBatches(n, uint64(i))...)
			in = append(in, r)
		}
		var data, index bytes.Buffer
		info, err := Merge(&data, &index, in, Options{})
		if err != nil {
			t.Fatal(err)
		}
		r, err := Open(bytesAt(data.Bytes()), info.DataSize, bytesAt(index.Bytes()), info.IndexSize)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := rebuilt(t, r, data.Bytes(), Options{}); !bytes.Equal(got, index.Bytes()) {
			t.Fatal("the index differs")
		}
	})
}

// A field that is indexed is searched in fewer blocks, and what is found is the same.
func TestIndexedFieldsPrune(t *testing.T) {
	batches := manyBatches(30000, 7)
	plain, data, _ := encodeBytes(t, Options{}, batches...)
	index, info := rebuilt(t, plain, data, Options{Indexed: []string{"addr"}})
	if !slices.Equal(info.Indexed, []string{"addr"}) {
		t.Fatalf("indexed %q", info.Indexed)
	}
	indexed, err := Open(bytesAt(data), int64(len(data)), bytesAt(index), int64(len(index)))
	if err != nil {
		t.Fatal(err)
	}
	has, misses := map[string]bool{}, 0
	for _, b := range batches {
		for i := range b.Columns {
			if c := &b.Columns[i]; c.Name == "addr" {
				for row := range b.Times {
					if c.IsValid(row) {
						has[c.Str(row)] = true
					}
				}
			}
		}
	}
	for i := range 300 {
		addr := fmt.Sprintf("10.0.%d.%d", i%256, i*7%256)
		s := Scan{Range: millstream.TimeRange{Start: math.MinInt64, End: math.MaxInt64}, Filter: Compare{"addr", Eq, Value{Kind: StringValue, Str: addr}}, CountOnly: true}
		before, err := plain.Scan(context.Background(), s, nil)
		if err != nil {
			t.Fatal(err)
		}
		after, err := indexed.Scan(context.Background(), s, nil)
		if err != nil {
			t.Fatal(err)
		}
		if before.Selected != after.Selected || (before.Selected > 0) != has[addr] {
			t.Fatalf("%s: %d records with the filter, %d without", addr, after.Selected, before.Selected)
		}
		if !has[addr] {
			misses++
			if after.ScannedRows > before.ScannedRows {
				t.Fatalf("%s: %d rows looked at, %d without the filter", addr, after.ScannedRows, before.ScannedRows)
			}
			if before.ScannedRows > 0 && after.ScannedRows == 0 {
				misses += 1 << 16
			}
		}
	}
	if misses>>16 < (misses&0xffff)/2 || misses == 0 {
		t.Fatalf("the filter ruled out %d of %d absent values", misses>>16, misses&0xffff)
	}
}

// A merge says of which fields all its runs have filters: those that it copies may lack them.
func TestMergeKnowsItsFilters(t *testing.T) {
	with, _, _ := encodeBytes(t, Options{Indexed: []string{"addr"}}, manyBatches(9000, 1)...)
	without, _, _ := encodeBytes(t, Options{}, manyBatches(9000, 2)...)
	small, _, _ := encodeBytes(t, Options{}, manyBatches(50, 3)...)
	for name, c := range map[string]struct {
		in   []*Reader
		want []string
	}{
		"all have it":        {[]*Reader{with, small}, []string{"addr"}},
		"one that is copied": {[]*Reader{with, without}, nil},
		"small ones, anew":   {[]*Reader{small, small}, []string{"addr"}},
	} {
		var data, index bytes.Buffer
		info, err := Merge(&data, &index, c.in, Options{Indexed: []string{"addr"}})
		if err != nil || !slices.Equal(info.Indexed, c.want) {
			t.Errorf("%s: indexed %q, want %q (%v)", name, info.Indexed, c.want, err)
		}
	}
}

// The parts of a dictionary are found again, so that an index of the version that did not know them is rebuilt with them.
func TestRebuildDividesDictionaries(t *testing.T) {
	b := millstream.NewBuilder(millstream.Limits{})
	for i := range 20000 {
		b.String([]byte("customer"), fmt.Appendf(nil, "customer-%032x", i%5000*7919))
		if err := b.Commit(int64(i)); err != nil {
			t.Fatal(err)
		}
	}
	r, data, index := encodeBytes(t, Options{}, b.Batch())
	parts := 0
	for i := range r.runs {
		h, err := r.header(i)
		if err != nil {
			t.Fatal(err)
		}
		for k := range h.cols {
			parts += len(h.cols[k].dictParts)
		}
	}
	if got, _ := rebuilt(t, r, data, Options{}); parts == 0 || !bytes.Equal(got, index) {
		t.Fatalf("%d parts of dictionaries; the index differs", parts)
	}
}

func TestRebuildNeedsEveryName(t *testing.T) {
	r, data, _ := encodeBytes(t, Options{}, manyBatches(100, 1)...)
	names := rebuildNames(r)
	delete(names, millstream.FieldID("message"))
	if _, err := Rebuild(&bytes.Buffer{}, bytesAt(data), int64(len(data)), names, Options{}); millstream.KindOf(err) != millstream.NotFound {
		t.Fatalf("error %v", err)
	}
}

// TestRebuildOfDamagedData: whatever the bytes are, the result is an index or an error.
func TestRebuildOfDamagedData(t *testing.T) {
	r, data, _ := encodeBytes(t, Options{}, manyBatches(1500, 9)...)
	rnd, refused := rand.New(rand.NewPCG(5, 5)), 0
	for range 300 {
		d := bytes.Clone(data)
		if rnd.IntN(3) == 0 {
			d = d[:rnd.IntN(len(d))]
		} else {
			at := rnd.IntN(len(d))
			if rnd.IntN(2) == 0 {
				at = len(d) - 1 - rnd.IntN(min(len(d), 3000)) // the footer
			}
			for k := at; k < min(at+20, len(d)); k++ {
				d[k] = byte(rnd.Uint32())
			}
		}
		if _, err := Rebuild(&bytes.Buffer{}, bytesAt(d), int64(len(d)), rebuildNames(r), Options{}); err != nil {
			refused++
		}
	}
	if refused < 100 {
		t.Errorf("only %d of 300 damaged objects were refused", refused)
	}
}
