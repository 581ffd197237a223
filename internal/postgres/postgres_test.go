package postgres

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/millstream/millstream"
)

// childEnv makes the test binary a node that starts a server and waits to be killed.
const childEnv = "MILLSTREAM_TEST_POSTGRES_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		s, err := Start(context.Background(), quick(dir))
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(s.PID())
		select {}
	}
	code := m.Run()
	if dir, err := template(); err == nil {
		_ = os.RemoveAll(dir) // what stays behind is in the temporary directory
	}
	os.Exit(code)
}

func quick(dir string) Options {
	return Options{DataDir: dir, NoSync: true, Settings: map[string]string{"fsync": "off"}}
}

// template is a data directory that initdb made once; it goes with the process.
var template = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "millstream-postgres-test-")
	if err != nil {
		return "", err
	}
	s, err := Start(context.Background(), quick(filepath.Join(dir, "postgres")))
	if err != nil {
		return dir, err
	}
	return dir, s.Stop(context.Background())
})

// made puts a copy of the template at dir.
func made(t *testing.T, dir string) string {
	t.Helper()
	from, err := template()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cp", "-a", filepath.Join(from, "postgres"), dir).CombinedOutput(); err != nil {
		t.Fatalf("copy the template: %v: %s", err, out)
	}
	return dir
}

func start(t *testing.T, o Options) *Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, err := Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, s) })
	return s
}

func stop(t *testing.T, s *Server) {
	t.Helper()
	if err := s.Stop(context.Background()); err != nil {
		t.Error(err)
	}
}

func refused(t *testing.T, o Options, want millstream.Kind, says string) {
	t.Helper()
	s, err := Start(context.Background(), o)
	if err == nil {
		stop(t, s)
		t.Fatal("it started")
	}
	if millstream.KindOf(err) != want || !strings.Contains(err.Error(), says) {
		t.Fatalf("got %v, want kind %d and %q", err, want, says)
	}
}

// query runs one statement, for as long as the server may take to come back.
func query(t *testing.T, s *Server, sql string) (out string) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		conn, err := pgx.Connect(context.Background(), s.URL())
		if err == nil {
			err = errors.Join(conn.QueryRow(context.Background(), sql).Scan(&out), conn.Close(context.Background()))
		}
		if err == nil {
			return out
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func gone(t *testing.T, pid int) {
	t.Helper()
	for range 6000 {
		if syscall.Kill(pid, 0) != nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("process %d lives on", pid)
}

func TestStartStopAndStartAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "postgres")
	begin := time.Now()
	s := start(t, Options{DataDir: dir})
	t.Log("first start", time.Since(begin))
	if out := query(t, s, "WITH x AS (SELECT 1) SELECT current_database() || ' ' || current_user || ' ' || current_setting('listen_addresses') || '.' || current_setting('fsync')"); out != "millstream millstream .on" {
		t.Fatalf("got %q", out)
	}
	if _, err := os.Stat(dir + ".new"); err == nil {
		t.Error("the unfinished directory is still there")
	}
	pid := s.PID()
	begin = time.Now()
	stop(t, s)
	t.Log("stop", time.Since(begin))
	stop(t, s) // twice is safe
	if err := <-s.Done(); err != nil {
		t.Fatalf("done with %v", err)
	}
	gone(t, pid)
	if _, err := os.Stat(s.socket); err == nil {
		t.Error("the socket's directory is still there")
	}
	begin = time.Now()
	s = start(t, Options{DataDir: dir})
	t.Log("start again", time.Since(begin))
	query(t, s, "SELECT 'ok'")
}

func TestCrashesAreRecovered(t *testing.T) {
	s := start(t, quick(made(t, filepath.Join(t.TempDir(), "postgres"))))
	query(t, s, "SELECT set_config('x.y', 'z', false)")
	for _, sig := range []syscall.Signal{syscall.SIGQUIT, syscall.SIGKILL, syscall.SIGKILL} {
		pid := s.PID()
		if err := syscall.Kill(pid, sig); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		gone(t, pid)
		query(t, s, "SELECT 'ok'")
		if now := s.PID(); now == pid || now == 0 {
			t.Fatalf("process %d after %d", now, pid)
		}
		t.Log(sig, "answered again after", time.Since(begin))
	}
}

func TestOneServerADataDirectory(t *testing.T) {
	dir := made(t, filepath.Join(t.TempDir(), "postgres"))
	s := start(t, quick(dir))
	refused(t, quick(dir), millstream.Conflict, "in use by another server")
	query(t, s, "SELECT 'ok'") // the first one is not disturbed
}

