package store

import (
	"cmp"
	"context"
	"math"

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
	rows, err := read(ctx, func(ctx context.Context) ([]db.Segment, error) { return s.q.LiveSegments(ctx, p) })
	if err != nil {
		return nil, fail(err, "list the live segments")
	}
	out := make([]millstream.Segment, len(rows))
	for i, r := range rows {
		out[i] = segmentOf(r)
	}
	return out, nil
}
