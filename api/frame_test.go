package api

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/klauspost/compress/zstd"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest/decode"
	"github.com/millstream/millstream/internal/auth"
)

// with adds routes to an API of a test.
func (a *API) with(t *testing.T, routes ...route) *httptest.Server {
	t.Helper()
	h, err := a.build(append(a.healthRoutes(), routes...))
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(nil)
	s.Config = Server(h, a.Log)
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func open(path string, h handler) route {
	return route{method: "GET", path: path, policy: public(), handle: h}
}

func get(t *testing.T, url string, headers ...string) answer {
	t.Helper()
	req, err := http.NewRequest("GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := (&http.Transport{DisableCompression: true}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, body}
}

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
		for _, p := range []string{"{id}", "{signal}", "{name}", "{rest}", "{stream}", "{index}", "{trace_id}"} {
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

func TestUnknownPathsAndMethods(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root := w.root()
	for _, path := range []string{"/", "/api/v1", "/api/v1/", "/api/v1/nothing", "/api/v2/users", "/api/v1/users/", "//api/v1/users", "/api/v1/../v1/users", "/api/v1/%2e%2e/v1/users"} {
		checkProblem(t, path, w.call("GET", path, root, nil), 404, "not_found", "")
	}
	a := w.call("PUT", "/api/v1/users", root, nil)
	if a.status != 405 || a.header.Get("Allow") != "GET, POST" || a.problem(t).Message == "" {
		t.Errorf("PUT: %d %q %s", a.status, a.header.Get("Allow"), a.body)
	}
	if a := w.call("BREW", "/api/v1/healthz", root, nil); a.status != 405 {
		t.Errorf("BREW: %d", a.status)
	}
}

// A name is decoded once. What is still encoded after that stays as it is, and is no name.
func TestEncodedTraversal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root := w.root()
	var me meView
	w.want(200, "GET", "/api/v1/auth/me", root, nil, &me)
	w.stream(me.Organization.ID, "app.v1-x_y")
	w.want(200, "GET", "/api/v1/streams/logs/app.v1-x_y", root, nil, nil)
	w.want(200, "GET", "/api/v1/streams/logs/app%2Ev1%2dx%5Fy", root, nil, nil)
	for _, name := range []string{"..", "%2e%2e", "%252e%252e", "%2e%2e%2fsecret", "%252e%252e%252fsecret", "..%5csecret", "a%2fb", "a%252fb", "a%00b", "a%0ab", "%c0%ae%c0%ae", "app%252Ev1", "%ff", ".hidden"} {
		for _, tail := range []string{"", "/segments"} {
			a := w.call("GET", "/api/v1/streams/logs/"+name+tail, root, nil)
			if a.status != 404 && a.status != 400 {
				t.Errorf("%s%s: %d %s", name, tail, a.status, a.body)
			}
		}
	}
	checkProblem(t, "unknown signal", w.call("GET", "/api/v1/streams/events/app", root, nil), 400, "invalid_argument", "signal")
}

func TestStrictJSON(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root := w.root()
	deep := strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40)
	for name, c := range map[string]struct {
		body, contentType string
		status            int
		code, message     string
		position          int
	}{
		"unknown field":    {`{"name":"x","scope":["query"]}`, "application/json", 400, "invalid_argument", `did you mean "scopes"?`, 19},
		"swapped letters":  {`{"nmae":"x"}`, "application/json", 400, "invalid_argument", `did you mean "name"?`, 7},
		"other case":       {`{"Name":"x"}`, "application/json", 400, "invalid_argument", `did you mean "name"?`, 7},
		"nothing like it":  {`{"zzzzzz":"x"}`, "application/json", 400, "invalid_argument", "known fields: expires_at, name, scopes", 0},
		"twice":            {`{"name":"x","name":"y"}`, "application/json", 400, "invalid_argument", "twice", 0},
		"wrong type":       {`{"name":["x"]}`, "application/json", 400, "invalid_argument", `"name" is a array, it must be a string`, 0},
		"trailing":         {`{"name":"x"} {}`, "application/json", 400, "invalid_argument", "after the end", 0},
		"cut":              {`{"name":"x"`, "application/json", 400, "invalid_argument", "not valid JSON", 0},
		"not JSON":         {`name=x`, "application/json", 400, "invalid_argument", "not valid JSON", 0},
		"empty":            {``, "application/json", 400, "invalid_argument", "empty", 0},
		"an array":         {`[]`, "application/json", 400, "invalid_argument", "", 0},
		"bad time":         {`{"name":"x","expires_at":"soon"}`, "application/json", 400, "invalid_argument", "not a time", 0},
		"deep":             {deep, "application/json", 400, "invalid_argument", "", 0},
		"not UTF-8":        {"{\"name\":\"\xff\"}", "application/json", 400, "invalid_argument", "UTF-8", 0},
		"a form":           {`name=x`, "application/x-www-form-urlencoded", 415, "unsupported_media_type", "application/json", 0},
		"text":             {`{}`, "text/plain", 415, "unsupported_media_type", "", 0},
		"broken type":      {`{}`, ";;", 415, "unsupported_media_type", "", 0},
		"with a parameter": {`{"scopes":["query"]}`, "application/json; charset=utf-8", 400, "invalid_argument", "name", 0},
		"too large":        {`{"name":"` + strings.Repeat("a", maxJSON) + `"}`, "application/json", 413, "too_large", "", 0},
	} {
		a := w.call("POST", "/api/v1/auth/tokens", root, c.body, "Content-Type", c.contentType)
		checkProblem(t, name, a, c.status, c.code, c.message)
		if c.position != 0 && a.problem(t).Position != c.position {
			t.Errorf("%s: position %d, want %d", name, a.problem(t).Position, c.position)
		}
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte(`{"name":"x","scopes":["query"]}`))
	_ = z.Close()
	w.want(201, "POST", "/api/v1/auth/tokens", root, packed.String(), nil, "Content-Encoding", "gzip")
	checkProblem(t, "unknown coding", w.call("POST", "/api/v1/auth/tokens", root, "x", "Content-Encoding", "br"), 415, "unsupported_media_type", "")
}

func TestErrorsBecomeReplies(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t)
	a := *w.api
	a.Registerer, a.Gatherer = newRegistry()
	secret := errors.New("password=hunter2 at 10.0.0.1")
	fails := func(err error) handler { return func(http.ResponseWriter, *http.Request) error { return err } }
	imitated := open("/imitated", fails(millstream.Errorf(millstream.Invalid, "bad query")))
	imitated.shape = func(code int, d errorDetail) (string, []byte) {
		return "application/json", []byte(fmt.Sprintf(`{"status":"error","errorType":"bad_data","error":%q}`, d.Message))
	}
	s := a.with(t,
		open("/unknown", fails(secret)),
		open("/wrapped", fails(millstream.Wrap(millstream.Unavailable, secret, "the object store does not answer"))),
		open("/limited", fails(&millstream.Error{Kind: millstream.RateLimited, Msg: "slow down", RetryAfter: 17})),
		open("/hint", fails(&millstream.Error{Kind: millstream.Invalid, Msg: "no", Hint: "yes", Position: 9})),
		open("/panic", func(http.ResponseWriter, *http.Request) error { panic("oh " + secret.Error()) }),
		open("/late", func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Content-Type", "text/csv")
			_, _ = io.WriteString(w, strings.Repeat("a,b\n", 10_000))
			return secret
		}),
		open("/latepanic", func(w http.ResponseWriter, _ *http.Request) error {
			_, _ = io.WriteString(w, strings.Repeat("a,b\n", 10_000))
			panic("late")
		}),
		imitated,
	)
	for path, c := range map[string]struct {
		status           int
		code, retry, has string
	}{
		"/unknown": {500, "internal", "", "internal error"},
		"/wrapped": {503, "unavailable", "5", "the object store does not answer"},
		"/limited": {429, "rate_limited", "17", "slow down"},
		"/hint":    {400, "invalid_argument", "", `"hint":"yes","position":9`},
		"/panic":   {500, "internal", "", "internal error"},
	} {
		a := get(t, s.URL+path, "X-Request-Id", "req"+strings.TrimPrefix(path, "/"))
		if a.status != c.status || a.problem(t).Code != c.code || a.header.Get("Retry-After") != c.retry || !strings.Contains(string(a.body), c.has) || strings.Contains(string(a.body), "hunter2") {
			t.Errorf("%s: %d, Retry-After %q: %s", path, a.status, a.header.Get("Retry-After"), a.body)
		}
		if strings.Contains(string(a.body), c.has) && c.status >= 500 && path != "/limited" {
			if n := strings.Count(w.log.String(), "request=req"+strings.TrimPrefix(path, "/")); n != 1 {
				t.Errorf("%s is logged %d times", path, n)
			}
		}
	}
	if a := get(t, s.URL+"/imitated"); string(a.body) != `{"status":"error","errorType":"bad_data","error":"bad query"}` || a.status != 400 {
		t.Errorf("another product's shape: %d %s", a.status, a.body)
	}
	for _, path := range []string{"/late", "/latepanic"} {
		resp, err := http.Get(s.URL + path)
		if err != nil {
			continue
		}
		if _, err = io.ReadAll(resp.Body); err == nil {
			t.Errorf("%s: half a reply looks whole", path)
		}
		resp.Body.Close()
	}
	if log := w.log.String(); strings.Count(log, "hunter2") < 4 || !strings.Contains(log, "frame_test.go") {
		t.Error("causes and the stack of a panic are not in the log")
	}
}

