package cache_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zeebo/blake3"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/blob"
	"github.com/millstream/millstream/query/cache"
)

const block = 256 << 10

// large stores a segment whose data are size random bytes inside a larger object, and gives them.
func large(t *testing.T, b blob.Bucket, name string, size int) (millstream.Segment, []byte) {
	t.Helper()
	r := rand.NewChaCha8([32]byte([]byte(fmt.Sprintf("%-32s", name))))
	object := make([]byte, 1000+size+500)
	_, _ = r.Read(object)
	data, index := object[1000:1000+size], []byte("the index of "+name)
	extent := func(key string, off int, p []byte) millstream.Extent {
		sum := blake3.Sum256(p)
		return millstream.Extent{Key: key, Offset: int64(off), Length: int64(len(p)), Checksum: hex.EncodeToString(sum[:])}
	}
	s := millstream.Segment{ID: millstream.SegmentID(name), Data: extent(name+"-data", 1000, data), Index: extent(name+"-index", 0, index)}
	for key, body := range map[string][]byte{s.Data.Key: object, s.Index.Key: index} {
		if err := b.Put(t.Context(), key, bytes.NewReader(body), int64(len(body))); err != nil {
			t.Fatal(err)
		}
	}
	return s, data
}

// files is an Open that gives the data as it is.
func files(_ millstream.Segment, data, _ cache.File) (any, error) { return data.ReaderAt, nil }

func lazily(cfg *cache.Config) { cfg.Open = files }

func blocksOf(h *cache.Handle) *cache.Blocks { return h.Value().(*cache.Blocks) }

// readAt reads a part and compares it.
func readAt(t *testing.T, r io.ReaderAt, data []byte, off, n int) {
	t.Helper()
	p := make([]byte, n)
	if got, err := r.ReadAt(p, int64(off)); err != nil || !bytes.Equal(p[:got], data[off:off+n]) {
		t.Errorf("bytes %d to %d: %d read, %v", off, off+n, got, err)
	}
}

// TestOnlyWhatIsReadIsFetched: and once, whoever reads it, also in a later process.
func TestOnlyWhatIsReadIsFetched(t *testing.T) {
	b := &counting{Bucket: blob.NewMemory()}
	s, data := large(t, b, "a", 40*block+123)
	dir := t.TempDir()
	c := newCache(t, b, dir, lazily)
	h := get(t, c, s)
	steps := []struct{ off, n, requests int }{
		{5 * block, 10, 1},            // after the index
		{6*block - 7, 100, 0},         // the first request goes 1 MiB far
		{30*block + 5, 9 * block, 1},  // many blocks in one request
		{30 * block, 10 * block, 0},   // the same
		{40*block + 100, 23, 0},       // the next request went to the end
		{8*block + 100, 2 * block, 1}, // partly there
		{0, 9*block + block/2, 1},     // the front is missing
		{0, len(data), 1},             // the middle is missing
		{3, len(data) - 3, 0},         // all is there
		{len(data) - 1, 1, 0},         // the end
		{len(data) / 2, len(data) / 2, 0},
	}
	b.gets.Store(0)
	for _, x := range steps {
		before := b.gets.Load()
		readAt(t, blocksOf(h), data, x.off, x.n)
		if n := int(b.gets.Load() - before); n != x.requests {
			t.Errorf("%d bytes at %d: %d requests, want %d", x.n, x.off, n, x.requests)
		}
	}
	for _, off := range []int64{-1, int64(len(data)), int64(len(data)) + 5} {
		if n, err := blocksOf(h).ReadAt(make([]byte, 1), off); n != 0 || !errors.Is(err, io.EOF) {
			t.Errorf("at %d: %d, %v", off, n, err)
		}
	}
	if n, err := blocksOf(h).ReadAt(make([]byte, 10), int64(len(data))-4); n != 4 || !errors.Is(err, io.EOF) {
		t.Errorf("across the end: %d, %v", n, err)
	}
	h.Release()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	b.gets.Store(0)
	h = get(t, newCache(t, b, dir, lazily), s)
	defer h.Release()
	readAt(t, blocksOf(h), data, 0, len(data))
	if n := b.gets.Load(); n != 0 || !h.Local() || !h.Cached {
		t.Errorf("after a restart: %d requests, local %v, cached %v", n, h.Local(), h.Cached)
	}
}

// TestExpectedPartsComeTogether: requests are at most one, and one for each 4 MiB of what they bring.
func TestExpectedPartsComeTogether(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 15 {
		b := &counting{Bucket: blob.NewMemory()}
		s, data := large(t, b, "a", 1+r.IntN(100*block))
		h := get(t, newCache(t, b, t.TempDir(), lazily), s)
		var parts [][2]int64
		for range 1 + r.IntN(12) {
			off := r.Int64N(int64(len(data)))
			parts = append(parts, [2]int64{off, min(off+1+r.Int64N(block<<r.IntN(4)), int64(len(data)))})
		}
		b.gets.Store(0)
		bound := blocksOf(h).Bind(t.Context())
		bound.(interface{ Expect(func() [][2]int64) }).Expect(func() [][2]int64 { return parts })
		for _, p := range parts {
			readAt(t, bound, data, int(p[0]), int(p[1]-p[0]))
		}
		if n, fetched := b.gets.Load(), cache.Fetched(h.Meter()); n > 1+fetched/(4<<20) {
			t.Errorf("round %d: %d requests for %d bytes", round, n, fetched)
		}
		h.Release()
	}
}

