package cache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/millstream/millstream"
)

// blockSize is what is fetched, checked and recorded as one.
const blockSize = 256 << 10

// Blocks is a segment's data as a sparse local file: blocks are fetched as they are read. It is safe for concurrent use, as long as the segment is pinned.
type Blocks struct {
	cache *Cache
	entry *entry
	x     millstream.Extent
	path  string
	count int

	ready atomic.Bool // all blocks are there and checked

	mu      sync.Mutex
	places  []millstream.Extent // objects that have these bytes, the one told last at the end; never empty
	file    *os.File            // nil before something was fetched
	sums    []sum               // of the blocks that are there
	good    int                 // blocks that are checked
	checked []bool              // blocks that are there and were compared with their sums in this process, or fetched in it
	changed chan struct{}       // closed when a block has come or a fetch has ended
	fetches []*fetch            // under way
	held    int64               // bytes of the blocks that are there

	wholeMu sync.Mutex  // of who compares it
	whole   atomic.Bool // compared with the catalog's checksum in this process
}

// fetch is a run of blocks that is being fetched.
type fetch struct {
	first, end int
	err        error // guarded by Blocks.mu
}

// newBlocks takes over what is there of an extent.
func newBlocks(c *Cache, e *entry, x millstream.Extent) *Blocks {
	b := &Blocks{cache: c, entry: e, x: x, places: []millstream.Extent{x}, path: c.path(e, dataFile), count: int((x.Length + blockSize - 1) / blockSize), changed: make(chan struct{})}
	b.checked = make([]bool, b.count)
	b.takeOver()
	return b
}

func (b *Blocks) takeOver() {
	sums, err := readRecord(b.path+recordExt, b.x.Length, b.count)
	if err == nil {
		b.file, err = os.OpenFile(b.path, os.O_RDWR, 0o600)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		b.cache.cfg.Log.Warn("the cached blocks of a segment cannot be used", "file", b.path, "error", err)
	}
	if err != nil {
		sums = make([]sum, b.count)
	}
	b.sums = sums
	for i, s := range sums {
		if s != (sum{}) {
			b.held += b.size(i)
		}
	}
	b.cache.set(b.entry, dataFile, b.held)
}

// size is that of a block in bytes: of all but the last it is blockSize.
func (b *Blocks) size(i int) int64 { return min(blockSize, b.x.Length-int64(i)*blockSize) }

// ReadAt implements io.ReaderAt. It may wait for the object store.
func (b *Blocks) ReadAt(p []byte, off int64) (int, error) {
	return b.readAt(&reading{Blocks: b, ctx: context.Background()}, p, off)
}

func (b *Blocks) readAt(r *reading, p []byte, off int64) (int, error) {
	if off < 0 || off >= b.x.Length {
		return 0, io.EOF
	}
	n := min(int64(len(p)), b.x.Length-off)
	if n == 0 {
		return 0, nil
	}
	for try := 0; ; try++ {
		if err := b.need(r, off, n); err != nil {
			return 0, err
		}
		got, err := b.file.ReadAt(p[:n], off)
		switch {
		case int64(got) == n && n < int64(len(p)):
			return got, io.EOF
		case int64(got) == n:
			return got, nil
		case try > 0 || !errors.Is(err, io.EOF):
			return got, millstream.Wrap(millstream.Unavailable, err, "the cached file %s cannot be read", b.path)
		}
		b.Distrust(off, n) // the file was cut
	}
}

// need makes bytes present and checked.
func (b *Blocks) need(r *reading, off, n int64) error {
	if b.ready.Load() {
		return nil
	}
	first, last := int(off/blockSize), int((off+n-1)/blockSize)
	b.verify(first, last)
	var waited []*fetch
	for {
		missing, changed, err := b.claim(r, first, last, &waited)
		if err != nil || !missing {
			return err
		}
		select {
		case <-changed:
		case <-r.ctx.Done():
			return r.ctx.Err()
		}
	}
}

// claim starts fetches for the blocks that are neither there nor being fetched. The error is that of an earlier fetch of one of them that was waited for.
func (b *Blocks) claim(r *reading, first, last int, waited *[]*fetch) (missing bool, changed <-chan struct{}, err error) {
	if r.lacks(first, last) {
		r.ask()
	}
	var begun []*fetch
	defer func() {
		for _, f := range begun {
			b.begin(f)
		}
	}()
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := first; i <= last; {
		if b.checked[i] {
			i++
			continue
		}
		missing = true
		if err := failed(*waited, i); err != nil {
			return true, nil, err
		}
		f := b.underWay(i)
		if f == nil {
			f = r.enter(i, last)
			begun = append(begun, f)
		}
		if !slices.Contains(*waited, f) {
			*waited = append(*waited, f)
		}
		i = f.end
	}
	if !missing {
		b.ready.Store(b.good == b.count)
	}
	begun = append(begun, r.ahead()...)
	return missing, b.changed, nil
}

// lacks says whether a block is neither there nor being fetched, nor expected.
func (r *reading) lacks(first, last int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := first; i <= last; i++ {
		if !r.checked[i] && r.underWay(i) == nil && !r.expects(i) {
			return true
		}
	}
	return false
}

// failed is the error of an ended fetch that should have brought a block.
func failed(fetches []*fetch, i int) error {
	for _, f := range fetches {
		if f.err != nil && i >= f.first && i < f.end {
			return f.err
		}
	}
	return nil
}

