package ui

import (
	"net/url"
	"time"

	"github.com/a-h/templ"
)

// Access is the page of people, tokens, the audit log and the organization's own settings. Tab says which of them is shown; the others' fields are empty.
type Access struct {
	Frame
	Tab     string // users, tokens, audit or organization
	Problem *Problem
	Done    string // what has just been done

	Users  []Member
	Roles  []string // that the reader may give
	Typed  NewUser
	Invite *Invitation

	Tokens []APIToken
	Scopes []string // that the reader may give
	Name   string   // of the new token, as typed

	Audit Audit
	Org   Organization
}

// Member is somebody of the organization.
type Member struct {
	ID, Email, Name, Role string
	Pending               bool // has not chosen a password yet
	Joined                time.Time
	Self                  bool
	Above                 bool // of a higher rank than the reader
}

// NewUser is what was typed to add somebody.
type NewUser struct{ Email, Name, Role string }

// Invitation is a link by which somebody chooses a password. It is shown once.
type Invitation struct {
	Email, URL string
	Until      time.Time
}

// APIToken is a machine's credential, without its secret.
type APIToken struct {
	ID, Name, Owner string
	Scopes          []string
	Created         time.Time
	Expires, Used   time.Time // zero: never
	Expired         bool
}

// Audit is a part of the audit log, newest first.
type Audit struct {
	Entries       []AuditEntry
	Actor, Action string // the filter
	Older         string // time before which there is more; empty: there is none
}

// AuditEntry is one line of it.
type AuditEntry struct {
	At                                      time.Time
	Actor, Action, Target, Address, Request string
	Refused                                 bool
	Detail                                  string
}

// Organization is the settings of an organization; 0 is the node's default.
type Organization struct {
	ID, Slug, Name string
	RetentionDays  int
	IntakeQPS      int
	QueryQPS       int
	QuotaBytes     int64
}

// InvitePage is where somebody who was invited chooses a password.
type InvitePage struct {
	Frame
	Token   string
	Problem *Problem
	Refused string
}

// Page is the tab as a component.
func (a Access) Page() templ.Component { return a.page() }

// Page is the page as a component.
func (i InvitePage) Page() templ.Component { return i.page() }

// tabs are those that the reader may open.
func (a Access) tabs() []navLink {
	all := []navLink{{"tokens", "API tokens", "key-round", a.OrgPath("access/tokens")}}
	if a.may("admin") {
		all = append([]navLink{{"users", "Users", "users", a.OrgPath("access")}}, append(all,
			navLink{"audit", "Audit log", "history", a.OrgPath("access/audit")}, navLink{"organization", "Organization", "building-2", a.OrgPath("access/organization")})...)
	}
	return all
}

// rights says what each role may do, for the table on the page.
var rights = []struct {
	What string
	From string // the least role
}{
	{"Read logs, metrics and traces; own views and preferences", "viewer"},
	{"Make API tokens for queries", "viewer"},
	{"Send data; API tokens for senders", "editor"},
	{"Share views and dashboards; retention and limits of streams", "editor"},
	{"Users, everybody’s tokens, the audit log, settings of the organization; delete streams; administrative tokens", "admin"},
	{"Make and delete organizations; new signing key", "owner"},
}

func roleMay(role, least string) bool { return Frame{Role: role}.may(least) }

// query is the filter as parameters; before is a time to read on from.
func (a Audit) query(before string) string {
	q := url.Values{}
	for k, v := range map[string]string{"actor": a.Actor, "action": a.Action, "before": before} {
		if v != "" {
			q.Set(k, v)
		}
	}
	if len(q) == 0 {
		return ""
	}
	return "?" + q.Encode()
}

func scopeText(scope string) string {
	switch scope {
	case "intake":
		return "intake: sending logs, metrics and traces"
	case "query":
		return "query: reading all of them"
	case "admin":
		return "admin: changing users, streams and settings"
	}
	return scope
}
