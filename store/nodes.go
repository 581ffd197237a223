package store

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/store/db"
)

// ErrFenced means that a newer start of the node exists, or that another node holds the WAL: this process must stop writing.
var ErrFenced = errors.New("fenced")

// ErrForgotten means that the database does not know this incarnation: it was restored to, or failed over to, an older state. See Restore.
var ErrForgotten = errors.New("the database does not know this incarnation")

func fenced(node millstream.NodeID, own, found int64) error {
	return millstream.Wrap(millstream.Conflict, ErrFenced, "node %s runs as incarnation %d, the database has %d: another process was started as this node; stop one of them or give it another [node].id", node, own, found)
}

func forgotten(node millstream.NodeID, own, found int64) error {
	return millstream.Wrap(millstream.Unavailable, ErrForgotten, "node %s runs as incarnation %d, the database has %d: the database went back to an older state", node, own, found)
}

// Now is the database's clock.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	at, err := read(ctx, func(ctx context.Context) (time.Time, error) { return s.q.Clock(ctx) })
	return at, fail(err, "read the database's clock")
}

// StartNode registers a start of a node and returns its incarnation, one above every former one and above m.Incarnation (the highest that the caller knows of
// from elsewhere; 0 if none). From then on former incarnations are fenced. A node that is draining, or not ready yet, gets no row, and that of its former
// incarnation is deleted.
func (s *Store) StartNode(ctx context.Context, m millstream.Member) (incarnation int64, err error) {
	err = s.tx(ctx, func(q *db.Queries) error {
		m.Incarnation, err = q.NextIncarnation(ctx, db.NextIncarnationParams{ID: string(m.ID), AtLeast: m.Incarnation + 1})
		if err != nil {
			return err
		}
		if m.Draining {
			_, err = q.DeleteFormerNode(ctx, db.DeleteFormerNodeParams{ID: string(m.ID), Incarnation: m.Incarnation})
		} else {
			_, err = q.UpsertNode(ctx, nodeParams(m))
		}
		if err != nil {
			return err
		}
		return q.Notify(ctx, db.NotifyParams{Channel: ChannelNodes, Payload: string(m.ID)})
	})
	return m.Incarnation, fail(err, "register node %s", m.ID)
}

// EnterNode writes the row of a started node and announces it; it returns the database's time. A node that is fenced gets none.
func (s *Store) EnterNode(ctx context.Context, m millstream.Member) (at time.Time, err error) {
	err = s.tx(ctx, func(q *db.Queries) error {
		row, err := q.Beat(ctx, string(m.ID))
		if err != nil {
			return err
		}
		at = row.At
		if _, err := q.UpsertNode(ctx, nodeParams(m)); err != nil {
			return err
		}
		return q.Notify(ctx, db.NotifyParams{Channel: ChannelNodes, Payload: string(m.ID)})
	})
	return at, fail(err, "announce node %s", m.ID)
}

// Beat is what a heartbeat learns.
type Beat struct {
	Now       time.Time // the database's clock
	Fenced    bool      // a newer incarnation of this node exists
	Forgotten bool      // the database does not know this incarnation: it went back to an older state, see Restore
	Written   bool      // the node's row was refreshed: it is neither fenced, forgotten nor draining
	SystemID  string    // names the database's history; it changes with a failover or a restore
	Positions map[millstream.WALID]millstream.LSN
}

// Heartbeat refreshes the node's row, or deletes it if the node is draining, and reads the positions of the given WALs; one that the registry lacks is not in Positions.
// A node without a WAL whose start the database has forgotten is known to it again afterwards; one with a WAL must Restore it.
func (s *Store) Heartbeat(ctx context.Context, m millstream.Member, wals []millstream.WALID) (Beat, error) {
	row, err := s.q.Beat(ctx, string(m.ID))
	if err != nil {
		return Beat{}, fail(err, "send the heartbeat of node %s", m.ID)
	}
	b := Beat{Now: row.At, SystemID: row.System, Fenced: row.Incarnation > m.Incarnation, Forgotten: row.Incarnation < m.Incarnation}
	switch {
	case b.Forgotten && len(wals) == 0 && !m.Draining: // no marker tells of this start, so it does itself; the next heartbeat finds it known
		if err := s.q.RaiseIncarnation(ctx, db.RaiseIncarnationParams{ID: string(m.ID), Incarnation: m.Incarnation}); err != nil {
			return Beat{}, fail(err, "make node %s known again", m.ID)
		}
	case b.Fenced || b.Forgotten:
	case m.Draining:
		if err := s.RemoveNode(ctx, m.ID, m.Incarnation); err != nil {
			return Beat{}, err
		}
	default:
		if _, err := s.q.UpsertNode(ctx, nodeParams(m)); err != nil {
			return Beat{}, fail(err, "send the heartbeat of node %s", m.ID)
		}
		b.Written = true
	}
	positions, err := s.q.Positions(ctx, texts(wals))
	if err != nil {
		return Beat{}, fail(err, "read the positions of node %s", m.ID)
	}
	b.Positions = make(map[millstream.WALID]millstream.LSN, len(positions))
	for _, p := range positions {
		b.Positions[millstream.WALID(p.ID)] = millstream.LSN(p.Position)
	}
	return b, nil
}

