package query_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query"
)

// named is one sample of each of some series, given as "name series".
func named(t testing.TB, series map[string]int) *millstream.Batch {
	t.Helper()
	s := &millstream.Samples{}
	for name, n := range series {
		for i := range n {
			key, err := millstream.EncodeLabels(nil, []millstream.Label{{Name: "__name__", Value: name}, {Name: "i", Value: fmt.Sprint(i)}})
			if err != nil {
				t.Fatal(err)
			}
			s.Ref, s.Time, s.Value = append(s.Ref, uint32(len(s.Series))), append(s.Time, epoch/1e6), append(s.Value, 1)
			s.Series = append(s.Series, string(key))
		}
	}
	return &millstream.Batch{Samples: s}
}

func TestFindMetrics(t *testing.T) {
	now := time.Unix(0, epoch).Add(time.Minute)
	n := newNode(t, func(c *query.Config) { c.Now = func() time.Time { return now } })
	find := func(search string, limit int) []string {
		t.Helper()
		found, total, answer, err := n.FindMetrics(t.Context(), query.Request{Org: org}, search, limit)
		if err != nil || answer.Partial {
			t.Fatal(err, answer)
		}
		out := []string{fmt.Sprint(total)}
		for _, m := range found {
			out = append(out, fmt.Sprint(m.Name, " ", m.Series))
		}
		return out
	}
	expect(t, "nothing", find("", 10), "0")
	n.append(millstream.Metrics, millstream.MetricStream, named(t, map[string]int{"http_requests_total": 3, "node_http_requests": 1, "up": 2, "xhttp": 1}))
	for _, state := range []string{"unflushed", "flushed"} {
		if state == "flushed" {
			n.flush()
		}
		expect(t, state, find("", 10), "4", "http_requests_total 3", "node_http_requests 1", "up 2", "xhttp 1")
		expect(t, state+": a word", find("HTTP", 10), "3", "http_requests_total 3", "node_http_requests 1", "xhttp 1")
		expect(t, state+": words", find("requests http", 1), "2", "http_requests_total 3")
		expect(t, state+": none", find("htreq", 10), "0")
	}
	n.append(millstream.Metrics, millstream.MetricStream, named(t, map[string]int{"up": 5, "down": 1}))
	expect(t, "more", find("", 10), "5", "down 1", "http_requests_total 3", "node_http_requests 1", "up 5", "xhttp 1")
	now = now.Add(7 * time.Hour)
	expect(t, "hours later", find("", 10), "0")
}

// BenchmarkFindMetrics searches 100,000 names, half of them unflushed.
func BenchmarkFindMetrics(b *testing.B) {
	now := time.Unix(0, epoch).Add(time.Minute)
	n := newNode(b, func(c *query.Config) { c.Now = func() time.Time { return now } })
	for half := range 2 {
		names := map[string]int{}
		for i := range 50_000 {
			names[fmt.Sprintf("service_%d_http_request_duration_%d_seconds", i%300, half*50_000+i)] = 1
		}
		n.append(millstream.Metrics, millstream.MetricStream, named(b, names))
		if half == 0 {
			n.flush()
		}
	}
	for name, search := range map[string]string{"all": "", "word": "duration_77", "two words": "service_12 request"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, _, _, err := n.FindMetrics(b.Context(), query.Request{Org: org}, search, 1000); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
