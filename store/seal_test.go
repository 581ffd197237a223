package store_test

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/store"
	"github.com/millstream/millstream/store/storetest"
)

const oneDay = int64(24 * time.Hour)

// catalogModel is what the catalog must say: the live segments of some streams, sealed or not. Live are they by id.
type catalogModel struct {
	*world
	r        *rand.Rand
	streams  []store.Stream
	position millstream.LSN
	live     map[millstream.SegmentID]millstream.Segment
}

func newCatalogModel(t testing.TB, seed uint64) *catalogModel {
	m, _ := newCatalogModelAt(t, seed)
	return m
}

// newCatalogModelAt also says where its database is.
func newCatalogModelAt(t testing.TB, seed uint64) (*catalogModel, string) {
	url := storetest.URL(t)
	w := worldOf(t, storetest.Open(t, url))
	return &catalogModel{
		world: w, r: rand.New(rand.NewPCG(seed, 0)), streams: []store.Stream{w.stream("a"), w.stream("b")}, live: map[millstream.SegmentID]millstream.Segment{},
	}, url
}

// put publishes n segments of a day of a stream; some begin the day before.
func (m *catalogModel) put(st store.Stream, day int64, n int) {
	m.t.Helper()
	f := m.flush(m.position, m.position+1)
	for range n {
		g := segment(m.wal, m.position, m.position+1, st, uuid.NewString())
		g.ID = millstream.SegmentID(uuid.NewString())
		g.MaxTime = day*oneDay + m.r.Int64N(oneDay)
		g.MinTime, g.Rows = g.MaxTime-m.r.Int64N(oneDay), 1+m.r.Int64N(100)
		g.Data.Key, g.Index.Key = string(g.ID)+".data", string(g.ID)+".index"
		f.Segments = append(f.Segments, g)
		m.live[g.ID] = g
	}
	m.position = m.publish(f, store.Published)
}

func (m *catalogModel) of(st store.Stream) (out []millstream.Segment) {
	for _, id := range slices.Sorted(maps.Keys(m.live)) {
		if m.live[id].Stream == st.ID {
			out = append(out, m.live[id])
		}
	}
	return out
}

// merge replaces two segments of a stream; sealed ones are unsealed before.
func (m *catalogModel) merge(st store.Stream) {
	m.t.Helper()
	all := m.of(st)
	if len(all) < 2 {
		return
	}
	r := store.Replacement{Node: m.node.ID, Incarnation: m.node.Incarnation, Output: all[0]}
	m.r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	out := &r.Output
	out.ID, out.Rows, out.Level, out.WAL, out.From, out.To = millstream.SegmentID(uuid.NewString()), 0, 1, "", 0, 0
	out.MinTime, out.MaxTime = 1<<62, -1<<62
	out.Data.Key, out.Index.Key = string(out.ID)+".data", string(out.ID)+".index"
	for _, g := range all[:2] {
		must(m.Unseal(ctx, g))(m.t)
		r.Inputs, out.Rows = append(r.Inputs, g.ID), out.Rows+g.Rows
		out.MinTime, out.MaxTime = min(out.MinTime, g.MinTime), max(out.MaxTime, g.MaxTime)
	}
	check(m.t, m.ReplaceSegments(ctx, r))
	for _, id := range r.Inputs {
		delete(m.live, id)
	}
	m.live[out.ID] = *out
}

func ids(all []millstream.Segment) (out []millstream.SegmentID) {
	for _, g := range all {
		out = append(out, g.ID)
	}
	slices.Sort(out)
	return out
}

