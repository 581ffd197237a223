package compactor

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// What merges have to do and have done is told in bytes and segments.
func TestMergesAreMeasured(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	st := w.app(6)
	in := int64(0)
	for _, g := range w.live(st) {
		in += g.Data.Length + g.Index.Length
	}
	reg := prometheus.NewRegistry()
	c := w.compactor(func(c *Config) { c.Groups, c.Registerer = 1, reg })
	backlog := func() float64 { return testutil.ToFloat64(c.metrics.backlog.WithLabelValues("nursery")) }
	c.groups <- struct{}{} // the node's only slot is taken
	done := make(chan error, 1)
	go func() { done <- c.Compact(ctx, string(st.ID)) }()
	for backlog() != float64(in) {
		select {
		case err := <-done:
			t.Fatalf("the merge did not wait: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	<-c.groups
	check(t, <-done)
	out := w.live(st)[0]
	for name, want := range map[string]float64{
		"backlog_bytes": 0, "merges_total": 1, "input_segments_total": 6, "input_bytes_total": float64(in), "output_bytes_total": float64(out.Data.Length + out.Index.Length),
		"merge_seconds": 1,
	} {
		if got := gathered(t, reg, "millstream_compactor_"+name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

// gathered is the sample of the nursery; of a histogram, how many there were.
func gathered(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := reg.Gather()
	check(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && m.GetLabel()[0].GetValue() == "nursery" {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	t.Fatalf("no metric %s of the nursery", name)
	return 0
}
