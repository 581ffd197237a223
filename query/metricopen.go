package query

import (
	"context"
	"errors"

	"github.com/millstream/millstream/segment/metrics"
)

// MetricSnapshot is metric sources that stay open until Close: for an engine that asks for them in the middle of its own work.
type MetricSnapshot struct {
	Sources []metrics.Source
	Reasons []string       // why samples may be missing
	Close   func() *Answer // gives the sources back and returns what is known of the reading; nil if the query was cut off
	Done    <-chan struct{}
}

// OpenMetrics is Metrics turned inside out. The sources stay open, and the query in the running list, until Close is called, which must happen. When the query
// reaches its time limit or is canceled by a user, Done is closed; the caller then stops reading.
func (e *Engine) OpenMetrics(ctx context.Context, req Request) (*MetricSnapshot, error) {
	type outcome struct {
		answer *Answer
		err    error
	}
	opened := make(chan *MetricSnapshot, 1)
	finished := make(chan outcome, 1)
	closing := make(chan struct{})
	go func() {
		answer, err := e.Metrics(ctx, req, func(ctx context.Context, srcs []metrics.Source, reasons []string) error {
			opened <- &MetricSnapshot{Sources: lasting(srcs), Reasons: reasons, Done: ctx.Done()}
			<-closing // the sources are read until then, whatever happens to the context
			return ctx.Err()
		})
		finished <- outcome{answer, err}
	}()
	select {
	case s := <-opened:
		s.Close = func() *Answer {
			close(closing)
			return (<-finished).answer
		}
		return s, nil
	case o := <-finished:
		return nil, o.err
	}
}

// lasting makes sources say that the snapshot is too old when a segment is gone: who reads them cannot begin anew.
func lasting(srcs []metrics.Source) []metrics.Source {
	out := make([]metrics.Source, len(srcs))
	for i, s := range srcs {
		out[i] = lastingSource{s}
	}
	return out
}

type lastingSource struct{ metrics.Source }

func (s lastingSource) Select(ctx context.Context, q metrics.Query) ([]metrics.Series, error) {
	return notGone(s.Source.Select(ctx, q))
}

func (s lastingSource) LabelNames(ctx context.Context, q metrics.Query) ([]string, error) {
	return notGone(s.Source.LabelNames(ctx, q))
}

func (s lastingSource) LabelValues(ctx context.Context, label string, q metrics.Query) ([]string, error) {
	return notGone(s.Source.LabelValues(ctx, label, q))
}

func (s lastingSource) Names() ([]metrics.NameCount, error) { return notGone(s.Source.Names()) }

func (s lastingSource) Exemplars(ctx context.Context, q metrics.Query) ([]metrics.SeriesExemplars, error) {
	return notGone(s.Source.Exemplars(ctx, q))
}

func notGone[T any](v T, err error) (T, error) {
	if errors.Is(err, errGone) {
		err = tooOld(err)
	}
	return v, err
}
