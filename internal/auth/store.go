package auth

import (
	"context"
	"errors"
	"time"

	"github.com/millstream/millstream"
)

// The interfaces below are what this package asks of the database; *store.Store fits them all. Every method that changes something writes its audit entry in
// the same transaction. A row that is not there is NotFound, a duplicate is Conflict, a database that cannot be reached is Unavailable.

// Store is all of them together.
type Store interface {
	keyStore
	sessionStore
	credentialStore
	tokenStore
	userStore
	memberStore
	inviteStore
	organizationStore
	organizationAdmin
	setupStore
	auditStore
}

// ErrReused means that a refresh token was used a second time: somebody else has a copy, so the whole session has been revoked.
var ErrReused = errors.New("a former refresh token was used again")

// keyStore keeps signing keys. Keys are those still valid at now. RotateKey inserts a key that has no end and gives every other one without an end the end
// retireAt; when first is set and a key without an end exists already it does nothing.
type keyStore interface {
	Keys(ctx context.Context, now time.Time) ([]Key, error)
	RotateKey(ctx context.Context, k Key, retireAt time.Time, first bool, a Entry) error
}

// sessionStore keeps sessions. RotateSession replaces the refresh token of a live session and lets it live until expires; NotFound when the session ended or
// the token was never one of its own; when old is a former token of it, the session is revoked and ErrReused returned.
type sessionStore interface {
	CreateSession(ctx context.Context, s Session, a Entry) error
	RotateSession(ctx context.Context, id string, old, new Hash, now, expires time.Time) (user string, err error)
	RevokeSession(ctx context.Context, id string, a Entry) error
}

// credentialStore is read for every request whose rights are not cached. SessionRights is NotFound for a session that ended or was revoked, Token for a token
// that expired is still found. TouchToken notes when a token was last used.
type credentialStore interface {
	SessionRights(ctx context.Context, session string, now time.Time) (SessionRights, error)
	Token(ctx context.Context, id string) (APIToken, error)
	TouchToken(ctx context.Context, id string, at time.Time) error
}

// tokenStore manages API tokens of one organization. DeleteToken takes the maker's user id to restrict it to tokens of that maker, empty: any.
type tokenStore interface {
	CreateToken(ctx context.Context, t APIToken, a Entry) error
	Tokens(ctx context.Context, org millstream.OrgID) ([]APIToken, error)
	DeleteToken(ctx context.Context, org millstream.OrgID, id, maker string, a Entry) error
}

// userStore knows people. SetPassword also ends every session of the user but keep (empty: all), and every open invite.
type userStore interface {
	UserByEmail(ctx context.Context, email string) (User, error)
	Memberships(ctx context.Context, user string) ([]Membership, error)
	SetPassword(ctx context.Context, user, hash, keep string, a Entry) error
}

// memberStore changes who belongs to an organization. by is the role of whoever asks: a member whose present role is higher is Forbidden, and so is granting a
// higher role than by. Demoting or removing the last owner is Conflict. All of it is decided under a lock of the organization.
// AddMember adds the user with u.Email, creating u when there is none, with inv as the invite of a created user; Conflict when already a member, and when u has
// a password but the user exists. It returns the member and whether the user was created. RemoveMember also deletes a user who belongs to no organization any
// more, with sessions and invites.
type memberStore interface {
	Members(ctx context.Context, org millstream.OrgID) ([]Member, error)
	AddMember(ctx context.Context, org millstream.OrgID, u User, role Role, inv *Invite, by Role, a Entry) (m Member, created bool, err error)
	SetMemberRole(ctx context.Context, org millstream.OrgID, user string, role, by Role, a Entry) error
	RemoveMember(ctx context.Context, org millstream.OrgID, user string, by Role, a Entry) error
}

// inviteStore keeps single-use links that set a password. Reinvite replaces the open invites of a member whose only organization this is; Conflict when the user
// belongs to others too (whose administrators this one must not lock out or impersonate). AcceptInvite consumes a live invite, sets the password and ends the
// user's sessions; NotFound when it is unknown, used or expired.
type inviteStore interface {
	Reinvite(ctx context.Context, org millstream.OrgID, inv Invite, by Role, a Entry) error
	AcceptInvite(ctx context.Context, hash Hash, password string, now time.Time, a Entry) (User, error)
}

// organizationStore reads organizations; Organizations are those the user belongs to.
type organizationStore interface {
	Organization(ctx context.Context, id millstream.OrgID) (Organization, error)
	Organizations(ctx context.Context, user string) ([]Organization, error)
}

// organizationAdmin changes organizations. The owner becomes a member of the new one. The last organization cannot be deleted, nor can the installation's: Conflict.
type organizationAdmin interface {
	CreateOrganization(ctx context.Context, o Organization, owner string, a Entry) error
	UpdateOrganization(ctx context.Context, id millstream.OrgID, p OrganizationPatch, a Entry) (Organization, error)
	DeleteOrganization(ctx context.Context, id millstream.OrgID, a Entry) error
}

// setupStore guards the first run. SetupSeed gives what the one-time code is made of: seed, unless one is kept already, or nil if a user exists. Setup creates the first
// user as owner of the first organization, which becomes the installation's, in one transaction that checks that there is no user yet (else Conflict) and, unless ok is nil, that
// it takes the kept seed (nil: none; else Unauthenticated), which is then forgotten.
type setupStore interface {
	SetupSeed(ctx context.Context, seed Hash) (kept []byte, err error)
	Setup(ctx context.Context, ok func(seed []byte) bool, u User, o Organization, a Entry) error
}

// auditStore is the record of changes.
type auditStore interface {
	Record(ctx context.Context, a Entry) error
	Audit(ctx context.Context, f AuditFilter) ([]Entry, error)
}
