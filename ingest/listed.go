package ingest

import (
	"context"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/store"
)

const (
	// maxListed bounds the list, about 300 bytes a stream.
	maxListed = 100_000
	// listPause is how long the list is left alone after it was read.
	listPause = 10 * time.Second
	// listedPatience is how long a write waits for the catalog if its stream is only listed: less than a router waits for a write.
	listedPatience = time.Second
)

// listing is what streams there are in the whole cluster, to be used while the catalog cannot be asked: a node that was started again, or that takes over the
// streams of one that is gone, has seen none of them itself. Fields are not in it; those of a stream that is used from the list are counted from nothing until the
// catalog answers again. It is guarded by streams.mu.
type listing struct {
	byKey map[millstream.StreamKey]listed
	byID  map[millstream.StreamID]millstream.StreamKey
	epoch uint64 // counts forget: a list that was read before does not bring back what was deleted since
}

type listed struct {
	id  millstream.StreamID
	max int // fields; 0: the node's default
}

// list replaces the list, unless something was forgotten since epoch.
func (s *streams) list(all []store.Stream, epoch uint64) {
	l := listing{byKey: make(map[millstream.StreamKey]listed, len(all)), byID: make(map[millstream.StreamID]millstream.StreamKey, len(all)), epoch: epoch}
	for _, st := range all {
		l.byKey[st.Key], l.byID[st.ID] = listed{st.ID, st.MaxFields}, st.Key
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listed.epoch == epoch {
		s.listed = l
	}
}

// drop takes a stream off the list. The caller holds streams.mu.
func (l *listing) drop(id millstream.StreamID) {
	l.epoch++
	delete(l.byKey, l.byID[id])
	delete(l.byID, id)
}

func (s *streams) isListed(k millstream.StreamKey) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, ok := s.listed.byKey[k]
	return ok
}

// fromList makes a stream known by what the list says of it; nil if it is not there.
func (s *streams) fromList(k millstream.StreamKey) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.byKey[k]; t != nil { // another write was quicker
		return t
	}
	on, ok := s.listed.byKey[k]
	if !ok {
		return nil
	}
	t := s.forgotten[on.id]
	if t == nil {
		t = &stream{id: on.id, key: k, fields: map[string]millstream.Field{}, max: on.max}
		if t.max == 0 {
			t.max = s.maxFields
		}
	}
	delete(s.forgotten, on.id)
	s.byKey[k], s.byID[on.id] = t, t
	return t
}

// startListing keeps the list until the returned function is called, which waits for the end.
func (w *Writer) startListing(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { defer close(ended); w.keepList(ctx) }()
	return func() { cancel(); <-ended }
}

// keepList reads the list again, at most every listPause, whenever streams have changed, until ctx ends.
func (w *Writer) keepList(ctx context.Context) {
	for {
		if sleep(ctx, listPause) != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-w.relist:
		}
		w.readList(ctx)
	}
}

// readList reads the list. Without an answer the former one stays.
func (w *Writer) readList(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, catalogTimeout)
	defer cancel()
	w.streams.mu.RLock()
	epoch := w.streams.listed.epoch
	w.streams.mu.RUnlock()
	all, err := w.cfg.Catalog.ListStreams(ctx, maxListed)
	if err != nil {
		w.log.Warn("the streams could not be listed; those that this node has not seen cannot be written while the database is away", "error", err)
		w.streamsChanged()
		return
	}
	w.streams.list(all, epoch)
}

// streamsChanged has the list read again. It does not block.
func (w *Writer) streamsChanged() {
	select {
	case w.relist <- struct{}{}:
	default: // it is due anyway
	}
}
