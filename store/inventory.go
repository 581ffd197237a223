package store

import (
	"context"
	"errors"
	"hash/maphash"
	"maps"
	"slices"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/store/db"
)

// Inventory says what the catalog names of an organization's objects, along one walk over their keys in order: Move to the end of a stretch, Meet each object there is in
// it, and Unmet gives what is named and was not met; then the next stretch. None may end between the objects of one segment. The keys of a manifest are in no order of time, so that it lies in nearly all stretches of its
// stream: it is read once, where the walk comes to it, and its keys are kept as hashes until they are met, some 36 bytes each for as long as the walk is in one stream. Not
// safe for concurrent use.
type Inventory struct {
	s           *Store
	org         string
	above, upto string              // the stretch
	rows        map[string]struct{} // what rows name in it, and was not met
	seed        maphash.Seed        // two keys that share a hash do not share it the next time
	sealed      map[uint64]*listed  // what manifests name, and was not met
	manifests   map[string]*listed  // all that were read, by id
	walked      []*listed           // those whose last key the walk has not passed
	unreadable  []error
}

// listed is a manifest that was read.
type listed struct {
	id, first, last string
	left            int  // keys that were not met
	whole           bool // every stretch that it lies in was compared with it: whatever was not met is not in it
	damaged         bool // nobody knows which objects between its first and its last key it names
}

// Inventory begins a walk.
func (s *Store) Inventory(org millstream.OrgID) *Inventory {
	return &Inventory{s: s, org: string(org), seed: maphash.MakeSeed(), sealed: map[uint64]*listed{}, manifests: map[string]*listed{}}
}

// Move reads what the catalog names up to a key, above that of the call before. What is published or sealed later, the walk may not know.
func (v *Inventory) Move(ctx context.Context, upto string) error {
	v.above, v.upto = v.upto, upto
	_, err := still(ctx, v.s, func(q *db.Queries) (struct{}, error) {
		rows, err := q.ObjectRows(ctx, db.ObjectRowsParams{OrgID: v.org, Above: v.above, Upto: upto})
		if err != nil {
			return struct{}{}, err
		}
		v.rows = make(map[string]struct{}, 2*len(rows))
		for _, r := range rows {
			v.rows[r.DataKey], v.rows[r.IndexKey] = struct{}{}, struct{}{}
		}
		return struct{}{}, v.enlist(ctx, q)
	})
	return fail(err, "list the objects of organization %s", v.org)
}

// enlist reads the stretch's manifests that the walk has not met before, as many at a time as hold the segments of a full one.
func (v *Inventory) enlist(ctx context.Context, q *db.Queries) error {
	found, err := q.ManifestsBetween(ctx, db.ManifestsBetweenParams{OrgID: v.org, Above: v.above, Upto: v.upto})
	if err != nil {
		return err
	}
	var page []string
	segments := int32(0)
	for i, m := range found {
		if v.manifests[m.ID] == nil {
			v.manifests[m.ID] = &listed{id: m.ID, first: m.FirstKey, last: m.LastKey, whole: m.FirstKey > v.above}
			page, segments = append(page, m.ID), segments+m.Segments
		}
		if segments < maxSealed && i < len(found)-1 {
			continue
		}
		if err := v.s.eachManifest(ctx, q, page, false, v.list); err != nil {
			return err
		}
		page, segments = page[:0], 0
	}
	return nil
}

// list takes the keys of a manifest. Those of stretches that the walk has passed were compared when their segments were rows.
func (v *Inventory) list(id string, segments []millstream.Segment, err error) error {
	m := v.manifests[id]
	v.walked = append(v.walked, m)
	if err != nil {
		m.damaged = true
		v.unreadable = append(v.unreadable, err)
		return nil
	}
	for i := range segments {
		if g := &segments[i]; g.Data.Key > v.above {
			v.expect(m, g.Data.Key)
			v.expect(m, g.Index.Key)
		}
	}
	return nil
}

func (v *Inventory) expect(m *listed, key string) {
	if h := maphash.String(v.seed, key); v.sealed[h] == nil { // an index may lie in its data's object
		v.sealed[h] = m
		m.left++
	}
}

// Meet says whether the catalog names an object of the stretch. Of one that only a manifest may name that cannot be read, it says so too.
func (v *Inventory) Meet(key string) bool {
	_, named := v.rows[key]
	delete(v.rows, key)
	h := maphash.String(v.seed, key)
	if m := v.sealed[h]; m != nil { // perhaps beside a row, if it was unsealed since
		delete(v.sealed, h)
		m.left--
		return true
	}
	if named {
		return true
	}
	return slices.ContainsFunc(v.walked, func(m *listed) bool { return m.damaged && key >= m.first && key <= m.last })
}

