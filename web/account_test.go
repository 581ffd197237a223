package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millstream/millstream/internal/auth"
)

func TestFirstRun(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t, false)
	r := w.reader()
	if a := r.get("/"); a.code != 303 || a.header.Get("Location") != "/setup" {
		t.Errorf("the first page of a new node leads to %q", a.header.Get("Location"))
	}
	if a := r.get("/login"); a.code != 303 || a.header.Get("Location") != "/setup" {
		t.Errorf("sign-in before there is anybody: %d", a.code)
	}
	if a := r.get("/setup?code=" + w.code); !strings.Contains(a.body, `value="`+w.code+`"`) {
		t.Error("the code of the URL is not filled in")
	}
	for name, c := range map[string]struct {
		code, email, password, org string
		status                     int
		field, says                string
	}{
		"wrong code":     {"nonsense", email, password, "shop", 401, "code", "code"},
		"no address":     {w.code, "ada", password, "shop", 400, "email", "e-mail"},
		"short password": {w.code, email, "secret-pass", "shop", 400, "password", "11 characters"},
		"bad slug":       {w.code, email, password, ".shop", 400, "organization", "slug"},
	} {
		a := r.send("/setup", "/setup", "code", c.code, "email", c.email, "password", c.password, "organization", c.org)
		if a.code != c.status || !strings.Contains(a.alert(), c.says) {
			t.Errorf("%s: %d %q", name, a.code, a.alert())
		}
		if !strings.Contains(a.body, `id="`+c.field+`" name="`+c.field+`" aria-invalid="true"`) {
			t.Errorf("%s: the field is not marked", name)
		}
		if strings.Contains(a.body, c.password) {
			t.Errorf("%s: the password is in the reply", name)
		}
		if !strings.Contains(a.body, `value="`+c.email+`"`) || !strings.Contains(a.body, `value="`+c.org+`"`) || !strings.Contains(a.body, `value="`+c.code+`"`) {
			t.Errorf("%s: what was typed is gone", name)
		}
	}
	a := r.send("/setup", "/setup", "code", w.code, "email", email, "password", password, "organization", "shop")
	token := apiToken.FindString(a.body)
	if a.code != 201 || token == "" || strings.Contains(a.body, "$TOKEN") || a.header.Get("Cache-Control") != "no-store" {
		t.Fatalf("setup: %d %s", a.code, a.body)
	}
	who, err := w.auth.Authenticate(context.Background(), "Bearer "+token, "")
	if err != nil || who.Slug != "shop" || who.Scopes != auth.Intake|auth.Query {
		t.Errorf("the token is worth %+v, %v", who, err)
	}
	if a := r.get("/shop/logs"); !r.signedIn() || apiToken.MatchString(a.body) {
		t.Error("not signed in after the setup, or the token is shown again")
	}
	if a := r.get("/setup"); a.code != 303 || a.header.Get("Location") != "/login" {
		t.Errorf("setup, again: %d", a.code)
	}
	if a := r.send("/shop/logs", "/setup", "code", w.code, "email", "eve@example.com", "password", password, "organization", "eve"); a.code != 409 || !strings.Contains(a.alert(), "setup is done") {
		t.Errorf("setup, sent again: %d %q", a.code, a.alert())
	}
}

