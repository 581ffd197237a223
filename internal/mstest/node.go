// Package mstest starts real nodes for tests: the product's own binary as a child process, with a data directory, a database and ports of its own.
package mstest

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
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The first owner of every test node.
const (
	Email    = "owner@example.com"
	Password = "a-long-test-password"
)

// Node is a running standalone node and a client of it.
type Node struct {
	t      testing.TB
	Dir    string // data directory; the database and the objects are below it
	URL    string
	GRPC   string // address of OTLP gRPC
	Token  string // API token with all scopes
	env    []string
	cmd    *exec.Cmd
	exited chan struct{}
	log    *lockedBuffer
}

var binary struct {
	once sync.Once
	path string
	err  error
}

// Binary builds the product once per test process and returns its path; MS_TEST_BINARY names one to test instead.
func Binary(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("MS_TEST_BINARY"); path != "" {
		return path
	}
	binary.once.Do(func() {
		dir, err := os.MkdirTemp("", "mstest")
		if err != nil {
			binary.err = err
			return
		}
		binary.path = filepath.Join(dir, "millstream")
		out, err := exec.Command("go", "build", "-o", binary.path, "github.com/millstream/millstream/cmd/millstream").CombinedOutput()
		if err != nil {
			binary.err = fmt.Errorf("build: %w\n%s", err, out)
		}
	})
	if binary.err != nil {
		t.Fatal(binary.err)
	}
	return binary.path
}

// Cleanup removes what Binary built; call it at the end of TestMain.
func Cleanup() {
	if binary.path != "" {
		_ = os.RemoveAll(filepath.Dir(binary.path))
	}
}

// Start starts a node with an empty data directory; env adds or overrides MS_ variables. The test's end stops it.
func Start(t testing.TB, env ...string) *Node {
	t.Helper()
	dir, err := os.MkdirTemp("", "msnode") // not t.TempDir: the database's user must be able to enter it
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	http, grpc := freeAddr(t), freeAddr(t)
	n := &Node{t: t, Dir: dir, URL: "http://" + http, GRPC: grpc, log: &lockedBuffer{}}
	n.env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "MS_NODE_ID=test", "MS_NODE_DATA_DIR=" + filepath.Join(dir, "data"), "MS_HTTP_LISTEN=" + http, "MS_OTLP_LISTEN=" + grpc,
		"MS_AUTH_ROOT_EMAIL=" + Email, "MS_AUTH_ROOT_PASSWORD=" + Password, "MS_TELEMETRY_SELF_COLLECT=false",
	}, env...)
	t.Cleanup(func() {
		n.Stop()
		if t.Failed() {
			t.Logf("the end of the node's log:\n%s", n.Log())
		}
		_ = os.RemoveAll(dir)
	})
	n.Run()
	n.signIn()
	return n
}

func freeAddr(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// Launch starts the process and does not wait.
func (n *Node) Launch() {
	n.t.Helper()
	n.cmd = exec.Command(Binary(n.t), "serve")
	n.cmd.Env, n.cmd.Stdout, n.cmd.Stderr = n.env, n.log, n.log
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	n.exited = make(chan struct{})
	if err := n.cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	go func(c *exec.Cmd, done chan struct{}) { _ = c.Wait(); close(done) }(n.cmd, n.exited)
}

// Run starts the process again on the same directory and waits until it is ready; it returns how long that took.
func (n *Node) Run() time.Duration {
	n.t.Helper()
	began := time.Now()
	n.Launch()
	n.Ready(60 * time.Second)
	return time.Since(began)
}

// Ready waits until the node says that it is ready.
func (n *Node) Ready(limit time.Duration) {
	n.t.Helper()
	for deadline := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
		resp, err := http.Get(n.URL + "/api/v1/readyz")
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-n.exited:
			n.t.Fatalf("the node ended:\n%s", n.Log())
		default:
		}
		if time.Now().After(deadline) {
			n.t.Fatalf("the node is not ready after %s:\n%s", limit, n.Log())
		}
	}
}

// Log is what the node has logged, over all its lives; only the end of a long one.
func (n *Node) Log() string {
	s := n.log.String()
	return s[max(0, len(s)-20_000):]
}

// Kill ends the process as kill -9 does; its database server dies with it.
func (n *Node) Kill() {
	_ = n.cmd.Process.Kill()
	<-n.exited
}

