package cache

import (
	"container/list"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/millstream/millstream"
)

// What may be removed of an entry that nobody uses.
const (
	evictable = iota // data, or all of it
	keepable         // an index that is to be kept; it goes when nothing else is left
	inPlace          // nothing: there are no own files
	classes
)

// place is where an entry stands in a list.
type place struct {
	in *list.List
	el *list.Element
}

func (p *place) enter(l *list.List, e *entry) {
	p.leave()
	p.in, p.el = l, l.PushBack(e)
}

func (p *place) leave() {
	if p.el != nil {
		p.in.Remove(p.el)
		p.el = nil
	}
}

// isKept says whether the index of an entry is to be kept. The caller holds the lock.
func (c *Cache) isKept(e *entry) bool { return e.round > 0 && e.round >= c.round }

// settle puts an entry without pins at the end of the list that it belongs to, or out of the map if nothing is left of it. The caller holds the lock.
func (c *Cache) settle(e *entry) {
	e.at.leave()
	switch {
	case e.onDisk[dataFile] > 0 || e.onDisk[indexFile] > 0 && !c.isKept(e):
		e.at.enter(&c.rest[evictable], e)
	case e.onDisk[indexFile] > 0:
		e.at.enter(&c.rest[keepable], e)
	case e.value != nil || e.checked[indexFile]:
		e.at.enter(&c.rest[inPlace], e)
	default:
		delete(c.entries, e.key)
	}
}

// grow counts bytes of a file that came or went.
func (c *Cache) grow(e *entry, kind int, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resize(e, kind, e.onDisk[kind]+n)
}

// set counts a file anew.
func (c *Cache) set(e *entry, kind int, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resize(e, kind, n)
}

// resize notes the size of a file. The caller holds the lock.
func (c *Cache) resize(e *entry, kind int, n int64) {
	by := n - e.onDisk[kind]
	e.onDisk[kind] = n
	c.size += by
	c.metrics.bytes.Set(float64(c.size))
	if kind == indexFile && c.isKept(e) {
		c.kept += by
	}
}

// makeRoom evicts until n more bytes fit into the cache and the disk keeps its free space.
func (c *Cache) makeRoom(n int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.evict(c.cfg.MaxSize - n)
	for c.cfg.MinFree > 0 {
		free, err := c.free()
		if err != nil || free-n >= c.cfg.MinFree {
			return err
		}
		if !c.evictOne() {
			return millstream.Errorf(millstream.Unavailable, "the disk of the segment cache is full: less than %d bytes would stay free", c.cfg.MinFree)
		}
	}
	return nil
}

// free is the room on the disk, in bytes.
func (c *Cache) free() (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(c.cfg.Dir, &st); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", c.cfg.Dir, err)
	}
	return int64(st.Bavail) * st.Bsize, nil
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
	}
}

// evictOne removes the data of the least recently used segment, and its index too if that is not to be kept; if there is nothing else, the index that was used
// least recently. The caller holds the lock.
func (c *Cache) evictOne() bool {
	for kind := range c.rest[:inPlace] {
		front := c.rest[kind].Front()
		if front == nil {
			continue
		}
		e := front.Value.(*entry)
		if kind == evictable && c.isKept(e) {
			c.remove(e, dataFile)
			c.settle(e)
		} else {
			c.forget(e)
		}
		c.metrics.evictions.Inc()
		return true
	}
	return false
}

// forget closes an entry without pins and removes its files and itself. The caller holds the lock.
func (c *Cache) forget(e *entry) {
	e.open.leave()
	e.at.leave()
	c.closeFiles(e)
	c.remove(e, dataFile)
	c.remove(e, indexFile)
	delete(c.entries, e.key)
}

// close closes the files of an entry without pins; they stay on the disk. The caller holds the lock.
func (c *Cache) close(e *entry) {
	e.open.leave()
	c.closeFiles(e)
}

func (c *Cache) closeFiles(e *entry) {
	for _, f := range e.files {
		if err := f.Close(); err != nil {
			c.cfg.Log.Warn("closing a cached segment", "error", err)
		}
	}
	e.value, e.files, e.blocks = nil, nil, nil
}

// remove deletes a file of the cache. The caller holds the lock.
func (c *Cache) remove(e *entry, kind int) {
	paths := []string{c.path(e, kind)}
	if kind == dataFile {
		paths = append(paths, paths[0]+recordExt)
		if e.blocks != nil {
			if err := e.blocks.drop(); err != nil {
				c.cfg.Log.Warn("closing a cached segment", "error", err)
			}
		}
	}
	for _, path := range paths {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			c.cfg.Log.Warn("removing a cached file", "file", path, "error", err)
		}
	}
	e.checked[kind] = false
	c.resize(e, kind, 0)
}

// takeOver counts the files that are there, in the order of their last use, and removes what is of no use.
func (c *Cache) takeOver() error {
	files, err := os.ReadDir(c.cfg.Dir)
	if err != nil {
		return err
	}
	used := map[*entry]int64{}
	var all []*entry
	for _, f := range files {
		info, err := f.Info()
		if err != nil || !f.Type().IsRegular() {
			continue
		}
		ext := filepath.Ext(f.Name())
		kind := slices.Index(exts[:], ext)
		key := strings.TrimSuffix(f.Name(), ext)
		if kind < 0 {
			if ext == tmpExt || ext == recordExt && !exists(filepath.Join(c.cfg.Dir, key)) {
				err = os.Remove(filepath.Join(c.cfg.Dir, f.Name()))
			}
			if err != nil {
				return err
			}
			continue
		}
		e := c.entries[key]
		if e == nil {
			e = newEntry(key)
			c.entries[key] = e
			all = append(all, e)
		}
		used[e] = max(used[e], info.ModTime().UnixNano())
		c.resize(e, kind, allocated(info))
	}
	slices.SortStableFunc(all, func(a, b *entry) int { return int(min(max(used[a]-used[b], -1), 1)) })
	for _, e := range all {
		c.settle(e)
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// allocated is the room that a file takes: of a sparse one less than its size. It is at least 1.
func allocated(info fs.FileInfo) int64 {
	size := info.Size()
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		size = min(size, st.Blocks*512)
	}
	return max(size, 1)
}

// lockFile is locked while a process uses the directory.
const lockFile = "lock"

// lock makes the directory and keeps other processes off it until the file is closed, or the process ends however it does.
func lock(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, millstream.Wrap(millstream.Unavailable, err, "cannot make the cache directory %s", dir)
	}
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, millstream.Wrap(millstream.Unavailable, err, "cannot use the cache directory %s", dir)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, millstream.Wrap(millstream.Conflict, err, "the cache directory %s is in use by another process: a node needs one of its own ([cache].dir)", dir)
	}
	return f, nil
}