// TestDamagedBlocks: whatever happened to the files between two processes, readers get the right bytes.
func TestDamagedBlocks(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, data, record string){
		"a bit of a block":       func(t *testing.T, data, _ string) { flip(t, data, 7*block+99) },
		"the data are cut":       func(t *testing.T, data, _ string) { cut(t, data, 9*block+5) },
		"the data are gone":      func(t *testing.T, data, _ string) { remove(t, data) },
		"a bit of the record":    func(t *testing.T, _, record string) { flip(t, record, 24+16*8+3) },
		"a torn entry":           func(t *testing.T, _, record string) { zero(t, record, 24+16*8+6, 8) },
		"an entry of another":    func(t *testing.T, _, record string) { zero(t, record, 24+16*8, 16) },
		"the record is cut":      func(t *testing.T, _, record string) { cut(t, record, 24+16*4+5) },
		"the record's head":      func(t *testing.T, _, record string) { flip(t, record, 9) },
		"the record is gone":     func(t *testing.T, _, record string) { remove(t, record) },
		"a crash before writing": func(t *testing.T, data, _ string) { zero(t, data, 8*block, block) },
		"the index":              func(t *testing.T, data, _ string) { flip(t, strings.TrimSuffix(data, ".data")+".index", 2) },
	} {
		t.Run(name, func(t *testing.T) {
			b := &counting{Bucket: blob.NewMemory()}
			s, data := large(t, b, "a", 12*block+77)
			dir := t.TempDir()
			c := newCache(t, b, dir, lazily)
			h := get(t, c, s)
			readAt(t, blocksOf(h), data, 4*block, 8*block)
			h.Release()
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, s.Data.Checksum+s.Index.Checksum+".data")
			damage(t, path, path+".blocks")
			b.gets.Store(0)
			h = get(t, newCache(t, b, dir, lazily), s)
			defer h.Release()
			readAt(t, blocksOf(h), data, 5*block+1, 6*block)
			if b.gets.Load() == 0 {
				t.Error("the damage was not noticed")
			}
			file, err := os.ReadFile(dataPath(t, h))
			if err != nil || !bytes.Equal(file, data) {
				t.Errorf("the file has %d bytes, %v", len(file), err)
			}
		})
	}
}

func edit(t *testing.T, path string, change func(p []byte) []byte) {
	t.Helper()
	p, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, change(p), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func flip(t *testing.T, path string, at int) {
	edit(t, path, func(p []byte) []byte { p[at] ^= 4; return p })
}

func cut(t *testing.T, path string, at int) {
	edit(t, path, func(p []byte) []byte { return p[:at] })
}

func zero(t *testing.T, path string, at, n int) {
	edit(t, path, func(p []byte) []byte { clear(p[at : at+n]); return p })
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// short is a bucket whose readers end early, with or without saying so.
type short struct {
	blob.Bucket
	after int64 // bytes
	err   error // io.EOF: the reader does not say
	times int   // so many reads end early
}

func (b *short) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	r, err := b.Bucket.Get(ctx, key, off, n)
	if err != nil || b.times == 0 || !strings.HasSuffix(key, "-data") {
		return r, err
	}
	b.times--
	return &cutReader{io.LimitReader(r, b.after), r, b.err}, nil
}

type cutReader struct {
	io.Reader
	io.Closer
	err error
}

func (r *cutReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		err = r.err
	}
	return n, err
}

// TestTransfersThatBreakOff are continued where they broke off; without any progress they are errors, never short answers.
func TestTransfersThatBreakOff(t *testing.T) {
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, millstream.Errorf(millstream.Unavailable, "the connection was reset")} {
		b := &short{Bucket: blob.NewMemory(), after: 2*block + 100, err: end, times: 3}
		s, data := large(t, b.Bucket, "a", 11*block)
		h := get(t, newCache(t, b, t.TempDir(), lazily), s)
		readAt(t, blocksOf(h), data, 0, len(data))
		h.Release()
		b.after, b.times = block-1, 1<<30
		s, data = large(t, b.Bucket, "b", 3*block)
		h = get(t, newCache(t, b, t.TempDir(), lazily), s)
		for range 2 {
			if n, err := blocksOf(h).ReadAt(make([]byte, 10), 5); n != 0 || millstream.KindOf(err) != millstream.Unavailable {
				t.Errorf("%v: %d bytes, %v", end, n, err)
			}
		}
		b.times = 0
		readAt(t, blocksOf(h), data, 0, len(data))
		h.Release()
	}
}

