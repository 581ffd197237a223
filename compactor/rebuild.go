package compactor

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/zeebo/blake3"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/blob"
	"github.com/millstream/millstream/segment"
	"github.com/millstream/millstream/segment/metrics"
	"github.com/millstream/millstream/store"
)

const (
	rebuildPage = 500       // segments that are listed at a time
	rebuildWait = time.Hour // a young segment that is only outdated is left to the next merge for so long
)

// RebuildIndexes builds the indexes of an organization's segments that are missing, of an older version, or without a filter that their stream asks for; the newest
// first. What is done is in the catalog, so whoever comes next goes on from there. A segment whose index cannot be built is reported and passed over; the first such
// error is returned at the end.
func (c *Compactor) RebuildIndexes(ctx context.Context, org string) error {
	r := rebuilding{c: c, streams: map[millstream.StreamID]store.Stream{}}
	var after *store.Outdated
	for {
		page, err := c.cfg.Catalog.OutdatedIndexes(ctx, millstream.OrgID(org), after, rebuildPage)
		if err != nil {
			return errors.Join(r.first, err)
		}
		if err := r.all(ctx, page); err != nil {
			return err
		}
		if len(page) < rebuildPage {
			break
		}
		after = &page[len(page)-1]
	}
	return r.sealed(ctx, org)
}

// rebuilding is a round of RebuildIndexes.
type rebuilding struct {
	c       *Compactor
	streams map[millstream.StreamID]store.Stream
	first   error
}

// all rebuilds the indexes of a page. It returns an error only when ctx ended.
func (r *rebuilding) all(ctx context.Context, page []store.Outdated) error {
	for i := range page {
		g := &page[i]
		if g.Version > 0 && g.Age < rebuildWait && level(&g.Candidate, r.c.cfg.TargetSize) < grown {
			continue
		}
		if r.c.dataless(g.Segment) {
			continue
		}
		r.note(r.run(ctx, g))
		if err := ctx.Err(); err != nil {
			return errors.Join(r.first, err)
		}
	}
	return nil
}

func (r *rebuilding) note(err error) {
	if r.first == nil {
		r.first = err
	}
}

// sealed goes through the manifests, each of which is unsealed when its turn comes: a round that ends early has unsealed what it got to and nothing else.
func (r *rebuilding) sealed(ctx context.Context, org string) error {
	manifests, err := r.c.cfg.Catalog.OutdatedManifests(ctx, millstream.OrgID(org))
	if err != nil {
		return errors.Join(r.first, err)
	}
	var unreadable []error
	defer func() { r.c.unreadable("index_rebuild", unreadable) }()
	for _, id := range manifests {
		page, err := r.c.cfg.Catalog.UnsealOutdated(ctx, id)
		if errors.Is(err, store.ErrUnreadable) {
			unreadable = append(unreadable, err)
			r.note(err)
			continue
		}
		if err != nil {
			return errors.Join(r.first, err)
		}
		if err := r.all(ctx, page); err != nil {
			return err
		}
	}
	return r.first
}

