package web

import (
	"context"
	"encoding/csv"
	"fmt"
	"html"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/millstream/millstream/internal/auth"
)

var inviteLink = regexp.MustCompile(`data-copy-text="([^"]*)"`)

// Somebody is invited, chooses a password, becomes an editor, and is removed.
func TestPeople(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	r := w.reader().signIn()
	a := r.send("/shop/access", "/shop/access/users", "email", "bob@example.com", "name", "<b>Bob</b>", "role", "viewer")
	m := inviteLink.FindStringSubmatch(a.body)
	if a.code != 201 || m == nil {
		t.Fatalf("%d %s", a.code, a.body)
	}
	for path, to := range map[string]string{"/shop/access/users": "/shop/access", "/shop/access/users/some-id/invite": "/shop/access", "/shop/access/tokens/some-id/revoke": "/shop/access/tokens"} {
		if a := r.get(path); a.code != 303 || a.header.Get("Location") != to {
			t.Errorf("the address of a form's reply, %s, asked for again: %d %s", path, a.code, a.header.Get("Location"))
		}
	}
	if a := r.send("/shop/access", "/shop/access/users", "email", "bob@example.com", "role", "viewer"); a.code != 409 || a.alert() != "bob@example.com is a member already." {
		t.Errorf("added again: %d %q", a.code, a.alert())
	}
	if !strings.Contains(a.body, "&lt;b&gt;Bob") || !strings.Contains(a.body, "invited") {
		t.Error("he is not in the list, or his name is markup")
	}
	link, err := url.Parse(html.UnescapeString(m[1]))
	must(t, err)
	bob := w.reader()
	if a := bob.send(link.RequestURI(), "/invite", "token", link.Query().Get("token"), "password", "short"); a.code != 400 || !strings.Contains(a.alert(), "5 characters") {
		t.Errorf("a short password: %d %q", a.code, a.alert())
	}
	if a := bob.send(link.RequestURI(), "/invite", "token", link.Query().Get("token"), "password", "a long enough password"); a.code != 303 || !bob.signedIn() {
		t.Fatalf("accepting: %d %q", a.code, a.alert())
	}
	if a := w.reader().send(link.RequestURI(), "/invite", "token", link.Query().Get("token"), "password", "another long password"); a.code != 401 {
		t.Errorf("the invitation is good twice: %d", a.code)
	}
	// A viewer sees his own tokens, and may do nothing else here.
	if a := bob.get("/shop/access"); a.header.Get("Location") != "/shop/access/tokens" {
		t.Errorf("a viewer is led to %q", a.header.Get("Location"))
	}
	id := regexp.MustCompile(`/shop/access/users/([0-9a-f-]{36})/remove`).FindStringSubmatch(r.get("/shop/access").body)[1]
	for _, path := range []string{"/shop/access/audit", "/shop/access/audit.csv", "/shop/access/organization"} {
		if a := bob.get(path); a.code != 403 {
			t.Errorf("a viewer opens %s: %d", path, a.code)
		}
	}
	for path, fields := range map[string][]string{
		"/shop/access/users": {"email", "eve@example.com", "role", "viewer"}, "/shop/access/users/" + id + "/role": {"role", "owner"}, "/shop/access/users/" + id + "/remove": nil,
		"/shop/access/users/" + id + "/invite": nil, "/shop/access/organization": {"name", "x", "retention_days", "1"},
	} {
		if a := bob.send("/shop/access/tokens", path, fields...); a.code != 403 {
			t.Errorf("a viewer posts to %s: %d", path, a.code)
		}
	}
	role := "/shop/access/users/" + id + "/role"
	if a := r.send("/shop/access", role, "role", "editor"); a.code != 303 {
		t.Errorf("a new role: %d %s", a.code, a.alert())
	}
	if a := r.send("/shop/access", role, "role", "king"); a.code != 400 || a.alert() == "" {
		t.Errorf("no role: %d", a.code)
	}
	if a := r.get("/shop/access?done=role"); !strings.Contains(a.body, "The role is set.") {
		t.Error("not told that it is done")
	}
	if a := r.get("/shop/access?done=<b>hacked"); strings.Contains(a.body, "hacked") {
		t.Error("the address is repeated on the page")
	}
	if a := r.send("/shop/access", "/shop/access/users/"+id+"/remove"); a.code != 303 || bob.signedIn() {
		t.Errorf("removing: %d", a.code)
	}
	if a := r.send("/shop/access", "/shop/access/users/"+id+"/remove"); a.code != 404 {
		t.Errorf("removing again: %d", a.code)
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	r := w.reader().signIn()
	a := r.send("/shop/access/tokens", "/shop/access/tokens", "name", "<i>shop</i>", "scope", "intake", "expires", "90")
	token := apiToken.FindString(a.body)
	if a.code != 201 || token == "" || strings.Contains(a.body, "<i>shop") {
		t.Fatalf("%d %s", a.code, a.body)
	}
	who, err := w.auth.Authenticate(context.Background(), "Bearer "+token, "")
	if err != nil || who.Scopes != auth.Intake {
		t.Errorf("%+v, %v", who, err)
	}
	for name, fields := range map[string][]string{
		"without a name": {"name", " ", "scope", "query", "expires", "0"}, "without a scope": {"name", "x", "expires", "0"}, "no number": {"name", "x", "scope", "query", "expires", "soon"},
		"an unknown scope": {"name", "x", "scope", "all", "expires", "0"},
	} {
		if a := r.send("/shop/access/tokens", "/shop/access/tokens", fields...); a.code != 400 || a.alert() == "" {
			t.Errorf("%s: %d", name, a.code)
		}
	}
	list := r.get("/shop/access/tokens").body
	if !strings.Contains(list, "&lt;i&gt;shop") || strings.Contains(list, token) || strings.Count(list, "/revoke") != 1 {
		t.Error("the list is not right")
	}
	if a := r.send("/shop/access/tokens", "/shop/access/tokens/"+who.TokenID+"/revoke"); a.code != 303 {
		t.Errorf("revoking: %d %s", a.code, a.alert())
	}
	if _, err := w.auth.Authenticate(context.Background(), "Bearer "+token, ""); err == nil {
		t.Error("the token is good after it was revoked")
	}
	if a := r.send("/shop/access/tokens", "/shop/access/tokens/"+who.TokenID+"/revoke"); a.code != 404 || a.alert() == "" {
		t.Errorf("revoking again: %d", a.code)
	}
}

// The log is read on in pages, filtered, and taken away as a file that no spreadsheet runs.
func TestAuditPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	r := w.reader().signIn()
	for i := range auditPage + 20 {
		must(t, w.store.Record(context.Background(), auth.Entry{At: w.now(), Org: w.org(), Actor: "user:" + email, Action: "test.make", Target: fmt.Sprintf("=cmd%d", i), Outcome: auth.OK, Detail: map[string]any{"n": i}}))
		w.advance(1000)
	}
	first := r.get("/shop/access/audit?action=test.make").body
	older := regexp.MustCompile(`href="(/shop/access/audit\?[^"]*before=[^"]*)"`).FindStringSubmatch(first)
	if strings.Count(first, "=cmd") != auditPage || older == nil {
		t.Fatalf("%d lines on the first page", strings.Count(first, "=cmd"))
	}
	if second := r.get(html.UnescapeString(older[1])).body; strings.Count(second, "=cmd") != 20 || strings.Contains(second, "before=") {
		t.Errorf("%d lines on the second page", strings.Count(second, "=cmd"))
	}
	a := r.get("/shop/access/audit.csv?action=test.make")
	lines, err := csv.NewReader(strings.NewReader(a.body)).ReadAll()
	must(t, err)
	if len(lines) != auditPage+21 || lines[1][3] != "'=cmd119" || lines[1][7] != `{"n":119}` {
		t.Errorf("%d lines of CSV, the first %v", len(lines), lines[1])
	}
	if a := r.get("/shop/access/audit?before=yesterday"); a.code != 400 {
		t.Errorf("no time: %d", a.code)
	}
	if a := r.get("/shop/access/audit?actor=nobody"); !strings.Contains(a.body, "No change matches") {
		t.Error("an empty log says nothing")
	}
}

func TestOrganizationSettings(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	r := w.reader().signIn()
	if a := r.send("/shop/access/organization", "/shop/access/organization", "name", "The shop", "retention_days", "14"); a.code != 303 {
		t.Errorf("%d %s", a.code, a.alert())
	}
	if a := r.get("/shop/access/organization"); !strings.Contains(a.body, `value="The shop"`) || !strings.Contains(a.body, `value="14"`) {
		t.Error("not saved")
	}
	for _, days := range []string{"-1", "many", ""} {
		if a := r.send("/shop/access/organization", "/shop/access/organization", "name", "The shop", "retention_days", days); a.code != 400 || a.alert() == "" {
			t.Errorf("retention %q: %d", days, a.code)
		}
	}
}
