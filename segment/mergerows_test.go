package segment

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/millstream/millstream"
)

// ofType gives a field a value of a type.
func ofType(b *millstream.Builder, t millstream.Type, name string, v int64) {
	switch t {
	case millstream.Int64:
		b.Int([]byte(name), v)
	case millstream.Double:
		b.Double([]byte(name), float64(v)/4)
	case millstream.Bool:
		b.Bool([]byte(name), v%2 == 0)
	case millstream.Timestamp:
		b.Time([]byte(name), v*1e9)
	default:
		b.String([]byte(name), fmt.Appendf(nil, "text %d", v))
	}
}

// changing is a batch whose fields have types of the seed's choosing, so that batches of different seeds conflict. Times are unique among 20 seeds.
func changing(seed uint64, rows, fields, each int) *millstream.Batch {
	r := rand.New(rand.NewPCG(seed, 77))
	types := make([]millstream.Type, fields)
	for i := range types {
		types[i] = []millstream.Type{millstream.Int64, millstream.Int64, millstream.Double, millstream.String, millstream.Bool, millstream.Timestamp}[r.IntN(6)]
	}
	b := millstream.NewBuilder(millstream.Limits{MaxColumns: fields - fields/5}) // the others go to _overflow
	for i := range rows {
		b.String([]byte("message"), fmt.Appendf(nil, "record %d of %d", i, seed))
		for k := range each {
			f := (i*each + k) % fields
			ofType(b, types[f], fmt.Sprintf("field%d", f), int64(r.IntN(1000)))
		}
		if err := b.Commit(int64(i*20) + int64(seed)); err != nil {
			panic(err)
		}
	}
	return b.Batch()
}

// TestMergesKeepRows: whatever types the inputs' fields have, a merge, and a merge of merges, hold exactly the inputs' records under the types that all of them fit.
func TestMergesKeepRows(t *testing.T) {
	for name, c := range map[string]struct{ inputs, rows, fields, each int }{
		"small runs":          {12, 300, 20, 8},
		"full runs":           {2, clusterRows + 100, 5, 3},
		"small and full runs": {1, clusterRows - 1, 6, 3},
		"2,000 fields":        {4, 150, 2000, 60},
	} {
		t.Run(name, func(t *testing.T) {
			var batches []*millstream.Batch
			for i := range c.inputs {
				batches = append(batches, changing(uint64(i), c.rows, c.fields, c.each))
			}
			if name == "small and full runs" {
				batches = append(batches, changing(9, clusterRows, c.fields, c.each))
			}
			whole := plainBatch(t, batches)
			if !slices.ContainsFunc(whole.Columns, func(c millstream.Column) bool { return c.Name == millstream.OverflowField }) {
				t.Fatal("no field went to _overflow")
			}
			var want []string
			for i := range whole.Times {
				want = append(want, rowText(whole, i))
			}
			once := mergeAll(t, batches)
			half := len(batches) / 2
			twice, _ := mergeBytes(t, []*Reader{mergeAll(t, batches[half:]), mergeAll(t, batches[:half])})
			for what, r := range map[string]*Reader{"a merge": once, "a merge of merges": twice} {
				got := scanAll(t, r, Scan{Range: always})
				slices.SortFunc(got, func(a, b string) int { return int(timeOf(a) - timeOf(b)) })
				if !slices.Equal(got, want) {
					t.Fatalf("%s holds %d rows, want %d, or others: %.300q, want %.300q", what, len(got), len(want), got, want)
				}
				for _, f := range r.Fields() {
					i := slices.IndexFunc(whole.Columns, func(c millstream.Column) bool { return c.Name == f.Name })
					if i < 0 || whole.Columns[i].Type != f.Type {
						t.Errorf("%s: field %s has type %v", what, f.Name, f.Type)
					}
				}
			}
		})
	}
}
