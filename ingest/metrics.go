package ingest

import "github.com/prometheus/client_golang/prometheus"

type instruments struct {
	rows, refused, overflowed, dropped, undecodable, tailMissed                         prometheus.Counter
	seals, sealFailures, flushes, flushFailures, uploads, uploadedBytes, uploadFailures prometheus.Counter
	outcomes                                                                            *prometheus.CounterVec
	flushSeconds                                                                        prometheus.Histogram
	memory, held, ids, fenced                                                           prometheus.Gauge
}

// newInstruments registers the metrics; a nil registerer leaves them unregistered.
func newInstruments(r prometheus.Registerer) instruments {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "millstream_ingest_" + name, Help: help})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "millstream_ingest_" + name, Help: help})
	}
	m := instruments{
		rows:           counter("rows_total", "Records that were made durable and visible."),
		refused:        counter("failed_writes_total", "Writes that the log refused or whose outcome is unknown."),
		overflowed:     counter("overflow_values_total", "Values that went to the _overflow column, beyond a stream's field limit."),
		dropped:        counter("dropped_rows_total", "Records of deleted streams, dropped at flush."),
		undecodable:    counter("undecodable_frames_total", "WAL frames or samples that could not be used."),
		tailMissed:     counter("tail_missed_batches_total", "Batches that slow live-tail subscribers missed."),
		seals:          counter("seals_total", "Runs of rows that were sealed to local segments."),
		sealFailures:   counter("seal_failures_total", "Runs that could not be sealed and stayed in memory."),
		flushes:        counter("flushes_total", "WAL ranges that were published."),
		flushFailures:  counter("flush_failures_total", "Flushes that did not succeed and are tried again."),
		uploads:        counter("uploads_total", "Objects that were stored."),
		uploadedBytes:  counter("uploaded_bytes_total", "Bytes of objects that were stored."),
		uploadFailures: counter("upload_failures_total", "Uploads that failed and got a new attempt."),
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "millstream_ingest_publishes_total", Help: "Publishes by outcome.",
		}, []string{"outcome"}),
		flushSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "millstream_ingest_flush_seconds", Help: "Duration of one successful flush of a range.", Buckets: prometheus.ExponentialBuckets(0.01, 2, 14),
		}),
		memory: gauge("buffer_memory_bytes", "Memory of unflushed rows that are not sealed."),
		held:   gauge("buffer_held_bytes", "Memory and local files of unpublished rows."),
		ids:    gauge("batch_ids", "Batch ids that are remembered."),
		fenced: gauge("fenced", "1 if a newer incarnation has taken this node's WAL."),
	}
	if r != nil {
		r.MustRegister(m.rows, m.refused, m.overflowed, m.dropped, m.undecodable, m.tailMissed, m.seals, m.sealFailures, m.flushes, m.flushFailures,
			m.uploads, m.uploadedBytes, m.uploadFailures, m.outcomes, m.flushSeconds, m.memory, m.held, m.ids, m.fenced)
	}
	return m
}

// mirrorMetrics are of the rows that are copied from other nodes.
type mirrorMetrics struct {
	kept          prometheus.Gauge
	asks, fetched prometheus.Counter
}

func newMirrorMetrics(r prometheus.Registerer) mirrorMetrics {
	m := mirrorMetrics{
		kept:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "millstream_ingest_mirror_bytes", Help: "Unflushed rows of other nodes that are kept here."}),
		asks:    prometheus.NewCounter(prometheus.CounterOpts{Name: "millstream_ingest_mirror_asks_total", Help: "Times that another node was asked for its unflushed rows."}),
		fetched: prometheus.NewCounter(prometheus.CounterOpts{Name: "millstream_ingest_mirror_fetched_bytes_total", Help: "Bytes of unflushed rows that came from other nodes."}),
	}
	if r != nil {
		r.MustRegister(m.kept, m.asks, m.fetched)
	}
	return m
}
