package segment

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/millstream/millstream"
)

// megabytes is records of a megabyte, as many as make a full run of large records and a third of one, and before each some small ones.
func megabytes(from int) *millstream.Batch {
	b := millstream.NewBuilder(millstream.Limits{MaxRecord: 2 << 20})
	for i := range 20 {
		for k := range 10 {
			b.String([]byte("message"), fmt.Appendf(nil, "small %d", k))
			if err := b.Commit(int64(from + 100*i + k)); err != nil {
				panic(err)
			}
		}
		b.String([]byte("message"), []byte(strings.Repeat(fmt.Sprintf("large %d of %d ", i, from), 1<<20/16)))
		if err := b.Commit(int64(from + 100*i + 99)); err != nil {
			panic(err)
		}
	}
	return b.Batch()
}

// Runs hold few large records, since a page may have all of those of a run; merges copy full runs of them and join the others up to the same bound.
func TestLargeRecords(t *testing.T) {
	var batches []*millstream.Batch
	var in []*Reader
	var sources [][]byte
	for i := range 3 {
		batches = append(batches, megabytes(5000*i))
		r, data, _ := encodeBytes(t, Options{}, batches[i])
		in, sources = append(in, r), append(sources, data)
	}
	merged, data := mergeBytes(t, in)
	for i, r := range append(in, merged) {
		for k := range r.runs {
			h, err := r.header(k)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range h.column("message").pages {
				if p.raw > largeRunBytes+largeRunBytes/8 {
					t.Errorf("segment %d: a page of %d bytes", i, p.raw)
				}
			}
		}
	}
	copied := 0
	for i, r := range in {
		for _, run := range r.runs {
			if bytes.Contains(data, sources[i][run.dataBase:run.dataBase+run.dataSize]) {
				copied++
			}
		}
	}
	if copied != 3 {
		t.Errorf("%d runs were copied, want the full ones of each input", copied)
	}
	var want []string
	whole := plainBatch(t, batches)
	for i := range whole.Times {
		want = append(want, rowText(whole, i))
	}
	got := scanAll(t, merged, Scan{Range: always})
	slices.SortFunc(got, func(a, b string) int { return int(timeOf(a) - timeOf(b)) })
	if !slices.Equal(got, want) {
		t.Errorf("%d rows, want %d, or others", len(got), len(want))
	}
}
