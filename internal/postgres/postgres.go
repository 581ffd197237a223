// Package postgres runs a PostgreSQL server of the node's own from installed binaries: it makes the data directory, starts the server as a direct child under an
// unprivileged user, restarts it after a crash and stops it last. The server listens on a socket in a private directory and nowhere else, and it dies with the node.
package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millstream/millstream"
)

// Options say where and how. DataDir is the server's own data directory; its parent must exist or be creatable.
type Options struct {
	DataDir string
	Log     *slog.Logger
	Metrics prometheus.Registerer // nil: none
	// MaxConnections is what the server accepts; 0 means 50.
	MaxConnections int
	// Settings are further server settings, over ours. Tests turn fsync off with them.
	Settings map[string]string
	// NoSync leaves it to the operating system when a new database reaches the disk.
	NoSync bool
}

const (
	database   = "millstream"
	stopLimit  = 60 * time.Second
	socketPort = "5432" // names the socket's file; nothing listens on a port
	maxSocket  = 107    // bytes of a socket's path that the kernel takes
)

// Server is a running server and its supervisor.
type Server struct {
	opts    Options
	log     *slog.Logger
	metrics *metrics
	bin     string
	as      account
	data    handle
	socket  string

	stop    chan struct{} // closed by Stop: the supervisor must not start the server again
	once    sync.Once
	stopped chan struct{} // closed when the supervisor has ended
	done    chan error

	mu    sync.Mutex
	child *os.Process // the running server; nil while there is none
}

// Start makes the data directory if needed, starts the server and returns when it answers. ctx bounds the start only; the server runs until Stop.
func Start(ctx context.Context, o Options) (*Server, error) {
	dir, err := filepath.Abs(o.DataDir)
	if err != nil {
		return nil, fmt.Errorf("find the database's data directory: %w", err)
	}
	o.DataDir = dir
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{opts: o, log: o.Log.With("component", "postgres"), metrics: newMetrics(o.Metrics), stop: make(chan struct{}), stopped: make(chan struct{}), done: make(chan error, 1)}
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	ready := make(chan error, 2)
	go s.supervise(ready)
	select {
	case err = <-ready:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err == nil {
		err = s.ensureDatabase(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
	}
	return s, nil
}

// prepare does everything that comes before the first start.
func (s *Server) prepare(ctx context.Context) (err error) {
	dir := s.opts.DataDir
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return fmt.Errorf("make the database's data directory: %w", err)
	}
	version, err := dataVersion(dir)
	if err != nil {
		return err
	}
	if s.bin, err = findBinaries(version); err != nil {
		return err
	}
	if s.as, err = serverAccount(dir); err != nil {
		return err
	}
	if version == "" {
		begin := time.Now()
		if err := initialise(ctx, s.bin, dir, s.as, !s.opts.NoSync); err != nil {
			return err
		}
		s.log.Info("made a new database", "dir", dir, "took", time.Since(begin).Round(time.Millisecond))
	}
	if err := claim(ctx, dir); err != nil {
		return err
	}
	if s.socket, err = socketDir(dir, s.as); err != nil {
		return fmt.Errorf("make the directory of the database's socket: %w", err)
	}
	if s.data, err = s.as.open(dir); err != nil {
		return fmt.Errorf("open the database's data directory: %w", err)
	}
	return nil
}

// socketDir is a private directory with a short path, the same at each start. It is not in the data directory, whose path may be too long for a socket or closed to
// the account.
func socketDir(dataDir string, as account) (string, error) {
	sum := sha256.Sum256([]byte(dataDir))
	name := "millstream-pg-" + hex.EncodeToString(sum[:6])
	var errs []error
	for _, base := range []string{os.TempDir(), "/tmp", "/var/tmp", "/dev/shm"} {
		dir := filepath.Join(base, name)
		if len(dir)+len("/.s.PGSQL."+socketPort+".lock") > maxSocket || !as.reaches(dir) {
			continue
		}
		if err := as.mkdir(dir); err != nil {
			errs = append(errs, err)
			continue
		}
		return dir, nil
	}
	if len(errs) == 0 {
		return "", millstream.Errorf(millstream.Unavailable, "no temporary directory has a short path that the user of PostgreSQL may enter: set TMPDIR to one")
	}
	return "", errors.Join(errs...)
}

// URL is how to connect as the server's owner, over its socket.
func (s *Server) URL() string { return s.url(database) }

func (s *Server) url(db string) string {
	q := url.Values{"host": {s.socket}, "port": {socketPort}, "user": {superuser}, "sslmode": {"disable"}}
	return "postgres:///" + db + "?" + q.Encode()
}

// Done delivers one value when the supervisor ends: nil after Stop, else why the server could not be kept running.
func (s *Server) Done() <-chan error { return s.done }

// PID is the server's process, 0 while it is down.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.child == nil {
		return 0
	}
	return s.child.Pid
}

// Stop ends sessions, lets the server write its last checkpoint and waits for its end. When ctx ends first, the server is told to end at once, which costs a
// recovery at the next start and no data. Stopping twice is safe.
func (s *Server) Stop(ctx context.Context) error {
	s.once.Do(func() { close(s.stop) })
	for _, step := range []struct {
		signal syscall.Signal
		ctx    context.Context
		wait   time.Duration
	}{{syscall.SIGINT, ctx, stopLimit}, {syscall.SIGQUIT, context.WithoutCancel(ctx), 5 * time.Second}, {syscall.SIGKILL, context.WithoutCancel(ctx), 5 * time.Second}} {
		s.signal(step.signal)
		select {
		case <-s.stopped:
			return nil
		case <-step.ctx.Done():
		case <-time.After(step.wait):
		}
		s.log.Warn("the database server does not stop", "after", step.signal)
	}
	return fmt.Errorf("the database server (process %d) does not end", s.PID())
}

func (s *Server) signal(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.child != nil {
		_ = s.child.Signal(sig) // it may be gone already, which is what we want
	}
}

// ensureDatabase creates our database in a new server.
func (s *Server) ensureDatabase(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.URL())
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "3D000" { // invalid_catalog_name
		conn, err = pgx.Connect(ctx, s.url("postgres"))
		if err == nil {
			_, err = conn.Exec(ctx, "CREATE DATABASE "+database)
		}
	}
	if conn != nil {
		err = errors.Join(err, conn.Close(ctx))
	}
	if err != nil {
		return fmt.Errorf("create the database: %w", err)
	}
	return nil
}
