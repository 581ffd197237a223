package cache_test

import (
	"fmt"
	"testing"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/blob"
	"github.com/millstream/millstream/query/cache"
)

// TestDataGoesBeforeKeptIndexes: and indexes that are to be kept no longer age like data.
func TestDataGoesBeforeKeptIndexes(t *testing.T) {
	b := &counting{Bucket: blob.NewMemory()}
	c := newCache(t, b, t.TempDir(), func(cfg *cache.Config) { cfg.Open, cfg.MaxSize = files, 8*block })
	var segs []millstream.Segment
	read := func(i int) {
		t.Helper()
		h := get(t, c, segs[i])
		defer h.Release()
		if _, err := blocksOf(h).ReadAt(make([]byte, 2*block), 0); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 12 {
		s, _ := large(t, b, fmt.Sprint("s", i), 2*block)
		segs = append(segs, s)
	}
	for i := range 6 {
		if fetched, err := c.Keep(t.Context(), segs[i], 1); !fetched || err != nil {
			t.Fatalf("segment %d: %v, %v", i, fetched, err)
		}
	}
	c.EndRound(1)
	for i := range segs { // three times what fits
		read(i)
	}
	others := 0 // a fetch may hold its segment for a moment longer than its reader: which of two neighbours goes first is open
	for i, s := range segs {
		switch has := c.Has(s); {
		case has && i >= 6:
			others++
		case !has && i < 6:
			t.Errorf("after the reads, the kept index %d is gone", i)
		}
	}
	if others != 3 || c.Has(segs[6]) || !c.Has(segs[11]) {
		t.Errorf("after the reads, %d of the other indexes are there, first %v, last %v; want 3 of the latest", others, c.Has(segs[6]), c.Has(segs[11]))
	}
	b.gets.Store(0)
	read(3)
	if n := b.gets.Load(); n != 1 {
		t.Errorf("%d requests, want one for the data", n)
	}
	for _, i := range []int{0, 1} {
		if fetched, err := c.Keep(t.Context(), segs[i], 2); fetched || err != nil {
			t.Errorf("segment %d: %v, %v", i, fetched, err)
		}
	}
	c.EndRound(2)
	for _, i := range []int{8, 9, 10, 11} {
		read(i)
	}
	for i, want := range []bool{true, true, false, false, false, false} {
		if got := c.Has(segs[i]); got != want {
			t.Errorf("after another round, index %d: %v, want %v", i, got, want)
		}
	}
}

// TestKeptIndexesLeaveRoomForData: what is more is not taken.
func TestKeptIndexesLeaveRoomForData(t *testing.T) {
	b := &counting{Bucket: blob.NewMemory()}
	var segs []millstream.Segment
	for i := range 10 {
		s, _ := large(t, b, fmt.Sprint("s", i), block)
		segs = append(segs, s)
	}
	one := segs[0].Index.Length
	c := newCache(t, b, t.TempDir(), func(cfg *cache.Config) { cfg.Open, cfg.MaxSize = files, 8*one })
	for i, s := range segs {
		_, err := c.Keep(t.Context(), s, 1)
		if full := cache.Full(err); full != (i >= 6) || err != nil && !full {
			t.Errorf("segment %d: %v", i, err)
		}
	}
	full := newCache(t, b, t.TempDir(), func(cfg *cache.Config) { cfg.MinFree = 1 << 62 })
	if _, err := full.Keep(t.Context(), segs[0], 1); !cache.Full(err) {
		t.Errorf("on a full disk: %v", err)
	}
}
