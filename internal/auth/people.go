package auth

import (
	"context"
	"net/mail"
	"regexp"
	"strings"
	"time"

	"github.com/millstream/millstream"
)

// NewToken is what a new API token is to be. Expires zero: never.
type NewToken struct {
	Name    string
	Scopes  Scope
	Expires time.Time
}

// CreateToken makes an API token of the principal's organization and returns its text, which nobody can see again. Nobody can put more into a token than he
// has himself.
func (s *Service) CreateToken(ctx context.Context, p *Principal, n NewToken, a Entry) (text string, t APIToken, err error) {
	name, err := checkName("name", n.Name)
	if err != nil {
		return "", t, err
	}
	now := s.now()
	switch missing := n.Scopes &^ (p.Role.Grantable() & p.Scopes); {
	case missing != 0:
		return "", t, millstream.Errorf(millstream.Forbidden, "you cannot give a token the scope %q: you do not have it yourself", missing)
	case !n.Expires.IsZero() && !n.Expires.After(now):
		return "", t, millstream.Errorf(millstream.Invalid, "the token would expire at %s, which is past", n.Expires.UTC().Format(time.RFC3339))
	}
	text, id, hash := newToken(apiPrefix)
	t = APIToken{ID: id, Org: p.Org, Slug: p.Slug, User: p.User, Email: p.Email, MakerRole: p.Role, Name: name, Hash: hash, Scopes: n.Scopes, CreatedAt: now, ExpiresAt: n.Expires}
	a.Target = id
	a.Detail = map[string]any{"name": name, "scopes": n.Scopes.Names()}
	return text, t, s.store.CreateToken(ctx, t, a)
}

// Tokens lists API tokens: all of the organization for its administrators, for others those they made.
func (s *Service) Tokens(ctx context.Context, p *Principal) ([]APIToken, error) {
	all, err := s.store.Tokens(ctx, p.Org)
	if err != nil || p.Role >= Admin {
		return all, err
	}
	own := all[:0]
	for _, t := range all {
		if t.User == p.User {
			own = append(own, t)
		}
	}
	return own, nil
}

// DeleteToken revokes an API token: here at once, on other nodes within five seconds. A token that is not the principal's to see is NotFound.
func (s *Service) DeleteToken(ctx context.Context, p *Principal, id string, a Entry) error {
	maker := p.User
	if p.Role >= Admin {
		maker = ""
	}
	a.Target = id
	if err := s.store.DeleteToken(ctx, p.Org, id, maker, a); err != nil {
		return err
	}
	s.tokens.clear()
	return nil
}

// NewMember is a person to add to an organization. With a Password the account can be used at once; without one, a link to set it is made.
type NewMember struct {
	Email    string
	Name     string
	Password string
	Role     Role
}

// Invitation is a single-use secret that sets a password.
type Invitation struct {
	Token     string
	ExpiresAt time.Time
}

// AddMember adds a person to the principal's organization. A person unknown so far gets an account, and inv when no password was given; one who has an account
// is simply added.
func (s *Service) AddMember(ctx context.Context, p *Principal, n NewMember, a Entry) (m Member, inv *Invitation, err error) {
	u := User{ID: newID(), Name: strings.TrimSpace(n.Name), CreatedAt: s.now()}
	if u.Email, err = checkEmail(n.Email); err != nil {
		return m, nil, err
	}
	if len(u.Name) > 200 {
		return m, nil, millstream.Errorf(millstream.Invalid, "the name is longer than 200 bytes")
	}
	if n.Role > p.Role {
		return m, nil, millstream.Errorf(millstream.Forbidden, "you cannot make somebody %s: that is above your own role", n.Role)
	}
	var stored *Invite
	if n.Password != "" {
		if u.Password, err = s.hasher.hash(ctx, n.Password); err != nil {
			return m, nil, err
		}
	} else {
		inv, stored = s.invite(u.ID)
	}
	a.Target = u.Email
	a.Detail = map[string]any{"role": n.Role.String()}
	m, created, err := s.store.AddMember(ctx, p.Org, u, n.Role, stored, p.Role, a)
	if err != nil {
		return m, nil, err
	}
	s.sessions.clear()
	if !created {
		inv = nil
	}
	return m, inv, nil
}

func (s *Service) invite(user string) (*Invitation, *Invite) {
	text, _, hash := newToken(invitePrefix)
	until := s.now().Add(inviteTTL)
	return &Invitation{Token: text, ExpiresAt: until}, &Invite{Hash: hash, User: user, ExpiresAt: until}
}

// Reinvite makes a new link to set a password for a member who forgot it or let the first link expire; earlier links of that member end.
func (s *Service) Reinvite(ctx context.Context, p *Principal, user string, a Entry) (*Invitation, error) {
	inv, stored := s.invite(user)
	a.Target = user
	return inv, s.store.Reinvite(ctx, p.Org, *stored, p.Role, a)
}

