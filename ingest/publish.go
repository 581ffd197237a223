package ingest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/blob"
	"github.com/millstream/millstream/store"
)

const (
	uploads       = 4 // at once
	markerPrefix  = "wals/"
	catalogMargin = 15 * time.Second // bounds one catalog call of a flush
)

// upload puts the objects that are not stored yet, and once more those that waited too long for their publish.
func (w *Writer) upload(ctx context.Context, objects []*object) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(uploads)
	for _, o := range objects {
		if o.key == "" || !blob.Fresh(o.uploaded, w.cfg.Now()) {
			g.Go(func() error { return w.put(ctx, o) })
		}
	}
	return g.Wait()
}

// fresh says whether all objects of a range may be published: the process may have stood still since they were uploaded.
func (w *Writer) fresh(objects []*object) error {
	for _, o := range objects {
		if now := w.cfg.Now(); !blob.Fresh(o.uploaded, now) {
			return millstream.Errorf(millstream.Unavailable, "the object %s was uploaded at %s and it is %s: it may be deleted by now and is uploaded again", o.key, o.uploaded.UTC(), now.UTC())
		}
	}
	return nil
}

// put stores one object. Keys carry the incarnation and an attempt number, so none is ever written by two processes or with two contents.
func (w *Writer) put(ctx context.Context, o *object) error {
	if w.mutant.uploadErrorIsSuccess {
		return w.putOnce(ctx, o)
	}
	tries, began := 0, w.cfg.Now()
	key, err := blob.Upload(ctx, w.cfg.Bucket, io.NewSectionReader(o.file, 0, o.size), o.size, func() string {
		if tries++; tries > 1 {
			w.metrics.uploadFailures.Inc()
		}
		return w.nextKey(o)
	})
	if err != nil {
		w.metrics.uploadFailures.Inc()
		return err
	}
	w.metrics.uploads.Inc()
	w.metrics.uploadedBytes.Add(float64(o.size))
	o.key, o.uploaded = key, began
	return nil
}

func (w *Writer) nextKey(o *object) string {
	return fmt.Sprintf("%s-%d-%d%s", o.name, w.incarnation, w.attempt.Add(1), o.ext)
}

// putOnce is a mutant: it takes any answer for success.
func (w *Writer) putOnce(ctx context.Context, o *object) error {
	key := w.nextKey(o)
	_ = w.cfg.Bucket.Put(ctx, key, io.NewSectionReader(o.file, 0, o.size), o.size)
	o.key, o.uploaded = key, w.cfg.Now()
	return nil
}

// register brings the catalog's schemas up to what the rows have, and notices streams that are gone: their rows are dropped.
func (w *Writer) register(ctx context.Context, r *bufferRange) error {
	ctx, cancel := context.WithTimeout(ctx, catalogMargin)
	defer cancel()
	for _, sb := range r.sorted() {
		t := w.streams.lookup(sb.stream)
		fields, version := sb.missing(t)
		sb.version = version
		if len(fields) == 0 {
			continue
		}
		schema, err := w.cfg.Catalog.RegisterFields(ctx, sb.stream, fields)
		switch {
		case millstream.KindOf(err) == millstream.NotFound:
			sb.gone = true
			w.streams.forget(sb.stream)
			w.metrics.dropped.Add(float64(sb.rows()))
			w.log.Info("rows of a deleted stream are dropped", "stream", sb.stream, "rows", sb.rows())
			continue
		case err != nil:
			return fmt.Errorf("register the fields of stream %s: %w", sb.stream, err)
		}
		sb.version = schema.Version
		if t != nil {
			t.mu.Lock()
			t.register(schema)
			t.mu.Unlock()
		}
	}
	return nil
}

// rows is the number of records of a built buffer.
func (sb *streamBuffer) rows() int64 {
	if sb.whole == nil {
		return 0
	}
	return sb.whole.rows
}

