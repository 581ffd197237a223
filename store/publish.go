package store

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/store/db"
)

// Outcome is how a publish ended without an error.
type Outcome uint8

// The outcomes. In all of them but Behind the range is published, and the WAL's frames up to its end may be retired.
const (
	Published  Outcome = iota + 1
	Already            // by this very flush: its objects are in the catalog, only the reply was lost
	Superseded         // with the same content but other objects: those of this flush are not referenced
	Behind             // the position is below From: the database went back to an older state; publish again from the position
)

func (o Outcome) String() string {
	return [...]string{"none", "published", "already", "superseded", "behind"}[o]
}

// Why a publish is refused loudly. Each means that something that must hold does not; none is repaired by trying again.
var (
	ErrNoWAL    = errors.New("the WAL is not registered")
	ErrGap      = errors.New("the published position lies inside the range")
	ErrMismatch = errors.New("the range was published with other content")
)

// Publish makes a WAL range visible: in one transaction it checks the fence and the WAL's holder, moves the WAL's position from f.From to f.To, inserts the
// segments (those of deleted streams are dropped) and tells listeners. It returns the WAL's position. An error other than ErrFenced, ErrForgotten, ErrNoWAL,
// ErrGap and ErrMismatch says nothing about the outcome: repeat the same flush.
func (s *Store) Publish(ctx context.Context, f millstream.Flush) (Outcome, millstream.LSN, error) {
	if f.From > f.To {
		return 0, 0, millstream.Errorf(millstream.Internal, "publish of WAL %s: range (%d, %d] runs backwards", f.WAL, f.From, f.To)
	}
	var outcome Outcome
	var position millstream.LSN
	err := s.tx(ctx, func(q *db.Queries) error {
		if err := checkFence(ctx, q, f.Node, f.Incarnation); err != nil {
			return err
		}
		w, err := q.LockWAL(ctx, string(f.WAL))
		if errors.Is(err, pgx.ErrNoRows) {
			return refuse(ErrNoWAL, f, "it has no registry row")
		}
		if err != nil {
			return err
		}
		if w.NodeID == string(f.Node) && w.Incarnation < f.Incarnation && w.State != walDiscarded { // an older state of it: another node has Restored this start, which must take it again
			return forgotten(f.Node, f.Incarnation, w.Incarnation)
		}
		if w.NodeID != string(f.Node) || w.Incarnation != f.Incarnation || w.State == walDiscarded {
			return millstream.Wrap(millstream.Conflict, ErrFenced, "publish of WAL %s: its holder is node %s, incarnation %d (%s), not node %s, incarnation %d", f.WAL, w.NodeID, w.Incarnation, w.State, f.Node, f.Incarnation)
		}
		position = millstream.LSN(w.Position)
		switch {
		case position == f.From:
			outcome, position = Published, f.To
			return publish(ctx, q, f)
		case position < f.From:
			outcome = Behind
			return nil
		case position >= f.To:
			outcome, err = compare(ctx, q, f)
			return err
		}
		return refuse(ErrGap, f, "its position is %d", position)
	})
	if err != nil {
		return 0, 0, fail(err, "publish (%d, %d] of WAL %s", f.From, f.To, f.WAL)
	}
	return outcome, position, nil
}

// publish moves the position and inserts what the range became. The caller holds the WAL's row.
func publish(ctx context.Context, q *db.Queries, f millstream.Flush) error {
	n, err := q.MoveWAL(ctx, db.MoveWALParams{ID: string(f.WAL), FromLsn: int64(f.From), ToLsn: int64(f.To), Clean: f.Clean})
	if err != nil {
		return err
	}
	if n != 1 {
		return refuse(ErrGap, f, "its position moved under the lock")
	}
	return q.InsertSegments(ctx, segmentParams(f))
}

// compare tells a repeated publish from a conflicting one: the recorded checksum of exactly this range decides.
func compare(ctx context.Context, q *db.Queries, f millstream.Flush) (Outcome, error) {
	if f.From < f.To {
		sum, err := q.RangeChecksum(ctx, db.RangeChecksumParams{WalID: string(f.WAL), FromLsn: int64(f.From), ToLsn: int64(f.To)})
		if errors.Is(err, pgx.ErrNoRows) {
			return 0, refuse(ErrMismatch, f, "it is published beyond that, but not as this range")
		}
		if err != nil {
			return 0, err
		}
		if sum != f.Checksum {
			return 0, refuse(ErrMismatch, f, "the published checksum is %s, this one is %s", sum, f.Checksum)
		}
	}
	if f.Clean {
		if err := q.CleanWAL(ctx, db.CleanWALParams{ID: string(f.WAL), Position: int64(f.To)}); err != nil {
			return 0, err
		}
	}
	p := segmentParams(f)
	c, err := q.CompareSegments(ctx, db.CompareSegmentsParams{Ids: p.Ids, Streams: p.Streams, DataKeys: p.DataKeys})
	if err != nil {
		return 0, err
	}
	if c.Wanted > 0 && c.Same == 0 {
		return Superseded, nil
	}
	return Already, nil
}

func refuse(why error, f millstream.Flush, format string, args ...any) error {
	return millstream.Wrap(millstream.Conflict, why, "publish of (%d, %d] of WAL %s is refused: "+format, append([]any{f.From, f.To, f.WAL}, args...)...)
}

func segmentParams(f millstream.Flush) db.InsertSegmentsParams {
	n := len(f.Segments)
	p := db.InsertSegmentsParams{
		WalID: string(f.WAL), WalFrom: int64(f.From), WalTo: int64(f.To), Checksum: f.Checksum, NodeID: string(f.Node), Incarnation: f.Incarnation, IndexVersion: millstream.IndexVersion,
		Ids: make([]string, n), Streams: make([]string, n), MinTimes: make([]int64, n), MaxTimes: make([]int64, n), RowCounts: make([]int64, n),
		Levels: make([]int16, n), SchemaVersions: make([]int64, n),
		DataKeys: make([]string, n), DataOffsets: make([]int64, n), DataLengths: make([]int64, n), DataSums: make([]string, n),
		IndexKeys: make([]string, n), IndexOffsets: make([]int64, n), IndexLengths: make([]int64, n), IndexSums: make([]string, n),
	}
	for i, g := range f.Segments {
		p.Ids[i], p.Streams[i], p.MinTimes[i], p.MaxTimes[i], p.RowCounts[i] = string(g.ID), string(g.Stream), g.MinTime, g.MaxTime, g.Rows
		p.Levels[i], p.SchemaVersions[i] = int16(g.Level), g.SchemaVersion
		p.DataKeys[i], p.DataOffsets[i], p.DataLengths[i], p.DataSums[i] = g.Data.Key, g.Data.Offset, g.Data.Length, g.Data.Checksum
		p.IndexKeys[i], p.IndexOffsets[i], p.IndexLengths[i], p.IndexSums[i] = g.Index.Key, g.Index.Offset, g.Index.Length, g.Index.Checksum
	}
	return p
}
