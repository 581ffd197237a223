package query

import (
	"cmp"
	"context"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query/scan"
	"github.com/millstream/millstream/query/sql"
)

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
		var all []*redPart
		graph, left := newGraph(), &budget{left: cmp.Or(e.cfg.Limits.Memory, scan.DefaultMemory)}
		err := e.eachTraceStream(ctx, q, stream, func(t *table) error {
			parts, err := e.red(ctx, q, t, left)
			all = append(all, parts...)
			if err != nil || !edges {
				return err
			}
			return e.edges(ctx, q, t, graph)
		})
		if err != nil {
			return err
		}
		out.Services = servicesOf(all, e.seconds(q))
		if edges {
			out.Edges = graph.edges(q)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// graph finds calls between services. Spans are known by the hash of trace and span id: of 4 million spans, two have the same hash once in two million graphs.
type graph struct {
	seed     maphash.Seed
	services map[string]uint32
	names    []string
	owner    map[uint64]uint32 // service of each span
	children []child
	cut      bool
}

type child struct {
	parent   uint64
	service  uint32
	failed   bool
	duration int64
}

func newGraph() *graph {
	return &graph{seed: maphash.MakeSeed(), services: map[string]uint32{}, owner: map[uint64]uint32{}}
}

func (g *graph) span(trace, span string) uint64 {
	var h maphash.Hash
	h.SetSeed(g.seed)
	_, _ = h.WriteString(trace) // a hash takes everything
	_ = h.WriteByte(0)
	_, _ = h.WriteString(span)
	return h.Sum64()
}

func (g *graph) service(name string) uint32 {
	id, ok := g.services[name]
	if !ok {
		id = uint32(len(g.names))
		name = strings.Clone(name)
		g.services[name], g.names = id, append(g.names, name)
	}
	return id
}

func (e *Engine) edges(ctx context.Context, q *task, t *table, g *graph) error {
	var out []sql.Output
	for _, f := range []string{"trace_id", "span_id", "parent_span_id", "service", "status", "duration_ns"} {
		out = append(out, sql.Output{Name: f, Field: f})
	}
	return e.kernel(ctx, q, t, &sql.Plan{Stream: t.key, Out: out, Limit: -1}, func(r *Rows) error {
		if len(g.owner) > maxEdgeSpans {
			g.cut = true
			return nil
		}
		for i := range r.N {
			trace, service := r.Columns[0].Text(i), g.service(r.Columns[3].Text(i))
			g.owner[g.span(trace, r.Columns[1].Text(i))] = service
			if parent := &r.Columns[2]; parent.IsValid(i) && parent.Text(i) != "" {
				c := child{parent: g.span(trace, parent.Text(i)), service: service, failed: r.Columns[4].Text(i) == "error"}
				if d := &r.Columns[5]; d.Type == millstream.Int64 {
					c.duration = d.Ints[i]
				}
				g.children = append(g.children, c)
			}
		}
		return nil
	})
}

func (g *graph) edges(q *task) []Edge {
	if g.cut {
		q.warn("the service map was made from a part of the spans: narrow the time range")
	}
	type pair struct{ from, to uint32 }
	found := map[pair]*Edge{}
	for _, c := range g.children {
		from, ok := g.owner[c.parent]
		if !ok || from == c.service {
			continue
		}
		e := found[pair{from, c.service}]
		if e == nil {
			e = &Edge{From: g.names[from], To: g.names[c.service]}
			found[pair{from, c.service}] = e
		}
		e.Calls++
		if c.failed {
			e.Errors++
		}
		e.AvgNS += (float64(c.duration) - e.AvgNS) / float64(e.Calls)
	}
	out := make([]Edge, 0, len(found))
	for _, e := range found {
		out = append(out, *e)
	}
	slices.SortFunc(out, func(a, b Edge) int { return cmp.Or(strings.Compare(a.From, b.From), strings.Compare(a.To, b.To)) })
	return out
}