// missing are the fields to register; all of them for a stream that nobody has written to since the start.
func (sb *streamBuffer) missing(t *stream) ([]millstream.Field, int64) {
	if t != nil {
		return t.unregistered(sb.fields)
	}
	out := make([]millstream.Field, 0, len(sb.fields))
	for _, f := range sb.fields {
		out = append(out, f)
	}
	return out, 0
}

// publish makes the range visible in one transaction and acts on the outcome.
func (w *Writer) publish(ctx context.Context, r *bufferRange) error {
	if w.mutant.dropBeforeVisible {
		w.mu.Lock()
		r.streams = map[millstream.StreamID]*streamBuffer{}
		w.mu.Unlock()
	}
	f := millstream.Flush{
		WAL: w.id, Node: w.cfg.Node, Incarnation: w.incarnation, From: r.from, To: r.to, Checksum: r.checksum(), Segments: w.segments(r),
	}
	if err := w.fresh(r.objects); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, catalogMargin)
	defer cancel()
	outcome, position, err := w.cfg.Catalog.Publish(ctx, f)
	if err != nil {
		return w.refused(err, f)
	}
	if outcome == store.Behind {
		w.wentBack(position)
		return nil
	}
	if outcome == store.Superseded {
		w.log.Warn("the range was published before with other objects of the same content; these are not referenced", "from", r.from, "to", r.to)
	}
	w.metrics.outcomes.WithLabelValues(outcome.String()).Inc()
	w.keepMetadata(ctx, r)
	w.done(r)
	return nil
}

func (w *Writer) segments(r *bufferRange) []millstream.Segment {
	var out []millstream.Segment
	for _, sb := range r.sorted() {
		if sb.gone || sb.rows() == 0 {
			continue
		}
		l := sb.whole
		out = append(out, millstream.Segment{
			ID: w.segmentID(r, sb.stream), Org: sb.org, Stream: sb.stream, Signal: sb.signal, MinTime: l.minTime, MaxTime: l.maxTime, Rows: l.rows,
			SchemaVersion: sb.version, WAL: w.id, From: r.from, To: r.to,
			Data:  millstream.Extent{Key: l.data.object.key, Offset: l.data.off, Length: l.data.n, Checksum: l.dataSum},
			Index: millstream.Extent{Key: l.index.object.key, Offset: l.index.off, Length: l.index.n, Checksum: l.indexSum},
		})
	}
	return out
}

// done is the one place where a range becomes published in memory. Its rows stay readable for queries whose snapshot is older.
func (w *Writer) done(r *bufferRange) {
	w.release(r)
	w.mu.Lock()
	w.epoch++
	r.state, r.epoch, r.publishedAt = published, w.epoch, w.cfg.Now()
	w.position = max(w.position, r.to)
	w.mu.Unlock()
	w.reap()
}

// refused sorts the errors of a publish. An error that is none of these says nothing about the outcome: the same flush is repeated.
func (w *Writer) refused(err error, f millstream.Flush) error {
	switch {
	case errors.Is(err, store.ErrFenced):
		return w.fence(err)
	case errors.Is(err, store.ErrForgotten), errors.Is(err, store.ErrNoWAL):
		w.suspect("unknown to the database")
	case errors.Is(err, store.ErrGap), errors.Is(err, store.ErrMismatch):
		w.metrics.outcomes.WithLabelValues("refused").Inc()
		w.log.Error("a publish was refused: the catalog and this WAL contradict each other; nothing is lost, but nothing more is published", "from", f.From, "to", f.To, "error", err)
	}
	return fmt.Errorf("publish (%d, %d]: %w", f.From, f.To, err)
}

// fence ends this incarnation's writing. What it has logged stays in the log, for the next incarnation of the same directory.
func (w *Writer) fence(cause error) error {
	if w.mutant.noFence {
		return cause
	}
	if w.phaseNow() != fenced {
		w.setPhase(fenced)
		w.metrics.fenced.Set(1)
		w.log.Error("a newer incarnation holds this node's WAL: this process writes nothing any more; its log is kept", "incarnation", w.incarnation, "error", cause)
	}
	return fmt.Errorf("%w: %w", ErrFenced, cause)
}

