package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/store/db"
)

// States of a WAL's registry row.
const (
	walActive    = "active"
	walAdopted   = "adopted"   // an operator takes responsibility: the next take accepts the directory as it is
	walDiscarded = "discarded" // an operator gave its rows up; the row stays so that the directory never comes back
)

// Why a WAL cannot be taken; each comes in a Conflict that says what to do.
var (
	ErrIdentity  = errors.New("the WAL's directory is another one than the registered")
	ErrShort     = errors.New("the WAL ends below its published position")
	ErrMissing   = errors.New("frames of the WAL are missing")
	ErrDiscarded = errors.New("the WAL was discarded")
)

// WALTake is a node's claim on a WAL at start. Identity is the directory's (device and inode). First is the LSN of the first frame it holds and Last that of the
// last frame it ever held; both are 0 for a new WAL, and First is Last+1 when every frame was published and deleted.
type WALTake struct {
	ID          millstream.WALID
	Node        millstream.NodeID
	Incarnation int64
	Addr        string
	Identity    string
	First, Last millstream.LSN
}

// TakeWAL makes the node the holder of a WAL and returns the position up to which it is published; the writer goes on numbering above both Last and the position.
// It refuses, changing nothing, a fenced node, another directory, a WAL that ends below the position and one that lacks frames above it.
func (s *Store) TakeWAL(ctx context.Context, t WALTake) (position millstream.LSN, err error) {
	err = s.tx(ctx, func(q *db.Queries) error {
		if err := checkFence(ctx, q, t.Node, t.Incarnation); err != nil {
			return err
		}
		if t.First <= 1 {
			if _, err := q.InsertWAL(ctx, insertWALParams(t)); err != nil {
				return err
			}
		}
		w, err := q.LockWAL(ctx, string(t.ID))
		if errors.Is(err, pgx.ErrNoRows) {
			return refuseTake(ErrMissing, t, "the database does not know it, and its frames begin at %d", t.First)
		}
		if err != nil {
			return err
		}
		position = millstream.LSN(w.Position)
		if err := checkTake(w, t); err != nil {
			return err
		}
		return q.TakeWAL(ctx, db.TakeWALParams{ID: w.ID, NodeID: string(t.Node), Incarnation: t.Incarnation, Addr: t.Addr, Identity: t.Identity})
	})
	if err != nil {
		return 0, fail(err, "take WAL %s", t.ID)
	}
	return position, nil
}

func checkTake(w db.Wal, t WALTake) error {
	position := millstream.LSN(w.Position)
	switch {
	case w.State == walDiscarded:
		return millstream.Wrap(millstream.Conflict, ErrDiscarded, "WAL %s was discarded by an operator: move its directory away, and the node starts with a new one", t.ID)
	case w.NodeID == string(t.Node) && w.Incarnation > t.Incarnation:
		return fenced(t.Node, t.Incarnation, w.Incarnation)
	case w.State == walAdopted:
		return nil
	case w.Identity != t.Identity:
		return refuseTake(ErrIdentity, t, "the directory is another one (%s) than the one registered (%s): a copy, or a restored backup", t.Identity, w.Identity)
	case t.Last < position:
		return refuseTake(ErrShort, t, "its last frame is %d, but it was published up to %d: files were lost, or this is an old copy", t.Last, position)
	case t.Last > position && t.First > position+1:
		return refuseTake(ErrMissing, t, "it was published up to %d, but its frames begin at %d: files were lost", position, t.First)
	}
	return nil
}

func refuseTake(why error, t WALTake, format string, args ...any) error {
	return &millstream.Error{
		Kind: millstream.Conflict, Err: why, Msg: fmt.Sprintf("WAL %s cannot be used: "+format, append([]any{t.ID}, args...)...),
		Hint: "put the right directory back; or accept this one as it is with `millstream wal adopt " + string(t.ID) + "`; or give its unpublished rows up with `millstream wal discard " + string(t.ID) + "`",
	}
}

// WALs lists the registered WALs for an operator, without the discarded ones.
func (s *Store) WALs(ctx context.Context) ([]WALState, error) {
	rows, err := read(ctx, s.q.WALs)
	if err != nil {
		return nil, fail(err, "list the WALs")
	}
	out := make([]WALState, len(rows))
	for i, w := range rows {
		out[i] = WALState{
			ID: millstream.WALID(w.ID), Node: millstream.NodeID(w.NodeID), Addr: w.Addr, Incarnation: w.Incarnation, Position: millstream.LSN(w.Position), Clean: w.Clean, LastPublish: deref(w.PublishedAt),
		}
	}
	return out, nil
}

// AdoptWAL is an operator's word that the next directory that claims this WAL is right, whatever its identity and end. Rows it lacks are given up.
func (s *Store) AdoptWAL(ctx context.Context, id millstream.WALID) error {
	return s.setWAL(ctx, id, walAdopted)
}

// DiscardWAL is an operator's word that the WAL's unpublished rows are given up: answers are complete without it, and its directory is never accepted again.
func (s *Store) DiscardWAL(ctx context.Context, id millstream.WALID) error {
	return s.setWAL(ctx, id, walDiscarded)
}

func (s *Store) setWAL(ctx context.Context, id millstream.WALID, state string) error {
	n, err := s.q.SetWALState(ctx, db.SetWALStateParams{ID: string(id), State: state})
	var pg *pgconn.PgError
	if err == nil && n == 0 || errors.As(err, &pg) && pg.Code == "22P02" { // no UUID
		return millstream.Errorf(millstream.NotFound, "there is no WAL %q", id)
	}
	return fail(err, "mark WAL %s as %s", id, state)
}

func insertWALParams(t WALTake) db.InsertWALParams {
	return db.InsertWALParams{ID: string(t.ID), NodeID: string(t.Node), Incarnation: t.Incarnation, Addr: t.Addr, Identity: t.Identity}
}
