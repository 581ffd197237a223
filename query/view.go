package query

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest"
	"github.com/millstream/millstream/query/cache"
	"github.com/millstream/millstream/query/scan"
	"github.com/millstream/millstream/segment"
	"github.com/millstream/millstream/segment/metrics"
	"github.com/millstream/millstream/store"
)

// view is one snapshot of some streams: what is published, and the unflushed rows above it. It holds the unflushed rows until release is called.
type view struct {
	rng     millstream.TimeRange
	at      time.Time // when the snapshot was taken, by the database's clock
	streams []*stream // in the catalog's order
	reasons []string  // why rows may be missing
	release func()
}

// stream is one stream of a view.
type stream struct {
	store.Stream
	schema   millstream.Schema // joined with the unflushed sources' fields
	segments []millstream.Segment
	tails    []segment.Source // unflushed rows of logs and traces
	heads    []metrics.Source // unflushed samples
}

// find is the stream of a key; nil if it is not in the view.
func (v *view) find(k millstream.StreamKey) *stream {
	for _, s := range v.streams {
		if s.Key == k {
			return s
		}
	}
	return nil
}

// open takes a snapshot. A key with an empty name stands for every stream of its signal.
func (e *Engine) open(ctx context.Context, org millstream.OrgID, keys []millstream.StreamKey, r millstream.TimeRange) (*view, error) {
	release := e.cfg.Unflushed.Hold()
	v, err := e.snapshot(ctx, org, keys, r)
	if err != nil {
		release()
		return nil, err
	}
	unpin, others := e.pinLate(v.at), v.release
	v.release = func() {
		if others != nil {
			others()
		}
		release()
		unpin()
	}
	return v, nil
}

func (e *Engine) snapshot(ctx context.Context, org millstream.OrgID, keys []millstream.StreamKey, r millstream.TimeRange) (*view, error) {
	snap, err := e.cfg.Catalog.Snapshot(ctx, org, keys, r)
	if err != nil {
		return nil, err
	}
	v := &view{rng: r, at: snap.At}
	byID := map[millstream.StreamID]*stream{}
	for _, s := range snap.Streams {
		st := &stream{Stream: s, schema: s.Schema}
		v.streams = append(v.streams, st)
		byID[s.ID] = st
	}
	for _, s := range snap.Segments {
		if st := byID[s.Stream]; st != nil && r.Overlaps(s.MinTime, s.MaxTime) {
			st.segments = append(st.segments, s)
		}
	}
	for _, st := range v.streams {
		slices.SortFunc(st.segments, func(a, b millstream.Segment) int {
			return cmp.Or(cmp.Compare(b.MaxTime, a.MaxTime), cmp.Compare(a.ID, b.ID))
		})
	}
	if err := e.addUnflushed(ctx, v, snap.WALs); err != nil {
		return nil, err
	}
	for _, st := range v.streams {
		st.join(r)
	}
	return v, nil
}

// addUnflushed adds the rows above the WALs' positions. A WAL that cannot tell makes the answer partial.
func (e *Engine) addUnflushed(ctx context.Context, v *view, wals []store.WALState) error {
	ids := make([]millstream.StreamID, len(v.streams))
	for i, st := range v.streams {
		ids[i] = st.ID
	}
	unread, release, err := e.cfg.Unflushed.Unflushed(ctx, wals, ids, func(i int, u ingest.Unflushed) {
		v.streams[i].tails = append(v.streams[i].tails, u.Logs...)
		v.streams[i].heads = append(v.streams[i].heads, u.Metrics...)
	})
	if err != nil {
		return err
	}
	v.release = release
	for _, m := range unread {
		e.log.Warn("unflushed rows cannot be read", "node", m.WAL.Node, "wal", m.WAL.ID, "error", m.Err)
		v.reasons = append(v.reasons, missing(m.WAL))
	}
	return nil
}

func missing(w store.WALState) string {
	if w.LastPublish.IsZero() {
		return fmt.Sprintf("unflushed rows of node %s are missing; it has not published any yet", w.Node)
	}
	return fmt.Sprintf("unflushed rows of node %s since its last publish at %s are missing", w.Node, w.LastPublish.UTC().Format(time.RFC3339))
}

// join makes the schema cover the unflushed rows, whose new fields may not be registered yet, and then drops those outside the range: which fields there are
// must not depend on the range, and does not once they are registered.
func (st *stream) join(r millstream.TimeRange) {
	st.schema.Fields = slices.Clone(st.schema.Fields)
	at := map[string]int{}
	for i, f := range st.schema.Fields {
		at[f.Name] = i
	}
	for _, s := range st.tails {
		for _, f := range s.Fields() {
			if f.Name == millstream.TimestampField {
				continue
			}
			seen := millstream.Field{Name: f.Name, Type: f.Type, WideInt: f.WideInt, Seen: []millstream.Type{f.Type}}
			if i, ok := at[f.Name]; ok {
				if known := &st.schema.Fields[i]; known.Type != f.Type || f.WideInt && !known.WideInt {
					*known = known.Join(seen)
				}
				continue
			}
			at[f.Name] = len(st.schema.Fields)
			st.schema.Fields = append(st.schema.Fields, seen)
		}
	}
	st.tails = slices.DeleteFunc(st.tails, func(s segment.Source) bool {
		first, last := s.Span()
		return s.Rows() == 0 || !r.Overlaps(first, last)
	})
}

