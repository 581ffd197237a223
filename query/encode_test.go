package query_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/parquet-go/parquet-go"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query"
)

var everyType = []query.Column{
	{Name: "_timestamp", Type: "TIMESTAMP_NS"}, {Name: "n", Type: "BIGINT"}, {Name: "d", Type: "DOUBLE"}, {Name: "b", Type: "BOOLEAN"}, {Name: "s", Type: "VARCHAR"},
	{Name: "h", Type: "HUGEINT"}, {Name: "l", Type: "VARCHAR[]"}, {Name: "n", Type: "DECIMAL(5,2)"},
}

func textColumn(name string, values ...string) millstream.Column {
	c := millstream.Column{Name: name, Type: millstream.String, Offsets: []uint32{0}, Valid: make([]uint64, 1)}
	for i, v := range values {
		if v != "∅" {
			c.Bytes = append(c.Bytes, v...)
			c.Valid[0] |= 1 << i
		}
		c.Offsets = append(c.Offsets, uint32(len(c.Bytes)))
	}
	return c
}

// everyValue is three rows, the last of nulls.
func everyValue() *query.Rows {
	two := []uint64{3}
	return &query.Rows{N: 3, Columns: []millstream.Column{
		{Name: "_timestamp", Type: millstream.Timestamp, Ints: []int64{epoch + 1, -1, 0}, Valid: two},
		{Name: "n", Type: millstream.Int64, Ints: []int64{math.MaxInt64, -5, 0}, Valid: two},
		{Name: "d", Type: millstream.Double, Floats: []float64{1e21, math.NaN(), 0}, Valid: two},
		{Name: "b", Type: millstream.Bool, Ints: []int64{1, 0, 0}, Valid: two},
		textColumn("s", "=1+1 \"x\"\n\x01\xff", "", "∅"),
		textColumn("h", "170141183460469231731687303715884105", "-1", "∅"),
		textColumn("l", `["a"]`, "[]", "∅"),
		textColumn("n", "1.50", "-12.25", "∅"),
	}}
}

