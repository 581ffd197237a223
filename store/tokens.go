package store

import (
	"context"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/store/db"
)

// CreateToken keeps a new API token.
func (s *Store) CreateToken(ctx context.Context, t auth.APIToken, a auth.Entry) error {
	err := s.audited(ctx, a, func(q *db.Queries) error {
		return q.InsertToken(ctx, db.InsertTokenParams{
			ID: t.ID, OrgID: string(t.Org), UserID: orNil(t.User), Name: t.Name, Hash: t.Hash[:], Scopes: int16(t.Scopes), CreatedAt: t.CreatedAt, ExpiresAt: timeOrNil(t.ExpiresAt),
		})
	})
	return fail(err, "create API token %s", t.ID)
}

// Token finds an API token by its public id, also one that expired.
func (s *Store) Token(ctx context.Context, id string) (auth.APIToken, error) {
	r, err := read(ctx, func(ctx context.Context) (db.TokenRow, error) { return s.q.Token(ctx, id) })
	if err != nil {
		return auth.APIToken{}, fail(findable(err), "find an API token")
	}
	return tokenOf(r), nil
}

// Tokens lists an organization's API tokens, oldest first.
func (s *Store) Tokens(ctx context.Context, org millstream.OrgID) ([]auth.APIToken, error) {
	rows, err := read(ctx, func(ctx context.Context) ([]db.TokensRow, error) { return s.q.Tokens(ctx, string(org)) })
	if err != nil {
		return nil, fail(err, "list the API tokens")
	}
	out := make([]auth.APIToken, len(rows))
	for i, r := range rows {
		out[i] = tokenOf(db.TokenRow(r))
	}
	return out, nil
}

// TouchToken notes that a token was used; exact to a minute.
func (s *Store) TouchToken(ctx context.Context, id string, at time.Time) error {
	return fail(s.q.TouchToken(ctx, db.TouchTokenParams{ID: id, At: at}), "note the use of API token %s", id)
}

// DeleteToken deletes a token of the organization; with a maker only one that this user made. Anything else is NotFound.
func (s *Store) DeleteToken(ctx context.Context, org millstream.OrgID, id, maker string, a auth.Entry) error {
	err := s.audited(ctx, a, func(q *db.Queries) error {
		return oneRow(q.DeleteToken(ctx, db.DeleteTokenParams{ID: id, OrgID: string(org), Maker: maker}))
	})
	return fail(findable(err), "delete API token %s", clean(id))
}

func tokenOf(r db.TokenRow) auth.APIToken {
	t := r.ApiToken
	return auth.APIToken{
		ID: t.ID, Org: millstream.OrgID(t.OrgID), Slug: r.Slug, User: deref(t.UserID), Email: r.Email, MakerRole: auth.Role(r.MakerRole), OfInstallation: r.Installation, Name: t.Name,
		Hash: auth.Hash(t.Hash), Scopes: auth.Scope(t.Scopes), CreatedAt: t.CreatedAt, ExpiresAt: deref(t.ExpiresAt), LastUsedAt: deref(t.LastUsedAt),
	}
}
