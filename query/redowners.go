package query

import (
	"context"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query/scan"
)

// servicesAsk asks for the summary of the spans of segments.
type servicesAsk struct {
	Edges map[millstream.SegmentID]bool // of these, links as well
}

// wireSummary is a summary between nodes. Integers travel in as many bytes as they need.
type wireSummary struct {
	Operations []wireOperation
	Durations  []int64
	Links      *wireLinks
}

type wireOperation struct {
	Service, Name string
	Spans, Errors int64
	End           int
}

type wireLinks struct {
	Services []string
	Spans    []uint64
	Owners   []uint32
	Calls    []wireCall
	Orphans  []wireChild
}

type wireCall struct {
	From, To      uint32
	Calls, Errors int64
	Total         float64
}

type wireChild struct {
	Parent   uint64
	Service  uint32
	Failed   bool
	Duration int64
}

// ofSegments has segments summarized by their owners.
func (r *redQuery) ofSegments(ctx context.Context, t *table) ([]*heard, error) {
	edges := map[millstream.SegmentID]bool{}
	for i := range t.segments {
		if s := &t.segments[i]; r.wantEdges(s.Rows) {
			edges[s.ID] = true
		}
	}
	p := &part{ask: leafAsk{Schema: t.schema, Range: r.q.Range, Services: &servicesAsk{edges}}}
	p.local = func(ctx context.Context, segments []millstream.Segment) (*heard, error) {
		found, err := r.read(ctx, r.localInputs(r.q, segments), t.schema, edges)
		return &heard{here: found}, err
	}
	return r.redivide(ctx, r.q, p, t.segments, nil)
}

// services summarizes spans for another node: one summary of all segments, whose own are kept here.
func (l *leaf) services(ctx context.Context, a *leafAsk) (scan.Stats, error) {
	l.q.Range = a.Range
	edges := len(a.Services.Edges) > 0
	r := l.e.newRedQuery(l.q, edges)
	parts, err := r.read(ctx, l.e.localInputs(l.q, a.Segments), a.Schema, a.Services.Edges)
	stats := scan.Stats{ScannedRows: l.q.answer.Stats.ScannedRows, ScannedBytes: l.q.answer.Stats.ScannedBytes}
	if err != nil {
		return stats, err
	}
	return stats, l.stateOf(merge(parts, edges).wire(edges))
}

// elsewhere is the summary that another node made.
func (r *redQuery) elsewhere(h *heard) (*summary, error) {
	var w wireSummary
	if err := h.decode(&w); err != nil {
		return nil, err
	}
	s := w.summary()
	if s == nil {
		return nil, errFrame
	}
	r.mu.Lock()
	r.q.scanned(h.done.Stats)
	r.mu.Unlock()
	r.q.progress.Sources.Add(h.done.Sources)
	return s, r.take(s)
}

func (s *summary) wire(edges bool) *wireSummary {
	w := &wireSummary{Durations: s.durations, Operations: make([]wireOperation, len(s.operations))}
	for i := range s.operations {
		op := &s.operations[i]
		w.Operations[i] = wireOperation{op.service, op.name, op.spans, op.errors, op.end}
	}
	if edges && s.links != nil {
		l := &wireLinks{Services: s.links.services, Spans: s.links.spans, Owners: s.links.owners}
		for _, c := range s.links.calls {
			l.Calls = append(l.Calls, wireCall{c.from, c.to, c.calls, c.errors, c.total})
		}
		for _, c := range s.links.orphans {
			l.Orphans = append(l.Orphans, wireChild{c.parent, c.service, c.failed, c.duration})
		}
		w.Links = l
	}
	return w
}

// summary is what was sent; nil if it does not fit together.
func (w *wireSummary) summary() *summary {
	s := &summary{durations: w.Durations, operations: make([]operationSummary, len(w.Operations))}
	end := 0
	for i, op := range w.Operations {
		if op.End < end || op.End > len(w.Durations) {
			return nil
		}
		end = op.End
		key := operationKey{op.Service, op.Name}
		s.operations[i] = operationSummary{operationKey: key, hash: key.hash(), spans: op.Spans, errors: op.Errors, end: op.End}
	}
	if w.Links != nil {
		if s.links = w.Links.links(); s.links == nil {
			return nil
		}
	}
	s.measure()
	return s
}

func (w *wireLinks) links() *links {
	l := &links{services: w.Services, spans: w.Spans, owners: w.Owners}
	known := func(services ...uint32) bool {
		for _, s := range services {
			if int(s) >= len(w.Services) {
				return false
			}
		}
		return true
	}
	if len(w.Owners) != len(w.Spans) || !known(w.Owners...) {
		return nil
	}
	for _, c := range w.Calls {
		if !known(c.From, c.To) {
			return nil
		}
		l.calls = append(l.calls, call{c.From, c.To, c.Calls, c.Errors, c.Total})
	}
	for _, c := range w.Orphans {
		if !known(c.Service) {
			return nil
		}
		l.orphans = append(l.orphans, child{c.Parent, c.Service, c.Failed, c.Duration})
	}
	return l
}
