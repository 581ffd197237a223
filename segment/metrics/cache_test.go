package metrics

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/millstream/millstream/segment/metrics/metricstest"
	"github.com/prometheus/prometheus/model/labels"
)

// countingReader counts the reads of an object and can fail.
type countingReader struct {
	r     io.ReaderAt
	reads int
	err   error
}

func (c *countingReader) ReadAt(b []byte, at int64) (int, error) {
	if c.reads++; c.err != nil {
		return 0, c.err
	}
	return c.r.ReadAt(b, at)
}

// TestLazyReading checks what a query of one series reads of a segment of many names, with and without a cache, and that a failed read can be repeated.
func TestLazyReading(t *testing.T) {
	w := metricstest.New(10_000)
	h := NewHead()
	if _, err := h.Append(w.Batch(0, 10_000, 0, 5)); err != nil {
		t.Fatal(err)
	}
	var d, x bytes.Buffer
	if _, err := h.Encode(&d, &x); err != nil {
		t.Fatal(err)
	}
	data, index := &countingReader{r: bytes.NewReader(d.Bytes())}, &countingReader{r: bytes.NewReader(x.Bytes())}
	r, err := Open(data, int64(d.Len()), index, int64(x.Len()))
	if err != nil {
		t.Fatal(err)
	}
	cache := NewCache(1 << 20)
	r.UseCache(cache)
	q := everything
	q.Matchers = []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, "__name__", "node_load1"),
		labels.MustNewMatcher(labels.MatchEqual, "instance", "node-7:9100")}
	index.err = errors.New("the disk is busy")
	if _, err := r.Select(context.Background(), q); err == nil {
		t.Fatal("a failed read is not noticed")
	}
	index.err, index.reads = nil, 0
	for range 3 {
		got, err := r.Select(context.Background(), q)
		if err != nil || len(got) != 1 || got[0].Chunks[0].Count != 5 {
			t.Fatal(got, err)
		}
	}
	if index.reads > 3 || data.reads > 6 {
		t.Errorf("%d reads of the index and %d of the data", index.reads, data.reads)
	}
	if cache.used == 0 || cache.used > cache.limit {
		t.Errorf("the cache holds %d bytes of %d", cache.used, cache.limit)
	}
	cache.Forget(r)
	if cache.used != 0 || len(cache.blocks) != 0 {
		t.Errorf("after Forget the cache holds %d bytes", cache.used)
	}
}

func TestCacheLimit(t *testing.T) {
	c := NewCache(1000)
	r := &Reader{blocks: make([]blockEntry, 100)}
	for i := range 100 {
		raw, err := c.get(blockKey{r, i}, func() ([]byte, error) { return make([]byte, 100), nil })
		if err != nil || len(raw) != 100 || c.used > 1000 {
			t.Fatal(len(raw), err, c.used)
		}
	}
	if _, err := c.get(blockKey{r, 99}, func() ([]byte, error) { return nil, errors.New("read again") }); err != nil {
		t.Error("the newest block is gone")
	}
	if _, err := c.get(blockKey{r, 0}, func() ([]byte, error) { return nil, errors.New("read again") }); err == nil {
		t.Error("the oldest block is still there")
	}
}
