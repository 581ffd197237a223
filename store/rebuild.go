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

// OutdatedIndexes lists up to most such segments of an organization, newest first: those after the given one, or the first ones. For sealed ones see OutdatedManifests.
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
		out[i] = outdated(r.Segment, r.AgeSecs, r.IndexedFields)
	}
	return out, nil
}

func outdated(r db.Segment, ageSecs float64, wanted []string) Outdated {
	return Outdated{
		Candidate: Candidate{Segment: segmentOf(r), Age: time.Duration(ageSecs * float64(time.Second))},
		Version:   int(r.IndexVersion), Wanted: unescapeAll(wanted),
	}
}

// OutdatedManifests lists the manifests of an organization that hold such segments, newest first.
func (s *Store) OutdatedManifests(ctx context.Context, org millstream.OrgID) ([]string, error) {
	ids, err := read(ctx, func(ctx context.Context) ([]string, error) {
		return s.q.OutdatedManifests(ctx, db.OutdatedManifestsParams{OrgID: string(org), Version: millstream.IndexVersion, Metrics: int16(millstream.Metrics)})
	})
	return ids, fail(err, "list the manifests with outdated indexes of organization %s", org)
}

// UnsealOutdated puts the segments of a manifest back into rows and lists those of them whose indexes are outdated, newest first: a few MB at most. They are none if the
// manifest has ended since it was listed.
func (s *Store) UnsealOutdated(ctx context.Context, manifest string) ([]Outdated, error) {
	ids, err := s.unseal(ctx, manifest)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	rows, err := read(ctx, func(ctx context.Context) ([]db.OutdatedAmongRow, error) {
		return s.q.OutdatedAmong(ctx, db.OutdatedAmongParams{Ids: ids, Version: millstream.IndexVersion, Metrics: int16(millstream.Metrics)})
	})
	if err != nil {
		return nil, fail(err, "list the outdated indexes of manifest %s", manifest)
	}
	out := make([]Outdated, len(rows))
	for i, r := range rows {
		out[i] = outdated(r.Segment, r.AgeSecs, r.IndexedFields)
	}
	return out, nil
}

// LoseIndex notes that a segment's index is missing or not what its checksum says, so that it is built anew. It says whether that was news.
func (s *Store) LoseIndex(ctx context.Context, g millstream.Segment) (bool, error) {
	if _, err := s.Unseal(ctx, g); err != nil {
		return false, err
	}
	n, err := s.q.LoseIndex(ctx, db.LoseIndexParams{ID: string(g.ID), IndexSum: g.Index.Checksum})
	return n > 0, fail(err, "note that the index of segment %s is lost", g.ID)
}
