// Package auth decides who is asking and what they may do: passwords, sessions, API tokens, roles and first-run setup. It knows no HTTP beyond the
// Authorization header's text, and reads and writes rows through small interfaces that *store.Store fits.
package auth

import (
	"strings"

	"github.com/millstream/millstream"
)

// Role is a user's rank in one organization. Ranks are ordered: a higher one may do all that a lower one may.
type Role uint8

// The roles. NoRole is that of somebody who is not a member.
const (
	NoRole Role = iota
	Viewer
	Editor
	Admin
	Owner
)

var roleNames = [...]string{"", "viewer", "editor", "admin", "owner"}

func (r Role) String() string {
	if int(r) < len(roleNames) {
		return roleNames[r]
	}
	return ""
}

// ParseRole reads a role's name; an unknown one is Invalid.
func ParseRole(s string) (Role, error) {
	for i, n := range roleNames {
		if n == s && i > 0 {
			return Role(i), nil
		}
	}
	return NoRole, millstream.Errorf(millstream.Invalid, "unknown role %q: use owner, admin, editor or viewer", s)
}

// Scope is a set of the kinds of work a credential is good for.
type Scope uint8

// The scopes an API token can carry. A session carries all of them; its role is its limit.
const (
	Intake Scope = 1 << iota
	Query
	Administer

	AllScopes = Intake | Query | Administer
)

var scopeNames = []struct {
	scope Scope
	name  string
}{{Intake, "intake"}, {Query, "query"}, {Administer, "admin"}}

// Names lists the scopes of the set by name.
func (s Scope) Names() []string {
	out := make([]string, 0, len(scopeNames))
	for _, n := range scopeNames {
		if s&n.scope != 0 {
			out = append(out, n.name)
		}
	}
	return out
}

func (s Scope) String() string { return strings.Join(s.Names(), ",") }

// ParseScopes reads a list of scope names; an unknown name or an empty list is Invalid.
func ParseScopes(names []string) (Scope, error) {
	var s Scope
next:
	for _, name := range names {
		for _, n := range scopeNames {
			if n.name == name {
				s |= n.scope
				continue next
			}
		}
		return 0, millstream.Errorf(millstream.Invalid, "unknown scope %q: use intake, query or admin", name)
	}
	if s == 0 {
		return 0, millstream.Errorf(millstream.Invalid, "a token needs at least one scope: intake, query or admin")
	}
	return s, nil
}

// Grantable is the set of scopes that somebody of this role may put into an API token.
func (r Role) Grantable() Scope {
	switch r {
	case Owner, Admin:
		return AllScopes
	case Editor:
		return Intake | Query
	case Viewer:
		return Query
	}
	return 0
}

// Principal is who asks and what they may do in one organization. It is immutable and shared between requests.
type Principal struct {
	User    string // user id; the maker of an API token
	Email   string
	Org     millstream.OrgID
	Slug    string // the organization's slug
	Role    Role
	Scopes  Scope
	TokenID string // of an API token, empty for a session
	Session string // of a session, empty for an API token

	// Installation is the role in the organization that looks after the installation, whichever one is worked in: an API token has one only there.
	Installation Role

	// Degraded says that the database could not be asked and the rights are those of up to ten minutes ago, cut down to intake.
	Degraded bool
}

// May says whether the principal has a scope and at least a role. An intake token belongs to its organization rather than to its maker: it can read
// nothing, so it keeps working whatever becomes of the maker's role.
func (p *Principal) May(scope Scope, min Role) bool {
	if p.Scopes&scope != scope {
		return false
	}
	return p.Role >= min || p.TokenID != "" && scope == Intake
}

// MayAdminister says whether the principal may look after the installation as a whole (its nodes, its keys) with at least a role.
func (p *Principal) MayAdminister(min Role) bool {
	return p.Scopes&Administer != 0 && p.Installation >= min
}

// Actor names the principal in the audit log.
func (p *Principal) Actor() string {
	switch {
	case p == nil:
		return "anonymous"
	case p.TokenID != "":
		return "token:" + p.TokenID
	}
	return "user:" + p.Email
}
