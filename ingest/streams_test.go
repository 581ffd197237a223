package ingest

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/millstream/millstream"
)

// A record may pass two limits: the builder's of one batch, and the stream's. Both leave their fields in one flat object.
func TestOverflowOfABatchThatOverflowedBefore(t *testing.T) {
	b := millstream.NewBuilder(millstream.Limits{MaxColumns: 2})
	for i := range 4 {
		b.Int([]byte(fmt.Sprintf("f%d", i)), int64(i))
	}
	if err := b.Commit(1); err != nil {
		t.Fatal(err)
	}
	b.Int([]byte("f1"), 7) // a record without fields beyond the builder's limit
	if err := b.Commit(2); err != nil {
		t.Fatal(err)
	}
	batch := b.Batch()
	over := -1
	for i := range batch.Columns {
		if batch.Columns[i].Name == "f1" {
			over = i
		}
	}
	out, moved := overflow(batch, []int{over})
	if moved != 2 || out.Column("f1") != nil {
		t.Fatalf("moved %d, columns %v", moved, out.Columns)
	}
	for row, want := range []string{`{"f1":1,"f2":2,"f3":3}`, `{"f1":7}`} {
		var got map[string]any
		if err := json.Unmarshal([]byte(out.Column(millstream.OverflowField).Str(row)), &got); err != nil {
			t.Fatal(err)
		}
		if b, _ := json.Marshal(got); string(b) != want {
			t.Errorf("row %d: %s, want %s", row, b, want)
		}
	}
}

// The catalog announces every stream that is made or changed, and what is cached of it is dropped then. Fields that only unflushed rows have must not be
// forgotten with it: they count against the limit.
func TestAnAnnouncedStreamKeepsItsFields(t *testing.T) {
	s := newSite(t)
	s.start()
	record := func(names ...string) *millstream.Batch {
		b := millstream.NewBuilder(millstream.Limits{})
		for _, n := range names {
			b.Int([]byte(n), 1)
		}
		if err := b.Commit(1); err != nil {
			t.Fatal(err)
		}
		return b.Batch()
	}
	k := millstream.StreamKey{Org: testOrg, Signal: millstream.Logs, Name: "announced"}
	streams := newStreams(s.model, 2, s.w.streams.now)
	first, err := streams.resolve(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	first.admit(record("a", "b"))
	for range 2 {
		streams.forget(first.id)
		if streams.lookup(first.id) != nil {
			t.Fatal("a forgotten stream is still known")
		}
		again, err := streams.resolve(t.Context(), k)
		if err != nil {
			t.Fatal(err)
		}
		if _, moved := again.admit(record("b", "c")); moved != 1 {
			t.Errorf("%d fields moved to the overflow, want the one beyond the limit", moved)
		}
	}
	s.model.deleteStream(first.id)
	streams.forget(first.id)
	fresh, err := streams.resolve(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	if _, moved := fresh.admit(record("c", "d")); moved != 0 || fresh.id == first.id {
		t.Errorf("a stream made anew has the fields of the one before: %d moved", moved)
	}
}
