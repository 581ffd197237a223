package store

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/store/db"
)

// Organization finds an organization.
func (s *Store) Organization(ctx context.Context, id millstream.OrgID) (auth.Organization, error) {
	r, err := read(ctx, func(ctx context.Context) (db.Organization, error) { return s.q.Organization(ctx, string(id)) })
	if err != nil {
		return auth.Organization{}, fail(findable(err), "find organization %s", clean(string(id)))
	}
	return organizationOf(r), nil
}

// Organizations lists those that the user belongs to; all of them for an empty user.
func (s *Store) Organizations(ctx context.Context, user string) ([]auth.Organization, error) {
	rows, err := read(ctx, func(ctx context.Context) ([]db.Organization, error) {
		if user == "" {
			return s.q.Organizations(ctx)
		}
		return s.q.OrganizationsOf(ctx, user)
	})
	if err != nil {
		return nil, fail(err, "list the organizations")
	}
	out := make([]auth.Organization, len(rows))
	for i, r := range rows {
		out[i] = organizationOf(r)
	}
	return out, nil
}

// CreateOrganization makes an organization and the user its owner. A slug that is taken, in whatever case, is Conflict.
func (s *Store) CreateOrganization(ctx context.Context, o auth.Organization, owner string, a auth.Entry) error {
	err := s.audited(ctx, a, func(q *db.Queries) error { return createOrganization(ctx, q, o, owner, false) })
	return fail(err, "create organization %s", o.Slug)
}

func createOrganization(ctx context.Context, q *db.Queries, o auth.Organization, owner string, installation bool) error {
	err := q.InsertOrganization(ctx, db.InsertOrganizationParams{
		ID: string(o.ID), Slug: o.Slug, Name: o.Name, RetentionDays: int32(o.RetentionDays), IntakeQps: int32(o.IntakeQPS), QueryQps: int32(o.QueryQPS), QuotaBytes: o.QuotaBytes, CreatedAt: o.CreatedAt, Installation: installation,
	})
	if err != nil {
		return err
	}
	return q.InsertMembership(ctx, db.InsertMembershipParams{OrgID: string(o.ID), UserID: owner, Role: int16(auth.Owner), JoinedAt: o.CreatedAt})
}

// UpdateOrganization changes settings.
func (s *Store) UpdateOrganization(ctx context.Context, id millstream.OrgID, p auth.OrganizationPatch, a auth.Entry) (auth.Organization, error) {
	var r db.Organization
	err := s.audited(ctx, a, func(q *db.Queries) (err error) {
		r, err = q.UpdateOrganization(ctx, db.UpdateOrganizationParams{
			ID: string(id), Slug: p.Slug, Name: p.Name, RetentionDays: narrow(p.RetentionDays), IntakeQps: narrow(p.IntakeQPS), QueryQps: narrow(p.QueryQPS), QuotaBytes: p.QuotaBytes,
		})
		return err
	})
	return organizationOf(r), fail(err, "change organization %s", id)
}

// DeleteOrganization deletes an organization with its streams, tokens and memberships, and the people who belong to no other. The last one stays, and so does that of the installation.
func (s *Store) DeleteOrganization(ctx context.Context, id millstream.OrgID, a auth.Entry) error {
	err := s.audited(ctx, a, func(q *db.Queries) error {
		if err := q.LockInstallation(ctx); err != nil {
			return err
		}
		if err := q.OwnStreams(ctx); err != nil {
			return err
		}
		members, err := q.OrganizationMembers(ctx, string(id))
		if err != nil {
			return err
		}
		installation, err := q.DeleteOrganization(ctx, string(id))
		if err != nil {
			return findable(err)
		}
		left, err := q.CountOrganizations(ctx)
		if err != nil {
			return err
		}
		if left == 0 {
			return millstream.Errorf(millstream.Conflict, "this is the last organization: it cannot be deleted")
		}
		if installation {
			return millstream.Errorf(millstream.Conflict, "the administrators of this organization look after the installation: it cannot be deleted")
		}
		users := make([]string, len(members))
		for i, m := range members {
			users[i] = m.User.ID
		}
		if err := q.DeleteOrphans(ctx, users); err != nil {
			return err
		}
		if _, err := q.ExpireOrganization(ctx, string(id)); err != nil {
			return err
		}
		return q.ExpireOrganizationManifests(ctx, string(id))
	})
	return fail(err, "delete organization %s", id)
}

// SetupSeed is what the one-time code of the first run is made of: the one that was given first, nil if a user exists.
func (s *Store) SetupSeed(ctx context.Context, seed auth.Hash) (kept []byte, err error) {
	err = s.tx(ctx, func(q *db.Queries) error {
		if err := q.LockInstallation(ctx); err != nil {
			return err
		}
		if kept, err = q.KeepSetupSeed(ctx, seed[:]); errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	return kept, fail(err, "keep the seed of the setup code")
}

// Setup creates the first user as owner of the first organization, which is the installation's. It is Conflict when a user exists, and Unauthenticated when ok does
// not take the kept seed (nil: none); that is forgotten with success.
func (s *Store) Setup(ctx context.Context, ok func(seed []byte) bool, u auth.User, o auth.Organization, a auth.Entry) error {
	err := s.audited(ctx, a, func(q *db.Queries) error {
		if err := q.LockInstallation(ctx); err != nil {
			return err
		}
		if exists, err := q.AnyUser(ctx); err != nil {
			return err
		} else if exists {
			return millstream.Errorf(millstream.Conflict, "the setup is done: sign in")
		}
		if ok != nil {
			kept, err := q.SetupSeed(ctx)
			if err != nil && !errors.Is(err, pgx.ErrNoRows) {
				return err
			}
			if !ok(kept) {
				return millstream.Errorf(millstream.Unauthenticated, "the setup code is wrong: it is printed when the node starts")
			}
		}
		if err := insertUser(ctx, q, u); err != nil {
			return err
		}
		if err := createOrganization(ctx, q, o, u.ID, true); err != nil {
			return err
		}
		return q.ForgetSetupSeed(ctx)
	})
	return fail(err, "set up the first user")
}

func organizationOf(r db.Organization) auth.Organization {
	return auth.Organization{
		ID: millstream.OrgID(r.ID), Slug: r.Slug, Name: r.Name, RetentionDays: int(r.RetentionDays), IntakeQPS: int(r.IntakeQps), QueryQPS: int(r.QueryQps), QuotaBytes: r.QuotaBytes, CreatedAt: r.CreatedAt,
	}
}
