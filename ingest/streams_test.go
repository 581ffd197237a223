package ingest

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/store"
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

// hanging is a catalog that answers once and then no more, as one behind a network that lost it.
type hanging struct{ asked atomic.Int64 }

func (h *hanging) EnsureStream(ctx context.Context, k millstream.StreamKey) (store.Stream, error) {
	if h.asked.Add(1) == 1 {
		return store.Stream{ID: "one", Key: k}, nil
	}
	<-ctx.Done()
	return store.Stream{}, ctx.Err()
}

// A known stream costs no write the time that a hanging database takes to fail: a router would give the write up before.
func TestAKnownStreamWaitsLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hanging{}
		s := NewStreams(h, time.Now)
		k := millstream.StreamKey{Org: testOrg, Signal: millstream.Logs, Name: "app"}
		for range 90 {
			begin := time.Now()
			if id, err := s.Resolve(t.Context(), k); err != nil || id != "one" {
				t.Fatalf("%s, %v", id, err)
			}
			if took := time.Since(begin); took > refreshPatience {
				t.Fatalf("a write waited for %s", took)
			}
			time.Sleep(time.Second)
		}
		if n := h.asked.Load(); n < 5 {
			t.Errorf("asked %d times in 90 s", n)
		}
		if _, err := s.Resolve(t.Context(), millstream.StreamKey{Org: testOrg, Signal: millstream.Logs, Name: "new"}); millstream.KindOf(err) != millstream.Unavailable {
			t.Errorf("a new stream: %v", err)
		}
		time.Sleep(catalogTimeout) // the last look-up ends
	})
}

// A stream is found by other writes from the moment on that it is learnt: its fields and their limit must be there by then, or the first rows go into overflow.
func TestALearntStreamIsFoundWhole(t *testing.T) {
	t.Parallel()
	st := store.Stream{ID: "one", Key: millstream.StreamKey{Org: testOrg, Signal: millstream.Logs, Name: "app"}}
	b := rows("app", 0, 3)
	for range 3000 {
		s := newStreams(&hanging{}, 100, time.Now)
		var finders sync.WaitGroup
		for range 4 {
			finders.Go(func() {
				for {
					if found := s.lookup(st.ID); found != nil {
						if _, moved := found.admit(b); moved > 0 {
							t.Errorf("%d values went into overflow", moved)
						}
						return
					}
					runtime.Gosched()
				}
			})
		}
		s.learn(st)
		finders.Wait()
	}
}
