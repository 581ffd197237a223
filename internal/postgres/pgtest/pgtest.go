// Package pgtest gives tests a real PostgreSQL: one server for each test binary, started when first asked for, and a fresh database for each test.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/millstream/millstream/internal/postgres"
)

// Settings make servers of tests quick: what a crash of the machine would lose does not matter, a crash of the server still loses nothing.
var Settings = map[string]string{
	"fsync": "off", "full_page_writes": "off", "wal_compression": "off", "autovacuum": "off", "max_wal_size": "1GB",
}

const startTimeout = 90 * time.Second

var (
	shared   = sync.OnceValues(startShared)
	number   atomic.Int64
	models   sync.Map // name → func() error, which makes the model database once
	creating sync.Mutex
	// untilExit stays open as long as the process lives; a variable, because a pipe that nobody refers to is closed by the garbage collector.
	untilExit io.Closer
)

// URL is the URL of a new, empty database, which goes with the test.
func URL(tb testing.TB) string {
	tb.Helper()
	return database(tb, "template1")
}

// Clone is the URL of a new database that is a copy of the one that prepare made, which runs once for each name in a test binary.
func Clone(tb testing.TB, name string, prepare func(ctx context.Context, url string) error) string {
	tb.Helper()
	server := server(tb)
	made, _ := models.LoadOrStore(name, sync.OnceValue(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		defer cancel()
		model := "model_" + name
		if err := execute(ctx, server.URL(), `CREATE DATABASE "`+model+`"`); err != nil {
			return err
		}
		return prepare(ctx, withDatabase(server.URL(), model))
	}))
	if err := made.(func() error)(); err != nil {
		tb.Fatalf("prepare the database %s: %v", name, err)
	}
	return database(tb, "model_"+name)
}

// Start is a server of the test's own, to be restarted and killed. It stops with the test.
func Start(tb testing.TB) *postgres.Server {
	tb.Helper()
	dir, err := fromTemplate()
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	s, err := postgres.Start(ctx, postgres.Options{DataDir: filepath.Join(dir, "data"), Settings: Settings, NoSync: true})
	if err != nil {
		tb.Fatalf("start PostgreSQL: %v", err)
	}
	tb.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			tb.Error(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			tb.Error(err)
		}
	})
	return s
}

func server(tb testing.TB) *postgres.Server {
	tb.Helper()
	s, err := shared()
	if err != nil {
		tb.Fatalf("start PostgreSQL: %v", err)
	}
	return s
}

func database(tb testing.TB, template string) string {
	tb.Helper()
	s := server(tb)
	name := fmt.Sprintf("test_%d", number.Add(1))
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := create(ctx, s.URL(), name, template); err != nil {
		tb.Fatalf("create a database: %v", err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		defer cancel()
		if err := execute(ctx, s.URL(), `DROP DATABASE "`+name+`" WITH (FORCE)`); err != nil {
			tb.Errorf("drop the test's database: %v", err)
		}
	})
	return withDatabase(s.URL(), name)
}

// create copies a template. One copy at a time: the server refuses to copy a database that a session, also one that copies it, is connected to.
func create(ctx context.Context, server, name, template string) error {
	creating.Lock()
	defer creating.Unlock()
	return execute(ctx, server, `CREATE DATABASE "`+name+`" TEMPLATE "`+template+`" STRATEGY file_copy`)
}

func execute(ctx context.Context, url, sql string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, sql)
	return errors.Join(err, conn.Close(ctx))
}

func withDatabase(server, name string) string {
	u, err := url.Parse(server)
	if err != nil {
		panic(err) // it is our own
	}
	u.Path = "/" + name
	return u.String()
}

// startShared starts the binary's server. It has no end of its own: it dies with the process, and a waiting shell then removes its files.
func startShared() (*postgres.Server, error) {
	dir, err := fromTemplate()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	s, err := postgres.Start(ctx, postgres.Options{DataDir: filepath.Join(dir, "data"), Settings: Settings, NoSync: true, MaxConnections: 200})
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(s.URL())
	if err != nil {
		return nil, err
	}
	return s, removeAfterExit(dir, u.Query().Get("host"))
}

// removeAfterExit starts a shell that waits for the end of this process, which closes the pipe, and then for the server's, and removes their directories.
func removeAfterExit(dir, socket string) error {
	cmd := exec.Command("/bin/sh", "-c", `cat; for i in 1 2 3 4 5 6 7 8 9; do sleep 1; [ -e "$1/data/postmaster.pid" ] || break; done; rm -rf "$1" "$2"`, "sh", dir, socket)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var err error
	if untilExit, err = cmd.StdinPipe(); err != nil {
		return err
	}
	return cmd.Start()
}

// fromTemplate copies a new data directory from one that initdb made once for this machine: half a second instead of two.
func fromTemplate() (dir string, err error) {
	base := filepath.Join(os.TempDir(), fmt.Sprintf("millstream-pgtest-%d", os.Geteuid()))
	if err := os.MkdirAll(base, 0o755); err != nil {
		return "", err
	}
	template := filepath.Join(base, "template")
	if err := makeTemplate(base, template); err != nil {
		return "", fmt.Errorf("make the template of test databases in %s: %w", base, err)
	}
	if dir, err = os.MkdirTemp(base, "run-"); err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	return dir, copyTree(template, filepath.Join(dir, "data"))
}

func makeTemplate(base, template string) error {
	lock, err := os.OpenFile(filepath.Join(base, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close() // which unlocks
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if _, err := os.Stat(filepath.Join(template, "PG_VERSION")); err == nil {
		if err = postgres.Usable(template); err == nil {
			return nil
		}
		if err := os.RemoveAll(template); err != nil { // another major version was installed meanwhile
			return err
		}
	}
	unfinished := template + ".unfinished"
	if err := os.RemoveAll(unfinished); err != nil {
		return err
	}
	s, err := postgres.Start(ctx, postgres.Options{DataDir: unfinished, Settings: Settings, NoSync: true})
	if err != nil {
		return err
	}
	if err := s.Stop(ctx); err != nil {
		return err
	}
	return os.Rename(unfinished, template)
}

// copyTree copies directories and files with their modes and owners.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		if d.IsDir() {
			err = os.Mkdir(target, info.Mode().Perm())
		} else {
			var content []byte
			if content, err = os.ReadFile(path); err == nil {
				err = os.WriteFile(target, content, info.Mode().Perm())
			}
		}
		if err != nil {
			return err
		}
		owner := info.Sys().(*syscall.Stat_t)
		return os.Chown(target, int(owner.Uid), int(owner.Gid))
	})
}