func TestSignInAndOut(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		secure bool
		prefix string
	}{"TLS": {true, "__Host-"}, "localhost": {false, ""}} {
		w := newWorld(t, c.secure)
		r := w.reader()
		a := r.send("/login", "/login", "email", "<b>"+email, "password", "wrong password")
		if a.code != 401 || !strings.Contains(a.alert(), "wrong") || !strings.Contains(a.body, `value="&lt;b&gt;`+email) || strings.Contains(a.body, "wrong password") || a.header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s: a wrong password: %d %s", name, a.code, a.body)
		}
		a = r.send("/login", "/login", "email", " Ada@Example.com", "password", password)
		session := a.cookies()[c.prefix+sessionCookie]
		if a.code != 303 || session == nil {
			t.Fatalf("%s: sign-in: %d, cookies %v", name, a.code, a.cookies())
		}
		form := r.get("/login").cookies() // a reader who is signed in needs no form
		if len(form) != 0 {
			t.Errorf("%s: cookies for nothing: %v", name, form)
		}
		if !session.HttpOnly || session.Secure != c.secure || session.SameSite != http.SameSiteLaxMode || session.Path != "/" || session.Domain != "" || session.MaxAge != 0 {
			t.Errorf("%s: %s", name, session)
		}
		if !r.signedIn() {
			t.Errorf("%s: not signed in", name)
		}
		if a := r.get("/login"); a.code != 303 {
			t.Errorf("%s: signed in and asked to sign in: %d", name, a.code)
		}
		if a := r.send("/shop/logs", "/logout"); a.code != 303 || a.cookies()[c.prefix+sessionCookie].MaxAge >= 0 {
			t.Errorf("%s: sign-out: %d", name, a.code)
		}
		stolen, _, _ := strings.Cut(session.Value, "~")
		if _, err := w.auth.Authenticate(context.Background(), "Bearer "+stolen, ""); err == nil {
			t.Errorf("%s: the session outlives the sign-out", name)
		}
		if r.signedIn() {
			t.Errorf("%s: still signed in", name)
		}
	}
}

func TestPlainHTTPFromElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	r := w.reader().named("http://node.example:5080")
	for path, code := range map[string]int{"/login": 200, "/": 303, "/shop/logs": 303} {
		if a := r.get(path); a.code != code || strings.Contains(a.body, `type="password"`) || len(a.cookies()) != 0 {
			t.Errorf("%s: %d, cookies %v", path, a.code, a.cookies())
		}
	}
	if a := r.get("/login"); !strings.Contains(a.body, "insecure_cookies") {
		t.Errorf("not told what to do: %s", a.body)
	}
	if a := r.send("/login", "/login", "email", email, "password", password); a.code != 403 || len(a.cookies()) != 0 {
		t.Errorf("a password was taken: %d", a.code)
	}
	w = newWorld(t, false, func(c *Config) { c.InsecureCookies = true })
	w.reader().named("http://node.example:5080").signIn()
}

// A proxy that ends TLS: its word counts when it is trusted, and the configured URL always.
func TestBehindAProxy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false, func(c *Config) { c.ExternalURL = "https://ms.example.com/" })
	r := w.reader().named("http://ms.example.com")
	a := r.get("/login")
	c := a.cookies()["__Host-"+formCookie]
	if c == nil || !c.Secure {
		t.Fatalf("cookies %v", a.cookies())
	}
	m := tokenField.FindStringSubmatch(a.body)
	a = r.do("POST", "/login", url.Values{"email": {email}, "password": {password}, "form_token": {m[1]}}, "Origin", "https://ms.example.com", "Cookie", c.Name+"="+c.Value)
	if a.code != 303 || a.cookies()["__Host-"+sessionCookie] == nil {
		t.Errorf("%d %s", a.code, a.body)
	}
}

// Forms are taken from our own pages in the same browser, and from nowhere else.
func TestForgedForms(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	r, other := w.reader(), w.reader()
	good := tokenField.FindStringSubmatch(r.get("/login").body)[1]
	foreign := tokenField.FindStringSubmatch(other.get("/login").body)[1]
	for name, c := range map[string]struct {
		token   string
		headers []string
		status  int
	}{
		"another site, as browsers say it": {good, []string{"Sec-Fetch-Site", "cross-site"}, 403},
		"another origin":                   {good, []string{"Origin", "https://evil.example"}, 403},
		"a sandboxed frame":                {good, []string{"Origin", "null"}, 403},
		"no token":                         {"", nil, 403},
		"another browser's token":          {foreign, nil, 403},
		"a damaged token":                  {good[:len(good)-2] + "AA", nil, 403},
		"ours":                             {good, nil, 303},
	} {
		a := r.do("POST", "/login", url.Values{"email": {email}, "password": {password}, "form_token": {c.token}}, c.headers...)
		if a.code != c.status {
			t.Errorf("%s: %d %s", name, a.code, a.body)
		}
		if c.status == 403 && a.cookies()[sessionCookie] != nil {
			t.Errorf("%s: signed in", name)
		}
	}
	bare := w.reader()
	if a := bare.do("POST", "/login", url.Values{"email": {email}, "password": {password}, "form_token": {good}}); a.code != 403 || !strings.Contains(a.body, `value="`+email+`"`) {
		t.Errorf("without the cookie: %d", a.code)
	}
	if a := r.do("POST", "/logout", url.Values{"name": {"x"}}); a.code != 403 { // signed in by the form of ours
		t.Errorf("signing out without a token: %d", a.code)
	}
	if !r.signedIn() {
		t.Error("a forged form signed the reader out")
	}
	if a := r.do("POST", "/login", url.Values{"email": {strings.Repeat("x", 70_000)}}); a.code != 413 {
		t.Errorf("a long form: %d", a.code)
	}
}

