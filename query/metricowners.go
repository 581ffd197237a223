package query

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/segment/metrics"
)

// samplesAsk is a question about the samples of some segments.
type samplesAsk struct {
	What  samplesQuestion
	Label string // whose values are asked for
	Query metrics.Query
}

type samplesQuestion byte

// Questions, named after the methods of metrics.Source that they answer.
const (
	askSelect samplesQuestion = iota + 1
	askLabelNames
	askLabelValues
	askNames
	askExemplars
)

// samplesKnown is the answer to a question other than for series.
type samplesKnown struct {
	Texts     []string
	Names     []metrics.NameCount
	Exemplars []metrics.SeriesExemplars
}

// noSegment is the place of series without chunks: whose they are does not matter.
const noSegment = millstream.SegmentID("")

// answerSamples answers a question from segments that are read on this node, as many at a time as the engine has workers. Series with their chunks are emitted
// segment by segment, those of one segment by one goroutine in the order of its lists; without chunks they are emitted once for all.
func (e *Engine) answerSamples(ctx context.Context, q *task, a *samplesAsk, segments []millstream.Segment, emit func(millstream.SegmentID, []metrics.Series) error) (*samplesKnown, error) {
	defer e.prefetch(ctx, q, segments)()
	var (
		mu        sync.Mutex
		series    [][]metrics.Series
		texts     [][]string
		names     [][]metrics.NameCount
		exemplars [][]metrics.SeriesExemplars
	)
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(e.cfg.Workers)
	for _, s := range segments {
		g.Go(func() error {
			src, h, err := e.openSamples(gctx, q, s)
			if err != nil {
				return err
			}
			defer h.Release()
			one := []metrics.Source{src}
			if a.What == askSelect && !a.Query.KeysOnly {
				found, err := metrics.Select(gctx, one, a.Query)
				if err != nil || len(found) == 0 {
					return err
				}
				return emit(s.ID, found)
			}
			found := answerOf(gctx, a, one)
			mu.Lock()
			defer mu.Unlock()
			series, texts, names, exemplars = append(series, found.series), append(texts, found.Texts), append(names, found.Names), append(exemplars, found.Exemplars)
			return found.err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if keys := metrics.MergeSeries(slices.DeleteFunc(series, func(l []metrics.Series) bool { return len(l) == 0 })); len(keys) > 0 {
		if err := emit(noSegment, keys); err != nil {
			return nil, err
		}
	}
	return &samplesKnown{metrics.MergeTexts(texts), mostSeries(names), metrics.MergeExemplars(exemplars)}, nil
}

// segmentAnswer is what one segment knows of a question.
type segmentAnswer struct {
	samplesKnown
	series []metrics.Series
	err    error
}

func answerOf(ctx context.Context, a *samplesAsk, one []metrics.Source) (out segmentAnswer) {
	switch a.What {
	case askSelect:
		out.series, out.err = metrics.Select(ctx, one, a.Query)
	case askLabelNames:
		out.Texts, out.err = metrics.LabelNames(ctx, one, a.Query)
	case askLabelValues:
		out.Texts, out.err = metrics.LabelValues(ctx, one, a.Label, a.Query)
	case askNames:
		out.Names, out.err = one[0].Names()
	case askExemplars:
		out.Exemplars, out.err = metrics.Exemplars(ctx, one, a.Query)
	default:
		out.err = millstream.Errorf(millstream.Invalid, "there is no question %d about samples: are all nodes of one release?", a.What)
	}
	return out
}

// mostSeries joins lists of metric names: of each the greatest number of series.
func mostSeries(lists [][]metrics.NameCount) (out []metrics.NameCount) {
	at := map[string]int{}
	for _, list := range lists {
		for _, n := range list {
			i, ok := at[n.Name]
			if !ok {
				i = len(out)
				at[n.Name], out = i, append(out, n)
			}
			out[i].Series = max(out[i].Series, n.Series)
		}
	}
	return out
}

// samples answers a question about samples for another node.
func (l *leaf) samples(ctx context.Context, a *leafAsk) error {
	known, err := l.e.answerSamples(ctx, l.q, a.Samples, a.Segments, func(id millstream.SegmentID, list []metrics.Series) error {
		for piece := range metrics.Pieces(list, maxFrame) {
			err := l.send(frameSeries, func(b []byte) []byte {
				return metrics.AppendSeries(append(binary.AppendUvarint(b, uint64(len(id))), id...), piece)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || a.Samples.What == askSelect {
		return err
	}
	return l.stateOf(known)
}

// addSeries takes a frame of series.
func (h *heard) addSeries(body []byte) error {
	n, w := binary.Uvarint(body)
	if w <= 0 || n > uint64(len(body)-w) {
		return errFrame
	}
	list, err := metrics.DecodeSeries(body[w+int(n):])
	if err != nil {
		return fmt.Errorf("%w: %w", errFrame, err)
	}
	h.keepSeries(millstream.SegmentID(body[w:][:n]), list)
	return nil
}

func (h *heard) keepSeries(id millstream.SegmentID, list []metrics.Series) {
	if h.series == nil {
		h.series = map[millstream.SegmentID][][]metrics.Series{}
	}
	h.series[id] = append(h.series[id], list)
}

// ownedSamples is the source of metric segments that their owners read. A question is one call to each owner, however many of the segments it has. Nothing stays
// open between questions, so a segment may be gone at a later one: see ask.
type ownedSamples struct {
	ctx      context.Context // of the query: Names passes none
	e        *Engine
	q        *task
	segments []millstream.Segment // in the order in which they were written
	counted  sync.Once
}

// Span implements metrics.Source. In nanoseconds a time may be rounded to what they can hold, so that the span may be too wide, but never too narrow.
func (o *ownedSamples) Span() (first, last int64) {
	first, last = math.MaxInt64, math.MinInt64
	for i := range o.segments {
		from, to := millis(&o.segments[i])
		first, last = min(first, from), max(last, to)
	}
	return first, last
}

// millis is a segment's span in milliseconds. What is at the ends of the time that the catalog knows may lie beyond.
func millis(s *millstream.Segment) (first, last int64) {
	const limit = math.MaxInt64 / 1_000_000
	if first, last = s.MinTime/1_000_000, s.MaxTime/1_000_000; first <= -limit {
		first = math.MinInt64
	}
	if last >= limit {
		last = math.MaxInt64
	}
	return first, last
}

// Samples implements metrics.Source.
func (o *ownedSamples) Samples() (n int64) {
	for i := range o.segments {
		n += o.segments[i].Rows
	}
	return n
}

// overlapping are the segments with samples of a query's time.
func (o *ownedSamples) overlapping(q metrics.Query) []millstream.Segment {
	return slices.DeleteFunc(slices.Clone(o.segments), func(s millstream.Segment) bool {
		first, last := millis(&s)
		return first > q.Max || last < q.Min
	})
}

// ask puts a question to the owners of segments. A segment that is gone is Unavailable: a query that cannot begin anew with a newer snapshot fails with that.
func (o *ownedSamples) ask(ctx context.Context, segments []millstream.Segment, a samplesAsk) ([]*heard, error) {
	p := &part{ask: leafAsk{Samples: &a}, local: func(ctx context.Context, segments []millstream.Segment) (*heard, error) {
		return o.answerHere(ctx, segments, &a)
	}}
	found, err := o.e.redivide(ctx, o.q, p, segments, nil)
	if errors.Is(err, errGone) {
		err = tooOld(err)
	}
	if err == nil {
		o.counted.Do(func() { o.q.progress.Sources.Add(int64(len(o.segments))) })
	}
	return found, err
}

// answerHere asks segments that this node reads.
func (o *ownedSamples) answerHere(ctx context.Context, segments []millstream.Segment, a *samplesAsk) (*heard, error) {
	h := &heard{}
	var mu sync.Mutex
	known, err := o.e.answerSamples(ctx, o.q, a, segments, func(id millstream.SegmentID, list []metrics.Series) error {
		mu.Lock()
		defer mu.Unlock()
		h.keepSeries(id, list)
		return nil
	})
	h.here = known
	return h, err
}

// know is ask for what is not series.
func (o *ownedSamples) know(ctx context.Context, segments []millstream.Segment, a samplesAsk) ([]*samplesKnown, error) {
	found, err := o.ask(ctx, segments, a)
	if err != nil {
		return nil, err
	}
	out := make([]*samplesKnown, len(found))
	for i, h := range found {
		if known, ok := h.here.(*samplesKnown); ok {
			out[i] = known
			continue
		}
		out[i] = &samplesKnown{}
		if err := h.decode(out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Select implements metrics.Source. Of samples of one series and time the one of the segment written last counts, whoever read it.
func (o *ownedSamples) Select(ctx context.Context, q metrics.Query) ([]metrics.Series, error) {
	segments := o.overlapping(q)
	found, err := o.ask(ctx, segments, samplesAsk{What: askSelect, Query: q})
	if err != nil {
		return nil, err
	}
	var lists [][]metrics.Series
	for _, h := range found {
		lists = append(lists, h.series[noSegment]...)
	}
	for _, s := range segments {
		for _, h := range found {
			lists = append(lists, h.series[s.ID]...)
		}
	}
	return metrics.MergeSeries(lists), nil
}

// LabelNames implements metrics.Source.
func (o *ownedSamples) LabelNames(ctx context.Context, q metrics.Query) ([]string, error) {
	return o.texts(ctx, samplesAsk{What: askLabelNames, Query: q})
}

// LabelValues implements metrics.Source.
func (o *ownedSamples) LabelValues(ctx context.Context, label string, q metrics.Query) ([]string, error) {
	return o.texts(ctx, samplesAsk{What: askLabelValues, Label: label, Query: q})
}

func (o *ownedSamples) texts(ctx context.Context, a samplesAsk) ([]string, error) {
	found, err := o.know(ctx, o.overlapping(a.Query), a)
	lists := make([][]string, len(found))
	for i, k := range found {
		lists[i] = k.Texts
	}
	return metrics.MergeTexts(lists), err
}

// Names implements metrics.Source; the number of a metric's series is the greatest that one segment has.
func (o *ownedSamples) Names() ([]metrics.NameCount, error) {
	found, err := o.know(o.ctx, o.segments, samplesAsk{What: askNames})
	lists := make([][]metrics.NameCount, len(found))
	for i, k := range found {
		lists[i] = k.Names
	}
	return mostSeries(lists), err
}

// Exemplars implements metrics.Source.
func (o *ownedSamples) Exemplars(ctx context.Context, q metrics.Query) ([]metrics.SeriesExemplars, error) {
	found, err := o.know(ctx, o.segments, samplesAsk{What: askExemplars, Query: q})
	lists := make([][]metrics.SeriesExemplars, len(found))
	for i, k := range found {
		lists[i] = k.Exemplars
	}
	return metrics.MergeExemplars(lists), err
}
