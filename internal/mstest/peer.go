package mstest

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Full says whether the tests run with the products that only `make e2e` builds.
func Full() bool { return os.Getenv("MS_E2E") == "full" }

// Tool is the path of a program that a target of the Makefile builds into .cache/bin. A test that needs one fails without it.
func Tool(t testing.TB, name string) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "Makefile")); err == nil {
			break
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("the tests do not run below the directory of the Makefile")
		}
		dir = filepath.Dir(dir)
	}
	path := filepath.Join(dir, ".cache", "bin", name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%s is not built: `make test` and `make e2e` build what these tests need", path)
	}
	return path
}

// Peer is another product's process beside a node.
type Peer struct {
	cmd    *exec.Cmd
	exited chan struct{}
	log    *lockedBuffer
}

// StartPeer runs a program until the test's end.
func StartPeer(t testing.TB, path string, args ...string) *Peer {
	t.Helper()
	p := &Peer{cmd: exec.Command(path, args...), exited: make(chan struct{}), log: &lockedBuffer{}}
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = p.cmd.Wait(); close(p.exited) }()
	t.Cleanup(func() {
		p.Stop()
		if t.Failed() {
			t.Logf("the end of the log of %s:\n%s", filepath.Base(path), p.Log())
		}
	})
	return p
}

// Stop asks the process to end, and ends it if it has not after 10 s.
func (p *Peer) Stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(10 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
}

// Log is what the process has written; only the end of a long one.
func (p *Peer) Log() string {
	s := p.log.String()
	return s[max(0, len(s)-10_000):]
}
