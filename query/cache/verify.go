package cache

import (
	"context"
	"errors"

	"github.com/millstream/millstream"
)

// verify compares blocks that an earlier process fetched with their sums, when they are first read. Those that differ are missing.
func (b *Blocks) verify(first, last int) {
	var buf []byte
	for i := first; i <= last; i++ {
		b.mu.Lock()
		want, done, file := b.sums[i], b.checked[i] || b.sums[i] == (sum{}), b.file
		b.mu.Unlock()
		if done {
			continue
		}
		if buf == nil {
			buf = make([]byte, blockSize)
		}
		p := buf[:b.size(i)]
		if n, err := file.ReadAt(p, int64(i)*blockSize); n < len(p) || sumOf(p) != want {
			b.cache.cfg.Log.Warn("a cached block is damaged and fetched again", "file", b.path, "block", i, "error", err)
			b.forget(i, i)
			continue
		}
		b.mu.Lock()
		if b.sums[i] == want && !b.checked[i] {
			b.checked[i] = true
			b.good++
		}
		b.mu.Unlock()
	}
}

// Distrust takes the blocks of a part out, so that its next read fetches them again: a reader found its bytes damaged.
func (b *Blocks) Distrust(off, n int64) {
	if off < 0 || n <= 0 || off+n > b.x.Length {
		return
	}
	b.cache.cfg.Log.Warn("cached bytes of a segment are damaged and fetched again", "file", b.path, "key", b.x.Key, "offset", off, "bytes", n)
	b.forget(int(off/blockSize), int((off+n-1)/blockSize))
}

// forget makes blocks missing.
func (b *Blocks) forget(first, last int) {
	b.ready.Store(false)
	b.whole.Store(false)
	record, err := openRecord(b.path+recordExt, b.x.Length)
	b.mu.Lock()
	gone := int64(0)
	for i := first; i <= last; i++ {
		if b.sums[i] == (sum{}) {
			continue
		}
		if b.checked[i] {
			b.good--
		}
		b.sums[i], b.checked[i] = sum{}, false
		gone += b.size(i)
		if err == nil {
			err = writeRecord(record, i, sum{})
		}
	}
	b.held -= gone
	b.mu.Unlock()
	if record != nil {
		err = errors.Join(err, record.Close())
	}
	if err != nil { // a later process would find the damage again
		b.cache.cfg.Log.Warn("the record of cached blocks cannot be written", "file", b.path, "error", err)
	}
	b.cache.metrics.damaged.Inc()
	b.cache.grow(b.entry, dataFile, -gone)
}

// complete fetches what is missing and compares the whole with the catalog's checksum, once in a process. Damage is fetched once more before it is an error.
func (b *Blocks) complete(ctx context.Context) error {
	b.wholeMu.Lock()
	defer b.wholeMu.Unlock()
	for try := 0; ; try++ {
		if err := b.need(&reading{Blocks: b, ctx: ctx, most: wholeFetch}, 0, b.x.Length); err != nil || b.whole.Load() {
			return err
		}
		err := check(b.path, b.x)
		if err == nil {
			b.whole.Store(true)
			return nil
		}
		if try > 0 {
			return millstream.Wrap(millstream.Unavailable, err, "the object %s is damaged", b.x.Key)
		}
		b.Distrust(0, b.x.Length)
	}
}

// present says whether every block is there.
func (b *Blocks) present() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held == b.x.Length
}

// drop removes what is there. Nobody reads it and nothing is being fetched, since the segment is not pinned.
func (b *Blocks) drop() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var err error
	if b.file != nil {
		err = b.file.Close()
	}
	b.file, b.held, b.good = nil, 0, 0
	b.whole.Store(false)
	clear(b.sums)
	clear(b.checked)
	b.ready.Store(false)
	return err
}

// DataPath is a local file with exactly the segment's data, fetched and checked as a whole. It exists until Release.
func (h *Handle) DataPath(ctx context.Context) (string, error) {
	if err := h.Complete(ctx); err != nil {
		return "", err
	}
	if b := h.blocks; b != nil {
		return b.path, nil
	}
	return h.cache.cfg.Bucket.(placed).Path(h.data.Key), nil
}

// Complete makes all of the segment's data local and checks it as a whole: for those who read all of it.
func (h *Handle) Complete(ctx context.Context) error {
	if h.blocks == nil { // read in place, and checked when it was opened
		return nil
	}
	return h.blocks.complete(ctx)
}

// Local says whether all of the segment's data is on the local disk.
func (h *Handle) Local() bool { return h.blocks == nil || h.blocks.present() }
