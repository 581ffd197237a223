package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/millstream/millstream"
	"github.com/prometheus/client_golang/prometheus"
)

// maxIdleMemory is the resident size over which a child is not kept for the next job: the allocator does not give everything back.
const maxIdleMemory = 192 << 20

// Options configure a Pool. The zero value of a number means its default.
type Options struct {
	Command  []string // what starts a child; default: this binary with ChildArg
	Dir      string   // for the children's temporary files; must exist, and what is left in it by an earlier run is removed
	Children int      // jobs at a time; default 2
	Threads  int      // of one job; default 1
	// Memory is what one job may use, in bytes, as DuckDB counts; default 512 MiB. A child that grows to half as much again and 256 MiB is killed, for what DuckDB
	// does not count.
	Memory int64
	Temp   int64         // bytes that one job may spill to Dir; default 4 GiB
	Idle   time.Duration // after which an idle child is stopped; default 1 minute
	Grace  time.Duration // between a job's cancel, or its deadline, and the kill; default 2 s

	Log        *slog.Logger
	Registerer prometheus.Registerer
}

func (o *Options) defaults() error {
	if len(o.Command) == 0 {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find this binary: %w", err)
		}
		o.Command = []string{self, ChildArg}
	}
	o.Children = orDefault(o.Children, 2)
	o.Threads = orDefault(o.Threads, 1)
	o.Memory = orDefault(o.Memory, 512<<20)
	o.Temp = orDefault(o.Temp, 4<<30)
	o.Idle = orDefault(o.Idle, time.Minute)
	o.Grace = orDefault(o.Grace, 2*time.Second)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

func orDefault[T int | int64 | time.Duration](v, def T) T {
	if v == 0 {
		return def
	}
	return v
}

// hardLimit is the resident size at which a child is killed.
func (o *Options) hardLimit() int64 { return o.Memory + o.Memory/2 + 256<<20 }

// Pool runs jobs in a bounded number of children, which it starts when they are needed. It is safe for concurrent use.
type Pool struct {
	o       Options
	metrics *metrics
	slots   chan struct{} // one token for each job that may run

	mu     sync.Mutex
	all    map[*process]bool // every child that was started and has not been stopped
	idle   []*process        // those without a job, the most recently used last
	closed bool
	failed error          // of the last start; nil once one succeeded
	wg     sync.WaitGroup // every child's waiting goroutine
}

// New makes a pool. No child runs before the first job.
func New(o Options) (*Pool, error) {
	if err := o.defaults(); err != nil {
		return nil, err
	}
	if err := cleanDir(o.Dir); err != nil {
		return nil, err
	}
	return &Pool{o: o, metrics: newMetrics(o.Registerer), slots: make(chan struct{}, o.Children), all: make(map[*process]bool)}, nil
}

// Close kills the children and waits for them. Jobs that run end with an error.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed, p.idle = true, nil
	for c := range p.all {
		c.stop()
	}
	p.mu.Unlock()
	p.wg.Wait()
	return cleanDir(p.o.Dir)
}

// Run runs a job and gives its answer batch by batch, at least one: an empty answer has an empty batch that tells its columns. A batch is valid during the
// call of emit only; an error of emit ends the job and is returned. When ctx ends, the job is canceled, and its child is killed if it does not heed that.
func (p *Pool) Run(ctx context.Context, j Job, emit func(arrow.RecordBatch) error) (Stats, error) {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return Stats{}, ctx.Err()
	}
	defer func() { <-p.slots }()
	c, err := p.take()
	if err != nil {
		return Stats{}, err
	}
	start := time.Now()
	stats, err := c.run(ctx, &j, emit)
	p.give(c)
	p.metrics.observe(time.Since(start), stats, err)
	if err != nil && ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		err = millstream.Wrap(millstream.KindOf(ctx.Err()), err, "%s", millstream.Message(ctx.Err()))
	}
	return stats, err
}

// Check says why the next job could not run, as far as the last one told. It starts nothing: a child that nobody needs costs memory.
func (p *Pool) Check(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return millstream.Errorf(millstream.Unavailable, "the SQL engine is stopping")
	case p.failed != nil:
		return millstream.Wrap(millstream.Unavailable, p.failed, "the SQL engine could not be started")
	}
	return nil
}

// take gives an idle child, or a new one.
func (p *Pool) take() (*process, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, millstream.Errorf(millstream.Unavailable, "the SQL engine is stopping")
	}
	for n := len(p.idle); n > 0; n = len(p.idle) {
		c := p.idle[n-1]
		p.idle = p.idle[:n-1]
		if c.wake() {
			return c, nil
		}
		delete(p.all, c)
	}
	c, err := p.start()
	if p.failed = err; err != nil {
		return nil, millstream.Wrap(millstream.Unavailable, err, "the SQL engine cannot be started")
	}
	p.all[c] = true
	return c, nil
}

// give puts a child back, to be stopped when it has been idle for long; one that is broken is stopped now.
func (p *Pool) give(c *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || c.broken || c.resident() > maxIdleMemory {
		p.drop(c)
		return
	}
	c.sleep(p.o.Idle, func() { p.retire(c) })
	p.idle = append(p.idle, c)
}

// retire stops a child that is still idle.
func (p *Pool) retire(c *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, x := range p.idle {
		if x == c {
			p.idle = append(p.idle[:i], p.idle[i+1:]...)
			p.drop(c)
			return
		}
	}
}

// drop stops a child for good. p.mu is held.
func (p *Pool) drop(c *process) {
	c.stop()
	delete(p.all, c)
}
