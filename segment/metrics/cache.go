package metrics

import (
	"container/list"
	"sync"
)

// Cache keeps decompressed index blocks of many readers within a bound, the most recently used first. A nil *Cache keeps nothing.
type Cache struct {
	mu     sync.Mutex
	limit  int64
	used   int64
	blocks map[blockKey]*list.Element
	recent *list.List // of *cacheEntry
}

type blockKey struct {
	reader *Reader
	block  int
}

type cacheEntry struct {
	key blockKey
	raw []byte
}

// NewCache returns a cache of at most limit bytes.
func NewCache(limit int64) *Cache {
	return &Cache{limit: limit, blocks: map[blockKey]*list.Element{}, recent: list.New()}
}

// get returns a block from the cache or by read. Nothing may change the bytes.
func (c *Cache) get(k blockKey, read func() ([]byte, error)) ([]byte, error) {
	if c == nil {
		return read()
	}
	c.mu.Lock()
	if e, ok := c.blocks[k]; ok {
		c.recent.MoveToFront(e)
		c.mu.Unlock()
		return e.Value.(*cacheEntry).raw, nil
	}
	c.mu.Unlock()
	raw, err := read()
	if err == nil {
		c.put(k, raw)
	}
	return raw, err
}

func (c *Cache) put(k blockKey, raw []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.blocks[k]; ok || int64(len(raw)) > c.limit {
		return
	}
	c.blocks[k] = c.recent.PushFront(&cacheEntry{k, raw})
	c.used += int64(len(raw)) + 128
	for c.used > c.limit && c.recent.Len() > 0 {
		c.remove(c.recent.Back())
	}
}

func (c *Cache) remove(e *list.Element) {
	x := c.recent.Remove(e).(*cacheEntry)
	delete(c.blocks, x.key)
	c.used -= int64(len(x.raw)) + 128
}

// Forget drops what is kept of a reader; call it when the reader is done with.
func (c *Cache) Forget(r *Reader) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range r.blocks {
		if e, ok := c.blocks[blockKey{r, i}]; ok {
			c.remove(e)
		}
	}
}
