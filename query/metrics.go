package query

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millstream/millstream"
)

type engineMetrics struct {
	duration *prometheus.HistogramVec
	failed   *prometheus.CounterVec
	rows     prometheus.Counter
	bytes    prometheus.Counter
	partial  prometheus.Counter
	fallback prometheus.Counter
	dropped  prometheus.Counter
	standby  prometheus.Counter
	hedged   prometheus.Counter
	refused  prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *engineMetrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "millstream_query_" + name + "_total", Help: help})
	}
	m := &engineMetrics{
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "millstream_query_duration_seconds", Help: "Time a query took, by language.", Buckets: prometheus.ExponentialBuckets(0.002, 2.5, 12),
		}, []string{"language"}),
		failed:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "millstream_query_failed_total", Help: "Queries that failed, by kind of error."}, []string{"kind"}),
		rows:     counter("scanned_rows", "Rows that queries looked at one by one."),
		bytes:    counter("scanned_bytes", "Encoded bytes that queries read."),
		partial:  counter("partial", "Answers that were not complete."),
		fallback: counter("sql_engine", "Statements that needed the SQL engine."),
		dropped:  counter("tail_dropped_rows", "Rows that a live tail left out because its reader was slow."),
		standby:  counter("standby_reads", "Times that segments were read by others because their owner could not be reached, failed or was busy."),
		hedged:   counter("hedged_reads", "Times that an owner of segments was silent for so long that others were asked as well."),
		refused:  counter("leaf_refused", "Parts of other nodes' queries for which this node had no place, so that others read the segments."),
	}
	if r != nil {
		r.MustRegister(m.duration, m.failed, m.rows, m.bytes, m.partial, m.fallback, m.dropped, m.standby, m.hedged, m.refused)
	}
	return m
}

func (m *engineMetrics) observe(language string, took time.Duration, a Answer, err error) {
	m.duration.WithLabelValues(language).Observe(took.Seconds())
	m.rows.Add(float64(a.Stats.ScannedRows))
	m.bytes.Add(float64(a.Stats.ScannedBytes))
	switch {
	case err != nil:
		m.failed.WithLabelValues(kindName(millstream.KindOf(err))).Inc()
	case len(a.Reasons) > 0:
		m.partial.Inc()
	}
}

// kindName is a bounded label for an error.
func kindName(k millstream.Kind) string {
	switch k {
	case millstream.Invalid, millstream.Unprocessable, millstream.TooLarge, millstream.Unsupported:
		return "invalid"
	case millstream.NotFound:
		return "not_found"
	case millstream.RateLimited:
		return "rate_limited"
	case millstream.Unavailable:
		return "unavailable"
	case millstream.Timeout:
		return "timeout"
	case millstream.Canceled:
		return "canceled"
	}
	return "internal"
}