// check compares every reader of the catalog with the model.
func (m *catalogModel) check() {
	m.t.Helper()
	r := millstream.TimeRange{Start: m.r.Int64N(6 * oneDay)}
	r.End = r.Start + m.r.Int64N(oneDay)
	keys := []millstream.StreamKey{m.streams[0].Key, m.streams[1].Key}
	var met []millstream.Segment
	objects := map[string]struct{}{}
	for _, g := range m.live {
		if r.Overlaps(g.MinTime, g.MaxTime) {
			met = append(met, g)
		}
		objects[g.Data.Key], objects[g.Index.Key] = struct{}{}, struct{}{}
	}
	same := func(what string, got, want []millstream.SegmentID) {
		m.t.Helper()
		if !slices.Equal(got, want) {
			m.t.Fatalf("%s: %d segments, want %d", what, len(got), len(want))
		}
	}
	snap := must(m.Snapshot(ctx, m.org, keys, r))(m.t).Segments
	same("snapshot", ids(snap), ids(met))
	for _, g := range snap {
		if want := m.live[g.ID]; g.Written == 0 || g.Data != want.Data || g.Index != want.Index || g.Rows != want.Rows || g.WAL != want.WAL || g.To != want.To || g.Level != want.Level {
			m.t.Fatalf("%+v, want %+v", g, want)
		}
	}
	whole := must(m.Streams(ctx, m.org, millstream.Logs))(m.t)
	for i, st := range m.streams {
		want := m.of(st)
		same("stream's", ids(must(m.StreamSegments(ctx, st.ID))(m.t)), ids(want))
		sum := store.Summarize(st, want)
		if got := whole[i]; got.Rows != sum.Rows || got.Bytes != sum.Bytes || got.Segments != sum.Segments || got.MinTime != sum.MinTime || got.MaxTime != sum.MaxTime {
			m.t.Fatalf("summary %+v, want %+v", got, sum)
		}
	}
	m.checkPlaced()
	for key := range objects {
		if named := must(m.Inventory(m.org).Named(ctx, store.Unmet{Keys: []string{key, "unknown"}}, false))(m.t); !slices.Equal(named, []string{key}) {
			m.t.Fatalf("of %s are named %v", key, named)
		}
		break
	}
	for _, key := range m.named() { // dead ones may be among them
		delete(objects, key)
	}
	if len(objects) > 0 {
		m.t.Fatalf("the objects %v of live segments are not listed", slices.Collect(maps.Keys(objects)))
	}
}

// checkPlaced compares what placement and the warmer read.
func (m *catalogModel) checkPlaced() {
	m.t.Helper()
	var all, placed, paged []millstream.SegmentID
	first, last := int64(1<<62), int64(0)
	for id, g := range m.live {
		all = append(all, id)
		first, last = min(first, g.MaxTime), max(last, g.MaxTime)
	}
	slices.Sort(all)
	check(m.t, m.Footprints(ctx, m.org, "", func(f store.Footprint) error {
		if g := m.live[f.ID]; f.MaxTime != g.MaxTime || f.Bytes != g.Data.Length+g.Index.Length {
			m.t.Errorf("%+v of %+v", f, g)
		}
		placed = append(placed, f.ID)
		return nil
	}))
	slices.Sort(placed)
	if !slices.Equal(placed, all) {
		m.t.Fatalf("%d footprints, want %d", len(placed), len(all))
	}
	if a, b, err := m.FootprintSpan(ctx, m.org, ""); err != nil || len(all) > 0 && (a != first || b != last) {
		m.t.Fatalf("span %d to %d, %v, want %d to %d", a, b, err, first, last)
	}
	at, most := store.Place{MaxTime: 1 << 62, ID: "ffffffff-ffff-ffff-ffff-ffffffffffff"}, 1+m.r.IntN(40)
	for {
		page := must(m.LiveSegments(ctx, at, most))(m.t)
		for _, g := range page {
			if g.MaxTime > at.MaxTime || g.MaxTime == at.MaxTime && g.ID >= at.ID {
				m.t.Fatalf("pages of %d: %s at %d comes after %+v", most, g.ID, g.MaxTime, at)
			}
			at, paged = store.Place{MaxTime: g.MaxTime, ID: g.ID}, append(paged, g.ID)
		}
		if len(page) < most {
			break
		}
	}
	slices.Sort(paged)
	if !slices.Equal(paged, all) {
		m.t.Fatalf("pages of %d have %d segments, want %d", most, len(paged), len(all))
	}
	if len(all) > 0 {
		id := all[m.r.IntN(len(all))]
		if g, stream, err := m.LiveSegment(ctx, m.org, id); err != nil || g.Data != m.live[id].Data || stream != "a" && stream != "b" {
			m.t.Fatalf("segment %s: %+v of %q, %v", id, g, stream, err)
		}
	}
}

