package api

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/internal/cipher"
)

func TestSignInRefreshAndLogout(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.login("Root@Example.com", password)
	if g.Role != "owner" || g.Organization.Slug != "default" || g.User.Email != rootEmail || g.RefreshToken == "" {
		t.Fatalf("%+v", g)
	}
	if life := g.ExpiresAt.Sub(w.now()); life < 14*time.Minute || life > 15*time.Minute {
		t.Errorf("the access token lives %v", life)
	}
	var me meView
	w.want(200, "GET", "/api/v1/auth/me", g.Token, nil, &me)
	if me.Role != "owner" || len(me.Organizations) != 1 || !slices.Contains(me.Permissions, "organization.delete") || me.Organization.Name != "Default" {
		t.Errorf("%+v", me)
	}
	var next grantView
	w.want(200, "POST", "/api/v1/auth/refresh", "", refreshBody{RefreshToken: g.RefreshToken}, &next)
	if next.RefreshToken == g.RefreshToken || next.Token == g.Token {
		t.Error("the refresh gave the same tokens again")
	}
	w.want(200, "GET", "/api/v1/auth/me", next.Token, nil, nil)
	w.want(204, "POST", "/api/v1/auth/logout", next.Token, nil, nil)
	checkProblem(t, "after logout", w.call("GET", "/api/v1/auth/me", next.Token, nil), 401, "unauthenticated", "")
	checkProblem(t, "refresh after logout", w.call("POST", "/api/v1/auth/refresh", "", refreshBody{RefreshToken: next.RefreshToken}), 401, "unauthenticated", "")
}

func TestRefreshTokensLiveTwelveHours(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.login(rootEmail, password)
	w.advance(11*time.Hour + 59*time.Minute)
	var next grantView
	w.want(200, "POST", "/api/v1/auth/refresh", "", refreshBody{RefreshToken: g.RefreshToken}, &next)
	w.advance(12*time.Hour + time.Minute)
	checkProblem(t, "too late", w.call("POST", "/api/v1/auth/refresh", "", refreshBody{RefreshToken: next.RefreshToken}), 401, "unauthenticated", "")
}

// A refresh token that is used twice is in two hands: the session ends, for the thief and for its owner.
func TestReuseOfARefreshTokenEndsTheSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.login(rootEmail, password)
	bystander := w.login(rootEmail, password)
	var next grantView
	w.want(200, "POST", "/api/v1/auth/refresh", "", refreshBody{RefreshToken: g.RefreshToken}, &next)
	guess := g.RefreshToken[:13] + strings.Repeat("a", 52)
	w.want(401, "POST", "/api/v1/auth/refresh", "", refreshBody{RefreshToken: guess}, nil)
	w.want(200, "GET", "/api/v1/auth/me", next.Token, nil, nil) // a guess is not a reuse

	w.want(401, "POST", "/api/v1/auth/refresh", "", refreshBody{RefreshToken: g.RefreshToken}, nil)
	w.want(401, "POST", "/api/v1/auth/refresh", "", refreshBody{RefreshToken: next.RefreshToken}, nil)
	w.want(401, "GET", "/api/v1/auth/me", next.Token, nil, nil)
	w.want(200, "GET", "/api/v1/auth/me", bystander.Token, nil, nil)
}

func TestWrongCredentialsAreToldApartByNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root := w.root()
	w.member(root, "member@example.com", "viewer")
	var m newMemberView
	w.want(201, "POST", "/api/v1/users", root, newUserBody{Email: "invited@example.com", Role: "viewer"}, &m)
	var first answer
	for i, in := range []loginBody{
		{Email: rootEmail, Password: "wrong horse battery"},
		{Email: "nobody@example.com", Password: password},
		{Email: "invited@example.com", Password: password},
		{Email: "invited@example.com", Password: ""},
		{Email: "", Password: ""},
		{Email: "member@example.com", Password: password, Organization: "elsewhere"},
		{Email: "nobody' OR 1=1 --", Password: password},
		{Email: "nul\x00@example.com", Password: password},
	} {
		a := w.call("POST", "/api/v1/auth/login", "", in)
		if i == 0 {
			first = a
		}
		if a.status != 401 || a.problem(t).Message != first.problem(t).Message || a.header.Get("Retry-After") != "" {
			t.Errorf("%+v: status %d: %s", in, a.status, a.body)
		}
	}
	base := w.call("GET", "/api/v1/auth/me", "", nil)
	checkProblem(t, "no credential", base, 401, "unauthenticated", "")
	if base.header.Get("WWW-Authenticate") == "" {
		t.Error("401 without a challenge")
	}
	token, id := w.apiToken(root, "query")
	for name, header := range map[string]string{
		"garbage":             "Bearer garbage",
		"unknown API token":   "Bearer ms_aaaaaaaa_" + strings.Repeat("a", 52),
		"wrong secret":        "Bearer ms_" + id + "_" + strings.Repeat("a", 52),
		"Basic with password": "Basic " + base64.StdEncoding.EncodeToString([]byte(rootEmail+":"+password)),
		"empty Bearer":        "Bearer ",
		"refresh token":       "Bearer " + w.login(rootEmail, password).RefreshToken,
	} {
		a := w.call("GET", "/api/v1/auth/me", "", nil, "Authorization", header)
		if a.status != 401 || a.problem(t).Message != base.problem(t).Message {
			t.Errorf("%s: status %d: %s", name, a.status, a.body)
		}
	}
	w.want(200, "GET", "/api/v1/auth/me", "", nil, nil, "Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte("grafana:"+token)))
}

func TestGuessingIsThrottled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(a *API) { a.TrustedProxies = prefixes("127.0.0.0/8") })
	from := func(addr, email, secret string) answer {
		return w.call("POST", "/api/v1/auth/login", "", loginBody{Email: email, Password: secret}, "X-Forwarded-For", addr)
	}
	for i := range 5 {
		if a := from(sprint("192.0.2.", i), rootEmail, "wrong horse battery"); a.status != 401 {
			t.Fatalf("attempt %d: %d", i+1, a.status)
		}
	}
	a := from("192.0.2.99", rootEmail, password)
	checkProblem(t, "sixth attempt on an account, with the right password", a, 429, "rate_limited", "")
	if a.header.Get("Retry-After") == "" {
		t.Error("429 without Retry-After")
	}
	for i := range 20 {
		if a := from("198.51.100.1", sprint("user", i, "@example.com"), "wrong horse battery"); a.status != 401 {
			t.Fatalf("attempt %d from one address: %d", i+1, a.status)
		}
	}
	checkProblem(t, "21st attempt from an address", from("198.51.100.1", "another@example.com", "x"), 429, "rate_limited", "")
	w.advance(time.Minute)
	if a := from("198.51.100.1", rootEmail, password); a.status != 200 {
		t.Errorf("a minute later: %d", a.status)
	}
	for range 30 {
		if a := from("203.0.113.5", rootEmail, password); a.status != 200 {
			t.Fatalf("right passwords are throttled: %d", a.status)
		}
	}
}

func TestAccessTokensExpire(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	token := w.root()
	w.advance(15*time.Minute + 31*time.Second)
	checkProblem(t, "expired", w.call("GET", "/api/v1/auth/me", token, nil), 401, "unauthenticated", "")
}

func TestKeyRotation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root := w.root()
	_, admin := w.member(root, "admin@example.com", "admin")
	checkProblem(t, "an admin", w.call("POST", "/api/v1/auth/jwt/rotate", admin, nil), 403, "permission_denied", "owner")
	var v rotatedView
	w.want(200, "POST", "/api/v1/auth/jwt/rotate", root, nil, &v)
	if d := v.OldValidUntil.Sub(w.now()); d < 23*time.Hour || d > 24*time.Hour || v.KeyID == "" {
		t.Errorf("%+v", v)
	}
	w.want(200, "GET", "/api/v1/auth/me", root, nil, nil)
	w.want(200, "GET", "/api/v1/auth/me", w.root(), nil, nil)
	if got := w.actions(root); !slices.Contains(got, "jwt_key.rotate") || !slices.Contains(got, "jwt_key.rotate:refused") {
		t.Errorf("audit: %v", got)
	}
}