func TestGuessing(t *testing.T) {
	t.Parallel()
	r := newWorld(t, false).reader()
	for range 5 {
		r.send("/login", "/login", "email", email, "password", "wrong password")
	}
	if a := r.send("/login", "/login", "email", email, "password", password); a.code != 429 || a.header.Get("Retry-After") == "" || !strings.Contains(a.body, "Try again in") {
		t.Errorf("after five wrong passwords: %d %s", a.code, a.alert())
	}
}

// Browsers send the cookies of ended sessions by themselves: those neither keep whoever shares the address from signing in nor end a good session, and passwords
// stay limited as before.
func TestBadCookiesLockNobodyOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	u, err := url.Parse(w.http.URL)
	must(t, err)
	known := strings.Split(w.grant().RefreshToken, "_")[1] // the id of a session is no secret
	stale := func(n int) {
		for i := range n {
			secret := strings.Repeat(string(rune('a'+i%26)), 52)
			for _, refresh := range []string{"x", "msr_aaaaaaaa_" + secret, "msr_" + known + "_" + secret} {
				r := w.reader()
				r.client.Jar.SetCookies(u, []*http.Cookie{{Name: sessionCookie, Value: "ended~" + refresh}})
				if a := r.get("/"); a.code != http.StatusSeeOther || !strings.HasPrefix(a.header.Get("Location"), "/login") {
					t.Fatalf("bad cookie %d (%s): %d to %q", i+1, refresh, a.code, a.header.Get("Location"))
				}
			}
		}
	}
	stale(30)
	r := w.reader().signIn()
	w.advance(16 * time.Minute)
	stale(30)
	if !r.signedIn() {
		t.Error("others' bad cookies kept a session from being renewed")
	}
	for i := range 20 {
		if a := w.reader().send("/login", "/login", "email", fmt.Sprintf("user%d@example.com", i), "password", "wrong password"); a.code != http.StatusUnauthorized {
			t.Fatalf("wrong password %d: %d", i+1, a.code)
		}
	}
	if a := w.reader().send("/login", "/login", "email", email, "password", password); a.code != http.StatusTooManyRequests {
		t.Errorf("after 20 wrong passwords from the address: %d", a.code)
	}
}

// An access token lives 15 minutes; the session goes on over its end, also when several tabs come with the same cookie at once.
func TestSessionIsRenewed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	r := w.reader().signIn()
	u, err := url.Parse(w.http.URL)
	must(t, err)
	old := r.client.Jar.Cookies(u)
	w.advance(16 * time.Minute)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			tab := w.reader()
			tab.client.Jar.SetCookies(u, old)
			if !tab.signedIn() {
				t.Error("a tab was signed out")
			}
		})
	}
	wg.Wait()
	if !r.signedIn() {
		t.Error("signed out")
	}
	w.advance(renewFor)
	late := w.reader()
	late.client.Jar.SetCookies(u, old)
	if late.signedIn() {
		t.Error("a former cookie is good for ever")
	}
	if r.signedIn() {
		t.Error("a stolen cookie was used, and the session lives on")
	}
	r.signIn()
	w.advance(13 * time.Hour)
	if r.signedIn() {
		t.Error("signed in after 13 idle hours")
	}
	for _, c := range r.client.Jar.Cookies(u) {
		if c.Name == sessionCookie {
			t.Errorf("the ended session's cookie stays: %v", c)
		}
	}
}

