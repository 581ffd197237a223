package api

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	inflight prometheus.Gauge
	panics   prometheus.Counter
	accepted *prometheus.CounterVec
	rejected *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "millstream_api_requests_total", Help: "Requests by route, method and class of status."},
			[]string{"route", "method", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "millstream_api_request_seconds", Help: "Time from the first byte of a request to the last of its reply.",
			Buckets: []float64{.001, .005, .025, .1, .5, 2.5, 10, 60}}, []string{"route"}),
		inflight: prometheus.NewGauge(prometheus.GaugeOpts{Name: "millstream_api_requests_inflight", Help: "Requests being served."}),
		panics:   prometheus.NewCounter(prometheus.CounterOpts{Name: "millstream_api_panics_total", Help: "Handlers that panicked."}),
	}
	m.accepted = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "millstream_api_records_accepted_total", Help: "Records taken, by intake protocol."}, []string{"protocol"})
	m.rejected = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "millstream_api_records_rejected_total", Help: "Records refused one by one, by intake protocol."}, []string{"protocol"})
	reg.MustRegister(m.requests, m.seconds, m.inflight, m.panics, m.accepted, m.rejected)
	return m
}

var classes = [...]string{"", "1xx", "2xx", "3xx", "4xx", "5xx"}

func statusClass(code int) string {
	if c := code / 100; c > 0 && c < len(classes) {
		return classes[c]
	}
	return "other"
}