// TestSealedSegmentsAreAsGoodAsRows: whatever is published, sealed, unsealed, merged, expired and collected in whatever order, each reader sees each live segment once.
func TestSealedSegmentsAreAsGoodAsRows(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	m := newCatalogModel(t, seed)
	sealed := 0
	for range 60 {
		st, day := m.streams[m.r.IntN(2)], m.r.Int64N(5)
		switch m.r.IntN(8) {
		case 0, 1, 2:
			m.put(st, day, 1+m.r.IntN(12))
		case 3, 4:
			sealed += must(m.SealDay(ctx, st.ID, day, 0, 1+m.r.IntN(10)))(t)
		case 5:
			m.merge(st)
		case 6:
			if all := m.of(st); len(all) > 0 {
				must(m.Unseal(ctx, all[m.r.IntN(len(all))]))(t)
			}
		case 7:
			m.collect()
		}
		m.check()
	}
	if sealed == 0 {
		t.Error("nothing was sealed")
	}
	check(t, m.DeleteStream(ctx, m.streams[0].ID, m.entry("stream.delete")))
	for _, g := range m.of(m.streams[0]) {
		delete(m.live, g.ID)
	}
	for m.collect() > 0 {
	}
	live := map[string]bool{}
	for _, g := range m.live {
		live[g.Data.Key], live[g.Index.Key] = true, true
	}
	garbage := must(m.Garbage(ctx, 10_000))(t)
	if len(garbage) == 0 {
		t.Error("a deleted stream left no garbage")
	}
	for _, key := range garbage {
		if live[key] {
			t.Errorf("the object %s of a live segment is garbage", key)
		}
	}
	for _, key := range m.named() {
		if !live[key] {
			t.Errorf("the object %s of a deleted stream is named", key)
		}
	}
}

// TestReadersDuringSeals: while days are sealed and unsealed, every reader counts the same rows.
func TestReadersDuringSeals(t *testing.T) {
	t.Parallel()
	m := newCatalogModel(t, 1)
	st, all := m.streams[0], millstream.TimeRange{Start: -1 << 62, End: 1 << 62}
	for day := range int64(3) {
		m.put(st, day, 20)
	}
	want := store.Summarize(st, m.of(st))
	reading, stop := context.WithCancel(ctx)
	var g sync.WaitGroup
	defer g.Wait()
	defer stop()
	reads := make(chan struct{})
	count := func(f func() (rows, segments int64, err error)) {
		g.Go(func() {
			for reading.Err() == nil {
				rows, segments, err := f()
				if err != nil && !errors.Is(err, context.Canceled) || err == nil && (rows != want.Rows || segments != want.Segments) {
					t.Errorf("%d rows in %d segments, %v; want %d in %d", rows, segments, err, want.Rows, want.Segments)
					stop()
				}
				select {
				case reads <- struct{}{}:
				case <-reading.Done():
				}
			}
		})
	}
	count(func() (int64, int64, error) {
		s, err := m.Snapshot(reading, m.org, []millstream.StreamKey{st.Key}, all)
		sum := store.Summarize(st, s.Segments)
		return sum.Rows, sum.Segments, err
	})
	count(func() (int64, int64, error) {
		s, err := m.StreamSegments(reading, st.ID)
		sum := store.Summarize(st, s)
		return sum.Rows, sum.Segments, err
	})
	count(func() (rows, segments int64, err error) {
		s, err := m.Streams(reading, m.org, millstream.Logs)
		if len(s) > 0 {
			rows, segments = s[0].Rows, s[0].Segments
		}
		return rows, segments, err
	})
	for range 40 {
		day := m.r.Int64N(3)
		if n := must(m.SealDay(ctx, st.ID, day, 0, 1))(t); n == 0 {
			for _, g := range m.of(st) {
				if g.MaxTime/oneDay == day {
					must(m.Unseal(ctx, g))(t)
				}
			}
		}
		for range 3 {
			select {
			case <-reads:
			case <-reading.Done():
				return
			}
		}
	}
}

