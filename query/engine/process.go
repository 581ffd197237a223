package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/millstream/millstream"
	"golang.org/x/sys/unix"
)

const (
	watchEvery  = 50 * time.Millisecond // how often a working child's size is looked at
	startWithin = 30 * time.Second
	stderrKept  = 8 << 10
)

// memoryHint is what to do about a query that is too big.
const memoryHint = "narrow the time range, filter more, or group by fewer values"

// Reasons for which a child is killed.
const (
	killedMemory = "memory"
	killedLate   = "late"
	killedStop   = "stop"
)

// process is a child and the parent's end of its socket. One goroutine at a time uses it.
type process struct {
	pool   *Pool
	cmd    *exec.Cmd
	sock   net.Conn
	conn   *conn
	dir    string
	stderr tail
	exited chan struct{} // closed when the process is gone
	state  string        // how it ended; read after exited
	broken bool          // it cannot serve another job
	ready  bool          // its frameReady has been read

	killed atomic.Pointer[string] // the reason of the first kill
	timer  *time.Timer            // stops it when idle
}

// start runs a new child. p.mu is held.
func (p *Pool) start() (*process, error) {
	dir, err := os.MkdirTemp(p.o.Dir, "child-")
	if err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	c := &process{pool: p, sock: ours, conn: newConn(ours), dir: dir, exited: make(chan struct{})}
	c.cmd = exec.Command(p.o.Command[0], p.o.Command[1:]...)
	c.cmd.Env, c.cmd.Dir, c.cmd.Stderr, c.cmd.ExtraFiles = []string{}, dir, &c.stderr, []*os.File{theirs}
	err = errors.Join(startRestricted(c.cmd), theirs.Close())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start child: %w", err), ours.Close(), os.RemoveAll(dir))
	}
	p.metrics.children.Inc()
	p.wg.Add(1)
	go c.wait()
	return c, nil
}

// startRestricted starts a process that can gain no privileges, by set-user-id binaries or otherwise. The restriction is the thread's: the goroutine ends
// without unlocking it, so the thread ends, too.
func startRestricted(cmd *exec.Cmd) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			done <- err
			return
		}
		done <- cmd.Start()
	}()
	return <-done
}

// socketPair makes the two ends of a child's socket.
func socketPair() (net.Conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make socket: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "parent"), os.NewFile(uintptr(fds[1]), "child")
	sock, err := net.FileConn(ours)
	if err = errors.Join(err, ours.Close()); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("open socket: %w", err), theirs.Close())
	}
	return sock, theirs, nil
}

// wait collects the ended process and what it leaves.
func (c *process) wait() {
	defer c.pool.wg.Done()
	err := c.cmd.Wait()
	c.state = c.cmd.ProcessState.String()
	c.pool.metrics.children.Dec()
	close(c.exited)
	if reason := c.killed.Load(); reason == nil || *reason != killedStop {
		c.pool.o.Log.Warn("SQL engine child ended", "state", c.state, "error", err, "killed", reason != nil, "stderr", c.stderr.String())
	}
	if err := errors.Join(c.sock.Close(), os.RemoveAll(c.dir)); err != nil {
		c.pool.o.Log.Warn("clean up after SQL engine child", "error", err)
	}
}

func (c *process) kill(reason string) {
	if c.killed.CompareAndSwap(nil, &reason) {
		c.pool.metrics.kills.WithLabelValues(reason).Inc()
		_ = c.cmd.Process.Kill() // fails only if it has ended
	}
}

// stop ends a child that no job uses.
func (c *process) stop() { c.kill(killedStop) }

// sleep and wake surround the time in which a child is idle; wake says whether it can still be used.
func (c *process) sleep(idle time.Duration, expired func()) { c.timer = time.AfterFunc(idle, expired) }

func (c *process) wake() bool {
	c.timer.Stop()
	select {
	case <-c.exited:
		return false
	default:
		return c.killed.Load() == nil
	}
}

