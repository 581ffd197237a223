package store_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/store"
	"github.com/millstream/millstream/store/storetest"
)

func TestFootprints(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	app, web := w.stream("app"), w.stream("web")
	if first, last, err := w.FootprintSpan(ctx, w.org, ""); first != 0 || last != 0 || err != nil {
		t.Errorf("span of nothing: %d to %d, %v", first, last, err)
	}
	f, g := w.flush(0, 10, app, web), w.flush(10, 30, app)
	w.publish(f, store.Published)
	w.publish(g, store.Published)
	list := func(org millstream.OrgID, stream millstream.StreamID) (out []store.Footprint) {
		t.Helper()
		check(t, w.Footprints(ctx, org, stream, func(p store.Footprint) error { out = append(out, p); return nil }))
		slices.SortFunc(out, func(a, b store.Footprint) int { return int(a.MaxTime - b.MaxTime) })
		return out
	}
	if got, want := list(w.org, app.ID), []store.Footprint{{f.Segments[0].ID, 10, 1100}, {g.Segments[0].ID, 30, 1100}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	other := storetest.Org(t, w.Store)
	if all, none := list(w.org, ""), list(other, ""); len(all) != 3 || len(none) != 0 {
		t.Errorf("%v and of another organization %v", all, none)
	}
	for stream, want := range map[millstream.StreamID][2]int64{"": {10, 30}, web.ID: {10, 10}} {
		if first, last, err := w.FootprintSpan(ctx, w.org, stream); first != want[0] || last != want[1] || err != nil {
			t.Errorf("span of %q: %d to %d, %v", stream, first, last, err)
		}
	}
	enough, seen := errors.New("enough"), 0
	if err := w.Footprints(ctx, w.org, "", func(store.Footprint) error { seen++; return enough }); !errors.Is(err, enough) || seen != 1 {
		t.Errorf("went on after an error: %d, %v", seen, err)
	}

	id := f.Segments[0].ID
	if s, stream, err := w.LiveSegment(ctx, w.org, id); err != nil || s.ID != id || stream != "app" || s.Data.Length != 1000 {
		t.Errorf("%+v %q %v", s, stream, err)
	}
	check(t, w.DeleteStream(ctx, app.ID, w.entry("stream.delete")))
	if all := list(w.org, ""); len(all) != 1 || all[0].ID != f.Segments[1].ID {
		t.Errorf("after the deletion of a stream: %v", all)
	}
	for what, c := range map[string]struct {
		org millstream.OrgID
		id  millstream.SegmentID
	}{"another organization's": {other, f.Segments[1].ID}, "a dead one": {w.org, id}, "none": {w.org, millstream.SegmentID(uuid.NewString())}} {
		if _, _, err := w.LiveSegment(ctx, c.org, c.id); millstream.KindOf(err) != millstream.NotFound {
			t.Errorf("%s: %v", what, err)
		}
	}
}