// run rebuilds one index within the node's slots, and takes no less time than the rate allows. That somebody else was first is no error, nor is missing data, which was told.
func (r *rebuilding) run(ctx context.Context, g *store.Outdated) error {
	c := r.c
	select {
	case c.groups <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	began := time.Now()
	err := r.rebuild(ctx, g)
	<-c.groups
	if millstream.KindOf(err) == millstream.NotFound {
		err = c.gone(ctx, []store.Candidate{g.Candidate}, err)
	}
	if errors.Is(err, errMissing) {
		c.metrics.rebuilds.WithLabelValues("failed").Inc()
		return nil
	}
	if errors.Is(err, store.ErrLostRace) {
		c.log.Info("a rebuilt index lost its race and is discarded", "segment", g.ID, "error", err)
		c.metrics.rebuilds.WithLabelValues("lost").Inc()
		return nil
	}
	if err != nil {
		c.metrics.rebuilds.WithLabelValues("failed").Inc()
		if ctx.Err() == nil {
			c.log.Error("the index of a segment could not be built; the next round tries again", "organization", g.Org, "segment", g.ID, "missing", g.Version == 0, "error", err)
		}
		return fmt.Errorf("build the index of segment %s: %w", g.ID, err)
	}
	c.metrics.rebuilds.WithLabelValues("done").Inc()
	c.metrics.rebuildBytes.Add(float64(g.Data.Length))
	rest := time.Duration(float64(g.Data.Length)/float64(c.cfg.RebuildRate)*float64(time.Second)) - time.Since(began)
	select {
	case <-time.After(rest):
	case <-ctx.Done():
	}
	return nil
}

// rebuild reads the data, writes an index, uploads it, tells the owner and publishes a segment of the same data and the new index in place of the old one.
func (r *rebuilding) rebuild(ctx context.Context, g *store.Outdated) error {
	c := r.c
	st, err := r.stream(ctx, g.Stream)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(c.cfg.TempDir, "index-*")
	if err != nil {
		return millstream.Wrap(millstream.Unavailable, err, "cannot make a temporary directory for an index")
	}
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			c.log.Warn("removing the temporary directory of an index", "error", err)
		}
	}()
	data, index, err := files(dir)
	if err != nil {
		return err
	}
	defer data.Close()
	defer index.Close()
	if err := c.fetch(ctx, g.Data, data); err != nil {
		return err
	}
	out := g.Segment
	out.ID = millstream.SegmentID(uuid.NewString())
	indexed, err := buildIndex(ctx, &out, data, index, st, g.Wanted)
	if err != nil {
		return err
	}
	c.step("built")
	began := c.cfg.Now()
	if err := c.uploadIndex(ctx, &out, index); err != nil {
		return err
	}
	c.step("uploaded")
	if c.cfg.Warm != nil {
		c.cfg.Warm(ctx, out)
	}
	err = c.replace(ctx, store.Replacement{Node: c.cfg.Node, Incarnation: c.cfg.Incarnation(), Inputs: []millstream.SegmentID{g.ID}, Output: out, Indexed: indexed}, began)
	if errors.Is(err, store.ErrLostRace) || errors.Is(err, store.ErrFenced) {
		c.discard(ctx, out, out.Index.Key) // the data is that of the segment that stays
	}
	return err
}

// stream is a stream as it was when the round first met it. One that is gone has no segments left to rebuild.
func (r *rebuilding) stream(ctx context.Context, id millstream.StreamID) (store.Stream, error) {
	if st, ok := r.streams[id]; ok {
		return st, nil
	}
	st, err := r.c.cfg.Catalog.StreamByID(ctx, id)
	if millstream.KindOf(err) == millstream.NotFound && err != nil {
		return st, millstream.Wrap(millstream.Conflict, store.ErrLostRace, "%s", err)
	}
	if err == nil {
		r.streams[id] = st
	}
	return st, err
}

// fetch copies an extent to a file and compares it with the catalog's checksum.
func (c *Compactor) fetch(ctx context.Context, x millstream.Extent, f *os.File) (err error) {
	r, err := c.cfg.Bucket.Get(ctx, x.Key, x.Offset, x.Length)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	h := blake3.New()
	n, err := io.Copy(io.MultiWriter(f, h), r)
	if err != nil {
		return err
	}
	if n != x.Length || hex.EncodeToString(h.Sum(nil)) != x.Checksum {
		return millstream.Errorf(millstream.Unavailable, "the object %s is damaged: %d bytes at %d differ from the catalog's checksum", x.Key, x.Length, x.Offset)
	}
	return nil
}

// buildIndex writes the index of a segment's data and compares what it says with the catalog. It returns the fields of which it has filters.
func buildIndex(ctx context.Context, out *millstream.Segment, data, index *os.File, st store.Stream, wanted []string) ([]string, error) {
	iw := bufio.NewWriterSize(untilDone{ctx, index}, 256<<10)
	var info segment.Info
	var err error
	if out.Signal == millstream.Metrics {
		info, err = metrics.Rebuild(iw, data, out.Data.Length)
	} else {
		names := make(map[string]string, len(st.Schema.Fields))
		for _, f := range st.Schema.Fields {
			names[millstream.FieldID(f.Name)] = f.Name
		}
		info, err = segment.Rebuild(iw, data, out.Data.Length, names, segment.Options{Indexed: wanted})
	}
	if err = errors.Join(err, iw.Flush()); err != nil {
		return nil, err
	}
	out.Index = millstream.Extent{Length: info.IndexSize, Checksum: info.IndexSum}
	return info.Indexed, reread(*out, data, index)
}

// uploadIndex puts an index beside its data: reconciliation finds the objects of a segment by the name that they share. The name has an id of its own, because any
// node may have made an index of the same data.
func (c *Compactor) uploadIndex(ctx context.Context, out *millstream.Segment, index *os.File) (err error) {
	out.Index.Key, err = blob.Upload(ctx, c.cfg.Bucket, io.NewSectionReader(index, 0, out.Index.Length), out.Index.Length, func() string {
		return fmt.Sprintf("%s-%s-%d%s", segmentName(out.Data.Key), strings.ReplaceAll(uuid.NewString(), "-", ""), c.attempt.Add(1), indexExt)
	})
	return err
}
