package attack

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/millstream/millstream/internal/mstest"
)

const api = "/api/v1"

// grant is what a login gives.
type grant struct {
	Token        string `json:"token"`
	RefreshToken string `json:"refresh_token"`
}

// as makes a call with another credential and a JSON body.
func (a *target) as(t *testing.T, token, method, path string, body any, headers ...string) reply {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return a.call(t, method, api+path, "application/json", text, append([]string{"Authorization: Bearer " + token}, headers...)...)
}

func (r reply) decode(t *testing.T, into any) {
	t.Helper()
	if r.status/100 != 2 {
		t.Fatal(r)
	}
	if err := json.Unmarshal([]byte(r.body), into); err != nil {
		t.Fatal(err)
	}
}

func (a *target) login(t *testing.T) (g grant) {
	t.Helper()
	a.as(t, "", "POST", "/auth/login", map[string]string{"email": mstest.Email, "password": mstest.Password}).decode(t, &g)
	return g
}

// token makes an API token with a session.
func (a *target) token(t *testing.T, session string, scopes []string, headers ...string) (id, secret string) {
	t.Helper()
	var tok struct{ ID, Token string }
	a.as(t, session, "POST", "/auth/tokens", map[string]any{"name": "attack", "scopes": scopes}, headers...).decode(t, &tok)
	return tok.ID, tok.Token
}

var requestID = regexp.MustCompile(`"request_id":"[^"]*"`)

func attackCredentials(t *testing.T, a *target) {
	session := a.login(t).Token
	var first string
	for name, h := range map[string]string{
		"none": "", "garbage": "Bearer x", "nobody's": "Bearer ms_aaaaaaaa_" + strings.Repeat("a", 52), "cut": "Bearer " + a.Token[:len(a.Token)-1], "longer": "Bearer " + a.Token + "a", "another id": "Bearer ms_zzzzzzzz" + a.Token[11:],
		"two": "Bearer " + a.Token + ", Bearer x", "digest": "Digest x", "basic garbage": "Basic !!!", "a password": "Basic " + base64.StdEncoding.EncodeToString([]byte(mstest.Email+":"+mstest.Password)),
		"no algorithm": "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiIxIn0.", "a changed session": "Bearer " + session[:len(session)-4] + "AAAA", "huge": "Bearer " + strings.Repeat("x", 10_000),
	} {
		r := a.call(t, "GET", api+"/auth/me", "", nil, "Authorization: "+h)
		r.check(t, name, 401)
		if body := requestID.ReplaceAllString(r.body, ""); first == "" {
			first = body
		} else if body != first {
			t.Errorf("%s: %s differs from %s", name, body, first)
		}
	}
	for name, h := range map[string]string{"bearer": "bearer " + a.Token, "basic": "Basic " + base64.StdEncoding.EncodeToString([]byte("any:"+a.Token)), "session": "Bearer " + session} {
		a.call(t, "GET", api+"/auth/me", "", nil, "Authorization: "+h).check(t, name, 200)
	}
	wrong := a.as(t, "", "POST", "/auth/login", map[string]string{"email": mstest.Email, "password": "not the password"})
	nobody := a.as(t, "", "POST", "/auth/login", map[string]string{"email": "nobody@example.com", "password": "not the password"})
	if wrong.status != 401 || nobody.status != 401 || requestID.ReplaceAllString(wrong.body, "") != requestID.ReplaceAllString(nobody.body, "") {
		t.Errorf("a wrong password: %v; an unknown user: %v", wrong, nobody)
	}
	for _, email := range []string{strings.Repeat("x", 100_000), "' OR 1=1 --", "a\x00@b.c"} {
		a.as(t, "", "POST", "/auth/login", map[string]string{"email": email, "password": "not the password"}).check(t, "login", 401)
	}
	last := reply{}
	for range 7 {
		last = a.as(t, "", "POST", "/auth/login", map[string]string{"email": "victim@example.com", "password": "not the password"})
	}
	last.check(t, "the seventh guess", 429)
	for name, body := range map[string]string{"no name": `{"name":"","scopes":["query"]}`, "no scope": `{"name":"x","scopes":[]}`, "an unknown scope": `{"name":"x","scopes":["root"]}`, "a text": `{"name":"x","scopes":"query"}`,
		"past": `{"name":"x","scopes":["query"],"expires_at":"2020-01-01T00:00:00Z"}`, "NUL": `{"name":"x\u0000","scopes":["query"]}`, "unknown field": `{"name":"x","scopes":["query"],"admin":true}`, "twice": `{"name":"x","name":"y","scopes":["query"]}`} {
		r := a.call(t, "POST", api+"/auth/tokens", "application/json", []byte(body), "Authorization: Bearer "+session)
		r.check(t, name, 400)
		r.own(t, name, "invalid_argument")
	}
}

