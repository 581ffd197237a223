package auth

import (
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/cipher"
)

const (
	defaultAccessTTL = 15 * time.Minute
	refreshTTL       = 12 * time.Hour
	inviteTTL        = 72 * time.Hour
)

// Config is what a Service needs.
type Config struct {
	Store     Store
	Cipher    *cipher.Cipher
	JWTSecret string        // pins the signing secret; empty: keys of the database, which rotate
	AccessTTL time.Duration // life of an access token; 0: 15 min
	Log       *slog.Logger
	Now       func() time.Time // the clock that nodes agree on: issue and expiry; nil: time.Now
	// Own is the node's own clock, which tells what has passed within this process: the age of what is cached, attempts a minute. The other may go back, when the
	// database fails over, and nobody is to be locked out for as long; nil: Now.
	Own func() time.Time
}

// Service answers who is asking and changes who may ask. It is safe for concurrent use.
type Service struct {
	store     Store
	keys      *keyring
	cipher    *cipher.Cipher
	hasher    *hasher
	throttles throttles
	refusals  *throttle // audit entries of refused calls, per actor
	tokens    *cache[Hash]
	sessions  *cache[string]
	accessTTL time.Duration
	log       *slog.Logger
	now, own  func() time.Time // see Config
}

// New makes a Service. It touches no database yet.
func New(c Config) (*Service, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Own == nil {
		c.Own = c.Now
	}
	if c.AccessTTL == 0 {
		c.AccessTTL = defaultAccessTTL
	}
	keys, err := newKeyring(c.Store, c.Cipher, c.JWTSecret, c.Now)
	if err != nil {
		return nil, err
	}
	return &Service{
		store: c.Store, keys: keys, cipher: c.Cipher, hasher: newHasher(), throttles: newThrottles(), refusals: newThrottle(perRefusals),
		tokens: newCache[Hash](c.Own), sessions: newCache[string](c.Own),
		accessTTL: c.AccessTTL, log: c.Log.With("component", "auth"), now: c.Now, own: c.Own,
	}, nil
}

// Origin is where a request comes from, for throttles and sessions.
type Origin struct {
	Addr  netip.Addr
	Agent string
}

// key is what the address throttle counts by: one IPv6 customer has a whole /64.
func (o Origin) key() string {
	a := o.Addr.Unmap()
	if a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			return p.Addr().String()
		}
	}
	return a.String()
}

// Grant is what a sign-in gives.
type Grant struct {
	Token        string
	ExpiresAt    time.Time
	RefreshToken string
	User         User
	Org          Membership
	Memberships  []Membership
}

var errWrongPassword = millstream.Errorf(millstream.Unauthenticated, "the e-mail address or the password is wrong")

// Login checks a password. An unknown user, a wrong password and one who belongs to no organization get the same answer after the same time. organization is
// the slug to work in; empty: the user's first.
func (s *Service) Login(ctx context.Context, email, password, organization string, from Origin, a Entry) (Grant, error) {
	email = normalEmail(email)
	refund, err := s.throttles.enter(email, from.key(), s.own())
	if err != nil {
		return Grant{}, err
	}
	u, err := s.store.UserByEmail(ctx, email)
	if err != nil && millstream.KindOf(err) != millstream.NotFound {
		refund()
		return Grant{}, err
	}
	ok, err := s.hasher.verify(ctx, u.Password, password)
	if err != nil {
		refund()
		return Grant{}, err
	}
	if !ok {
		return Grant{}, errWrongPassword
	}
	refund()
	return s.signIn(ctx, u, organization, from, a)
}

