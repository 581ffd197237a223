package store_test

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/store"
	"github.com/millstream/millstream/store/storetest"
)

func TestSnapshot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	app, web, other := w.stream("app"), w.stream("web"), w.stream("other")
	indexed := []string{"id\x00"}
	app = must(w.UpdateStream(ctx, app.ID, store.StreamPatch{IndexedFields: &indexed}, w.entry("stream.update")))(t)
	schema := must(w.MergeFields(ctx, app.ID, []millstream.Field{field("n\x00", millstream.Int64)}))(t)
	app.Schema = schema
	w.publish(w.flush(0, 10, app, other), store.Published) // times equal LSNs
	w.publish(w.flush(10, 20, app, web), store.Published)
	w.publish(w.flush(20, 30, app), store.Published)

	key := func(name string) millstream.StreamKey {
		return millstream.StreamKey{Org: w.org, Signal: millstream.Logs, Name: name}
	}
	s := must(w.Snapshot(ctx, w.org, []millstream.StreamKey{key("app"), key("web"), key("absent")}, millstream.TimeRange{Start: 11, End: 20}))(t)
	byID := map[millstream.StreamID]store.Stream{}
	for _, st := range s.Streams {
		byID[st.ID] = st
	}
	if len(byID) != 2 || !reflect.DeepEqual(byID[app.ID], app) || !reflect.DeepEqual(byID[web.ID], web) {
		t.Fatalf("streams %+v, want %+v and %+v", s.Streams, app, web)
	}
	got := map[millstream.SegmentID]millstream.Segment{}
	for _, g := range s.Segments {
		if g.Written == 0 {
			t.Errorf("segment %s was never written", g.ID)
		}
		g.Written = 0
		got[g.ID] = g
	}
	want := map[millstream.SegmentID]millstream.Segment{}
	for _, st := range []store.Stream{app, web} {
		g := segment(w.wal, 10, 20, st, "attempt-1")
		want[g.ID] = g
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("segments %+v, want %+v", got, want)
	}
	if len(s.WALs) != 1 {
		t.Fatalf("WALs %+v", s.WALs)
	}
	if l := s.WALs[0]; l.ID != w.wal || l.Position != 30 || l.Node != w.node.ID || l.Addr != w.node.Addr || l.Incarnation != w.node.Incarnation || l.Clean || l.LastPublish.IsZero() || s.At.Before(l.LastPublish) {
		t.Fatalf("WAL %+v at %v", l, s.At)
	}

	all := millstream.TimeRange{Start: -1 << 62, End: 1 << 62}
	for name, c := range map[string]struct {
		org               millstream.OrgID
		keys              []millstream.StreamKey
		r                 millstream.TimeRange
		streams, segments int
	}{
		"every stream of a signal":      {w.org, []millstream.StreamKey{key("")}, all, 3, 5},
		"both ends of a segment count":  {w.org, []millstream.StreamKey{key("app")}, millstream.TimeRange{Start: 20, End: 21}, 1, 2},
		"the end of the range does not": {w.org, []millstream.StreamKey{key("app")}, millstream.TimeRange{Start: 5, End: 10}, 1, 1},
		"another signal":                {w.org, []millstream.StreamKey{{Signal: millstream.Traces}}, all, 0, 0},
		"no key":                        {w.org, nil, all, 0, 0},
		"another organization":          {storetest.Org(t, w.Store), []millstream.StreamKey{key("")}, all, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := must(w.Snapshot(ctx, c.org, c.keys, c.r))(t)
			if len(s.Streams) != c.streams || len(s.Segments) != c.segments || len(s.WALs) != 1 {
				t.Fatalf("%d streams, %d segments, %d WALs; want %d, %d, 1", len(s.Streams), len(s.Segments), len(s.WALs), c.streams, c.segments)
			}
		})
	}
}

// TestSnapshotOfSegmentsOfAnyWidth: whatever a segment's times are, a range has it if and only if they meet. Those of a day and those that are wider are looked up apart.
func TestSnapshotOfSegmentsOfAnyWidth(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	app := w.stream("app")
	const day = int64(24 * time.Hour)
	var all []millstream.Segment
	var edges []int64
	for _, at := range []int64{math.MinInt64, -day - 1, -3, 0, 1, 2, largeEnd.UnixNano(), math.MaxInt64 - 2*day} {
		for _, width := range []int64{0, 1, day - 3, day - 2, day - 1, day, day + 1, day + 2, day + 3, 2 * day} {
			g := segment(w.wal, 0, 1, app, fmt.Sprint(at, width))
			g.ID = millstream.SegmentID(uuid.NewString())
			g.MinTime, g.MaxTime = at, at+width
			all, edges = append(all, g), append(edges, at, at+width)
		}
	}
	f := w.flush(0, 1)
	f.Segments = all
	w.publish(f, store.Published)
	for _, edge := range edges {
		for _, r := range []millstream.TimeRange{{Start: edge, End: edge + 1}, {Start: edge - 1, End: edge}, {Start: edge + 1, End: edge + 2}, {Start: edge, End: math.MaxInt64}} {
			if r.Start > r.End {
				continue
			}
			var want, got []string
			for _, g := range all {
				if r.Overlaps(g.MinTime, g.MaxTime) {
					want = append(want, string(g.ID))
				}
			}
			for _, g := range must(w.Snapshot(ctx, w.org, []millstream.StreamKey{app.Key}, r))(t).Segments {
				got = append(got, string(g.ID))
			}
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Fatalf("%+v: %d segments, want %d", r, len(got), len(want))
			}
		}
	}
}
