package auth

import (
	"time"

	"github.com/millstream/millstream"
)

// User is a person. E-mail addresses are unique, compared in lower case.
type User struct {
	ID        string
	Email     string
	Name      string
	Password  string // argon2id hash; empty: none set yet, nobody can sign in with one
	CreatedAt time.Time
}

// Organization separates data and people. Limits and retention of 0 mean the node's defaults.
type Organization struct {
	ID            millstream.OrgID
	Slug          string // unique, [A-Za-z0-9_.-]{1,128}
	Name          string
	RetentionDays int
	IntakeQPS     int // requests per second
	QueryQPS      int
	QuotaBytes    int64 // stored bytes
	CreatedAt     time.Time
}

// Membership is a user's role in one organization.
type Membership struct {
	Org  millstream.OrgID
	Slug string
	Name string
	Role Role

	Installation bool // the organization's administrators look after the installation
}

// Member is a user as an organization sees it.
type Member struct {
	User
	Role     Role
	Pending  bool // has no password yet
	JoinedAt time.Time
}

// APIToken is a machine's credential. Hash is all that is kept of its secret.
type APIToken struct {
	ID             string // the public 8 characters
	Org            millstream.OrgID
	Slug           string // of the organization
	User           string // the maker
	Email          string // of the maker
	MakerRole      Role   // of the maker in the organization now, NoRole after leaving it
	OfInstallation bool   // the organization is the installation's
	Name           string
	Hash           Hash
	Scopes         Scope
	CreatedAt      time.Time
	ExpiresAt      time.Time // zero: never
	LastUsedAt     time.Time // zero: never; exact to a minute
}

// Session is a signed-in browser or program: one family of refresh tokens, of which only the newest is good.
type Session struct {
	ID        string
	User      string
	Hash      Hash // of the newest refresh token
	ExpiresAt time.Time
	Address   string
	Agent     string
}

// SessionRights is what a session is worth right now.
type SessionRights struct {
	User        User
	Memberships []Membership
}

// Invite lets one person set a password once.
type Invite struct {
	Hash      Hash
	User      string
	ExpiresAt time.Time
}

// Entry is one line of the audit log.
type Entry struct {
	ID      string
	At      time.Time
	Org     millstream.OrgID // empty: the installation as a whole
	Actor   string           // user:<e-mail>, token:<id>, system, anonymous
	Action  string           // noun.verb
	Target  string
	Outcome string // ok, refused
	Address string
	Request string // request id
	Detail  map[string]any
}

// AuditFilter selects audit entries, newest first.
type AuditFilter struct {
	Org    millstream.OrgID
	Actor  string
	Action string
	Before time.Time // zero: now
	Limit  int
}

// OrganizationPatch changes the settings that are not nil.
type OrganizationPatch struct {
	Slug          *string
	Name          *string
	RetentionDays *int
	IntakeQPS     *int
	QueryQPS      *int
	QuotaBytes    *int64
}
