// Package mstest starts real nodes for tests: one alone or a cluster, as child processes of the product's own binary or in the test's process, with a database, an
// object store and addresses of their own, which a test can break.
package mstest

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The first owner of every test node.
const (
	Email    = "owner@example.com"
	Password = "a-long-test-password"
)

// Node is a node and a client of it.
type Node struct {
	ID    string
	Dir   string // the data directory is below it, and a standalone node's database and objects
	URL   string // of the API; of health, readiness and metrics alone on a node without it
	GRPC  string // address of OTLP gRPC
	Token string // API token with all scopes
	Roles []string
	CPUs  int // of a node in the test's process: its weight as a querier, from its next start; 0: the machine's

	// Ahead is how far the clock of a node in the test's process is off from its next start on.
	Ahead time.Duration

	// Of a cluster's node: its way to the database, and the way of the others to it. Nil on one that stands alone.
	Database, Internal *Link

	t      testing.TB
	env    []string
	launch func() life
	life   life
	log    *lockedBuffer
	others []*Node // started, killed and stopped with this one
}

// Start starts a standalone node with an empty data directory; env adds or overrides MS_ variables. The test's end stops it.
func Start(t testing.TB, env ...string) *Node {
	t.Helper()
	n := newNode(t, "test", directory(t), env)
	n.Run()
	n.signIn()
	return n
}

// directory is one that the database's user can enter, which t.TempDir is not.
func directory(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "msnode")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// newNode makes a node that runs as a process of its own, and does not start it.
func newNode(t testing.TB, id, dir string, env []string) *Node {
	t.Helper()
	http, grpc := FreeAddr(t), FreeAddr(t)
	n := &Node{t: t, ID: id, Dir: dir, URL: "http://" + http, GRPC: grpc, log: &lockedBuffer{}}
	n.env = append([]string{
		"MS_NODE_ID=" + id, "MS_NODE_DATA_DIR=" + filepath.Join(dir, "data"), "MS_HTTP_LISTEN=" + http, "MS_OTLP_LISTEN=" + grpc,
		"MS_AUTH_ROOT_EMAIL=" + Email, "MS_AUTH_ROOT_PASSWORD=" + Password, "MS_TELEMETRY_SELF_COLLECT=false",
	}, env...)
	n.launch = func() life { return startProcess(t, n.env, n.log) }
	t.Cleanup(func() {
		n.Stop()
		if t.Failed() {
			t.Logf("the end of the log of %s:\n%s", n.ID, n.Log())
		}
	})
	return n
}

// All are the node and those that live with it, which come first: they are what it needs.
func (n *Node) All() []*Node { return append(slices.Clone(n.others), n) }

// SetEnv changes variables for the node's next start.
func (n *Node) SetEnv(env ...string) { n.env = append(n.env, env...) }

// Launch starts the node and does not wait.
func (n *Node) Launch() {
	n.t.Helper()
	for _, l := range []*Link{n.Database, n.Internal} {
		if l != nil {
			l.Set(Whole)
		}
	}
	n.life = n.launch()
}

// Run starts the node again on the same directory and waits until it is ready; it returns how long that took.
func (n *Node) Run() time.Duration {
	n.t.Helper()
	began := time.Now()
	for _, x := range n.others {
		x.Launch()
	}
	for _, x := range n.others {
		x.Ready(60 * time.Second)
	}
	n.Launch()
	n.Ready(60 * time.Second)
	return time.Since(began)
}

// Ready waits until the node says that it is ready.
func (n *Node) Ready(limit time.Duration) {
	n.t.Helper()
	for deadline := time.Now().Add(limit); !n.IsReady(); time.Sleep(20 * time.Millisecond) {
		select {
		case <-n.life.done():
			n.t.Fatalf("the node %s ended:\n%s", n.ID, n.Log())
		default:
		}
		if time.Now().After(deadline) {
			n.t.Fatalf("the node %s is not ready after %s:\n%s", n.ID, limit, n.Log())
		}
	}
}

// IsReady says whether the node answers that it is ready.
func (n *Node) IsReady() bool {
	resp, err := http.Get(n.URL + "/api/v1/readyz")
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// Runs says whether the node has not ended.
func (n *Node) Runs() bool {
	if n.life == nil {
		return false
	}
	select {
	case <-n.life.done():
		return false
	default:
		return true
	}
}

// Log is what the node has logged, over all its lives; only the end of a long one.
func (n *Node) Log() string {
	s := n.log.String()
	return s[max(0, len(s)-20_000):]
}

// Kill ends the node as kill -9 does; a standalone node's database server dies with it.
func (n *Node) Kill() {
	for _, x := range n.All() {
		for _, l := range []*Link{x.Database, x.Internal} {
			if l != nil {
				l.Set(Cut)
			}
		}
		x.life.kill()
	}
}

// Signal sends a signal to the node's process.
func (n *Node) Signal(s syscall.Signal) { _ = n.life.(*process).cmd.Process.Signal(s) }

// PID is the process's id.
func (n *Node) PID() int { return n.life.(*process).cmd.Process.Pid }

// End asks the node to end in order and does not wait.
func (n *Node) End() { n.life.end() }

// Stop ends the node in order and waits; it says whether it ended without an error.
func (n *Node) Stop() bool {
	ok := true
	all := n.All()
	for i := len(all) - 1; i >= 0; i-- {
		ok = all[i].stop() && ok
	}
	return ok
}

func (n *Node) stop() bool {
	if n.life == nil {
		return true
	}
	n.life.end()
	return n.Ended(60 * time.Second)
}

// Ended waits until the node is gone and says whether it ended without an error; one that does not end is killed.
func (n *Node) Ended(limit time.Duration) bool {
	select {
	case <-n.life.done():
		return n.life.ok()
	case <-time.After(limit):
		n.life.kill()
		return false
	}
}

// CPU is the processor time that the node's process has used.
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