// run sends a job and reads its answer.
func (c *process) run(ctx context.Context, j *Job, emit func(arrow.RecordBatch) error) (Stats, error) {
	watch, stopWatching := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	sent := make(chan struct{})
	wg.Go(func() { c.guard(ctx, sent, watch) })
	defer wg.Wait()
	defer stopWatching()
	if err := c.awaitReady(); err != nil {
		return Stats{}, c.fault(err)
	}
	if ctx.Err() != nil { // while the child started; it has nothing to cancel
		return Stats{}, ctx.Err()
	}
	if err := c.send(j); err != nil {
		return Stats{}, c.fault(err)
	}
	close(sent)
	r := &dataReader{c: c.conn}
	emitErr, streamErr := c.receive(r, emit)
	if emitErr != nil && r.end == nil {
		c.cancel()
	}
	if err := r.drain(); err != nil {
		return Stats{}, c.fault(err)
	}
	c.ready = false
	switch {
	case emitErr != nil:
		return r.end.Stats, emitErr
	case r.end.Failure != nil:
		return r.end.Stats, r.end.Failure.error()
	}
	return r.end.Stats, streamErr
}

// awaitReady waits until the child has an instance open.
func (c *process) awaitReady() error {
	if c.ready {
		return nil
	}
	if err := c.sock.SetReadDeadline(time.Now().Add(startWithin)); err != nil {
		return err
	}
	kind, _, err := c.conn.head()
	if err != nil {
		return err
	}
	if kind != frameReady {
		return fmt.Errorf("unexpected frame %q", kind)
	}
	c.ready = true
	return c.sock.SetReadDeadline(time.Time{})
}

func (c *process) send(j *Job) error {
	o := &c.pool.o
	return c.conn.writeJSON(frameMessage, message{Job: j, Limits: limits{Memory: o.Memory, Threads: o.Threads, TempDir: c.dir, Temp: o.Temp}})
}

func (c *process) cancel() {
	if err := c.conn.writeJSON(frameMessage, message{Cancel: true}); err != nil {
		c.kill(killedLate)
	}
}

// receive passes the batches on. The stream may end early, when the job fails; what counts then is the outcome that follows.
func (c *process) receive(r io.Reader, emit func(arrow.RecordBatch) error) (emitErr, streamErr error) {
	batches, err := ipc.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	defer batches.Release()
	for batches.Next() {
		if err := emit(batches.RecordBatch()); err != nil {
			return err, nil
		}
	}
	if err := batches.Err(); err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	return nil, nil
}

// guard watches over a job until done ends: it cancels the job, once it is sent, when ctx ends, and kills the child if that has no effect in time, or if the
// child grows too big.
func (c *process) guard(ctx context.Context, sent <-chan struct{}, done context.Context) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	ended := ctx.Done()
	var late <-chan time.Time
	var cancel <-chan struct{}
	for {
		select {
		case <-done.Done():
			return
		case <-ended:
			ended, late, cancel = nil, time.After(c.pool.o.Grace), sent
		case <-cancel:
			cancel = nil
			c.cancel()
		case <-late:
			c.kill(killedLate)
			return
		case <-tick.C:
			if c.resident() > c.pool.o.hardLimit() {
				c.kill(killedMemory)
				return
			}
		}
	}
}

// resident is the child's memory in bytes; 0 if it is gone.
func (c *process) resident() int64 {
	statm, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(c.cmd.Process.Pid), "statm"))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(statm))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// fault explains why a child did not answer. The child is of no more use.
func (c *process) fault(err error) error {
	c.broken = true
	if c.killed.Load() == nil {
		select {
		case <-c.exited:
		case <-time.After(c.pool.o.Grace): // it speaks nonsense, or does not start
			c.kill(killedLate)
		}
	}
	<-c.exited
	switch reason := c.killed.Load(); {
	case reason == nil:
		return millstream.Wrap(millstream.Unprocessable, err, "the SQL engine failed while it ran this query (%s); other queries are not affected", c.state)
	case *reason == killedMemory:
		return millstream.Wrap(millstream.Unprocessable, err, "the query grew over its memory limit and was stopped: %s", memoryHint)
	case *reason == killedStop:
		return millstream.Wrap(millstream.Unavailable, err, "the SQL engine is stopping")
	}
	return millstream.Wrap(millstream.Timeout, err, "the query did not stop in time and was ended")
}

// tail keeps the last bytes written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - stderrKept; over > 0 {
		t.buf = bytes.Clone(t.buf[over:])
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}

// cleanDir removes what children left in their directory.
func cleanDir(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, "child-*"))
	if err != nil {
		return err
	}
	for _, d := range left {
		err = errors.Join(err, os.RemoveAll(d))
	}
	return err
}
