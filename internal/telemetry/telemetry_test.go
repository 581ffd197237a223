package telemetry

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millstream/millstream"
)

// sink keeps what is appended, or refuses it.
type sink struct {
	mu   sync.Mutex
	got  []*millstream.Batch
	fail error
}

func (s *sink) Append(_ context.Context, bs ...*millstream.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail == nil {
		s.got = append(s.got, bs...)
	}
	return s.fail
}

func TestCollectorWritesLogsAndMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		log, c := NewLogger(&text, "info", "json")
		reg := prometheus.NewRegistry()
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "h_seconds", Buckets: []float64{0.5, 1}})
		n := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "n_total"}, []string{"code"})
		reg.MustRegister(h, n)
		h.Observe(0.7)
		n.WithLabelValues("200").Add(3)
		log.Info("before the collector runs")
		to := &sink{}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() {
			done <- c.Run(ctx, Config{Node: "n1", To: to, Gatherer: reg, Log: log, Interval: time.Second, Org: func(context.Context) (millstream.OrgID, bool) { return "o", true }}, func() {})
		}()
		log.With("component", "wal").WithGroup("g").Error("broken", "file", "x", "bytes", 7, "took", 1500*time.Millisecond)
		log.Debug("below the level")
		time.Sleep(1100 * time.Millisecond)
		log.Info("last words")
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		rows := map[string]*millstream.Batch{}
		metrics := map[string]float64{}
		for _, b := range to.got {
			if b.Org != "o" {
				t.Errorf("org %q", b.Org)
			}
			if b.Signal == millstream.Logs {
				for i := range b.Rows() {
					rows[b.Column("message").Str(i)] = b
				}
				continue
			}
			for i, r := range b.Samples.Ref {
				k := b.Samples.Series[r]
				metrics[millstream.LabelValue(k, "__name__")+millstream.LabelValue(k, "le")+millstream.LabelValue(k, "code")] = b.Samples.Value[i]
			}
		}
		for _, want := range []string{"before the collector runs", "broken", "last words"} {
			if rows[want] == nil {
				t.Errorf("%q was not written", want)
			}
		}
		if rows["below the level"] != nil {
			t.Error("a record below the level was written")
		}
		b := rows["broken"]
		if c := b.Column("g.bytes"); c == nil || c.Type != millstream.Int64 {
			t.Errorf("g.bytes: %+v", c)
		}
		if c := b.Column("component"); c == nil || !strings.Contains(string(c.Bytes), "wal") {
			t.Errorf("component: %+v", c)
		}
		for k, want := range map[string]float64{"h_seconds_bucket0.5": 0, "h_seconds_bucket1": 1, "h_seconds_bucket+Inf": 1, "h_seconds_count": 1, "n_total200": 3} {
			if got, ok := metrics[k]; !ok || got != want {
				t.Errorf("%s = %v, %v; want %v", k, got, ok, want)
			}
		}
		if !strings.Contains(text.String(), `"msg":"broken"`) {
			t.Error("the log itself is missing")
		}
	})
}

func TestCollectorDoesNotFeedItself(t *testing.T) {
	var text bytes.Buffer
	log, c := NewLogger(&text, "info", "text")
	to := &sink{fail: errors.New("down")}
	cfg := Config{To: to, Gatherer: prometheus.NewRegistry(), Log: log, Org: func(context.Context) (millstream.OrgID, bool) { return "o", true }}
	log.Info("one")
	c.write(context.Background(), cfg)
	if len(c.queue) != 0 || c.Dropped() != 1 || !strings.Contains(text.String(), "could not be written") {
		t.Errorf("queue %d, dropped %d, log %q", len(c.queue), c.Dropped(), text.String())
	}
}

func TestCollectorIsBounded(t *testing.T) {
	log, c := NewLogger(&bytes.Buffer{}, "info", "text")
	c.setOn(true)
	for range maxQueued + 5 {
		log.Info("x")
	}
	if len(c.queue) != maxQueued || c.Dropped() != 5 {
		t.Errorf("queue %d, dropped %d", len(c.queue), c.Dropped())
	}
}
