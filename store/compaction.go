package store

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/store/db"
)

// ErrLostRace means that a merge's inputs are not all live any more: another merge, retention or a deletion was first, and its output must be thrown away.
var ErrLostRace = errors.New("the merge's inputs are gone")

// Candidate is a live segment that may be merged.
type Candidate struct {
	millstream.Segment
	Age  time.Duration // since it was published, by the database's clock
	Kept bool          // as a sealed one is: it is not merged, but a merge of metrics may not jump over it
}

// Bytes is how many bytes of objects the segment takes.
func (c *Candidate) Bytes() int64 { return c.Data.Length + c.Index.Length }

// StreamIDs lists every stream of every organization: the units of merging.
func (s *Store) StreamIDs(ctx context.Context) ([]string, error) {
	ids, err := read(ctx, s.q.StreamIDs)
	return ids, fail(err, "list the streams")
}

// DeletedOrganizations lists those that were deleted since some time ago: what their last flushes and merges uploaded is nobody's.
func (s *Store) DeletedOrganizations(ctx context.Context, age time.Duration) ([]string, error) {
	ids, err := read(ctx, func(ctx context.Context) ([]string, error) { return s.q.DeletedOrganizations(ctx, age.Seconds()) })
	return ids, fail(err, "list the deleted organizations")
}

// OrganizationIDs lists every organization, also those that are gone and have segments left: the units of rebuilding indexes.
func (s *Store) OrganizationIDs(ctx context.Context) ([]string, error) {
	ids, err := read(ctx, s.q.OrganizationIDs)
	return ids, fail(err, "list the organizations")
}

// MergeCandidates lists a stream's live segments, oldest publish first. Sealed ones are listed last, and only of metrics, where the order of writing counts: those of the
// manifests that overlap a row, since only they may hold samples of the same times. So old days, which late records seldom reach, are not read in every round.
func (s *Store) MergeCandidates(ctx context.Context, id millstream.StreamID) ([]Candidate, error) {
	out, err := still(ctx, s, func(q *db.Queries) ([]Candidate, error) {
		rows, err := q.MergeCandidates(ctx, string(id))
		if err != nil {
			return nil, err
		}
		out := make([]Candidate, len(rows))
		for i, r := range rows {
			out[i] = Candidate{Segment: segmentOf(r.Segment), Age: time.Duration(r.AgeSecs * float64(time.Second))}
		}
		if len(out) == 0 || out[0].Signal != millstream.Metrics {
			return out, nil
		}
		manifests, err := q.StreamManifests(ctx, string(id))
		if err != nil {
			return nil, err
		}
		var beside []string
		for _, m := range manifests {
			if slices.ContainsFunc(out, func(c Candidate) bool { return c.MinTime <= m.MaxTime && c.MaxTime >= m.MinTime }) {
				beside = append(beside, m.ID)
			}
		}
		err = s.eachSealed(ctx, q, beside, func(g millstream.Segment) error {
			out = append(out, Candidate{Segment: g, Kept: true})
			return nil
		})
		return out, err
	})
	return out, fail(err, "list the segments of stream %s", id)
}

// Replacement is a merge: Output holds the rows of all Inputs. Node and Incarnation are the process that made it.
type Replacement struct {
	Node        millstream.NodeID
	Incarnation int64
	Inputs      []millstream.SegmentID
	Output      millstream.Segment
	Indexed     []string // fields that Output's index has filters of because the stream asked for them
}

