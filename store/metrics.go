package store

import "github.com/prometheus/client_golang/prometheus"

// Collector reports the pool of connections, and how manifests are read and unsealed.
func (s *Store) Collector() prometheus.Collector { return poolCollector{s} }

type poolCollector struct{ s *Store }

var (
	poolUsed    = prometheus.NewDesc("millstream_store_connections_used", "Connections to the database that run something.", nil, nil)
	poolIdle    = prometheus.NewDesc("millstream_store_connections_idle", "Connections to the database that wait for work.", nil, nil)
	poolMax     = prometheus.NewDesc("millstream_store_connections_max", "The most connections to the database that are allowed.", nil, nil)
	poolWaits   = prometheus.NewDesc("millstream_store_connection_waits_total", "Times that work waited because every connection was in use.", nil, nil)
	unsealed    = prometheus.NewDesc("millstream_store_unsealed_segments_total", "Segments that were taken out of manifests to be changed.", nil, nil)
	manifests   = prometheus.NewDesc("millstream_store_manifests_read_total", "Manifests that were read, from the database or from the cache of those that were read last.", []string{"from"}, nil)
	poolWaiting = prometheus.NewDesc("millstream_store_connection_wait_seconds_total", "Time spent on getting connections.", nil, nil)
)

func (c poolCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{poolUsed, poolIdle, poolMax, poolWaits, poolWaiting, unsealed, manifests} {
		ch <- d
	}
}

func (c poolCollector) Collect(ch chan<- prometheus.Metric) {
	st := c.s.pool.Stat()
	ch <- prometheus.MustNewConstMetric(unsealed, prometheus.CounterValue, float64(c.s.unsealed.Load()))
	ch <- prometheus.MustNewConstMetric(manifests, prometheus.CounterValue, float64(c.s.reads.fetched.Load()), "database")
	ch <- prometheus.MustNewConstMetric(manifests, prometheus.CounterValue, float64(c.s.reads.cached.Load()), "cache")
	ch <- prometheus.MustNewConstMetric(poolUsed, prometheus.GaugeValue, float64(st.AcquiredConns()))
	ch <- prometheus.MustNewConstMetric(poolIdle, prometheus.GaugeValue, float64(st.IdleConns()))
	ch <- prometheus.MustNewConstMetric(poolMax, prometheus.GaugeValue, float64(st.MaxConns()))
	ch <- prometheus.MustNewConstMetric(poolWaits, prometheus.CounterValue, float64(st.EmptyAcquireCount()))
	ch <- prometheus.MustNewConstMetric(poolWaiting, prometheus.CounterValue, st.AcquireDuration().Seconds())
}