// TestReadersShareFetches: readers of the same blocks make one request, and one that leaves does not disturb the others.
func TestReadersShareFetches(t *testing.T) {
	gate := make(chan struct{})
	b := &counting{Bucket: blob.NewMemory()}
	s, data := large(t, b, "a", 4*block)
	h := get(t, newCache(t, b, t.TempDir(), lazily), s)
	defer h.Release()
	b.gets.Store(0)
	b.gate = gate
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error)
	go func() {
		_, err := blocksOf(h).Bind(ctx).ReadAt(make([]byte, 9), 0)
		left <- err
	}()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() { readAt(t, blocksOf(h).Bind(t.Context()), data, i*block/2, block/2) })
	}
	for b.gets.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the reader that left got %v", err)
	}
	close(gate)
	wg.Wait()
	if n := b.gets.Load(); n > 4 {
		t.Errorf("%d requests", n)
	}
}

// TestWholeFiles: a path is given only to a file with all bytes, compared with the catalog's checksum.
func TestWholeFiles(t *testing.T) {
	b := &counting{Bucket: blob.NewMemory()}
	s, data := large(t, b, "a", 20*block)
	h := get(t, newCache(t, b, t.TempDir(), lazily), s)
	defer h.Release()
	b.damage.Store(1) // a byte in the middle of the next answer, which nobody can notice in a part
	p := make([]byte, block)
	if _, err := blocksOf(h).ReadAt(p, 0); err != nil || h.Local() {
		t.Fatal(err, h.Local())
	}
	file, err := os.ReadFile(dataPath(t, h))
	if err != nil || !bytes.Equal(file, data) || !h.Local() {
		t.Errorf("the file has %d bytes, %v", len(file), err)
	}
	blocksOf(h).Distrust(3*block, 10)
	if h.Local() {
		t.Error("a distrusted block counts as there")
	}
	b.damage.Store(1 << 30)
	if _, err := h.DataPath(t.Context()); millstream.KindOf(err) != millstream.Unavailable {
		t.Errorf("a damaged object gave a path: %v", err)
	}
	b.damage.Store(0)
	readAt(t, blocksOf(h), data, 3*block, 10)
	_ = dataPath(t, h)
}

// TestGoneObjects say so, whether the index or the data is missed.
func TestGoneObjects(t *testing.T) {
	b := &counting{Bucket: blob.NewMemory()}
	s, _ := large(t, b, "a", 3*block)
	c := newCache(t, b, t.TempDir(), lazily)
	h := get(t, c, s)
	defer h.Release()
	other, _ := large(t, b, "b", block)
	if err := b.Delete(t.Context(), s.Data.Key, other.Index.Key); err != nil {
		t.Fatal(err)
	}
	if _, err := blocksOf(h).ReadAt(make([]byte, 1), 0); !errors.Is(err, cache.ErrGone) || millstream.KindOf(err) != millstream.NotFound {
		t.Errorf("data: %v", err)
	}
	if _, err := c.Get(t.Context(), other); !errors.Is(err, cache.ErrGone) {
		t.Errorf("index: %v", err)
	}
}

// TestEqualBytesOfTwoObjects: two compactors made the same segment; whichever was told first or last, the one whose object stays is read.
func TestEqualBytesOfTwoObjects(t *testing.T) {
	for _, lost := range []int{0, 1} {
		b := &counting{Bucket: blob.NewMemory()}
		first, data := large(t, b, "a", 20*block)
		second := first
		second.Data.Key, second.Data.Offset = "b-data", 0
		if err := b.Put(t.Context(), second.Data.Key, bytes.NewReader(data), int64(len(data))); err != nil {
			t.Fatal(err)
		}
		c := newCache(t, b, t.TempDir(), lazily)
		both := []millstream.Segment{first, second}
		for _, s := range both {
			defer get(t, c, s).Release()
		}
		if err := b.Delete(t.Context(), both[lost].Data.Key); err != nil {
			t.Fatal(err)
		}
		h := get(t, c, both[1-lost])
		defer h.Release()
		readAt(t, blocksOf(h), data, 3*block, 10)
		if err := b.Delete(t.Context(), both[1-lost].Data.Key); err != nil {
			t.Fatal(err)
		}
		if _, err := blocksOf(h).ReadAt(make([]byte, 1), 12*block); !errors.Is(err, cache.ErrGone) {
			t.Errorf("with both gone: %v", err)
		}
	}
}

// TestDirectoryHasOneProcess: two caches would remove each other's files.
func TestDirectoryHasOneProcess(t *testing.T) {
	dir := t.TempDir()
	c := newCache(t, blob.NewMemory(), dir, nil)
	if _, err := cache.Open(cache.Config{Bucket: blob.NewMemory(), Dir: dir, Open: open}); millstream.KindOf(err) != millstream.Conflict {
		t.Errorf("the second cache of a directory: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	newCache(t, blob.NewMemory(), dir, nil)
}
