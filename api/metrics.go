package api

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	inflight prometheus.Gauge
	panics   prometheus.Counter
	accepted *prometheus.CounterVec
	rejected *prometheus.CounterVec
	limited  *prometheus.CounterVec

	forwarded map[string]prometheus.Counter // by what became of a request that a querier was to answer
	missed    prometheus.Counter
}

// What became of a request that a querier was to answer.
const (
	answered = "answered" // whatever the answer was
	cut      = "cut"      // the answer broke off
	nobody   = "nobody"   // no querier could be reached
)

// newMetrics registers the counters. Requests that other nodes passed on have metrics of their own, so that a sum over the cluster counts every request once.
func newMetrics(reg prometheus.Registerer, passed bool) *metrics {
	prefix := "millstream_api_"
	if passed {
		prefix = "millstream_querier_"
	}
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + "requests_total", Help: "Requests by route, method and class of status."},
			[]string{"route", "method", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: prefix + "request_seconds", Help: "Time from the first byte of a request to the last of its reply.",
			Buckets: []float64{.001, .005, .025, .1, .5, 2.5, 10, 60}}, []string{"route"}),
		inflight: prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "requests_inflight", Help: "Requests being served."}),
		panics:   prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + "panics_total", Help: "Handlers that panicked."}),
	}
	reg.MustRegister(m.requests, m.seconds, m.inflight, m.panics)
	if passed {
		return m
	}
	m.accepted = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "millstream_api_records_accepted_total", Help: "Records taken, by intake protocol."}, []string{"protocol"})
	m.rejected = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "millstream_api_records_rejected_total", Help: "Records refused one by one, by intake protocol."}, []string{"protocol"})
	m.limited = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "millstream_api_rate_limited_total", Help: "Requests refused because their organization's rate limit was reached, by class: intake, query."}, []string{"class"})
	forwarded := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "millstream_api_forwarded_total", Help: "Requests passed on to queriers, by what became of them: answered, cut, nobody."}, []string{"result"})
	m.missed = prometheus.NewCounter(prometheus.CounterOpts{Name: "millstream_api_forward_missed_total", Help: "Queriers that could not be reached with a request, which then went to the next."})
	m.forwarded = map[string]prometheus.Counter{}
	for _, result := range []string{answered, cut, nobody} {
		m.forwarded[result] = forwarded.WithLabelValues(result)
	}
	reg.MustRegister(m.accepted, m.rejected, m.limited, forwarded, m.missed)
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
