package store

import (
	"cmp"
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/store/db"
)

// Footprint is what placement counts of a live segment. Times are nanoseconds since the epoch; Bytes are those of data and index.
type Footprint struct {
	ID             millstream.SegmentID
	MaxTime, Bytes int64
}

// Footprints gives the live segments of an organization's stream, or of all its streams if none is named, in no order, as they come from the database: none is
// kept. An error of f ends it.
func (s *Store) Footprints(ctx context.Context, org millstream.OrgID, stream millstream.StreamID, f func(Footprint) error) error {
	_, err := still(ctx, s, func(q *db.Queries) (struct{}, error) {
		err := q.EachFootprint(ctx, db.FootprintsParams{OrgID: string(org), StreamID: optional(stream)}, func(r db.FootprintsRow) error {
			return f(Footprint{millstream.SegmentID(r.ID), r.MaxTime, r.Bytes})
		})
		if err != nil {
			return struct{}{}, err
		}
		ids, err := q.LiveManifests(ctx, db.LiveManifestsParams{OrgID: string(org), StreamID: optional(stream)})
		if err != nil {
			return struct{}{}, err
		}
		return struct{}{}, s.eachSealed(ctx, q, ids, func(g millstream.Segment) error {
			return f(Footprint{g.ID, g.MaxTime, g.Data.Length + g.Index.Length})
		})
	})
	return fail(err, "list the live segments")
}

// FootprintSpan is from the oldest to the newest of the times of those segments' newest records, both included; 0 and 0 without any.
func (s *Store) FootprintSpan(ctx context.Context, org millstream.OrgID, stream millstream.StreamID) (first, last int64, err error) {
	r, err := read(ctx, func(ctx context.Context) (db.FootprintSpanRow, error) {
		return s.q.FootprintSpan(ctx, db.FootprintSpanParams{OrgID: string(org), StreamID: optional(stream)})
	})
	return r.First, r.Last, fail(err, "find the span of the live segments")
}

// optional is an id as a parameter that may be left out.
func optional[T ~string](id T) *string {
	if id == "" {
		return nil
	}
	text := string(id)
	return &text
}

// LiveSegment finds a live segment of an organization and its stream's name. One that was merged away or has expired is NotFound, as is another organization's.
func (s *Store) LiveSegment(ctx context.Context, org millstream.OrgID, id millstream.SegmentID) (g millstream.Segment, stream string, err error) {
	_, err = still(ctx, s, func(q *db.Queries) (struct{}, error) {
		r, err := q.LiveSegment(ctx, db.LiveSegmentParams{OrgID: string(org), ID: string(id)})
		if err == nil {
			g, stream = segmentOf(r.Segment), r.Stream
			return struct{}{}, nil
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return struct{}{}, err
		}
		g, stream, err = s.sealedSegment(ctx, q, org, id)
		return struct{}{}, err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return g, "", &millstream.Error{Kind: millstream.NotFound, Msg: "there is no live segment with the id " + string(id), Hint: "a segment that was merged lives on in another one"}
	}
	return g, stream, fail(err, "find segment %s", id)
}

// sealedSegment looks for a segment through an organization's manifests, newest first: people ask for one now and then, and an index of a million ids costs more.
func (s *Store) sealedSegment(ctx context.Context, q *db.Queries, org millstream.OrgID, id millstream.SegmentID) (found millstream.Segment, stream string, err error) {
	ids, err := q.LiveManifests(ctx, db.LiveManifestsParams{OrgID: string(org)})
	if err != nil {
		return found, "", err
	}
	err = s.eachSealed(ctx, q, ids, func(g millstream.Segment) error {
		if g.ID != id {
			return nil
		}
		found = g
		return errEnough
	})
	if !errors.Is(err, errEnough) {
		return found, "", cmp.Or(err, pgx.ErrNoRows)
	}
	st, err := q.StreamByID(ctx, string(found.Stream))
	return found, st.Name, err
}
