package ingest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/segment/metrics"
)

// Ask is what a reader on another node wants of a WAL: its unflushed rows, but for those that the reader keeps. Rows are named by the position (LSN) of the
// write that brought them, under which nothing else can ever be logged: so they can be kept, and what is missing is said by one number a stream.
type Ask struct {
	WAL         millstream.WALID
	Incarnation int64          // whose runs the reader keeps; Have and Segments count only if the writer is still that one
	Above       millstream.LSN // the position that the reader's snapshot has of the WAL
	Streams     []StreamAsk
}

// StreamAsk is a stream of an Ask.
type StreamAsk struct {
	Stream   millstream.StreamID
	Have     millstream.LSN   // the reader keeps all rows above Ask.Above up to this position
	Segments []millstream.LSN // the Last of each segment among what it keeps
}

// Run is rows of one stream, those of all writes from First to Last: a batch of records, a batch of samples, or a segment.
type Run struct {
	Stream      millstream.StreamID
	Signal      millstream.Signal
	First, Last millstream.LSN
	// Part names the stretch of the stream that becomes one segment. A segment replaces all that the reader has from its First to its Last, so a reader that joins
	// batches must not join those of different parts.
	Part  millstream.LSN
	Batch *millstream.Batch // nil: a segment

	DataSize, IndexSize int64
	Data, Index         io.Reader // of a segment: Data is read to its end before Index
}

// Reach says which writes an answer has: all of this incarnation up to a position, which lies at or above the asked one.
type Reach struct {
	Incarnation int64
	To          millstream.LSN
}

// Runs calls emit, in the order of writing, with the runs that a reader lacks of what is unflushed above a position. A run is valid during the call. Sealed runs
// are given to a reader that has their rows as batches, too: they are several times smaller, and have an index. The errors are those of Unflushed. What is
// being given stays readable, whatever is published meanwhile.
func (w *Writer) Runs(ctx context.Context, a Ask, emit func(Run) error) (Reach, error) {
	defer w.Hold()()
	runs, reach, err := w.plan(a)
	if err != nil {
		return Reach{}, err
	}
	for i := range runs {
		if err := ctx.Err(); err != nil {
			return Reach{}, err
		}
		r, err := runs[i].open()
		if err != nil {
			return Reach{}, err
		}
		if err := emit(r); err != nil {
			return Reach{}, err
		}
	}
	return reach, nil
}

// planned is a run whose content is made when its turn comes. One of the fields after Run is set.
type planned struct {
	Run
	local *local
	head  *metrics.Head // as it was when it was planned
	run   *run
	after millstream.LSN // the rows of run that were written above it
}

func (p *planned) open() (Run, error) {
	switch {
	case p.local != nil:
		p.setSegment(p.local.data.reader(), p.local.data.n, p.local.index.reader(), p.local.index.n)
	case p.head != nil:
		var data, index bytes.Buffer
		if _, err := p.head.Encode(&data, &index); err != nil {
			return Run{}, fmt.Errorf("encode buffered samples: %w", err)
		}
		p.setSegment(&data, int64(data.Len()), &index, int64(index.Len()))
	case p.run != nil:
		p.Batch = p.run.above(p.after)
	}
	return p.Run, nil
}

func (p *planned) setSegment(data io.Reader, dataSize int64, index io.Reader, indexSize int64) {
	p.Data, p.DataSize, p.Index, p.IndexSize = data, dataSize, index, indexSize
}

// plan lists what a reader lacks. No rows come in meanwhile, so that it is exact.
func (w *Writer) plan(a Ask) ([]planned, Reach, error) {
	w.insertMu.Lock()
	defer w.insertMu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	ranges, to, err := w.above(a.WAL, a.Above)
	if err != nil {
		return nil, Reach{}, err
	}
	var out []planned
	for _, s := range a.Streams {
		if a.Incarnation != w.incarnation || s.Have < a.Above {
			s.Have, s.Segments = a.Above, nil
		}
		for _, r := range ranges {
			switch sb := r.streams[s.Stream]; {
			case sb == nil:
			case sb.signal == millstream.Metrics:
				out = w.planSamples(out, sb, s.Have, to)
			default:
				out = sb.planRows(out, s)
			}
		}
	}
	return out, Reach{Incarnation: w.incarnation, To: to}, nil
}

// planRows adds the buffer's runs of records. The caller holds mu.
func (sb *streamBuffer) planRows(out []planned, s StreamAsk) []planned {
	if sb.whole != nil {
		if sb.last <= s.Have {
			return out
		}
		return append(out, planned{Run: sb.named(sb.first, sb.last, sb.first), local: sb.whole})
	}
	add := func(runs []*run) {
		for _, t := range runs {
			if t.last > s.Have {
				out = append(out, planned{Run: sb.named(max(t.first, s.Have+1), t.last, runs[0].first), run: t, after: s.Have})
			}
		}
	}
	for _, p := range sb.parts {
		switch {
		case p.sealed == nil:
			add(p.runs)
		case !slices.Contains(s.Segments, p.last):
			out = append(out, planned{Run: sb.named(p.first, p.last, p.first), local: p.sealed})
		}
	}
	add(sb.tail)
	return out
}

func (sb *streamBuffer) named(first, last, part millstream.LSN) Run {
	return Run{Stream: sb.stream, Signal: sb.signal, First: first, Last: last, Part: part}
}

// planSamples adds what a reader lacks of the buffer's samples: the batches since its last asking, else all of them as a segment. From the first asking on the
// stream's batches are kept beside the head, which cannot give them again. The caller holds insertMu and mu.
func (w *Writer) planSamples(out []planned, sb *streamBuffer, have, to millstream.LSN) []planned {
	batches, ok := w.recent.since(sb.stream, have, to, w.cfg.Now())
	switch {
	case sb.last <= have:
		return out
	case ok:
		for _, b := range batches {
			if b.lsn >= sb.first && b.lsn <= sb.last {
				p := planned{Run: sb.named(b.lsn, b.lsn, sb.first)}
				p.Batch = b.batch
				out = append(out, p)
			}
		}
		return out
	case sb.whole != nil:
		return append(out, planned{Run: sb.named(sb.first, sb.last, sb.first), local: sb.whole})
	case sb.head.Samples() == 0:
		return out
	}
	return append(out, planned{Run: sb.named(sb.first, sb.last, sb.first), head: sb.head.Snapshot()})
}
