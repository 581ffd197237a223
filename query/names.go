package query

import (
	"context"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/millstream/millstream/segment/metrics"
)

// MetricNames lists the names of the metrics with samples in the request's range, sorted.
func (e *Engine) MetricNames(ctx context.Context, req Request) (names []string, err error) {
	_, err = e.Metrics(ctx, req, func(ctx context.Context, srcs []metrics.Source, _ []string) error {
		var err error
		names, err = metrics.LabelValues(ctx, srcs, labels.MetricName, metrics.Query{Min: req.Range.Start / 1e6, Max: req.Range.End / 1e6, KeysOnly: true})
		return err
	})
	return names, err
}

// ServiceNames lists the services with spans in the request's range.
func (e *Engine) ServiceNames(ctx context.Context, req Request) ([]string, error) {
	found, err := e.Services(ctx, req, "", false)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(found.Services))
	for i, s := range found.Services {
		names[i] = s.Name
	}
	return names, nil
}
