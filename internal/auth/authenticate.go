package auth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"strings"
	"time"

	"github.com/millstream/millstream"
)

// Authenticate finds out who sent a request. header is the Authorization header's value: Bearer with an access token or an API token, or Basic with any user
// and an API token as the password. slug is the organization asked for, empty for the credential's own.
func (s *Service) Authenticate(ctx context.Context, header, slug string) (*Principal, error) {
	return s.authenticate(ctx, header, slug, false)
}

// AuthenticateSender is Authenticate for a request that sends data: who was known within the last ten minutes does not wait for a database that is slow or away.
func (s *Service) AuthenticateSender(ctx context.Context, header, slug string) (*Principal, error) {
	return s.authenticate(ctx, header, slug, true)
}

func (s *Service) authenticate(ctx context.Context, header, slug string, hasty bool) (*Principal, error) {
	token, err := credential(header)
	if err != nil {
		return nil, err
	}
	if _, ok := tokenID(token, apiPrefix); ok {
		return s.byToken(ctx, token, slug, hasty)
	}
	return s.bySession(ctx, token, slug, hasty)
}

// credential takes the token out of the header.
func credential(header string) (string, error) {
	scheme, rest, ok := strings.Cut(header, " ")
	if !ok {
		return "", refuse(nil)
	}
	rest = strings.TrimSpace(rest)
	if strings.EqualFold(scheme, "Bearer") && rest != "" {
		return rest, nil
	}
	if !strings.EqualFold(scheme, "Basic") {
		return "", refuse(nil)
	}
	text, err := base64.StdEncoding.DecodeString(rest)
	if err != nil {
		return "", refuse(err)
	}
	_, password, _ := strings.Cut(string(text), ":")
	if _, ok := tokenID(password, apiPrefix); !ok {
		return "", refuse(errors.New("the Basic password is not an API token"))
	}
	return password, nil
}

// byToken is the path of machines: a hash, a look-up in the cache, and nothing else most of the time.
func (s *Service) byToken(ctx context.Context, token, slug string, hasty bool) (*Principal, error) {
	hash := hashOf(token)
	e, degraded := s.tokens.hit(hash), false
	if e == nil {
		var err error
		if e, degraded, err = s.askToken(ctx, token, hash, hasty); err != nil {
			return nil, err
		}
	}
	if e.err != nil {
		return nil, refuse(e.err)
	}
	t := e.value.(*tokenRights)
	if !t.expires.IsZero() && !s.now().Before(t.expires) {
		return nil, refuse(errExpired)
	}
	if slug != "" && !strings.EqualFold(slug, t.principal.Slug) {
		return nil, foreign()
	}
	if degraded {
		return intakeOnly(&t.principal)
	}
	return &t.principal, nil
}

// askToken is apart from byToken so that what its closure holds is allocated only when the cache has no answer.
func (s *Service) askToken(ctx context.Context, token string, hash Hash, hasty bool) (e *cached, degraded bool, err error) {
	id, _ := tokenID(token, apiPrefix)
	return s.tokens.get(ctx, hash, string(hash[:]), hasty, func(ctx context.Context) (any, error) { return s.readToken(ctx, id, hash) })
}

// readToken asks the database what a token is worth now. The maker's present role bounds it: who leaves the organization or loses a role takes along what his
// tokens could read and change; only intake goes on.
func (s *Service) readToken(ctx context.Context, id string, hash Hash) (any, error) {
	t, err := s.store.Token(ctx, id)
	if err != nil {
		return nil, err
	}
	if subtle.ConstantTimeCompare(t.Hash[:], hash[:]) != 1 {
		return nil, refuse(errors.New("the token's secret is wrong"))
	}
	scopes := t.Scopes & (t.MakerRole.Grantable() | Intake)
	now := s.now()
	if scopes == 0 {
		return nil, refuse(errors.New("the token's maker may no longer do what it is for"))
	}
	if now.Sub(t.LastUsedAt) >= touchEvery {
		if err := s.store.TouchToken(ctx, id, now); err != nil {
			s.log.Warn("the last use of an API token could not be noted", "token", id, "error", err)
		}
	}
	rights := &tokenRights{expires: t.ExpiresAt, principal: Principal{
		User: t.User, Email: t.Email, Org: t.Org, Slug: t.Slug, Role: t.MakerRole, Scopes: scopes, TokenID: t.ID,
	}}
	if t.OfInstallation {
		rights.principal.Installation = t.MakerRole
	}
	return rights, nil
}

// bySession is the path of people.
func (s *Service) bySession(ctx context.Context, token, slug string, hasty bool) (*Principal, error) {
	c, err := s.keys.verify(ctx, token)
	if err != nil {
		return nil, err
	}
	e, degraded := s.sessions.hit(c.Session), false
	if e == nil {
		e, degraded, err = s.sessions.get(ctx, c.Session, c.Session, hasty, func(ctx context.Context) (any, error) {
			r, err := s.store.SessionRights(ctx, c.Session, s.now())
			return &r, err
		})
		if err != nil {
			return nil, err
		}
	}
	if e.err != nil {
		return nil, refuse(e.err)
	}
	r := e.value.(*SessionRights)
	if r.User.ID != c.Subject {
		return nil, refuse(errors.New("the token's session is another user's"))
	}
	m, ok := choose(r.Memberships, slug, c.Org)
	if !ok && slug != "" {
		return nil, foreign()
	}
	if !ok {
		return nil, refuse(errors.New("the user belongs to no organization"))
	}
	p := &Principal{User: r.User.ID, Email: r.User.Email, Org: m.Org, Slug: m.Slug, Role: m.Role, Scopes: AllScopes, Session: c.Session, Installation: onInstallation(r.Memberships)}
	if degraded {
		return intakeOnly(p)
	}
	return p, nil
}

// onInstallation is the role in the installation's organization; NoRole of who is no member.
func onInstallation(ms []Membership) Role {
	for _, m := range ms {
		if m.Installation {
			return m.Role
		}
	}
	return NoRole
}

// intakeOnly is a principal whose rights could not be confirmed: it may go on sending data.
func intakeOnly(p *Principal) (*Principal, error) {
	if p.Scopes&Intake == 0 {
		return nil, millstream.Errorf(millstream.Unavailable, "rights cannot be confirmed now: the database does not answer")
	}
	limited := *p
	limited.Scopes = Intake
	limited.Degraded = true
	return &limited, nil
}

// foreign answers for an organization that is not the caller's, whether or not there is one of that name.
func foreign() error {
	return &millstream.Error{Kind: millstream.Forbidden, Msg: "the credential is not good for the organization that X-Org-Id names",
		Hint: "leave the header out, or give the slug of one of your organizations (GET /api/v1/auth/me lists them)"}
}

func refuseNotFound(err error) error {
	if millstream.KindOf(err) == millstream.NotFound {
		return refuse(err)
	}
	return err
}

// tokenRights is what an API token is worth; its principal is shared by all requests that carry the token.
type tokenRights struct {
	principal Principal
	expires   time.Time // zero: never
}

var errExpired = errors.New("the token has expired")

// touchEvery is how exact the last use of a token is noted.
const touchEvery = time.Minute

func isReuse(err error) bool { return errors.Is(err, ErrReused) }

func hashOf(text string) Hash {
	var buf [96]byte // longer than any token of ours, so that hashing one allocates nothing
	return sha256.Sum256(append(buf[:0], text...))
}