func attackScopes(t *testing.T, a *target) {
	session := a.login(t).Token
	calls := []struct{ method, path, body, scope string }{
		{"POST", "/intake/json/scoped", `{"a":1}`, "intake"}, {"POST", "/query", `{"language":"sql","statement":"SELECT 1"}`, "query"}, {"GET", "/query/running", "", "query"}, {"GET", "/streams", "", "query"},
		{"GET", "/query/prometheus/api/v1/labels", "", "query"}, {"GET", "/users", "", "admin"}, {"GET", "/audit", "", "admin"}, {"POST", "/auth/tokens", `{"name":"x","scopes":["admin"]}`, "admin"}, {"POST", "/node/flush", "{}", "admin"},
		{"GET", "/cluster/nodes", "", "admin"}, {"DELETE", "/streams/logs/nothing", "", "admin"},
	}
	for _, scope := range []string{"intake", "query", "admin"} {
		id, token := a.token(t, session, []string{scope})
		for _, c := range calls {
			r := a.call(t, c.method, api+c.path, "application/json", []byte(c.body), "Authorization: Bearer "+token)
			if (r.status == 403) != (c.scope != scope) {
				t.Errorf("scope %s: %s %s: %v", scope, c.method, c.path, r)
			}
		}
		a.as(t, session, "DELETE", "/auth/tokens/"+id, nil).check(t, "revoke", 204)
		a.call(t, "GET", api+"/auth/me", "", nil, "Authorization: Bearer "+token).check(t, "a revoked token", 401)
	}
	var audit struct {
		Entries []struct{ Action, Outcome string }
	}
	a.as(t, session, "GET", "/audit", nil).decode(t, &audit)
	seen := map[string]int{}
	for _, e := range audit.Entries {
		seen[e.Action+" "+e.Outcome]++
	}
	for _, want := range []string{"token.create ok", "token.delete ok", "token.create refused", "stream.delete refused"} {
		if seen[want] == 0 {
			t.Errorf("the audit log has no %q: %v", want, seen)
		}
	}
}

// A second organization's names, streams, tokens and users are as if they were not there.
func attackOrganizations(t *testing.T, a *target) {
	session := a.login(t).Token
	var org struct{ ID string }
	a.as(t, session, "POST", "/organizations", map[string]string{"name": "Second", "slug": "second"}).decode(t, &org)
	id, token := a.token(t, session, []string{"intake", "query", "admin"}, "X-Org-Id: second")
	as := "Authorization: Bearer " + token
	a.call(t, "POST", jsonPath+"secrets", "application/json", []byte(`{"pw":"hunter2"}`), as).check(t, "second", 200)
	a.call(t, "POST", jsonPath+"shared", "application/json", []byte(`{"who":"second"}`), as).check(t, "second", 200)
	a.send(t, "shared", `{"who":"first"}`)
	a.stages(t, func(t *testing.T) {
		a.rows(t, "SELECT who FROM shared", "[[first]]")
		if _, rows := a.ask(t, "SELECT who FROM shared", as); fmt.Sprint(rows) != "[[second]]" {
			t.Errorf("the second organization reads %v", rows)
		}
		for _, name := range []string{"secrets", "second.secrets", `"second"."secrets"`, "logs.secrets", `"second/secrets"`, "second.logs.secrets", `"` + org.ID + `"`, `"` + org.ID + `/secrets"`} {
			r, _ := a.ask(t, "SELECT * FROM "+name)
			r.check(t, name, 404)
		}
		if r, _ := a.ask(t, "SHOW TABLES"); strings.Contains(r.body, "secrets") {
			t.Errorf("SHOW TABLES: %v", r)
		}
	})
	for _, c := range []struct {
		method, path, body string
	}{
		{"GET", "/streams/logs/secrets", ""}, {"DELETE", "/streams/logs/secrets", ""}, {"GET", "/streams/logs/secrets/segments", ""}, {"PATCH", "/streams/logs/secrets", `{"retention_days":1}`}, {"GET", "/query/tail?stream=secrets", ""},
		{"POST", "/query/fields", `{"stream":"secrets"}`}, {"POST", "/query/histogram", `{"stream":"secrets","time_range":{"start":"now-1h","end":"now"}}`}, {"DELETE", "/auth/tokens/" + id, ""}, {"GET", "/organizations/" + org.ID, ""},
		{"PATCH", "/organizations/" + org.ID, `{"name":"x"}`}, {"DELETE", "/organizations/" + org.ID, ""},
	} {
		a.call(t, c.method, api+c.path, "application/json", []byte(c.body)).check(t, c.method+" "+c.path, 404)
	}
	for name, headers := range map[string][]string{"a token elsewhere": {as, "X-Org-Id: default"}, "the first's token": {"X-Org-Id: second"}, "nobody's": {"X-Org-Id: nobodys"}, "quotes": {"X-Org-Id: default' OR '1'='1"}, "an id": {"X-Org-Id: " + org.ID}} {
		a.call(t, "POST", jsonPath+"shared", "application/json", []byte(`{"who":"cross"}`), headers...).check(t, name, 403)
	}
	for _, slug := range []string{"../x", "a b", "", ".x", "ä", strings.Repeat("a", 129), "a\x00"} {
		a.as(t, session, "POST", "/organizations", map[string]string{"name": "n", "slug": slug}).check(t, "slug "+slug, 400)
	}
	a.as(t, session, "POST", "/organizations", map[string]string{"name": "n", "slug": "second"}).check(t, "the same slug", 409)
}

