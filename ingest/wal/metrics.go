package wal

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	frames, bytes, groups, failures, torn, damaged, missing prometheus.Counter
	disk                                                    prometheus.Gauge
	sync                                                    prometheus.Histogram
}

// newMetrics registers the metrics; a nil registerer leaves them unregistered.
func newMetrics(r prometheus.Registerer) metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "millstream_wal_" + name, Help: help})
	}
	m := metrics{
		frames:   counter("frames_total", "Frames that were made durable."),
		bytes:    counter("written_bytes_total", "Bytes that were made durable."),
		groups:   counter("commits_total", "Group commits: one write and one sync each."),
		failures: counter("failures_total", "Group commits whose write or sync failed."),
		torn:     counter("torn_bytes_total", "Bytes of torn tails that were cut at start."),
		damaged:  counter("damaged_total", "Stretches of damage that were skipped; the file is kept as *.corrupt."),
		missing:  counter("missing_frames_total", "Frames that were owed but not found at replay."),
		disk:     prometheus.NewGauge(prometheus.GaugeOpts{Name: "millstream_wal_disk_bytes", Help: "Bytes of all WAL files."}),
		sync: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "millstream_wal_commit_seconds", Help: "Duration of one group commit.", Buckets: prometheus.ExponentialBuckets(1e-4, 2, 14),
		}),
	}
	if r != nil {
		r.MustRegister(m.frames, m.bytes, m.groups, m.failures, m.torn, m.damaged, m.missing, m.disk, m.sync)
	}
	return m
}