func TestHeadersOfEveryReply(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, path := range []string{"/api/v1/healthz", "/nothing", "/api/v1/users"} {
		a := w.call("GET", path, "", nil)
		for k, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"} {
			if a.header.Get(k) != want {
				t.Errorf("%s: %s is %q", path, k, a.header.Get(k))
			}
		}
		if !strings.Contains(a.header.Get("Content-Security-Policy"), "default-src 'none'") || a.header.Get("X-Request-Id") == "" {
			t.Errorf("%s: %v", path, a.header)
		}
	}
	if a := w.call("GET", "/api/v1/healthz", "", nil, "X-Request-Id", "abc-123"); a.header.Get("X-Request-Id") != "abc-123" {
		t.Error("a harmless request id is not taken over")
	}
	for _, bad := range []string{"a b", "a\"b", "<script>", strings.Repeat("a", 65), "ü"} {
		if a := w.call("GET", "/api/v1/healthz", "", nil, "X-Request-Id", bad); a.header.Get("X-Request-Id") == bad {
			t.Errorf("request id %q is taken over", bad)
		}
	}
}

func TestRequestsAreLoggedAndCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root := w.root()
	w.want(200, "GET", "/api/v1/users", root, nil, nil, "X-Request-Id", "the-one")
	w.want(404, "GET", "/secret/path/of/a/user", root, nil, nil)
	if log := w.log.String(); !strings.Contains(log, "request=the-one method=GET route=/api/v1/users status=200") || !strings.Contains(log, "actor=user:"+rootEmail) || strings.Contains(log, root) {
		t.Errorf("the log: %s", log)
	}
	text := string(w.want(200, "GET", "/metrics", "", nil, nil).body)
	for _, want := range []string{`millstream_api_requests_total{method="GET",route="/api/v1/users",status="2xx"} 1`, `method="other",route="unmatched",status="4xx"} 1`, "millstream_api_request_seconds_bucket"} {
		if !strings.Contains(text, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	if strings.Contains(text, "/secret") {
		t.Error("paths that clients make up become labels")
	}
}

func TestCompression(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t)
	a := *w.api
	a.Registerer, a.Gatherer = newRegistry()
	long := strings.Repeat(`{"k":"v"}`, 1000)
	write := func(contentType, text string) handler {
		return func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Content-Type", contentType)
			for part := range slices.Chunk([]byte(text), 1000) {
				if _, err := w.Write(part); err != nil {
					return err
				}
				w.(http.Flusher).Flush()
			}
			return nil
		}
	}
	s := a.with(t, open("/json", write("application/json", long)), open("/parquet", write("application/vnd.apache.parquet", long)), open("/events", write("text/event-stream", long)),
		open("/short", func(w http.ResponseWriter, _ *http.Request) error { return reply(w, 200, map[string]int{"a": 1}) }))
	for _, c := range []struct{ path, accept, want string }{
		{"/json", "gzip", "gzip"}, {"/json", "gzip, zstd", "zstd"}, {"/json", "ZSTD", "zstd"}, {"/json", "zstd;q=0, gzip;q=0.5", "gzip"}, {"/json", "", ""}, {"/json", "br", ""},
		{"/parquet", "gzip", ""}, {"/events", "gzip", ""}, {"/short", "gzip", ""},
	} {
		got := get(t, s.URL+c.path, "Accept-Encoding", c.accept)
		if e := got.header.Get("Content-Encoding"); e != c.want {
			t.Errorf("%s for %q: %q", c.path, c.accept, e)
			continue
		}
		plain := got.body
		switch c.want {
		case "gzip":
			z, err := gzip.NewReader(bytes.NewReader(got.body))
			if err != nil {
				t.Fatal(err)
			}
			if plain, err = io.ReadAll(z); err != nil {
				t.Error(err)
			}
		case "zstd":
			z, err := zstd.NewReader(bytes.NewReader(got.body))
			if err != nil {
				t.Fatal(err)
			}
			if plain, err = io.ReadAll(z); err != nil {
				t.Error(err)
			}
			z.Close()
		}
		if c.path != "/short" && string(plain) != long {
			t.Errorf("%s as %q: %d bytes, want %d", c.path, c.want, len(plain), len(long))
		}
		if c.want != "" && len(got.body) > len(long)/2 {
			t.Errorf("%s as %q was not compressed: %d bytes", c.path, c.want, len(got.body))
		}
	}
}