func TestFirstRunSetup(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t)
	ctx := context.Background()
	code, err := w.auth.Start(ctx, "", "")
	if err != nil || code == "" {
		t.Fatalf("%q, %v", code, err)
	}
	if again, err := w.auth.Start(ctx, "", ""); err != nil || again != code { // another router, or this one once more
		t.Fatalf("%q after %q, %v", again, code, err)
	}
	in := setupBody{Code: code, Email: "first@example.com", Password: password, Organization: "acme"}
	for name, bad := range map[string]setupBody{
		"no code":        {Email: in.Email, Password: password},
		"wrong code":     {Code: strings.Repeat("a", len(code)), Email: in.Email, Password: password},
		"short password": {Code: code, Email: in.Email, Password: "short"},
		"no e-mail":      {Code: code, Email: "first", Password: password},
		"bad slug":       {Code: code, Email: in.Email, Password: password, Organization: "../x"},
	} {
		a := w.call("POST", "/api/v1/auth/setup", "", bad)
		if want := map[bool]int{true: 401, false: 400}[strings.Contains(name, "code")]; a.status != want {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	var g grantView
	w.want(201, "POST", "/api/v1/auth/setup", "", in, &g)
	if g.Role != "owner" || g.Organization.Slug != "acme" {
		t.Errorf("%+v", g)
	}
	w.want(200, "GET", "/api/v1/auth/me", g.Token, nil, nil)
	if a := w.call("POST", "/api/v1/auth/setup", "", in); a.status != 409 && a.status != 401 {
		t.Errorf("a second setup: %d %s", a.status, a.body)
	}
	if again, err := w.auth.Start(ctx, "", ""); err != nil || again != "" {
		t.Errorf("a code is printed though there is a user: %q, %v", again, err)
	}
	if _, err := w.auth.Start(ctx, "second@example.com", password); err != nil {
		t.Errorf("root_email after the first run: %v", err)
	}
	if a := w.call("POST", "/api/v1/auth/login", "", loginBody{Email: "second@example.com", Password: password}); a.status != 401 {
		t.Errorf("root_email created a second owner: %d", a.status)
	}
	if got := w.actions(g.Token); !slices.Equal(got, []string{"session.create", "setup"}) {
		t.Errorf("audit: %v", got)
	}
}

// A node whose cipher key is another one must say so at start, not at each sign-in.
func TestStartRefusesKeysItCannotRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sealer, err := cipher.New(bytes.Repeat([]byte{9}, cipher.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	other, err := auth.New(auth.Config{Store: w.store, Cipher: sealer, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Start(context.Background(), "", ""); !errors.Is(err, cipher.ErrUnknownKey) || !strings.Contains(err.Error(), "jwt_keys") {
		t.Errorf("%v", err)
	}
}

func TestAPITokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root := w.root()
	_, viewer := w.member(root, "viewer@example.com", "viewer")
	editorID, editor := w.member(root, "editor@example.com", "editor")

	text, id := w.apiToken(root, "query")
	if !strings.HasPrefix(text, "ms_"+id+"_") {
		t.Errorf("%s has id %s", text, id)
	}
	w.want(200, "GET", "/api/v1/streams", text, nil, nil)
	checkProblem(t, "query token on an admin route", w.call("GET", "/api/v1/users", text, nil), 403, "permission_denied", "admin")
	intake, _ := w.apiToken(root, "intake")
	checkProblem(t, "intake token on a query route", w.call("GET", "/api/v1/streams", intake, nil), 403, "permission_denied", "query")
	admin, _ := w.apiToken(root, "admin")
	w.want(200, "GET", "/api/v1/users", admin, nil, nil)
	checkProblem(t, "more scopes than its own", w.call("POST", "/api/v1/auth/tokens", admin, newTokenBody{Name: "x", Scopes: []string{"query"}}), 403, "permission_denied", "query")
	checkProblem(t, "an API token has no session", w.call("POST", "/api/v1/auth/logout", admin, nil), 400, "invalid_argument", "session")

	checkProblem(t, "viewer makes an intake token", w.call("POST", "/api/v1/auth/tokens", viewer, newTokenBody{Name: "x", Scopes: []string{"intake"}}), 403, "permission_denied", "intake")
	checkProblem(t, "editor makes an admin token", w.call("POST", "/api/v1/auth/tokens", editor, newTokenBody{Name: "x", Scopes: []string{"admin"}}), 403, "permission_denied", "admin")
	for name, in := range map[string]newTokenBody{
		"no scope": {Name: "x"}, "unknown scope": {Name: "x", Scopes: []string{"root"}}, "no name": {Scopes: []string{"query"}},
		"past expiry": {Name: "x", Scopes: []string{"query"}, ExpiresAt: &stamp{w.now().Add(-time.Second)}},
	} {
		checkProblem(t, name, w.call("POST", "/api/v1/auth/tokens", root, in), 400, "invalid_argument", "")
	}

	own, ownID := w.apiToken(editor, "query", "intake")
	var list tokensView
	w.want(200, "GET", "/api/v1/auth/tokens", editor, nil, &list)
	if len(list.Tokens) != 1 || list.Tokens[0].ID != ownID || list.Tokens[0].Token != "" {
		t.Errorf("an editor sees %+v", list.Tokens)
	}
	w.want(200, "GET", "/api/v1/auth/tokens", root, nil, &list)
	if len(list.Tokens) != 4 {
		t.Errorf("the owner sees %d tokens", len(list.Tokens))
	}
	checkProblem(t, "somebody else's token", w.call("DELETE", "/api/v1/auth/tokens/"+id, editor, nil), 404, "not_found", "")

	// What a token reads ends with its maker's membership; what it sends does not.
	w.want(204, "DELETE", "/api/v1/users/"+editorID, root, nil, nil)
	checkProblem(t, "maker removed", w.call("GET", "/api/v1/streams", own, nil), 403, "permission_denied", "query")
	w.want(204, "DELETE", "/api/v1/auth/tokens/"+ownID, root, nil, nil)
	checkProblem(t, "revoked", w.call("GET", "/api/v1/streams", own, nil), 401, "unauthenticated", "")
}

func TestTokenEndsWithinFiveSecondsOnOtherNodes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root := w.root()
	text, id := w.apiToken(root, "query")
	w.want(200, "GET", "/api/v1/streams", text, nil, nil)
	var me meView
	w.want(200, "GET", "/api/v1/auth/me", root, nil, &me)
	entry := auth.Entry{At: w.now(), Actor: "system", Action: "token.delete", Outcome: auth.OK}
	if err := w.store.DeleteToken(context.Background(), orgID(me), id, "", entry); err != nil { // as another node would
		t.Fatal(err)
	}
	w.advance(5 * time.Second)
	w.want(401, "GET", "/api/v1/streams", text, nil, nil)
}

func TestTokensExpire(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var v tokenView
	w.want(201, "POST", "/api/v1/auth/tokens", w.root(), map[string]any{"name": "x", "scopes": []string{"query"}, "expires_at": w.now().Add(time.Hour).Unix()}, &v)
	w.want(200, "GET", "/api/v1/streams", v.Token, nil, nil)
	w.advance(time.Hour + time.Second)
	w.want(401, "GET", "/api/v1/streams", v.Token, nil, nil)
}

// The header limit holds before any of our code runs.
func TestHeaderLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct{ size, status int }{{15 << 10, 200}, {25 << 10, http.StatusRequestHeaderFieldsTooLarge}} {
		if a := w.call("GET", "/api/v1/healthz", "", nil, "X-Filler", strings.Repeat("a", c.size)); a.status != c.status {
			t.Errorf("header of %d bytes: %d", c.size, a.status)
		}
	}
}
