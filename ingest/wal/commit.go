package wal

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/millstream/millstream"
)

const (
	// groupSize bounds one write: the committer takes what is waiting, up to this, and never lingers for more. A 2 ms linger cut the rate by a third.
	groupSize = 4 << 20
	// copyLimit: payloads up to this are copied into the group's buffer; larger ones are written from where they are.
	copyLimit = 256 << 10
	// backlog is how many requests wait for the committer before Append blocks.
	backlog = 1024
	// retryOpen spaces the attempts to open a new file after a failure.
	retryOpen = 100 * time.Millisecond
)

var errExist = fs.ErrExist

func checksumSeed(id uuid.UUID) uint32 { return crc32.Checksum(id[:], castagnoli) }

// committer is the part of a Log that writes. Its fields but the channels belong to the commit goroutine.
type committer struct {
	requests chan *request
	commits  chan commit
	gate     sync.RWMutex // held shared while queueing, so that Close cannot miss a request
	closed   bool
	done     sync.WaitGroup

	out      File // nil: a new file must be opened before anything is accepted
	at       int64
	next     millstream.LSN
	buf      []byte
	unsynced bool
	opened   time.Time // last attempt to open a file
}

type request struct {
	entries []Entry
	size    int
	first   millstream.LSN
	done    func(first millstream.LSN, now int64, err error)
	sync    bool // only make what was written before durable
}

type commit struct {
	group []*request
	now   int64
	err   error
}

// Start opens a new file for frames above both the log's end and after, and begins to accept. Files are never appended to by a later process: what an
// earlier one left is sealed, and the new file's header says up to where it counts.
func (l *Log) Start(after millstream.LSN) error {
	l.requests, l.commits = make(chan *request, backlog), make(chan commit, 2)
	l.next = max(l.Last(), after) + 1
	l.mu.Lock()
	l.last = l.next - 1
	l.mu.Unlock()
	if err := l.openNext(); err != nil {
		return fmt.Errorf("open a new WAL file: %w", err)
	}
	l.done.Add(2)
	go l.commitLoop()
	go l.notifyLoop()
	return nil
}

// Append logs the entries, all in one sync, with consecutive LSNs. It returns when they are queued; done is then called exactly once, in LSN order with all
// others and from one goroutine, with the first LSN and the time they got. The entries' memory must not change until then. An error of Append means that nothing was queued.
func (l *Log) Append(ctx context.Context, entries []Entry, done func(first millstream.LSN, now int64, err error)) error {
	r := &request{entries: entries, done: done}
	for i := range entries {
		if err := entries[i].check(); err != nil {
			return err
		}
		r.size += frameLength(&entries[i])
	}
	return l.enqueue(ctx, r)
}

