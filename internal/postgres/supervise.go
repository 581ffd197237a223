package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millstream/millstream"
)

const (
	firstPause   = 50 * time.Millisecond // before the restart after a crash; it doubles
	longestPause = 5 * time.Second
	healthyAfter = 10 * time.Second // a server that lived this long has earned a quick restart
	pollEvery    = 10 * time.Millisecond
	// Starts in a row that may fail. The first ones may meet children of a killed server that still end; later on a full disk may take a while to clear.
	firstTries = 6
	laterTries = 30
)

type metrics struct {
	restarts prometheus.Counter
	up       prometheus.Gauge
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		restarts: prometheus.NewCounter(prometheus.CounterOpts{Name: "millstream_postgres_restarts_total", Help: "Starts of the embedded database server after an end that was not asked for."}),
		up:       prometheus.NewGauge(prometheus.GaugeOpts{Name: "millstream_postgres_up", Help: "1 while the embedded database server answers."}),
	}
	if r != nil {
		r.MustRegister(m.restarts, m.up)
	}
	return m
}

// supervise runs the server until Stop, and again after each end that was not asked for. It gives up, which Done tells, when the server does not get ready any more.
// started gets the result of the first start.
func (s *Server) supervise(started chan<- error) {
	// The kernel ends the server when the thread that started it ends, so this goroutine keeps its thread for as long as it lives.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(s.stopped)
	defer s.data.close()
	defer os.Remove(s.socket) // the server removed what it held
	tries, failures, pause := firstTries, 0, firstPause
	for {
		begin := time.Now()
		answered, err := s.life(func() {
			if tries == firstTries {
				tries = laterTries
				started <- nil
			}
		})
		if s.stopping() {
			s.done <- nil
			return
		}
		if failures++; answered {
			failures = 0
		}
		if failures >= tries {
			err = millstream.Wrap(millstream.Unavailable, err, "the database server does not start")
			started <- err // nobody listens after the first start; the channel has room
			s.done <- err
			return
		}
		if time.Since(begin) > healthyAfter {
			pause = firstPause
		}
		s.log.Warn("the database server ended; it is started again", "error", err, "in", pause)
		s.sleep(pause)
		pause = min(2*pause, longestPause)
		s.metrics.restarts.Inc()
	}
}

// life runs the server once, to its end, calls onAnswer when it answers, and says whether it did.
func (s *Server) life(onAnswer func()) (answered bool, err error) {
	out := &output{log: s.log}
	cmd := s.command(out)
	s.mu.Lock()
	if s.stopping() { // checked under the lock: Stop either sees the child or keeps it from starting
		s.mu.Unlock()
		return false, nil
	}
	if err := s.clear(); err != nil {
		s.mu.Unlock()
		return false, err
	}
	if err := cmd.Start(); err != nil {
		s.mu.Unlock()
		return false, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	s.child = cmd.Process
	s.mu.Unlock()

	ctx, cancel := context.WithCancel(context.Background())
	polled := make(chan bool, 1)
	go func() { polled <- s.poll(ctx) }()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // waiting needs no particular thread, starting does
	select {
	case answered = <-polled:
		s.metrics.up.Set(1)
		onAnswer()
		err = <-ended
	case err = <-ended:
		cancel()
		answered = <-polled
	}
	cancel()
	s.metrics.up.Set(0)
	s.mu.Lock()
	s.child = nil
	s.mu.Unlock()
	if err == nil {
		err = errors.New("it ended by itself")
	}
	return answered, fmt.Errorf("%w (%s)", err, out.last())
}

// clear removes what a killed server left: files that name its process, whose number may belong to another one by now.
func (s *Server) clear() error {
	pid, state, err := runningServer(s.opts.DataDir)
	if err != nil {
		return fmt.Errorf("look for a running database server: %w", err)
	}
	if pid != 0 {
		return fmt.Errorf("another database server (process %d, %s) runs in %s", pid, state, s.opts.DataDir)
	}
	for _, name := range []string{".s.PGSQL." + socketPort, ".s.PGSQL." + socketPort + ".lock"} {
		if err := os.Remove(filepath.Join(s.socket, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the socket of a former database server: %w", err)
		}
	}
	return nil
}

// poll returns true once the server answers a query, false when ctx ends before.
func (s *Server) poll(ctx context.Context) bool {
	for ctx.Err() == nil {
		if s.answers(ctx) {
			return true
		}
		select {
		case <-ctx.Done():
		case <-time.After(pollEvery):
		}
	}
	return false
}

func (s *Server) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.url("postgres"))
	if err != nil {
		return false
	}
	_, err = conn.Exec(ctx, "SELECT 1")
	return errors.Join(err, conn.Close(ctx)) == nil
}

// command is the server's process. Settings on the command line win over the files of the data directory.
func (s *Server) command(out *output) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, "postgres"), append([]string{"-D", s.data.path}, s.settings()...)...)
	cmd.Dir = "/"
	cmd.Env = environment()
	cmd.ExtraFiles = s.data.extraFiles()
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = 2 * time.Second // children of a killed server keep the pipe open until they notice
	cmd.SysProcAttr = s.as.attributes()
	cmd.SysProcAttr.Pdeathsig = syscall.SIGINT
	return cmd
}

func (s *Server) stopping() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

func (s *Server) sleep(d time.Duration) {
	select {
	case <-s.stop:
	case <-time.After(d):
	}
}
