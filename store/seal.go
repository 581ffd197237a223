package store

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/store/db"
)

const day = int64(24 * time.Hour)

// manifestSchema is the version of the schema from which on rows are not named as releases knew them that know no manifests.
const manifestSchema = 13

// ManifestsKnown says whether all nodes know manifests. A release before would neither answer from what is sealed nor know that its objects are named: the database refuses its
// statements from the first seal on, so seals wait until such nodes are gone.
func (s *Store) ManifestsKnown(ctx context.Context) (bool, error) {
	known, err := read(ctx, func(ctx context.Context) (bool, error) { return s.q.AllKnow(ctx, manifestSchema) })
	return known, fail(err, "ask whether all nodes know manifests")
}

// SealDay puts the rows of a stream's live segments whose last record is of a day (since the epoch, UTC) into one manifest, if they are at least some: those that were
// written at least age ago, span no more than a day and share no object with another segment; 10,000 at most. It returns how many it sealed. Readers see the same
// segments before and after. Rows written after Publish or a merge must have an age at which nobody repeats the publish of a flush any more.
func (s *Store) SealDay(ctx context.Context, stream millstream.StreamID, of int64, age time.Duration, least int) (sealed int, err error) {
	err = s.tx(ctx, func(q *db.Queries) error {
		if err := q.ShareStreams(ctx); err != nil { // a deletion of the stream finds either the rows or the manifest
			return err
		}
		rows, err := q.LockDay(ctx, db.LockDayParams{StreamID: string(stream), StartTime: of * day, EndTime: (of + 1) * day, AgeSecs: age.Seconds(), Most: maxSealed,
			Version: millstream.IndexVersion, Metrics: int16(millstream.Metrics)})
		if err != nil {
			return err
		}
		rows = rows[:fitting(rows)]
		if len(rows) < max(least, 1) {
			return nil
		}
		if err := q.InsertManifest(ctx, manifestOf(rows, int32(of))); err != nil {
			return err
		}
		ids := make([]string, len(rows))
		for i := range rows {
			ids[i] = rows[i].ID
		}
		n, err := q.DeleteSealed(ctx, ids)
		if err == nil && n != int64(len(rows)) {
			err = millstream.Errorf(millstream.Internal, "%d of %d locked segments are there: nothing is sealed", n, len(rows))
		}
		sealed = len(rows)
		return err
	})
	if err != nil {
		return 0, fail(err, "seal day %d of stream %s", of, stream)
	}
	return sealed, nil
}

// manifestOf describes rows, which it sorts by time. None is wider than a day, and all are of one stream.
func manifestOf(rows []db.Segment, of int32) db.InsertManifestParams {
	slices.SortFunc(rows, func(a, b db.Segment) int { return cmp.Or(cmp.Compare(a.MinTime, b.MinTime), cmp.Compare(a.ID, b.ID)) })
	first := &rows[0]
	m := db.InsertManifestParams{
		ID: uuid.NewString(), OrgID: first.OrgID, StreamID: first.StreamID, Signal: first.Signal, Day: of, MinTime: first.MinTime, MaxTime: first.MaxTime, FirstEnd: first.MaxTime,
		Segments: int32(len(rows)), FirstKey: first.DataKey, LastKey: first.DataKey, Data: packRows(rows),
		IndexVersion: first.IndexVersion, IndexFields: slices.Clone(first.IndexFields),
	}
	for i := range rows {
		r := &rows[i]
		m.MaxTime, m.FirstEnd = max(m.MaxTime, r.MaxTime), min(m.FirstEnd, r.MaxTime)
		m.RowCount += r.RowCount
		m.Bytes += r.DataLength + r.IndexLength
		m.IndexVersion = min(m.IndexVersion, r.IndexVersion)
		m.IndexFields = slices.DeleteFunc(m.IndexFields, func(f string) bool { return !slices.Contains(r.IndexFields, f) })
		m.FirstKey, m.LastKey = min(m.FirstKey, r.DataKey, r.IndexKey), max(m.LastKey, r.DataKey, r.IndexKey)
	}
	return m
}

// Unseal puts the live segments of the manifest that holds a segment back into rows, which whoever wants to change that segment does first. A segment that is in no live
// manifest changes nothing. It returns how many came back.
func (s *Store) Unseal(ctx context.Context, g millstream.Segment) (restored int, err error) {
	id, err := s.manifestWith(ctx, s.q, g)
	if err != nil || id == "" {
		return 0, fail(err, "find the manifest of segment %s", g.ID)
	}
	all, err := s.unseal(ctx, id)
	return len(all), err
}

