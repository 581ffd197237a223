//go:build browser

// Package e2e looks at the pages of a real node with a real browser: go test -tags browser ./ui/e2e (make e2e).
package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/millstream/millstream/internal/mstest"
)

const (
	email    = "ada@example.com"
	password = "correct horse battery"
)

func TestMain(m *testing.M) {
	code := m.Run()
	mstest.Cleanup()
	os.Exit(code)
}

// A person opens the URL of the log, sets the node up, sends and asks with the snippets as they stand, and finds the stream; all of it by keyboard.
func TestFirstRun(t *testing.T) {
	n := start(t)
	b := open(t)
	b.everyLook("home-fresh", n.url+"/")
	b.everyLook("setup", n.setup)

	b.look(1440, 900, "light")
	b.visit(n.setup)
	b.waitsIn("email") // the code is filled in
	b.typeText(email)
	b.press("Tab")
	b.typeText("too short")
	b.press("Enter")
	if v := b.value("password"); v != "too short" {
		t.Errorf("the browser let a short password through: %q", v)
	}
	b.eval(`document.querySelector("#password").select()`, nil)
	b.typeText(password)
	b.loading("setup", func() { b.press("Enter") })
	if got := b.text("h1"); got != "The node is set up" {
		t.Fatalf("after the setup: %s", b.text("main"))
	}
	b.everyWidth("token")
	token := b.text(".key code")
	if !regexp.MustCompile(`^ms_[a-z2-7]{8}_[a-z2-7]{52}$`).MatchString(token) {
		t.Errorf("the token is %q", token)
	}

	send, ask := b.snippet("NDJSON with curl"), b.snippet("query")
	if out := shell(t, send); !strings.Contains(out, `"accepted":1`) {
		t.Errorf("%s\n%s", send, out)
	}
	if out := shell(t, ask); !strings.Contains(out, `"hello"`) {
		t.Errorf("%s\n%s", ask, out)
	}
	b.visit(n.url + "/")
	if got := b.text("table"); !strings.Contains(got, "app") || !strings.Contains(got, "not flushed yet") {
		t.Errorf("before the flush: %s", got)
	}
	n.fill(t, token)
	b.everyLook("home", n.url+"/")
	if got := b.text("table"); !regexp.MustCompile(`app\s+logs\s+1\s`).MatchString(got) {
		t.Errorf("after the flush: %s", got)
	}
	b.loading("sign out", func() {
		b.eval(`document.querySelector("header form button").focus()`, nil)
		b.press("Enter")
	})
	if b.text("h1") != "This is a Millstream node" {
		t.Errorf("after signing out: %s", b.text("main"))
	}
	b.clean(n.url)
}

func TestSignIn(t *testing.T) {
	n := start(t, "MS_AUTH_ROOT_EMAIL="+email, "MS_AUTH_ROOT_PASSWORD="+password)
	b := open(t)
	b.everyLook("login", n.url+"/login")
	b.everyLook("home-stranger", n.url+"/")
	b.everyLook("not-found", n.url+"/nothing/here")
	for _, script := range []bool{true, false} {
		b.call("Emulation.setScriptExecutionDisabled", map[string]any{"value": !script}, nil)
		b.look(390, 844, "dark")
		b.visit(n.url + "/login")
		b.waitsIn("email")
		b.typeText(email)
		b.press("Tab")
		b.typeText("a wrong password")
		b.loading("a wrong password", func() { b.press("Enter") })
		if !strings.Contains(b.text("[role=alert]"), "wrong") || b.value("email") != email || b.value("password") != "" {
			t.Errorf("script %v: after a wrong password: %s", script, b.text("main"))
		}
		b.everyWidth("login-wrong")
		b.waitsIn("password") // the address is kept
		b.typeText(password)
		b.loading("sign in", func() { b.press("Enter") })
		if b.text("h1") != "Streams" {
			t.Errorf("script %v: after signing in: %s", script, b.text("main"))
		}
		b.call("Network.clearBrowserCookies", nil, nil)
	}
	b.clean(n.url)
}

var widths = []int{320, 390, 768, 1100, 1440, 1920}

// everyLook loads a page in every width and both themes.
func (b *browser) everyLook(name, url string) {
	b.t.Helper()
	b.visit(url)
	b.everyWidth(name)
}

// everyWidth checks that the page as it stands never is wider than the window.
func (b *browser) everyWidth(name string) {
	b.t.Helper()
	for _, theme := range []string{"light", "dark"} {
		for _, w := range widths {
			b.look(w, map[bool]int{true: 900, false: 844}[w > 720], theme)
			var wide string
			b.eval(`(() => {
				if (document.documentElement.scrollWidth <= innerWidth) return "";
				return [...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > innerWidth + 1 && !e.classList.contains("vh")).map(e => e.outerHTML.slice(0, 80)).join("\n") || "?";
			})()`, &wide)
			if wide != "" {
				b.t.Errorf("%s is wider than %d px:\n%s", name, w, wide)
			}
			if w == 1440 || w == 390 {
				b.shot(fmt.Sprintf("%s-%d-%s", name, w, theme))
			}
		}
	}
}

