package store

import (
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
	err := s.q.EachFootprint(ctx, db.FootprintsParams{OrgID: string(org), StreamID: optional(stream)}, func(r db.FootprintsRow) error {
		return f(Footprint{millstream.SegmentID(r.ID), r.MaxTime, r.Bytes})
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
	r, err := read(ctx, func(ctx context.Context) (db.LiveSegmentRow, error) {
		return s.q.LiveSegment(ctx, db.LiveSegmentParams{OrgID: string(org), ID: string(id)})
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return g, "", &millstream.Error{Kind: millstream.NotFound, Msg: "there is no live segment with the id " + string(id), Hint: "a segment that was merged lives on in another one"}
	case err != nil:
		return g, "", fail(err, "find segment %s", id)
	}
	return segmentOf(r.Segment), r.Stream, nil
}
