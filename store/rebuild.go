package store

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/store/db"
)

// Outdated is a live segment whose index is of an older version, missing, or without a filter that its stream asks for.
type Outdated struct {
	Candidate
	Version int      // of its index; 0: it is missing or damaged
	Wanted  []string // fields that the stream wants filters of
}

// OutdatedIndexes lists up to most such segments of an organization, newest first: those after the given one, or the first ones. Sealed ones are unsealed as there is
// room for them, a manifest after the other; those among them that come before the place are left to the next round.
func (s *Store) OutdatedIndexes(ctx context.Context, org millstream.OrgID, after *Outdated, most int) ([]Outdated, error) {
	p := db.OutdatedIndexesParams{
		OrgID: string(org), BeforeTime: math.MaxInt64, BeforeID: uuid.Max.String(), Version: millstream.IndexVersion, Metrics: int16(millstream.Metrics), Most: int32(most),
	}
	if after != nil {
		p.BeforeTime, p.BeforeID = after.MaxTime, string(after.ID)
	}
	var rows []db.OutdatedIndexesRow
	for {
		var err error
		rows, err = read(ctx, func(ctx context.Context) ([]db.OutdatedIndexesRow, error) { return s.q.OutdatedIndexes(ctx, p) })
		if err != nil {
			return nil, fail(err, "list the outdated indexes of organization %s", org)
		}
		if len(rows) == most {
			break
		}
		id, err := s.q.OutdatedManifest(ctx, db.OutdatedManifestParams{OrgID: p.OrgID, Version: p.Version, Metrics: p.Metrics})
		if errors.Is(err, pgx.ErrNoRows) {
			break
		}
		if err != nil {
			return nil, fail(err, "find a manifest with outdated indexes")
		}
		if _, err := s.unseal(ctx, id); err != nil {
			return nil, err
		}
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
	ids, err := s.q.ManifestsAround(ctx, keys)
	if err != nil {
		return 0, fail(err, "find the manifests of missing indexes")
	}
	for _, id := range ids {
		lost := false
		err := s.eachSealed(ctx, s.q, []string{id}, func(g millstream.Segment) error {
			lost = lost || slices.Contains(keys, g.Index.Key)
			return nil
		})
		if err == nil && lost {
			_, err = s.unseal(ctx, id)
		}
		if err != nil {
			return 0, fail(err, "unseal segments whose indexes are missing")
		}
	}
	n, err := s.q.LoseIndexes(ctx, keys)
	return n, fail(err, "note missing indexes")
}

// LoseIndex notes that a segment's index is missing or not what its checksum says, so that it is built anew. It says whether that was news.
func (s *Store) LoseIndex(ctx context.Context, g millstream.Segment) (bool, error) {
	if _, err := s.Unseal(ctx, g); err != nil {
		return false, err
	}
	n, err := s.q.LoseIndex(ctx, db.LoseIndexParams{ID: string(g.ID), IndexSum: g.Index.Checksum})
	return n > 0, fail(err, "note that the index of segment %s is lost", g.ID)
}
