package auth

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/cipher"
)

// Facts of access tokens that both sides must agree on.
const (
	issuer      = "millstream"
	audience    = "millstream-api"
	leeway      = 30 * time.Second
	keyOverlap  = 24 * time.Hour  // how long a rotated key still verifies
	keysFresh   = 5 * time.Second // how long the ring is trusted before another node's rotation is looked for
	overrideKID = "pinned"
	minSecret   = 32
)

// Key is a signing key as it is stored: the secret is sealed for (jwt_keys, ID, secret).
type Key struct {
	ID         string
	Secret     []byte
	CreatedAt  time.Time
	ValidUntil time.Time // zero: current, signs new tokens
}

// claims of an access token. Rights are not among them: they are read per request.
type claims struct {
	jwt.RegisteredClaims
	Session string `json:"sid"`
	Org     string `json:"org,omitempty"` // the organization chosen at sign-in
}

// keyring signs with the newest key and verifies with every key that is still valid. A token's kid does nothing but look up this map.
type keyring struct {
	store  keyStore // nil: the secret is pinned by the configuration
	cipher *cipher.Cipher
	now    func() time.Time
	parser *jwt.Parser

	mu      sync.Mutex // held while the ring is read from the store, so that one reader does it for all
	ring    map[string]ringKey
	current string
	readAt  time.Time
}

type ringKey struct {
	secret []byte
	until  time.Time
}

func newKeyring(store keyStore, c *cipher.Cipher, pinned string, now func() time.Time) (*keyring, error) {
	k := &keyring{store: store, cipher: c, now: now, parser: jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}),
		jwt.WithExpirationRequired(), jwt.WithIssuedAt(), jwt.WithIssuer(issuer), jwt.WithAudience(audience), jwt.WithLeeway(leeway), jwt.WithTimeFunc(now))}
	if pinned == "" {
		return k, nil
	}
	if len(pinned) < minSecret {
		return nil, millstream.Errorf(millstream.Invalid, "[auth].jwt_secret_override has %d bytes, it needs at least %d", len(pinned), minSecret)
	}
	k.store, k.current, k.ring = nil, overrideKID, map[string]ringKey{overrideKID: {secret: []byte(pinned)}}
	return k, nil
}

// sign makes an access token for a session.
func (k *keyring) sign(ctx context.Context, user, session, org string, ttl time.Duration) (token string, expires time.Time, err error) {
	kid, key, err := k.signer(ctx)
	if err != nil {
		return "", time.Time{}, err
	}
	now := k.now()
	expires = now.Add(ttl).Truncate(time.Second)
	t := jwt.NewWithClaims(jwt.SigningMethodHS256, claims{Session: session, Org: org, RegisteredClaims: jwt.RegisteredClaims{
		Issuer: issuer, Audience: jwt.ClaimStrings{audience}, Subject: user, ID: random(10), IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(expires),
	}})
	t.Header["kid"] = kid
	token, err = t.SignedString(key)
	return token, expires, err
}

// verify checks an access token. Why a token is refused is not for the caller to know; it is Unauthenticated, with the reason as cause.
func (k *keyring) verify(ctx context.Context, token string) (*claims, error) {
	var c claims
	_, err := k.parser.ParseWithClaims(token, &c, func(t *jwt.Token) (any, error) {
		kid, _ := t.Header["kid"].(string)
		return k.verifier(ctx, kid)
	})
	switch {
	case err == nil && c.Subject != "" && c.Session != "":
		return &c, nil
	case err == nil:
		return nil, refuse(errors.New("the token names no user or session"))
	case millstream.KindOf(err) == millstream.Internal:
		return nil, refuse(err)
	}
	return nil, err
}

// rotate makes a new signing key; the old one verifies for 24 hours more.
func (k *keyring) rotate(ctx context.Context, a Entry) (Key, error) {
	if k.store == nil {
		return Key{}, millstream.Errorf(millstream.Conflict, "the signing secret is pinned by [auth].jwt_secret_override: change it there and restart")
	}
	key, err := k.add(ctx, false, a)
	if err != nil {
		return Key{}, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return key, k.read(ctx)
}

func (k *keyring) add(ctx context.Context, first bool, a Entry) (Key, error) {
	secret := make([]byte, minSecret)
	_, _ = rand.Read(secret)
	now := k.now()
	key := Key{ID: random(10), CreatedAt: now}
	key.Secret = k.cipher.Seal(secret, keyPlace(key.ID))
	return key, k.store.RotateKey(ctx, key, now.Add(keyOverlap), first, a)
}

func (k *keyring) signer(ctx context.Context) (kid string, secret []byte, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.refresh(ctx); err != nil && k.current == "" {
		return "", nil, err
	}
	if k.current == "" {
		if _, err := k.add(ctx, true, Entry{Actor: "system", Action: "jwt_key.create", At: k.now()}); err != nil {
			return "", nil, err
		}
		if err := k.read(ctx); err != nil {
			return "", nil, err
		}
	}
	return k.current, k.ring[k.current].secret, nil
}

// verifier finds the key of a kid. An unknown kid may be another node's new key, so the ring is read again, at most every keysFresh.
func (k *keyring) verifier(ctx context.Context, kid string) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	key, ok := k.ring[kid]
	if !ok {
		if err := k.refresh(ctx); err != nil {
			return nil, err
		}
		key, ok = k.ring[kid]
	}
	if !ok || (!key.until.IsZero() && k.now().After(key.until)) {
		return nil, errors.New("the token was signed with no key of ours")
	}
	return key.secret, nil
}

// refresh reads the ring if it is not fresh. The caller holds mu.
func (k *keyring) refresh(ctx context.Context) error {
	if k.store == nil || k.ring != nil && k.now().Sub(k.readAt) < keysFresh {
		return nil
	}
	return k.read(ctx)
}

// read replaces the ring by what the store has. The caller holds mu.
func (k *keyring) read(ctx context.Context) error {
	if k.store == nil {
		return nil
	}
	now := k.now()
	k.readAt = now
	keys, err := k.store.Keys(ctx, now)
	if err != nil {
		return err
	}
	ring, current, newest := map[string]ringKey{}, "", time.Time{}
	for _, key := range keys {
		secret, err := k.cipher.Open(key.Secret, keyPlace(key.ID))
		if err != nil {
			return err
		}
		ring[key.ID] = ringKey{secret: secret, until: key.ValidUntil}
		if key.ValidUntil.IsZero() && key.CreatedAt.After(newest) {
			current, newest = key.ID, key.CreatedAt
		}
	}
	k.ring, k.current = ring, current
	return nil
}

func keyPlace(id string) cipher.Place {
	return cipher.Place{Table: "jwt_keys", Row: id, Column: "secret"}
}

// refuse is the one answer to bad credentials, whatever is wrong with them.
func refuse(cause error) error {
	return &millstream.Error{
		Kind: millstream.Unauthenticated, Msg: "the credentials are missing, unknown or expired", Err: cause,
		Hint: "send Authorization: Bearer and an API token, or the API token as the password of Basic authentication",
	}
}