// ReplaceSegments makes a merged segment visible in place of its inputs, in one transaction: the fence is checked, the inputs are locked and must all be live,
// else ErrLostRace and nothing changes. The rows of logs and traces must add up; samples that several inputs hold are written once, so those may become fewer. An
// error other than ErrLostRace and ErrFenced says nothing about the outcome: repeat the same call, which succeeds if the first one did.
func (s *Store) ReplaceSegments(ctx context.Context, r Replacement) error {
	err := s.tx(ctx, func(q *db.Queries) error {
		err := checkFence(ctx, q, r.Node, r.Incarnation)
		if err == nil {
			err = q.ShareStreams(ctx)
		}
		if err == nil {
			err = replaceable(ctx, q, r)
		}
		if errors.Is(err, ErrLostRace) || errors.Is(err, ErrFenced) {
			// Perhaps to an earlier try of this call, which may have been committed only while this one waited for its locks. Asked before them, it would not be seen,
			// and the caller would delete the objects of a segment that is live.
			there, merr := q.MergedFrom(ctx, string(r.Output.ID))
			if merr == nil && !there {
				var in string
				in, merr = s.manifestWith(ctx, q, r.Output)
				there = in != "" // a day that was only waiting for this merge may be sealed at once
			}
			if merr != nil || there {
				return merr
			}
		}
		if err != nil {
			return err
		}
		n, err := q.MarkReplaced(ctx, texts(r.Inputs))
		if err != nil {
			return err
		}
		if n != int64(len(r.Inputs)) {
			return lostRace(r, int(n))
		}
		if err := q.InsertMerged(ctx, mergedParams(r)); err != nil {
			return err
		}
		return q.NotifySegments(ctx, string(r.Output.Org))
	})
	return fail(err, "publish the merged segment %s", r.Output.ID)
}

// replaceable locks the inputs and checks that they are live, of the output's stream, and add up.
func replaceable(ctx context.Context, q *db.Queries, r Replacement) error {
	rows, err := q.LockInputs(ctx, texts(r.Inputs))
	if err != nil {
		return err
	}
	if len(rows) != len(r.Inputs) {
		return lostRace(r, len(rows))
	}
	sum := int64(0)
	for _, in := range rows {
		if in.StreamID != string(r.Output.Stream) || in.OrgID != string(r.Output.Org) {
			return millstream.Errorf(millstream.Internal, "segment %s is not of stream %s", in.ID, r.Output.Stream)
		}
		sum += in.RowCount
	}
	if r.Output.Rows > sum || r.Output.Rows < sum && r.Output.Signal != millstream.Metrics {
		return millstream.Errorf(millstream.Internal, "the merged segment %s has %d rows, its inputs have %d: it is not published", r.Output.ID, r.Output.Rows, sum)
	}
	return nil
}

func lostRace(r Replacement, live int) error {
	return millstream.Wrap(millstream.Conflict, ErrLostRace, "of the %d inputs of merged segment %s only %d are live", len(r.Inputs), r.Output.ID, live)
}

func mergedParams(r Replacement) db.InsertMergedParams {
	g := r.Output
	return db.InsertMergedParams{
		ID: string(g.ID), OrgID: string(g.Org), StreamID: string(g.Stream), Signal: int16(g.Signal), MinTime: g.MinTime, MaxTime: g.MaxTime, RowCount: g.Rows,
		Level: int16(g.Level), SchemaVersion: g.SchemaVersion,
		DataKey: g.Data.Key, DataOffset: g.Data.Offset, DataLength: g.Data.Length, DataSum: g.Data.Checksum,
		IndexKey: g.Index.Key, IndexOffset: g.Index.Offset, IndexLength: g.Index.Length, IndexSum: g.Index.Checksum,
		NodeID: string(r.Node), Incarnation: r.Incarnation, IndexVersion: millstream.IndexVersion, IndexFields: escapeAll(r.Indexed), Inputs: texts(r.Inputs),
	}
}

// ExpireOld takes the segments out of the catalog whose last record is older than the stream's retention: its own, else its organization's, else fallback, in
// days; 0 keeps for ever. A sealed day goes as a whole, with its last record. It returns how many segments went. Who changes a retention and is told so can rely on it,
// and so can who starts a node with another fallback: what an older process of the node would expire is ErrFenced, and stays.
func (s *Store) ExpireOld(ctx context.Context, node millstream.NodeID, incarnation int64, id millstream.StreamID, fallback int) (int64, error) {
	n, err := s.expireOld(ctx, node, incarnation, id, fallback)
	if errors.Is(err, pgx.ErrNoRows) || errors.Is(err, errRetention) { // the stream was deleted meanwhile; or the next round looks again
		return 0, nil
	}
	return n, fail(err, "expire segments of stream %s", id)
}

