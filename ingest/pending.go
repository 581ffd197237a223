package ingest

import (
	"context"
	"slices"
	"time"

	"github.com/millstream/millstream"
)

// PendingAsk asks for what a WAL has of streams beyond the catalog.
type PendingAsk struct {
	WAL     millstream.WALID
	Streams []millstream.StreamID // these, or
	Org     millstream.OrgID      // every stream of an organization
}

// Pending sums what is buffered of streams and not known to be published; a stream of which there is nothing is not in the answer. It is ErrNotReady while the
// WAL is being replayed, once the writer is fenced, and for a WAL of another writer.
func (w *Writer) Pending(_ context.Context, a PendingAsk) (map[millstream.StreamID]Pending, error) {
	defer w.Hold()() // the sources stay while they are asked
	sums := map[millstream.StreamID]*pendingSum{}
	err := w.eachUnpublished(a.WAL, func(r *bufferRange) {
		for _, id := range a.Streams {
			if sb := r.streams[id]; sb != nil {
				addPending(sums, sb)
			}
		}
		if len(a.Streams) > 0 {
			return
		}
		for _, sb := range r.streams {
			if sb.org == a.Org {
				addPending(sums, sb)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	out := make(map[millstream.StreamID]Pending, len(sums))
	for id, s := range sums {
		out[id] = s.total()
	}
	return out, nil
}

// pendingSum collects a stream's Pending.
type pendingSum struct {
	bytes  int64
	rows   Unflushed
	fields map[string]millstream.Field
}

func addPending(sums map[millstream.StreamID]*pendingSum, sb *streamBuffer) {
	s := sums[sb.stream]
	if s == nil {
		s = &pendingSum{fields: map[string]millstream.Field{}}
		sums[sb.stream] = s
	}
	sb.sources(&s.rows)
	s.bytes += sb.memory + sb.disk
	for name, f := range sb.fields {
		if old, ok := s.fields[name]; ok {
			f = old.Join(f)
		}
		s.fields[name] = f
	}
}

func (s *pendingSum) total() Pending {
	p := Pending{Bytes: s.bytes}
	for _, name := range sortedNames(s.fields) {
		p.Fields = append(p.Fields, s.fields[name])
	}
	for _, r := range s.rows.Logs {
		first, last := r.Span()
		p.add(int64(r.Rows()), first, last)
	}
	for _, r := range s.rows.Metrics {
		first, last := r.Span()
		p.add(r.Samples(), first*int64(time.Millisecond), last*int64(time.Millisecond))
	}
	return p
}

func sortedNames(fields map[string]millstream.Field) []string {
	names := make([]string, 0, len(fields))
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Metadata is what unpublished batches say of an organization's metrics, the latest last. The errors are those of Pending.
func (w *Writer) Metadata(_ context.Context, id millstream.WALID, org millstream.OrgID) (out []millstream.Metadata, err error) {
	err = w.eachUnpublished(id, func(r *bufferRange) {
		for _, sb := range r.streams {
			switch {
			case sb.org != org || sb.signal != millstream.Metrics:
			case sb.head != nil:
				out = append(out, sb.head.Metadata()...)
			default:
				out = append(out, sb.metadata...) // set before the head went
			}
		}
	})
	return out, err
}

// eachUnpublished calls f for each range that is not known to be in the catalog, oldest first. No rows come in meanwhile.
func (w *Writer) eachUnpublished(id millstream.WALID, f func(*bufferRange)) error {
	w.insertMu.Lock() // of the fields
	defer w.insertMu.Unlock()
	w.mu.RLock()
	defer w.mu.RUnlock()
	if err := w.tells(id); err != nil {
		return err
	}
	for _, r := range w.ranges {
		if r.state != published {
			f(r)
		}
	}
	return nil
}