func TestClientAddress(t *testing.T) {
	a := &API{TrustedProxies: prefixes("10.0.0.0/8", "fd00::/8")}
	for name, c := range map[string]struct{ peer, forwarded, want string }{
		"direct":                 {"192.0.2.1:99", "", "192.0.2.1"},
		"a liar":                 {"192.0.2.1:99", "1.1.1.1", "192.0.2.1"},
		"one proxy":              {"10.0.0.1:99", "192.0.2.7", "192.0.2.7"},
		"two proxies":            {"10.0.0.1:99", "192.0.2.7, 10.9.9.9", "192.0.2.7"},
		"a liar behind a proxy":  {"10.0.0.1:99", "127.0.0.1, 192.0.2.7", "192.0.2.7"},
		"with a port":            {"10.0.0.1:99", "192.0.2.7:1234", "192.0.2.7"},
		"IPv6":                   {"[fd00::1]:99", "2001:db8::1", "2001:db8::1"},
		"IPv6 in brackets":       {"[fd00::1]:99", "[2001:db8::1]:443", "2001:db8::1"},
		"mapped":                 {"[::ffff:10.0.0.1]:99", "192.0.2.7", "192.0.2.7"},
		"garbage":                {"10.0.0.1:99", "192.0.2.7, unknown", "10.0.0.1"},
		"empty header":           {"10.0.0.1:99", "", "10.0.0.1"},
		"only proxies":           {"10.0.0.1:99", "10.2.2.2, 10.3.3.3", "10.2.2.2"},
		"from a Unix socket":     {"@", "192.0.2.7", ""},
		"garbage further left":   {"10.0.0.1:99", "x, 192.0.2.7", "192.0.2.7"},
		"zone of the link":       {"[fe80::1%eth0]:99", "", "fe80::1"},
		"zone does not un-trust": {"[fd00::1%eth0]:99", "192.0.2.7", "192.0.2.7"},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = c.peer
		if c.forwarded != "" {
			r.Header.Set("X-Forwarded-For", c.forwarded)
		}
		got := a.clientAddr(r)
		if got.IsValid() != (c.want != "") || got.IsValid() && got.String() != c.want {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	state := make(chan error, 1)
	now := time.Unix(1_800_000_000, 0)
	w := emptyWorld(t, func(a *API) {
		a.Now = func() time.Time { return now }
		a.Checks = append(a.Checks, Check{"object store", func(context.Context) error { return <-state }})
	})
	state <- nil
	var v readyView
	w.want(200, "GET", "/api/v1/readyz", "", nil, &v)
	if v.Status != "ready" || v.Checks["postgres"].State != "ok" {
		t.Errorf("%+v", v)
	}
	w.want(200, "GET", "/api/v1/readyz", "", nil, nil) // asks nobody: the channel is empty
	now = now.Add(readyFor)
	state <- millstream.Wrap(millstream.Unavailable, errors.New("dial 10.0.0.1"), "the object store does not answer")
	a := w.want(503, "GET", "/api/v1/readyz", "", nil, &v)
	if v.Status != "not_ready" || v.Checks["object store"].State != "failing" || v.Checks["object store"].Message != "the object store does not answer" || a.header.Get("Retry-After") == "" {
		t.Errorf("%+v", v)
	}
	w.want(200, "GET", "/api/v1/healthz", "", nil, nil)
}

// A node without the full API answers health, readiness and metrics and nothing else.
func TestHealthHandler(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t)
	a := *w.api
	a.Registerer, a.Gatherer = newRegistry()
	h, err := a.HealthHandler()
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{"/api/v1/healthz": 200, "/api/v1/readyz": 200, "/metrics": 200, "/api/v1/users": 404, "/api/v1/openapi.json": 404, "/api/v1/auth/login": 404} {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, httptest.NewRequest("GET", path, nil))
		if rec.Code != want {
			t.Errorf("%s: %d", path, rec.Code)
		}
	}
}

