// Package suitetest writes the samples of Prometheus' test suite into storage.
package suitetest

import (
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/segment/metrics"
)

// Appender is how Prometheus' test suite writes; Take gets what it committed.
type Appender struct {
	Take func(*millstream.Samples) error
	b    millstream.Samples
}

// Append implements storage.AppenderV2.
func (a *Appender) Append(_ storage.SeriesRef, ls labels.Labels, st, t int64, v float64, h *histogram.Histogram, fh *histogram.FloatHistogram,
	_ storage.AppendV2Options) (storage.SeriesRef, error) {
	var list []millstream.Label
	ls.Range(func(l labels.Label) { list = append(list, millstream.Label{Name: l.Name, Value: l.Value}) })
	key, err := millstream.EncodeLabels(nil, list)
	if err != nil {
		return 0, err
	}
	var hist []byte
	if h != nil || fh != nil {
		hist = metrics.EncodeHistogram(nil, h, fh)
	}
	a.b.Ref = append(a.b.Ref, uint32(len(a.b.Series)))
	a.b.Series = append(a.b.Series, string(key))
	a.b.Time, a.b.Value = append(a.b.Time, t), append(a.b.Value, v)
	a.b.Start, a.b.Histogram = append(a.b.Start, st), append(a.b.Histogram, hist)
	return 1, nil
}

// Commit implements storage.AppenderV2.
func (a *Appender) Commit() error { return a.Take(&a.b) }

// Rollback implements storage.AppenderV2.
func (*Appender) Rollback() error { return nil }

// CutByTime divides a batch at multiples of n·7 minutes, so that most series of Prometheus' suite are cut; n = 0 keeps it whole. A cut at 10 minutes would meet
// the one difference that promql/testdata/misses.txt tells of.
func CutByTime(b *millstream.Samples, n int) []*millstream.Samples {
	if n == 0 {
		return []*millstream.Samples{b}
	}
	width := int64(n) * (7 * time.Minute).Milliseconds()
	var order []int64
	parts := map[int64]*millstream.Samples{}
	for i := range b.Ref {
		k := b.Time[i] / width
		p := parts[k]
		if p == nil {
			p = &millstream.Samples{Series: b.Series}
			parts[k], order = p, append(order, k)
		}
		p.Ref, p.Time, p.Value = append(p.Ref, b.Ref[i]), append(p.Time, b.Time[i]), append(p.Value, b.Value[i])
		p.Start, p.Histogram = append(p.Start, b.Start[i]), append(p.Histogram, b.Histogram[i])
	}
	var out []*millstream.Samples
	for _, k := range order {
		out = append(out, parts[k])
	}
	return out
}
