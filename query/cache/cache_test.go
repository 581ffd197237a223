package cache_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/zeebo/blake3"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/blob"
	"github.com/millstream/millstream/query/cache"
)

// counting is a bucket that counts reads and can damage, delay or fail them.
type counting struct {
	blob.Bucket
	gets   atomic.Int64
	damage atomic.Int64 // so many of the next reads are damaged
	fail   atomic.Int64
	gate   chan struct{} // if set, a read waits for it
}

func (b *counting) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	b.gets.Add(1)
	if b.gate != nil {
		select {
		case <-b.gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if b.fail.Add(-1) >= 0 {
		return nil, millstream.Errorf(millstream.Unavailable, "the object store does not answer")
	}
	r, err := b.Bucket.Get(ctx, key, off, n)
	if err != nil || b.damage.Add(-1) < 0 {
		return r, err
	}
	body, err := io.ReadAll(r)
	body[len(body)/2] ^= 1
	return io.NopCloser(bytes.NewReader(body)), errors.Join(err, r.Close())
}

// opened is what the tests' Open makes: the bytes of both files.
type opened struct{ data, index string }

func open(_ millstream.Segment, data, index cache.File) (any, error) {
	read := func(f cache.File) string {
		b := make([]byte, f.Size)
		if _, err := f.ReadAt(b, 0); err != nil {
			return err.Error()
		}
		return string(b)
	}
	return &opened{read(data), read(index)}, nil
}

func newCache(t *testing.T, b cache.Bucket, dir string, change func(*cache.Config)) *cache.Cache {
	t.Helper()
	cfg := cache.Config{Bucket: b, Dir: dir, Open: open}
	if change != nil {
		change(&cfg)
	}
	c, err := cache.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// put stores n segments whose data share an object and whose indexes share another.
func put(t *testing.T, b blob.Bucket, n int) []millstream.Segment {
	t.Helper()
	var data, index bytes.Buffer
	segs := make([]millstream.Segment, n)
	add := func(buf *bytes.Buffer, key string, i int) millstream.Extent {
		body := bytes.Repeat(fmt.Appendf(nil, "%s %d;", key, i), 100+i)
		sum := blake3.Sum256(body)
		x := millstream.Extent{Key: key, Offset: int64(buf.Len()), Length: int64(len(body)), Checksum: hex.EncodeToString(sum[:])}
		buf.Write(body)
		return x
	}
	for i := range segs {
		segs[i] = millstream.Segment{ID: millstream.SegmentID(fmt.Sprint(i)), Data: add(&data, "data", i), Index: add(&index, "index", i)}
	}
	for key, buf := range map[string]*bytes.Buffer{"data": &data, "index": &index} {
		if err := b.Put(t.Context(), key, bytes.NewReader(buf.Bytes()), int64(buf.Len())); err != nil {
			t.Fatal(err)
		}
	}
	return segs
}

func get(t *testing.T, c *cache.Cache, s millstream.Segment) *cache.Handle {
	t.Helper()
	h, err := c.Get(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func dataPath(t *testing.T, h *cache.Handle) string {
	t.Helper()
	path, err := h.DataPath(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// check reads a segment through the cache and compares its bytes.
func check(t *testing.T, c *cache.Cache, s millstream.Segment) (cached bool) {
	t.Helper()
	h := get(t, c, s)
	defer h.Release()
	want := bytes.Repeat(fmt.Appendf(nil, "data %s;", s.ID), int(s.Data.Length)/len(fmt.Sprintf("data %s;", s.ID)))
	if got := h.Value().(*opened); got.data != string(want) {
		t.Errorf("segment %s has other data", s.ID)
	}
	file, err := os.ReadFile(dataPath(t, h))
	if err != nil || !bytes.Equal(file, want) {
		t.Errorf("the data file of segment %s differs: %v", s.ID, err)
	}
	return h.Cached
}

func TestExtentsOfSharedObjects(t *testing.T) {
	b := &counting{Bucket: blob.NewMemory()}
	segs := put(t, b, 5)
	c := newCache(t, b, t.TempDir(), nil)
	for round := range 2 {
		for _, s := range segs {
			if cached := check(t, c, s); cached != (round == 1) {
				t.Errorf("round %d: cached %v", round, cached)
			}
			if !c.Has(s) {
				t.Errorf("segment %s is not there", s.ID)
			}
		}
	}
	if n := b.gets.Load(); n != 10 {
		t.Errorf("%d reads of the store, want 10", n)
	}
}

func TestCallersShareAFetch(t *testing.T) {
	b := &counting{Bucket: blob.NewMemory(), gate: make(chan struct{})}
	segs := put(t, b, 1)
	c := newCache(t, b, t.TempDir(), nil)
	gone, leave := context.WithCancel(t.Context())
	errs := make(chan error)
	go func() {
		_, err := c.Get(gone, segs[0])
		errs <- err
	}()
	leave()
	if err := <-errs; !errors.Is(err, context.Canceled) {
		t.Fatalf("the canceled caller got %v", err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { check(t, c, segs[0]) })
	}
	close(b.gate)
	wg.Wait()
	if n := b.gets.Load(); n != 2 {
		t.Errorf("%d reads of the store, want 2", n)
	}
}

func TestDamagedFetchIsRepeated(t *testing.T) {
	b := &counting{Bucket: blob.NewMemory()}
	segs := put(t, b, 2)
	c := newCache(t, b, t.TempDir(), nil)
	b.damage.Store(1)
	check(t, c, segs[0])
	b.damage.Store(1 << 30)
	if _, err := c.Get(t.Context(), segs[1]); millstream.KindOf(err) != millstream.Unavailable {
		t.Errorf("a damaged object gave %v", err)
	}
	b.damage.Store(0)
	check(t, c, segs[1])
}

func TestFailedFetchIsNotKept(t *testing.T) {
	b := &counting{Bucket: blob.NewMemory()}
	segs := put(t, b, 1)
	c := newCache(t, b, t.TempDir(), nil)
	b.fail.Store(1)
	if _, err := c.Get(t.Context(), segs[0]); millstream.KindOf(err) != millstream.Unavailable {
		t.Fatalf("got %v", err)
	}
	check(t, c, segs[0])
}

// TestRestart: files of an earlier process are used if they are whole, and fetched again if they are not.
func TestRestart(t *testing.T) {
	b := &counting{Bucket: blob.NewMemory()}
	segs := put(t, b, 2)
	dir := t.TempDir()
	first := newCache(t, b, dir, nil)
	for _, s := range segs {
		check(t, first, s)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, segs[1].Data.Checksum+segs[1].Index.Checksum+".data")
	body, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	body[7]++
	leftover := filepath.Join(dir, "x.tmp")
	for file, b := range map[string][]byte{name: body, leftover: nil} {
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b.gets.Store(0)
	second := newCache(t, b, dir, nil)
	if !check(t, second, segs[0]) || b.gets.Load() != 0 {
		t.Errorf("the whole files were fetched again: %d reads", b.gets.Load())
	}
	check(t, second, segs[1])
	if n := b.gets.Load(); n != 1 {
		t.Errorf("%d reads for the damaged file, want 1", n)
	}
	if _, err := os.Stat(leftover); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the unfinished file is still there: %v", err)
	}
}

func TestSizeAndOpenFilesAreBounded(t *testing.T) {
	b := &counting{Bucket: blob.NewMemory()}
	segs := put(t, b, 12)
	one := segs[0].Data.Length + segs[0].Index.Length
	dir := t.TempDir()
	c := newCache(t, b, dir, func(cfg *cache.Config) { cfg.MaxSize, cfg.MaxOpen = 4*one, 2 })
	pinned := get(t, c, segs[0])
	for _, s := range segs[1:] {
		check(t, c, s)
	}
	if size := dirSize(t, dir); size > 6*one {
		t.Errorf("%d bytes are kept, the limit is %d", size, 4*one)
	}
	if !c.Has(segs[0]) || c.Has(segs[1]) || !c.Has(segs[11]) {
		t.Error("the pinned and the latest segment must stay, the oldest must go")
	}
	pinned.Release()
	check(t, c, segs[0])
	check(t, c, segs[10]) // its files may have been closed
}

func TestMeters(t *testing.T) {
	b := &counting{Bucket: blob.NewMemory()}
	segs := put(t, b, 6)
	size := func(i int) int64 { return segs[i].Data.Length + segs[i].Index.Length }
	c := newCache(t, b, t.TempDir(), func(cfg *cache.Config) { cfg.MaxSize, cfg.MaxOpen = 3*size(5), 1 })
	first := get(t, c, segs[0])
	second := get(t, c, segs[0])
	first.Release()
	second.Release()
	third := get(t, c, segs[0])
	third.Release()
	one := []*cache.Meter{first.Meter(), second.Meter(), third.Meter()}
	if n := cache.Fetched(one...); n != size(0) {
		t.Errorf("handles of one stay fetched %d bytes, want %d", n, size(0))
	}
	if n, whole := cache.Fetched(third.Meter()), cache.Fetched(third.Meter().Stay()); n != 0 || whole != size(0) {
		t.Errorf("a later handle fetched %d bytes, want 0; the whole stay %d, want %d", n, whole, size(0))
	}
	for _, s := range segs[1:] {
		check(t, c, s)
	}
	if c.Has(segs[0]) {
		t.Fatal("the segment was to be evicted")
	}
	again := get(t, c, segs[0])
	if n := cache.Fetched(append(one, again.Meter())...); n != 2*size(0) {
		t.Errorf("two stays fetched %d bytes, want %d", n, 2*size(0))
	}
	again.Release()
}

func dirSize(t *testing.T, dir string) (n int64) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		n += info.Size()
	}
	return n
}

func TestLocalObjectsAreReadInPlace(t *testing.T) {
	store, err := blob.NewDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	segs := put(t, store, 1)
	dir := t.TempDir()
	c := newCache(t, store, dir, nil)
	if !c.Has(segs[0]) && !check(t, c, segs[0]) {
		t.Error("a local object is not taken as cached")
	}
	if n := dirSize(t, dir); n != 0 {
		t.Errorf("%d bytes were copied", n)
	}
	damaged := segs[0]
	damaged.Data.Checksum = damaged.Index.Checksum
	if _, err := c.Get(t.Context(), damaged); millstream.KindOf(err) != millstream.Unavailable {
		t.Errorf("a damaged local object gave %v", err)
	}
}

// The SQL engine, to which the path is given, works in a directory of its own.
func TestPathsAreAbsoluteWhateverTheSetting(t *testing.T) {
	t.Chdir(t.TempDir())
	store := blob.NewMemory()
	c := newCache(t, store, "data/cache", nil)
	h := get(t, c, put(t, store, 1)[0])
	defer h.Release()
	if path := dataPath(t, h); !filepath.IsAbs(path) {
		t.Errorf("the data are said to be in %q", path)
	}
}

func TestConcurrentUse(t *testing.T) {
	b := &counting{Bucket: blob.NewMemory()}
	segs := put(t, b, 20)
	one := segs[0].Data.Length + segs[0].Index.Length
	c := newCache(t, b, t.TempDir(), func(cfg *cache.Config) { cfg.MaxSize, cfg.MaxOpen = 5*one, 3 })
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 60 {
				check(t, c, segs[(i*7+w*3)%len(segs)])
			}
		})
	}
	wg.Wait()
}

// TestMetrics: uses that fetched nothing are hits, others misses; what goes for want of room is counted.
func TestMetrics(t *testing.T) {
	b := &counting{Bucket: blob.NewMemory()}
	segs := put(t, b, 6)
	one := segs[5].Data.Length + segs[5].Index.Length
	reg := prometheus.NewRegistry()
	c := newCache(t, b, t.TempDir(), func(cfg *cache.Config) { cfg.MaxSize, cfg.Registerer = 3*one, reg })
	want := func(name string, n float64) {
		t.Helper()
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == "millstream_cache_"+name {
				if got := f.Metric[0].GetCounter().GetValue() + f.Metric[0].GetGauge().GetValue(); got != n {
					t.Errorf("%s is %v, want %v", name, got, n)
				}
				return
			}
		}
		t.Errorf("there is no %s", name)
	}
	check(t, c, segs[0])
	want("misses_total", 1)
	want("hits_total", 0)
	want("fetched_bytes_total", float64(segs[0].Data.Length+segs[0].Index.Length))
	want("size_bytes", float64(segs[0].Data.Length+segs[0].Index.Length))
	check(t, c, segs[0])
	want("hits_total", 1)
	want("misses_total", 1)
	want("evictions_total", 0)
	b.damage.Store(1)
	check(t, c, segs[1])
	want("damaged_total", 1)
	for _, s := range segs[2:] {
		check(t, c, s)
	}
	want("misses_total", 6)
	gone := 0
	for _, s := range segs {
		if !c.Has(s) {
			gone++
		}
	}
	if gone < 3 {
		t.Fatalf("%d of 6 segments went, 3 have room", gone)
	}
	want("evictions_total", float64(gone))
}
