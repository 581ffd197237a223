package auth

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/cipher"
)

// memKeys is a keyStore in memory.
type memKeys struct {
	keys []Key
	down bool
	asks int
}

func (m *memKeys) Keys(_ context.Context, now time.Time) ([]Key, error) {
	m.asks++
	if m.down {
		return nil, millstream.Errorf(millstream.Unavailable, "down")
	}
	var out []Key
	for _, k := range m.keys {
		if k.ValidUntil.IsZero() || k.ValidUntil.After(now) {
			out = append(out, k)
		}
	}
	return out, nil
}

func (m *memKeys) RotateKey(_ context.Context, k Key, retireAt time.Time, first bool, _ Entry) error {
	for i := range m.keys {
		if m.keys[i].ValidUntil.IsZero() {
			if first {
				return nil
			}
			m.keys[i].ValidUntil = retireAt
		}
	}
	m.keys = append(m.keys, k)
	return nil
}

type clock struct{ t time.Time }

func (c *clock) now() time.Time          { return c.t }
func (c *clock) advance(d time.Duration) { c.t = c.t.Add(d) }

func ring(t *testing.T, store keyStore, pinned string, c *clock) *keyring {
	t.Helper()
	sealer, err := cipher.New(bytes.Repeat([]byte{7}, cipher.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	k, err := newKeyring(store, sealer, pinned, c.now)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func signed(t *testing.T, k *keyring) string {
	t.Helper()
	token, _, err := k.sign(context.Background(), "user-1", "session-1", "org-1", 15*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestAccessTokenLife(t *testing.T) {
	c := &clock{time.Unix(1_800_000_000, 0)}
	k := ring(t, &memKeys{}, "", c)
	token := signed(t, k)
	got, err := k.verify(context.Background(), token)
	if err != nil || got.Subject != "user-1" || got.Session != "session-1" || got.Org != "org-1" {
		t.Fatalf("%+v, %v", got, err)
	}
	c.advance(15*time.Minute + 29*time.Second)
	if _, err := k.verify(context.Background(), token); err != nil {
		t.Errorf("refused within the leeway: %v", err)
	}
	c.advance(2 * time.Second)
	if _, err := k.verify(context.Background(), token); millstream.KindOf(err) != millstream.Unauthenticated {
		t.Errorf("expired: %v", err)
	}
}

// forge signs any header and claims with a secret, the way an attacker who knows something would.
func forge(header, claims map[string]any, secret []byte) string {
	part := func(v any) string {
		b, _ := json.Marshal(v)
		return base64.RawURLEncoding.EncodeToString(b)
	}
	head := part(header) + "." + part(claims)
	if secret == nil {
		return head + "."
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(head))
	return head + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func with(m map[string]any, key string, v any) map[string]any {
	out := maps.Clone(m)
	if v == nil {
		delete(out, key)
	} else {
		out[key] = v
	}
	return out
}

func TestForgedTokensAreRefusedAlike(t *testing.T) {
	c := &clock{time.Unix(1_800_000_000, 0)}
	secret := strings.Repeat("s", 32)
	k := ring(t, nil, secret, c)
	now := c.t.Unix()
	header := map[string]any{"alg": "HS256", "typ": "JWT", "kid": overrideKID}
	claims := map[string]any{"iss": issuer, "aud": audience, "sub": "user-1", "sid": "session-1", "iat": now, "exp": now + 900}
	key := []byte(secret)
	if _, err := k.verify(context.Background(), forge(header, claims, key)); err != nil {
		t.Fatalf("the honest token was refused: %v", err)
	}
	good := signed(t, k)
	for name, token := range map[string]string{
		"alg none":               forge(with(header, "alg", "none"), claims, nil),
		"alg None, signed":       forge(with(header, "alg", "None"), claims, key),
		"alg HS512 named":        forge(with(header, "alg", "HS512"), claims, key),
		"alg RS256, HMAC signed": forge(with(header, "alg", "RS256"), claims, key),
		"no alg":                 forge(with(header, "alg", nil), claims, key),
		"kid missing":            forge(with(header, "kid", nil), claims, key),
		"kid a path":             forge(with(header, "kid", "../../dev/null"), claims, nil),
		"kid a path, empty key":  forge(with(header, "kid", "/dev/null"), claims, []byte{}),
		"kid SQL":                forge(with(header, "kid", "x' UNION SELECT 'a"), claims, []byte("a")),
		"kid a number":           forge(with(header, "kid", 1), claims, key),
		"own key in jwk":         forge(with(with(header, "kid", "mine"), "jwk", map[string]any{"kty": "oct", "k": "bWluZQ"}), claims, []byte("mine")),
		"key by URL":             forge(with(with(header, "kid", "mine"), "jku", "http://127.0.0.1/keys"), claims, []byte("mine")),
		"wrong secret":           forge(header, claims, []byte(strings.Repeat("t", 32))),
		"no exp":                 forge(header, with(claims, "exp", nil), key),
		"exp past":               forge(header, with(claims, "exp", now-31), key),
		"exp text":               forge(header, with(claims, "exp", "never"), key),
		"iat ahead":              forge(header, with(claims, "iat", now+31), key),
		"nbf ahead":              forge(header, with(claims, "nbf", now+31), key),
		"other issuer":           forge(header, with(claims, "iss", "somebody"), key),
		"no issuer":              forge(header, with(claims, "iss", nil), key),
		"other audience":         forge(header, with(claims, "aud", "somebody"), key),
		"no audience":            forge(header, with(claims, "aud", nil), key),
		"no subject":             forge(header, with(claims, "sub", nil), key),
		"no session":             forge(header, with(claims, "sid", nil), key),
		"empty":                  "",
		"dots":                   "..",
		"signature cut":          good[:len(good)-2],
		"signature missing":      good[:strings.LastIndexByte(good, '.')+1],
		"not base64":             "!!!.!!!.!!!",
	} {
		_, err := k.verify(context.Background(), token)
		if millstream.KindOf(err) != millstream.Unauthenticated {
			t.Errorf("%s: %v", name, err)
		} else if millstream.Message(err) != millstream.Message(refuse(nil)) {
			t.Errorf("%s is told apart: %s", name, millstream.Message(err))
		}
	}
}

func TestRotation(t *testing.T) {
	ctx, c, store := context.Background(), &clock{time.Unix(1_800_000_000, 0)}, &memKeys{}
	here, there := ring(t, store, "", c), ring(t, store, "", c)
	before := signed(t, here)
	if _, err := there.verify(ctx, before); err != nil {
		t.Fatalf("another node refuses the key: %v", err)
	}
	if bytes.Contains(store.keys[0].Secret, here.ring[here.current].secret) {
		t.Error("the secret is stored in the clear")
	}
	c.advance(time.Second)
	if _, err := here.rotate(ctx, Entry{}); err != nil {
		t.Fatal(err)
	}
	after := signed(t, here)
	if _, err := here.verify(ctx, before); err != nil {
		t.Errorf("the former key is refused at once: %v", err)
	}
	c.advance(keysFresh)
	if _, err := there.verify(ctx, after); err != nil {
		t.Errorf("another node does not learn of the new key: %v", err)
	}
	// A long-lived token shows the end of the former key: verification stops exactly then, also on a node that is not told.
	long, _, err := there.sign(ctx, "user-1", "session-1", "", 48*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := here.rotate(ctx, Entry{}); err != nil {
		t.Fatal(err)
	}
	c.advance(keyOverlap - time.Second)
	if _, err := here.verify(ctx, long); err != nil {
		t.Errorf("refused within 24 h: %v", err)
	}
	c.advance(2 * time.Second)
	if _, err := here.verify(ctx, long); millstream.KindOf(err) != millstream.Unauthenticated {
		t.Errorf("a key of more than 24 h ago still verifies: %v", err)
	}
}

func TestUnknownKidsDoNotFloodTheStore(t *testing.T) {
	c, store := &clock{time.Unix(1_800_000_000, 0)}, &memKeys{}
	k := ring(t, store, "", c)
	signed(t, k)
	asked := store.asks
	for i := range 100 {
		_, _ = k.verify(context.Background(), forge(map[string]any{"alg": "HS256", "kid": strings.Repeat("x", i)}, map[string]any{}, []byte("a")))
	}
	if store.asks > asked {
		t.Errorf("%d look-ups for 100 forged tokens", store.asks-asked)
	}
}

func TestVerifyWithoutTheDatabase(t *testing.T) {
	c, store := &clock{time.Unix(1_800_000_000, 0)}, &memKeys{}
	k := ring(t, store, "", c)
	token := signed(t, k)
	store.down = true
	c.advance(10 * time.Minute)
	if _, err := k.verify(context.Background(), token); err != nil {
		t.Errorf("a known key needs the database: %v", err)
	}
	if _, _, err := k.sign(context.Background(), "u", "s", "", time.Minute); err != nil {
		t.Errorf("signing with a known key needs the database: %v", err)
	}
	if _, err := ring(t, store, "", c).verify(context.Background(), token); millstream.KindOf(err) != millstream.Unavailable {
		t.Errorf("a node that knows no keys yet: %v", err)
	}
}

func TestPinnedSecret(t *testing.T) {
	c := &clock{time.Unix(1_800_000_000, 0)}
	k := ring(t, &memKeys{down: true}, strings.Repeat("s", 32), c)
	if _, err := k.verify(context.Background(), signed(t, k)); err != nil {
		t.Errorf("pinned secret needs the database: %v", err)
	}
	if _, err := k.rotate(context.Background(), Entry{}); millstream.KindOf(err) != millstream.Conflict {
		t.Errorf("rotation of a pinned secret: %v", err)
	}
	if _, err := newKeyring(nil, nil, "short", c.now); err == nil {
		t.Error("a short secret was taken")
	}
}

func TestDamagedKeyIsNotUsed(t *testing.T) {
	c := &clock{time.Unix(1_800_000_000, 0)}
	store := &memKeys{keys: []Key{{ID: "k", Secret: []byte("garbage"), CreatedAt: c.t}}}
	if _, _, err := ring(t, store, "", c).sign(context.Background(), "u", "s", "", time.Minute); err == nil {
		t.Error("signed with a damaged key")
	}
	other, _ := cipher.New(bytes.Repeat([]byte{9}, cipher.KeySize))
	store.keys[0].Secret = other.Seal(make([]byte, 32), keyPlace("k"))
	if _, _, err := ring(t, store, "", c).sign(context.Background(), "u", "s", "", time.Minute); !errors.Is(err, cipher.ErrUnknownKey) {
		t.Errorf("a key sealed elsewhere: %v", err)
	}
}
