package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/auth"
)

// Every route that the router serves must have a policy, and no request without a credential may reach a handler that is not public.
func TestEveryRouteHasAPolicy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.api
	table := map[string]*route{}
	for _, rt := range a.routes() {
		if err := rt.check(); err != nil {
			t.Error(err)
		}
		table[rt.method+" "+rt.path] = &rt
	}
	mux, err := a.mux(a.routes())
	if err != nil {
		t.Fatal(err)
	}
	walked := 0
	err = chi.Walk(mux, func(method, path string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		walked++
		rt := table[method+" "+path]
		if rt == nil {
			t.Errorf("%s %s is served without being in the table", method, path)
			return nil
		}
		if rt.policy.public {
			return nil
		}
		filled := plainPattern(path)
		for _, p := range []string{"{id}", "{n}", "{signal}", "{name}", "{rest}", "{stream}", "{index}", "{trace_id}"} {
			filled = strings.ReplaceAll(filled, p, "x")
		}
		if got := w.call(method, filled, "", nil); got.status != 401 {
			t.Errorf("%s %s answers %d to a stranger", method, filled, got.status)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if walked != len(table) {
		t.Errorf("walked %d routes of %d", walked, len(table))
	}
}

func TestRoutesWithoutAPolicyAreNotServed(t *testing.T) {
	for name, rt := range map[string]route{
		"zero":       {method: "GET", path: "/x"},
		"no role":    {method: "GET", path: "/x", policy: policy{scope: auth.Query}},
		"no scope":   {method: "GET", path: "/x", policy: policy{role: auth.Viewer}},
		"no action":  {method: "DELETE", path: "/x", policy: need(auth.Administer, auth.Admin)},
		"only class": {method: "POST", path: "/x", policy: policy{rate: rateQuery}},
	} {
		if _, err := (&API{}).mux([]route{rt}); err == nil {
			t.Errorf("%s: served", name)
		}
	}
}

// Every successful change leaves exactly one line in the audit log, whether its handler writes it or not.
func TestChangesAreAudited(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(a *API) {})
	root := w.root()
	var me meView
	w.want(200, "GET", "/api/v1/auth/me", root, nil, &me)
	w.stream(me.Organization.ID, "app")
	count := func(action string) (n int) {
		for _, a := range w.actions(root) {
			if a == action {
				n++
			}
		}
		return n
	}
	id, viewer := w.member(root, "viewer@example.com", "viewer")
	_, tokenID := w.apiToken(root, "query")
	var m newMemberView
	w.want(201, "POST", "/api/v1/users", root, newUserBody{Email: "x@example.com", Role: "viewer"}, &m)
	g := w.login(rootEmail, password)
	for _, c := range []struct {
		method, path, action string
		body                 any
	}{
		{"POST", "/auth/login", "session.create", loginBody{Email: rootEmail, Password: password}},
		{"POST", "/auth/refresh", "session.refresh", refreshBody{RefreshToken: g.RefreshToken}},
		{"POST", "/auth/accept", "invite.accept", acceptBody{Token: m.Invitation.Token, Password: password}},
		{"POST", "/auth/tokens", "token.create", newTokenBody{Name: "x", Scopes: []string{"query"}}},
		{"DELETE", "/auth/tokens/" + tokenID, "token.delete", nil},
		{"POST", "/auth/jwt/rotate", "jwt_key.rotate", nil},
		{"POST", "/users/" + id + "/invite", "user.invite", nil},
		{"PATCH", "/users/" + id, "user.update", userPatchBody{Role: ptr("editor")}},
		{"DELETE", "/users/" + id, "user.delete", nil},
		{"PATCH", "/organizations/" + me.Organization.ID, "organization.update", organizationPatchBody{Name: ptr("x")}},
		{"PATCH", "/streams/logs/app", "stream.update", streamPatchBody{RetentionDays: ptr(3)}},
		{"DELETE", "/streams/logs/app", "stream.delete", nil},
	} {
		before := count(c.action)
		if a := w.call(c.method, v1+c.path, root, c.body); a.status >= 300 {
			t.Errorf("%s: %d %s", c.action, a.status, a.body)
		} else if got := count(c.action) - before; got != 1 {
			t.Errorf("%s left %d lines", c.action, got)
		}
	}
	var log auditView
	w.want(200, "GET", "/api/v1/audit?action=user.update&limit=1", root, nil, &log)
	if e := log.Entries[0]; e.Actor != "user:"+rootEmail || e.Target != id || e.Address == "" || e.Request == "" || e.Detail["role"] != "editor" {
		t.Errorf("%+v", e)
	}
	_ = viewer

	// Refusals too, but of one actor only so many.
	_, editor := w.member(root, "editor@example.com", "editor")
	for range perRefusedTest {
		w.want(403, "DELETE", "/api/v1/users/"+me.User.ID, editor, nil, nil)
	}
	if n := count("user.delete:refused"); n < 10 || n > 60 {
		t.Errorf("%d of %d refusals are in the audit log", n, perRefusedTest)
	}
	checkProblem(t, "a limit out of range", w.call("GET", "/api/v1/audit?limit=0", root, nil), 400, "invalid_argument", "limit")
	checkProblem(t, "a bad time", w.call("GET", "/api/v1/audit?before=yesterdayish", root, nil), 400, "invalid_argument", "not a time")
	w.want(200, "GET", "/api/v1/audit?before=1", root, nil, &log)
	if len(log.Entries) != 0 {
		t.Errorf("entries before 1970: %d", len(log.Entries))
	}
}

const perRefusedTest = 80

// limits is a limiter of one organization's requests.
type limits map[string]int

func (l limits) Allow(_ context.Context, _ millstream.OrgID, class string) RateVerdict {
	l[class]--
	return RateVerdict{OK: l[class] >= 0, Limit: 7, Remaining: max(l[class], 0), Reset: 1500 * time.Millisecond}
}

func TestRateClasses(t *testing.T) {
	t.Parallel()
	l := limits{rateQuery: 1, rateIntake: 1}
	w := newWorld(t, func(a *API) { a.Limiter = l })
	a := *w.api
	a.Registerer, a.Gatherer = newRegistry()
	done := func(w http.ResponseWriter, _ *http.Request) error { return empty(w) }
	s := a.with(t, route{method: "POST", path: "/in", policy: intake(), handle: done}, route{method: "GET", path: "/q", policy: readTelemetry(), handle: done})
	token := w.root()
	w.http = s
	if got := w.call("GET", "/q", token, nil); got.status != 204 || got.header.Get("RateLimit-Limit") != "7" || got.header.Get("RateLimit-Remaining") != "0" || got.header.Get("RateLimit-Reset") != "2" {
		t.Errorf("first query %d, %v", got.status, got.header)
	}
	got := w.call("GET", "/q", token, nil)
	checkProblem(t, "second query", got, 429, "rate_limited", "query")
	for name, want := range map[string]string{"Retry-After": "2", "RateLimit-Limit": "7", "RateLimit-Remaining": "0", "RateLimit-Reset": "2"} {
		if got.header.Get(name) != want {
			t.Errorf("%s %q, want %q", name, got.header.Get(name), want)
		}
	}
	w.want(204, "POST", "/in", token, nil, nil)
	families, err := a.Gatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var limited []string
	for _, f := range families {
		if f.GetName() == "millstream_api_rate_limited_total" {
			for _, m := range f.GetMetric() {
				limited = append(limited, fmt.Sprintf("%s %g", m.GetLabel()[0].GetValue(), m.GetCounter().GetValue()))
			}
		}
	}
	if !slices.Equal(limited, []string{"query 1"}) {
		t.Errorf("counted as limited: %q", limited)
	}
}

// While the database is away, known credentials go on sending and do nothing else.
func TestIntakeWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := *w.api
	a.Registerer, a.Gatherer = newRegistry()
	done := func(w http.ResponseWriter, _ *http.Request) error { return empty(w) }
	full := w.http
	s := a.with(t, route{method: "POST", path: "/in", policy: intake(), handle: done})
	token := w.root()
	machine, _ := w.apiToken(token, "intake", "query", "admin")
	w.http = s
	for _, c := range []string{token, machine} {
		w.want(204, "POST", "/in", c, nil, nil)
	}
	w.store.Close()
	w.advance(6 * time.Second)
	for _, c := range []string{token, machine} {
		w.http = s
		w.want(204, "POST", "/in", c, nil, nil)
		w.http = full
		for _, path := range []string{"/api/v1/users", "/api/v1/auth/me", "/api/v1/streams"} {
			checkProblem(t, path, w.call("GET", path, c, nil), 503, "unavailable", "")
		}
	}
	w.advance(10 * time.Minute)
	w.http = s
	checkProblem(t, "after 10 minutes", w.call("POST", "/in", machine, nil), 503, "unavailable", "")
}
