package store

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/millstream/millstream/store/db"
)

var update = flag.Bool("update", false, "write the golden files anew")

// sealedRows are n rows as a stream's day has them: every field that a manifest keeps has a value that no other field has.
func sealedRows(n int) []db.Segment {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	id := func() string { return uuid.Must(uuid.NewRandomFromReader(reader{r})).String() }
	stream, rows := "0199a7c0-0000-7000-8000-000000000002", make([]db.Segment, n)
	for i := range rows {
		g := &rows[i]
		*g = db.Segment{
			ID: id(), OrgID: "0199a7c0-0000-7000-8000-000000000001", StreamID: stream, Signal: 2, State: "live",
			MinTime: 1_764_460_800_000_000_000 + int64(i)*389_000_000_000, RowCount: 40_000 + r.Int64N(1000), Level: int16(i % 3), SchemaVersion: 7 + int64(i%2),
			DataOffset: r.Int64N(1 << 30), DataLength: r.Int64N(1 << 40), IndexOffset: r.Int64N(1 << 30), IndexLength: r.Int64N(1 << 20),
			DataSum: fmt.Sprintf("%064x", r.Uint64()), IndexSum: fmt.Sprintf("%016x%048x", r.Uint64(), i), WalFrom: r.Int64N(1000), WalTo: r.Int64N(1 << 50),
			IndexVersion: 1 + int16(i%3), IndexFields: []string{"user", `a"b\c,{}`}, NodeID: fmt.Sprint("node-", i%2), Incarnation: 3 + int64(i), CreatedAt: time.Date(2025, 11, 30, 1, 2, i, 123456000, time.UTC),
		}
		g.MaxTime = g.MinTime + r.Int64N(1e12)
		g.DataKey = fmt.Sprintf("segments/%s/traces/%s/%s-3-%d.parquet", g.OrgID, stream, g.ID, i)
		g.IndexKey = strings.Replace(g.DataKey, ".parquet", ".index", 1)
		if i%2 == 1 {
			wal := id()
			g.WalID = &wal
		}
	}
	return rows
}

type reader struct{ r *rand.Rand }

func (r reader) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(r.r.Uint32())
	}
	return len(p), nil
}

func unpack(rows []db.Segment, data []byte) ([]db.Segment, error) {
	m := db.ManifestDataRow{Data: data}
	if len(rows) > 0 {
		m.OrgID, m.StreamID, m.Signal = rows[0].OrgID, rows[0].StreamID, rows[0].Signal
	}
	return unpackRows(m)
}

func TestManifestsGiveBackTheirRows(t *testing.T) {
	odd := sealedRows(2) // what no segment has, and the table allows
	odd[0].MinTime, odd[0].MaxTime, odd[0].RowCount = math.MinInt64, math.MaxInt64, math.MaxInt64
	odd[0].DataSum, odd[0].IndexSum, odd[0].DataKey, odd[0].NodeID = "", "ABCD", "elsewhere", ""
	odd[1].Level, odd[1].DataSum, odd[1].IndexSum = math.MinInt16, "abc", "no hex"
	odd[1].IndexKey = odd[1].ID + "/" + odd[1].ID
	for name, rows := range map[string][]db.Segment{"none": {}, "one": sealedRows(1), "a day": sealedRows(222), "odd": odd} {
		got, err := unpack(rows, packRows(rows))
		if err != nil || !reflect.DeepEqual(got, rows) {
			t.Errorf("%s: %v; got\n%+v, want\n%+v", name, err, got, rows)
		}
	}
	if rows := sealedRows(222); len(packRows(rows)) > 140*len(rows) {
		t.Errorf("%d bytes for %d rows", len(packRows(rows)), len(rows))
	}
}

// TestManifestsFit: what is sealed is read again also if all that may be long is as long as it may be: as many fields are indexed as a stream can have, with the longest names.
func TestManifestsFit(t *testing.T) {
	rows := sealedRows(1400)
	if n := fitting(rows); n != len(rows) {
		t.Errorf("%d of %d usual rows fit", n, len(rows))
	}
	var names []string
	for i := range maxIndexedFields {
		names = append(names, fmt.Sprintf("%0*d", maxFieldName, i))
	}
	for i := range rows {
		rows[i].IndexFields = names
	}
	if _, err := unpack(rows, packRows(rows)); !errors.Is(err, errDamaged) {
		t.Fatalf("%v, want these to be too large for one manifest", err)
	}
	n := fitting(rows)
	if n < 500 {
		t.Errorf("%d rows fit, want 500 or more", n)
	}
	if got, err := unpack(rows, packRows(rows[:n])); err != nil || len(got) != n {
		t.Errorf("%d rows and %v, want %d", len(got), err, n)
	}
}

// TestManifestsKeepEveryColumn: a column that the table gets later must be in the encoding, or it would be lost by sealing.
func TestManifestsKeepEveryColumn(t *testing.T) {
	rows := sealedRows(2)
	fields := reflect.ValueOf(rows[1])
	for i := range fields.NumField() {
		name := fields.Type().Field(i).Name
		if fields.Field(i).IsZero() && name != "DeadAt" { // nil of what is live
			t.Errorf("the test leaves %s zero, so it does not show whether a manifest keeps it", name)
		}
	}
}

// TestManifestGolden reads what an earlier version wrote.
func TestManifestGolden(t *testing.T) {
	rows := sealedRows(5)
	if *update {
		if err := os.WriteFile("testdata/manifest-1", packRows(rows), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile("testdata/manifest-1")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := unpack(rows, data); err != nil || !reflect.DeepEqual(got, rows) {
		t.Fatalf("%v; got\n%+v, want\n%+v", err, got, rows)
	}
	data[0]++
	if _, err := unpack(rows, data); err == nil || errors.Is(err, errDamaged) || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("a manifest of a later version: %v", err)
	}
}

func TestDamagedManifestsAreRefused(t *testing.T) {
	rows := sealedRows(20)
	data := packRows(rows)
	for i := range data {
		bad := bytes.Clone(data)
		bad[i] ^= 1 << (i % 8)
		if _, err := unpack(rows, bad); err == nil {
			t.Fatalf("bit %d of byte %d is wrong, and it was read", i%8, i)
		}
		if _, err := unpack(rows, data[:i]); err == nil {
			t.Fatalf("it was read when cut to %d bytes", i)
		}
	}
	if _, err := unpack(rows, append(bytes.Clone(data), 0)); err == nil {
		t.Fatal("it was read with a byte too many")
	}
}

// FuzzUnpackManifest: whatever is inside of a frame whose checksum is right ends in rows or an error, and rows are packed and read as the same again.
func FuzzUnpackManifest(f *testing.F) {
	for _, n := range []int{0, 1, 3} {
		data := packRows(sealedRows(n))
		plain, err := manifestDecoder().DecodeAll(data[manifestHeader:], nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(plain)
		f.Add(plain[:len(plain)/2])
	}
	f.Fuzz(func(t *testing.T, plain []byte) {
		rows, err := unpack(nil, frame(plain))
		if err != nil {
			return
		}
		again, err := unpack(nil, packRows(rows))
		if err != nil || !reflect.DeepEqual(again, rows) {
			t.Fatalf("%v; got\n%+v, want\n%+v", err, again, rows)
		}
	})
}
