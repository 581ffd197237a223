package auth

import (
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millstream/millstream"
)

// memCredentials is a credentialStore in memory; every other call of a Store is not made by these tests.
type memCredentials struct {
	Store
	mu     sync.Mutex
	tokens map[string]APIToken
	rights map[string]SessionRights
	down   bool
	asks   atomic.Int64
}

func (m *memCredentials) answer() error {
	m.asks.Add(1)
	if m.down {
		return millstream.Errorf(millstream.Unavailable, "down")
	}
	return nil
}

func (m *memCredentials) Token(_ context.Context, id string) (APIToken, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.answer(); err != nil {
		return APIToken{}, err
	}
	t, ok := m.tokens[id]
	if !ok {
		return t, millstream.Errorf(millstream.NotFound, "no such token")
	}
	return t, nil
}

func (m *memCredentials) SessionRights(_ context.Context, id string, _ time.Time) (SessionRights, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.answer(); err != nil {
		return SessionRights{}, err
	}
	r, ok := m.rights[id]
	if !ok {
		return r, millstream.Errorf(millstream.NotFound, "no such session")
	}
	return r, nil
}

func (m *memCredentials) TouchToken(context.Context, string, time.Time) error { return nil }

func (m *memCredentials) set(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

type bench struct {
	*Service
	store *memCredentials
	clock *clock
}

func newBench(t testing.TB) *bench {
	b := &bench{store: &memCredentials{tokens: map[string]APIToken{}, rights: map[string]SessionRights{}}, clock: &clock{time.Unix(1_800_000_000, 0)}}
	s, err := New(Config{Store: b.store, JWTSecret: "0123456789abcdef0123456789abcdef", Log: slog.New(slog.DiscardHandler), Now: b.clock.now})
	if err != nil {
		t.Fatal(err)
	}
	b.Service = s
	return b
}

// token makes an API token of an owner's.
func (b *bench) token(scopes Scope, maker Role) (text, id string) {
	text, id, hash := newToken(apiPrefix)
	b.store.tokens[id] = APIToken{ID: id, Org: "org-1", Slug: "default", User: "user-1", MakerRole: maker, Hash: hash, Scopes: scopes}
	return text, id
}

func (b *bench) ask(text string) (*Principal, error) {
	return b.Authenticate(context.Background(), "Bearer "+text, "")
}

func wantKind(t *testing.T, what string, err error, want millstream.Kind) {
	t.Helper()
	if err == nil || millstream.KindOf(err) != want {
		t.Errorf("%s: got %v, want kind %d", what, err, want)
	}
}

func TestTokenRightsFollowTheMaker(t *testing.T) {
	for name, c := range map[string]struct {
		scopes, want Scope
		maker        Role
	}{
		"owner's":         {AllScopes, AllScopes, Owner},
		"editor's":        {AllScopes, Intake | Query, Editor},
		"viewer's":        {AllScopes, Intake | Query, Viewer},
		"maker has left":  {AllScopes, Intake, NoRole},
		"narrower":        {Query, Query, Owner},
		"nothing is left": {Query, 0, NoRole},
	} {
		b := newBench(t)
		text, _ := b.token(c.scopes, c.maker)
		p, err := b.ask(text)
		if c.want == 0 {
			wantKind(t, name, err, millstream.Unauthenticated)
			continue
		}
		if err != nil || p.Scopes != c.want || p.Role != c.maker {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
}

// TestRightsAreNoOlderWhenTheDatabasesClockGoesBack, as it may with a failover: neither does the outage last longer for it, nor what was cached before.
func TestRightsAreNoOlderWhenTheDatabasesClockGoesBack(t *testing.T) {
	b := newBench(t)
	own := &clock{b.clock.now()}
	s, err := New(Config{Store: b.store, JWTSecret: "0123456789abcdef0123456789abcdef", Log: slog.New(slog.DiscardHandler), Now: b.clock.now, Own: own.now})
	if err != nil {
		t.Fatal(err)
	}
	b.Service = s
	text, id := b.token(AllScopes, Owner)
	if _, err := b.ask(text); err != nil {
		t.Fatal(err)
	}
	own.advance(fresh)
	b.store.set(func() { b.store.down = true })
	if p, err := b.ask(text); err != nil || !p.Degraded {
		t.Fatalf("%+v, %v while the database is away", p, err)
	}
	b.store.set(func() { b.store.down = false })
	b.clock.advance(-time.Hour)
	own.advance(pause)
	if p, err := b.ask(text); err != nil || p.Degraded {
		t.Fatalf("%+v, %v, want rights that are confirmed", p, err)
	}
	b.store.set(func() { delete(b.store.tokens, id) })
	own.advance(fresh)
	_, err = b.ask(text)
	wantKind(t, "a token that was revoked", err, millstream.Unauthenticated)
}

func TestRevocationIsInForceWithinFiveSeconds(t *testing.T) {
	b := newBench(t)
	text, id := b.token(AllScopes, Owner)
	if _, err := b.ask(text); err != nil {
		t.Fatal(err)
	}
	b.store.set(func() { delete(b.store.tokens, id) }) // on another node
	b.clock.advance(fresh)
	_, err := b.ask(text)
	wantKind(t, "revoked", err, millstream.Unauthenticated)
	asked := b.store.asks.Load()
	_, err = b.ask(text)
	wantKind(t, "revoked, again", err, millstream.Unauthenticated)
	if b.store.asks.Load() != asked {
		t.Error("a refusal is not cached")
	}
}

func TestTokenExpiresWhileCached(t *testing.T) {
	b := newBench(t)
	text, id := b.token(AllScopes, Owner)
	tok := b.store.tokens[id]
	tok.ExpiresAt = b.clock.t.Add(2 * time.Second)
	b.store.tokens[id] = tok
	if _, err := b.ask(text); err != nil {
		t.Fatal(err)
	}
	b.clock.advance(2 * time.Second)
	_, err := b.ask(text)
	wantKind(t, "expired", err, millstream.Unauthenticated)
}

func TestOnlyTheWholeSecretCounts(t *testing.T) {
	b := newBench(t)
	text, id := b.token(AllScopes, Owner)
	_, err := b.ask(apiPrefix + id + "_" + random(32))
	wantKind(t, "another secret for the same id", err, millstream.Unauthenticated)
	if _, err := b.ask(text); err != nil {
		t.Errorf("the right one after a wrong one: %v", err)
	}
}

func TestCredentialForms(t *testing.T) {
	b := newBench(t)
	text, _ := b.token(Query, Owner)
	basic := func(s string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(s)) }
	for name, c := range map[string]struct {
		header string
		ok     bool
	}{
		"bearer":                {"Bearer " + text, true},
		"bearer in lower case":  {"bearer " + text, true},
		"basic, any user":       {basic("grafana:" + text), true},
		"basic, no user":        {basic(":" + text), true},
		"basic with a password": {basic("owner@example.com:correct horse battery"), false},
		"basic, token as user":  {basic(text + ":"), false},
		"basic, not base64":     {"Basic !!!", false},
		"basic without colon":   {basic(text), false},
		"empty":                 {"", false},
		"scheme alone":          {"Bearer", false},
		"scheme and a space":    {"Bearer ", false},
		"token alone":           {text, false},
		"another scheme":        {"Digest " + text, false},
	} {
		_, err := b.Authenticate(context.Background(), c.header, "")
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && (millstream.KindOf(err) != millstream.Unauthenticated || millstream.Message(err) != millstream.Message(refuse(nil))) {
			t.Errorf("%s is told apart: %v", name, err)
		}
	}
}

func TestSessionsChooseTheirOrganization(t *testing.T) {
	b := newBench(t)
	b.store.rights["s"] = SessionRights{User: User{ID: "u", Email: "u@example.com"}, Memberships: []Membership{{Org: "1", Slug: "one", Role: Owner}, {Org: "2", Slug: "two", Role: Viewer}}}
	sign := func(user, session, org string) string {
		token, _, err := b.keys.sign(context.Background(), user, session, org, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		return "Bearer " + token
	}
	for name, c := range map[string]struct {
		token, slug, want string
		role              Role
	}{
		"chosen at sign-in":     {sign("u", "s", "2"), "", "two", Viewer},
		"chosen by header":      {sign("u", "s", "2"), "one", "one", Owner},
		"header in other case":  {sign("u", "s", ""), "TWO", "two", Viewer},
		"none chosen":           {sign("u", "s", ""), "", "one", Owner},
		"left the one of login": {sign("u", "s", "9"), "", "one", Owner},
	} {
		p, err := b.Authenticate(context.Background(), c.token, c.slug)
		if err != nil || p.Slug != c.want || p.Role != c.role {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	_, err := b.Authenticate(context.Background(), sign("u", "s", ""), "three")
	wantKind(t, "a foreign organization", err, millstream.Forbidden)
	_, err = b.Authenticate(context.Background(), sign("other", "s", ""), "")
	wantKind(t, "another user's session", err, millstream.Unauthenticated)
	_, err = b.Authenticate(context.Background(), sign("u", "gone", ""), "")
	wantKind(t, "a session that ended", err, millstream.Unauthenticated)
	text, _ := b.token(AllScopes, Owner)
	_, err = b.Authenticate(context.Background(), "Bearer "+text, "three")
	wantKind(t, "a token in a foreign organization", err, millstream.Forbidden)
}

func TestIntakeGoesOnWithoutTheDatabase(t *testing.T) {
	b := newBench(t)
	text, _ := b.token(AllScopes, Owner)
	reader, _ := b.token(Query, Owner)
	for _, s := range []string{text, reader} {
		if _, err := b.ask(s); err != nil {
			t.Fatal(err)
		}
	}
	b.store.set(func() { b.store.down = true })
	b.clock.advance(fresh)
	p, err := b.ask(text)
	if err != nil || !p.Degraded || p.Scopes != Intake {
		t.Fatalf("%+v, %v", p, err)
	}
	asked := b.store.asks.Load()
	for range 100 {
		if _, err := b.ask(text); err != nil {
			t.Fatal(err)
		}
	}
	if n := b.store.asks.Load() - asked; n > 0 {
		t.Errorf("%d of 100 requests waited for a database that had just failed", n)
	}
	_, err = b.ask(reader)
	wantKind(t, "a token without intake", err, millstream.Unavailable)
	unknown, _, _ := newToken(apiPrefix)
	_, err = b.ask(unknown)
	wantKind(t, "a token nobody knows", err, millstream.Unavailable)
	b.clock.advance(stale - fresh - time.Second)
	if _, err := b.ask(text); err != nil {
		t.Errorf("refused within 10 minutes: %v", err)
	}
	b.clock.advance(time.Second)
	_, err = b.ask(text)
	wantKind(t, "after 10 minutes", err, millstream.Unavailable)
	b.store.set(func() { b.store.down = false })
	if p, err := b.ask(text); err != nil || p.Degraded || p.Scopes != AllScopes {
		t.Errorf("after the database came back: %+v, %v", p, err)
	}
}

// slowCredentials are those of a database that takes its time.
type slowCredentials struct {
	*memCredentials
	takes atomic.Int64
}

func (s *slowCredentials) Token(ctx context.Context, id string) (APIToken, error) {
	select {
	case <-time.After(time.Duration(s.takes.Load())):
		return s.memCredentials.Token(ctx, id)
	case <-ctx.Done():
		return APIToken{}, ctx.Err()
	}
}

// Who sends data does not wait for a database that hangs, and is asked for again as soon as it answers; who reads waits.
func TestSendersDoNotWaitForTheDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		text, id := b.token(AllScopes, Owner)
		slow := &slowCredentials{memCredentials: b.store}
		s, err := New(Config{Store: slow, JWTSecret: "0123456789abcdef0123456789abcdef", Log: slog.New(slog.DiscardHandler), Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		send := func() (*Principal, time.Duration, error) {
			began := time.Now()
			p, err := s.AuthenticateSender(t.Context(), "Bearer "+text, "")
			return p, time.Since(began), err
		}
		if _, _, err := send(); err != nil {
			t.Fatal(err)
		}
		slow.takes.Store(int64(time.Hour))
		time.Sleep(fresh)
		for i := range 20 {
			p, took, err := send()
			if err != nil || !p.Degraded || took > haste || i%4 != 0 && took > 0 {
				t.Fatalf("write %d: %+v, %v after %s", i, p, err, took)
			}
			time.Sleep((pause - haste) / 3)
		}
		slow.takes.Store(int64(2 * haste))
		time.Sleep(patience + pause)
		began := time.Now()
		if p, err := s.Authenticate(t.Context(), "Bearer "+text, ""); err != nil || p.Degraded || p.Scopes != AllScopes || time.Since(began) != 2*haste {
			t.Errorf("a reader: %+v, %v after %s", p, err, time.Since(began))
		}
		b.store.set(func() { delete(b.store.tokens, id) })
		time.Sleep(fresh)
		if _, took, err := send(); err != nil || took != haste {
			t.Errorf("while the database is asked: %v after %s", err, took)
		}
		time.Sleep(2 * haste)
		if _, took, err := send(); millstream.KindOf(err) != millstream.Unauthenticated || took != 0 {
			t.Errorf("once it has answered: %v after %s", err, took)
		}
		time.Sleep(patience) // the look-ups end
	})
}

func TestManyRequestsAskOnce(t *testing.T) {
	c := newCache[string](time.Now)
	var asks atomic.Int64
	release := make(chan struct{})
	var wg, begun sync.WaitGroup
	begun.Add(1)
	ask := func(context.Context) (any, error) {
		if asks.Add(1) == 1 {
			begun.Done()
		}
		<-release
		return 1, nil
	}
	for range 50 {
		wg.Go(func() {
			if e := c.hit("k"); e != nil {
				return
			}
			if _, _, err := c.get(context.Background(), "k", "k", false, ask); err != nil {
				t.Error(err)
			}
		})
	}
	begun.Wait()
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	if _, _, err := c.get(gone, "k", "k", false, ask); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that left waits on: %v", err)
	}
	close(release)
	wg.Wait()
	if n := asks.Load(); n > 2 {
		t.Errorf("asked %d times", n)
	}
}

func TestCacheIsBounded(t *testing.T) {
	now := &clock{time.Unix(1_800_000_000, 0)}
	c := newCache[int](now.now)
	for i := range 3 * entries {
		c.put(i, &cached{value: i, at: now.t}, 0)
	}
	if len(c.entries) > entries {
		t.Errorf("%d entries", len(c.entries))
	}
	if c.hit(3*entries-1) == nil {
		t.Error("the newest entry is missing")
	}
}

// An answer that was asked for before a change must not be kept after it.
func TestForgetDropsAnswersOnTheirWay(t *testing.T) {
	now := &clock{time.Unix(1_800_000_000, 0)}
	c := newCache[string](now.now)
	_, _, err := c.get(context.Background(), "k", "k", false, func(context.Context) (any, error) {
		c.forget("k")
		return "old", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if c.hit("k") != nil {
		t.Error("the old answer was kept")
	}
}

func BenchmarkAuthenticateToken(b *testing.B) {
	s := newBench(b)
	text, _ := s.token(AllScopes, Owner)
	s.now, s.tokens.now = time.Now, time.Now
	header, ctx := "Bearer "+text, context.Background()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Authenticate(ctx, header, ""); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAuthenticateSession(b *testing.B) {
	s := newBench(b)
	s.store.rights["s"] = SessionRights{User: User{ID: "u"}, Memberships: []Membership{{Org: "1", Slug: "one", Role: Owner}}}
	s.now, s.sessions.now = time.Now, time.Now
	token, _, err := s.keys.sign(context.Background(), "u", "s", "1", time.Hour)
	if err != nil {
		b.Fatal(err)
	}
	header, ctx := "Bearer "+token, context.Background()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Authenticate(ctx, header, ""); err != nil {
			b.Fatal(err)
		}
	}
}