func (l *Log) enqueue(ctx context.Context, r *request) error {
	l.gate.RLock()
	defer l.gate.RUnlock()
	if l.closed || l.requests == nil {
		return closedError()
	}
	select {
	case l.requests <- r:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func closedError() error {
	return &millstream.Error{Kind: millstream.Unavailable, Msg: "the node is stopping and takes no more writes", RetryAfter: 1, Err: ErrClosed}
}

// Sync makes all frames up to Last durable. With group sync they are already.
func (l *Log) Sync(ctx context.Context) error {
	l.gate.RLock()
	writing := l.requests != nil && !l.closed // before, Open has synced; after, Close has
	l.gate.RUnlock()
	if !l.opt.NoSync || !writing {
		return nil
	}
	done := make(chan error, 1)
	r := &request{sync: true, done: func(_ millstream.LSN, _ int64, err error) { done <- err }}
	if err := l.enqueue(ctx, r); err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close commits what is queued, calls back, and closes the file.
func (l *Log) Close() error {
	l.gate.Lock()
	started := l.requests != nil && !l.closed
	l.closed = true
	l.gate.Unlock()
	if !started {
		return nil
	}
	close(l.requests)
	l.done.Wait()
	if l.out == nil {
		return nil
	}
	out := l.out
	l.out = nil
	if l.unsynced {
		return errors.Join(out.Sync(), out.Close())
	}
	return out.Close()
}

func (l *Log) notifyLoop() {
	defer l.done.Done()
	for c := range l.commits {
		for _, r := range c.group {
			r.done(r.first, c.now, c.err)
		}
	}
}

func (l *Log) commitLoop() {
	defer l.done.Done()
	defer close(l.commits)
	for r := range l.requests {
		l.commit(l.drain(r))
	}
}

// drain takes what is waiting, without lingering.
func (l *Log) drain(r *request) []*request {
	group, size := []*request{r}, r.size
	for size < groupSize {
		select {
		case r, ok := <-l.requests:
			if !ok {
				return group
			}
			group, size = append(group, r), size+r.size
		default:
			return group
		}
	}
	return group
}

// commit makes one group durable and hands it to the notifier, so that the callbacks overlap with the next sync.
func (l *Log) commit(group []*request) {
	now := l.opt.Now()
	err := l.ready(group, now)
	if err == nil {
		if err = l.write(group, now.UnixNano()); err != nil {
			err = l.fail(err)
		}
	}
	l.commits <- commit{group: group, now: now.UnixNano(), err: err}
}

// ready refuses before anything is written: no file, or no room.
func (l *Log) ready(group []*request, now time.Time) error {
	size := int64(0)
	for _, r := range group {
		size += int64(r.size)
	}
	if size == 0 {
		return nil
	}
	if err := l.room(size); err != nil {
		return err
	}
	if l.out != nil && l.at < l.opt.SegmentSize {
		return nil
	}
	if wait := l.opened.Add(retryOpen).Sub(now); l.out == nil && wait > 0 && wait <= retryOpen {
		return &millstream.Error{Kind: millstream.Unavailable, Msg: "the WAL cannot be written at the moment", RetryAfter: 1, Err: errors.New("a new file could not be opened")}
	}
	if err := l.openNext(); err != nil {
		if l.out != nil { // a full file must not grow either: the new name may be on disk, and its header ends the old file here
			l.out.Close()
			l.out = nil
		}
		return &millstream.Error{Kind: millstream.Unavailable, Msg: "the WAL cannot be written: see the node's log", RetryAfter: 5, Err: err}
	}
	return nil
}

// Full says whether the log refuses at its disk watermarks.
func (l *Log) Full() error { return l.room(1) }

// room refuses frames of so many bytes at the disk watermarks.
func (l *Log) room(size int64) error {
	if l.opt.MinFree > 0 {
		if free, err := l.opt.FS.Free(l.opt.Dir); err == nil && free-size < l.opt.MinFree {
			return fullError("the WAL's disk has %d MiB free, %d MiB must stay free: make room there", free>>20, l.opt.MinFree>>20)
		}
	}
	if total := l.Size(); total+size > l.opt.MaxDisk {
		return fullError("the WAL holds %d MiB of at most %d MiB ([wal].max_disk)", total>>20, l.opt.MaxDisk>>20)
	}
	return nil
}

func fullError(format string, args ...any) error {
	return &millstream.Error{Kind: millstream.Unavailable, Msg: fmt.Sprintf(format, args...), RetryAfter: 5, Err: ErrFull}
}

func (l *Log) write(group []*request, now int64) error {
	start, at, lsn, buf := time.Now(), l.at, l.next, l.buf[:0]
	sync, frames := !l.opt.NoSync, 0
	flush := func(p []byte) error {
		n, err := l.out.Write(p)
		at += int64(n)
		return err
	}
	for _, r := range group {
		r.first = lsn
		sync = sync || r.sync
		for i := range r.entries {
			e := &r.entries[i]
			buf = l.appendFrame(buf, e, lsn, now)
			lsn++
			frames++
			if len(e.Payload) <= copyLimit && len(buf) < groupSize {
				buf = append(buf, e.Payload...)
				continue
			}
			if err := errors.Join(flush(buf), flush(e.Payload)); err != nil {
				return err
			}
			buf = buf[:0]
		}
	}
	l.buf = buf[:0]
	if len(buf) > 0 {
		if err := flush(buf); err != nil {
			return err
		}
	}
	if sync && !l.opt.mutant.skipSync {
		if err := l.out.Sync(); err != nil {
			return err
		}
	}
	l.unsynced = !sync && (l.unsynced || frames > 0)
	l.metrics.groups.Inc()
	l.metrics.frames.Add(float64(frames))
	l.metrics.bytes.Add(float64(at - l.at))
	l.metrics.sync.Observe(time.Since(start).Seconds())
	l.advance(at, lsn, now)
	return nil
}

// advance is the commit point: from here on the group counts as durable.
func (l *Log) advance(at int64, next millstream.LSN, now int64) {
	l.at, l.next = at, next
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = next - 1
	f := l.files[len(l.files)-1]
	f.valid, f.disk, f.newest = at, at, now
}

// fail seals the file before the failed group: a sync that failed is never repeated on it, for the kernel may have dropped the pages and say yes the next time.
// The new file's header makes replay stop there.
func (l *Log) fail(cause error) error {
	l.metrics.failures.Inc()
	l.log.Error("a WAL write failed; its file is sealed", "file", fileName(l.files[len(l.files)-1].first), "valid", l.at, "error", cause)
	l.out.Close()
	l.out, l.unsynced = nil, false
	if err := l.openNext(); err != nil {
		l.log.Error("could not open a new WAL file; writes are refused until it can be", "error", err)
	}
	return &millstream.Error{Kind: millstream.Unavailable, Msg: "the write could not be logged; its outcome is unknown", RetryAfter: 1, Err: errors.Join(ErrUnknown, cause)}
}

// openNext creates the next file under a temporary name and renames it, so that a file with the right name always has a whole header. If the present
// file holds no frame it has the same name and is replaced.
func (l *Log) openNext() error {
	l.opened = l.opt.Now()
	h := header{first: l.next, created: l.opened.UnixNano()}
	l.mu.Lock()
	for _, f := range l.files {
		if f.first < l.next {
			h.prevFirst, h.prevValid = f.first, f.valid
		}
	}
	l.mu.Unlock()
	if l.out != nil && l.unsynced { // without sync a power loss may take acknowledged frames, but not leave a hole before later ones
		if err := l.out.Sync(); err != nil {
			l.log.Warn("the sync of a full WAL file failed", "error", err)
		}
		l.unsynced = false
	}
	f, err := l.create(h)
	if err != nil {
		return err
	}
	if l.out != nil {
		l.out.Close()
	}
	l.out, l.at = f, headerSize
	l.mu.Lock()
	if n := len(l.files); n > 0 && l.files[n-1].first == l.next {
		l.files = l.files[:n-1]
	}
	l.files = append(l.files, &file{first: h.first, valid: headerSize, disk: headerSize, newest: h.created, prev: h})
	l.mu.Unlock()
	l.updateSize()
	return nil
}

func (l *Log) create(h header) (File, error) {
	name := l.path(fileName(h.first))
	f, err := l.opt.FS.Create(name + ".tmp")
	if err != nil {
		return nil, err
	}
	_, err = f.Write(l.appendHeader(nil, h))
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = l.opt.FS.Rename(name+".tmp", name)
	}
	if err == nil {
		err = l.opt.FS.SyncDir(l.opt.Dir)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
