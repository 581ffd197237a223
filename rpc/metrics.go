package rpc

import (
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// instruments are the metrics of one side.
type instruments struct {
	calls   *prometheus.CounterVec
	flying  *prometheus.GaugeVec
	seconds *prometheus.HistogramVec
	refused *prometheus.CounterVec // server only
	broken  prometheus.Counter     // client only
	methods sync.Map               // of *instrument, by a call's full or short method; only methods that this release knows
}

// newInstruments registers the metrics of a side, server or client; a nil registerer leaves them unregistered.
func newInstruments(r prometheus.Registerer, side string) *instruments {
	name := func(n string) string { return "millstream_rpc_" + side + "_" + n }
	m := &instruments{
		calls:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: name("calls_total"), Help: "Finished calls between nodes by outcome."}, []string{"method", "code"}),
		flying:  prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name("in_flight_calls"), Help: "Calls between nodes under way."}, []string{"method"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name("call_seconds"), Help: "Duration of calls between nodes.", Buckets: prometheus.ExponentialBuckets(0.0005, 4, 10)}, []string{"method"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{Name: name("refused_calls_total"), Help: "Calls refused before they were read: wrong token or protocol."}, []string{"reason"}),
		broken:  prometheus.NewCounter(prometheus.CounterOpts{Name: name("broken_connections_total"), Help: "Connections closed because the peer gave no sign of life."}),
	}
	if r != nil {
		r.MustRegister(m.calls, m.flying, m.seconds)
		if side == "server" {
			r.MustRegister(m.refused)
		} else {
			r.MustRegister(m.broken)
		}
	}
	return m
}

// instrument is the part of one method, looked up once.
type instrument struct {
	method  string
	flying  prometheus.Gauge
	seconds prometheus.Observer
	ok      prometheus.Counter
}

func (m *instruments) of(method string) *instrument {
	if i, ok := m.methods.Load(method); ok {
		return i.(*instrument)
	}
	short := method[strings.LastIndexByte(method, '.')+1:] // Intake/Write of /millstream.rpc.v1.Intake/Write
	i, _ := m.methods.LoadOrStore(method, &instrument{
		method: short, flying: m.flying.WithLabelValues(short), seconds: m.seconds.WithLabelValues(short), ok: m.calls.WithLabelValues(short, codes.OK.String()),
	})
	return i.(*instrument)
}

// begin counts a call in; the function that it returns counts it out with its outcome.
func (m *instruments) begin(method string) (end func(err error)) {
	i, start := m.of(method), time.Now()
	i.flying.Inc()
	return func(err error) {
		i.flying.Dec()
		i.seconds.Observe(time.Since(start).Seconds())
		if err == nil {
			i.ok.Inc()
		} else {
			m.calls.WithLabelValues(i.method, status.Code(err).String()).Inc()
		}
	}
}
