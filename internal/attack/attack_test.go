// Package attack sends hostile and malformed input to a real node, over HTTP and gRPC, as somebody would who wants to break it: what is refused must be refused
// with the right status in the right shape, nothing may answer 500, and the node must be as well afterwards as before.
package attack

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millstream/millstream/internal/mstest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	mstest.Cleanup()
	os.Exit(code)
}

// target is the node under attack.
type target struct {
	*mstest.Node
	client *http.Client
}

// One node, or one cluster, takes all of it, one thing after the other, so that what one attack leaves behind is there for the next.
func TestAttack(t *testing.T) { mstest.EachShape(t, attack) }

func attack(t *testing.T, start mstest.Starter) {
	a := &target{Node: start(t), client: &http.Client{Timeout: 60 * time.Second}}
	before := a.metric(t, "go_goroutines")
	for _, c := range []struct {
		name string
		f    func(*testing.T, *target)
	}{
		{"JSON intake", attackJSON}, {"JSONTestSuite", attackJSONSuite}, {"times", attackTimes}, {"encodings", attackEncodings}, {"names", attackNames},
		{"OTLP", attackOTLP}, {"OTLP gRPC", attackGRPC}, {"Elastic", attackElastic}, {"Loki", attackLoki}, {"remote write", attackRemoteWrite},
		{"amplification", attackAmplification}, {"wire", attackWire}, {"credentials", attackCredentials}, {"scopes", attackScopes}, {"organizations", attackOrganizations},
		{"sessions", attackSessions}, {"SQL", attackSQL}, {"SQL bombs", attackSQLBombs}, {"query bodies", attackQueryBodies}, {"formats", attackFormats},
		{"types", attackTypes}, {"field names", attackFieldNames}, {"overflow", attackOverflow}, {"deleted streams", attackDeleted}, {"search", attackSearch},
		{"PromQL", attackPromQL}, {"explorer", attackExplorer}, {"cancellation", attackCancel},
	} {
		t.Run(c.name, func(t *testing.T) { c.f(t, a) })
	}
	if n := a.metric(t, "millstream_api_panics_total"); n != 0 {
		t.Errorf("%v panics:\n%s", n, a.Log())
	}
	a.client.CloseIdleConnections()
	mstest.WaitFor(t, time.Minute, "goroutines of requests that ended are gone", func() bool { return a.metric(t, "go_goroutines") < before+40*float64(len(a.All())) })
	if rss := a.memory(t); rss > 1<<30 {
		t.Errorf("a node has %d MiB resident", rss>>20)
	}
}

// reply is an answer of the node.
type reply struct {
	status int
	header http.Header
	body   string
}

func (r reply) String() string { return fmt.Sprintf("%d %.300s", r.status, r.body) }

