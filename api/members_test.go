package api

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millstream/millstream"
)

func prefixes(cidrs ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(cidrs))
	for i, c := range cidrs {
		out[i] = netip.MustParsePrefix(c)
	}
	return out
}

func orgID(me meView) millstream.OrgID { return millstream.OrgID(me.Organization.ID) }

func ptr[T any](v T) *T { return &v }

func TestRankIsRespected(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root := w.root()
	var me meView
	w.want(200, "GET", "/api/v1/auth/me", root, nil, &me)
	rootID := me.User.ID
	_, admin := w.member(root, "admin@example.com", "admin")
	otherAdminID, _ := w.member(root, "admin2@example.com", "admin")
	editorID, editor := w.member(root, "editor@example.com", "editor")
	viewerID, viewer := w.member(root, "viewer@example.com", "viewer")
	user := func(id string) string { return "/api/v1/users/" + id }

	for _, c := range []struct {
		what, method, path, token string
		body                      any
		status                    int
		code                      string
	}{
		{"admin removes owner", "DELETE", user(rootID), admin, nil, 403, "permission_denied"},
		{"admin demotes owner", "PATCH", user(rootID), admin, userPatchBody{Role: ptr("viewer")}, 403, "permission_denied"},
		{"admin makes himself owner", "PATCH", user(otherAdminID), admin, userPatchBody{Role: ptr("owner")}, 403, "permission_denied"},
		{"admin invites an owner", "POST", "/api/v1/users", admin, newUserBody{Email: "x@example.com", Role: "owner"}, 403, "permission_denied"},
		{"admin resets the owner's password", "POST", user(rootID) + "/invite", admin, nil, 403, "permission_denied"},
		{"editor changes a role", "PATCH", user(viewerID), editor, userPatchBody{Role: ptr("editor")}, 403, "permission_denied"},
		{"viewer promotes himself", "PATCH", user(viewerID), viewer, userPatchBody{Role: ptr("owner")}, 403, "permission_denied"},
		{"editor removes a viewer", "DELETE", user(viewerID), editor, nil, 403, "permission_denied"},
		{"viewer lists users", "GET", "/api/v1/users", viewer, nil, 403, "permission_denied"},
		{"editor adds a user", "POST", "/api/v1/users", editor, newUserBody{Email: "x@example.com", Role: "viewer"}, 403, "permission_denied"},
		{"the last owner leaves", "DELETE", user(rootID), root, nil, 409, "conflict"},
		{"the last owner steps down", "PATCH", user(rootID), root, userPatchBody{Role: ptr("admin")}, 409, "conflict"},
		{"owner sets somebody's password", "PATCH", user(viewerID), root, userPatchBody{Password: ptr(password)}, 403, "permission_denied"},
		{"unknown id", "DELETE", user("018f0000-0000-7000-8000-000000000000"), root, nil, 404, "not_found"},
		{"not an id", "DELETE", user("abc"), root, nil, 404, "not_found"},
		{"not an id, role", "PATCH", user("abc"), root, userPatchBody{Role: ptr("viewer")}, 404, "not_found"},
		{"not an id, invite", "POST", user("a%00b") + "/invite", root, nil, 404, "not_found"},
		{"unknown role", "PATCH", user(viewerID), root, userPatchBody{Role: ptr("root")}, 400, "invalid_argument"},
		{"nothing to change", "PATCH", user(viewerID), root, userPatchBody{}, 400, "invalid_argument"},
		{"a member again", "POST", "/api/v1/users", root, newUserBody{Email: "VIEWER@example.com", Role: "viewer"}, 409, "conflict"},
		{"a bad address", "POST", "/api/v1/users", root, newUserBody{Email: "Viewer <v@example.com>", Role: "viewer"}, 400, "invalid_argument"},
		{"a short password", "POST", "/api/v1/users", root, newUserBody{Email: "x@example.com", Role: "viewer", Password: "short"}, 400, "invalid_argument"},
	} {
		checkProblem(t, c.what, w.call(c.method, c.path, c.token, c.body), c.status, c.code, "")
	}

	w.want(204, "PATCH", user(editorID), admin, userPatchBody{Role: ptr("viewer")}, nil)
	w.want(200, "GET", "/api/v1/auth/me", editor, nil, &me)
	if me.Role != "viewer" {
		t.Errorf("the change of role is not in force: %s", me.Role)
	}
	w.want(204, "PATCH", user(otherAdminID), root, userPatchBody{Role: ptr("owner")}, nil)
	w.want(204, "PATCH", user(rootID), root, userPatchBody{Role: ptr("admin")}, nil)
	checkProblem(t, "the new last owner", w.call("DELETE", user(otherAdminID), root, nil), 403, "permission_denied", "")
	w.want(204, "DELETE", user(viewerID), root, nil, nil)
	w.want(401, "GET", "/api/v1/auth/me", viewer, nil, nil)
	w.want(401, "POST", "/api/v1/auth/login", "", loginBody{Email: "viewer@example.com", Password: password}, nil)
}

