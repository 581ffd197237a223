package store_test

import (
	"testing"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/store"
)

// TestLiveSegments: pages hold each live segment once, newest first, and no dead one.
func TestLiveSegments(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	app, web := w.stream("app"), w.stream("web")
	want := 0
	for i := range 9 { // times equal LSNs, so the two segments of a flush have equal times
		w.publish(w.flush(millstream.LSN(10*i), millstream.LSN(10*i+10), app, web), store.Published)
		want += 2
	}
	all := must(w.LiveSegments(ctx, store.Place{}, 1000))(t)
	if len(all) != want {
		t.Fatalf("%d segments, want %d", len(all), want)
	}
	for _, most := range []int{1, 3, want} {
		var at store.Place
		for i := 0; ; {
			page := must(w.LiveSegments(ctx, at, most))(t)
			for _, s := range page {
				if i >= want || s.ID != all[i].ID || s.Data != all[i].Data {
					t.Fatalf("pages of %d: segment %d is %s", most, i, s.ID)
				}
				if i > 0 && s.MaxTime > all[i-1].MaxTime {
					t.Errorf("segment %d is newer than the one before", i)
				}
				at, i = store.Place{MaxTime: s.MaxTime, ID: s.ID}, i+1
			}
			if len(page) < most {
				if i != want {
					t.Errorf("pages of %d have %d segments, want %d", most, i, want)
				}
				break
			}
		}
	}
	if err := w.DeleteStream(ctx, web.ID, w.entry("stream.delete")); err != nil {
		t.Fatal(err)
	}
	left := must(w.LiveSegments(ctx, store.Place{}, 1000))(t)
	if len(left) != want/2 {
		t.Errorf("%d segments after a stream was deleted, want %d", len(left), want/2)
	}
	for _, s := range left {
		if s.Stream != app.ID {
			t.Errorf("the segment %s of the deleted stream is listed", s.ID)
		}
	}
}
