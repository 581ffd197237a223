package ingest

import (
	"context"
	"sync"
	"time"

	"github.com/millstream/millstream"
)

// roomPatience is how long a write waits for room before it is refused: long enough for a seal to end, short enough for a client.
const roomPatience = 2 * time.Second

// room accounts for what is buffered and makes writers wait, then refuses them, at the watermarks. Memory is what is not sealed to disk; held counts that and
// the sealed files, until they are published.
type room struct {
	streamLimit, totalLimit, memoryLimit int64

	mu      sync.Mutex
	memory  int64
	sealing int64 // the part of memory that a worker will free soon
	held    int64
	streams map[millstream.StreamID]int64
	freed   chan struct{} // closed and replaced when room appears
}

func newRoom(stream, total int64) *room {
	return &room{streamLimit: stream, totalLimit: total, memoryLimit: total / 8 * 3, streams: map[millstream.StreamID]int64{}, freed: make(chan struct{})}
}

// wait takes room for the sizes, or refuses with Unavailable once patience ends. kick is called when a flush would help.
func (r *room) wait(ctx context.Context, sizes map[millstream.StreamID]int64, kick func()) error {
	total := int64(0)
	for _, n := range sizes {
		total += n
	}
	timer := time.NewTimer(roomPatience)
	defer timer.Stop()
	for {
		r.mu.Lock()
		full := r.full(sizes, total)
		if full == "" {
			for id, n := range sizes {
				r.takeLocked(id, n)
			}
			r.mu.Unlock()
			return nil
		}
		freed := r.freed
		r.mu.Unlock()
		kick()
		select {
		case <-freed:
		case <-timer.C:
			return &millstream.Error{Kind: millstream.Unavailable, Msg: full + ": send again later", RetryAfter: 2}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// full says what is at its limit. A write that alone exceeds a limit passes when nothing else is held, or it never could.
func (r *room) full(sizes map[millstream.StreamID]int64, total int64) string {
	switch {
	case r.memory > 0 && r.memory+total > r.memoryLimit:
		return "the memory for unflushed rows is full"
	case r.held > 0 && r.held+total > r.totalLimit:
		return "the buffer of unflushed rows is full"
	}
	for id, n := range sizes {
		if have := r.streams[id]; have > 0 && have+n > r.streamLimit {
			return "the stream's buffer of unflushed rows is full"
		}
	}
	return ""
}

// take accounts without waiting.
func (r *room) take(id millstream.StreamID, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.takeLocked(id, n)
}

func (r *room) takeLocked(id millstream.StreamID, n int64) {
	r.memory += n
	r.held += n
	r.streams[id] += n
}

// resize replaces an estimate of memory by another.
func (r *room) resize(id millstream.StreamID, by int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.takeLocked(id, by)
	if by < 0 {
		r.wake()
	}
}

func (r *room) beginSeal(n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sealing += n
}

// endSeal accounts that memory became a file of disk bytes; disk < 0: it failed and the memory stays, which who waits for it must know.
func (r *room) endSeal(id millstream.StreamID, memory, disk int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sealing -= memory
	if disk < 0 {
		r.wake()
		return
	}
	r.toDisk(id, memory, disk)
}

// moved accounts that memory and files of a stream became a file of disk bytes.
func (r *room) moved(id millstream.StreamID, memory, oldDisk, disk int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.toDisk(id, memory, disk-oldDisk)
}

func (r *room) toDisk(id millstream.StreamID, memory, disk int64) {
	r.memory -= memory
	r.held += disk - memory
	r.streams[id] += disk - memory
	r.wake()
}

// free accounts that a stream's buffer is published.
func (r *room) free(id millstream.StreamID, memory, disk int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.memory -= memory
	r.held -= memory + disk
	if r.streams[id] -= memory + disk; r.streams[id] <= 0 {
		delete(r.streams, id)
	}
	r.wake()
}

func (r *room) wake() {
	close(r.freed)
	r.freed = make(chan struct{})
}

// half says whether a flush should start before its time.
func (r *room) half() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held >= r.totalLimit/2 || r.memory-r.sealing >= r.memoryLimit/2 {
		return true
	}
	return false
}

// halfStream says the same of one stream.
func (r *room) halfStream(id millstream.StreamID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.streams[id] >= r.streamLimit/2
}

func (r *room) levels() (memory, held int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.memory, r.held
}

// Buffered is how many bytes of unflushed rows the writer holds, in memory and in local files.
func (w *Writer) Buffered() int64 {
	_, held := w.room.levels()
	return held
}

// pressure says whether memory or the buffer is at half its limit, and whether a seal under way will free some.
func (r *room) pressure() (freed <-chan struct{}, sealing, high bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	memory, held := r.memory >= r.memoryLimit/2, r.held >= r.totalLimit/2
	return r.freed, memory && !held && r.sealing > 0, memory || held
}
