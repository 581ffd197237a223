package compactor

import (
	"context"
	"errors"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/store"
)

// missingWait is how long a segment without its object is left out before the store is asked again.
const missingWait = time.Hour

// missing is a live segment of which an object is not in the store: deleted by hand, or lost. Its row stays, and whoever reads it fails.
type missing struct {
	stream millstream.StreamID
	key    string
	again  time.Time // when the store is asked again
}

// stale says whether nobody asked for long after it was time: the stream is another node's by now, or gone.
func (m *missing) stale(now time.Time) bool { return now.After(m.again.Add(missingWait)) }

// errMissing ends work on a live segment of which an object is missing. It has been told, and is left out of the next rounds.
var errMissing = errors.New("an object is not in the store")

// leaveOut marks the segments among a stream's that are known to miss an object, so that the others are merged without them; those whose time has come are looked for
// in the store. Segments that are no longer the stream's are forgotten.
func (c *Compactor) leaveOut(ctx context.Context, id millstream.StreamID, all []store.Candidate) {
	known := c.missingOf(id, all)
	for i := range all {
		g := &all[i]
		m, ok := known[g.ID]
		if !ok {
			continue
		}
		if !c.cfg.Now().Before(m.again) {
			key, err := c.lacks(ctx, g.Segment)
			if err == nil && key == "" {
				c.log.Info("the object of a segment is back: it is merged again", "stream", id, "segment", g.ID, "key", m.key)
				c.mu.Lock()
				delete(c.missing, g.ID)
				c.mu.Unlock()
				continue
			}
			if err != nil { // of the store: it is asked again as if the object were missing
				c.log.Warn("the store cannot be asked for a missing object", "stream", id, "segment", g.ID, "key", m.key, "error", err)
				key = m.key
			}
			c.miss(g.Segment, key)
		}
		g.Kept = true
	}
}

// missingOf gives what is known to be missing of a stream's segments.
func (c *Compactor) missingOf(id millstream.StreamID, all []store.Candidate) map[millstream.SegmentID]missing {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.missing) == 0 {
		return nil
	}
	known := map[millstream.SegmentID]missing{}
	for i := range all {
		if m, ok := c.missing[all[i].ID]; ok {
			known[all[i].ID] = m
		}
	}
	for g, m := range c.missing {
		if _, ok := known[g]; !ok && (m.stream == id || m.stale(c.cfg.Now())) {
			delete(c.missing, g)
		}
	}
	return known
}

// gone finds out what it means that an object of some segments of a stream is not there. Segments that are not live any more were collected after they were listed:
// ErrLostRace. The live ones are left out from now on, all at once, which is errMissing. If all objects are there by now, it is the error that was met.
func (c *Compactor) gone(ctx context.Context, segments []store.Candidate, met error) error {
	keys := map[millstream.SegmentID]string{}
	for i := range segments {
		key, err := c.lacks(ctx, segments[i].Segment)
		if err != nil {
			return err
		}
		if key != "" {
			keys[segments[i].ID] = key
		}
	}
	if len(keys) == 0 {
		return met
	}
	live, err := c.cfg.Catalog.MergeCandidates(ctx, segments[0].Stream) // after the store was asked: objects outlive their rows
	if err != nil {
		return err
	}
	err = millstream.Wrap(millstream.Conflict, store.ErrLostRace, "%s", met)
	for i := range live {
		if key := keys[live[i].ID]; key != "" {
			c.miss(live[i].Segment, key)
			err = errMissing
		}
	}
	return err
}

// lacks is the key of an object of a segment that is not in the store; empty if all are.
func (c *Compactor) lacks(ctx context.Context, g millstream.Segment) (string, error) {
	for _, key := range []string{g.Data.Key, g.Index.Key} {
		if _, err := c.cfg.Bucket.Stat(ctx, key); err != nil {
			if millstream.KindOf(err) == millstream.NotFound {
				return key, nil
			}
			return "", err
		}
		if g.Index.Key == g.Data.Key {
			break
		}
	}
	return "", nil
}

// miss notes that an object of a live segment is not in the store, and says so loudly if that is news.
func (c *Compactor) miss(g millstream.Segment, key string) {
	c.mu.Lock()
	old, known := c.missing[g.ID]
	c.missing[g.ID] = missing{stream: g.Stream, key: key, again: c.cfg.Now().Add(missingWait)}
	c.mu.Unlock()
	if known && old.key == key {
		return
	}
	do := "put the object back from the bucket's versions or a copy, see \"When a part fails\" in docs/operations.md"
	if key != g.Data.Key {
		do = "nothing: the index is built anew from the data"
	}
	c.log.Error("an object of a segment is not in the store: queries of its records fail, and merges leave it out", "organization", g.Org, "stream", g.Stream, "segment", g.ID, "key", key, "do", do)
}

// dataless says whether a segment's data is known to be missing and the store is not to be asked yet.
func (c *Compactor) dataless(g millstream.Segment) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, ok := c.missing[g.ID]
	return ok && m.key == g.Data.Key && c.cfg.Now().Before(m.again)
}

// countMissing is how many segments are known to miss an object.
func (c *Compactor) countMissing() (n float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.missing {
		if !m.stale(c.cfg.Now()) {
			n++
		}
	}
	return n
}