// RemoveNode takes the node out of routing; the row of a newer incarnation stays. It fences nobody.
func (s *Store) RemoveNode(ctx context.Context, id millstream.NodeID, incarnation int64) error {
	err := s.tx(ctx, func(q *db.Queries) error {
		n, err := q.DeleteNode(ctx, db.DeleteNodeParams{ID: string(id), Incarnation: incarnation})
		if err != nil || n == 0 {
			return err
		}
		return q.Notify(ctx, db.NotifyParams{Channel: ChannelNodes, Payload: string(id)})
	})
	return fail(err, "remove node %s", id)
}

// NodeSilence is how long a row outlives the last heartbeat of its node.
const NodeSilence = 5 * time.Minute

// Nodes lists the nodes whose last heartbeat is at most silence ago, by id, with the WAL that each one's incarnation holds. Ages are of one reading of the
// database's clock.
func (s *Store) Nodes(ctx context.Context, silence time.Duration) ([]millstream.Member, error) {
	rows, err := read(ctx, func(ctx context.Context) ([]db.MembersRow, error) { return s.q.Members(ctx, silence.Seconds()) })
	if err != nil {
		return nil, fail(err, "list the nodes")
	}
	out := make([]millstream.Member, len(rows))
	for i, r := range rows {
		n := &r.Node
		out[i] = millstream.Member{
			ID: millstream.NodeID(n.ID), Addr: n.Addr, Roles: n.Roles, MilliCPU: int(n.MilliCpu), PlacementID: n.PlacementID, Version: n.Version,
			Incarnation: n.Incarnation, WAL: millstream.WALID(r.Wal), StartedAt: n.StartedAt, HeartbeatAt: n.HeartbeatAt, Draining: n.Draining,
			HeartbeatAge: max(time.Duration(r.AgeSecs*float64(time.Second)), 0),
		}
	}
	return out, nil
}

// Restore puts back, after the database went to an older state, what a node's marker says: the incarnation is raised to at least the marker's, and a WAL whose
// registry row is lost gets it again at position 0, from where its holder publishes once more. Rows that are there stay as they are.
func (s *Store) Restore(ctx context.Context, t WALTake) error {
	err := s.tx(ctx, func(q *db.Queries) error {
		if err := q.RaiseIncarnation(ctx, db.RaiseIncarnationParams{ID: string(t.Node), Incarnation: t.Incarnation}); err != nil {
			return err
		}
		_, err := q.InsertWAL(ctx, insertWALParams(t))
		return err
	})
	return fail(err, "restore WAL %s of node %s", t.ID, t.Node)
}

// checkFence locks the node's incarnation against newer starts to the end of the transaction.
func checkFence(ctx context.Context, q *db.Queries, node millstream.NodeID, own int64) error {
	found, err := q.LockIncarnation(ctx, string(node))
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	switch {
	case found > own:
		return fenced(node, own, found)
	case found < own:
		return forgotten(node, own, found)
	}
	return nil
}

func nodeParams(m millstream.Member) db.UpsertNodeParams {
	roles := m.Roles
	if roles == nil {
		roles = []string{}
	}
	return db.UpsertNodeParams{
		ID: string(m.ID), Addr: m.Addr, Roles: roles, MilliCpu: int32(m.MilliCPU), PlacementID: m.PlacementID, Version: m.Version,
		Incarnation: m.Incarnation, Draining: m.Draining, Knows: int32(knownSchema()),
	}
}

// texts turns ids into strings.
func texts[T ~string](ids []T) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = string(id)
	}
	return out
}
