package store

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/store/db"
)

const (
	// MaxLinks is how many links an organization may have.
	MaxLinks = 10_000
	// MaxLinkState is the size of a link's state in bytes.
	MaxLinkState = 64 << 10
	linkAge      = 90 * 24 * time.Hour // since it was last used, to the day
)

// CreateLink keeps the state of a page and returns an id that cannot be guessed. The same state of the same person is the same link.
func (s *Store) CreateLink(ctx context.Context, by Author, state json.RawMessage, a auth.Entry) (id string, err error) {
	if len(state) > MaxLinkState {
		return "", millstream.Errorf(millstream.TooLarge, "the state has %d bytes, more than %d", len(state), MaxLinkState)
	}
	if a.At.IsZero() {
		a.At = time.Now()
	}
	sum := sha256.Sum256(state)
	err = s.tx(ctx, func(q *db.Queries) error {
		if _, err := q.LockOrganization(ctx, string(by.Org)); err != nil {
			return err
		}
		id, err = q.LinkOf(ctx, db.LinkOfParams{OrgID: string(by.Org), OwnerID: orNil(by.User), Hash: sum[:]})
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			id = rand.Text()
			err = insertLink(ctx, q, id, by, state, sum[:], a.At)
		case err == nil:
			err = q.TouchLink(ctx, db.TouchLinkParams{ID: id, OrgID: string(by.Org), UsedAt: a.At})
		}
		if err != nil {
			return err
		}
		a.Target = "link/" + id
		return insertAudit(ctx, q, a)
	})
	return id, fail(err, "keep a link")
}

func insertLink(ctx context.Context, q *db.Queries, id string, by Author, state, hash []byte, at time.Time) error {
	n, err := q.CountLinks(ctx, string(by.Org))
	if err != nil {
		return err
	}
	if n >= MaxLinks {
		return millstream.Errorf(millstream.Invalid, "the organization has %d links, the most that is allowed: they go 90 days after their last use; save a view instead", n)
	}
	return q.InsertLink(ctx, db.InsertLinkParams{ID: id, OrgID: string(by.Org), OwnerID: orNil(by.User), Hash: hash, State: state, UsedAt: at})
}

// Link is the state behind a link of the organization. Reading it is a use, which is noted once a day.
func (s *Store) Link(ctx context.Context, org millstream.OrgID, id string, now time.Time) (json.RawMessage, error) {
	r, err := read(ctx, func(ctx context.Context) (db.LinkRow, error) {
		return s.q.Link(ctx, db.LinkParams{ID: id, OrgID: string(org)})
	})
	if err != nil {
		return nil, fail(findable(err), "find the link %s", clean(id))
	}
	if now.Sub(r.UsedAt) <= 24*time.Hour {
		return r.State, nil
	}
	return r.State, fail(s.q.TouchLink(ctx, db.TouchLinkParams{ID: id, OrgID: string(org), UsedAt: now}), "note the use of the link %s", id)
}
