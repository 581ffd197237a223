package cache

import "github.com/prometheus/client_golang/prometheus"

type cacheMetrics struct {
	hits, misses, evictions, damaged, fetched prometheus.Counter
	bytes                                     prometheus.Gauge
}

func newMetrics(r prometheus.Registerer) *cacheMetrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "millstream_cache_" + name + "_total", Help: help})
	}
	m := &cacheMetrics{
		hits:      counter("hits", "Uses of segments for which nothing had to be fetched."),
		misses:    counter("misses", "Uses of segments for which something was fetched from the object store."),
		evictions: counter("evictions", "Segments removed from the local disk to make room."),
		damaged:   counter("damaged", "Times that bytes on the disk or from the object store failed a checksum."),
		fetched:   counter("fetched_bytes", "Bytes fetched from the object store."),
		bytes:     prometheus.NewGauge(prometheus.GaugeOpts{Name: "millstream_cache_size_bytes", Help: "Bytes of cached files."}),
	}
	if r != nil {
		r.MustRegister(m.hits, m.misses, m.evictions, m.damaged, m.fetched, m.bytes)
	}
	return m
}
