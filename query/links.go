package query

import (
	"cmp"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/millstream/millstream"
)

// links is what the edges of the service map need of the spans of a part. Spans are known by the hash of trace and span id: of 4 million spans, two have the same
// hash once in two million graphs. Where two spans have the same ids, the last is the parent, and one of the child's own part before those of others.
type links struct {
	services []string
	spans    []uint64 // hashes
	owners   []uint32 // the service of each span
	calls    []call   // whose both spans are in this part
	orphans  []child  // spans whose parent is not in this part
}

// call is all calls from one service to another.
type call struct {
	from, to      uint32
	calls, errors int64
	total         float64 // ns
}

// child is a span that has a parent.
type child struct {
	parent   uint64
	service  uint32
	failed   bool
	duration int64
}

// Bytes that entries of links take.
const (
	linkedBytes = 12
	callBytes   = 32
	childBytes  = 24
)

func (l *links) size() int64 {
	n := int64(linkedBytes*len(l.spans) + callBytes*len(l.calls) + childBytes*len(l.orphans))
	for _, s := range l.services {
		n += int64(16 + len(s))
	}
	return n
}

// linker makes links of spans that are given batch by batch. Until the end, services are told by operation.
type linker struct {
	trace, span, parent hashed
	spans               []uint64
	owners              []uint32
	children            []child
}

func newLinker(rows int) *linker {
	return &linker{spans: make([]uint64, 0, rows), owners: make([]uint32, 0, rows), children: make([]child, 0, rows)}
}

func (l *linker) begin(b *millstream.Batch) {
	l.trace.begin(b.Column("trace_id"))
	l.span.begin(b.Column("span_id"))
	l.parent.begin(b.Column("parent_span_id"))
}

// add adds row i of the batch.
func (l *linker) add(i int, operation uint32, failed bool, duration int64) {
	trace, _ := l.trace.of(i)
	span, _ := l.span.of(i)
	l.spans, l.owners = append(l.spans, pairHash(trace, span)), append(l.owners, operation)
	if parent, ok := l.parent.of(i); ok {
		l.children = append(l.children, child{pairHash(trace, parent), operation, failed, duration})
	}
}

// pairHash makes one hash of two. It is not symmetric: a trace may have the id of its root span.
func pairHash(a, b uint64) uint64 { return a*0x9e3779b97f4a7c15 + b }

// hashOf is the same on every node, since summaries of several are merged. Whoever looks for texts that meet confuses the figures of an organization of their own.
func hashOf(s string) uint64 { return xxhash.Sum64String(s) }

// hashed gives the hashes of a column's texts. Those of a dictionary are made once.
type hashed struct {
	col    *millstream.Column
	dict   *string // the dictionary that hashes are of, known by its first entry
	hashes []uint64
}

func (h *hashed) begin(c *millstream.Column) {
	h.col = c
	if c == nil || len(c.Dict) == 0 || h.dict == &c.Dict[0] && len(h.hashes) == len(c.Dict) {
		return
	}
	h.dict, h.hashes = &c.Dict[0], slices.Grow(h.hashes[:0], len(c.Dict))
	for _, v := range c.Dict {
		h.hashes = append(h.hashes, hashOf(v))
	}
}

// of is the hash of row i; false if there is no text, or an empty one.
func (h *hashed) of(i int) (uint64, bool) {
	switch {
	case h.col == nil || !h.col.IsValid(i):
		return 0, false
	case h.col.Codes != nil:
		return h.hashes[h.col.Codes[i]], h.col.Dict[h.col.Codes[i]] != ""
	}
	v := h.col.Text(i)
	return hashOf(v), v != ""
}

// finish looks up the parents that are in this part.
func (l *linker) finish(operations []operationSummary) *links {
	out := &links{spans: l.spans, owners: l.owners}
	numbers, service := map[string]uint32{}, make([]uint32, len(operations))
	for i, op := range operations {
		n, ok := numbers[op.service]
		if !ok {
			n = uint32(len(out.services))
			numbers[op.service], out.services = n, append(out.services, op.service)
		}
		service[i] = n
	}
	owner := make(map[uint64]uint32, len(l.spans))
	for i, h := range l.spans {
		out.owners[i] = service[l.owners[i]]
		owner[h] = out.owners[i]
	}
	calls := calls{}
	for _, c := range l.children {
		c.service = service[c.service]
		if from, ok := owner[c.parent]; ok {
			calls.add(from, &c)
		} else {
			out.orphans = append(out.orphans, c)
		}
	}
	for _, c := range calls {
		out.calls = append(out.calls, *c)
	}
	out.orphans = slices.Clip(out.orphans)
	return out
}

// calls are calls by the two services.
type calls map[[2]uint32]*call

func (m calls) between(from, to uint32) *call {
	c := m[[2]uint32{from, to}]
	if c == nil {
		c = &call{from: from, to: to}
		m[[2]uint32{from, to}] = c
	}
	return c
}

// add counts a span whose parent is of the service from.
func (m calls) add(from uint32, x *child) {
	if from == x.service {
		return
	}
	c := m.between(from, x.service)
	c.calls++
	if x.failed {
		c.errors++
	}
	c.total += float64(x.duration)
}

// mergeLinks makes links of those of several parts.
func mergeLinks(parts []*summary) *links {
	out, all, numbers := &links{}, calls{}, map[string]uint32{}
	for _, p := range parts {
		if p.links == nil {
			continue
		}
		local := make([]uint32, len(p.links.services)) // the number here of each service there
		for i, s := range p.links.services {
			n, ok := numbers[s]
			if !ok {
				n = uint32(len(out.services))
				numbers[s], out.services = n, append(out.services, s)
			}
			local[i] = n
		}
		out.spans = append(out.spans, p.links.spans...)
		for _, s := range p.links.owners {
			out.owners = append(out.owners, local[s])
		}
		for _, c := range p.links.calls {
			sum := all.between(local[c.from], local[c.to])
			sum.calls, sum.errors, sum.total = sum.calls+c.calls, sum.errors+c.errors, sum.total+c.total
		}
		for _, c := range p.links.orphans {
			c.service = local[c.service]
			out.orphans = append(out.orphans, c)
		}
	}
	out.adopt(all)
	for _, c := range all {
		out.calls = append(out.calls, *c)
	}
	return out
}

// adopt adds the calls of orphans whose parents are there after all, and forgets these orphans.
func (l *links) adopt(all calls) {
	if len(l.orphans) == 0 {
		return
	}
	wanted := make(map[uint64]uint32, len(l.orphans)) // the parent's service plus one; 0: not found
	for _, c := range l.orphans {
		wanted[c.parent] = 0
	}
	for i, h := range l.spans {
		if _, ok := wanted[h]; ok {
			wanted[h] = l.owners[i] + 1
		}
	}
	l.orphans = slices.Clip(slices.DeleteFunc(l.orphans, func(c child) bool {
		from := wanted[c.parent]
		if from > 0 {
			all.add(from-1, &c)
		}
		return from > 0
	}))
}

// edges lists the calls.
func (l *links) edges() []Edge {
	out := make([]Edge, 0, len(l.calls))
	for _, c := range l.calls {
		out = append(out, Edge{From: l.services[c.from], To: l.services[c.to], Calls: c.calls, Errors: c.errors, AvgNS: c.total / float64(c.calls)})
	}
	slices.SortFunc(out, func(a, b Edge) int { return cmp.Or(strings.Compare(a.From, b.From), strings.Compare(a.To, b.To)) })
	return out
}