// An API token is no session.
func TestTokenIsNoSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	who, err := w.auth.Authenticate(context.Background(), "Bearer "+w.grant().Token, "")
	must(t, err)
	token, _, err := w.auth.CreateToken(context.Background(), who, auth.NewToken{Name: "x", Scopes: auth.Query}, auth.Entry{Action: "token.create", Org: who.Org})
	must(t, err)
	u, err := url.Parse(w.http.URL)
	must(t, err)
	thief := w.reader()
	thief.client.Jar.SetCookies(u, []*http.Cookie{{Name: sessionCookie, Value: token + "~x"}})
	if thief.signedIn() {
		t.Error("signed in with an API token")
	}
}

// Signing in leads back to where one wanted to go, and never to another site.
func TestNext(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	const want = "/shop/logs?q=level%3Aerror&from=now-1h"
	to := w.reader().get(want).header.Get("Location")
	next, err := url.Parse(to)
	must(t, err)
	if next.Path != "/login" || next.Query().Get("next") != want {
		t.Fatalf("a stranger is sent to %q", to)
	}
	if a := w.reader().send(to, "/login", "email", email, "password", password, "next", want); a.header.Get("Location") != want {
		t.Errorf("signing in leads to %q", a.header.Get("Location"))
	}
	for _, bad := range []string{"https://evil.example/", "//evil.example/", "/\\evil.example", "javascript:alert(1)", "evil", "/\tx"} {
		if a := w.reader().send("/login", "/login", "email", email, "password", password, "next", bad); a.header.Get("Location") != "/" {
			t.Errorf("next %q leads to %q", bad, a.header.Get("Location"))
		}
	}
	long := "/shop/logs?q=" + strings.Repeat("x", maxNext)
	if to := w.reader().get(long).header.Get("Location"); to != "/login?next=%2Fshop%2Flogs" {
		t.Errorf("a long address: %.80s", to)
	}
}

// A page whose session ended signs in by script and goes on with a new token.
func TestSignInByScript(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	r := w.reader()
	form := func(password string) answer {
		m := tokenField.FindStringSubmatch(r.get("/login").body)
		return r.do("POST", "/login", url.Values{"email": {email}, "password": {password}, "form_token": {m[1]}}, "Accept", "application/json")
	}
	var problem struct {
		Error struct{ Code, Message string }
	}
	if a := form("wrong password"); a.code != 401 || json.Unmarshal([]byte(a.body), &problem) != nil || problem.Error.Code != "unauthenticated" || problem.Error.Message == "" {
		t.Errorf("a wrong password: %d %s", a.code, a.body)
	}
	var good struct{ User, CSRF string }
	if a := form(password); a.code != 200 || json.Unmarshal([]byte(a.body), &good) != nil || good.User == "" || good.CSRF == "" {
		t.Fatalf("%d %s", a.code, a.body)
	}
	if a := r.script("POST", "/api/v1/auth/logout", good.CSRF); a.code != 204 {
		t.Errorf("a request with the new token: %d %s", a.code, a.body)
	}
	// Signing out in another tab ends the token that an open page has; the refusal gives it another one.
	other := w.reader()
	again := func(token string) answer {
		return other.do("POST", "/login", url.Values{"email": {email}, "password": {password}, "form_token": {token}}, "Accept", "application/json")
	}
	var refused struct{ CSRF string }
	if a := again(good.CSRF); a.code != 403 || json.Unmarshal([]byte(a.body), &refused) != nil || refused.CSRF == "" {
		t.Fatalf("a token that has ended: %d %s", a.code, a.body)
	}
	if a := again(refused.CSRF); a.code != 200 {
		t.Errorf("with the token of the refusal: %d %s", a.code, a.body)
	}
}