// wentBack notes that the database is in an older state: what is above position must be published again.
func (w *Writer) wentBack(position millstream.LSN) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log.Warn("the database's position is behind; publishing from there again", "database", position, "here", w.position)
	w.metrics.outcomes.WithLabelValues("behind").Inc()
	w.position = position
	kept := w.ranges[:0:0]
	for _, r := range w.ranges {
		if r.state == published {
			w.trash = append(w.trash, r)
		} else {
			kept = append(kept, r)
		}
	}
	w.ranges = kept
}

// suspect stops publishing until the database's history is confirmed.
func (w *Writer) suspect(history string) {
	w.mu.Lock()
	w.doubt = history
	w.mu.Unlock()
	w.kickFlush()
}

// Beat takes in what a heartbeat learned: a fence, another history of the database, or a position behind the one that is known here.
func (w *Writer) Beat(b store.Beat) {
	w.mu.Lock()
	id, system, position, p := w.id, w.system, w.position, w.phase
	if system == "" {
		w.system = b.SystemID
	}
	w.mu.Unlock()
	if id == "" || p == starting || p == fenced {
		return
	}
	at, registered := b.Positions[id]
	switch {
	case b.Fenced:
		_ = w.fence(store.ErrFenced) // the flush that follows ends the flushing
		w.kickFlush()
	case b.Forgotten, system != "" && system != b.SystemID, !registered:
		w.suspect(b.SystemID)
	case at < position: // or the heartbeat was read before a publish: asking tells
		w.ask()
		w.kickFlush()
	}
}

// ask makes the next flush ask the database for the position, and thereby whether this process still holds the WAL, even if there is nothing to publish.
func (w *Writer) ask() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.verify = true
}

// Confirmed says whether the database's history is the one this node knows. While it is not, answers are partial and keyed writes wait.
func (w *Writer) Confirmed() bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.doubt == ""
}

// settle deals with doubts before anything is published.
func (w *Writer) settle(ctx context.Context) error {
	if w.phaseNow() == fenced {
		return ErrFenced
	}
	w.mu.RLock()
	doubt, verify, position := w.doubt, w.verify, w.position
	w.mu.RUnlock()
	if doubt != "" {
		return w.confirm(ctx, doubt)
	}
	if !verify {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, catalogMargin)
	defer cancel()
	f := millstream.Flush{WAL: w.id, Node: w.cfg.Node, Incarnation: w.incarnation, From: position, To: position}
	outcome, at, err := w.cfg.Catalog.Publish(ctx, f)
	if err != nil {
		return w.refused(err, f)
	}
	w.mu.Lock()
	w.verify = false
	w.mu.Unlock()
	if outcome == store.Behind {
		w.wentBack(at)
	}
	return nil
}

// confirm is run after the database went to another history, a failover or a restore: every WAL that ever acknowledged has a marker in the object store, so that
// none is forgotten; each gets its registry row back, this one is taken again, and what the database lost is published from the log.
func (w *Writer) confirm(ctx context.Context, history string) error {
	w.log.Warn("the database has another history; restoring what it may have lost", "history", history)
	for info, err := range w.cfg.Bucket.List(ctx, markerPrefix) {
		if err != nil {
			return fmt.Errorf("list the WAL markers: %w", err)
		}
		t, err := w.readMarker(ctx, info.Key)
		if err == nil {
			err = w.cfg.Catalog.Restore(ctx, t)
		}
		if err != nil {
			return fmt.Errorf("restore %s: %w", info.Key, err)
		}
	}
	position, err := w.cfg.Catalog.TakeWAL(ctx, w.walTake())
	if errors.Is(err, store.ErrFenced) {
		return w.fence(err)
	}
	if err != nil {
		return fmt.Errorf("take the WAL again: %w", err)
	}
	if w.cfg.OnConfirm != nil {
		if err := w.cfg.OnConfirm(ctx); err != nil {
			return err
		}
	}
	w.mu.Lock()
	behind := position < w.position
	w.system, w.doubt, w.verify = history, "", false
	w.mu.Unlock()
	if behind {
		w.wentBack(position)
	}
	return nil
}

