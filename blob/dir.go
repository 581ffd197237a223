package blob

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"syscall"

	"github.com/google/uuid"
	"github.com/zeebo/blake3"

	"github.com/millstream/millstream"
)

// Dir is a Bucket over a local directory. An object is a file; it appears by a link of a synced temporary file, so that it is whole or absent, also after a
// power loss, and a taken key is noticed by the link itself. Several nodes may share the directory; Swap is atomic between them by a lock file.
type Dir struct {
	root string
	mu   sync.Mutex // orders Swap within the process; the lock file orders it between processes
}

// NewDir opens the bucket, creating its directory.
func NewDir(root string) (*Dir, error) {
	abs, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("object store directory %s: %w", root, err)
	}
	if err := os.MkdirAll(filepath.Join(abs, tmpDir), 0o700); err != nil {
		return nil, millstream.Wrap(millstream.Unavailable, err, "cannot create the object store directory %s", abs)
	}
	return &Dir{root: abs}, nil
}

// tmpDir starts with a dot, which no key can.
const tmpDir = ".tmp"

// Path is the file of an object, for readers on the same machine that map or read it in place. It does not check that the object exists.
func (d *Dir) Path(key string) string { return filepath.Join(d.root, filepath.FromSlash(key)) }

// Get implements Bucket.
func (d *Dir) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := CheckKey(key); err != nil {
		return nil, err
	}
	f, err := os.Open(d.Path(key))
	if err != nil {
		return nil, fileError(key, err)
	}
	st, err := f.Stat()
	if err != nil {
		return nil, errors.Join(fileError(key, err), f.Close())
	}
	if off < 0 || off > st.Size() || n > st.Size()-off {
		return nil, errors.Join(outside(key, off, n, st.Size()), f.Close())
	}
	if n < 0 {
		n = st.Size() - off
	}
	return &section{io.NewSectionReader(f, off, n), f}, nil
}

type section struct {
	*io.SectionReader
	io.Closer
}

// Put implements Bucket.
func (d *Dir) Put(ctx context.Context, key string, r io.ReadSeeker, size int64) error {
	if err := CheckKey(key); err != nil {
		return err
	}
	return d.write(ctx, key, r, size, func(tmp, dst string) error { return os.Link(tmp, dst) })
}

// write makes a synced temporary file and lets place give it its name.
func (d *Dir) write(ctx context.Context, key string, r io.Reader, size int64, place func(tmp, dst string) error) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	tmp, dst := filepath.Join(d.root, tmpDir, uuid.NewString()), d.Path(key)
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fileError(key, err)
	}
	defer func() { _ = os.Remove(tmp) }()
	n, err := io.Copy(f, r)
	if err == nil && n != size {
		err = shortBody(key, n, size)
	}
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = makeDirs(filepath.Dir(dst), d.root)
	}
	if err == nil {
		err = place(tmp, dst)
	}
	if err == nil {
		err = syncDir(filepath.Dir(dst))
	}
	return fileError(key, err)
}

// makeDirs creates dir and syncs every directory that gained an entry, up to root.
func makeDirs(dir, root string) error {
	if _, err := os.Stat(dir); err == nil || dir == root {
		return err
	}
	if err := makeDirs(filepath.Dir(dir), root); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(filepath.Dir(dir))
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Swap implements Bucket.
func (d *Dir) Swap(ctx context.Context, key string, body []byte, etag string) (string, error) {
	if err := CheckKey(key); err != nil {
		return "", err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	lock, err := os.OpenFile(filepath.Join(d.root, tmpDir, "swap.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", fileError(key, err)
	}
	defer func() { _ = lock.Close() }() // closing releases the lock
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fileError(key, err)
	}
	old, err := os.ReadFile(d.Path(key))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if etag != "" {
			return "", conflict(key)
		}
	case err != nil:
		return "", fileError(key, err)
	case etag != contentTag(old):
		return "", conflict(key)
	}
	if err := d.write(ctx, key, bytes.NewReader(body), int64(len(body)), os.Rename); err != nil {
		return "", err
	}
	return contentTag(body), nil
}

func contentTag(b []byte) string {
	sum := blake3.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// Stat implements Bucket. The etag of a directory's object is only known to Swap and stays empty here.
func (d *Dir) Stat(_ context.Context, key string) (Info, error) {
	if err := CheckKey(key); err != nil {
		return Info{}, err
	}
	st, err := os.Stat(d.Path(key))
	if err != nil {
		return Info{}, fileError(key, err)
	}
	return Info{Key: key, Size: st.Size(), Modified: st.ModTime()}, nil
}

// Delete implements Bucket.
func (d *Dir) Delete(ctx context.Context, keys ...string) error {
	for _, key := range keys {
		if err := errors.Join(ctx.Err(), CheckKey(key)); err != nil {
			return err
		}
		if err := os.Remove(d.Path(key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fileError(key, err)
		}
	}
	return nil
}

// List implements Bucket. It reads the directories that can hold the prefix, not the whole tree.
func (d *Dir) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		dir := ""
		if i := strings.LastIndexByte(prefix, '/'); i >= 0 {
			dir = prefix[:i]
		}
		if dir != "" && CheckKey(dir) != nil {
			return
		}
		d.walk(ctx, dir, prefix, yield)
	}
}

// walk yields the objects below dir, a key without a trailing slash, in key order; it says whether to go on.
func (d *Dir) walk(ctx context.Context, dir, prefix string, yield func(Info, error) bool) bool {
	if err := ctx.Err(); err != nil {
		yield(Info{}, err)
		return false
	}
	entries, err := os.ReadDir(filepath.Join(d.root, filepath.FromSlash(dir)))
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	if err != nil {
		yield(Info{}, fileError(dir, err))
		return false
	}
	name := func(e fs.DirEntry) string { // a directory sorts as the keys below it do
		if e.IsDir() {
			return e.Name() + "/"
		}
		return e.Name()
	}
	sort.Slice(entries, func(i, j int) bool { return name(entries[i]) < name(entries[j]) })
	for _, e := range entries {
		key := strings.TrimPrefix(dir+"/"+e.Name(), "/")
		switch {
		case e.Name()[0] == '.':
		case e.IsDir():
			if (strings.HasPrefix(key+"/", prefix) || strings.HasPrefix(prefix, key+"/")) && !d.walk(ctx, key, prefix, yield) {
				return false
			}
		case strings.HasPrefix(key, prefix):
			st, err := e.Info()
			if errors.Is(err, fs.ErrNotExist) {
				continue // deleted meanwhile
			}
			if err != nil {
				yield(Info{}, fileError(key, err))
				return false
			}
			if !yield(Info{Key: key, Size: st.Size(), Modified: st.ModTime()}, nil) {
				return false
			}
		}
	}
	return true
}

func fileError(key string, err error) error {
	var known *millstream.Error
	switch {
	case err == nil, errors.As(err, &known):
		return err
	case errors.Is(err, fs.ErrNotExist):
		return notFound(key)
	case errors.Is(err, fs.ErrExist):
		return conflict(key)
	}
	return millstream.Wrap(millstream.Unavailable, err, "the object store cannot reach %s", key)
}
