package store

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/store/db"
)

// still runs a query of several statements that see one state of the database. A connection that was lost before it began is replaced.
func still[T any](ctx context.Context, s *Store, f func(q *db.Queries) (T, error)) (T, error) {
	tx, err := read(ctx, func(ctx context.Context) (pgx.Tx, error) {
		return s.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	})
	if err != nil {
		var none T
		return none, err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // nothing was changed
	return f(s.q.WithTx(tx))
}

// errEnough ends a walk that has found what it looked for.
var errEnough = errors.New("enough")

// manifestPage is how many manifests are fetched at once.
const manifestPage = 32

// eachManifest gives manifests with what they hold, or why they cannot be read, a page of manifests after the other; f's error ends it. A manifest that is gone is an
// error: it stays for the grace after its end. Who reads many of them once does not keep them, so that those which queries ask for stay in the cache.
func (s *Store) eachManifest(ctx context.Context, q *db.Queries, ids []string, keep bool, f func(id string, segments []millstream.Segment, err error) error) error {
	for page := range slices.Chunk(ids, manifestPage) {
		known := s.sealed.known(page)
		absent := slices.DeleteFunc(slices.Clone(page), func(id string) bool { return known[id] != nil })
		s.reads.cached.Add(int64(len(known)))
		bad := map[string]error{}
		if len(absent) > 0 {
			rows, err := q.ManifestData(ctx, absent)
			if err != nil {
				return err
			}
			s.reads.fetched.Add(int64(len(rows)))
			for _, m := range rows {
				if known[m.ID], bad[m.ID] = segmentsOf(m); bad[m.ID] == nil && keep {
					s.sealed.remember(m.ID, known[m.ID])
				}
			}
		}
		for _, id := range page {
			segments, ok := known[id]
			if !ok {
				return millstream.Wrap(millstream.Unavailable, errGone, "the manifest %s is gone from the catalog: what asked for it took longer than the grace; ask again", id)
			}
			if err := f(id, segments, bad[id]); err != nil {
				return err
			}
		}
	}
	return nil
}

var errGone = errors.New("no such manifest")

// eachSealed gives the segments of manifests; f's error, or a manifest that cannot be read, ends it.
func (s *Store) eachSealed(ctx context.Context, q *db.Queries, ids []string, f func(millstream.Segment) error) error {
	return s.eachManifest(ctx, q, ids, true, func(_ string, segments []millstream.Segment, err error) error {
		for i := 0; i < len(segments) && err == nil; i++ {
			err = f(segments[i])
		}
		return err
	})
}

func segmentsOf(m db.ManifestDataRow) ([]millstream.Segment, error) {
	rows, err := rowsOf(m)
	if err != nil {
		return nil, err
	}
	out := make([]millstream.Segment, len(rows))
	for i, r := range rows {
		out[i] = segmentOf(r)
	}
	return out, nil
}

// ErrUnreadable is of a manifest that was damaged, or written by a later release.
var ErrUnreadable = errors.New("cannot be read")

func rowsOf(m db.ManifestDataRow) ([]db.Segment, error) {
	rows, err := unpackRows(m)
	if err != nil {
		return nil, millstream.Wrap(millstream.Internal, fmt.Errorf("%w: %w", ErrUnreadable, err), "manifest %s of stream %s", m.ID, m.StreamID)
	}
	return rows, nil
}

// manifestWith finds the manifest, live or expired, that holds a segment; "" if none does.
func (s *Store) manifestWith(ctx context.Context, q *db.Queries, g millstream.Segment) (string, error) {
	ids, err := q.ManifestsEndingAt(ctx, db.ManifestsEndingAtParams{StreamID: string(g.Stream), MaxTime: g.MaxTime})
	if err != nil {
		return "", err
	}
	for _, id := range ids {
		err := s.eachSealed(ctx, q, []string{id}, func(x millstream.Segment) error {
			if x.ID == g.ID {
				return errEnough
			}
			return nil
		})
		if errors.Is(err, errEnough) {
			return id, nil
		}
		if err != nil {
			return "", err
		}
	}
	return "", nil
}

// maxUnsealed bounds the cache of manifests by their segments, some 700 bytes each.
const maxUnsealed = 60_000

// manifestCache remembers what the manifests that were asked for last hold. They never change, so an entry is never stale; what is live, each statement says anew.
type manifestCache struct {
	mu       sync.Mutex
	byID     map[string]*list.Element // of *sealedDay
	recent   list.List                // the one asked for last is in front
	segments int
}

type sealedDay struct {
	id       string
	segments []millstream.Segment // shared: nobody changes them
}

func (c *manifestCache) known(ids []string) map[string][]millstream.Segment {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make(map[string][]millstream.Segment, len(ids))
	for _, id := range ids {
		if e := c.byID[id]; e != nil {
			c.recent.MoveToFront(e)
			out[id] = e.Value.(*sealedDay).segments
		}
	}
	return out
}

func (c *manifestCache) remember(id string, segments []millstream.Segment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byID == nil {
		c.byID = map[string]*list.Element{}
	}
	if c.byID[id] != nil {
		return
	}
	c.byID[id] = c.recent.PushFront(&sealedDay{id, segments})
	c.segments += len(segments)
	for c.segments > maxUnsealed && c.recent.Len() > 1 {
		last := c.recent.Remove(c.recent.Back()).(*sealedDay)
		delete(c.byID, last.id)
		c.segments -= len(last.segments)
	}
}