func TestInvitations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root := w.root()
	var m newMemberView
	w.want(201, "POST", "/api/v1/users", root, newUserBody{Email: "new@example.com", Name: "New", Role: "editor"}, &m)
	if m.Invitation == nil || !m.User.Pending || m.User.Name != "New" {
		t.Fatalf("%+v", m)
	}
	if d := m.Invitation.ExpiresAt.Sub(w.now()); d > 72*time.Hour {
		t.Errorf("the invitation lives %v", d)
	}
	accept := func(token string) answer {
		return w.call("POST", "/api/v1/auth/accept", "", acceptBody{Token: token, Password: password})
	}
	checkProblem(t, "short password", w.call("POST", "/api/v1/auth/accept", "", acceptBody{Token: m.Invitation.Token, Password: "short"}), 400, "invalid_argument", "12")
	var again invitationView
	w.want(201, "POST", "/api/v1/users/"+m.User.ID+"/invite", root, nil, &again)
	checkProblem(t, "a replaced invitation", accept(m.Invitation.Token), 401, "unauthenticated", "")
	var g grantView
	a := accept(again.Token)
	a.into(t, &g)
	if a.status != 200 || g.Role != "editor" {
		t.Fatalf("%d %s", a.status, a.body)
	}
	checkProblem(t, "a used invitation", accept(again.Token), 401, "unauthenticated", "")
	w.login("new@example.com", password)

	// A reset ends the sessions of whoever is reset.
	w.want(201, "POST", "/api/v1/users/"+m.User.ID+"/invite", root, nil, &again)
	if a := accept(again.Token); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	w.want(401, "GET", "/api/v1/auth/me", g.Token, nil, nil)

	w.want(201, "POST", "/api/v1/users", root, newUserBody{Email: "late@example.com", Role: "viewer"}, &m)
	w.advance(72*time.Hour + time.Minute)
	checkProblem(t, "an expired invitation", accept(m.Invitation.Token), 401, "unauthenticated", "")
	root = w.root()
	w.want(201, "POST", "/api/v1/users", root, newUserBody{Email: "gone@example.com", Role: "viewer"}, &m)
	w.want(204, "DELETE", "/api/v1/users/"+m.User.ID, root, nil, nil)
	checkProblem(t, "an invitation that outlives its removal", accept(m.Invitation.Token), 401, "unauthenticated", "")
}

func TestOwnPassword(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, here := w.member(w.root(), "viewer@example.com", "viewer")
	elsewhere := w.login("viewer@example.com", password).Token
	const next = "another good password"
	path := "/api/v1/users/" + id
	checkProblem(t, "wrong current password", w.call("PATCH", path, here, userPatchBody{Password: ptr(next), CurrentPassword: "wrong"}), 403, "permission_denied", "current")
	checkProblem(t, "short", w.call("PATCH", path, here, userPatchBody{Password: ptr("short"), CurrentPassword: password}), 400, "invalid_argument", "12")
	w.want(204, "PATCH", path, here, userPatchBody{Password: ptr(next), CurrentPassword: password}, nil)
	w.want(200, "GET", "/api/v1/auth/me", here, nil, nil)
	w.want(401, "GET", "/api/v1/auth/me", elsewhere, nil, nil)
	w.want(401, "POST", "/api/v1/auth/login", "", loginBody{Email: "viewer@example.com", Password: password}, nil)
	w.login("viewer@example.com", next)
}

func TestOrganizationsAreApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root := w.root()
	var me meView
	w.want(200, "GET", "/api/v1/auth/me", root, nil, &me)
	w.stream(me.Organization.ID, "secret")
	viewerID, _ := w.member(root, "viewer@example.com", "viewer")
	_, tokenID := w.apiToken(root, "query")
	stranger, org := w.other()
	strangersToken, _ := w.apiToken(stranger, "intake", "query", "admin")

	for _, token := range []string{stranger, strangersToken} {
		for _, c := range []struct{ method, path string }{
			{"GET", "/api/v1/organizations/" + me.Organization.ID},
			{"PATCH", "/api/v1/organizations/" + me.Organization.ID},
			{"DELETE", "/api/v1/organizations/" + me.Organization.ID},
			{"PATCH", "/api/v1/users/" + viewerID},
			{"DELETE", "/api/v1/users/" + viewerID},
			{"POST", "/api/v1/users/" + viewerID + "/invite"},
			{"DELETE", "/api/v1/auth/tokens/" + tokenID},
			{"GET", "/api/v1/streams/logs/secret"},
			{"GET", "/api/v1/streams/logs/secret/segments"},
			{"PATCH", "/api/v1/streams/logs/secret"},
			{"DELETE", "/api/v1/streams/logs/secret"},
		} {
			var body any
			if c.method == "PATCH" {
				body = `{}`
				if c.path == "/api/v1/users/"+viewerID {
					body = userPatchBody{Role: ptr("viewer")}
				}
			}
			checkProblem(t, c.method+" "+c.path, w.call(c.method, c.path, token, body), 404, "not_found", "")
		}
		checkProblem(t, "foreign slug", w.call("GET", "/api/v1/streams", token, nil, "X-Org-Id", "default"), 403, "permission_denied", "")
		checkProblem(t, "unknown slug", w.call("GET", "/api/v1/streams", token, nil, "X-Org-Id", "nothing"), 403, "permission_denied", "")
		var streams streamsView
		w.want(200, "GET", "/api/v1/streams", token, nil, &streams)
		var orgs organizationsView
		w.want(200, "GET", "/api/v1/organizations", token, nil, &orgs)
		var tokens tokensView
		w.want(200, "GET", "/api/v1/auth/tokens", token, nil, &tokens)
		var users membersView
		w.want(200, "GET", "/api/v1/users", token, nil, &users)
		if len(streams.Streams) != 0 || len(orgs.Organizations) != 1 || orgs.Organizations[0].Slug != org.Slug || len(tokens.Tokens) != 1 || len(users.Users) != 1 {
			t.Errorf("the stranger sees %d streams, %d organizations, %d tokens, %d users", len(streams.Streams), len(orgs.Organizations), len(tokens.Tokens), len(users.Users))
		}
		if got := w.actions(token); slices.Contains(got, "setup") {
			t.Errorf("the stranger sees the audit log of others: %v", got)
		}
	}
}

func TestSomebodyOfTwoOrganizations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root := w.root()
	var o organizationView
	w.want(201, "POST", "/api/v1/organizations", root, newOrganizationBody{Slug: "second"}, &o)
	checkProblem(t, "the slug again, in other case", w.call("POST", "/api/v1/organizations", root, newOrganizationBody{Slug: "Second"}), 409, "conflict", "")
	var me meView
	w.want(200, "GET", "/api/v1/auth/me", root, nil, &me, "X-Org-Id", "second")
	if me.Organization.ID != o.ID || me.Role != "owner" || len(me.Organizations) != 2 {
		t.Fatalf("%+v", me)
	}
	id, viewer := w.member(root, "viewer@example.com", "viewer")
	// The same person is a viewer here and an admin there, without another account or invitation.
	var m newMemberView
	w.want(201, "POST", "/api/v1/users", root, newUserBody{Email: "viewer@example.com", Role: "admin"}, &m, "X-Org-Id", "second")
	if m.Invitation != nil || m.User.ID != id {
		t.Fatalf("%+v", m)
	}
	checkProblem(t, "a password for somebody who has one", w.call("POST", "/api/v1/users", root, newUserBody{Email: rootEmail, Role: "admin", Password: password}), 409, "conflict", "")
	w.want(403, "GET", "/api/v1/users", viewer, nil, nil)
	w.want(200, "GET", "/api/v1/users", viewer, nil, nil, "X-Org-Id", "second")
	checkProblem(t, "one organization's admins do not reset a member of two", w.call("POST", "/api/v1/users/"+id+"/invite", root, nil), 409, "conflict", "")

	// Removed here, still there; and an organization is deleted with what is in it.
	w.want(204, "DELETE", "/api/v1/users/"+id, root, nil, nil)
	w.want(200, "GET", "/api/v1/users", viewer, nil, nil, "X-Org-Id", "second")
	w.want(403, "GET", "/api/v1/auth/me", viewer, nil, nil, "X-Org-Id", "default")
	token, _ := w.tokenIn(root, "second", "query")
	w.want(200, "GET", "/api/v1/streams", token, nil, nil)
	w.want(204, "DELETE", "/api/v1/organizations/"+o.ID, root, nil, nil, "X-Org-Id", "second")
	w.want(401, "GET", "/api/v1/streams", token, nil, nil)
	w.want(401, "GET", "/api/v1/auth/me", viewer, nil, nil)
	w.want(200, "GET", "/api/v1/auth/me", root, nil, &me)
	checkProblem(t, "the last organization", w.call("DELETE", "/api/v1/organizations/"+me.Organization.ID, root, nil), 409, "conflict", "last")
}

