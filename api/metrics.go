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

// meters are the counters of one route, looked up once instead of at each request.
type meters struct {
	requests [6]prometheus.Counter // by the first digit of the status
	seconds  prometheus.Observer
}

var classes = [...]string{"other", "1xx", "2xx", "3xx", "4xx", "5xx"}

func (m *metrics) of(path, method string) *meters {
	out := &meters{seconds: m.seconds.WithLabelValues(path)}
	for i, class := range classes {
		out.requests[i] = m.requests.WithLabelValues(path, method, class)
	}
	return out
}