// AcceptInvite sets the password of whoever was invited and signs them in.
func (s *Service) AcceptInvite(ctx context.Context, token, password string, from Origin, a Entry) (Grant, error) {
	refund, err := s.throttles.enter("", from.key(), s.own())
	if err != nil {
		return Grant{}, err
	}
	if err := CheckPassword(password); err != nil {
		refund()
		return Grant{}, err
	}
	if _, ok := tokenID(token, invitePrefix); !ok {
		return Grant{}, badInvite(nil)
	}
	hash, err := s.hasher.hash(ctx, password)
	if err != nil {
		return Grant{}, err
	}
	u, err := s.store.AcceptInvite(ctx, hashOf(token), hash, s.now(), a)
	if millstream.KindOf(err) == millstream.NotFound {
		return Grant{}, badInvite(err)
	}
	refund()
	if err != nil {
		return Grant{}, err
	}
	s.sessions.clear()
	a.Action = "session.create"
	return s.signIn(ctx, u, "", from, a)
}

func badInvite(cause error) error {
	return &millstream.Error{Kind: millstream.Unauthenticated, Msg: "the invitation is unknown, used or expired", Hint: "ask for a new one", Err: cause}
}

// Members lists the people of the principal's organization.
func (s *Service) Members(ctx context.Context, p *Principal) ([]Member, error) {
	return s.store.Members(ctx, p.Org)
}

// SetMemberRole changes a member's role, neither of somebody above the principal nor to something above.
func (s *Service) SetMemberRole(ctx context.Context, p *Principal, user string, role Role, a Entry) error {
	a.Target = user
	a.Detail = map[string]any{"role": role.String()}
	if err := s.store.SetMemberRole(ctx, p.Org, user, role, p.Role, a); err != nil {
		return err
	}
	s.Changed()
	return nil
}

// RemoveMember ends a membership, and the account with it when it was the last.
func (s *Service) RemoveMember(ctx context.Context, p *Principal, user string, a Entry) error {
	a.Target = user
	if err := s.store.RemoveMember(ctx, p.Org, user, p.Role, a); err != nil {
		return err
	}
	s.Changed()
	return nil
}

// ChangePassword changes the principal's own password. Every other session of the user ends.
func (s *Service) ChangePassword(ctx context.Context, p *Principal, current, next string, a Entry) error {
	if p.TokenID != "" {
		return millstream.Errorf(millstream.Forbidden, "a password is changed by its owner, signed in; not by an API token")
	}
	refund, err := s.throttles.enter(p.Email, "user:"+p.User, s.own())
	if err != nil {
		return err
	}
	u, err := s.store.UserByEmail(ctx, p.Email)
	if err != nil {
		return err
	}
	ok, err := s.hasher.verify(ctx, u.Password, current)
	if err != nil {
		return err
	}
	if !ok {
		return millstream.Errorf(millstream.Forbidden, "the current password is wrong")
	}
	refund()
	hash, err := s.hasher.hash(ctx, next)
	if err != nil {
		return err
	}
	a.Target = p.User
	if err := s.store.SetPassword(ctx, p.User, hash, p.Session, a); err != nil {
		return err
	}
	s.sessions.clear()
	return nil
}

// Changed makes a change of rights effective on this node at once; call it as well when another node tells of one.
func (s *Service) Changed() {
	s.sessions.clear()
	s.tokens.clear()
}

func checkEmail(text string) (string, error) {
	email := normalEmail(text)
	addr, err := mail.ParseAddress(email)
	if err != nil || addr.Address != email || addr.Name != "" || len(email) > 254 {
		return "", millstream.Errorf(millstream.Invalid, "%q is not an e-mail address", cut(text, 254))
	}
	return email, nil
}

var slugForm = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}$`)

// CheckSlug applies the rules for an organization's short name.
func CheckSlug(slug string) error {
	if !slugForm.MatchString(slug) {
		return millstream.Errorf(millstream.Invalid, "%q is not a slug: use 1 to 128 letters, digits, '_', '.' and '-', not beginning with '.'", cut(slug, 128))
	}
	if reserved[strings.ToLower(slug)] {
		return millstream.Errorf(millstream.Invalid, "%q cannot be an organization's slug: the web pages use it as a path", slug)
	}
	return nil
}

// reserved are the first elements of paths that are not an organization's.
var reserved = map[string]bool{
	"api": true, "v1": true, "assets": true, "cluster": true, "dev": true, "invite": true, "login": true, "logout": true, "metrics": true, "settings": true, "setup": true, "tokens": true,
}

func checkName(what, text string) (string, error) {
	name := strings.TrimSpace(text)
	if name == "" || len(name) > 200 {
		return "", millstream.Errorf(millstream.Invalid, "the %s must have 1 to 200 bytes, it has %d", what, len(name))
	}
	if strings.ContainsRune(name, 0) {
		return "", millstream.Errorf(millstream.Invalid, "the %s contains a NUL character", what)
	}
	return name, nil
}