// call makes a request with the token unless headers name another. No reply, and a reply of 500, are findings wherever they come.
func (a *target) call(t *testing.T, method, path, contentType string, body []byte, headers ...string) reply {
	t.Helper()
	req, err := http.NewRequest(method, a.URL+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	req.Header.Set("Authorization", "Bearer "+a.Token)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if req.Header.Set(name, value); value == "" {
			req.Header.Del(name)
		}
	}
	resp, err := a.client.Do(req)
	if err != nil {
		t.Errorf("%s %.100s: no reply: %v", method, path, err)
		return reply{}
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	r := reply{resp.StatusCode, resp.Header, string(text)}
	if err != nil || r.status == http.StatusInternalServerError {
		t.Errorf("%s %.100s %.200q: %v %v", method, path, body, r, err)
	}
	if (r.status == http.StatusServiceUnavailable || r.status == http.StatusTooManyRequests) && r.header.Get("Retry-After") == "" {
		t.Errorf("%s %.100s: %v without Retry-After", method, path, r)
	}
	return r
}

// want makes a request and compares the status; parts must be in the body.
func (a *target) want(t *testing.T, status int, method, path, contentType string, body []byte, parts ...string) reply {
	t.Helper()
	r := a.call(t, method, path, contentType, body)
	r.check(t, fmt.Sprintf("%s %.100s %.120q", method, path, body), status, parts...)
	return r
}

func (r reply) check(t *testing.T, what string, status int, parts ...string) {
	t.Helper()
	if r.status != status {
		t.Errorf("%s: %v, want %d", what, r, status)
		return
	}
	for _, p := range parts {
		if !strings.Contains(r.body, p) {
			t.Errorf("%s: %q is not in %v", what, p, r)
		}
	}
}

// own checks that a refusal has the API's own error body.
func (r reply) own(t *testing.T, what, code string) {
	t.Helper()
	var e struct {
		Error struct{ Code, Message string }
	}
	if err := json.Unmarshal([]byte(r.body), &e); err != nil || e.Error.Code != code || e.Error.Message == "" {
		t.Errorf("%s: the error body is %v, want the code %s", what, r, code)
	}
}

// ask runs a statement; the reply's rows are there if it was accepted.
func (a *target) ask(t *testing.T, statement string, headers ...string) (reply, [][]any) {
	t.Helper()
	body, err := json.Marshal(map[string]string{"language": "sql", "statement": statement})
	if err != nil {
		t.Fatal(err)
	}
	r := a.call(t, "POST", "/api/v1/query", "application/json", body, headers...)
	var answer struct{ Rows [][]any }
	if r.status == http.StatusOK {
		d := json.NewDecoder(strings.NewReader(r.body))
		d.UseNumber()
		if err := d.Decode(&answer); err != nil {
			t.Errorf("%.100s: %v in %v", statement, err, r)
		}
	}
	return r, answer.Rows
}

// rows runs a statement and compares its rows, as text.
func (a *target) rows(t *testing.T, statement, want string) {
	t.Helper()
	r, rows := a.ask(t, statement)
	if got := fmt.Sprint(rows); r.status != http.StatusOK || got != want {
		t.Errorf("%s: %v (%d), want %s", statement, got, r.status, want)
		if r.status != http.StatusOK {
			t.Log(r)
		}
	}
}

// send stores NDJSON records.
func (a *target) send(t *testing.T, stream string, records ...string) {
	t.Helper()
	a.want(t, 200, "POST", "/api/v1/intake/json/"+stream, "application/x-ndjson", []byte(strings.Join(records, "\n")), fmt.Sprintf(`"accepted":%d,"rejected":0`, len(records)))
}

// stages runs a check over unflushed rows and then over segments.
func (a *target) stages(t *testing.T, check func(t *testing.T)) {
	t.Helper()
	t.Run("unflushed", check)
	a.Flush()
	t.Run("flushed", check)
}

// metric is the sum of a metric's samples on all nodes.
func (a *target) metric(t *testing.T, name string) (sum float64) {
	t.Helper()
	for _, n := range a.All() {
		code, body := n.Do("GET", "/metrics", "", "", nil)
		if code != http.StatusOK {
			t.Fatalf("metrics of %s: %d", n.ID, code)
		}
		for _, m := range regexp.MustCompile(`(?m)^`+name+`(?:\{.*\})? (\S+)$`).FindAllStringSubmatch(string(body), -1) {
			v, err := strconv.ParseFloat(m[1], 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += v
		}
	}
	return sum
}

// memory is what a node's process has resident; of a cluster, that of the node with the most.
func (a *target) memory(t *testing.T) (most int64) {
	t.Helper()
	for _, n := range a.All() {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", n.PID()))
		if err != nil {
			t.Fatal(err)
		}
		pages, err := strconv.ParseInt(strings.Fields(string(b))[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, pages*int64(os.Getpagesize()))
	}
	return most
}

// quote writes a JSON string.
func quote(s string) string {
	b, _ := json.Marshal(s) // a string always marshals
	return string(b)
}
