package store_test

import (
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/store"
	"github.com/millstream/millstream/store/storetest"
)

// collect forgets up to 100 dead segments, none of which an unreadable manifest holds.
func (w *world) collect() int {
	w.t.Helper()
	n, unreadable, err := w.CollectDead(ctx, 0, 100)
	check(w.t, err)
	if len(unreadable) > 0 {
		w.t.Fatal(unreadable)
	}
	return n
}

// named is all objects that the catalog names of the organization.
func (w *world) named() (keys []string) {
	w.t.Helper()
	v := w.Inventory(w.org)
	check(w.t, v.Move(ctx, "z"))
	check(w.t, v.Unmet(ctx, func(u store.Unmet) error {
		keys = append(keys, u.Keys...)
		return nil
	}))
	return keys
}

// manifestReads is how many manifests were read, wherever from.
func (w *world) manifestReads() int {
	w.t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(w.Collector())
	families, err := r.Gather()
	check(w.t, err)
	for _, f := range families {
		if f.GetName() == "millstream_store_manifests_read_total" {
			return int(f.GetMetric()[0].GetCounter().GetValue() + f.GetMetric()[1].GetCounter().GetValue())
		}
	}
	w.t.Fatal("reads of manifests are not counted")
	return 0
}

// damage breaks the manifests of a day, whose segments are no longer known to anybody.
func (m *catalogModel) damage(url string, day int64) {
	m.t.Helper()
	execSQL(m.t, url, "UPDATE manifests SET data = set_byte(data, length(data) - 1, 255 - get_byte(data, length(data) - 1)) WHERE day = $1", day)
}

// stretches walks over keys, two of each segment and an even number at a time, and returns those that nothing names, and those that are named and not among them.
func stretches(t *testing.T, v *store.Inventory, keys []string, each int, between func()) (unknown, absent []string) {
	t.Helper()
	slices.Sort(keys)
	for part := range slices.Chunk(append(keys, "y", "z"), each) {
		between()
		check(t, v.Move(ctx, part[len(part)-1]))
		for _, key := range part {
			if key < "y" && !v.Meet(key) {
				unknown = append(unknown, key)
			}
		}
		check(t, v.Unmet(ctx, func(u store.Unmet) error {
			found, err := v.Named(ctx, u, false)
			absent = append(absent, found...)
			return err
		}))
	}
	slices.Sort(absent)
	return unknown, absent
}

// keys are the objects of the live segments, and apart from them those of one in so many; 0: of none.
func (m *catalogModel) keys(without int) (some, rest []string) {
	for i, g := range append(m.of(m.streams[0]), m.of(m.streams[1])...) {
		if without > 0 && i%without == 0 {
			rest = append(rest, g.Data.Key, g.Index.Key)
		} else {
			some = append(some, g.Data.Key, g.Index.Key)
		}
	}
	slices.Sort(rest)
	return some, rest
}

// TestAnInventoryReadsEachManifestOnce, however many stretches it lies in, and once more if an object that it names is not there.
func TestAnInventoryReadsEachManifestOnce(t *testing.T) {
	t.Parallel()
	m := newCatalogModel(t, 11)
	const days = 12
	for day := range int64(days) {
		m.put(m.streams[0], day, 10)
		if n := must(m.SealDay(ctx, m.streams[0].ID, day, 0, 1))(t); n != 10 {
			t.Fatalf("%d segments were sealed, want 10", n)
		}
	}
	m.put(m.streams[1], 3, 10)
	for _, c := range []struct {
		without, most int
	}{{0, days}, {7, 2 * days}} {
		keys, rest := m.keys(c.without)
		before := m.manifestReads()
		unknown, absent := stretches(t, m.Inventory(m.org), append(keys, "7unknown.data", "7unknown.index"), 6, func() {})
		if n := m.manifestReads() - before; n < days || n > c.most {
			t.Errorf("%d reads of %d manifests, want %d at most", n, days, c.most)
		}
		if !slices.Equal(unknown, []string{"7unknown.data", "7unknown.index"}) || !slices.Equal(absent, rest) {
			t.Errorf("unknown %v, absent %d of %d objects", unknown, len(absent), len(rest))
		}
	}
	v := m.Inventory(m.org)
	keys, _ := m.keys(0)
	stretches(t, v, keys, 6, func() {})
	before := m.manifestReads()
	for range 20 { // as often as there are pages of orphans
		if found := must(v.Named(ctx, store.Unmet{Keys: []string{"7unknown.data", "7unknown.index"}}, true))(t); len(found) != 0 {
			t.Fatalf("%v are named", found)
		}
	}
	if n := m.manifestReads() - before; n != 0 {
		t.Errorf("%d manifests were read again for objects that were not in them", n)
	}
}

