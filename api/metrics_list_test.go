package api

import (
	"context"
	"testing"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query"
)

// fakeMetrics has three metrics, of which two are described.
type fakeMetrics struct {
	metricReader
	metadataReader
	search string
}

func (f *fakeMetrics) FindMetrics(_ context.Context, _ query.Request, search string, limit int) ([]query.MetricName, int, *query.Answer, error) {
	f.search = search
	all := []query.MetricName{{Name: "lat_bucket", Series: 20}, {Name: "up", Series: 2}, {Name: "x", Series: 1}}
	return all[:min(limit, 3)], 3, &query.Answer{Warnings: []string{}}, nil
}

func (f *fakeMetrics) MetadataOf(_ context.Context, _ millstream.OrgID, names []string) (map[string]millstream.Metadata, error) {
	known := map[string]millstream.Metadata{}
	for _, n := range names {
		switch n {
		case "lat":
			known[n] = millstream.Metadata{Name: n, Type: "histogram", Unit: "s", Help: "latency"}
		case "up":
			known[n] = millstream.Metadata{Name: n, Type: "gauge"}
		}
	}
	return known, nil
}

func TestMetricsCall(t *testing.T) {
	t.Parallel()
	f := &fakeMetrics{}
	w := newWorld(t, func(a *API) { a.Metrics, a.Metadata = f, f })
	token := w.root()
	var got metricsView
	w.want(200, "GET", "/api/v1/query/metrics?search=l%20b", token, nil, &got)
	if f.search != "l b" || got.Total != 3 || got.Cut || len(got.Metrics) != 3 || got.Metrics[0] != (metricView{"lat_bucket", "histogram", "s", "latency", 20}) || got.Metrics[1].Type != "gauge" || got.Metrics[2].Type != "" {
		t.Errorf("%q %+v", f.search, got)
	}
	w.want(200, "GET", "/api/v1/query/metrics?limit=1", token, nil, &got)
	if !got.Cut || got.Total != 3 || len(got.Metrics) != 1 {
		t.Errorf("%+v", got)
	}
	checkProblem(t, "limit", w.call("GET", "/api/v1/query/metrics?limit=1001", token, nil), 400, "invalid_argument", "1000")
}
