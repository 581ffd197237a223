package telemetry

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/millstream/millstream"
)

// logBatch turns log records into records of the reserved stream, with the columns that other senders' logs have.
func logBatch(node millstream.NodeID, entries []entry) *millstream.Batch {
	b := millstream.NewBuilder(millstream.Limits{})
	for _, e := range entries {
		b.String([]byte("message"), []byte(e.msg))
		b.String([]byte("level"), []byte(strings.ToLower(e.level.String())))
		b.String([]byte("service"), []byte("millstream"))
		b.String([]byte("node"), []byte(node))
		for _, a := range e.fields {
			setField(b, a.Key, a.Value.Resolve())
		}
		_ = b.Commit(e.at.UnixNano()) // a record over the limits is dropped: telemetry is best effort
	}
	out := b.Batch()
	if out != nil {
		out.Signal, out.Name = millstream.Logs, millstream.SelfStream
	}
	return out
}

func setField(b *millstream.Builder, key string, v slog.Value) {
	name := []byte(key)
	switch v.Kind() {
	case slog.KindInt64:
		b.Int(name, v.Int64())
	case slog.KindFloat64:
		b.Double(name, v.Float64())
	case slog.KindBool:
		b.Bool(name, v.Bool())
	case slog.KindDuration:
		b.Double(append(name, "_seconds"...), v.Duration().Seconds())
	case slog.KindTime:
		b.Time(name, v.Time().UnixNano())
	case slog.KindGroup:
		for _, a := range v.Group() {
			setField(b, key+"."+a.Key, a.Value.Resolve())
		}
	default:
		b.String(name, []byte(v.String()))
	}
}

// metricBatch reads every metric of the registry as one batch of samples, the way a scrape would see them.
func metricBatch(node millstream.NodeID, g prometheus.Gatherer, now time.Time) *millstream.Batch {
	families, _ := g.Gather() // what could be gathered is written; a failing collector shows in /metrics
	s := &sampler{out: &millstream.Samples{}, now: now.UnixMilli(), node: string(node)}
	for _, f := range families {
		typ := strings.ToLower(f.GetType().String())
		s.out.Metadata = append(s.out.Metadata, millstream.Metadata{Name: f.GetName(), Type: typ, Unit: f.GetUnit(), Help: f.GetHelp()})
		for _, m := range f.GetMetric() {
			s.metric(f.GetName(), m)
		}
	}
	if len(s.out.Ref) == 0 {
		return nil
	}
	return &millstream.Batch{Signal: millstream.Metrics, Name: millstream.MetricStream, Samples: s.out}
}

type sampler struct {
	out  *millstream.Samples
	now  int64
	node string
}

func (s *sampler) metric(name string, m *dto.Metric) {
	switch {
	case m.Gauge != nil:
		s.add(name, m, "", "", m.Gauge.GetValue())
	case m.Counter != nil:
		s.add(name, m, "", "", m.Counter.GetValue())
	case m.Untyped != nil:
		s.add(name, m, "", "", m.Untyped.GetValue())
	case m.Summary != nil:
		for _, q := range m.Summary.GetQuantile() {
			s.add(name, m, "quantile", number(q.GetQuantile()), q.GetValue())
		}
		s.add(name+"_sum", m, "", "", m.Summary.GetSampleSum())
		s.add(name+"_count", m, "", "", float64(m.Summary.GetSampleCount()))
	case m.Histogram != nil:
		for _, b := range m.Histogram.GetBucket() {
			s.add(name+"_bucket", m, "le", number(b.GetUpperBound()), float64(b.GetCumulativeCount()))
		}
		s.add(name+"_bucket", m, "le", "+Inf", float64(m.Histogram.GetSampleCount()))
		s.add(name+"_sum", m, "", "", m.Histogram.GetSampleSum())
		s.add(name+"_count", m, "", "", float64(m.Histogram.GetSampleCount()))
	}
}

func (s *sampler) add(name string, m *dto.Metric, extra, extraValue string, v float64) {
	labels := []millstream.Label{{Name: "__name__", Value: name}, {Name: "job", Value: "millstream"}, {Name: "instance", Value: s.node}}
	for _, l := range m.GetLabel() {
		labels = append(labels, millstream.Label{Name: l.GetName(), Value: l.GetValue()})
	}
	if extra != "" {
		labels = append(labels, millstream.Label{Name: extra, Value: extraValue})
	}
	key, err := millstream.EncodeLabels(nil, labels)
	if err != nil {
		return // a metric with a label of the names above: none of ours has
	}
	s.out.Series = append(s.out.Series, string(key))
	s.out.Ref = append(s.out.Ref, uint32(len(s.out.Series)-1))
	s.out.Time = append(s.out.Time, s.now)
	s.out.Value = append(s.out.Value, v)
}

// number writes a bucket bound or quantile as the Prometheus text format does.
func number(f float64) string {
	if s := fmt.Sprint(f); s == "+Inf" {
		return s
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}
