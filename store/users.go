package store

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/store/db"
)

// UserByEmail finds a user; case does not count.
func (s *Store) UserByEmail(ctx context.Context, email string) (auth.User, error) {
	row, err := read(ctx, func(ctx context.Context) (db.User, error) { return s.q.UserByEmail(ctx, email) })
	if err != nil {
		return auth.User{}, fail(findable(err), "find a user")
	}
	return userOf(row), nil
}

// Memberships lists the organizations of a user, the one joined first first.
func (s *Store) Memberships(ctx context.Context, user string) ([]auth.Membership, error) {
	rows, err := read(ctx, func(ctx context.Context) ([]db.MembershipsRow, error) { return s.q.Memberships(ctx, user) })
	if err != nil {
		return nil, fail(err, "list the organizations of a user")
	}
	out := make([]auth.Membership, len(rows))
	for i, r := range rows {
		out[i] = auth.Membership{Org: millstream.OrgID(r.OrgID), Slug: r.Slug, Name: r.Name, Role: auth.Role(r.Role), Installation: r.Installation}
	}
	return out, nil
}

// SetPassword replaces a password hash and ends every session of the user but keep, and every open invite.
func (s *Store) SetPassword(ctx context.Context, user, hash, keep string, a auth.Entry) error {
	err := s.audited(ctx, a, func(q *db.Queries) error { return setPassword(ctx, q, user, hash, keep) })
	return fail(err, "set a password")
}

func setPassword(ctx context.Context, q *db.Queries, user, hash, keep string) error {
	if err := oneRow(q.SetPassword(ctx, db.SetPasswordParams{ID: user, PasswordHash: hash})); err != nil {
		return err
	}
	if err := q.RevokeUserSessions(ctx, db.RevokeUserSessionsParams{UserID: user, Keep: keep}); err != nil {
		return err
	}
	return q.DeleteInvites(ctx, user)
}

// Members lists the people of an organization by e-mail address.
func (s *Store) Members(ctx context.Context, org millstream.OrgID) ([]auth.Member, error) {
	rows, err := read(ctx, func(ctx context.Context) ([]db.OrganizationMembersRow, error) {
		return s.q.OrganizationMembers(ctx, string(org))
	})
	if err != nil {
		return nil, fail(err, "list the members")
	}
	out := make([]auth.Member, len(rows))
	for i, r := range rows {
		out[i] = memberOf(r.User, auth.Role(r.Role), r.JoinedAt)
	}
	return out, nil
}

// AddMember makes the person with u.Email a member. One who is unknown so far is created as u, with inv as the invite; u with a password for a known person is
// Conflict, because it would set somebody else's, and so is a person who is a member already.
func (s *Store) AddMember(ctx context.Context, org millstream.OrgID, u auth.User, role auth.Role, inv *auth.Invite, by auth.Role, a auth.Entry) (m auth.Member, created bool, err error) {
	if role > by {
		return m, false, above(role)
	}
	err = s.audited(ctx, a, func(q *db.Queries) error {
		if _, err := q.LockOrganization(ctx, string(org)); err != nil {
			return err
		}
		if err := q.LockInstallation(ctx); err != nil { // two organizations that add one new person create one user
			return err
		}
		row, err := q.UserByEmail(ctx, u.Email)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			created, row = true, rowOfUser(u)
			if err := createUser(ctx, q, u, inv); err != nil {
				return err
			}
		case err != nil:
			return err
		case u.Password != "":
			return millstream.Errorf(millstream.Conflict, "%s has an account already: add the person without a password", u.Email)
		}
		if err := refuseMember(ctx, q, org, row); err != nil {
			return err
		}
		m = memberOf(row, role, u.CreatedAt)
		return q.InsertMembership(ctx, db.InsertMembershipParams{OrgID: string(org), UserID: row.ID, Role: int16(role), JoinedAt: u.CreatedAt})
	})
	return m, created, fail(err, "add %s", u.Email)
}

func refuseMember(ctx context.Context, q *db.Queries, org millstream.OrgID, u db.User) error {
	_, err := q.Membership(ctx, db.MembershipParams{OrgID: string(org), UserID: u.ID})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	return millstream.Errorf(millstream.Conflict, "%s is a member already", u.Email)
}

func createUser(ctx context.Context, q *db.Queries, u auth.User, inv *auth.Invite) error {
	if err := insertUser(ctx, q, u); err != nil || inv == nil {
		return err
	}
	return q.InsertInvite(ctx, db.InsertInviteParams{Hash: inv.Hash[:], UserID: u.ID, ExpiresAt: inv.ExpiresAt})
}

func insertUser(ctx context.Context, q *db.Queries, u auth.User) error {
	return q.InsertUser(ctx, db.InsertUserParams{ID: u.ID, Email: u.Email, Name: u.Name, PasswordHash: u.Password, CreatedAt: u.CreatedAt})
}

// SetMemberRole changes a role. Neither a member above by nor a role above by is allowed, and the last owner stays one.
func (s *Store) SetMemberRole(ctx context.Context, org millstream.OrgID, user string, role, by auth.Role, a auth.Entry) error {
	err := s.audited(ctx, a, func(q *db.Queries) error {
		has, err := lockMember(ctx, q, org, user, by)
		if err != nil {
			return err
		}
		if role > by {
			return above(role)
		}
		if err := keepOwner(ctx, q, org, has, role); err != nil {
			return err
		}
		return q.SetRole(ctx, db.SetRoleParams{OrgID: string(org), UserID: user, Role: int16(role)})
	})
	return fail(err, "change the role of a member")
}