func (s *Store) unseal(ctx context.Context, id string) (restored []string, err error) {
	err = s.tx(ctx, func(q *db.Queries) error {
		if err := q.ShareStreams(ctx); err != nil { // as SealDay
			return err
		}
		m, err := q.LockManifest(ctx, id)
		if errors.Is(err, pgx.ErrNoRows) { // somebody else was first, or it has expired
			return nil
		}
		if err == nil {
			s.reads.fetched.Add(1)
			restored, err = restore(ctx, q, m, "live", nil)
		}
		if err != nil {
			return err
		}
		return q.ReplaceManifest(ctx, id)
	})
	if err != nil {
		return nil, fail(err, "unseal manifest %s", id)
	}
	s.unsealed.Add(int64(len(restored)))
	return restored, nil
}

// restore puts a manifest's rows back in a state and returns their ids; ErrUnreadable: nothing was done. The caller has locked the manifest and ends it.
func restore(ctx context.Context, q *db.Queries, m db.Manifest, state string, deadAt *time.Time) ([]string, error) {
	rows, err := rowsOf(db.ManifestDataRow{ID: m.ID, OrgID: m.OrgID, StreamID: m.StreamID, Signal: m.Signal, Data: m.Data})
	if err != nil {
		return nil, err
	}
	p := db.RestoreSegmentsParams{OrgID: m.OrgID, StreamID: m.StreamID, Signal: m.Signal, State: state, DeadAt: deadAt}
	for i := range rows {
		r := &rows[i]
		wal := ""
		if r.WalID != nil {
			wal = *r.WalID
		}
		p.Ids, p.MinTimes, p.MaxTimes, p.RowCounts = append(p.Ids, r.ID), append(p.MinTimes, r.MinTime), append(p.MaxTimes, r.MaxTime), append(p.RowCounts, r.RowCount)
		p.Levels, p.SchemaVersions = append(p.Levels, r.Level), append(p.SchemaVersions, r.SchemaVersion)
		p.DataKeys, p.DataOffsets = append(p.DataKeys, r.DataKey), append(p.DataOffsets, r.DataOffset)
		p.DataLengths, p.DataSums = append(p.DataLengths, r.DataLength), append(p.DataSums, r.DataSum)
		p.IndexKeys, p.IndexOffsets = append(p.IndexKeys, r.IndexKey), append(p.IndexOffsets, r.IndexOffset)
		p.IndexLengths, p.IndexSums = append(p.IndexLengths, r.IndexLength), append(p.IndexSums, r.IndexSum)
		p.WalIds, p.WalFroms, p.WalTos = append(p.WalIds, wal), append(p.WalFroms, r.WalFrom), append(p.WalTos, r.WalTo)
		p.NodeIds, p.Incarnations, p.CreatedAts = append(p.NodeIds, r.NodeID), append(p.Incarnations, r.Incarnation), append(p.CreatedAts, r.CreatedAt)
		p.IndexVersions, p.IndexFields = append(p.IndexVersions, r.IndexVersion), append(p.IndexFields, arrayText(r.IndexFields))
	}
	_, err = q.RestoreSegments(ctx, p)
	return p.Ids, err
}

// endManifests ends manifests that died before the grace, until there are some rows to collect or none is left: those that expired become dead rows again, whose
// objects then go as all others do. One that cannot be read stays as it is, and in no other's way.
func endManifests(ctx context.Context, q *db.Queries, grace time.Duration, rows int) (unreadable []error, err error) {
	passed := []string{}
	for rows > 0 {
		dead, err := q.LockDeadManifests(ctx, db.LockDeadManifestsParams{GraceSecs: grace.Seconds(), PinSilenceSecs: pinSilence.Seconds(), Passed: passed, Most: 1})
		if err != nil || len(dead) == 0 {
			return unreadable, err
		}
		m := dead[0]
		if m.State == "expired" {
			ids, err := restore(ctx, q, m, m.State, m.DeadAt)
			if errors.Is(err, ErrUnreadable) {
				unreadable, passed = append(unreadable, err), append(passed, m.ID)
				continue
			}
			if err != nil {
				return nil, err
			}
			rows -= len(ids)
		}
		if err := q.DeleteManifest(ctx, m.ID); err != nil {
			return nil, err
		}
	}
	return unreadable, nil
}

// arrayText is an array of texts as PostgreSQL reads it.
func arrayText(texts []string) string {
	quoted := make([]string, len(texts))
	for i, t := range texts {
		quoted[i] = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(t) + `"`
	}
	return "{" + strings.Join(quoted, ",") + "}"
}
