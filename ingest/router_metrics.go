package ingest

import "github.com/prometheus/client_golang/prometheus"

// routerMetrics count what a router does beyond the first call of each node. Calls of the own intake are not forwarded ones.
type routerMetrics struct {
	forwarded, moved, repeated, unknown prometheus.Counter
}

func newRouterMetrics(r prometheus.Registerer) routerMetrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "millstream_ingest_router_" + name, Help: help})
	}
	m := routerMetrics{
		forwarded: counter("calls_total", "Calls of other nodes' intakes."),
		moved:     counter("moved_total", "Times that parts of a request went to the next node because one took nothing."),
		repeated:  counter("repeats_total", "Calls of unknown outcome that were repeated on the same node."),
		unknown:   counter("unknown_total", "Writes whose outcome stayed unknown, so that the sender was told to repeat them."),
	}
	if r != nil {
		r.MustRegister(m.forwarded, m.moved, m.repeated, m.unknown)
	}
	return m
}