// marker is the object that makes a WAL known even to a database that forgot it.
type marker struct {
	WAL         millstream.WALID  `json:"wal"`
	Node        millstream.NodeID `json:"node"`
	Incarnation int64             `json:"incarnation"`
	Addr        string            `json:"addr"`
	Identity    string            `json:"identity"`
}

// mark writes this start's marker, which must be there before the first acknowledgement, and removes those of earlier starts. A marker's key ends in its
// incarnation, so that it is written once and never changed.
func (w *Writer) mark(ctx context.Context) error {
	body, err := json.Marshal(marker{w.id, w.cfg.Node, w.incarnation, w.cfg.Addr, w.dir.Identity})
	if err != nil {
		return err
	}
	own := w.markerKey(w.incarnation)
	err = w.cfg.Bucket.Put(ctx, own, bytes.NewReader(body), int64(len(body)))
	if err != nil && millstream.KindOf(err) != millstream.Conflict { // there already: the answer to an earlier try was lost
		return err
	}
	var old []string
	for info, err := range w.cfg.Bucket.List(ctx, markerPrefix+string(w.id)+"/") {
		if err != nil {
			return err
		}
		if m, err := w.readMarker(ctx, info.Key); err == nil && m.Incarnation < w.incarnation {
			old = append(old, info.Key)
		}
	}
	if len(old) == 0 {
		return nil
	}
	return w.cfg.Bucket.Delete(ctx, old...)
}

func (w *Writer) markerKey(incarnation int64) string {
	return fmt.Sprintf("%s%s/%d", markerPrefix, w.id, incarnation)
}

func (w *Writer) readMarker(ctx context.Context, key string) (store.WALTake, error) {
	rc, err := w.cfg.Bucket.Get(ctx, key, 0, -1)
	if err != nil {
		return store.WALTake{}, err
	}
	defer rc.Close()
	body, err := io.ReadAll(io.LimitReader(rc, 64<<10))
	if err != nil {
		return store.WALTake{}, err
	}
	var m marker
	if err := json.Unmarshal(body, &m); err != nil {
		return store.WALTake{}, fmt.Errorf("%s is not a WAL marker: %w", key, err)
	}
	return store.WALTake{ID: m.WAL, Node: m.Node, Incarnation: m.Incarnation, Addr: m.Addr, Identity: m.Identity}, nil
}

// publishClean tells the registry that nothing unflushed remains.
func (w *Writer) publishClean(ctx context.Context) error {
	w.mu.RLock()
	position := w.position
	w.mu.RUnlock()
	f := millstream.Flush{WAL: w.id, Node: w.cfg.Node, Incarnation: w.incarnation, From: position, To: position, Clean: true}
	_, _, err := w.cfg.Catalog.Publish(ctx, f)
	if err != nil {
		return w.refused(err, f)
	}
	return nil
}

// keepMetadata passes on what senders said of their metrics. It is a help to readers, not data: a failure is logged and the next flush brings it again.
func (w *Writer) keepMetadata(ctx context.Context, r *bufferRange) {
	for _, sb := range r.sorted() {
		if len(sb.metadata) == 0 || sb.gone {
			continue
		}
		if err := w.cfg.Catalog.UpsertMetadata(ctx, sb.org, sb.metadata); err != nil {
			w.log.Warn("metric metadata could not be stored", "org", sb.org, "error", err)
		}
	}
}

// retry repeats f while it fails for want of something that may come back.
func (w *Writer) retry(ctx context.Context, what string, f func() error) error {
	for try := 0; ; try++ {
		err := f()
		if err == nil {
			return nil
		}
		if k := millstream.KindOf(err); k != millstream.Unavailable && k != millstream.Timeout {
			return fmt.Errorf("%s: %w", what, err)
		}
		w.log.Warn("waiting: could not "+what, "error", err)
		if werr := sleep(ctx, min(maxBackOff, 100*time.Millisecond<<min(try, 6))); werr != nil {
			return errors.Join(err, werr)
		}
	}
}
