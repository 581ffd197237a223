package query

import "context"

// RED is rate, errors and duration of some spans. Durations are nanoseconds, exact for up to 256 spans and within 0.4 % beyond.
type RED struct {
	Spans  int64   `json:"spans"`
	Errors int64   `json:"errors"`
	Rate   float64 `json:"rate"` // spans per second of the range
	P50    float64 `json:"p50_ns"`
	P95    float64 `json:"p95_ns"`
	P99    float64 `json:"p99_ns"`
}

// Service is a service and what it does.
type Service struct {
	Name string `json:"name"`
	RED
	Operations []Operation `json:"operations"` // by number of spans
}

// Operation is a span name of a service.
type Operation struct {
	Name string `json:"name"`
	RED
}

// Edge is calls from one service to another: spans whose parent is a span of the other.
type Edge struct {
	From   string  `json:"from"`
	To     string  `json:"to"`
	Calls  int64   `json:"calls"`
	Errors int64   `json:"errors"`
	AvgNS  float64 `json:"avg_ns"`
}

// Services are the services of an organization in a time range, by name.
type Services struct {
	Services []Service `json:"services"`
	Edges    []Edge    `json:"edges"`
	*Answer
}

// maxOperations is how many operations of a service are listed.
const maxOperations = 50

// maxEdgeSpans is from how many spans edges are made.
const maxEdgeSpans = 4 << 20

// Services summarizes the spans of one trace stream, or of all if stream is empty. Edges, for the service map, need every span's ids and are made if asked for.
func (e *Engine) Services(ctx context.Context, req Request, stream string, edges bool) (*Services, error) {
	req.Language, req.Statement = "services", "services"
	out := &Services{}
	var err error
	out.Answer, err = e.do(ctx, req, func(ctx context.Context, q *task) error {
		out.Services, out.Edges = []Service{}, []Edge{}
		var parts []*summary
		red := e.newRedQuery(q, edges)
		err := e.eachTraceStream(ctx, q, stream, func(t *table) error {
			some, err := red.summaries(ctx, t)
			parts = append(parts, some...)
			return err
		})
		if err != nil {
			return err
		}
		all := merge(parts, edges)
		out.Services = servicesOf(all, e.seconds(q))
		if edges && all.links != nil {
			out.Edges = all.links.edges()
		}
		if red.cut.Load() {
			q.warn("the service map was made from a part of the spans: narrow the time range")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