// Signal sends a signal to the process.
func (n *Node) Signal(s syscall.Signal) { _ = n.cmd.Process.Signal(s) }

// PID is the process's id.
func (n *Node) PID() int { return n.cmd.Process.Pid }

// Stop ends the process in order and waits; it says whether it ended without an error.
func (n *Node) Stop() bool {
	if n.cmd == nil {
		return true
	}
	_ = n.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-n.exited:
	case <-time.After(60 * time.Second):
		n.Kill()
		return false
	}
	return n.cmd.ProcessState.Success()
}

func (n *Node) signIn() {
	n.t.Helper()
	var grant struct{ Token string }
	n.JSON("POST", "/api/v1/auth/login", "", map[string]string{"email": Email, "password": Password}, &grant)
	var tok map[string]any
	n.JSON("POST", "/api/v1/auth/tokens", grant.Token, map[string]any{"name": "test", "scopes": []string{"intake", "query", "admin"}}, &tok)
	n.Token, _ = tok["token"].(string)
	if n.Token == "" {
		n.t.Fatalf("no token in %v", tok)
	}
}

// JSON makes a call with a JSON body and decodes the reply; any status but 2xx fails the test.
func (n *Node) JSON(method, path, token string, in, out any) {
	n.t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		n.t.Fatal(err)
	}
	code, reply := n.Do(method, path, token, "application/json", body)
	if code/100 != 2 {
		n.t.Fatalf("%s %s: %d %s", method, path, code, reply)
	}
	if out == nil {
		return
	}
	if err := json.Unmarshal(reply, out); err != nil {
		n.t.Fatalf("%s %s: %v in %s", method, path, err, reply)
	}
}

// Do makes a call and returns status and body; status 0 means that there was no reply. Extra headers come as "Name: value".
func (n *Node) Do(method, path, token, contentType string, body []byte, headers ...string) (int, []byte) {
	req, err := http.NewRequest(method, n.URL+path, bytes.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, []byte(err.Error())
	}
	defer func() { _ = resp.Body.Close() }()
	reply, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, []byte(err.Error())
	}
	return resp.StatusCode, reply
}

var client = &http.Client{Timeout: 60 * time.Second}

// Answer is the reply of a query.
type Answer struct {
	Columns []struct{ Name, Type string }
	Rows    [][]any
	Partial bool
	Stats   struct {
		UnflushedRows int64 `json:"unflushed_rows"`
		Segments      struct{ Total int }
	}
}

// SQL runs a statement; any failure fails the test.
func (n *Node) SQL(statement string) Answer {
	n.t.Helper()
	a, err := n.TrySQL(statement)
	if err != nil {
		n.t.Fatalf("%s: %v", statement, err)
	}
	return a
}

// TrySQL runs a statement.
func (n *Node) TrySQL(statement string) (Answer, error) {
	var a Answer
	body, err := json.Marshal(map[string]string{"language": "sql", "statement": statement})
	if err != nil {
		return a, err
	}
	code, reply := n.Do("POST", "/api/v1/query", n.Token, "application/json", body)
	if code != http.StatusOK {
		return a, fmt.Errorf("status %d: %s", code, reply)
	}
	d := json.NewDecoder(bytes.NewReader(reply))
	d.UseNumber()
	return a, d.Decode(&a)
}

// Count is the single number of a one-row answer.
func (n *Node) Count(statement string) int64 {
	n.t.Helper()
	a := n.SQL(statement)
	if len(a.Rows) != 1 || len(a.Rows[0]) != 1 {
		n.t.Fatalf("%s: %v is not one number", statement, a.Rows)
	}
	v, err := a.Rows[0][0].(json.Number).Int64()
	if err != nil {
		n.t.Fatal(err)
	}
	return v
}

// Flush publishes everything acknowledged so far.
func (n *Node) Flush() {
	n.t.Helper()
	n.JSON("POST", "/api/v1/node/flush", n.Token, struct{}{}, nil)
}

// WaitFor polls until ok or the limit.
func WaitFor(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", limit, what)
		}
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// CPU is the processor time that the process has used.
func (n *Node) CPU() time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n.PID()))
	if err != nil {
		n.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	f := strings.Fields(rest)
	user, _ := strconv.ParseInt(f[11], 10, 64)
	system, _ := strconv.ParseInt(f[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond // clock ticks of 100 Hz
}