// clean checks that nothing was complained about and nobody else was asked.
func (b *browser) clean(url string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range b.faults {
		b.t.Error(f)
	}
	for _, r := range b.requests {
		if !strings.HasPrefix(r, url+"/") {
			b.t.Errorf("asked for %s", r)
		}
	}
	if len(b.requests) == 0 {
		b.t.Error("no request was seen: the check is broken")
	}
}

// waitsIn waits until the cursor is in a field, where the page puts it a moment after it has loaded.
func (b *browser) waitsIn(id string) {
	b.t.Helper()
	mstest.WaitFor(b.t, patience, "the cursor is in "+id, func() (ok bool) {
		b.eval(fmt.Sprintf("document.activeElement.id === %q", id), &ok)
		return ok
	})
}

func (b *browser) value(id string) (s string) {
	b.t.Helper()
	b.eval(fmt.Sprintf("document.getElementById(%q).value", id), &s)
	return s
}

func (b *browser) snippet(name string) (s string) {
	b.t.Helper()
	b.eval(fmt.Sprintf("document.querySelector('[data-copy=%q] code').textContent", name), &s)
	return s
}

func shell(t testing.TB, command string) string {
	t.Helper()
	out, err := exec.Command("bash", "-c", command).CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v", command, err)
	}
	return string(out)
}

type node struct{ url, setup string }

// start runs a standalone node and reads from its log which URL to open.
func start(t *testing.T, env ...string) node {
	t.Helper()
	dir, err := os.MkdirTemp("", "msweb") // not t.TempDir: the database's user must be able to enter it
	must(t, err)
	must(t, os.Chmod(dir, 0o755))
	log := &lines{}
	cmd := exec.Command(mstest.Binary(t), "serve")
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "MS_NODE_ID=mill-1", "MS_NODE_DATA_DIR=" + filepath.Join(dir, "data"), "MS_HTTP_LISTEN=" + free(t), "MS_OTLP_LISTEN=" + free(t),
		"MS_TELEMETRY_LOG_FORMAT=json", "MS_TELEMETRY_SELF_COLLECT=false"}, env...)
	cmd.Stderr = log
	must(t, cmd.Start())
	exited := make(chan struct{})
	go func() { _ = cmd.Wait(); close(exited) }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-exited
		_ = os.RemoveAll(dir)
	})
	var n node
	mstest.WaitFor(t, patience, "the node says where it is", func() bool {
		n = log.node()
		if n.url == "" {
			return false
		}
		resp, err := http.Get(n.url + "/api/v1/readyz")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	return n
}

func free(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// lines is the node's log.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) node() (n node) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range bytes.Lines(l.b.Bytes()) {
		var entry struct {
			Msg, URL string
			Code     string `json:"setup_code"`
		}
		if json.Unmarshal(line, &entry) != nil {
			continue
		}
		switch {
		case entry.Code != "":
			n.setup = entry.URL
		case entry.Msg == "serving":
			n.url = strings.TrimSuffix(entry.URL, "/")
		}
	}
	return n
}

// fill sends a little of everything and has it flushed.
func (n node) fill(t testing.TB, token string) {
	t.Helper()
	now := time.Now().UnixNano()
	for i, stream := range []string{"checkout-api", "edge-gateway", "payments"} {
		var b strings.Builder
		for j := range 700 * (i + 1) * (i + 2) {
			fmt.Fprintf(&b, `{"_timestamp":%d,"level":"info","message":"request %d served","http":{"status":200,"route":"/v1/orders"},"duration_ms":%d}`+"\n", now-int64(j)*1e6, j, j%90)
		}
		n.post(t, "/api/v1/intake/json/"+stream, token, b.String())
	}
	n.post(t, "/v1/traces", token, fmt.Sprintf(`{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"checkout"}}]},"scopeSpans":[{"spans":[`+
		`{"traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"b7ad6b7169203331","name":"POST /v1/orders","kind":2,"startTimeUnixNano":"%d","endTimeUnixNano":"%d"}]}]}]}`, now-5e6, now))
	n.post(t, "/v1/metrics", token, fmt.Sprintf(`{"resourceMetrics":[{"resource":{},"scopeMetrics":[{"metrics":[{"name":"queue.length","gauge":{"dataPoints":[{"timeUnixNano":"%d","asDouble":7}]}}]}]}]}`, now))
	var grant struct{ Token string }
	must(t, json.Unmarshal(n.post(t, "/api/v1/auth/login", "", fmt.Sprintf(`{"email":%q,"password":%q}`, email, password)), &grant))
	n.post(t, "/api/v1/node/flush", grant.Token, "{}")
}

// post sends JSON to the API.
func (n node) post(t testing.TB, path, token, body string) []byte {
	t.Helper()
	req, err := http.NewRequest("POST", n.url+path, strings.NewReader(body))
	must(t, err)
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	defer func() { _ = resp.Body.Close() }()
	reply, err := io.ReadAll(resp.Body)
	must(t, err)
	if resp.StatusCode/100 != 2 {
		t.Errorf("%s: %d %s", path, resp.StatusCode, reply)
	}
	return reply
}
