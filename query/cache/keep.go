package cache

import (
	"context"

	"github.com/millstream/millstream"
)

// errFull is what Keep answers when the indexes to be kept have their share of the cache.
var errFull = millstream.Errorf(millstream.RateLimited, "the cache is full of indexes that are to be kept")

// keptShare is which part of the cache the indexes that are to be kept may take: the rest is for data, without which they are of little use.
const keptShare = 0.75

// Keep fetches a segment's index, if it is not there, and keeps it in preference to data and to indexes of others until the round after the given one has ended.
// Rounds count from 1. fetched says whether there was something to fetch. Full says whether an error means that no more are taken.
func (c *Cache) Keep(ctx context.Context, s millstream.Segment, round int64) (fetched bool, err error) {
	e, had := c.pin(s)
	defer c.unpin(e)
	if !had && !c.fits(s.Index.Length) {
		return false, errFull
	}
	if _, err := c.await(ctx, e, s, false); err != nil {
		return !had, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if was := c.isKept(e); round > e.round {
		if e.round = round; !was && c.isKept(e) {
			c.kept += e.onDisk[indexFile]
		}
	}
	return !had, nil
}

// fits says whether the index of a further segment can be kept without another having to go.
func (c *Cache) fits(n int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if float64(c.kept+n) > keptShare*float64(c.cfg.MaxSize) {
		return false
	}
	free, err := c.free()
	return err == nil && (free-n >= c.cfg.MinFree || c.rest[evictable].Len() > 0)
}

// Full says whether an error of Keep means that the cache takes no more indexes.
func Full(err error) bool { return err == errFull }

// EndRound ends a round of Keep: indexes that it did not name are kept no longer, they age like data.
func (c *Cache) EndRound(round int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.round, c.kept = round, 0
	for _, e := range c.entries {
		if c.isKept(e) {
			c.kept += e.onDisk[indexFile]
		}
	}
	l := &c.rest[keepable]
	for el := l.Back(); el != nil; {
		e := el.Value.(*entry)
		if el = el.Prev(); !c.isKept(e) {
			e.at.leave()
			e.at.in, e.at.el = &c.rest[evictable], c.rest[evictable].PushFront(e)
		}
	}
}
