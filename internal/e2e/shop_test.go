package e2e

import (
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// shop is an exporter with every kind of metric that moves with each scrape. Its values are sums of powers of two, so that sums do not depend on their order.
type shop struct {
	mu      sync.Mutex
	scrapes int

	orders  *prometheus.CounterVec
	stock   *prometheus.GaugeVec
	odd     prometheus.Gauge
	latency prometheus.Histogram
	native  *prometheus.HistogramVec
	sizes   prometheus.Summary
	dotted  prometheus.Gauge
}

func startShop(t *testing.T) (addr string) {
	t.Helper()
	s := &shop{
		orders:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "shop_orders_total", Help: "Orders by region and status."}, []string{"region", "status"}),
		stock:   prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "shop_stock", Help: "Items on stock."}, []string{"item"}),
		odd:     prometheus.NewGauge(prometheus.GaugeOpts{Name: "shop_odd", Help: "Not a number and the infinities."}),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "shop_latency_seconds", Help: "Latency.", Buckets: []float64{0.125, 0.5, 1, 4}}),
		native:  prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "shop_native_seconds", Help: "Latency as native histograms.", NativeHistogramBucketFactor: 1.1}, []string{"region"}),
		sizes:   prometheus.NewSummary(prometheus.SummaryOpts{Name: "shop_size_bytes", Help: "Sizes.", Objectives: map[float64]float64{0.5: 0.05, 0.99: 0.001}}),
		dotted:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "shop.open", Help: "A name that only UTF-8 allows, and a \"quoted\" text\nof two lines."}),
	}
	r := prometheus.NewRegistry()
	r.MustRegister(s.orders, s.stock, s.odd, s.latency, s.native, s.sizes, s.dotted)
	expose := promhttp.HandlerFor(r, promhttp.HandlerOpts{EnableOpenMetrics: true})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		s.step()
		// Prometheus asks for protobuf, the form with native histograms, without a word about names; the client library would write an underscore for the dot.
		req.Header.Set("Accept", strings.ReplaceAll(req.Header.Get("Accept"), "encoding=delimited", "encoding=delimited;escaping=allow-utf-8"))
		expose.ServeHTTP(w, req)
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// step moves the values on by one scrape.
func (s *shop) step() {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.scrapes
	s.scrapes++
	for i, region := range []string{"eu", "us", "ünïcode"} {
		trace := prometheus.Labels{"trace_id": "0af7651916cd43dd8448eb211c80319c"}
		s.orders.WithLabelValues(region, "ok").(prometheus.ExemplarAdder).AddWithExemplar(float64(i+1)*0.5, trace)
		s.orders.WithLabelValues(region, "failed").Add(float64(n % 2))
		s.native.WithLabelValues(region).Observe(math.Ldexp(1, n%7-3+i))
	}
	if n%4 == 3 { // the series ends with a staleness marker, and begins again at 0
		s.orders.DeleteLabelValues("us", "failed")
	}
	s.stock.WithLabelValues("apple").Set(float64(8 - n))
	if s.stock.DeleteLabelValues("pear"); n < 4 {
		s.stock.WithLabelValues("pear").Set(0.25)
	}
	s.odd.Set([]float64{math.NaN(), math.Inf(1), -1, math.Inf(-1), 0}[n%5]) // not -0: remote write leaves the sign out
	for i := range 8 {
		v := math.Ldexp(1, i-4)
		s.latency.(prometheus.ExemplarObserver).ObserveWithExemplar(v, prometheus.Labels{"trace_id": "4bf92f3577b34da6a3ce929d0e0e4736"})
		s.sizes.Observe(v)
	}
	s.dotted.Set(float64(n % 2))
}
