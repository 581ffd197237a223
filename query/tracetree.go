package query

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query/sql"
	"github.com/millstream/millstream/segment"
)

// maxTreeSpans is how many spans of one trace a tree is made of.
const maxTreeSpans = 500_000

// node is a span in a tree: what the shape of a trace is made of, without its attributes. Texts are numbers into the tree's lists.
type node struct {
	id, parent   string // as sent; parent is empty for a root
	start, end   int64  // ns; the end may not lie before the start
	service      uint32
	name         uint32
	kind         uint32
	status       uint32
	up           int32 // index of the parent, -1: none, or it is missing
	first, after int32 // indices of the first child and of the next child of the same parent by start, -1: none
	children     int32
	below        int32 // descendants
	depth        int32
	self         int64 // ns in which no child was at work
	missing      bool  // it names a parent that is not in the trace
	row          int   // place in the list that the tree was made from
}

// traceTree is the spans of a trace as a tree, in the order in which it is read from top to bottom: each span before its children, children by start.
type traceTree struct {
	nodes    []node
	roots    []int32
	start    int64 // of the first span
	end      int64 // of the last to end
	services textList
	names    textList
	kinds    textList
	statuses textList
}

// textList numbers distinct texts.
type textList struct {
	list []string
	at   map[string]uint32
}

func (l *textList) number(s string) uint32 {
	n, ok := l.at[s]
	if !ok {
		if l.at == nil {
			l.at = map[string]uint32{}
		}
		n = uint32(len(l.list))
		s = strings.Clone(s)
		l.at[s], l.list = n, append(l.list, s)
	}
	return n
}

// treeFields are what a tree is made of.
var treeFields = []string{millstream.TimestampField, "span_id", "parent_span_id", "service", "name", "kind", "status", "duration_ns"}

