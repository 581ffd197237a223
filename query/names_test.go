package query_test

import (
	"slices"
	"testing"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query"
)

func TestNames(t *testing.T) {
	n := newNode(t, nil)
	spans(n)
	n.append(millstream.Metrics, millstream.MetricStream, samples(0))
	services, err := n.ServiceNames(t.Context(), query.Request{Org: org, Range: day})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(services)
	expect(t, "services", services, "db", "web", "worker")
	metrics, err := n.MetricNames(t.Context(), query.Request{Org: org, Range: day})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "metrics", metrics, "cpu", "memory")
	none := millstream.TimeRange{Start: 1, End: 2}
	if metrics, err = n.MetricNames(t.Context(), query.Request{Org: org, Range: none}); err != nil || len(metrics) != 0 {
		t.Errorf("metrics of another time: %v, %v", metrics, err)
	}
}