// signIn begins a session for a user who has proved to be one.
func (s *Service) signIn(ctx context.Context, u User, organization string, from Origin, a Entry) (Grant, error) {
	ms, err := s.store.Memberships(ctx, u.ID)
	if err != nil {
		return Grant{}, err
	}
	m, ok := choose(ms, organization, "")
	if !ok {
		return Grant{}, errWrongPassword
	}
	refresh, id, hash := newToken(refreshPrefix)
	now := s.now()
	a.Actor, a.Org, a.Target = "user:"+u.Email, m.Org, u.ID
	err = s.store.CreateSession(ctx, Session{ID: id, User: u.ID, Hash: hash, ExpiresAt: now.Add(refreshTTL), Address: from.Addr.String(), Agent: cut(from.Agent, 200)}, a)
	if err != nil {
		return Grant{}, err
	}
	return s.grant(ctx, id, refresh, u, m, ms)
}

func (s *Service) grant(ctx context.Context, session, refresh string, u User, m Membership, ms []Membership) (Grant, error) {
	token, expires, err := s.keys.sign(ctx, u.ID, session, string(m.Org), s.accessTTL)
	if err != nil {
		return Grant{}, err
	}
	return Grant{Token: token, ExpiresAt: expires, RefreshToken: refresh, User: u, Org: m, Memberships: ms}, nil
}

// Refresh exchanges a refresh token for a new pair. A former token ends the whole session: either its owner or a thief used it, and nobody can tell which.
// Refusals are not throttled: the secret is 256 random bits, so there is nothing to guess, and browsers send the cookies of ended sessions by themselves. Counting
// these would lock whoever shares their address, such as everybody behind a proxy, out of signing in.
func (s *Service) Refresh(ctx context.Context, token, organization string, from Origin) (Grant, error) {
	id, ok := tokenID(token, refreshPrefix)
	if !ok {
		return Grant{}, refuse(nil)
	}
	// The id stays, it names the session; the secret is new.
	next := refreshPrefix + id + "_" + random(32)
	now := s.now()
	_, err := s.store.RotateSession(ctx, id, hashOf(token), hashOf(next), now, now.Add(refreshTTL))
	switch {
	case err == nil:
	case isReuse(err):
		s.sessions.forget(id)
		s.log.Warn("a refresh token was used twice: its session is revoked", "session", id, "client", from.Addr)
		return Grant{}, refuse(err)
	case millstream.KindOf(err) == millstream.NotFound:
		return Grant{}, refuse(err)
	default:
		return Grant{}, err
	}
	rights, err := s.store.SessionRights(ctx, id, now)
	if err != nil {
		return Grant{}, refuseNotFound(err)
	}
	m, ok := choose(rights.Memberships, organization, "")
	if !ok {
		return Grant{}, refuse(nil)
	}
	return s.grant(ctx, id, next, rights.User, m, rights.Memberships)
}

// Logout ends the principal's session: its refresh token at once, its access tokens within the freshness of the other nodes' caches.
func (s *Service) Logout(ctx context.Context, p *Principal, a Entry) error {
	if p.Session == "" {
		return millstream.Errorf(millstream.Invalid, "an API token has no session to end: delete the token instead")
	}
	if err := s.store.RevokeSession(ctx, p.Session, a); err != nil {
		return err
	}
	s.sessions.forget(p.Session)
	return nil
}

// RotateKeys makes a new signing key; what the old one signed stays valid for 24 hours.
func (s *Service) RotateKeys(ctx context.Context, a Entry) (Key, error) { return s.keys.rotate(ctx, a) }

// OldKeysUntil is how long tokens of a key that is rotated at the given time stay valid.
func OldKeysUntil(rotated time.Time) time.Time { return rotated.Add(keyOverlap) }

// choose finds the membership by slug, else by the id chosen at sign-in, else the first.
func choose(ms []Membership, slug, id string) (Membership, bool) {
	for _, m := range ms {
		if slug != "" && strings.EqualFold(m.Slug, slug) || slug == "" && id != "" && string(m.Org) == id {
			return m, true
		}
	}
	if slug != "" || len(ms) == 0 {
		return Membership{}, false
	}
	return ms[0], true
}

// newID is a time-ordered UUID: rows of one table then lie in the order they were made.
func newID() string { return uuid.Must(uuid.NewV7()).String() }

func normalEmail(s string) string { return strings.ToLower(strings.TrimSpace(s)) }

func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}