// RemoveMember ends a membership, never of somebody above by nor of the last owner. A user who belongs to no organization any more is deleted.
func (s *Store) RemoveMember(ctx context.Context, org millstream.OrgID, user string, by auth.Role, a auth.Entry) error {
	err := s.audited(ctx, a, func(q *db.Queries) error {
		has, err := lockMember(ctx, q, org, user, by)
		if err != nil {
			return err
		}
		if err := keepOwner(ctx, q, org, has, auth.NoRole); err != nil {
			return err
		}
		if _, err := q.LockUser(ctx, user); err != nil {
			return err
		}
		if err := q.DeleteMembership(ctx, db.DeleteMembershipParams{OrgID: string(org), UserID: user}); err != nil {
			return err
		}
		n, err := q.CountMemberships(ctx, user)
		if err != nil || n > 0 {
			return err
		}
		return q.DeleteUser(ctx, user)
	})
	return fail(err, "remove a member")
}

// lockMember locks the organization's memberships against changes by others and reads the user's role.
func lockMember(ctx context.Context, q *db.Queries, org millstream.OrgID, user string, by auth.Role) (auth.Role, error) {
	if _, err := q.LockOrganization(ctx, string(org)); err != nil {
		return 0, err
	}
	m, err := q.Membership(ctx, db.MembershipParams{OrgID: string(org), UserID: user})
	if err != nil {
		return 0, err
	}
	if has := auth.Role(m.Role); has > by {
		return 0, millstream.Errorf(millstream.Forbidden, "the member is %s, which is above your own role", has)
	}
	return auth.Role(m.Role), nil
}

func keepOwner(ctx context.Context, q *db.Queries, org millstream.OrgID, has, becomes auth.Role) error {
	if has != auth.Owner || becomes == auth.Owner {
		return nil
	}
	n, err := q.CountOwners(ctx, db.CountOwnersParams{OrgID: string(org), Owner: int16(auth.Owner)})
	if err != nil {
		return err
	}
	if n <= 1 {
		return millstream.Errorf(millstream.Conflict, "this is the organization's last owner: make somebody else owner first")
	}
	return nil
}

func above(role auth.Role) error {
	return millstream.Errorf(millstream.Forbidden, "you cannot make somebody %s: that is above your own role", role)
}

// Reinvite replaces the open invites of a member whose only organization this is.
func (s *Store) Reinvite(ctx context.Context, org millstream.OrgID, inv auth.Invite, by auth.Role, a auth.Entry) error {
	err := s.audited(ctx, a, func(q *db.Queries) error {
		if _, err := lockMember(ctx, q, org, inv.User, by); err != nil {
			return err
		}
		if _, err := q.LockUser(ctx, inv.User); err != nil {
			return err
		}
		n, err := q.CountMemberships(ctx, inv.User)
		if err != nil {
			return err
		}
		if n > 1 {
			return millstream.Errorf(millstream.Conflict, "the person belongs to other organizations too: only they themselves can change the password")
		}
		if err := q.DeleteInvites(ctx, inv.User); err != nil {
			return err
		}
		return q.InsertInvite(ctx, db.InsertInviteParams{Hash: inv.Hash[:], UserID: inv.User, ExpiresAt: inv.ExpiresAt})
	})
	return fail(err, "invite a member")
}

// AcceptInvite consumes a live invite, sets the password and ends the user's sessions; NotFound when it is unknown, used or expired, or
// would change the password of somebody who belongs to other organizations by now.
func (s *Store) AcceptInvite(ctx context.Context, hash auth.Hash, password string, now time.Time, a auth.Entry) (auth.User, error) {
	var u auth.User
	err := s.tx(ctx, func(q *db.Queries) error {
		id, err := q.TakeInvite(ctx, db.TakeInviteParams{Hash: hash[:], Now: now})
		if err != nil {
			return err
		}
		row, err := q.LockUser(ctx, id)
		if err != nil {
			return err
		}
		n, err := q.CountMemberships(ctx, id)
		if err != nil {
			return err
		}
		if n > 1 && row.PasswordHash != "" { // as Reinvite has it; the person joined another organization after it
			return pgx.ErrNoRows
		}
		if err := setPassword(ctx, q, id, password, ""); err != nil {
			return err
		}
		if row, err = q.UserByID(ctx, id); err != nil {
			return err
		}
		u = userOf(row)
		if a.Actor == "" || a.Actor == "anonymous" {
			a.Actor = "user:" + u.Email
		}
		if a.Target == "" {
			a.Target = u.Email
		}
		ms, err := q.Memberships(ctx, id)
		if err != nil {
			return err
		}
		if a.Org == "" && len(ms) > 0 { // who accepts is known only now, so the organization whose log shows it is too
			a.Org = millstream.OrgID(ms[0].OrgID)
		}
		return insertAudit(ctx, q, a)
	})
	return u, fail(err, "accept an invite")
}

func userOf(r db.User) auth.User {
	return auth.User{ID: r.ID, Email: r.Email, Name: r.Name, Password: r.PasswordHash, CreatedAt: r.CreatedAt}
}

func rowOfUser(u auth.User) db.User {
	return db.User{ID: u.ID, Email: u.Email, Name: u.Name, PasswordHash: u.Password, CreatedAt: u.CreatedAt}
}

func memberOf(u db.User, role auth.Role, joined time.Time) auth.Member {
	return auth.Member{User: userOf(u), Role: role, Pending: u.PasswordHash == "", JoinedAt: joined}
}
