package store_test

import (
	"errors"
	"reflect"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/store"
)

func TestPublishMovesThePositionAndShowsTheSegments(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	app, web := w.stream("app"), w.stream("web")
	if at := w.publish(w.flush(0, 10, app, web), store.Published); at != 10 {
		t.Fatalf("position %d, want 10", at)
	}
	w.publish(w.flush(10, 12, app), store.Published)
	got := w.live(app)
	want := []millstream.Segment{segment(w.wal, 0, 10, app, "attempt-1"), segment(w.wal, 10, 12, app, "attempt-1")}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("live segments\n%+v, want\n%+v", got, want)
	}
}

func TestPublishRepeated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	app, web := w.stream("app"), w.stream("web")
	first := w.flush(0, 10, app, web)
	w.publish(first, store.Published)
	w.publish(w.flush(10, 20, app), store.Published)

	t.Run("the same flush is already there", func(t *testing.T) {
		if at := w.publish(first, store.Already); at != 20 {
			t.Fatalf("position %d, want 20", at)
		}
	})
	t.Run("the same content in other objects is superseded", func(t *testing.T) {
		other := w.flush(0, 10)
		other.Segments = []millstream.Segment{segment(w.wal, 0, 10, app, "attempt-2"), segment(w.wal, 0, 10, web, "attempt-2")}
		w.publish(other, store.Superseded)
	})
	t.Run("a stream deleted since does not matter", func(t *testing.T) {
		check(t, w.DeleteStream(ctx, web.ID, w.entry("stream.delete")))
		w.publish(first, store.Already)
	})
	for name, change := range map[string]func(f *millstream.Flush){
		"other content":        func(f *millstream.Flush) { f.Checksum = "other" },
		"a part of a range":    func(f *millstream.Flush) { f.To = 5 },
		"another cut":          func(f *millstream.Flush) { f.To = 20 },
		"a range that is over": func(f *millstream.Flush) { f.From, f.To = 12, 18 },
	} {
		t.Run(name+" is refused", func(t *testing.T) {
			f := w.flush(0, 10, app)
			change(&f)
			if _, _, err := w.Publish(ctx, f); !errors.Is(err, store.ErrMismatch) {
				t.Fatalf("got %v, want ErrMismatch", err)
			}
		})
	}
	if n := len(w.live(app)); n != 2 {
		t.Fatalf("%d live segments, want 2", n)
	}
}

func TestPublishFromTheWrongPosition(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	app := w.stream("app")
	w.publish(w.flush(0, 10, app), store.Published)
	t.Run("behind: the database is older than the WAL believes", func(t *testing.T) {
		if at := w.publish(w.flush(15, 20, app), store.Behind); at != 10 {
			t.Fatalf("position %d, want 10", at)
		}
	})
	t.Run("the position inside the range", func(t *testing.T) {
		if _, _, err := w.Publish(ctx, w.flush(5, 20, app)); !errors.Is(err, store.ErrGap) {
			t.Fatalf("got %v, want ErrGap", err)
		}
	})
	t.Run("a range that runs backwards", func(t *testing.T) {
		if _, _, err := w.Publish(ctx, w.flush(20, 10)); err == nil {
			t.Fatal("no error")
		}
	})
	t.Run("a WAL without a row", func(t *testing.T) {
		f := w.flush(0, 10, app)
		f.WAL = millstream.WALID(uuid.NewString())
		if _, _, err := w.Publish(ctx, f); !errors.Is(err, store.ErrNoWAL) {
			t.Fatalf("got %v, want ErrNoWAL", err)
		}
	})
	if n := len(w.live(app)); n != 1 {
		t.Fatalf("%d live segments, want 1", n)
	}
}

func TestPublishIsFenced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	app := w.stream("app")
	old := w.flush(0, 10, app)
	fenced := func(f millstream.Flush) {
		t.Helper()
		if _, _, err := w.Publish(ctx, f); !errors.Is(err, store.ErrFenced) {
			t.Fatalf("got %v, want ErrFenced", err)
		}
	}
	w.start()
	fenced(old)
	if _, _, err := w.Publish(ctx, w.flush(0, 10, app)); !errors.Is(err, store.ErrForgotten) { // the new incarnation has not taken the WAL yet
		t.Fatalf("got %v, want ErrForgotten", err)
	}
	w.take(w.claim())
	w.publish(w.flush(0, 10, app), store.Published)
	fenced(old) // even to learn that its range is published

	other := w.node
	other.ID = "other"
	other.Incarnation = must(w.StartNode(ctx, other))(t)
	f := w.flush(10, 20, app)
	f.Node, f.Incarnation = other.ID, other.Incarnation
	fenced(f) // not its WAL

	f = w.flush(10, 20, app)
	f.Incarnation++
	if _, _, err := w.Publish(ctx, f); !errors.Is(err, store.ErrForgotten) {
		t.Fatalf("got %v, want ErrForgotten", err)
	}
}