// Unmet gives what was named and not met: the objects that rows of the stretch name, and those of each manifest that the walk has passed, which is read once more for
// them. An error of f ends it.
func (v *Inventory) Unmet(ctx context.Context, f func(Unmet) error) error {
	if len(v.rows) > 0 {
		if err := f(Unmet{Keys: slices.Sorted(maps.Keys(v.rows))}); err != nil {
			return err
		}
	}
	for i, m := range v.walked {
		if m.last > v.upto {
			continue
		}
		v.walked[i] = nil
		if m.left == 0 {
			continue
		}
		u := Unmet{manifest: m.id}
		err := v.s.eachSealed(ctx, v.s.q, []string{m.id}, func(g millstream.Segment) error {
			for _, key := range []string{g.Data.Key, g.Index.Key} {
				if h := maphash.String(v.seed, key); v.sealed[h] == m {
					delete(v.sealed, h)
					u.Keys = append(u.Keys, key)
				}
			}
			return nil
		})
		if errors.Is(err, errGone) { // it ended during the walk, longer than the grace ago: its objects may be gone as well
			continue
		}
		if err != nil {
			return fail(err, "find the objects of manifest %s that are not in the store", m.id)
		}
		slices.Sort(u.Keys)
		if err := f(u); err != nil {
			return err
		}
	}
	v.walked = slices.DeleteFunc(v.walked, func(m *listed) bool { return m == nil })
	return nil
}

// Unmet is objects that something names.
type Unmet struct {
	Keys     []string
	manifest string // that names them; else rows do
}

// Of are some of the objects.
func (u Unmet) Of(keys []string) Unmet { return Unmet{keys, u.manifest} }

// Unreadable is why manifests that the walk came to could not be read.
func (v *Inventory) Unreadable() []error { return v.unreadable }

// Named tells which of some objects the catalog names now: those of Unmet, or such as were met by no name. With garbage also those that wait to be deleted count.
func (v *Inventory) Named(ctx context.Context, u Unmet, garbage bool) ([]string, error) {
	found, err := still(ctx, v.s, func(q *db.Queries) ([]string, error) {
		ids, err := q.ManifestsAround(ctx, u.Keys)
		if err != nil || slices.Contains(ids, u.manifest) {
			return u.Keys, err
		}
		found, err := q.NamedAmong(ctx, db.NamedAmongParams{Keys: u.Keys, WithGarbage: garbage})
		if err != nil {
			return nil, err
		}
		asked := make(map[string]bool, len(u.Keys))
		for _, k := range u.Keys {
			asked[k] = true
		}
		for _, k := range found {
			asked[k] = false
		}
		return found, v.s.eachSealed(ctx, q, v.strange(ids), func(g millstream.Segment) error {
			for _, k := range []string{g.Data.Key, g.Index.Key} {
				if asked[k] {
					asked[k], found = false, append(found, k)
				}
			}
			return nil
		})
	})
	return found, fail(err, "look up objects")
}

// strange are the manifests among some that may name an object that the walk did not meet in them.
func (v *Inventory) strange(ids []string) []string {
	return slices.DeleteFunc(ids, func(id string) bool { m := v.manifests[id]; return m != nil && (m.whole || m.damaged) })
}

// LoseIndexes notes that index objects are missing, so that they are built anew. It returns how many live segments lost theirs.
func (v *Inventory) LoseIndexes(ctx context.Context, u Unmet) (int64, error) {
	holders := []string{u.manifest}
	if u.manifest == "" {
		ids, err := v.s.q.ManifestsAround(ctx, u.Keys)
		if err != nil {
			return 0, fail(err, "find the manifests of missing indexes")
		}
		if holders, err = v.s.holders(ctx, v.strange(ids), u.Keys); err != nil {
			return 0, fail(err, "find the manifests of missing indexes")
		}
	}
	for _, id := range holders {
		if _, err := v.s.unseal(ctx, id); err != nil {
			return 0, err
		}
	}
	n, err := v.s.q.LoseIndexes(ctx, u.Keys)
	return n, fail(err, "note missing indexes")
}

// holders are those among manifests that name an index of some.
func (s *Store) holders(ctx context.Context, ids, keys []string) (out []string, err error) {
	err = s.eachManifest(ctx, s.q, ids, false, func(id string, segments []millstream.Segment, err error) error {
		if slices.ContainsFunc(segments, func(g millstream.Segment) bool { return slices.Contains(keys, g.Index.Key) }) {
			out = append(out, id)
		}
		return err
	})
	return out, err
}
