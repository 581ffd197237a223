package ingest

import (
	"sync"
	"time"

	"github.com/millstream/millstream"
)

const (
	// idMemory is how long a batch id is recognised. It is a little more than the 15 minutes for which a key's pin is kept, because the frame is younger
	// than the pin.
	idMemory = 16 * time.Minute
	// idSlice is the grain in which ids are forgotten.
	idSlice = time.Minute
	// maxIDs bounds the memory, about 40 bytes an id. Of ids that a router made up (UUIDv7), which are retried for seconds only, the oldest are then
	// forgotten early; a client's key is never forgotten early, its write is refused instead.
	maxIDs = 2 << 20
)

// dedupe remembers the batch ids of the last minutes. An id is pending from before its frame is logged until its rows are visible.
type dedupe struct {
	mu      sync.Mutex
	pending map[millstream.BatchID]*outcome
	made    idSet // UUIDv7, made by a router for one request
	keyed   idSet // derived from a client's key
}

// outcome is how a pending write ends: err is set before done is closed.
type outcome struct {
	done chan struct{}
	err  error
}

type idSet struct {
	evict  bool // forget the oldest early rather than grow
	slices []idTime
	count  int
}

type idTime struct {
	start int64
	ids   map[millstream.BatchID]struct{}
}

func newDedupe() *dedupe {
	return &dedupe{pending: map[millstream.BatchID]*outcome{}, made: idSet{evict: true}}
}

func (d *dedupe) set(id millstream.BatchID) *idSet {
	if isKeyed(id) {
		return &d.keyed
	}
	return &d.made
}

// isKeyed tells a derived id from a UUIDv7 by its version digit.
func isKeyed(id millstream.BatchID) bool { return id[6]>>4 != 7 }

// claim asks for the right to write id. known: it is written already. wait: another write of it is under way. Otherwise mine must be ended with finish.
func (d *dedupe) claim(id millstream.BatchID, now int64) (known bool, wait, mine *outcome, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if o := d.pending[id]; o != nil {
		return false, o, nil, nil
	}
	set := d.set(id)
	set.forget(now)
	if set.has(id) {
		return true, nil, nil, nil
	}
	if set == &d.keyed && set.count >= maxIDs {
		return false, nil, nil, &millstream.Error{Kind: millstream.RateLimited, Msg: "too many writes with an idempotency key in the last 15 minutes", RetryAfter: 60}
	}
	mine = &outcome{done: make(chan struct{})}
	d.pending[id] = mine
	return false, nil, mine, nil
}

// finish ends a claim and tells who waits. Without an error the id is remembered from at on.
func (d *dedupe) finish(id millstream.BatchID, o *outcome, at int64, err error) {
	d.mu.Lock()
	delete(d.pending, id)
	if err == nil {
		d.set(id).add(id, at)
	}
	d.mu.Unlock()
	o.err = err
	close(o.done)
}

// remember adds an id found in the log.
func (d *dedupe) remember(id millstream.BatchID, at int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.set(id).add(id, at)
}

func (d *dedupe) size() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.made.count + d.keyed.count
}

func (s *idSet) has(id millstream.BatchID) bool {
	for i := len(s.slices) - 1; i >= 0; i-- {
		if _, ok := s.slices[i].ids[id]; ok {
			return true
		}
	}
	return false
}

func (s *idSet) add(id millstream.BatchID, at int64) {
	n := len(s.slices)
	if n == 0 || at >= s.slices[n-1].start+int64(idSlice) {
		s.slices = append(s.slices, idTime{start: at, ids: map[millstream.BatchID]struct{}{}})
		n++
	}
	if _, ok := s.slices[n-1].ids[id]; !ok {
		s.slices[n-1].ids[id] = struct{}{}
		s.count++
	}
	s.forget(at)
	for s.evict && s.count > maxIDs && len(s.slices) > 1 {
		s.drop()
	}
}

func (s *idSet) forget(now int64) {
	for len(s.slices) > 0 && s.slices[0].start+int64(idMemory+idSlice) < now {
		s.drop()
	}
}

func (s *idSet) drop() {
	s.count -= len(s.slices[0].ids)
	s.slices = s.slices[1:]
}