// Once a newer start of the node is registered, nothing of the former one commits any more, not even a publish that was on its way.
func TestPublishEndsBeforeANewerStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	streams := w.streams(100)
	position := func() millstream.LSN {
		return must(w.Heartbeat(ctx, w.node, []millstream.WALID{w.wal}))(t).Positions[w.wal]
	}
	for range 10 {
		old := *w
		begun, ended := make(chan struct{}), make(chan error)
		first := position()
		go func() {
			close(begun)
			for at := first; ; {
				_, next, err := old.Publish(ctx, old.flush(at, at+1, streams...))
				if err != nil {
					ended <- err
					return
				}
				at = next
			}
		}()
		<-begun
		for position() == first { // until it is at work
		}
		w.start()
		then := position()
		if err := <-ended; !errors.Is(err, store.ErrFenced) {
			t.Fatalf("got %v, want ErrFenced", err)
		}
		if now := position(); now != then {
			t.Fatalf("position %d when the newer start was registered, %d later", then, now)
		}
		w.take(store.WALTake{ID: w.wal, Node: w.node.ID, Incarnation: w.node.Incarnation, Addr: w.node.Addr, Identity: "8:1", First: 1, Last: then})
	}
}

func TestPublishDropsSegmentsOfDeletedStreams(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	app, gone := w.stream("app"), w.stream("gone")
	w.publish(w.flush(0, 10, app, gone), store.Published)
	check(t, w.DeleteStream(ctx, gone.ID, w.entry("stream.delete")))
	w.publish(w.flush(10, 20, app, gone), store.Published)
	if n := len(w.live(app)); n != 2 {
		t.Fatalf("%d live segments of the kept stream, want 2", n)
	}
	if n := len(w.live(gone)); n != 0 {
		t.Fatalf("%d live segments of the deleted stream, want 0", n)
	}
	if again := w.stream("gone"); again.ID == gone.ID {
		t.Fatal("a deleted stream came back under its id")
	}
}

// Streams are deleted while flushes that hold rows of them are published: no segment of a deleted stream may stay live.
func TestPublishRacesWithDeletedStreams(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var gone []store.Stream
	position := millstream.LSN(0)
	for range 25 {
		st := w.stream("s")
		var wg sync.WaitGroup
		wg.Add(1)
		go func() {
			defer wg.Done()
			if err := w.DeleteStream(ctx, st.ID, w.entry("stream.delete")); err != nil {
				t.Error(err)
			}
		}()
		for range 4 {
			position = w.publish(w.flush(position, position+1, st), store.Published)
		}
		wg.Wait()
		gone = append(gone, st)
	}
	for _, st := range gone {
		if n := len(w.live(st)); n != 0 {
			t.Fatalf("%d live segments of a deleted stream", n)
		}
	}
}

// Many attempts at the same range at once: one of them publishes, the others learn that it is done.
func TestPublishConcurrently(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	app := w.stream("app")
	position := millstream.LSN(0)
	for range 10 {
		f := w.flush(position, position+10, app)
		outcomes := make(chan store.Outcome, 6)
		for range cap(outcomes) {
			go func() {
				o, _, err := w.Publish(ctx, f)
				if err != nil {
					t.Error(err)
				}
				outcomes <- o
			}()
		}
		count := map[store.Outcome]int{}
		for range cap(outcomes) {
			count[<-outcomes]++
		}
		if count[store.Published] != 1 || count[store.Already] != cap(outcomes)-1 {
			t.Fatalf("outcomes %v", count)
		}
		position += 10
	}
	if n := len(w.live(app)); n != 10 {
		t.Fatalf("%d live segments, want 10", n)
	}
}

func TestPublishClean(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	app := w.stream("app")
	clean := func() bool {
		t.Helper()
		for _, s := range must(w.Snapshot(ctx, w.org, nil, millstream.TimeRange{}))(t).WALs {
			if s.ID == w.wal {
				return s.Clean
			}
		}
		t.Fatal("the WAL is not registered")
		return false
	}
	final := w.flush(0, 0)
	final.Clean = true
	w.publish(final, store.Published)
	if !clean() {
		t.Fatal("not clean after an empty final publish")
	}
	w.take(w.claim())
	if clean() {
		t.Fatal("clean although it was taken again")
	}
	last := w.flush(0, 10, app)
	last.Clean = true
	w.publish(last, store.Published)
	w.publish(last, store.Already)
	if !clean() {
		t.Fatal("not clean after the final publish")
	}
	w.take(store.WALTake{ID: w.wal, Node: w.node.ID, Incarnation: w.node.Incarnation, Addr: w.node.Addr, Identity: "8:1", First: 1, Last: 10})
	w.publish(w.flush(10, 11, app), store.Published)
	w.publish(last, store.Already)
	if clean() {
		t.Fatal("a repeated final publish of a former range made the WAL clean")
	}
}
