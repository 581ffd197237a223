package ingest

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest/wal"
	"github.com/millstream/millstream/segment"
	"github.com/millstream/millstream/segment/metrics"
)

const (
	// packLimit closes a shared object. A stream whose rows take more memory than ownLimit, or that was sealed before, has objects of its own.
	packLimit = 64 << 20
	ownLimit  = 16 << 20
	// walGrace is how long a published WAL file stays: a database failover may go back that far, and the batch ids of 15 minutes must survive a restart.
	walGrace = 20 * time.Minute
	// bufferGrace is how long a published range stays readable for a query that came without a Hold.
	bufferGrace = 10 * time.Second
	maxBackOff  = 5 * time.Second
	// suspicious is a gap in this process's time, on the wall clock, after which another may have taken its place: the machine slept, or the process was stopped.
	suspicious = 10 * time.Second
)

var errEnough = errors.New("the range is long enough")

func (w *Writer) kickFlush() {
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

// tickSlack is the part of the interval by which a flush may begin early, so that a tick that comes a moment early does not cost a whole further one.
const tickSlack = 20

// flushLoop flushes at every interval, when the buffer is half full, and when a heartbeat finds something to repair, until ctx ends or the writer is fenced.
func (w *Writer) flushLoop(ctx context.Context) error {
	tick := time.NewTicker(min(time.Second, w.cfg.FlushInterval))
	defer tick.Stop()
	last, wait, failures := time.Now(), time.Duration(0), 0
	seen := w.cfg.Now().Round(0) // the wall clock when the loop last looked: a flush, too, may be cut by a suspension of the machine
	for {
		kicked := false
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			w.reap()
		case <-w.kick:
			kicked = true
		}
		now := w.cfg.Now().Round(0)
		if now.Sub(seen) > suspicious {
			w.ask()
			kicked = true
		}
		seen = now
		if since := time.Since(last); since < wait || !kicked && failures == 0 && since < w.cfg.FlushInterval-w.cfg.FlushInterval/tickSlack {
			continue
		}
		err := w.flushAll(ctx)
		last, wait = time.Now(), 0
		switch {
		case errors.Is(err, ErrFenced):
			return err
		case err != nil && ctx.Err() == nil:
			failures++
			wait = min(maxBackOff, 100*time.Millisecond<<min(failures, 6))
			w.metrics.flushFailures.Inc()
			w.log.Warn("flush did not succeed; it will be tried again", "try", failures, "error", err)
		default:
			failures = 0
		}
	}
}

