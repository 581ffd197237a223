package cache

import (
	"container/list"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/google/uuid"
	"github.com/zeebo/blake3"
	"golang.org/x/sys/unix"

	"github.com/millstream/millstream"
)

// exts end the names of a segment's two files, tmpExt that of a file that is still being fetched.
var exts = [2]string{".data", ".index"}

const tmpExt = ".tmp"

// errDamaged is a file or an object whose bytes are not what the catalog says.
var errDamaged = errors.New("the bytes differ from the catalog's checksum")

// present says whether the files of a segment are on the local disk. The caller holds the lock.
func (c *Cache) present(s millstream.Segment) bool {
	for i, x := range []millstream.Extent{s.Data, s.Index} {
		if _, ok := c.stray[keyOf(s)+exts[i]]; !ok && !c.whole(x) {
			return false
		}
	}
	return true
}

// whole says whether an extent is all of an object that is a local file.
func (c *Cache) whole(x millstream.Extent) bool {
	p, ok := c.cfg.Bucket.(placed)
	if !ok || x.Offset != 0 {
		return false
	}
	info, err := os.Stat(p.Path(x.Key))
	return err == nil && info.Size() == x.Length
}

// load makes the files of a segment present, checked and open.
func (c *Cache) load(ctx context.Context, e *entry, s millstream.Segment) error {
	var files [2]File
	var open []io.Closer
	closeAll := func() error {
		var err error
		for _, f := range open {
			err = errors.Join(err, f.Close())
		}
		return err
	}
	for i, x := range []millstream.Extent{s.Data, s.Index} {
		p := e.parts[i]
		if _, gone := os.Stat(p.path); gone != nil {
			if p.own {
				c.forget(p)
			}
			var err error
			if p, err = c.place(ctx, x, e.key+exts[i]); err != nil {
				return errors.Join(err, closeAll())
			}
			c.mu.Lock()
			e.parts[i] = p
			c.mu.Unlock()
		}
		f, err := os.Open(p.path)
		if err != nil {
			return errors.Join(err, closeAll())
		}
		open = append(open, f)
		files[i] = File{ReaderAt: f, Size: p.size, Path: p.path}
	}
	value, err := c.cfg.Open(s, files[0], files[1])
	if err != nil {
		return errors.Join(fmt.Errorf("open: %w", err), closeAll())
	}
	c.mu.Lock()
	e.value, e.closed = value, closeAll
	c.mu.Unlock()
	return nil
}

// place makes an extent present as a local file, of that name if it is the cache's own, and checks its bytes.
func (c *Cache) place(ctx context.Context, x millstream.Extent, name string) (part, error) {
	if c.whole(x) {
		p := part{path: c.cfg.Bucket.(placed).Path(x.Key), size: x.Length}
		if err := check(p.path, x); err != nil {
			return part{}, millstream.Wrap(millstream.Unavailable, err, "the object %s is damaged", x.Key)
		}
		return p, nil
	}
	p := part{path: filepath.Join(c.cfg.Dir, name), size: x.Length, own: true}
	c.mu.Lock()
	_, left := c.stray[name]
	delete(c.stray, name)
	c.mu.Unlock()
	if left {
		err := check(p.path, x)
		if err == nil {
			return p, nil
		}
		c.cfg.Log.Warn("a cached file is damaged and fetched again", "file", p.path, "error", err)
		c.metrics.damaged.Inc()
		c.forget(p)
	}
	return p, c.fetch(ctx, x, p)
}

