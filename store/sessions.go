package store

import (
	"bytes"
	"context"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/store/db"
)

// CreateSession keeps a new session.
func (s *Store) CreateSession(ctx context.Context, n auth.Session, a auth.Entry) error {
	err := s.tx(ctx, func(q *db.Queries) error {
		if err := q.InsertSession(ctx, db.InsertSessionParams{ID: n.ID, UserID: n.User, Hash: n.Hash[:], Address: clean(n.Address), Agent: clean(n.Agent), ExpiresAt: n.ExpiresAt}); err != nil {
			return err
		}
		return insertAudit(ctx, q, a)
	})
	return fail(err, "create a session")
}

// RotateSession replaces the refresh token old of a live session by new. When old is a former token of the session, somebody else holds a copy: the session is
// revoked and auth.ErrReused returned. NotFound when the session ended or old was never its token.
func (s *Store) RotateSession(ctx context.Context, id string, old, new auth.Hash, now, expires time.Time) (user string, err error) {
	reused := false
	err = s.tx(ctx, func(q *db.Queries) error {
		live, err := q.LockSession(ctx, id)
		if err != nil {
			return err
		}
		if live.RevokedAt != nil || !live.ExpiresAt.After(now) {
			return millstream.Errorf(millstream.NotFound, "the session has ended")
		}
		user = live.UserID
		if bytes.Equal(live.Hash, old[:]) {
			if err := q.InsertFormerToken(ctx, db.InsertFormerTokenParams{Hash: old[:], SessionID: id, RotatedAt: now}); err != nil {
				return err
			}
			return q.RenewSession(ctx, db.RenewSessionParams{ID: id, Hash: new[:], ExpiresAt: expires})
		}
		if reused, err = q.WasToken(ctx, db.WasTokenParams{Hash: old[:], SessionID: id}); err != nil {
			return err
		}
		if !reused {
			return millstream.Errorf(millstream.NotFound, "the session does not know the refresh token")
		}
		return revokeReused(ctx, q, live)
	})
	if err != nil {
		return "", fail(findable(err), "refresh a session")
	}
	if reused {
		return "", auth.ErrReused
	}
	return user, nil
}

func revokeReused(ctx context.Context, q *db.Queries, live db.Session) error {
	if _, err := q.RevokeSession(ctx, live.ID); err != nil {
		return err
	}
	if err := q.Notify(ctx, db.NotifyParams{Channel: ChannelAuth, Payload: ""}); err != nil {
		return err
	}
	return insertAudit(ctx, q, auth.Entry{Actor: "system", Action: "session.revoke", Target: live.ID, Detail: map[string]any{"user": live.UserID, "reason": "a former refresh token was used again"}})
}

// RevokeSession ends a session at once.
func (s *Store) RevokeSession(ctx context.Context, id string, a auth.Entry) error {
	err := s.audited(ctx, a, func(q *db.Queries) error { return oneRow(q.RevokeSession(ctx, id)) })
	return fail(findable(err), "end a session")
}

// SessionRights is what a live session is worth now; NotFound when it ended.
func (s *Store) SessionRights(ctx context.Context, session string, now time.Time) (auth.SessionRights, error) {
	row, err := read(ctx, func(ctx context.Context) (db.SessionUserRow, error) {
		return s.q.SessionUser(ctx, db.SessionUserParams{ID: session, Now: now})
	})
	if err != nil {
		return auth.SessionRights{}, fail(findable(err), "find a session")
	}
	ms, err := s.Memberships(ctx, row.User.ID)
	return auth.SessionRights{User: userOf(row.User), Memberships: ms}, err
}

// Keys lists the signing keys that are valid at now, newest first.
func (s *Store) Keys(ctx context.Context, now time.Time) ([]auth.Key, error) {
	rows, err := read(ctx, func(ctx context.Context) ([]db.JwtKey, error) { return s.q.Keys(ctx, now) })
	if err != nil {
		return nil, fail(err, "read the signing keys")
	}
	out := make([]auth.Key, len(rows))
	for i, r := range rows {
		out[i] = auth.Key{ID: r.ID, Secret: r.Secret, CreatedAt: r.CreatedAt, ValidUntil: deref(r.ValidUntil)}
	}
	return out, nil
}

// RotateKey makes k the key that signs; the former ones verify until retireAt. With first set it does nothing when a signing key exists already.
func (s *Store) RotateKey(ctx context.Context, k auth.Key, retireAt time.Time, first bool, a auth.Entry) error {
	err := s.tx(ctx, func(q *db.Queries) error {
		if err := q.LockKeys(ctx); err != nil {
			return err
		}
		if first {
			if exists, err := q.HasCurrentKey(ctx); err != nil || exists {
				return err
			}
		}
		if err := q.RetireKeys(ctx, retireAt); err != nil {
			return err
		}
		if err := q.InsertKey(ctx, db.InsertKeyParams{ID: k.ID, Secret: k.Secret, CreatedAt: k.CreatedAt}); err != nil {
			return err
		}
		return insertAudit(ctx, q, a)
	})
	return fail(err, "rotate the signing key")
}
