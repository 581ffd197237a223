package store_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/store"
	"github.com/millstream/millstream/store/storetest"
)

func pin(org millstream.OrgID, key string, body byte, parts ...string) []store.Pin {
	var out []store.Pin
	for _, p := range parts {
		part := millstream.StreamID(uuid.NewSHA1(uuid.NameSpaceOID, []byte(p)).String())
		out = append(out, store.Pin{Org: org, Key: key, BodyHash: [16]byte{body}, Part: part, WAL: millstream.WALID(uuid.NewString())})
	}
	return out
}

func TestPinKeepsTheFirstOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := pin(w.org, "key\x00\xff", 1, "a", "b")
	if got := must(w.Pin(ctx, first))(t); !reflect.DeepEqual(got, first) {
		t.Fatalf("pins %+v, want %+v", got, first)
	}
	again := pin(w.org, "key\x00\xff", 1, "b", "c", "a")
	want := []store.Pin{first[1], again[1], first[0]}
	for range 2 {
		if got := must(w.Pin(ctx, again))(t); !reflect.DeepEqual(got, want) {
			t.Fatalf("pins %+v, want %+v", got, want)
		}
	}
	_, err := w.Pin(ctx, pin(w.org, "key\x00\xff", 2, "a"))
	wantKind(t, err, millstream.Conflict)
	_, err = w.Pin(ctx, pin(w.org, "key\x00\xff", 2, "quite another part"))
	wantKind(t, err, millstream.Conflict)
	if got := must(w.Pin(ctx, again))(t); !reflect.DeepEqual(got, want) {
		t.Fatalf("a conflict changed the pins to %+v, want %+v", got, want)
	}
	must(w.Pin(ctx, pin(storetest.Org(t, w.Store), "key\x00\xff", 2, "a")))(t)
}

// Many requests at once, some with the same key: each key has one owner for all, and a request with another body hurts only itself.
func TestPinConcurrently(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const keys, each = 50, 6
	owners := make([][]millstream.WALID, keys)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for k := range keys {
		for i := range each {
			wg.Add(1)
			go func() {
				defer wg.Done()
				got, err := w.Pin(ctx, pin(w.org, fmt.Sprint("key", k), 1, "a"))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				owners[k] = append(owners[k], got[0].WAL)
				_ = i
			}()
		}
	}
	wg.Wait()
	for k, list := range owners {
		for _, o := range list {
			if o != list[0] {
				t.Fatalf("key %d has two owners", k)
			}
		}
	}
}

func TestPinEndsWithItsContext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := w.Pin(ended, pin(w.org, "key", 1, "a")); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want the context's end", err)
	}
	must(w.Pin(ctx, pin(w.org, "other", 1, "a")))(t)
}