// The nodes are everybody's: who looks after them is decided in the organization of the set-up, not in one that somebody was given.
func TestTheInstallationIsNoOrganizationsOwn(t *testing.T) {
	t.Parallel()
	drains := 0
	w := newWorld(t, func(a *API) {
		a.Node, a.Drain = "alone", func(context.Context) error { drains++; return nil }
		a.Nodes = &members{node("alone", 0, "standalone")}
	})
	root := w.root()
	stranger, _ := w.other()
	strangersToken, _ := w.apiToken(stranger, "intake", "query", "admin")
	_, editor := w.member(root, "editor@example.com", "editor")
	w.want(201, "POST", "/api/v1/users", root, newUserBody{Email: "other@example.com", Role: "viewer"}, nil) // a viewer of the first one, still owner of the second
	w.advance(6 * time.Second)

	guarded := 0
	for _, rt := range w.api.routes() {
		if !rt.policy.whole {
			continue
		}
		guarded++
		path := strings.NewReplacer("{id}", "alone").Replace(rt.path)
		for who, token := range map[string]string{"owner of another organization": stranger, "his token": strangersToken, "editor": editor} {
			checkProblem(t, rt.method+" "+path+" by "+who, w.call(rt.method, path, token, nil, "X-Org-Id", map[bool]string{true: "default", false: "other"}[token == editor]), 403, "permission_denied", "")
		}
	}
	if guarded != 9 || drains != 0 {
		t.Errorf("%d routes of the installation, drained %d times", guarded, drains)
	}
	var me meView
	w.want(200, "GET", "/api/v1/auth/me", stranger, nil, &me, "X-Org-Id", "other")
	if slices.Contains(me.Permissions, "node.drain") || !slices.Contains(me.Permissions, "stream.delete") {
		t.Errorf("the other owner may %v", me.Permissions)
	}

	// Whoever looks after the installation does so from wherever he works.
	var o organizationView
	w.want(201, "POST", "/api/v1/organizations", root, newOrganizationBody{Slug: "second"}, &o)
	second, _ := w.tokenIn(root, "second", "admin")
	first, _ := w.tokenIn(root, "default", "admin")
	w.want(200, "GET", "/api/v1/cluster/nodes", root, nil, nil, "X-Org-Id", "second")
	w.want(202, "POST", "/api/v1/node/drain", first, nil, nil)
	w.want(403, "POST", "/api/v1/node/drain", second, nil, nil)
	w.want(200, "GET", "/api/v1/auth/me", first, nil, &me)
	if !slices.Contains(me.Permissions, "node.drain") || drains != 1 {
		t.Errorf("the first owner may %v, drained %d times", me.Permissions, drains)
	}
	checkProblem(t, "its organization stays", w.call("DELETE", "/api/v1/organizations/"+me.Organization.ID, root, nil), 409, "conflict", "look after the installation")
}

func (w *world) tokenIn(session, slug string, scopes ...string) (text, id string) {
	w.t.Helper()
	var v tokenView
	w.want(201, "POST", "/api/v1/auth/tokens", session, newTokenBody{Name: "test", Scopes: scopes}, &v, "X-Org-Id", slug)
	return v.Token, v.ID
}

func TestOrganizationSettings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root := w.root()
	var me meView
	w.want(200, "GET", "/api/v1/auth/me", root, nil, &me)
	path := "/api/v1/organizations/" + me.Organization.ID
	var o organizationView
	w.want(200, "PATCH", path, root, organizationPatchBody{Slug: ptr("acme"), Name: ptr("Acme"), RetentionDays: ptr(7), IntakeQPS: ptr(100), QueryQPS: ptr(10), QuotaBytes: ptr(int64(1 << 40))}, &o)
	if o.Slug != "acme" || o.Name != "Acme" || o.RetentionDays != 7 || o.IntakeQPS != 100 || o.QueryQPS != 10 || o.QuotaBytes != 1<<40 {
		t.Errorf("%+v", o)
	}
	w.want(200, "GET", path, root, nil, &o, "X-Org-Id", "acme")
	_, editor := w.member(root, "editor@example.com", "editor")
	checkProblem(t, "an editor", w.call("PATCH", path, editor, organizationPatchBody{Name: ptr("x")}), 403, "permission_denied", "admin")
	for name, p := range map[string]organizationPatchBody{
		"negative":  {RetentionDays: ptr(-1)},
		"too large": {IntakeQPS: ptr(1 << 30)},
		"quota":     {QuotaBytes: ptr(int64(-1))},
		"slug":      {Slug: ptr(".hidden")},
		"long slug": {Slug: ptr(string(make([]byte, 129)))},
		"name":      {Name: ptr(" ")},
	} {
		checkProblem(t, name, w.call("PATCH", path, root, p), 400, "invalid_argument", "")
	}
}