// TestAnInventoryWhileDaysAreSealed and unsealed: no object that is there is unknown by its exact name, and none is absent.
func TestAnInventoryWhileDaysAreSealed(t *testing.T) {
	t.Parallel()
	m := newCatalogModel(t, 12)
	for day := range int64(4) {
		m.put(m.streams[0], day, 12)
		m.put(m.streams[1], day, 12)
	}
	keys, _ := m.keys(0)
	v := m.Inventory(m.org)
	sealed := 0
	unknown, absent := stretches(t, v, keys, 4, func() {
		if st := m.streams[m.r.IntN(2)]; m.r.IntN(2) == 0 {
			sealed += must(m.SealDay(ctx, st.ID, m.r.Int64N(4), 0, 1))(t)
		} else {
			all := m.of(st)
			must(m.Unseal(ctx, all[m.r.IntN(len(all))]))(t)
		}
	})
	if sealed == 0 {
		t.Error("nothing was sealed")
	}
	if len(absent) > 0 {
		t.Errorf("%v are named and said to be absent", absent)
	}
	if named := must(v.Named(ctx, store.Unmet{Keys: unknown}, true))(t); len(named) != len(unknown) {
		t.Errorf("of %d objects that were not met %d are named", len(unknown), len(named))
	}
}

// TestAnInventoryOutlivesAManifest that expires during the walk, with its objects, whether what it held is remembered or not.
func TestAnInventoryOutlivesAManifest(t *testing.T) {
	t.Parallel()
	m, url := newCatalogModelAt(t, 16)
	st := m.streams[0]
	m.put(st, 1, 12)
	m.put(m.streams[1], 1, 4)
	must(m.SealDay(ctx, st.ID, 1, 0, 1))(t)
	for name, walker := range map[string]*store.Store{"remembered": m.Store, "forgotten": storetest.Open(t, url)} {
		v, keys := walker.Inventory(m.org), m.named()
		slices.Sort(keys)
		check(t, v.Move(ctx, keys[3]))
		for _, key := range keys[:4] {
			v.Meet(key)
		}
		check(t, v.Unmet(ctx, func(u store.Unmet) error { t.Errorf("%s: %v are absent", name, u.Keys); return nil }))
		must(m.Unseal(ctx, m.of(st)[0]))(t)
		must(m.SealDay(ctx, st.ID, 1, 0, 1))(t)
		m.collect() // the first manifest, which was replaced, is gone
		check(t, v.Move(ctx, "z"))
		check(t, v.Unmet(ctx, func(u store.Unmet) error {
			found, err := v.Named(ctx, u, false)
			for _, key := range keys[4:] {
				if i := slices.Index(found, key); i >= 0 {
					found = slices.Delete(found, i, i+1)
				}
			}
			if len(found) > 0 {
				t.Errorf("%s: %v are absent", name, found)
			}
			return err
		}))
	}
}

// TestSealedIndexesAreLost by the walk that misses them, of the one manifest that names them.
func TestSealedIndexesAreLost(t *testing.T) {
	t.Parallel()
	m := newCatalogModel(t, 13)
	st := m.streams[0]
	for day := range int64(3) {
		m.put(st, day, 5)
		must(m.SealDay(ctx, st.ID, day, 0, 1))(t)
	}
	lost := m.of(st)[4]
	var keys []string
	for _, key := range m.named() {
		if key != lost.Index.Key {
			keys = append(keys, key)
		}
	}
	v := m.Inventory(m.org)
	slices.Sort(keys)
	check(t, v.Move(ctx, "z"))
	for _, key := range keys {
		if !v.Meet(key) {
			t.Fatalf("%s is unknown", key)
		}
	}
	n := int64(0)
	check(t, v.Unmet(ctx, func(u store.Unmet) (err error) {
		if !slices.Equal(u.Keys, []string{lost.Index.Key}) {
			t.Errorf("%v are absent, want %s", u.Keys, lost.Index.Key)
		}
		n, err = v.LoseIndexes(ctx, u)
		return err
	}))
	all := must(m.OutdatedIndexes(ctx, m.org, nil, 10))(t)
	if n != 1 || len(all) != 1 || all[0].ID != lost.ID {
		t.Fatalf("%d indexes were lost, %+v are outdated", n, all)
	}
	m.check()
}