var errRetention = errors.New("the retention was changed meanwhile")

// expireOld is one transaction. Only if something expires is the fence checked, and the retention locked and read again: rounds without are many, and locks are written.
func (s *Store) expireOld(ctx context.Context, node millstream.NodeID, incarnation int64, id millstream.StreamID, fallback int) (n int64, err error) {
	err = s.tx(ctx, func(q *db.Queries) error {
		if err := q.ShareStreams(ctx); err != nil { // a deletion locks the stream first and then its segments
			return err
		}
		days, err := q.RetentionDays(ctx, string(id))
		if err != nil {
			return err
		}
		now, err := q.Clock(ctx)
		if err != nil {
			return err
		}
		before, some := oldest(now, int(days), fallback)
		if !some {
			return nil
		}
		rows, err := q.ExpireOld(ctx, db.ExpireOldParams{StreamID: string(id), Before: before})
		if err != nil {
			return err
		}
		sealed, err := q.ExpireOldManifests(ctx, db.ExpireOldManifestsParams{StreamID: string(id), Before: before})
		if n = rows + sealed; err != nil || n == 0 {
			return err
		}
		if err := checkFence(ctx, q, node, incarnation); err != nil {
			return err
		}
		still, err := q.LockRetention(ctx, string(id))
		if err == nil && still != days {
			err = errRetention
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// oldest is the time of the oldest record to be kept for some days, or else for the fallback's. There is none if both are 0, or if no record can be so old.
func oldest(now time.Time, days, fallback int) (before int64, some bool) {
	secs := now.Unix() - int64(cmp.Or(days, fallback))*int64(24*time.Hour/time.Second)
	return secs * int64(time.Second), cmp.Or(days, fallback) > 0 && secs > math.MinInt64/int64(time.Second)
}

// pinSilence is how long a pin of a snapshot counts without a heartbeat.
const pinSilence = 2 * time.Minute

// CollectDead forgets up to most segments that died at least grace ago and that no pinned snapshot may still read; objects that no segment names any more become
// garbage. It returns how many segments went, and why dead segments of some manifests could not: those cannot be read.
func (s *Store) CollectDead(ctx context.Context, grace time.Duration, most int) (n int, unreadable []error, err error) {
	err = s.tx(ctx, func(q *db.Queries) (err error) {
		if err := q.OwnGarbage(ctx); err != nil {
			return err
		}
		if unreadable, err = endManifests(ctx, q, grace, most); err != nil {
			return err
		}
		gone, err := q.CollectDead(ctx, db.CollectDeadParams{GraceSecs: grace.Seconds(), PinSilenceSecs: pinSilence.Seconds(), Most: int32(most)})
		n = len(gone)
		return err
	})
	return n, unreadable, fail(err, "collect dead segments")
}

// Garbage lists up to most objects to be deleted.
func (s *Store) Garbage(ctx context.Context, most int) ([]string, error) {
	keys, err := read(ctx, func(ctx context.Context) ([]string, error) { return s.q.Garbage(ctx, int32(most)) })
	return keys, fail(err, "list the garbage")
}

// DropGarbage forgets objects that were deleted.
func (s *Store) DropGarbage(ctx context.Context, keys []string) error {
	_, err := s.q.DropGarbage(ctx, keys)
	return fail(err, "forget deleted objects")
}

// PinSnapshot keeps what was live at a time from being deleted, for two minutes from the last call. UnpinSnapshot ends it.
func (s *Store) PinSnapshot(ctx context.Context, id string, at time.Time) error {
	return fail(s.q.PinSnapshot(ctx, db.PinSnapshotParams{ID: id, SnapshotAt: at}), "pin a snapshot")
}

// UnpinSnapshot ends a pin; an unknown one is no error.
func (s *Store) UnpinSnapshot(ctx context.Context, id string) error {
	return fail(s.q.UnpinSnapshot(ctx, id), "unpin a snapshot")
}
