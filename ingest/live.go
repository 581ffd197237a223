package ingest

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/store"
)

// Live is the catalog as of now: what it has of streams and metrics, joined with what the nodes took and have not published yet. The catalog itself learns of new
// fields, and of the metadata of metrics, when their rows are published. What a node cannot tell in time is left out, and reasons say so.
type Live struct {
	*store.Store
	Mirror *Mirror // nil: the catalog alone
}

// Streams lists streams with their unflushed rows. While a flush becomes visible, its rows may be counted twice, or not, for a moment: queries are exact.
func (l Live) Streams(ctx context.Context, org millstream.OrgID, sig millstream.Signal) (all []store.StreamSummary, reasons []string, err error) {
	all, err = l.Store.Streams(ctx, org, sig)
	if err != nil || len(all) == 0 {
		return all, nil, err
	}
	pending, reasons, err := l.pending(ctx, PendingAsk{Org: org})
	for i := range all {
		all[i] = pending[all[i].ID].Add(all[i])
	}
	return all, reasons, err
}

// Unflushed is what the nodes have of a stream and the catalog does not.
func (l Live) Unflushed(ctx context.Context, id millstream.StreamID) (Pending, []string, error) {
	all, reasons, err := l.pending(ctx, PendingAsk{Streams: []millstream.StreamID{id}})
	return all[id], reasons, err
}

func (l Live) pending(ctx context.Context, a PendingAsk) (map[millstream.StreamID]Pending, []string, error) {
	wals, err := l.wals(ctx)
	if err != nil || len(wals) == 0 {
		return nil, nil, err
	}
	out := map[millstream.StreamID]Pending{}
	missing := ask(ctx, l.Mirror, wals, func(ctx context.Context, h Holder, id millstream.WALID) (map[millstream.StreamID]Pending, error) {
		return h.Pending(ctx, PendingAsk{WAL: id, Streams: a.Streams, Org: a.Org})
	}, func(part map[millstream.StreamID]Pending) {
		for id, p := range part {
			out[id] = out[id].with(p)
		}
	})
	return out, uncounted(missing), nil
}

// Metadata lists the descriptions of an organization's metrics by name.
func (l Live) Metadata(ctx context.Context, org millstream.OrgID) (all []millstream.Metadata, reasons []string, err error) {
	all, err = l.Store.Metadata(ctx, org)
	if err != nil {
		return nil, nil, err
	}
	wals, err := l.wals(ctx)
	if err != nil || len(wals) == 0 {
		return all, nil, err
	}
	at := map[string]int{}
	for i, m := range all {
		at[m.Name] = i
	}
	missing := ask(ctx, l.Mirror, wals, func(ctx context.Context, h Holder, id millstream.WALID) ([]millstream.Metadata, error) {
		return h.Metadata(ctx, id, org)
	}, func(part []millstream.Metadata) {
		for _, m := range part {
			if i, ok := at[m.Name]; ok {
				all[i] = m
				continue
			}
			at[m.Name] = len(all)
			all = append(all, m)
		}
	})
	slices.SortFunc(all, func(a, b millstream.Metadata) int { return cmp.Compare(a.Name, b.Name) })
	return all, uncounted(missing), nil
}

// wals are the WALs that may have unflushed rows. A node that is alone knows without asking.
func (l Live) wals(ctx context.Context) ([]store.WALState, error) {
	switch {
	case l.Mirror == nil:
		return nil, nil
	case l.Mirror.cfg.Dial == nil:
		return l.Mirror.alone(), nil
	}
	all, err := l.Store.WALs(ctx)
	return slices.DeleteFunc(all, func(w store.WALState) bool { return w.Clean }), err
}

func uncounted(missing []Missing) (reasons []string) {
	for _, m := range missing {
		reasons = append(reasons, fmt.Sprintf("unflushed records of node %s are not counted: it did not tell", m.WAL.Node))
	}
	return reasons
}

// Pending is what a stream has beyond the catalog.
type Pending struct {
	Rows, Bytes      int64 // bytes in memory and in local files
	MinTime, MaxTime int64 // if there are rows
	Fields           []millstream.Field
}

// Add adds the rows to what a stream's segments hold, and their fields to its schema.
func (p Pending) Add(s store.StreamSummary) store.StreamSummary {
	s.Schema.Fields = joinFields(s.Schema.Fields, p.Fields)
	if p.Rows == 0 {
		return s
	}
	if s.Rows == 0 {
		s.MinTime, s.MaxTime = p.MinTime, p.MaxTime
	}
	s.MinTime, s.MaxTime = min(s.MinTime, p.MinTime), max(s.MaxTime, p.MaxTime)
	s.Rows, s.Bytes, s.Unflushed = s.Rows+p.Rows, s.Bytes+p.Bytes, p.Rows
	return s
}

// add counts records between two times.
func (p *Pending) add(n, first, last int64) {
	if n == 0 {
		return
	}
	if p.Rows == 0 {
		p.MinTime, p.MaxTime = first, last
	}
	p.Rows, p.MinTime, p.MaxTime = p.Rows+n, min(p.MinTime, first), max(p.MaxTime, last)
}

// with is what two WALs have of a stream.
func (p Pending) with(q Pending) Pending {
	p.add(q.Rows, q.MinTime, q.MaxTime)
	p.Bytes += q.Bytes
	p.Fields = joinFields(p.Fields, q.Fields)
	return p
}

// joinFields adds fields to a list, in a copy of it.
func joinFields(known, more []millstream.Field) []millstream.Field {
	if len(more) == 0 {
		return known
	}
	known = slices.Clone(known)
	at := make(map[string]int, len(known))
	for i, f := range known {
		at[f.Name] = i
	}
	for _, f := range more {
		if i, ok := at[f.Name]; ok {
			known[i] = known[i].Join(f)
			continue
		}
		at[f.Name] = len(known)
		known = append(known, f)
	}
	return known
}
