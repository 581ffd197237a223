package segment

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	_ "github.com/duckdb/duckdb-go/v2"

	"github.com/millstream/millstream"
)

// TestDuckDBReads writes segments, merged and not, and compares what read_parquet gives with the records.
func TestDuckDBReads(t *testing.T) {
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, rows := range []int{1, 3000, 70000} {
		t.Run(fmt.Sprint(rows, " rows"), func(t *testing.T) {
			batches := randomBatches(rand.New(rand.NewPCG(7, uint64(rows))), rows, true)
			_, data, _ := encodeBytes(t, Options{}, batches...)
			want := plainBatch(t, batches)
			compareDuckDB(t, db, data, want)
			var in []*Reader
			for _, b := range batches {
				in = append(in, encodeAll(t, Options{}, b))
			}
			_, data = mergeBytes(t, in)
			compareDuckDB(t, db, data, want)
		})
	}
}

func compareDuckDB(t *testing.T, db *sql.DB, data []byte, want *millstream.Batch) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.parquet")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	cols := []string{"epoch_ns(_timestamp)"}
	for i := range want.Columns {
		c := &want.Columns[i]
		switch id := millstream.FieldID(c.Name); c.Type {
		case millstream.Timestamp:
			cols = append(cols, "epoch_ns("+id+")")
		default:
			cols = append(cols, id)
		}
	}
	rows, err := db.Query(fmt.Sprintf("SELECT %s FROM read_parquet('%s') ORDER BY _timestamp", strings.Join(cols, ", "), path))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	values, at := make([]any, len(cols)), make([]any, len(cols))
	for i := range values {
		at[i] = &values[i]
	}
	i := 0
	for ; rows.Next(); i++ {
		if err := rows.Scan(at...); err != nil {
			t.Fatal(err)
		}
		if values[0] != want.Times[i] {
			t.Fatalf("row %d: time %v, want %d", i, values[0], want.Times[i])
		}
		for k := range want.Columns {
			if got, w := values[k+1], cellValue(&want.Columns[k], i); fmt.Sprintf("%T %v", got, got) != fmt.Sprintf("%T %v", w, w) {
				t.Fatalf("row %d, %s: %T %v, want %T %v", i, want.Columns[k].Name, got, got, w, w)
			}
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if i != len(want.Times) {
		t.Fatalf("%d rows, want %d", i, len(want.Times))
	}
}

func cellValue(c *millstream.Column, i int) any {
	switch {
	case !c.IsValid(i):
		return nil
	case c.Type == millstream.String:
		return c.Str(i)
	case c.Type == millstream.Double:
		return c.Floats[i]
	case c.Type == millstream.Bool:
		return c.Ints[i] != 0
	}
	return c.Ints[i]
}

// TestDuckDBPrunes checks that the statistics are ones that DuckDB goes by: values beyond them are not found by reading, they are not read.
func TestDuckDBPrunes(t *testing.T) {
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	batches := randomBatches(rand.New(rand.NewPCG(7, 7)), 2000, false)
	_, data, _ := encodeBytes(t, Options{}, batches...)
	path := filepath.Join(t.TempDir(), "x.parquet")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	rows, err := db.Query(fmt.Sprintf("SELECT path_in_schema, stats_min_value, stats_max_value FROM parquet_metadata('%s')", path))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var seen []string
	for rows.Next() {
		var name string
		var lo, hi sql.NullString
		if err := rows.Scan(&name, &lo, &hi); err != nil {
			t.Fatal(err)
		}
		if lo.Valid && hi.Valid {
			seen = append(seen, name)
		}
	}
	for _, name := range []string{millstream.TimestampField, millstream.FieldID("status"), millstream.FieldID("trace_id")} {
		if !slices.Contains(seen, name) {
			t.Errorf("%s has no statistics; only %v", name, seen)
		}
	}
}
