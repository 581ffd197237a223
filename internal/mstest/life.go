package mstest

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/millstream/millstream/internal/app"
	"github.com/millstream/millstream/internal/config"
	"github.com/millstream/millstream/query/engine"
)

// life is one run of a node.
type life interface {
	end()                  // asks it to end in order
	kill()                 // ends it now, and returns when it is gone
	done() <-chan struct{} // closed when it is gone
	ok() bool              // once it is gone: whether it ended in order
}

// process is a node as users run it.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{}
}

func startProcess(t testing.TB, env []string, log io.Writer) *process {
	t.Helper()
	p := &process{cmd: exec.Command(Binary(t), "serve"), exited: make(chan struct{})}
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, env...), log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = p.cmd.Wait(); close(p.exited) }()
	return p
}

func (p *process) end()                  { _ = p.cmd.Process.Signal(syscall.SIGTERM) }
func (p *process) kill()                 { _ = p.cmd.Process.Kill(); <-p.exited }
func (p *process) done() <-chan struct{} { return p.exited }
func (p *process) ok() bool              { return p.cmd.ProcessState.Success() }

// goroutine is a node in this process. Its kill is only an end: the node's links must be cut before, so that nothing of it reaches anybody.
type goroutine struct {
	cancel context.CancelFunc
	exited chan struct{}
	err    error
}

func startGoroutine(t testing.TB, env []string, o app.Options, log io.Writer) *goroutine {
	t.Helper()
	cfg, err := config.Load("", env)
	if err != nil {
		t.Fatalf("the configuration is not usable:\n%v", err)
	}
	o.Version, o.Stderr = "test", log
	ctx, cancel := context.WithCancel(context.Background())
	g := &goroutine{cancel: cancel, exited: make(chan struct{})}
	go func() {
		defer close(g.exited)
		if g.err = app.Run(ctx, &cfg, o); g.err != nil {
			fmt.Fprintln(log, "the node ended:", g.err)
		}
	}()
	return g
}

// clock is one that is off.
func clock(ahead time.Duration) func() time.Time {
	return func() time.Time { return time.Now().Add(ahead) }
}

func (g *goroutine) end()                  { g.cancel() }
func (g *goroutine) kill()                 { g.cancel(); <-g.exited }
func (g *goroutine) done() <-chan struct{} { return g.exited }
func (g *goroutine) ok() bool              { return g.err == nil }

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

// Main is the TestMain of a package that starts nodes in its own process: the test binary is then also the SQL engine's child.
func Main(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == engine.ChildArg {
		if err := engine.ChildMain(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	code := m.Run()
	Cleanup()
	os.Exit(code)
}
