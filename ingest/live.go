package ingest

import (
	"cmp"
	"context"
	"slices"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/store"
)

// Live is the catalog as of now: what it has of streams and metrics, joined with what this node took and has not published yet. The catalog itself learns of new
// fields, and of the metadata of metrics, when their rows are published.
type Live struct {
	*store.Store
	Writer *Writer // nil: the catalog alone
}

// Stream is a stream whose schema has the fields of its unflushed rows.
func (l Live) Stream(ctx context.Context, k millstream.StreamKey) (store.Stream, error) {
	s, err := l.Store.Stream(ctx, k)
	return l.joined(s), err
}

// UpdateStream changes a stream's settings and gives it as Stream does.
func (l Live) UpdateStream(ctx context.Context, id millstream.StreamID, p store.StreamPatch, a auth.Entry) (store.Stream, error) {
	s, err := l.Store.UpdateStream(ctx, id, p, a)
	return l.joined(s), err
}

func (l Live) joined(s store.Stream) store.Stream {
	s.Schema = l.Unflushed(s.ID).join(s.Schema)
	return s
}

// Streams lists streams with their unflushed rows. While a flush becomes visible, its rows may be counted twice, or not, for a moment: queries are exact.
func (l Live) Streams(ctx context.Context, org millstream.OrgID, sig millstream.Signal) ([]store.StreamSummary, error) {
	all, err := l.Store.Streams(ctx, org, sig)
	for i := range all {
		all[i] = l.Unflushed(all[i].ID).Add(all[i])
	}
	return all, err
}

// Metadata lists the descriptions of an organization's metrics by name.
func (l Live) Metadata(ctx context.Context, org millstream.OrgID) ([]millstream.Metadata, error) {
	all, err := l.Store.Metadata(ctx, org)
	if err != nil || l.Writer == nil {
		return all, err
	}
	at := map[string]int{}
	for i, m := range all {
		at[m.Name] = i
	}
	pending, _ := l.Writer.Metadata(ctx, l.Writer.WAL(), org)
	for _, m := range pending {
		if i, ok := at[m.Name]; ok {
			all[i] = m
			continue
		}
		at[m.Name] = len(all)
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b millstream.Metadata) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// Unflushed is what this node has of a stream and the catalog does not.
func (l Live) Unflushed(id millstream.StreamID) Pending {
	if l.Writer == nil {
		return Pending{}
	}
	p, _ := l.Writer.Pending(context.Background(), PendingAsk{WAL: l.Writer.WAL(), Streams: []millstream.StreamID{id}})
	return p[id]
}

// Pending is what a stream has beyond the catalog.
type Pending struct {
	Rows, Bytes      int64 // bytes in memory and in local files
	MinTime, MaxTime int64 // if there are rows
	Fields           []millstream.Field
}

// Add adds the rows to what a stream's segments hold.
func (p Pending) Add(s store.StreamSummary) store.StreamSummary {
	s.Schema = p.join(s.Schema)
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

func (p Pending) join(s millstream.Schema) millstream.Schema {
	if len(p.Fields) == 0 {
		return s
	}
	s.Fields = slices.Clone(s.Fields)
	at := make(map[string]int, len(s.Fields))
	for i, f := range s.Fields {
		at[f.Name] = i
	}
	for _, f := range p.Fields {
		if i, ok := at[f.Name]; ok {
			s.Fields[i] = s.Fields[i].Join(f)
			continue
		}
		at[f.Name] = len(s.Fields)
		s.Fields = append(s.Fields, f)
	}
	return s
}