// TestWhatIsNotSealed: young segments, too few, those of other days, those that span more than a day, and those that share an object.
func TestWhatIsNotSealed(t *testing.T) {
	t.Parallel()
	m := newCatalogModel(t, 2)
	st := m.streams[0]
	m.put(st, 1, 5)
	seal := func(day int64, age time.Duration, least, want int) {
		t.Helper()
		if n := must(m.SealDay(ctx, st.ID, day, age, least))(t); n != want {
			t.Errorf("%d segments were sealed, want %d", n, want)
		}
	}
	seal(1, time.Hour, 1, 0)
	seal(1, 0, 6, 0)
	seal(0, 0, 1, 0)
	f := m.flush(m.position, m.position+1)
	for _, change := range []func(g *millstream.Segment){
		func(g *millstream.Segment) { g.Data.Key, g.Index.Key = "pack", "pack" },
		func(g *millstream.Segment) { g.Data.Key, g.Index.Key, g.Stream = "pack", "pack", m.streams[1].ID },
		func(g *millstream.Segment) { g.MinTime -= 2 * oneDay },
	} {
		g := segment(m.wal, m.position, m.position+1, st, uuid.NewString())
		g.ID, g.MinTime, g.MaxTime = millstream.SegmentID(uuid.NewString()), oneDay, oneDay+1
		change(&g)
		f.Segments = append(f.Segments, g)
		m.live[g.ID] = g
	}
	m.publish(f, store.Published)
	seal(1, 0, 5, 5)
	seal(1, 0, 1, 0)
	m.check()
}

// TestSealedObstacles: a plan of merges gets the sealed segments of metrics that may hold samples of the same times as a row, and no others.
func TestSealedObstacles(t *testing.T) {
	t.Parallel()
	m := newCatalogModel(t, 8)
	st := must(m.EnsureStream(ctx, millstream.StreamKey{Org: m.org, Signal: millstream.Metrics, Name: "metrics"}))(t)
	for _, day := range []int64{3, 6, 9} { // each reaches into the day before
		m.put(st, day, 5)
		if n := must(m.SealDay(ctx, st.ID, day, 0, 1))(t); n != 5 {
			t.Fatalf("%d segments of day %d were sealed", n, day)
		}
	}
	candidates := func(rows, sealed int) {
		t.Helper()
		got := must(m.MergeCandidates(ctx, st.ID))(t)
		n := 0
		for _, c := range got {
			if c.Kept {
				n++
			}
		}
		if len(got)-n != rows || n != sealed {
			t.Fatalf("%d rows and %d sealed segments, want %d and %d", len(got)-n, n, rows, sealed)
		}
	}
	row := func(from, to int64) {
		t.Helper()
		g := segment(m.wal, m.position, m.position+1, st, uuid.NewString())
		g.MinTime, g.MaxTime = from, to
		f := m.flush(m.position, m.position+1)
		f.Segments = append(f.Segments, g)
		m.position = m.publish(f, store.Published)
	}
	candidates(0, 0)
	row(12*oneDay, 12*oneDay+1)
	candidates(1, 0)
	row(4*oneDay, 8*oneDay-1) // between the hours of day 3 and those of day 9, around day 6
	candidates(2, 5)
	row(2*oneDay, 4*oneDay)
	candidates(3, 10)
}