func attackSessions(t *testing.T, a *target) {
	old := a.login(t)
	var next grant
	a.as(t, "", "POST", "/auth/refresh", map[string]string{"refresh_token": old.RefreshToken}).decode(t, &next)
	for name, token := range map[string]string{"a refresh token": next.RefreshToken, "nothing": "x\x00"} {
		a.call(t, "GET", api+"/auth/me", "", nil, "Authorization: Bearer "+strings.ReplaceAll(token, "\x00", "")).check(t, name+" as access", 401)
	}
	a.as(t, "", "POST", "/auth/refresh", map[string]string{"refresh_token": old.RefreshToken}).check(t, "a used refresh token", 401)
	a.as(t, "", "POST", "/auth/refresh", map[string]string{"refresh_token": next.RefreshToken}).check(t, "the family of a used refresh token", 401)
	a.call(t, "GET", api+"/auth/me", "", nil, "Authorization: Bearer "+next.Token).check(t, "the family's access", 401)

	// A member of low rank, by invitation.
	owner := a.login(t).Token
	var invited struct {
		User       struct{ ID string }
		Invitation struct{ Token string }
	}
	a.as(t, owner, "POST", "/users", map[string]string{"email": "viewer@example.com", "role": "viewer"}).decode(t, &invited)
	accept := map[string]string{"token": invited.Invitation.Token, "password": "another-long-password"}
	if r := a.as(t, "", "POST", "/auth/accept", accept); r.status/100 != 2 {
		t.Fatal(r)
	}
	if r := a.as(t, "", "POST", "/auth/accept", accept); r.status/100 == 2 {
		t.Errorf("an invitation is good twice: %v", r)
	}
	var viewer grant
	a.as(t, "", "POST", "/auth/login", map[string]string{"email": "viewer@example.com", "password": "another-long-password"}).decode(t, &viewer)
	for _, c := range []struct {
		method, path string
		body         any
	}{
		{"POST", "/intake/json/viewed", map[string]int{"a": 1}}, {"GET", "/users", nil}, {"POST", "/users", map[string]string{"email": "x@example.com", "role": "owner"}}, {"PATCH", "/users/" + invited.User.ID, map[string]string{"role": "owner"}},
		{"POST", "/auth/tokens", map[string]any{"name": "x", "scopes": []string{"admin"}}}, {"POST", "/auth/jwt/rotate", nil}, {"DELETE", "/streams/logs/shared", nil}, {"GET", "/audit", nil}, {"POST", "/node/flush", nil},
	} {
		a.as(t, viewer.Token, c.method, c.path, c.body).check(t, "a viewer: "+c.method+" "+c.path, 403)
	}
	a.as(t, viewer.Token, "POST", "/query", map[string]string{"statement": "SELECT 1"}).check(t, "a viewer's query", 200)
	var me struct{ User struct{ ID string } }
	a.as(t, owner, "GET", "/auth/me", nil).decode(t, &me)
	if r := a.as(t, owner, "DELETE", "/users/"+me.User.ID, nil); r.status/100 == 2 {
		t.Errorf("the last owner was removed: %v", r)
	}
	a.as(t, owner, "DELETE", "/users/"+invited.User.ID, nil).check(t, "remove", 204)
	if r := a.as(t, viewer.Token, "POST", "/query", map[string]string{"statement": "SELECT 1"}); r.status != 401 && r.status != 403 {
		t.Errorf("a removed member's session: %v", r)
	}
}