func TestBasePath(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t, func(a *API) { a.BasePath = "/millstream/" })
	for path, want := range map[string]int{"/millstream/api/v1/healthz": 200, "/millstream/metrics": 200, "/api/v1/healthz": 404, "/millstream": 404} {
		if a := w.call("GET", path, "", nil); a.status != want {
			t.Errorf("%s: %d", path, a.status)
		}
	}
	if _, err := (&API{BasePath: "x"}).mux(nil); err == nil {
		t.Error("a base path without a slash was taken")
	}
}

// A reader of the document must find every route, and nothing else.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t)
	var doc struct {
		OpenAPI string
		Paths   map[string]map[string]struct {
			Summary     string
			OperationID string `json:"operationId"`
			Responses   map[string]any
			Parameters  []struct{ Name, In string }
		}
		Components struct{ Schemas map[string]any }
	}
	a := w.want(200, "GET", "/api/v1/openapi.json", "", nil, &doc)
	if doc.OpenAPI != "3.1.0" {
		t.Errorf("version %s", doc.OpenAPI)
	}
	documented, ids := map[string]bool{}, map[string]bool{}
	for path, item := range doc.Paths {
		for method, op := range item {
			documented[strings.ToUpper(method)+" "+path] = true
			if op.Summary == "" || len(op.Responses) < 2 || ids[op.OperationID] {
				t.Errorf("%s %s: %+v", method, path, op)
			}
			ids[op.OperationID] = true
			for _, p := range op.Parameters {
				if p.In == "path" && !strings.Contains(path, "{"+p.Name+"}") {
					t.Errorf("%s has no parameter %s", path, p.Name)
				}
			}
			if n := strings.Count(path, "{"); n != countPath(op.Parameters) {
				t.Errorf("%s %s documents %d of its %d parameters", method, path, countPath(op.Parameters), n)
			}
		}
	}
	served := map[string]bool{}
	for _, rt := range w.api.routes() {
		served[rt.method+" "+plainPattern(rt.path)] = true
	}
	for r := range served {
		if !documented[r] {
			t.Errorf("%s is served and not in the document", r)
		}
	}
	for r := range documented {
		if !served[r] {
			t.Errorf("%s is in the document and not served", r)
		}
	}
	for _, ref := range strings.Split(string(a.body), `"$ref":"#/components/schemas/`)[1:] {
		name, _, _ := strings.Cut(ref, `"`)
		if doc.Components.Schemas[name] == nil {
			t.Errorf("schema %s is used and not defined", name)
		}
	}
}

