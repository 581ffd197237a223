package api

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/millstream/millstream"
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
	req, err := http.NewRequest(http.MethodGet, url, nil)
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
	return answer{resp.StatusCode, resp.Header, body, resp.Trailer}
}

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
	for _, c := range []struct {
		method, path string
		status       int
		body         string
	}{
		{"GET", "/api/v1/intake/elastic/_cat/indices/x", 404, `"status":404`}, {"DELETE", "/api/v1/intake/elastic/_bulk", 405, `"type":`},
		{"POST", "/api/v1/intake/otlp/v1/nothing", 404, `"code":5`}, {"GET", "/v1/logs", 405, `"code":12`}, {"PUT", "/api/v1/intake/otlp/v1/traces", 405, `"code":12`},
	} {
		if a := w.call(c.method, c.path, root, "{}"); a.status != c.status || !strings.Contains(string(a.body), c.body) || strings.Contains(string(a.body), "request_id") {
			t.Errorf("%s %s: %d %s", c.method, c.path, a.status, a.body)
		}
	}
	if a := w.call("BREW", "/api/v1/healthz", root, nil); a.status != 405 {
		t.Errorf("BREW: %d", a.status)
	}
}

func TestErrorsBecomeReplies(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t)
	a := *w.api
	a.Registerer, a.Gatherer = newRegistry()
	secret := errors.New("password=hunter2 at 10.0.0.1")
	fails := func(err error) handler { return func(http.ResponseWriter, *http.Request) error { return err } }
	imitated := open("/imitated", fails(millstream.Errorf(millstream.Invalid, "bad query")))
	imitated.shape = func(_ *http.Request, code int, d errorDetail) (string, []byte) {
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
