package warm

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	share, warm, ratio prometheus.Gauge
	bytes              prometheus.Counter
	pushes, moved      *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "millstream_warmer_" + name, Help: help})
	}
	m := &metrics{
		share: gauge("share_segments", "Live segments that the node owns."),
		warm:  gauge("warm_segments", "Of them, those whose index is in the cache."),
		ratio: gauge("warm_ratio", "The part of the owned segments whose index is in the cache; 1 if it owns none."),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{Name: "millstream_warmer_fetched_bytes_total", Help: "Bytes fetched ahead of queries."}),
		pushes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "millstream_warmer_pushes_total", Help: "Merged segments that compactors pushed to the node, by outcome: accepted, declined, failed."}, []string{"outcome"}),
	}
	m.moved = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "millstream_warmer_moved_segments_total", Help: "Live segments that came to the node or left it because queriers or their weights changed, by direction: in, out."}, []string{"direction"})
	m.moved.WithLabelValues("in")
	m.moved.WithLabelValues("out")
	for _, outcome := range []string{"accepted", "declined", "failed"} {
		m.pushes.WithLabelValues(outcome)
	}
	if r != nil {
		r.MustRegister(m.share, m.warm, m.ratio, m.bytes, m.pushes, m.moved)
	}
	return m
}
