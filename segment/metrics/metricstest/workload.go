// Package metricstest makes samples for tests and benchmarks.
package metricstest

import (
	"fmt"
	"math"
	"strconv"

	"github.com/millstream/millstream"
)

// Workload is a set of series whose values are closed forms of time: one third application series, two thirds of a node exporter's.
type Workload struct {
	Keys   []string
	values []func(seconds float64, tick int) float64
	Start  int64 // ms
	Step   int64
}

func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// New returns a workload of n series.
func New(n int) *Workload {
	w := &Workload{Start: 1_796_000_000_000, Step: 15_000}
	for app := range max(1, n/312) {
		w.app(app)
	}
	for host := 0; len(w.Keys) < n; host++ {
		w.node(host)
	}
	w.Keys, w.values = w.Keys[:n], w.values[:n]
	return w
}

func (w *Workload) add(value func(float64, int) float64, labels ...string) {
	ls := []millstream.Label{{Name: "cluster", Value: "prod-eu-1"}}
	for i := 0; i < len(labels); i += 2 {
		ls = append(ls, millstream.Label{Name: labels[i], Value: labels[i+1]})
	}
	key, err := millstream.EncodeLabels(nil, ls)
	if err != nil {
		panic(err)
	}
	w.Keys, w.values = append(w.Keys, string(key)), append(w.values, value)
}

func (w *Workload) wave() (period, phase float64) {
	h := mix(uint64(len(w.Keys))*977 + 1)
	return 1800 + float64(h%7200), float64(h>>20%628) / 100
}

func (w *Workload) counter(rate, amp, scale, digits float64) func(float64, int) float64 {
	period, phase := w.wave()
	f := 2 * math.Pi / period
	return func(t float64, _ int) float64 {
		t += 5000
		v := scale * rate * (t + amp/f*(math.Cos(phase)-math.Cos(f*t+phase)))
		if digits == 0 {
			return math.Floor(v)
		}
		return math.Round(v*digits) / digits
	}
}

func (w *Workload) gauge(base, amp, digits float64) func(float64, int) float64 {
	period, phase := w.wave()
	seed := mix(uint64(len(w.Keys)) * 31)
	return func(t float64, tick int) float64 {
		noise := float64(mix(seed^uint64(tick))>>40)/float64(1<<24) - 0.5
		v := base * (1 + amp*0.8*math.Sin(2*math.Pi/period*t+phase) + amp*0.2*noise)
		return math.Round(v*digits) / digits
	}
}

func constantly(v float64) func(float64, int) float64 {
	return func(float64, int) float64 { return v }
}

var (
	testJobs    = []string{"api-gateway", "checkout", "cart", "catalog", "payments", "auth", "search-front", "recommendation"}
	testBuckets = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}
)

func (w *Workload) app(a int) {
	base := []string{"job", testJobs[a%len(testJobs)], "instance", fmt.Sprintf("10.20.%d.%d:8080", a/250, a%250)}
	with := func(name string, more ...string) []string {
		return append(append([]string{"__name__", name}, base...), more...)
	}
	for i, handler := range []string{"/orders", "/cart", "/products", "/search", "/profile", "/healthz"} {
		rate := 2 + 60*float64(mix(uint64(a*7+i))%1000)/1000/float64(i+1)
		for c, code := range []string{"200", "404", "500"} {
			w.add(w.counter(rate, 0.6, []float64{0.96, 0.03, 0.01}[c], 0), with("http_requests_total", "handler", handler, "code", code, "method", "GET")...)
		}
		for _, le := range testBuckets {
			share := 0.5 * math.Erfc(-math.Log(le/0.1)/0.9/math.Sqrt2)
			w.add(w.counter(rate, 0.6, share, 0), with("http_request_duration_seconds_bucket", "handler", handler, "le", strconv.FormatFloat(le, 'g', -1, 64))...)
		}
		w.add(w.counter(rate, 0.6, 1, 0), with("http_request_duration_seconds_bucket", "handler", handler, "le", "+Inf")...)
		w.add(w.counter(rate, 0.6, 1, 0), with("http_request_duration_seconds_count", "handler", handler)...)
		w.add(w.counter(rate, 0.6, 0.15, 1000), with("http_request_duration_seconds_sum", "handler", handler)...)
	}
	w.add(w.gauge(2e8, 0.3, 1), with("process_resident_memory_bytes")...)
	w.add(w.counter(0.3, 0.4, 1, 1000), with("process_cpu_seconds_total")...)
	w.add(w.gauge(180, 0.5, 1), with("go_goroutines")...)
	w.add(constantly(1), with("up")...)
}

func (w *Workload) node(h int) {
	base := []string{"job", "node", "instance", "node-" + strconv.Itoa(h) + ":9100"}
	with := func(name string, more ...string) []string {
		return append(append([]string{"__name__", name}, base...), more...)
	}
	for cpu := range 4 {
		for m, mode := range []string{"idle", "user", "system", "iowait", "irq", "softirq", "nice", "steal"} {
			rate := []float64{0.7, 0.2, 0.06, 0.02, 0.001, 0.01, 0.001, 0.008}[m]
			w.add(w.counter(rate, 0.5, 1, 1000), with("node_cpu_seconds_total", "cpu", strconv.Itoa(cpu), "mode", mode)...)
		}
	}
	for i, name := range []string{"MemTotal", "MemFree", "MemAvailable", "Buffers", "Cached", "SwapFree"} {
		value := w.gauge([]float64{0, 3e9, 9e9, 4e8, 5e9, 0}[i], 0.2, 1)
		if i == 0 || i == 5 {
			value = constantly([]float64{16777216000, 0, 0, 0, 0, 0}[i])
		}
		w.add(value, with("node_memory_"+name+"_bytes")...)
	}
	for _, mount := range []string{"/", "/var", "/data"} {
		w.add(constantly(2.1e11), with("node_filesystem_size_bytes", "mountpoint", mount, "fstype", "ext4")...)
		w.add(w.gauge(9e10, 0.05, 1), with("node_filesystem_avail_bytes", "mountpoint", mount, "fstype", "ext4")...)
	}
	for _, device := range []string{"eth0", "eth1"} {
		w.add(w.counter(2e6, 0.7, 1, 0), with("node_network_receive_bytes_total", "device", device)...)
		w.add(w.counter(1e6, 0.7, 1, 0), with("node_network_transmit_bytes_total", "device", device)...)
	}
	for i, load := range []string{"node_load1", "node_load5", "node_load15"} {
		w.add(w.gauge(1.5, 0.8/float64(i+1), 100), with(load)...)
	}
	w.add(constantly(1), with("up")...)
}

// Batch is the samples of ticks [from, to) of series [a, b), by series.
func (w *Workload) Batch(a, b, from, to int) *millstream.Samples {
	s := &millstream.Samples{Series: w.Keys[a:b]}
	for i := a; i < b; i++ {
		for tick := from; tick < to; tick++ {
			s.Ref = append(s.Ref, uint32(i-a))
			s.Time = append(s.Time, w.Start+int64(tick)*w.Step)
			s.Value = append(s.Value, w.values[i](float64(int64(tick)*w.Step)/1000, tick))
		}
	}
	return s
}