// A node that is killed takes its server along, and the next start waits for that server's end.
func TestServerDiesWithItsNode(t *testing.T) {
	dir := made(t, filepath.Join(t.TempDir(), "postgres"))
	node := exec.Command(os.Args[0])
	node.Env = append(os.Environ(), childEnv+"="+dir)
	out, err := node.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid := 0
	if _, err := fmt.Sscan(line, &pid); err != nil {
		t.Fatalf("the node says %q", line)
	}
	refused(t, quick(dir), millstream.Conflict, "in use by another server")
	if err := node.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = node.Wait() // killed
	s := start(t, quick(dir))
	gone(t, pid)
	query(t, s, "SELECT 'ok'")
}

// The number of a server that is gone belongs to another process now, as after a restart of a container.
func TestStaleFilesOfAKilledServer(t *testing.T) {
	dir := made(t, filepath.Join(t.TempDir(), "postgres"))
	s := start(t, quick(dir))
	stop(t, s)
	pidFile := fmt.Sprintf("%d\n%s\n", os.Getpid(), dir)
	if err := os.WriteFile(filepath.Join(dir, "postmaster.pid"), []byte(pidFile), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.as.mkdir(s.socket); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".s.PGSQL.5432", ".s.PGSQL.5432.lock"} {
		if err := os.WriteFile(filepath.Join(s.socket, name), []byte(pidFile), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	query(t, start(t, quick(dir)), "SELECT 'ok'")
}

func TestParentsThatTheServersUserMayNotEnter(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("only root runs the server as another user; this checks that nothing is in the way otherwise")
	}
	closed := filepath.Join(t.TempDir(), "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(closed, strings.Repeat("long", 30), "postgres")
	s := start(t, quick(dir))
	query(t, s, "SELECT 'ok'")
	if err := syscall.Kill(s.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	query(t, s, "SELECT pg_reload_conf()::text")
	query(t, s, "SELECT count(*)::text FROM pg_class")
	refused(t, quick(dir), millstream.Conflict, "in use by another server")
	stop(t, s)
	query(t, start(t, quick(dir)), "SELECT 'ok'")
}

func TestDirectoriesThatAreNoDatabase(t *testing.T) {
	t.Run("foreign files", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "thesis.txt"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		refused(t, quick(dir), millstream.Conflict, "no PostgreSQL database")
	})
	t.Run("another major version", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "PG_VERSION"), []byte("9\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		refused(t, quick(dir), millstream.Conflict, "belongs to PostgreSQL 9")
	})
	t.Run("empty, with an interrupted initdb beside it", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "postgres")
		for _, d := range []string{dir, dir + ".new", dir + ".new/base"} {
			if err := os.Mkdir(d, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		query(t, start(t, quick(dir)), "SELECT 'ok'")
	})
}

func TestSettingsThatTheServerRefuses(t *testing.T) {
	o := quick(made(t, filepath.Join(t.TempDir(), "postgres")))
	o.Settings = map[string]string{"shared_buffers": "nonsense"}
	begin := time.Now()
	refused(t, o, millstream.Unavailable, `invalid value for parameter "shared_buffers"`)
	if took := time.Since(begin); took > 40*time.Second {
		t.Fatalf("gave up after %v", took)
	}
}

func TestNoBinaries(t *testing.T) {
	if _, err := findBinaries("9"); millstream.KindOf(err) != millstream.Conflict {
		t.Fatalf("got %v, want Conflict", err)
	}
	if dir, err := findBinaries(""); err != nil || !isExecutable(filepath.Join(dir, "initdb")) {
		t.Fatalf("binaries %q, %v", dir, err)
	}
	if debianMajor("/usr/lib/postgresql/15/bin") != 15 {
		t.Fatal("a path's version is misread")
	}
}

func TestStopWhileStarting(t *testing.T) {
	dir := made(t, filepath.Join(t.TempDir(), "postgres"))
	for _, after := range []time.Duration{0, time.Millisecond, 30 * time.Millisecond, 100 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(context.Background(), after)
		s, err := Start(ctx, quick(dir))
		cancel()
		if err == nil {
			stop(t, s)
			continue
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v, want the deadline", err)
		}
	}
	query(t, start(t, quick(dir)), "SELECT 'ok'")
}

// Start and Stop from many goroutines at once leave nothing behind.
func TestStopConcurrently(t *testing.T) {
	s := start(t, quick(made(t, filepath.Join(t.TempDir(), "postgres"))))
	pid := s.PID()
	var wg sync.WaitGroup
	for range 5 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			stop(t, s)
		}()
	}
	wg.Wait()
	gone(t, pid)
}
