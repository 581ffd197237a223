package cache

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"github.com/zeebo/blake3"

	"github.com/millstream/millstream"
)

// The extents of a segment.
const (
	dataFile = iota
	indexFile
)

// The ends of names: of a segment's two files, of the record of its blocks, and of a file that is still being fetched.
var exts = [2]string{".data", ".index"}

const (
	recordExt = ".blocks"
	tmpExt    = ".tmp"
)

// errDamaged is a file or an object whose bytes are not what the catalog says.
var errDamaged = errors.New("the bytes differ from the catalog's checksum")

func (c *Cache) path(e *entry, kind int) string { return filepath.Join(c.cfg.Dir, e.key+exts[kind]) }

// whole says whether an extent is all of an object that is a local file.
func (c *Cache) whole(x millstream.Extent) bool {
	p, ok := c.cfg.Bucket.(placed)
	if !ok || x.Offset != 0 {
		return false
	}
	info, err := os.Stat(p.Path(x.Key))
	return err == nil && info.Size() == x.Length
}

// load makes a segment's index present and checked and, if open is asked, its files open.
func (c *Cache) load(ctx context.Context, e *entry, s millstream.Segment, open bool) (err error) {
	path, err := c.needIndex(ctx, e, s.Index)
	if err != nil && c.cfg.Lost != nil && lost(s, err) {
		c.cfg.Lost(ctx, s)
	}
	if err != nil || !open {
		return err
	}
	var files []io.Closer
	defer func() {
		for i := 0; err != nil && i < len(files); i++ {
			err = errors.Join(err, files[i].Close())
		}
	}()
	index, err := os.Open(path)
	if err != nil {
		return err
	}
	files = append(files, index)
	_ = os.Chtimes(path, time.Time{}, time.Now()) // a later process sees the order of use; that it may fail does not matter
	data, blocks := File{Size: s.Data.Length}, (*Blocks)(nil)
	if c.whole(s.Data) {
		f, err := c.openInPlace(e, dataFile, s.Data)
		if err != nil {
			return err
		}
		data.ReaderAt, files = f, append(files, f)
	} else {
		blocks = newBlocks(c, e, s.Data)
		data.ReaderAt, files = blocks, append(files, blocks)
	}
	value, err := c.cfg.Open(s, data, File{ReaderAt: index, Size: s.Index.Length})
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	c.mu.Lock()
	e.value, e.files, e.blocks = value, files, blocks
	c.mu.Unlock()
	return nil
}

// lost says whether an error of fetching an index means that its bytes are not in the store: they differ, the object is shorter, or it is gone, and that alone.
func lost(s millstream.Segment, err error) bool {
	return errors.Is(err, errDamaged) || millstream.KindOf(err) == millstream.Invalid || errors.Is(err, ErrGone) && s.Index.Key != s.Data.Key
}

// openInPlace opens an object that is a local file, checked once in a process.
func (c *Cache) openInPlace(e *entry, kind int, x millstream.Extent) (*os.File, error) {
	path, err := c.checkInPlace(e, kind, x)
	if err != nil {
		return nil, err
	}
	return os.Open(path)
}

func (c *Cache) checkInPlace(e *entry, kind int, x millstream.Extent) (string, error) {
	path := c.cfg.Bucket.(placed).Path(x.Key)
	if c.isChecked(e, kind) {
		return path, nil
	}
	if err := check(path, x); err != nil {
		return "", millstream.Wrap(millstream.Unavailable, err, "the object %s is damaged", x.Key)
	}
	c.setChecked(e, kind)
	return path, nil
}

func (c *Cache) isChecked(e *entry, kind int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return e.checked[kind]
}

func (c *Cache) setChecked(e *entry, kind int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.checked[kind] = true
}

// needIndex makes the index present as a local file, and checks it if that was not done yet.
func (c *Cache) needIndex(ctx context.Context, e *entry, x millstream.Extent) (path string, err error) {
	if c.whole(x) {
		return c.checkInPlace(e, indexFile, x)
	}
	path = c.path(e, indexFile)
	c.mu.Lock()
	had, checked := e.onDisk[indexFile] > 0, e.checked[indexFile]
	c.mu.Unlock()
	if had {
		if checked {
			_, err = os.Stat(path)
		} else {
			err = check(path, x)
		}
		if err == nil {
			c.setChecked(e, indexFile)
			return path, nil
		}
		c.cfg.Log.Warn("a cached index is damaged and fetched again", "file", path, "error", err)
		c.metrics.damaged.Inc()
		c.mu.Lock()
		c.remove(e, indexFile)
		c.mu.Unlock()
	}
	return path, c.fetchIndex(ctx, e, x, path)
}

// slot waits for one of the fetches that may run at a time.
func (c *Cache) slot(ctx context.Context) (release func(), err error) {
	select {
	case c.fetches <- struct{}{}:
		return func() { <-c.fetches }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// fetchIndex copies an index from the object store into its file. Damaged bytes are fetched once more before that is an error.
func (c *Cache) fetchIndex(ctx context.Context, e *entry, x millstream.Extent, path string) error {
	release, err := c.slot(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := c.makeRoom(x.Length); err != nil {
		return err
	}
	err = c.download(ctx, x, path)
	if errors.Is(err, errDamaged) {
		c.cfg.Log.Warn("an index arrived damaged and is fetched again", "key", x.Key, "offset", x.Offset)
		c.metrics.damaged.Inc()
		err = c.download(ctx, x, path)
	}
	if errors.Is(err, errDamaged) {
		return millstream.Wrap(millstream.Unavailable, err, "the object %s is damaged", x.Key)
	}
	if err != nil {
		return err
	}
	c.grow(e, indexFile, x.Length)
	c.setChecked(e, indexFile)
	e.fetched.Add(x.Length)
	c.metrics.fetched.Add(float64(x.Length))
	return nil
}

// get begins to read a part of an extent.
func (c *Cache) get(ctx context.Context, x millstream.Extent, off, n int64) (io.ReadCloser, error) {
	r, err := c.cfg.Bucket.Get(ctx, x.Key, x.Offset+off, n)
	if millstream.KindOf(err) == millstream.NotFound && err != nil {
		err = fmt.Errorf("%w: %w", ErrGone, err)
	}
	return r, err
}

func (c *Cache) download(ctx context.Context, x millstream.Extent, path string) (err error) {
	r, err := c.get(ctx, x, 0, x.Length)
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
		err = os.Rename(tmp, path)
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
