package engine

import (
	"time"

	"github.com/millstream/millstream"
	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	jobs     *prometheus.CounterVec
	seconds  prometheus.Histogram
	cpu      prometheus.Counter
	children prometheus.Gauge
	kills    *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		jobs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "millstream_engine_jobs_total", Help: "Jobs of the SQL engine, by outcome."}, []string{"outcome"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "millstream_engine_job_seconds", Help: "How long jobs took.", Buckets: prometheus.ExponentialBuckets(0.005, 4, 8)}),
		cpu: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "millstream_engine_cpu_seconds_total", Help: "CPU time of jobs that ended by themselves."}),
		children: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "millstream_engine_children", Help: "Child processes that run."}),
		kills: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "millstream_engine_kills_total", Help: "Children that were killed, by reason."}, []string{"reason"}),
	}
	if r != nil {
		r.MustRegister(m.jobs, m.seconds, m.cpu, m.children, m.kills)
	}
	return m
}

func (m *metrics) observe(took time.Duration, s Stats, err error) {
	outcome := "ok"
	if err != nil {
		outcome = "failed"
		switch millstream.KindOf(err) {
		case millstream.Internal, millstream.Unavailable:
			outcome = "broken"
		case millstream.Canceled, millstream.Timeout:
			outcome = "stopped"
		}
	}
	m.jobs.WithLabelValues(outcome).Inc()
	m.seconds.Observe(took.Seconds())
	m.cpu.Add(s.CPU.Seconds())
}
