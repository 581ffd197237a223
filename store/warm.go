package store

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/store/db"
)

// Place is a place in the order of LiveSegments: that of the last segment of a page. The zero value is before the first.
type Place struct {
	MaxTime int64
	ID      millstream.SegmentID
}

// lastID is not before any id.
const lastID = "ffffffff-ffff-ffff-ffff-ffffffffffff"

// LiveSegments lists up to most live segments of all organizations that come after a place: the one with the newest record first. A page that is not full is the last.
func (s *Store) LiveSegments(ctx context.Context, after Place, most int) ([]millstream.Segment, error) {
	p := db.LiveSegmentsParams{MaxTime: after.MaxTime, ID: cmp.Or(string(after.ID), lastID), Most: int32(most)}
	if after.ID == "" {
		p.MaxTime = math.MaxInt64
	}
	out, err := still(ctx, s, func(q *db.Queries) ([]millstream.Segment, error) {
		rows, err := q.LiveSegments(ctx, p)
		if err != nil {
			return nil, err
		}
		out := make([]millstream.Segment, len(rows))
		for i, r := range rows {
			out[i] = segmentOf(r)
		}
		return s.sealedPage(ctx, q, Place{MaxTime: p.MaxTime, ID: millstream.SegmentID(p.ID)}, most, out)
	})
	return out, fail(err, "list the live segments")
}

// sealedPage puts sealed segments into a page: day by day, newest first, until the page is full of what is newer than the days that are left.
func (s *Store) sealedPage(ctx context.Context, q *db.Queries, after Place, most int, page []millstream.Segment) ([]millstream.Segment, error) {
	cut := func() {
		slices.SortFunc(page, func(a, b millstream.Segment) int {
			return cmp.Or(cmp.Compare(b.MaxTime, a.MaxTime), cmp.Compare(b.ID, a.ID))
		})
		clear(page[min(len(page), most):])
		page = page[:min(len(page), most)]
	}
	for next := dayOf(after.MaxTime); ; next-- {
		var err error
		if next, err = q.NewestSealedDay(ctx, next); err != nil || next == math.MinInt32 {
			return page, err
		}
		if len(page) == most && dayOf(page[most-1].MaxTime) > next {
			return page, nil
		}
		ids, err := q.DayManifests(ctx, next)
		if err != nil {
			return nil, err
		}
		err = s.eachManifest(ctx, q, ids, true, func(_ string, segments []millstream.Segment, err error) error {
			for _, g := range segments {
				if g.MaxTime < after.MaxTime || g.MaxTime == after.MaxTime && g.ID < after.ID {
					page = append(page, g)
				}
				if len(page) >= 2*most+manifestPage { // a day of all streams may have a million
					cut()
				}
			}
			if errors.Is(err, ErrUnreadable) { // nobody can read its segments; reconciliation tells of it, and the days before are listed
				return nil
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		cut()
	}
}

// dayOf is the day of a time since the epoch, UTC.
func dayOf(t int64) int32 {
	d := t / day
	if t%day < 0 {
		d--
	}
	return int32(d)
}
