package segment

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/millstream/millstream"
)

// tracedLogs are records of which each four share a trace id; one in 40 has none. A few have a rare word.
func tracedLogs(rows int) *millstream.Batch {
	r := rand.New(rand.NewPCG(11, 12))
	b := millstream.NewBuilder(millstream.Limits{})
	ids := make([]string, rows/4)
	for i := range ids {
		ids[i] = fmt.Sprintf("%016x%016x", r.Uint64(), r.Uint64())
	}
	for i := range rows {
		if i%40 != 7 {
			b.String([]byte("trace_id"), []byte(ids[r.IntN(len(ids))]))
		}
		word := "usual"
		if r.IntN(300) == 0 {
			word = "needle"
		}
		b.String([]byte("message"), fmt.Appendf(nil, "%s event of worker %d", word, r.IntN(50)))
		if err := b.Commit(int64(i) * 1e9); err != nil {
			panic(err)
		}
	}
	return b.Batch()
}

// limitedScans read a few records, so that parts of dictionaries do.
var limitedScans = []Scan{
	{All: true, Times: true, Limit: 100, Newest: true, Filter: Match{Query: "needle"}},
	{All: true, Times: true, Limit: 3, Filter: Match{Query: "needle"}},
	{Fields: []string{"trace_id"}, Times: true, Limit: 1, Newest: true},
	{Fields: []string{"trace_id"}, Times: true, Limit: 20, Filter: IsNull{"trace_id"}},
	{Fields: []string{"trace_id"}, Times: true, Limit: 50, Newest: true, Filter: Compare{"trace_id", Ge, Value{Kind: StringValue, Str: "8"}}},
}

var allTimes = millstream.TimeRange{Start: math.MinInt64, End: math.MaxInt64}

func TestPartsOfDictionaries(t *testing.T) {
	b := tracedLogs(8200)
	r, data, _ := encodeBytes(t, Options{}, b)
	h, err := r.header(0)
	if err != nil {
		t.Fatal(err)
	}
	ids := h.column("trace_id")
	if len(ids.dictParts) < 3 {
		t.Fatalf("%d values in %d parts", ids.dictCount, len(ids.dictParts))
	}
	for i, q := range limitedScans {
		q.Range = allTimes
		if got, want := scanAll(t, r, q), scanAll(t, Memory(b), q); !slices.Equal(got, want) {
			t.Errorf("scan %d:\n got %q\nwant %q", i, got, want)
		}
	}
	q := limitedScans[2]
	q.Range = allTimes
	stats, err := r.Scan(context.Background(), q, func(*millstream.Batch) error { return nil })
	if err != nil || stats.ScannedBytes >= int64(ids.dictPage.size) {
		t.Errorf("one record took %d bytes, the whole dictionary has %d; %v", stats.ScannedBytes, ids.dictPage.size, err)
	}
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	compareDuckDB(t, db, data, plainBatch(t, []*millstream.Batch{b}))
}

// TestDamagedParts changes bytes: a limited scan gives an error or the right records.
func TestDamagedParts(t *testing.T) {
	_, data, index := encodeBytes(t, Options{}, tracedLogs(8200))
	read := func(data, index []byte) (out []string, err error) {
		r, err := Open(bytesAt(data), int64(len(data)), bytesAt(index), int64(len(index)))
		for _, q := range limitedScans {
			if err != nil {
				return nil, err
			}
			q.Range = allTimes
			_, err = r.Scan(context.Background(), q, func(b *millstream.Batch) error {
				for i := range b.Times {
					out = append(out, rowText(b, i))
				}
				return nil
			})
		}
		return out, err
	}
	want, err := read(data, index)
	if err != nil {
		t.Fatal(err)
	}
	rnd, refused := rand.New(rand.NewPCG(13, 14)), 0
	for i := range 300 {
		hurt := [2][]byte{bytes.Clone(data), bytes.Clone(index)}
		p := hurt[i%2]
		at := rnd.IntN(len(p))
		p[at] ^= byte(1 + rnd.IntN(255))
		got, err := read(hurt[0], hurt[1])
		if err != nil {
			refused++
		} else if !slices.Equal(got, want) {
			t.Fatalf("byte %d of object %d: another answer", at, i%2)
		}
	}
	if refused < 50 {
		t.Errorf("only %d of 300 changes were noticed", refused)
	}
}

// TestEarlierDictionaries reads a segment of tracedLogs that was written when dictionaries had no parts, and merges it with one of today.
func TestEarlierDictionaries(t *testing.T) {
	data, err := os.ReadFile("testdata/whole-dictionary.data")
	if err != nil {
		t.Fatal(err)
	}
	index, err := os.ReadFile("testdata/whole-dictionary.index")
	if err != nil {
		t.Fatal(err)
	}
	early, err := Open(bytesAt(data), int64(len(data)), bytesAt(index), int64(len(index)))
	if err != nil {
		t.Fatal(err)
	}
	b := tracedLogs(8200)
	merged, _ := mergeBytes(t, []*Reader{early, encodeAll(t, Options{}, b)}) // of runs as they are
	if len(merged.runs) != 2 {
		t.Fatalf("%d runs", len(merged.runs))
	}
	for i, q := range append(slices.Clone(limitedScans), Scan{}) {
		q.Range = allTimes
		want := scanAll(t, Memory(b), q)
		if got := scanAll(t, early, q); q.Limit > 0 && !slices.Equal(got, want) {
			t.Errorf("scan %d:\n got %q\nwant %q", i, got, want)
		}
		twice := slices.Sorted(slices.Values(slices.Concat(want, want)))
		if q.Limit *= 2; !slices.Equal(slices.Sorted(slices.Values(scanAll(t, merged, q))), twice) {
			t.Errorf("scan %d of both differs", i)
		}
	}
}
