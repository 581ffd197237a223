package blob

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/millstream/millstream"
)

// Memory is a Bucket in memory, for tests.
type Memory struct {
	mu      sync.Mutex
	objects map[string]object
	etags   int
}

type object struct {
	body     []byte
	etag     string
	modified time.Time
}

// NewMemory returns an empty bucket.
func NewMemory() *Memory { return &Memory{objects: map[string]object{}} }

// Get implements Bucket.
func (m *Memory) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	o, ok := m.objects[key]
	m.mu.Unlock()
	if !ok {
		return nil, notFound(key)
	}
	if off < 0 || off > int64(len(o.body)) || n > int64(len(o.body))-off {
		return nil, outside(key, off, n, int64(len(o.body)))
	}
	if n < 0 {
		n = int64(len(o.body)) - off
	}
	return io.NopCloser(bytes.NewReader(o.body[off : off+n])), nil
}

// Put implements Bucket.
func (m *Memory) Put(ctx context.Context, key string, r io.ReadSeeker, size int64) error {
	if err := CheckKey(key); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	body, err := io.ReadAll(r)
	if err != nil {
		return fmt.Errorf("read the body of %s: %w", key, err)
	}
	if int64(len(body)) != size {
		return shortBody(key, int64(len(body)), size)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, taken := m.objects[key]; taken {
		return conflict(key)
	}
	m.set(key, body)
	return nil
}

// Swap implements Bucket.
func (m *Memory) Swap(ctx context.Context, key string, body []byte, etag string) (string, error) {
	if err := CheckKey(key); err != nil {
		return "", err
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.objects[key].etag != etag {
		return "", conflict(key)
	}
	return m.set(key, bytes.Clone(body)), nil
}

// set stores an object; the caller holds the lock.
func (m *Memory) set(key string, body []byte) string {
	m.etags++
	o := object{body, fmt.Sprintf("%d", m.etags), time.Now()}
	m.objects[key] = o
	return o.etag
}

// Stat implements Bucket.
func (m *Memory) Stat(_ context.Context, key string) (Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.objects[key]
	if !ok {
		return Info{}, notFound(key)
	}
	return Info{key, int64(len(o.body)), o.etag, o.modified}, nil
}

// Delete implements Bucket.
func (m *Memory) Delete(ctx context.Context, keys ...string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range keys {
		delete(m.objects, k)
	}
	return ctx.Err()
}

// List implements Bucket over the objects there are when it is called.
func (m *Memory) List(_ context.Context, prefix string) iter.Seq2[Info, error] {
	m.mu.Lock()
	defer m.mu.Unlock()
	var infos []Info
	for k, o := range m.objects {
		if strings.HasPrefix(k, prefix) {
			infos = append(infos, Info{k, int64(len(o.body)), o.etag, o.modified})
		}
	}
	sort.Slice(infos, func(i, j int) bool { return infos[i].Key < infos[j].Key })
	return func(yield func(Info, error) bool) {
		for _, i := range infos {
			if !yield(i, nil) {
				return
			}
		}
	}
}

// CheckKey refuses a key that is not a clean relative path of [A-Za-z0-9._-] segments: keys are made of ids, so anything else is a fault of ours.
func CheckKey(key string) error {
	for part := range strings.SplitSeq(key, "/") {
		if part == "" || part[0] == '.' || strings.Trim(part, keyChars) != "" {
			return millstream.Errorf(millstream.Internal, "object key %q is not a path of ids", key)
		}
	}
	return nil
}

const keyChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

func notFound(key string) error {
	return millstream.Errorf(millstream.NotFound, "object %s does not exist", key)
}

func conflict(key string) error {
	return millstream.Errorf(millstream.Conflict, "object %s exists or was changed", key)
}

func outside(key string, off, n, size int64) error {
	return millstream.Errorf(millstream.Invalid, "range %d+%d is outside object %s of %d bytes", off, n, key, size)
}

func shortBody(key string, got, want int64) error {
	return millstream.Errorf(millstream.Internal, "the body of %s has %d bytes, not the %d announced", key, got, want)
}