// TestASealedDayExpires as a whole, and its objects go after the grace, not before.
func TestASealedDayExpires(t *testing.T) {
	t.Parallel()
	m := newCatalogModel(t, 3)
	st := m.streams[0]
	m.put(st, 2, 5)
	must(m.SealDay(ctx, st.ID, 2, 0, 1))(t)
	key := m.of(st)[0].Index.Key
	if n := must(m.ExpireOld(ctx, m.node.ID, m.node.Incarnation, st.ID, 36_500))(t); n != 0 {
		t.Fatalf("%d segments expired too early", n)
	}
	if n := must(m.ExpireOld(ctx, m.node.ID, m.node.Incarnation, st.ID, 1))(t); n != 5 {
		t.Fatalf("%d segments expired, want 5", n)
	}
	clear(m.live)
	m.check()
	if n, _, err := m.CollectDead(ctx, time.Hour, 100); err != nil || n != 0 {
		t.Fatalf("%d segments were collected within the grace", n)
	}
	if named := must(m.Inventory(m.org).Named(ctx, store.Unmet{Keys: []string{key}}, false))(t); len(named) != 1 {
		t.Error("an object that readers may still ask for is named by nothing")
	}
	if n := m.collect(); n != 5 {
		t.Fatalf("%d segments were collected, want 5", n)
	}
	if garbage := must(m.Garbage(ctx, 100))(t); len(garbage) != 10 || !slices.Contains(garbage, key) {
		t.Fatalf("garbage %v, want the 10 objects", garbage)
	}
}

// TestAMergeIsRepeatedAfterItsSeal: its reply was lost, and the day was sealed before it was tried again. Who believes that it lost its race deletes live objects.
func TestAMergeIsRepeatedAfterItsSeal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	st := w.stream("app")
	w.publish(w.flush(0, 10, st), store.Published)
	w.publish(w.flush(10, 20, st), store.Published)
	r := w.merge(st)
	check(t, w.ReplaceSegments(ctx, r))
	if n := must(w.SealDay(ctx, st.ID, 0, 0, 1))(t); n != 1 {
		t.Fatalf("%d segments were sealed, want 1", n)
	}
	check(t, w.ReplaceSegments(ctx, r))
	w.wantMerged(st, r)
}

// TestSealedIndexesAreBuiltAnew: a segment whose index is lost, or lacks what its stream wants, comes out of its manifest, and is not sealed before it is mended.
func TestSealedIndexesAreBuiltAnew(t *testing.T) {
	t.Parallel()
	m := newCatalogModel(t, 4)
	st := m.streams[0]
	m.put(st, 1, 4)
	seal := func(want int) {
		t.Helper()
		if n := must(m.SealDay(ctx, st.ID, 1, 0, 1))(t); n != want {
			t.Fatalf("%d segments were sealed, want %d", n, want)
		}
		m.check()
	}
	outdated := func(want int) {
		t.Helper()
		all := must(m.OutdatedIndexes(ctx, m.org, nil, 10))(t)
		for _, id := range must(m.OutdatedManifests(ctx, m.org))(t) {
			all = append(all, must(m.UnsealOutdated(ctx, id))(t)...)
		}
		if len(all) != want {
			t.Fatalf("%d outdated indexes, want %d", len(all), want)
		}
		m.check()
	}
	seal(4)
	outdated(0)
	lost := m.of(st)[0]
	if !must(m.LoseIndex(ctx, lost))(t) {
		t.Fatal("a sealed segment's index cannot be lost")
	}
	outdated(1)
	seal(3)
	if n := must(m.Inventory(m.org).LoseIndexes(ctx, store.Unmet{Keys: []string{m.of(st)[1].Index.Key, "unknown"}}))(t); n != 1 {
		t.Fatalf("%d segments lost their index, want 1", n)
	}
	outdated(2)
	seal(2)
	wanted := []string{"user"}
	must(m.UpdateStream(ctx, st.ID, store.StreamPatch{IndexedFields: &wanted}, m.entry("stream.update")))(t)
	outdated(4)
	seal(0)
}