func countPath(params []struct{ Name, In string }) (n int) {
	for _, p := range params {
		if p.In == "path" {
			n++
		}
	}
	return n
}

// A body that stalls is cut off, whether or not a handler reads it; one that moves may take its time, and so may a handler that has read it.
func TestSlowBodies(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t)
	a := *w.api
	a.Registerer, a.Gatherer = newRegistry()
	a.stall = 300 * time.Millisecond
	post := func(path string, h handler) route {
		return route{method: "POST", path: path, policy: intake(), handle: h}
	}
	public := func(rt route) route { rt.policy.public = true; return rt }
	s := a.with(t,
		post("/refused", nil),
		public(post("/read", func(w http.ResponseWriter, r *http.Request) error {
			if _, err := decode.Body(r.Body, "", decode.Limits{}); err != nil {
				return err
			}
			select {
			case <-r.Context().Done():
				return r.Context().Err()
			case <-time.After(2 * a.stall):
				return empty(w)
			}
		})))
	send := func(path, body string, pause time.Duration) int {
		conn, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\n", path)
		for i := range body {
			time.Sleep(pause) // the pace is what is tested
			fmt.Fprint(conn, body[i:i+1])
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	if got := send("/read", "ab", 0); got != 504 {
		t.Errorf("a body that stalls: %d", got)
	}
	if got := send("/refused", "ab", 0); got != 401 {
		t.Errorf("a body that stalls and that nobody reads: %d", got)
	}
	if got := send("/read", "abcdefgh", a.stall/4); got != 204 {
		t.Errorf("a body that takes twice the stall time but moves: %d", got)
	}
}

// limits is a limiter of one organization's requests.
type limits map[string]int

func (l limits) Allow(_ millstream.OrgID, class string) (time.Duration, bool) {
	l[class]--
	return 1500 * time.Millisecond, l[class] >= 0
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
	w.want(204, "GET", "/q", token, nil, nil)
	got := w.call("GET", "/q", token, nil)
	checkProblem(t, "second query", got, 429, "rate_limited", "query")
	if got.header.Get("Retry-After") != "2" {
		t.Errorf("Retry-After %q", got.header.Get("Retry-After"))
	}
	w.want(204, "POST", "/in", token, nil, nil)
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

func TestClusterNodes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := millstream.Member{ID: "node-1", Addr: "127.0.0.1:5082", Roles: []string{"standalone"}, MilliCPU: 1500, Version: "v1"}
	if _, err := w.store.StartNode(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	var v nodesView
	w.want(200, "GET", "/api/v1/cluster/nodes", w.root(), nil, &v)
	if len(v.Nodes) != 1 || v.Nodes[0].ID != "node-1" || v.Nodes[0].State != "up" || v.Nodes[0].Weight != 1.5 || v.Nodes[0].HeartbeatAgeSeconds > 10 {
		t.Errorf("%+v", v)
	}
	w.advance(time.Minute)
	w.want(200, "GET", "/api/v1/cluster/nodes", w.root(), nil, &v)
	if v.Nodes[0].State != "silent" {
		t.Errorf("%+v", v)
	}
}

func TestStreams(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root := w.root()
	var me meView
	w.want(200, "GET", "/api/v1/auth/me", root, nil, &me)
	s := w.stream(me.Organization.ID, "app")
	_, err := w.store.MergeFields(t.Context(), s.ID, []millstream.Field{
		{Name: "level", Type: millstream.String, Seen: []millstream.Type{millstream.String}},
		{Name: "status", Type: millstream.String, Conflict: true, Seen: []millstream.Type{millstream.Int64, millstream.String}},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, viewer := w.member(root, "viewer@example.com", "viewer")
	_, editor := w.member(root, "editor@example.com", "editor")
	var v streamView
	w.want(200, "GET", "/api/v1/streams/logs/app", viewer, nil, &v)
	if len(v.Fields) != 2 || !v.Fields[1].Conflict || !slices.Equal(v.Fields[1].Seen, []string{"int64", "string"}) || v.Fields[1].Type != "string" || v.SchemaVersion == 0 {
		t.Errorf("%+v", v)
	}
	var list streamsView
	w.want(200, "GET", "/api/v1/streams?signal=logs", viewer, nil, &list)
	if len(list.Streams) != 1 || list.Streams[0].FieldCount != 2 {
		t.Errorf("%+v", list)
	}
	w.want(200, "GET", "/api/v1/streams?signal=traces", viewer, nil, &list)
	if len(list.Streams) != 0 {
		t.Errorf("%+v", list)
	}
	w.want(400, "GET", "/api/v1/streams?signal=x", viewer, nil, nil)
	w.want(404, "GET", "/api/v1/streams/traces/app", viewer, nil, nil)
	const path = "/api/v1/streams/logs/app"
	w.want(403, "PATCH", path, viewer, streamPatchBody{RetentionDays: ptr(1)}, nil)
	w.want(200, "PATCH", path, editor, streamPatchBody{RetentionDays: ptr(5), WriteMode: ptr("wal"), MaxFields: ptr(100), IndexedFields: ptr([]string{"request_id"})}, &v)
	if v.RetentionDays != 5 || v.WriteMode != "wal" || v.MaxFields != 100 || !slices.Equal(v.IndexedFields, []string{"request_id"}) {
		t.Errorf("%+v", v)
	}
	for name, p := range map[string]streamPatchBody{
		"retention": {RetentionDays: ptr(-1)}, "mode": {WriteMode: ptr("raft")}, "fields": {MaxFields: ptr(1 << 20)}, "empty name": {IndexedFields: ptr([]string{""})}, "many": {IndexedFields: ptr(make([]string, 300))},
	} {
		checkProblem(t, name, w.call("PATCH", path, editor, p), 400, "invalid_argument", "")
	}
	w.want(200, "GET", path+"/segments", viewer, nil, nil)
	w.want(403, "DELETE", path, editor, nil, nil)
	w.want(204, "DELETE", path, root, nil, nil)
	w.want(404, "GET", path, root, nil, nil)
}

func BenchmarkRequestWithAPIToken(b *testing.B) {
	w := newWorld(b)
	a := *w.api
	a.Registerer, a.Gatherer = newRegistry()
	h, err := a.build([]route{{method: "POST", path: "/in", policy: intake(), handle: func(w http.ResponseWriter, _ *http.Request) error { return empty(w) }}})
	if err != nil {
		b.Fatal(err)
	}
	token, _ := w.apiToken(w.root(), "intake")
	a.Log, a.Now = slog.New(slog.DiscardHandler), time.Now
	req := httptest.NewRequest("POST", "/in", nil)
	req.Header.Set("Authorization", "Bearer "+token)
	out := discard{http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(out, req)
	}
}

// discard is a reply that goes nowhere.
type discard struct{ h http.Header }

func (d discard) Header() http.Header         { return d.h }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}

var _ json.Marshaler = stamp{}