// unflushedRows counts the rows of the view that are not published.
func (st *stream) unflushedRows() (n int64) {
	for _, s := range st.tails {
		n += int64(s.Rows())
	}
	for _, h := range st.heads {
		n += h.Samples()
	}
	return n
}

// indexCache is how many bytes of metric segments' index blocks stay decompressed.
const indexCache = 64 << 20

// SegmentOpener makes what a segment cache has to open its segments with.
func SegmentOpener() func(s millstream.Segment, data, index cache.File) (any, error) {
	blocks := metrics.NewCache(indexCache)
	return func(s millstream.Segment, data, index cache.File) (any, error) {
		if s.Signal != millstream.Metrics {
			return segment.Open(data.ReaderAt, data.Size, index.ReaderAt, index.Size)
		}
		r, err := metrics.Open(data.ReaderAt, data.Size, index.ReaderAt, index.Size)
		if err != nil {
			return nil, err
		}
		r.UseCache(blocks)
		return r, nil
	}
}

// errGone is a segment whose object is no longer there: it was merged away after the snapshot.
var errGone = cache.ErrGone

// fetch pins a segment in the cache.
func (e *Engine) fetch(ctx context.Context, q *task, s millstream.Segment) (*cache.Handle, error) {
	h, err := e.cfg.Cache.Get(ctx, s)
	if err != nil {
		if millstream.KindOf(err) == millstream.NotFound {
			return nil, fmt.Errorf("%w: %w", errGone, err)
		}
		return nil, err
	}
	q.counts.add(s.ID, h)
	return h, nil
}

// localInputs are segments of logs or traces that are read on this node, for kernels.
func (e *Engine) localInputs(q *task, segments []millstream.Segment) []scan.Input {
	ins := make([]scan.Input, 0, len(segments))
	for _, s := range segments {
		ins = append(ins, scan.Input{
			Rows: int(s.Rows), First: s.MinTime, Last: s.MaxTime, Segment: s.ID,
			Open: func(ctx context.Context) (segment.Source, func(), error) {
				h, err := e.fetch(ctx, q, s)
				if err != nil {
					return nil, nil, err
				}
				src, ok := h.Value().(segment.Source)
				if !ok {
					h.Release()
					return nil, nil, fmt.Errorf("segment %s holds no rows", s.ID)
				}
				return src, h.Release, nil
			},
		})
	}
	return ins
}

// begin counts what a query is about to read and refuses it if that is too much.
func (e *Engine) begin(q *task, v *view) error {
	for _, st := range v.streams {
		q.answer.Stats.Segments.Total += len(st.segments)
		q.answer.Stats.UnflushedRows += st.unflushedRows()
		q.sources.Add(int64(len(st.segments) + len(st.tails) + len(st.heads)))
	}
	for _, r := range v.reasons {
		q.partial(r)
	}
	est := v.estimate()
	if limit := e.cfg.Limits.MaxScanRows; limit > 0 && est.Rows > limit {
		return millstream.Wrap(millstream.Invalid, errTooManyRows, "the query would scan %d rows (%d bytes) in %d segments; the limit is %d rows: narrow its time range",
			est.Rows, est.Bytes, est.Segments.ToScan, limit)
	}
	return nil
}

// errTooManyRows is a query that would scan more rows than it may.
var errTooManyRows = errors.New("too many rows to scan")

// estimate sums what the catalog knows of the view.
func (v *view) estimate() Estimate {
	var est Estimate
	for _, st := range v.streams {
		est.Segments.Total += len(st.segments)
		est.Segments.ToScan += len(st.segments)
		est.Rows += st.unflushedRows()
		for _, s := range st.segments {
			est.Rows += s.Rows
			est.Bytes += s.Data.Length
		}
	}
	return est
}

// prefetch starts fetching the segments that are not on the local disk, a few at a time, until stop is called or ctx ends.
func (e *Engine) prefetch(ctx context.Context, q *task, segments []millstream.Segment) (stop func()) {
	missing := slices.DeleteFunc(slices.Clone(segments), e.cfg.Cache.Has)
	q.counts.miss(missing)
	ctx, cancel := context.WithCancel(ctx)
	next, done := make(chan millstream.Segment), make(chan struct{}, prefetchers)
	n := min(prefetchers, len(missing))
	for range n {
		go func() {
			defer func() { done <- struct{}{} }()
			for s := range next {
				if h, err := e.cfg.Cache.Get(ctx, s); err == nil { // an error will come back when the segment is read
					h.Release()
				}
			}
		}()
	}
	go func() {
		defer close(next)
		for _, s := range missing {
			select {
			case next <- s:
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		cancel()
		for range n {
			<-done
		}
	}
}

// prefetchers is how many segments a query fetches ahead at a time.
const prefetchers = 6

// allTime has every time but the very last nanosecond.
var allTime = millstream.TimeRange{Start: math.MinInt64, End: math.MaxInt64}
