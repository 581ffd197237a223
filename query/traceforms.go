package query

import (
	"cmp"
	"container/heap"
	"context"
	"slices"
	"strings"

	"github.com/millstream/millstream"
)

// TraceColumns is a whole trace for a waterfall: one array a property, the spans from top to bottom, each before its children and children by start. Services,
// names, kinds and statuses are numbers into the lists. Times are ns after Start.
type TraceColumns struct {
	TraceID    string     `json:"trace_id"`
	Start      string     `json:"start"`
	DurationNS int64      `json:"duration_ns"`
	Services   []string   `json:"services"`
	Names      []string   `json:"names"`
	Kinds      []string   `json:"kinds"`
	Statuses   []string   `json:"statuses"`
	Spans      SpanArrays `json:"spans"`
	// MissingParent are the places of the spans that name a parent which is not there.
	MissingParent []int32 `json:"missing_parent"`
	// CriticalPath has [place, from, to] for each part of the critical path.
	CriticalPath [][3]int64 `json:"critical_path"`
	*Answer
}

// SpanArrays are the properties of a trace's spans.
type SpanArrays struct {
	ID       []string `json:"id"`
	Parent   []int32  `json:"parent"` // place of the parent, -1: none
	Start    []int64  `json:"start"`
	Duration []int64  `json:"duration"`
	Self     []int64  `json:"self"`
	Depth    []int32  `json:"depth"`
	Children []int32  `json:"children"` // how many
	Service  []uint32 `json:"service"`
	Name     []uint32 `json:"name"`
	Kind     []uint32 `json:"kind"`
	Status   []uint32 `json:"status"`
}

// TraceColumns reads the shape of a whole trace, as Trace does its spans.
func (e *Engine) TraceColumns(ctx context.Context, req Request, stream, id string) (*TraceColumns, error) {
	var t *traceTree
	id, answer, err := e.tree(ctx, req, stream, id, &t)
	if err != nil {
		return nil, err
	}
	out := &TraceColumns{
		TraceID: id, Start: millstream.FormatTime(t.start), DurationNS: t.end - t.start, Services: t.services.list, Names: t.names.list, Kinds: t.kinds.list,
		Statuses: t.statuses.list, MissingParent: []int32{}, CriticalPath: [][3]int64{}, Answer: answer,
	}
	s := &out.Spans
	for i := range t.nodes {
		n := &t.nodes[i]
		s.ID, s.Parent, s.Start, s.Duration, s.Self = append(s.ID, n.id), append(s.Parent, n.up), append(s.Start, n.start-t.start), append(s.Duration, n.end-n.start), append(s.Self, n.self)
		s.Depth, s.Children = append(s.Depth, n.depth), append(s.Children, n.children)
		s.Service, s.Name, s.Kind, s.Status = append(s.Service, n.service), append(s.Name, n.name), append(s.Kind, n.kind), append(s.Status, n.status)
		if n.missing {
			out.MissingParent = append(out.MissingParent, int32(i))
		}
	}
	for _, p := range t.criticalPath() {
		out.CriticalPath = append(out.CriticalPath, [3]int64{int64(p.node), p.from - t.start, p.to - t.start})
	}
	return out, nil
}

// tree runs the query that reads a trace's shape, and gives the id as it is stored.
func (e *Engine) tree(ctx context.Context, req Request, stream, id string, into **traceTree) (string, *Answer, error) {
	req, id, err := traceRequest(req, id)
	if err != nil {
		return "", nil, err
	}
	answer, err := e.do(ctx, req, func(ctx context.Context, q *task) (err error) {
		*into, err = e.loadTree(ctx, q, stream, id)
		return err
	})
	if err == nil && *into == nil { // stopped before it was read
		err = millstream.Errorf(millstream.Canceled, "the query was stopped")
	}
	return id, answer, err
}

// TreeSpan is a span in a tree, without attributes.
type TreeSpan struct {
	SpanID        string `json:"span_id"`
	ParentSpanID  string `json:"parent_span_id,omitempty"`
	Name          string `json:"name"`
	Kind          string `json:"kind,omitempty"`
	Service       string `json:"service,omitempty"`
	Status        string `json:"status,omitempty"`
	Start         string `json:"start"`
	DurationNS    int64  `json:"duration_ns"`
	SelfNS        int64  `json:"self_ns"`
	Depth         int32  `json:"depth"`
	Children      int32  `json:"children"`    // in the trace, whether or not they are listed
	Descendants   int32  `json:"descendants"` // likewise
	MissingParent bool   `json:"missing_parent,omitempty"`
}

func (t *traceTree) span(i int32) TreeSpan {
	n := &t.nodes[i]
	return TreeSpan{
		SpanID: n.id, ParentSpanID: n.parent, Name: t.names.list[n.name], Kind: t.kinds.list[n.kind], Service: t.services.list[n.service],
		Status: t.statuses.list[n.status], Start: millstream.FormatTime(n.start), DurationNS: n.end - n.start, SelfNS: n.self, Depth: n.depth, Children: n.children,
		Descendants: n.below, MissingParent: n.missing,
	}
}

// PathStep is a part of the critical path: from Start on, for DurationNS, the trace waited for the span.
type PathStep struct {
	SpanID     string `json:"span_id"`
	Start      string `json:"start"`
	DurationNS int64  `json:"duration_ns"`
}

func (t *traceTree) pathSteps() []PathStep {
	out := []PathStep{}
	for _, p := range t.criticalPath() {
		out = append(out, PathStep{t.nodes[p.node].id, millstream.FormatTime(p.from), p.to - p.from})
	}
	return out
}