// TestADamagedManifestStopsNoOther: dead ones are collected, others are walked over, and of its own objects none is unknown.
func TestADamagedManifestStopsNoOther(t *testing.T) {
	t.Parallel()
	m, url := newCatalogModelAt(t, 14)
	st := m.streams[0]
	for day := range int64(3) {
		m.put(st, day, 5)
		must(m.SealDay(ctx, st.ID, day, 0, 1))(t)
	}
	m.put(m.streams[1], 1, 5)
	keys, _ := m.keys(0)
	m.damage(url, 1)
	v := m.Inventory(m.org)
	unknown, absent := stretches(t, v, append(keys, "x.data", "x.index"), 4, func() {})
	if n := len(v.Unreadable()); n != 1 || len(absent) != 0 || !slices.Contains(unknown, "x.data") {
		t.Errorf("%d manifests are unreadable, unknown %v, absent %v", n, unknown, absent)
	}
	if slices.ContainsFunc(unknown, func(key string) bool { return slices.Contains(keys, key) }) {
		t.Errorf("%v are unknown", unknown)
	}
	for _, most := range []int{6, 100} { // the warmer's pages
		if page := must(m.LiveSegments(ctx, store.Place{}, most))(t); len(page) != min(most, 15) || slices.ContainsFunc(page, func(g millstream.Segment) bool { return g.Stream == st.ID && g.MaxTime/oneDay == 1 }) {
			t.Errorf("a page of %d has %d segments, want none of the damaged day and all others", most, len(page))
		}
	}
	check(t, m.DeleteStream(ctx, st.ID, m.entry("stream.delete")))
	n, unreadable, err := m.CollectDead(ctx, 0, 100)
	if err != nil || n != 10 || len(unreadable) != 1 {
		t.Fatalf("%d segments were collected, %v, %v; want 10 of two manifests, and one unreadable", n, unreadable, err)
	}
	if n, unreadable, err = m.CollectDead(ctx, 0, 100); err != nil || n != 0 || len(unreadable) != 1 {
		t.Fatalf("%d segments were collected, %v, %v", n, unreadable, err)
	}
	if garbage := must(m.Garbage(ctx, 100))(t); len(garbage) != 20 {
		t.Fatalf("%d objects are garbage, want 20", len(garbage))
	}
}

// TestOutdatedManifestsAreUnsealedOneByOne, newest first, each read once; one that is damaged stops no other.
func TestOutdatedManifestsAreUnsealedOneByOne(t *testing.T) {
	t.Parallel()
	m, url := newCatalogModelAt(t, 15)
	for day := range int64(4) {
		for _, st := range m.streams {
			m.put(st, day, 3)
			must(m.SealDay(ctx, st.ID, day, 0, 1))(t)
		}
	}
	wanted := []string{"user"}
	must(m.UpdateStream(ctx, m.streams[0].ID, store.StreamPatch{IndexedFields: &wanted}, m.entry("stream.update")))(t)
	before := m.manifestReads()
	if rows := must(m.OutdatedIndexes(ctx, m.org, nil, 100))(t); len(rows) != 0 {
		t.Fatalf("%d rows are outdated before a manifest is unsealed", len(rows))
	}
	manifests := must(m.OutdatedManifests(ctx, m.org))(t)
	if n := m.manifestReads() - before; len(manifests) != 4 || n != 0 {
		t.Fatalf("%d manifests are listed, of which %d were read; want 4 of 0", len(manifests), n)
	}
	m.damage(url, 2)
	day := int64(3)
	for i, id := range manifests {
		all, err := m.UnsealOutdated(ctx, id)
		if day == 2 {
			wantKind(t, err, millstream.Internal)
		} else if err != nil || len(all) != 3 || all[0].MaxTime/oneDay != day || all[0].Stream != m.streams[0].ID || !slices.Equal(all[0].Wanted, wanted) {
			t.Fatalf("manifest %d: %+v, %v", i, all, err)
		}
		if n := m.manifestReads() - before; n != i+1 {
			t.Fatalf("%d reads of %d manifests", n, i+1)
		}
		day--
	}
	if all := must(m.UnsealOutdated(ctx, manifests[0]))(t); len(all) != 0 {
		t.Fatalf("%d segments of a manifest that has ended", len(all))
	}
}
