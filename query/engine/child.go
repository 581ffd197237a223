package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/millstream/millstream"
	"golang.org/x/sys/unix"
)

// socketFD is the descriptor of a child's end of its socket.
const socketFD = 3

// goMemory is what the Go heap of a child should stay within: it holds a batch and its copy, and DuckDB's memory is not in it.
const goMemory = 128 << 20

// ChildMain is the whole of a child process: it runs one job after another until the parent closes the socket. It does not return before.
func ChildMain() error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("set limit: %w", err)
	}
	// If memory runs out, the kernel shall end a query and not the node.
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte("800"), 0o600); err != nil {
		return fmt.Errorf("set out-of-memory score: %w", err)
	}
	file := os.NewFile(socketFD, "socket")
	sock, err := net.FileConn(file)
	if err != nil {
		return fmt.Errorf("open socket: %w", err)
	}
	if err := errors.Join(file.Close(), unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)); err != nil {
		return err
	}
	debug.SetMemoryLimit(goMemory)
	c := &child{conn: newConn(sock), jobs: make(chan message)}
	go c.receive()
	return c.run()
}

type child struct {
	conn *conn
	jobs chan message

	mu       sync.Mutex
	canceled chan struct{} // of the job that was received last; closed by a cancel
}

// receive reads messages until the parent is gone, and then ends the process: a query in the middle of one expression could not be stopped otherwise.
func (c *child) receive() {
	for {
		m, err := c.message()
		if err != nil {
			os.Exit(0)
		}
		if m.Cancel {
			c.cancel()
			continue
		}
		c.mu.Lock()
		c.canceled = make(chan struct{})
		c.mu.Unlock()
		c.jobs <- m
	}
}

func (c *child) cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.canceled == nil || isClosed(c.canceled) {
		return
	}
	close(c.canceled)
}

func isClosed(ch chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

func (c *child) message() (m message, err error) {
	kind, size, err := c.conn.head()
	if err != nil {
		return m, err
	}
	body, err := c.conn.body(size)
	if err != nil {
		return m, err
	}
	if kind != frameMessage {
		return m, fmt.Errorf("unexpected frame %q", kind)
	}
	return m, json.Unmarshal(body, &m)
}

// run opens an instance before each job, so that the job does not wait for it.
func (c *child) run() error {
	for {
		inst, err := openInstance()
		if err != nil {
			return err
		}
		if err := c.conn.write(frameReady, nil); err != nil {
			return err
		}
		m := <-c.jobs
		out := c.do(inst, m)
		inst.close()
		if err := c.conn.writeJSON(frameOutcome, out); err != nil {
			return err
		}
	}
}

func (c *child) do(inst *instance, m message) outcome {
	c.mu.Lock()
	canceled := c.canceled
	c.mu.Unlock()
	before := cpuTime()
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { interruptUntil(inst, canceled, done) })
	stats, err := inst.run(m.Job, m.Limits, c.conn)
	close(done)
	wg.Wait()
	stats.CPU = cpuTime() - before
	switch {
	case err == nil:
		return outcome{Stats: stats}
	case isClosed(canceled):
		return outcome{Stats: stats, Failure: &failure{Kind: millstream.Canceled, Message: "canceled"}}
	}
	var known *millstream.Error
	if errors.As(err, &known) {
		return outcome{Stats: stats, Failure: &failure{Kind: known.Kind, Message: known.Msg}}
	}
	return outcome{Stats: stats, Failure: &failure{Message: err.Error()}}
}

// interruptUntil interrupts the instance, once it is canceled, until the job is done. DuckDB forgets an interrupt when its next statement starts, so one is
// not enough.
func interruptUntil(inst *instance, canceled, done chan struct{}) {
	select {
	case <-done:
		return
	case <-canceled:
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		inst.interrupt()
		select {
		case <-done:
			return
		case <-tick.C:
		}
	}
}
