package cluster

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
)

// ErrOverlap is what a job returns for a unit that another node has run in this period; it is counted, not reported.
var ErrOverlap = errors.New("another node has run it in this period")

// Job is work in rounds on the units that this node owns.
type Job struct {
	Work     string        // its label in logs and metrics
	Interval time.Duration // from the begin of a round to that of the next, if the round is over by then
	Parallel int           // most units at once; 1 if 0
	// Units lists all units of the cluster; nil makes the job one of the primary's, run once a round with an empty unit.
	Units func(ctx context.Context) ([]string, error)
	Run   func(ctx context.Context, unit string) error
}

// Jobs runs the jobs of a node. An error of a unit is logged and counted, and its next round comes all the same.
type Jobs struct {
	log   *slog.Logger
	grace time.Duration
	jobs  []registered
	units *prometheus.CounterVec
	took  *prometheus.GaugeVec
}

type registered struct {
	Job
	work *Work
}

// NewJobs makes a runner without jobs; grace is how long units under way may go on after a stop.
func NewJobs(grace time.Duration, log *slog.Logger, reg prometheus.Registerer) *Jobs {
	j := &Jobs{
		log: log.With("component", "jobs"), grace: grace,
		units: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "millstream_cluster_units_total", Help: "Units of divided work that this node ran, by outcome."}, []string{"work", "outcome"}),
		took:  prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "millstream_cluster_round_seconds", Help: "What the latest round of a kind of work took."}, []string{"work"}),
	}
	reg.MustRegister(j.units, j.took)
	return j
}

// Add registers a job whose units are divided by w. All are added before Run.
func (j *Jobs) Add(w *Work, job Job) {
	job.Parallel = max(job.Parallel, 1)
	if job.Units != nil {
		w.Owned(job.Work, 0)
	}
	w.skippedOf(job.Work)
	j.jobs = append(j.jobs, registered{job, w})
}

// Run is a service: rounds of every job until ctx ends, and then of none when the units under way are done.
func (j *Jobs) Run(ctx context.Context, ready func()) error {
	ready()
	under, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var g sync.WaitGroup
	for _, job := range j.jobs {
		g.Go(func() { j.rounds(ctx, under, job) })
	}
	<-ctx.Done()
	last := time.AfterFunc(j.grace, stop)
	defer last.Stop()
	g.Wait()
	return nil
}

// idle is how soon a node that takes no work yet looks again, so that a job with a long interval begins when its share comes.
const idle = time.Second

func (j *Jobs) rounds(ctx, under context.Context, job registered) {
	wait := time.NewTimer(0)
	defer wait.Stop()
	for {
		select {
		case <-ctx.Done():
			job.own(0)
			return
		case <-wait.C:
		}
		begin := time.Now()
		if !job.work.Active() {
			job.own(0)
			wait.Reset(min(job.Interval, idle))
			continue
		}
		j.round(ctx, under, job)
		took := time.Since(begin)
		j.took.WithLabelValues(job.Work).Set(took.Seconds())
		wait.Reset(max(job.Interval-took, 0))
	}
}

func (r *registered) own(n int) {
	if r.Units != nil {
		r.work.Owned(r.Work, n)
	}
}

func (j *Jobs) round(ctx, under context.Context, job registered) {
	if job.Units == nil {
		if job.work.Primary() {
			j.report(job, "", job.Run(under, ""))
		}
		return
	}
	all, err := job.Units(ctx)
	if err != nil {
		if ctx.Err() == nil {
			j.log.Warn("the units of work could not be listed", "work", job.Work, "error", err)
		}
		return
	}
	mine := job.work.Share(all)
	job.own(len(mine))
	var g errgroup.Group
	g.SetLimit(job.Parallel)
	for _, unit := range mine {
		g.Go(func() error {
			if ctx.Err() == nil && job.work.Mine(unit) { // the round may have taken long: what is another's by now is left to it
				j.report(job, unit, job.Run(under, unit))
			}
			return nil
		})
	}
	_ = g.Wait() // errors are reported one by one
}

func (j *Jobs) report(job registered, unit string, err error) {
	outcome := "done"
	switch {
	case errors.Is(err, ErrOverlap):
		outcome = "skipped"
		job.work.Skipped(job.Work)
	case err != nil:
		outcome = "failed"
		j.log.Error("divided work failed; it is tried again in the next round", "work", job.Work, "unit", unit, "error", err)
	}
	j.units.WithLabelValues(job.Work, outcome).Inc()
}