// fetch copies an extent from the object store into its file. Damaged bytes are fetched once more before that is an error.
func (c *Cache) fetch(ctx context.Context, x millstream.Extent, p part) error {
	select {
	case c.fetches <- struct{}{}:
		defer func() { <-c.fetches }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := c.makeRoom(x.Length); err != nil {
		return err
	}
	err := c.download(ctx, x, p)
	if errors.Is(err, errDamaged) {
		c.cfg.Log.Warn("an extent arrived damaged and is fetched again", "key", x.Key, "offset", x.Offset)
		c.metrics.damaged.Inc()
		err = c.download(ctx, x, p)
	}
	if err != nil {
		if errors.Is(err, errDamaged) {
			return millstream.Wrap(millstream.Unavailable, err, "the object %s is damaged", x.Key)
		}
		return err
	}
	c.mu.Lock()
	c.size += x.Length
	c.metrics.bytes.Set(float64(c.size))
	c.mu.Unlock()
	c.metrics.fetched.Add(float64(x.Length))
	return nil
}

func (c *Cache) download(ctx context.Context, x millstream.Extent, p part) (err error) {
	r, err := c.cfg.Bucket.Get(ctx, x.Key, x.Offset, x.Length)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	tmp := filepath.Join(c.cfg.Dir, uuid.NewString()+tmpExt)
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	h := blake3.New()
	n, err := io.Copy(io.MultiWriter(f, h), r)
	err = errors.Join(err, f.Close())
	if err == nil && (n != x.Length || hex.EncodeToString(h.Sum(nil)) != x.Checksum) {
		err = errDamaged
	}
	if err == nil {
		err = os.Rename(tmp, p.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return nil
}

// check compares a file with an extent's checksum.
func check(path string, x millstream.Extent) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	h := blake3.New()
	if _, err := io.CopyBuffer(struct{ io.Writer }{h}, struct{ io.Reader }{f}, make([]byte, 1<<20)); err != nil {
		return err
	}
	if hex.EncodeToString(h.Sum(nil)) != x.Checksum {
		return errDamaged
	}
	return nil
}

// makeRoom evicts until n more bytes fit into the cache and the disk keeps its free space.
func (c *Cache) makeRoom(n int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.evict(c.cfg.MaxSize - n)
	for c.cfg.MinFree > 0 {
		var st unix.Statfs_t
		if err := unix.Statfs(c.cfg.Dir, &st); err != nil {
			return fmt.Errorf("free space of %s: %w", c.cfg.Dir, err)
		}
		if int64(st.Bavail)*st.Bsize-n >= c.cfg.MinFree {
			return nil
		}
		if !c.evictOne() {
			return millstream.Errorf(millstream.Unavailable, "the disk of the segment cache is full: less than %d bytes would stay free", c.cfg.MinFree)
		}
	}
	return nil
}

// shrink evicts down to the configured size.
func (c *Cache) shrink() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.evict(c.cfg.MaxSize)
}

// evict removes what is not pinned until at most size bytes are kept. The caller holds the lock.
func (c *Cache) evict(size int64) {
	for c.size > size && c.evictOne() {
		c.metrics.evictions.Inc()
	}
}

// evictOne removes the file nobody asked for yet, else the least recently used segment that has files of its own. The caller holds the lock.
func (c *Cache) evictOne() bool {
	for name, size := range c.stray {
		delete(c.stray, name)
		c.remove(part{path: filepath.Join(c.cfg.Dir, name), size: size, own: true})
		return true
	}
	for _, l := range []*list.List{c.shut, c.idle} {
		for at := l.Front(); at != nil; at = at.Next() {
			if e := at.Value.(*entry); e.parts[0].own || e.parts[1].own {
				c.forgetEntry(e)
				return true
			}
		}
	}
	return false
}

// drop closes an entry and removes its files. The caller holds the lock.
func (c *Cache) drop(e *entry) {
	c.close(e)
	for _, p := range e.parts {
		if p.own {
			c.remove(p)
		}
	}
	e.parts = [2]part{}
}

// close closes an entry's files; they stay on the disk. The caller holds the lock.
func (c *Cache) close(e *entry) {
	if e.value == nil {
		return
	}
	if err := e.closed(); err != nil {
		c.cfg.Log.Warn("closing a cached segment", "error", err)
	}
	e.value, e.closed = nil, nil
}

// remove deletes a file of the cache. The caller holds the lock.
func (c *Cache) remove(p part) {
	if err := os.Remove(p.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		c.cfg.Log.Warn("removing a cached file", "file", p.path, "error", err)
	}
	c.size -= p.size
	c.metrics.bytes.Set(float64(c.size))
}

func (c *Cache) forget(p part) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(p)
}