// TraceSummaryTree is the part of a large trace that is looked at first: the spans nearest to the root, of those of one depth the longest, and the critical path.
type TraceSummaryTree struct {
	TraceID      string     `json:"trace_id"`
	Total        int        `json:"total"` // spans in the trace
	Start        string     `json:"start"`
	DurationNS   int64      `json:"duration_ns"`
	Errors       int        `json:"errors"`
	Services     []string   `json:"services"`
	Spans        []TreeSpan `json:"spans"` // from top to bottom; the parent of each is among them
	CriticalPath []PathStep `json:"critical_path"`
	*Answer
}

// Bounds of a part of a trace.
const (
	defaultBudget = 2000
	maxBudget     = 20_000
)

// SummarizeTrace gives up to budget spans of a trace; 0: 2,000.
func (e *Engine) SummarizeTrace(ctx context.Context, req Request, stream, id string, budget int) (*TraceSummaryTree, error) {
	budget = cmp.Or(budget, defaultBudget)
	if budget < 1 || budget > maxBudget {
		return nil, millstream.Errorf(millstream.Invalid, "a summary has from 1 to %d spans", maxBudget)
	}
	var t *traceTree
	id, answer, err := e.tree(ctx, req, stream, id, &t)
	if err != nil {
		return nil, err
	}
	out := &TraceSummaryTree{
		TraceID: id, Total: len(t.nodes), Start: millstream.FormatTime(t.start), DurationNS: t.end - t.start, Services: slices.Sorted(slices.Values(t.services.list)),
		Spans: []TreeSpan{}, CriticalPath: t.pathSteps(), Answer: answer,
	}
	for i := range t.nodes {
		if t.statuses.list[t.nodes[i].status] == "error" {
			out.Errors++
		}
	}
	for _, i := range t.nearest(budget) {
		out.Spans = append(out.Spans, t.span(i))
	}
	return out, nil
}

// nearest chooses spans for a summary, in the tree's order.
func (t *traceTree) nearest(budget int) []int32 {
	chosen := make([]bool, len(t.nodes))
	n, line := 0, []int32{}
	for _, p := range t.criticalPath() {
		line = line[:0]
		for i := p.node; i >= 0 && !chosen[i]; i = t.nodes[i].up {
			line = append(line, i)
		}
		if n+len(line) > budget {
			continue
		}
		n += len(line)
		for _, i := range line {
			chosen[i] = true
		}
	}
	next := &byDepth{t: t, list: slices.Clone(t.roots)}
	heap.Init(next)
	for next.Len() > 0 && n < budget {
		i := heap.Pop(next).(int32)
		if !chosen[i] {
			chosen[i] = true
			n++
		}
		for c := t.nodes[i].first; c >= 0; c = t.nodes[c].after {
			heap.Push(next, c)
		}
	}
	var out []int32
	for i, c := range chosen {
		if c {
			out = append(out, int32(i))
		}
	}
	return out
}

// byDepth orders spans by their depth, then by their duration.
type byDepth struct {
	t    *traceTree
	list []int32
}

func (h *byDepth) Len() int { return len(h.list) }
func (h *byDepth) Less(i, j int) bool {
	a, b := &h.t.nodes[h.list[i]], &h.t.nodes[h.list[j]]
	return cmp.Or(cmp.Compare(a.depth, b.depth), cmp.Compare(b.end-b.start, a.end-a.start), cmp.Compare(h.list[i], h.list[j])) < 0
}
func (h *byDepth) Swap(i, j int) { h.list[i], h.list[j] = h.list[j], h.list[i] }
func (h *byDepth) Push(x any)    { h.list = append(h.list, x.(int32)) }
func (h *byDepth) Pop() any {
	x := h.list[len(h.list)-1]
	h.list = h.list[:len(h.list)-1]
	return x
}

// SpanChildren is a stretch of the children of a span, or of a trace's roots, by start.
type SpanChildren struct {
	TraceID string     `json:"trace_id"`
	SpanID  string     `json:"span_id,omitempty"`
	Total   int        `json:"total"`
	Spans   []TreeSpan `json:"spans"`
	*Answer
}

// TraceChildren gives up to limit children of a span after the first offset ones; 0: 1,000. Without a span they are the roots.
func (e *Engine) TraceChildren(ctx context.Context, req Request, stream, id, span string, offset, limit int) (*SpanChildren, error) {
	if limit = cmp.Or(limit, 1000); limit < 0 || limit > maxBudget || offset < 0 {
		return nil, millstream.Errorf(millstream.Invalid, "the limit of children is from 1 to %d, and the offset is not negative", maxBudget)
	}
	var t *traceTree
	id, answer, err := e.tree(ctx, req, stream, id, &t)
	if err != nil {
		return nil, err
	}
	list := t.roots
	if span != "" {
		at := slices.IndexFunc(t.nodes, func(n node) bool { return strings.EqualFold(n.id, span) })
		if at < 0 {
			return nil, millstream.Errorf(millstream.NotFound, "the trace %s has no span %s", id, span)
		}
		list = nil
		for c := t.nodes[at].first; c >= 0; c = t.nodes[c].after {
			list = append(list, c)
		}
	}
	out := &SpanChildren{TraceID: id, SpanID: span, Total: len(list), Spans: []TreeSpan{}, Answer: answer}
	for _, i := range list[min(offset, len(list)):min(offset+limit, len(list))] {
		out.Spans = append(out.Spans, t.span(i))
	}
	return out, nil
}