func encode(t *testing.T, f query.Format) []byte {
	t.Helper()
	var out bytes.Buffer
	e := query.NewEncoder(f, &out)
	err := errors.Join(e.Columns(everyType), e.Rows(everyValue()))
	if err != nil || e.Started() {
		t.Fatalf("%v, started %v", err, e.Started())
	}
	if err := e.Close(&query.Answer{Warnings: []string{"w"}}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestJSON(t *testing.T) {
	got := encode(t, query.JSON)
	want := `{"columns":[{"name":"_timestamp","type":"TIMESTAMP_NS"},{"name":"n","type":"BIGINT"},{"name":"d","type":"DOUBLE"},{"name":"b","type":"BOOLEAN"},` +
		`{"name":"s","type":"VARCHAR"},{"name":"h","type":"HUGEINT"},{"name":"l","type":"VARCHAR[]"},{"name":"n","type":"DECIMAL(5,2)"}],"rows":[` +
		`["2026-11-30T00:00:00.000000001Z",9223372036854775807,1e+21,true,"=1+1 \"x\"\n\u0001` + "\ufffd" + `",170141183460469231731687303715884105,["a"],1.50],` +
		`["1969-12-31T23:59:59.999999999Z",-5,null,false,"",-1,[],-12.25],[null,null,null,null,null,null,null,null]],` +
		`"stats":{"took_ms":0,"scanned_rows":0,"scanned_bytes":0,"segments":{"total":0,"pruned":0,"scanned":0,"cached":0},"unflushed_rows":0,"nodes":0},` +
		`"partial":false,"warnings":["w"]}` + "\n"
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if !json.Valid(got) {
		t.Error("not valid JSON")
	}
}

func TestNDJSON(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(string(encode(t, query.NDJSON))), "\n")
	if len(lines) != 4 || !strings.HasPrefix(lines[1], `{"_timestamp":"1969-12-31T23:59:59.999999999Z","n":-5,"d":null,"b":false,"s":"","h":-1,`) ||
		!strings.HasPrefix(lines[3], `{"__meta__":{"columns":[{"name":"_timestamp"`) || !strings.Contains(lines[3], `"stats":{"took_ms":0`) {
		t.Errorf("%q", lines)
	}
	for _, l := range lines {
		if !json.Valid([]byte(l)) {
			t.Errorf("not valid JSON: %s", l)
		}
	}
}

func TestCSV(t *testing.T) {
	got := string(encode(t, query.CSV))
	want := "_timestamp,n,d,b,s,h,l,n\r\n" +
		"2026-11-30T00:00:00.000000001Z,9223372036854775807,1e+21,true,\"'=1+1 \"\"x\"\"\n\x01\xff\",170141183460469231731687303715884105,\"[\"\"a\"\"]\",1.50\r\n" +
		"1969-12-31T23:59:59.999999999Z,-5,NaN,false,\"\",-1,[],-12.25\r\n,,,,,,,\r\n"
	if got != want {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
	rows, err := csv.NewReader(strings.NewReader(got)).ReadAll()
	if err != nil || len(rows) != 4 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
}

func TestArrow(t *testing.T) {
	r, err := ipc.NewReader(bytes.NewReader(encode(t, query.Arrow)))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	var got []string
	for r.Next() {
		b := r.RecordBatch()
		for i := range int(b.NumCols()) {
			got = append(got, fmt.Sprint(b.Schema().Field(i).Name, " ", b.Column(i)))
		}
	}
	expect(t, "columns", got,
		fmt.Sprintf("_timestamp [%d -1 (null)]", epoch+1), "n [9223372036854775807 -5 (null)]", "d [1e+21 NaN (null)]", "b [true false (null)]",
		"s [\"=1+1 \\\"x\\\"\\n\\x01\\xff\" \"\" (null)]", "h [170141183460469231731687303715884105 -1 (null)]", `l ["[\"a\"]" "[]" (null)]`, "n [1.5 -12.25 (null)]")
}

func TestParquet(t *testing.T) {
	body := encode(t, query.Parquet)
	f, err := parquet.OpenFile(bytes.NewReader(body), int64(len(body)))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range f.Root().Columns() {
		names = append(names, c.Name())
	}
	expect(t, "names", names, "_timestamp", "n", "d", "b", "s", "h", "l", "n_1")
	rows := parquet.NewReader(f)
	var got []string
	buf := make([]parquet.Row, 4)
	n, _ := rows.ReadRows(buf) // the end of the file is no error of ours
	for _, r := range buf[:n] {
		got = append(got, fmt.Sprint(r))
	}
	if len(got) != 3 || !strings.Contains(got[1], "C:1 D:1 R:0 V:-5") && !strings.Contains(got[1], "-5") || !strings.Contains(got[2], "null") {
		t.Errorf("%q", got)
	}
}

func TestFailedAnswers(t *testing.T) {
	problem := map[string]string{"code": "timeout"}
	for f, says := range map[query.Format]bool{query.JSON: true, query.NDJSON: true, query.CSV: false, query.Arrow: false, query.Parquet: false} {
		var out bytes.Buffer
		e := query.NewEncoder(f, &out)
		if err := errors.Join(e.Columns(everyType), e.Rows(everyValue())); err != nil {
			t.Fatal(err)
		}
		if said := e.Fail(problem); said != says {
			t.Errorf("format %d: %v", f, said)
		}
		if says && (!strings.Contains(out.String(), `"error":{"code":"timeout"}`) || !strings.Contains(out.String(), `"partial":true`)) {
			t.Errorf("format %d: %s", f, out.String())
		}
	}
}

// TestAnswersAreStreamed: a long answer reaches the writer before it ends.
func TestAnswersAreStreamed(t *testing.T) {
	var out bytes.Buffer
	e := query.NewEncoder(query.JSON, &out)
	if err := e.Columns([]query.Column{{Name: "s", Type: "VARCHAR"}}); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if err := e.Rows(&query.Rows{N: 1, Columns: []millstream.Column{textColumn("s", strings.Repeat("x", 8<<10))}}); err != nil {
			t.Fatal(err)
		}
	}
	if !e.Started() || out.Len() < 64<<10 {
		t.Errorf("%d bytes are out", out.Len())
	}
}

func BenchmarkJSON(b *testing.B) {
	rows := &query.Rows{N: 4096, Columns: []millstream.Column{
		{Type: millstream.Timestamp, Ints: make([]int64, 4096)}, {Type: millstream.Int64, Ints: make([]int64, 4096)}, {Type: millstream.Double, Floats: make([]float64, 4096)},
		{Type: millstream.String, Codes: make([]uint32, 4096), Dict: []string{strings.Repeat("a plain text of some length ", 4)}},
	}}
	cols := []query.Column{{Name: "t", Type: "TIMESTAMP_NS"}, {Name: "n", Type: "BIGINT"}, {Name: "d", Type: "DOUBLE"}, {Name: "s", Type: "VARCHAR"}}
	var out discard
	e := query.NewEncoder(query.JSON, &out)
	if err := e.Columns(cols); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := e.Rows(rows); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(out) / int64(b.N))
}

type discard int64

func (d *discard) Write(p []byte) (int, error) { *d += discard(len(p)); return len(p), nil }

// A file of wide rows has small row groups: both its writer and DuckDB hold one in memory.
func TestParquetRowGroups(t *testing.T) {
	var out bytes.Buffer
	e := query.NewEncoder(query.Parquet, &out)
	if err := e.Columns([]query.Column{{Name: "s", Type: "VARCHAR"}}); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		c := textColumn("s", strings.Repeat(string(rune('a'+i)), 3<<20), strings.Repeat(string(rune('A'+i)), 3<<20))
		if err := e.Rows(&query.Rows{N: 2, Columns: []millstream.Column{c}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Close(&query.Answer{}); err != nil {
		t.Fatal(err)
	}
	f, err := parquet.OpenFile(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		t.Fatal(err)
	}
	rows, groups := f.NumRows(), f.RowGroups()
	if rows != 40 || len(groups) != 4 {
		t.Errorf("%d rows in %d row groups", rows, len(groups))
	}
	for _, g := range groups {
		if n := g.NumRows(); n > 12 {
			t.Errorf("a row group of %d rows", n)
		}
	}
}