func (b *Blocks) underWay(i int) *fetch {
	for _, f := range b.fetches {
		if i >= f.first && i < f.end {
			return f
		}
	}
	return nil
}

// enter notes a fetch from block i, which is missing, up to another. It ends before what is being fetched already, and passes over blocks that are there only if
// others are missing behind them. The caller holds the lock, and lets it begin.
func (b *Blocks) enter(i, end int) *fetch {
	for k := i + 1; k < end; k++ {
		if b.underWay(k) != nil {
			end = k
		}
	}
	for b.sums[end-1] != (sum{}) {
		end--
	}
	f := &fetch{first: i, end: end}
	b.fetches = append(b.fetches, f)
	return f
}

// begin runs a fetch that was entered, with a pin of its own.
func (b *Blocks) begin(f *fetch) {
	c := b.cache
	c.mu.Lock()
	c.hold(b.entry)
	c.mu.Unlock()
	c.wg.Go(func() {
		err := b.run(f)
		b.mu.Lock()
		f.err = err
		b.fetches = slices.DeleteFunc(b.fetches, func(o *fetch) bool { return o == f })
		b.wake()
		b.mu.Unlock()
		c.unpin(b.entry)
		c.shrink()
	})
}

// wake makes those who wait look again. The caller holds the lock.
func (b *Blocks) wake() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// run fetches a run of blocks. A transfer that breaks off is continued as long as each try brings at least a block.
func (b *Blocks) run(f *fetch) error {
	c := b.cache
	ctx, cancel := context.WithTimeout(c.ctx, fetchTimeout)
	defer cancel()
	release, err := c.slot(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := c.makeRoom(int64(f.end-f.first) * blockSize); err != nil {
		return err
	}
	record, err := b.create()
	if err != nil {
		return err
	}
	defer record.Close()
	for at := f.first; at < f.end; {
		n, err := b.receive(ctx, at, f.end, record)
		if at += n; err != nil && (n == 0 || ctx.Err() != nil) {
			return err
		}
	}
	return nil
}

// create opens the two files for writing.
func (b *Blocks) create() (record *os.File, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.file == nil {
		if b.file, err = os.OpenFile(b.path, os.O_CREATE|os.O_RDWR, 0o600); err != nil {
			return nil, err
		}
	}
	return openRecord(b.path+recordExt, b.x.Length)
}

// told notes another object that has the same bytes: of two compactors that made the same merge, the object of the one that lost is deleted, and who was told of it
// must read the other's.
func (b *Blocks) told(x millstream.Extent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.places[len(b.places)-1] != x {
		b.places = append(slices.DeleteFunc(b.places, func(p millstream.Extent) bool { return p == x }), x)
	}
}

// get begins to read from an object that is not gone.
func (b *Blocks) get(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	for {
		b.mu.Lock()
		x := b.places[len(b.places)-1]
		b.mu.Unlock()
		r, err := b.cache.get(ctx, x, off, n)
		if !errors.Is(err, ErrGone) || !b.leave(x) {
			return r, err
		}
	}
}

// leave drops a place that is gone, and says whether there is another.
func (b *Blocks) leave(x millstream.Extent) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.places, x); i >= 0 && len(b.places) > 1 {
		b.places = slices.Delete(b.places, i, i+1)
		return true
	}
	return b.places[len(b.places)-1] != x
}

// receive reads blocks from the object store and keeps each that arrives whole; n is how many.
func (b *Blocks) receive(ctx context.Context, first, end int, record *os.File) (n int, err error) {
	off := int64(first) * blockSize
	r, err := b.get(ctx, off, min(int64(end)*blockSize, b.x.Length)-off)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	buf := make([]byte, blockSize)
	for i := first; i < end; i++ {
		p := buf[:b.size(i)]
		if _, err := io.ReadFull(r, p); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				err = millstream.Wrap(millstream.Unavailable, err, "the object %s ended before byte %d", b.x.Key, b.x.Offset+int64(i)*blockSize+b.size(i))
			}
			return i - first, err
		}
		if err := b.keep(i, p, record); err != nil {
			return i - first, fmt.Errorf("keep a block of segment data: %w", err)
		}
	}
	return end - first, nil
}

// keep writes a block that was fetched, unless it is there already.
func (b *Blocks) keep(i int, p []byte, record *os.File) error {
	b.entry.fetched.Add(int64(len(p)))
	b.cache.metrics.fetched.Add(float64(len(p)))
	b.mu.Lock()
	had := b.sums[i] != (sum{})
	b.mu.Unlock()
	if had {
		return nil
	}
	s := sumOf(p)
	if _, err := b.file.WriteAt(p, int64(i)*blockSize); err != nil {
		return err
	}
	if err := writeRecord(record, i, s); err != nil {
		return err
	}
	b.mu.Lock()
	b.sums[i], b.checked[i] = s, true
	b.good++
	b.held += int64(len(p))
	b.wake()
	b.mu.Unlock()
	b.cache.grow(b.entry, dataFile, int64(len(p)))
	return nil
}

// Close closes the file; it stays on the disk.
func (b *Blocks) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.file == nil {
		return nil
	}
	err := b.file.Close()
	b.file = nil
	return err
}
