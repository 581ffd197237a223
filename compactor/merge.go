package compactor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/blob"
	"github.com/millstream/millstream/query/cache"
	"github.com/millstream/millstream/segment"
	"github.com/millstream/millstream/segment/metrics"
	"github.com/millstream/millstream/store"
)

// Compact expires what is past a stream's retention and makes the merges that are due. Merges of all streams share the node's slots. The first error is returned
// after all have ended; what failed is due again.
func (c *Compactor) Compact(ctx context.Context, stream string) error {
	id := millstream.StreamID(stream)
	n, err := c.cfg.Catalog.ExpireOld(ctx, c.cfg.Node, c.cfg.Incarnation(), id, c.cfg.RetentionDays)
	if err != nil {
		return err
	}
	if n > 0 {
		c.metrics.expired.Add(float64(n))
		c.log.Info("segments are past their retention", "stream", id, "segments", n)
	}
	all, err := c.cfg.Catalog.MergeCandidates(ctx, id)
	if err != nil {
		return err
	}
	c.leaveOut(ctx, id, all)
	groups := Plan(all, c.cfg.Now(), c.cfg.TargetSize)
	if err := c.chooseFilters(ctx, id, groups); err != nil {
		return err
	}
	errs := make([]error, len(groups))
	var wg sync.WaitGroup
	defer wg.Wait()
	for i := range groups {
		c.metrics.backlog.WithLabelValues(tiers[groups[i].Level]).Add(float64(groups[i].Bytes()))
	}
	for i := range groups {
		g := &groups[i]
		select {
		case c.groups <- struct{}{}:
		case <-ctx.Done():
			c.metrics.backlog.WithLabelValues(tiers[g.Level]).Sub(float64(g.Bytes()))
			errs[i] = ctx.Err()
			continue
		}
		c.metrics.backlog.WithLabelValues(tiers[g.Level]).Sub(float64(g.Bytes()))
		wg.Go(func() {
			defer func() { <-c.groups }()
			errs[i] = c.merge(ctx, g)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// chooseFilters tells merges of which fields to make filters where they encode rows. A stream that is gone has no live segments, and the merges will lose.
func (c *Compactor) chooseFilters(ctx context.Context, id millstream.StreamID, groups []Group) error {
	if len(groups) == 0 {
		return nil
	}
	st, err := c.cfg.Catalog.StreamByID(ctx, id)
	if err != nil && millstream.KindOf(err) != millstream.NotFound {
		return err
	}
	for i := range groups {
		groups[i].Indexed = st.IndexedFields
	}
	return nil
}

// merge makes one merge and counts how it ended. A lost race is no error: somebody else did the work. Nor is a missing object: it was told, and the next round merges the others.
func (c *Compactor) merge(ctx context.Context, g *Group) error {
	tier := tiers[g.Level]
	began := time.Now()
	out, err := c.mergeGroup(ctx, g)
	switch {
	case errors.Is(err, store.ErrLostRace):
		c.metrics.lost.WithLabelValues(tier).Inc()
		c.log.Info("a merge lost its race and is discarded", "tier", tier, "stream", g.Inputs[0].Stream, "error", err)
		return nil
	case errors.Is(err, errMissing):
		c.metrics.failures.WithLabelValues(tier).Inc()
		return nil
	case err != nil:
		c.metrics.failures.WithLabelValues(tier).Inc()
		return fmt.Errorf("merge %d segments of stream %s: %w", len(g.Inputs), g.Inputs[0].Stream, err)
	}
	c.metrics.merges.WithLabelValues(tier).Inc()
	c.metrics.inputs.WithLabelValues(tier).Add(float64(len(g.Inputs)))
	c.metrics.bytesIn.WithLabelValues(tier).Add(float64(g.Bytes()))
	c.metrics.bytesOut.WithLabelValues(tier).Add(float64(out.Data.Length + out.Index.Length))
	c.metrics.seconds.WithLabelValues(tier).Observe(time.Since(began).Seconds())
	c.log.Debug("merged", "tier", tier, "stream", out.Stream, "inputs", len(g.Inputs), "rows", out.Rows, "bytes", out.Data.Length+out.Index.Length, "took", time.Since(began))
	return nil
}

// mergeGroup reads the inputs, writes one segment, uploads it, tells its owner and publishes it. Only the publish is seen by others.
func (c *Compactor) mergeGroup(ctx context.Context, g *Group) (millstream.Segment, error) {
	dir, err := os.MkdirTemp(c.cfg.TempDir, "merge-*")
	if err != nil {
		return millstream.Segment{}, millstream.Wrap(millstream.Unavailable, err, "cannot make a temporary directory for a merge")
	}
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			c.log.Warn("removing a merge's temporary directory", "error", err)
		}
	}()
	data, index, err := files(dir)
	if err != nil {
		return millstream.Segment{}, err
	}
	defer data.Close()
	defer index.Close()
	out, indexed, err := c.write(ctx, g, data, index)
	if err != nil {
		return out, err
	}
	c.step("written")
	began := c.cfg.Now()
	if err := c.upload(ctx, &out, data, index); err != nil {
		return out, err
	}
	c.step("uploaded")
	if c.cfg.Warm != nil {
		c.cfg.Warm(ctx, out)
	}
	r := store.Replacement{Node: c.cfg.Node, Incarnation: c.cfg.Incarnation(), Output: out, Indexed: indexed}
	for i := range g.Inputs {
		r.Inputs = append(r.Inputs, g.Inputs[i].ID)
	}
	err = c.replace(ctx, r, began)
	if errors.Is(err, store.ErrLostRace) || errors.Is(err, store.ErrFenced) {
		c.discard(ctx, out, out.Data.Key, out.Index.Key)
	}
	c.step("published")
	return out, err
}

func files(dir string) (data, index *os.File, err error) {
	if data, err = os.Create(dir + "/data"); err != nil {
		return nil, nil, err
	}
	if index, err = os.Create(dir + "/index"); err != nil {
		return nil, nil, errors.Join(err, data.Close())
	}
	return data, index, nil
}

// write merges the inputs into the two files and reads the result's footers again before anybody relies on it. It returns of which fields the index has the filters
// that the stream asks for.
func (c *Compactor) write(ctx context.Context, g *Group, data, index *os.File) (out millstream.Segment, indexed []string, err error) {
	handles := make([]*cache.Handle, 0, len(g.Inputs))
	defer func() {
		for _, h := range handles {
			h.Release()
		}
	}()
	for i := range g.Inputs {
		h, err := c.cfg.Segments.Get(ctx, g.Inputs[i].Segment)
		if err == nil {
			handles = append(handles, h)
			err = h.Complete(ctx)
		}
		if millstream.KindOf(err) == millstream.NotFound {
			err = c.gone(ctx, g.Inputs, err)
		}
		if err != nil {
			return out, nil, err
		}
	}
	first := g.Inputs[0].Segment
	out = millstream.Segment{ID: millstream.SegmentID(uuid.NewString()), Org: first.Org, Stream: first.Stream, Signal: first.Signal, Level: g.Level}
	for i := range g.Inputs {
		out.SchemaVersion = max(out.SchemaVersion, g.Inputs[i].SchemaVersion)
	}
	dw, iw := bufio.NewWriterSize(data, 1<<20), bufio.NewWriterSize(index, 256<<10)
	in := make([]any, len(handles))
	for i, h := range handles {
		in[i] = h.Value()
	}
	info, err := mergeSources(ctx, dw, iw, first.Signal, in, g.Indexed)
	if err = errors.Join(err, dw.Flush(), iw.Flush()); err != nil {
		return out, nil, err
	}
	out.MinTime, out.MaxTime, out.Rows = info.MinTime, info.MaxTime, info.Rows
	out.Data = millstream.Extent{Length: info.DataSize, Checksum: info.DataSum}
	out.Index = millstream.Extent{Length: info.IndexSize, Checksum: info.IndexSum}
	return out, info.Indexed, reread(out, data, index)
}

// mergeSources merges opened segments.
func mergeSources(ctx context.Context, data, index io.Writer, signal millstream.Signal, opened []any, indexed []string) (segment.Info, error) {
	data, index = untilDone{ctx, data}, untilDone{ctx, index}
	if signal == millstream.Metrics {
		in, err := as[metrics.Source](opened)
		if err != nil {
			return segment.Info{}, err
		}
		return metrics.Merge(data, index, in)
	}
	in, err := as[*segment.Reader](opened)
	if err != nil {
		return segment.Info{}, err
	}
	return segment.Merge(data, index, in, segment.Options{Indexed: indexed})
}

func as[T any](opened []any) ([]T, error) {
	out := make([]T, len(opened))
	for i, v := range opened {
		src, ok := v.(T)
		if !ok {
			return nil, fmt.Errorf("input %d of a merge is of another signal", i)
		}
		out[i] = src
	}
	return out, nil
}

// untilDone is a writer that fails when its context has ended, so that a merge can be stopped.
type untilDone struct {
	ctx context.Context
	w   io.Writer
}

func (u untilDone) Write(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.w.Write(p)
}

// reread opens what was written and compares it with what it should be.
func reread(out millstream.Segment, data, index *os.File) error {
	rows, first, last := int64(0), int64(0), int64(0)
	if out.Signal == millstream.Metrics {
		r, err := metrics.Open(data, out.Data.Length, index, out.Index.Length)
		if err != nil {
			return fmt.Errorf("read the merged segment again: %w", err)
		}
		rows = r.Samples()
		first, last = r.Span()
		first, last = first*int64(time.Millisecond), last*int64(time.Millisecond)
	} else {
		r, err := segment.Open(data, out.Data.Length, index, out.Index.Length)
		if err != nil {
			return fmt.Errorf("read the merged segment again: %w", err)
		}
		rows = int64(r.Rows())
		first, last = r.Span()
	}
	if rows != out.Rows || first != out.MinTime || last != out.MaxTime {
		return millstream.Errorf(millstream.Internal, "the merged segment %s reads as %d rows in [%d, %d], written were %d in [%d, %d]", out.ID, rows, first, last, out.Rows, out.MinTime, out.MaxTime)
	}
	return nil
}

// upload puts both objects under keys that nobody has used.
func (c *Compactor) upload(ctx context.Context, out *millstream.Segment, data, index *os.File) (err error) {
	name := fmt.Sprintf("segments/%s/%s/%s/%s", out.Org, out.Signal, out.Stream, out.ID)
	put := func(x *millstream.Extent, f *os.File, ext string) error {
		x.Key, err = blob.Upload(ctx, c.cfg.Bucket, io.NewSectionReader(f, 0, x.Length), x.Length, func() string {
			return fmt.Sprintf("%s-%d-%d%s", name, c.cfg.Incarnation(), c.attempt.Add(1), ext)
		})
		return err
	}
	if err := put(&out.Data, data, ".parquet"); err != nil {
		return err
	}
	return put(&out.Index, index, indexExt)
}

// publishTries is how often a publish whose outcome is unknown is repeated; it changes nothing if it went through.
const publishTries = 5

const discardTimeout = time.Minute // of deleting what lost its race, also when the compactor is stopping

// replace publishes a segment whose upload began at a time. What waited too long is lost, since its objects may be deleted.
func (c *Compactor) replace(ctx context.Context, r store.Replacement, began time.Time) (err error) {
	for try := range publishTries {
		if now := c.cfg.Now(); !blob.Fresh(began, now) {
			return millstream.Wrap(millstream.Conflict, store.ErrLostRace, "the objects of segment %s were uploaded at %s and it is %s: without a name for so long they may be deleted", r.Output.ID, began.UTC(), now.UTC())
		}
		if err = c.cfg.Catalog.ReplaceSegments(ctx, r); err == nil || millstream.KindOf(err) == millstream.Conflict || millstream.KindOf(err) == millstream.Internal && !unsure(err) {
			return err
		}
		select {
		case <-time.After(100 * time.Millisecond << try):
		case <-ctx.Done():
			return err
		}
	}
	return err
}

// unsure says whether an error leaves open if the transaction went through: everything that does not say what is wrong.
func unsure(err error) bool {
	var known *millstream.Error
	return !errors.As(err, &known)
}

// discard deletes the objects that were made for a segment that is not published. It may have been, by a try that seemed to fail, and be gone again by now while its
// data lives on in a segment whose index was built anew: so the catalog is asked what nothing names. Should it fail, reconciliation finds them.
func (c *Compactor) discard(ctx context.Context, s millstream.Segment, keys ...string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardTimeout)
	defer cancel()
	named, err := c.cfg.Catalog.Inventory(s.Org).Named(ctx, store.Unmet{Keys: keys}, false)
	if err == nil {
		err = c.cfg.Bucket.Delete(ctx, slices.DeleteFunc(keys, func(k string) bool { return slices.Contains(named, k) })...)
	}
	if err != nil {
		c.log.Warn("the objects of a discarded segment could not be deleted; reconciliation will", "segment", s.ID, "error", err)
	}
}