// Flush publishes everything that was acknowledged before the call. It tries until it succeeds, ctx ends or the writer is fenced.
func (w *Writer) Flush(ctx context.Context) error {
	for try := 1; ; try++ {
		err := w.flushAll(ctx)
		if err == nil || errors.Is(err, ErrFenced) {
			return err
		}
		if werr := sleep(ctx, min(maxBackOff, 100*time.Millisecond<<min(try, 6))); werr != nil {
			return errors.Join(err, werr)
		}
		w.log.Warn("flush did not succeed; trying again", "try", try, "error", err)
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// flushAll freezes what is buffered and publishes range by range until nothing frozen is left. After an error it goes on where it stopped: a range stays as it
// was frozen until its outcome is known.
func (w *Writer) flushAll(ctx context.Context) error {
	w.flushMu.Lock()
	defer w.flushMu.Unlock()
	w.freeze()
	for {
		if err := w.settle(ctx); err != nil {
			return err
		}
		r, err := w.oldest(ctx)
		if err != nil {
			return err
		}
		if r == nil {
			return w.retire()
		}
		if err := w.flushRange(ctx, r); err != nil {
			return err
		}
	}
}

// freeze ends the open range and begins the next one. Frozen ranges do not pile up: while one waits for its outcome the open range goes on.
func (w *Writer) freeze() {
	w.insertMu.Lock()
	defer w.insertMu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.ranges {
		if r.state == frozen {
			return
		}
	}
	if last := w.ranges[len(w.ranges)-1]; last.to > last.from {
		last.state = frozen
		w.ranges = append(w.ranges, newRange(last.to))
	}
}

// oldest is the range to publish next, nil if there is none. If the published position lies below all ranges, the database went back to an older state: the
// rows in between are read from the log again.
func (w *Writer) oldest(ctx context.Context) (*bufferRange, error) {
	w.mu.RLock()
	position := w.position
	i := slices.IndexFunc(w.ranges, func(r *bufferRange) bool { return r.state != published })
	r := w.ranges[i]
	w.mu.RUnlock()
	if r.from > position {
		return w.reread(ctx, position, r.from)
	}
	if r.state == open {
		return nil, nil
	}
	return r, nil
}

// reread makes a frozen range of the logged frames above from, as many as fit in a quarter of the buffer, and puts it before the others.
func (w *Writer) reread(ctx context.Context, from, to millstream.LSN) (*bufferRange, error) {
	w.log.Warn("reading published rows from the WAL again", "from", from, "to", to)
	r := newRange(from)
	r.state = frozen
	size := int64(0)
	err := w.wal.Replay(ctx, from, to, func(f wal.Frame) error {
		if f.LSN <= from {
			return nil
		}
		if size > w.cfg.BufferTotal/4 {
			return errEnough
		}
		it, ok := w.fromFrame(f)
		if ok {
			size += it.size
			w.insert(r, f.LSN, it)
		}
		r.to = f.LSN
		return nil
	})
	switch {
	case err == nil:
		r.to = to // frames that damage took have no rows, but the range covers them
	case !errors.Is(err, errEnough):
		w.release(r)
		r.seals.Wait()
		r.discard()
		return nil, fmt.Errorf("read the WAL again from %d: %w", from, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ranges = append([]*bufferRange{r}, w.ranges...)
	return r, nil
}

// fromFrame decodes a frame and takes room for it. A frame that holds no batch is counted and skipped.
func (w *Writer) fromFrame(f wal.Frame) (logged, bool) {
	b, err := millstream.DecodeBatch(f.Payload)
	if err != nil {
		w.metrics.undecodable.Inc()
		w.log.Error("a WAL frame holds no batch; it is skipped", "lsn", f.LSN, "error", err)
		return logged{}, false
	}
	b.Org, b.Stream, b.Signal, b.ID = f.Org, f.Stream, f.Signal, f.Batch
	size := int64(b.Size())
	w.room.take(b.Stream, size)
	return logged{batch: b, sum: f.Sum, size: size}, true
}

// flushRange builds, uploads and publishes one frozen range. Every step is skipped if it succeeded before.
func (w *Writer) flushRange(ctx context.Context, r *bufferRange) error {
	began := time.Now()
	if !r.built {
		if err := w.build(r); err != nil {
			return fmt.Errorf("build the segments of (%d, %d]: %w", r.from, r.to, err)
		}
		r.built = true
	}
	if err := w.wal.Sync(ctx); err != nil { // a WAL may never end below its published position
		return fmt.Errorf("sync the WAL before publishing: %w", err)
	}
	w.step("upload")
	if err := w.upload(ctx, r.objects); err != nil {
		return err
	}
	if err := w.register(ctx, r); err != nil {
		return err
	}
	w.step("publish")
	if err := w.publish(ctx, r); err != nil {
		return err
	}
	w.step("published")
	w.metrics.flushes.Inc()
	w.metrics.flushSeconds.Observe(time.Since(began).Seconds())
	return nil
}

// sorted are the range's buffers in an order that depends on their ids only.
func (r *bufferRange) sorted() []*streamBuffer {
	out := make([]*streamBuffer, 0, len(r.streams))
	for _, sb := range r.streams {
		out = append(out, sb)
	}
	slices.SortFunc(out, func(a, b *streamBuffer) int {
		return cmp.Or(cmp.Compare(a.org, b.org), cmp.Compare(a.signal, b.signal), cmp.Compare(a.stream, b.stream))
	})
	return out
}

// build makes one local segment of each stream's rows, and lets queries read that instead of what it was made of. So a range that waits for an object store
// that is away holds no rows in memory.
func (w *Writer) build(r *bufferRange) error {
	r.seals.Wait()
	r.objects = nil
	var p *pack
	var packed []*streamBuffer
	finish := func() error {
		if p == nil {
			return nil
		}
		if err := w.finishPack(r, p, packed); err != nil {
			return err
		}
		p, packed = nil, nil
		return nil
	}
	for _, sb := range r.sorted() {
		if sb.whole != nil || sb.empty() {
			continue
		}
		if sb.large() {
			if err := w.buildLarge(r, sb); err != nil {
				return err
			}
			continue
		}
		if p != nil && (p.at > packLimit || packed[0].org != sb.org || packed[0].signal != sb.signal) {
			if err := finish(); err != nil {
				return err
			}
		}
		if p == nil {
			o, err := w.newObject(r)
			if err != nil {
				return err
			}
			o.name, o.ext = fmt.Sprintf("segments/%s/%s/%s", sb.org, sb.signal, w.segmentID(r, sb.stream)), ".pack"
			p = &pack{object: o, out: bufio.NewWriterSize(o.file, 256<<10)}
		}
		if err := w.buildSmall(p, sb); err != nil {
			return err
		}
		packed = append(packed, sb)
	}
	if err := finish(); err != nil {
		return err
	}
	for _, sb := range r.sorted() {
		if sb.whole != nil {
			r.addObject(sb.whole.data.object)
			r.addObject(sb.whole.index.object)
		}
	}
	return nil
}

// empty says that there is nothing to make a segment of: a sender may describe metrics without giving samples.
func (sb *streamBuffer) empty() bool {
	if sb.head != nil {
		sb.metadata = sb.head.Metadata()
	}
	return sb.head != nil && sb.head.Samples() == 0
}

func (r *bufferRange) addObject(o *object) {
	if !slices.Contains(r.objects, o) {
		r.objects = append(r.objects, o)
	}
}

func (sb *streamBuffer) large() bool {
	return len(sb.parts) > 0 || sb.head == nil && sb.memory > ownLimit
}

// batches are the rows that are in memory.
func (sb *streamBuffer) batches() (out []*millstream.Batch) {
	for _, p := range sb.parts {
		out = append(out, batchesOf(p.runs)...)
	}
	return append(out, batchesOf(sb.tail)...)
}

func (w *Writer) buildSmall(p *pack, sb *streamBuffer) error {
	l := &local{}
	var err error
	l.data, l.index, err = p.add(func(data, index io.Writer) error {
		if sb.head != nil {
			info, err := sb.head.Encode(data, index)
			l.rows, l.minTime, l.maxTime = info.Rows, info.MinTime, info.MaxTime
			l.dataSum, l.indexSum = info.DataSum, info.IndexSum
			return err
		}
		info, err := segment.Encode(data, index, sb.batches(), segment.Options{})
		l.rows, l.minTime, l.maxTime, l.dataSum, l.indexSum = info.Rows, info.MinTime, info.MaxTime, info.DataSum, info.IndexSum
		return err
	})
	sb.built = l
	return err
}

// finishPack opens the segments of a complete pack and swaps them in.
func (w *Writer) finishPack(r *bufferRange, p *pack, packed []*streamBuffer) error {
	if err := p.finish(); err != nil {
		return err
	}
	for _, sb := range packed {
		l := sb.built
		var err error
		if sb.head != nil {
			l.metrics, err = metrics.Open(l.data.reader(), l.data.n, l.index.reader(), l.index.n)
		} else {
			l.logs, err = segment.Open(l.data.reader(), l.data.n, l.index.reader(), l.index.n)
		}
		if err != nil {
			return fmt.Errorf("open a packed segment: %w", err)
		}
	}
	for _, sb := range packed {
		w.swapIn(sb, sb.built)
	}
	return nil
}

// buildLarge seals what is not sealed yet and merges the sealed runs.
func (w *Writer) buildLarge(r *bufferRange, sb *streamBuffer) error {
	var runs []*local
	for _, p := range sb.parts {
		if p.sealed != nil {
			runs = append(runs, p.sealed)
		}
	}
	if rest := sb.batches(); len(rest) > 0 {
		l, err := w.encodeBatches(r, rest)
		if err != nil {
			return err
		}
		runs = append(runs, l)
	}
	whole := runs[0]
	if len(runs) > 1 {
		readers := make([]*segment.Reader, len(runs))
		for i, l := range runs {
			readers[i] = l.logs
		}
		var err error
		whole, err = w.writeLocal(r, func(data, index io.Writer) (segment.Info, error) {
			return segment.Merge(data, index, readers, segment.Options{})
		})
		if err != nil {
			return err
		}
	}
	name := fmt.Sprintf("segments/%s/%s/%s/%s", sb.org, sb.signal, sb.stream, w.segmentID(r, sb.stream))
	whole.data.object.name, whole.data.object.ext = name, ".parquet"
	whole.index.object.name, whole.index.object.ext = name, ".index"
	w.swapIn(sb, whole)
	return nil
}

// swapIn lets queries that come from now on read the whole; those under way keep what they have, whose files stay until the range goes.
func (w *Writer) swapIn(sb *streamBuffer, l *local) {
	w.mu.Lock()
	memory, disk := sb.memory, sb.disk
	sb.whole, sb.built, sb.parts, sb.tail, sb.head = l, nil, nil, nil, nil
	sb.memory, sb.disk = 0, l.size()
	w.mu.Unlock()
	w.room.moved(sb.stream, memory, disk, l.size())
}

// segmentID is deterministic: whoever publishes this range of this WAL names its segments alike.
func (w *Writer) segmentID(r *bufferRange, stream millstream.StreamID) millstream.SegmentID {
	return millstream.SegmentID(uuid.NewSHA1(w.namespace, fmt.Appendf(nil, "%d/%d/%s", r.from, r.to, stream)).String())
}

// release gives back the room of a range.
func (w *Writer) release(r *bufferRange) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, sb := range r.streams {
		w.room.free(sb.stream, sb.memory, sb.disk)
		sb.memory, sb.disk = 0, 0
	}
}

// retire removes WAL files that nobody can need again.
func (w *Writer) retire() error {
	w.mu.RLock()
	position := w.position
	w.mu.RUnlock()
	w.step("retire")
	before := w.cfg.Clock().Add(-w.logGrace)
	if w.mutant.retireEarly {
		position, before = w.wal.Last(), w.cfg.Clock()
	}
	return w.wal.Retire(position, before)
}

// step calls the test hook.
func (w *Writer) step(name string) {
	if w.hook != nil {
		w.hook(name)
	}
}
