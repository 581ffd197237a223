package blob

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/millstream/millstream"
)

func TestMemory(t *testing.T) { Conformance(t, NewMemory()) }

func TestDir(t *testing.T) {
	d, err := NewDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	Conformance(t, d)
}

// Conformance is what every Bucket must do.
func Conformance(t *testing.T, b Bucket) {
	ctx := context.Background()
	body := []byte("0123456789")
	t.Run("put and read ranges", func(t *testing.T) {
		must(t, b.Put(ctx, "a/b/one", bytes.NewReader(body), 10))
		for _, c := range []struct {
			off, n int64
			want   string
		}{{0, -1, "0123456789"}, {3, 4, "3456"}, {10, -1, ""}, {9, 1, "9"}, {4, 0, ""}} {
			if got := read(t, b, "a/b/one", c.off, c.n); got != c.want {
				t.Errorf("Get(%d,%d) = %q, want %q", c.off, c.n, got, c.want)
			}
		}
		if _, err := get(b, "a/b/one", 8, 3); err == nil {
			t.Error("a range beyond the end must be an error, not a short answer")
		}
		st, err := b.Stat(ctx, "a/b/one")
		must(t, err)
		if st.Size != 10 || st.Key != "a/b/one" {
			t.Errorf("Stat = %+v", st)
		}
	})
	t.Run("a key is never reused", func(t *testing.T) {
		if err := b.Put(ctx, "a/b/one", strings.NewReader("x"), 1); millstream.KindOf(err) != millstream.Conflict {
			t.Errorf("second Put: %v", err)
		}
		if got := read(t, b, "a/b/one", 0, -1); got != string(body) {
			t.Errorf("the object changed to %q", got)
		}
	})
	t.Run("one of many racing puts wins", func(t *testing.T) {
		var won atomic.Int32
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				if b.Put(ctx, "race", strings.NewReader(fmt.Sprintf("%02d", i)), 2) == nil {
					won.Add(1)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 {
			t.Errorf("%d puts won", won.Load())
		}
	})
	t.Run("swap compares", func(t *testing.T) {
		e1, err := b.Swap(ctx, "s/x", []byte("1"), "")
		must(t, err)
		if _, err := b.Swap(ctx, "s/x", []byte("9"), ""); millstream.KindOf(err) != millstream.Conflict {
			t.Errorf("create over existing: %v", err)
		}
		e2, err := b.Swap(ctx, "s/x", []byte("2"), e1)
		must(t, err)
		if _, err := b.Swap(ctx, "s/x", []byte("3"), e1); e1 != e2 && millstream.KindOf(err) != millstream.Conflict {
			t.Errorf("stale etag: %v", err)
		}
		if got := read(t, b, "s/x", 0, -1); got != "2" {
			t.Errorf("value %q", got)
		}
	})
	t.Run("list in key order", func(t *testing.T) {
		for _, k := range []string{"l/b", "l/a/2", "l/a/1", "l/a.x", "lx"} {
			must(t, b.Put(ctx, k, strings.NewReader("v"), 1))
		}
		for prefix, want := range map[string][]string{"l/": {"l/a.x", "l/a/1", "l/a/2", "l/b"}, "l/a": {"l/a.x", "l/a/1", "l/a/2"}, "nothing/": nil} {
			var got []string
			for i, err := range b.List(ctx, prefix) {
				must(t, err)
				got = append(got, i.Key)
			}
			if !slices.Equal(got, want) {
				t.Errorf("List(%q) = %v, want %v", prefix, got, want)
			}
		}
	})
	t.Run("delete and missing", func(t *testing.T) {
		must(t, b.Delete(ctx, "l/b", "never/was"))
		if _, err := b.Get(ctx, "l/b", 0, -1); millstream.KindOf(err) != millstream.NotFound {
			t.Errorf("Get of a deleted object: %v", err)
		}
		if _, err := b.Stat(ctx, "l/b"); millstream.KindOf(err) != millstream.NotFound {
			t.Errorf("Stat of a deleted object: %v", err)
		}
	})
	t.Run("bad keys and bodies", func(t *testing.T) {
		for _, k := range []string{"", "/a", "a/", "a//b", "../x", "a/../b", "a b", "ä"} {
			if err := b.Put(ctx, k, strings.NewReader("v"), 1); err == nil {
				t.Errorf("key %q was accepted", k)
			}
		}
		if err := b.Put(ctx, "short", strings.NewReader("v"), 2); err == nil {
			t.Error("a body shorter than announced was accepted")
		}
		if _, err := b.Stat(ctx, "short"); err == nil {
			t.Error("a failed Put left an object")
		}
	})
	t.Run("canceled", func(t *testing.T) {
		done, cancel := context.WithCancel(ctx)
		cancel()
		if err := b.Put(done, "late", strings.NewReader("v"), 1); !errors.Is(err, context.Canceled) && millstream.KindOf(err) != millstream.Canceled {
			t.Errorf("Put after cancel: %v", err)
		}
	})
}

func get(b Bucket, key string, off, n int64) (string, error) {
	r, err := b.Get(context.Background(), key, off, n)
	if err != nil {
		return "", err
	}
	defer func() { _ = r.Close() }()
	p, err := io.ReadAll(r)
	return string(p), err
}

func read(t *testing.T, b Bucket, key string, off, n int64) string {
	t.Helper()
	s, err := get(b, key, off, n)
	must(t, err)
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
