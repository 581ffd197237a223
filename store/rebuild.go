package store

import (
	"context"
	"math"
	"time"

	"github.com/google/uuid"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/store/db"
)

// Outdated is a live segment whose index is of an older version, missing, or without a filter that its stream asks for.
type Outdated struct {
	Candidate
	Version int      // of its index; 0: it is missing or damaged
	Wanted  []string // fields that the stream wants filters of
}

// OutdatedIndexes lists up to most such segments of an organization, newest first: those after the given one, or the first ones.
func (s *Store) OutdatedIndexes(ctx context.Context, org millstream.OrgID, after *Outdated, most int) ([]Outdated, error) {
	p := db.OutdatedIndexesParams{
		OrgID: string(org), BeforeTime: math.MaxInt64, BeforeID: uuid.Max.String(), Version: millstream.IndexVersion, Metrics: int16(millstream.Metrics), Most: int32(most),
	}
	if after != nil {
		p.BeforeTime, p.BeforeID = after.MaxTime, string(after.ID)
	}
	rows, err := read(ctx, func(ctx context.Context) ([]db.OutdatedIndexesRow, error) { return s.q.OutdatedIndexes(ctx, p) })
	if err != nil {
		return nil, fail(err, "list the outdated indexes of organization %s", org)
	}
	out := make([]Outdated, len(rows))
	for i, r := range rows {
		out[i] = Outdated{
			Candidate: Candidate{Segment: segmentOf(r.Segment), Age: time.Duration(r.AgeSecs * float64(time.Second))},
			Version:   int(r.Segment.IndexVersion), Wanted: unescapeAll(r.IndexedFields),
		}
	}
	return out, nil
}

// LoseIndexes notes that index objects are missing, so that they are built anew. It returns how many live segments lost theirs.
func (s *Store) LoseIndexes(ctx context.Context, keys []string) (int64, error) {
	n, err := s.q.LoseIndexes(ctx, keys)
	return n, fail(err, "note missing indexes")
}

// LoseIndex notes that a segment's index is missing or not what its checksum says, so that it is built anew. It says whether that was news.
func (s *Store) LoseIndex(ctx context.Context, g millstream.Segment) (bool, error) {
	n, err := s.q.LoseIndex(ctx, db.LoseIndexParams{ID: string(g.ID), IndexSum: g.Index.Checksum})
	return n > 0, fail(err, "note that the index of segment %s is lost", g.ID)
}