// loadTree reads the shape of a trace.
func (e *Engine) loadTree(ctx context.Context, q *task, stream, id string) (*traceTree, error) {
	var out []sql.Output
	for _, f := range treeFields {
		out = append(out, sql.Output{Name: f, Field: f})
	}
	t := &traceTree{}
	err := e.eachTraceStream(ctx, q, stream, func(tb *table) error {
		p := &sql.Plan{Stream: tb.key, Filter: ofTrace(id), Out: out, Limit: -1}
		return e.kernel(ctx, q, tb, p, func(r *Rows) error {
			if len(t.nodes) >= maxTreeSpans {
				q.warn("the trace has more spans than are shown")
				return nil
			}
			for i := range r.N {
				t.add(r.Columns, i)
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	if len(t.nodes) == 0 {
		return nil, millstream.Errorf(millstream.NotFound, "there is no trace %s", id)
	}
	t.grow()
	return t, nil
}

func ofTrace(id string) segment.Expr {
	return segment.Compare{Field: "trace_id", Op: segment.Eq, Value: text(id)}
}

// add takes a span as the columns of treeFields.
func (t *traceTree) add(cols []millstream.Column, i int) {
	n := node{
		start: cols[0].Ints[i], id: strings.Clone(cols[1].Text(i)), parent: strings.Clone(cols[2].Text(i)), service: t.services.number(cols[3].Text(i)),
		name: t.names.number(cols[4].Text(i)), kind: t.kinds.number(cols[5].Text(i)), status: t.statuses.number(cols[6].Text(i)),
	}
	length := int64(0)
	if d := &cols[7]; d.Type == millstream.Int64 && d.IsValid(i) {
		length = d.Ints[i]
	}
	t.put(n, length)
}

func (t *traceTree) put(n node, length int64) {
	n.end, n.row = n.start+max(0, length), len(t.nodes)
	t.nodes = append(t.nodes, n)
}

// describe notes in a trace's spans what their tree tells.
func (t *traceTree) describe(spans []Span) {
	for i := range t.nodes {
		n := &t.nodes[i]
		s := &spans[n.row]
		s.SelfNS, s.Depth, s.Children, s.MissingParent = n.self, n.depth, n.children, n.missing
	}
}

// treeOf makes a tree of spans at hand, at least one.
func treeOf(spans []Span) *traceTree {
	t := &traceTree{}
	for i := range spans {
		s := &spans[i]
		t.put(node{id: s.SpanID, parent: s.ParentSpanID, start: s.start}, s.DurationNS)
	}
	t.grow()
	return t
}

// grow finds parents and children, puts the spans in order and works out what follows from it.
func (t *traceTree) grow() {
	slices.SortStableFunc(t.nodes, func(a, b node) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end)) })
	t.link()
	t.arrange()
	t.start, t.end = t.nodes[0].start, t.nodes[0].end
	for i := range t.nodes {
		t.start, t.end = min(t.start, t.nodes[i].start), max(t.end, t.nodes[i].end)
	}
	for i := len(t.nodes) - 1; i >= 0; i-- { // children come after their parents
		n := &t.nodes[i]
		if n.up >= 0 {
			t.nodes[n.up].below += 1 + n.below
		}
		n.self = t.selfTime(n)
	}
}

// link gives each span its parent. The first of several spans with one id is the parent of all that name it.
func (t *traceTree) link() {
	at := make(map[string]int32, len(t.nodes))
	for i := len(t.nodes) - 1; i >= 0; i-- {
		at[t.nodes[i].id] = int32(i)
	}
	for i := range t.nodes {
		n := &t.nodes[i]
		n.up, n.first, n.after = -1, -1, -1
		if n.parent == "" {
			continue
		}
		if up, ok := at[n.parent]; ok && up != int32(i) {
			n.up = up
		} else {
			n.missing = true
		}
	}
	t.cutCycles()
	t.chain()
}

// cutCycles makes roots of spans that are their own ancestors, so that every span is below a root.
func (t *traceTree) cutCycles() {
	const fresh, open, done = 0, 1, 2
	state := make([]uint8, len(t.nodes))
	var path []int32
	for i := range t.nodes {
		at := int32(i)
		for path = path[:0]; at >= 0 && state[at] == fresh; at = t.nodes[at].up {
			state[at] = open
			path = append(path, at)
		}
		if at >= 0 && state[at] == open {
			t.nodes[at].up, t.nodes[at].missing = -1, true
		}
		for _, p := range path {
			state[p] = done
		}
	}
}

// chain lists the children of each span, and the roots, in the spans' order.
func (t *traceTree) chain() {
	t.roots = t.roots[:0]
	last := make([]int32, len(t.nodes))
	for i := range t.nodes {
		n := &t.nodes[i]
		if n.up < 0 {
			t.roots = append(t.roots, int32(i))
			continue
		}
		up := &t.nodes[n.up]
		if up.children++; up.children == 1 {
			up.first = int32(i)
		} else {
			t.nodes[last[n.up]].after = int32(i)
		}
		last[n.up] = int32(i)
	}
}

// arrange puts the spans in the order from top to bottom. Roots that say that they have a parent come last.
func (t *traceTree) arrange() {
	slices.SortStableFunc(t.roots, func(a, b int32) int { return compareBools(t.nodes[a].missing, t.nodes[b].missing) })
	to := make([]int32, len(t.nodes)) // new place of each span
	out := make([]node, 0, len(t.nodes))
	var stack []int32
	for i := len(t.roots) - 1; i >= 0; i-- {
		stack = append(stack, t.roots[i])
	}
	var children []int32
	for len(stack) > 0 {
		i := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		n := t.nodes[i]
		to[i] = int32(len(out))
		if n.up >= 0 {
			n.up = to[n.up]
			n.depth = out[n.up].depth + 1
		}
		out = append(out, n)
		children = children[:0]
		for c := n.first; c >= 0; c = t.nodes[c].after {
			children = append(children, c)
		}
		slices.Reverse(children)
		stack = append(stack, children...)
	}
	for i := range out {
		if out[i].first >= 0 {
			out[i].first = to[out[i].first]
		}
		if out[i].after >= 0 {
			out[i].after = to[out[i].after]
		}
	}
	for i, r := range t.roots {
		t.roots[i] = to[r]
	}
	t.nodes = out
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// selfTime is how long a span was at work while none of its children was. The children are in the order of their starts.
func (t *traceTree) selfTime(n *node) int64 {
	busy, until := int64(0), n.start
	for c := n.first; c >= 0; c = t.nodes[c].after {
		child := &t.nodes[c]
		from, to := max(child.start, until), min(child.end, n.end)
		if to > from {
			busy += to - from
			until = to
		}
	}
	return n.end - n.start - busy
}

// step is a part of the critical path: in it, the trace waited for this span.
type step struct {
	node     int32
	from, to int64
}

// criticalPath says which span the trace waited for at each moment of its main root: seen from the end, a span waited for the child that ended last, before
// that for the last child that had ended when that one began, and in between for itself. Children count as far as they lie within their parent.
func (t *traceTree) criticalPath() []step {
	root := t.mainRoot()
	type frame struct {
		node       int32
		start, end int64   // the span's time, as far as it lies within its parent's
		left       int64   // until where it is not explained yet
		children   []int32 // by end, those that end first in front
	}
	enter := func(i int32, from, to int64) frame {
		f := frame{node: i, start: from, end: to, left: to}
		for c := t.nodes[i].first; c >= 0; c = t.nodes[c].after {
			f.children = append(f.children, c)
		}
		slices.SortStableFunc(f.children, func(a, b int32) int { return cmp.Compare(t.nodes[a].end, t.nodes[b].end) })
		return f
	}
	var path []step
	stack := []frame{enter(root, t.nodes[root].start, t.nodes[root].end)}
	for len(stack) > 0 {
		f := &stack[len(stack)-1]
		child := int32(-1)
		var from, to int64
		for child < 0 && len(f.children) > 0 {
			c := f.children[len(f.children)-1]
			f.children = f.children[:len(f.children)-1]
			from, to = max(t.nodes[c].start, f.start), min(t.nodes[c].end, f.end)
			if to <= f.left && from < to {
				child = c
			}
		}
		if child < 0 {
			if f.left > f.start {
				path = append(path, step{f.node, f.start, f.left})
			}
			stack = stack[:len(stack)-1]
			continue
		}
		if f.left > to {
			path = append(path, step{f.node, to, f.left})
		}
		f.left = from
		stack = append(stack, enter(child, from, to))
	}
	slices.Reverse(path)
	return path
}

// mainRoot is the longest span without a parent; if all say that they have one, the longest of those.
func (t *traceTree) mainRoot() int32 {
	best := t.roots[0]
	for _, r := range t.roots {
		a, b := &t.nodes[r], &t.nodes[best]
		if a.missing == b.missing && a.end-a.start > b.end-b.start {
			best = r
		}
	}
	return best
}
