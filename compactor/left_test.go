package compactor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/millstream/millstream/blob"
	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/store/storetest"
)

// holding is an object store that does not let some objects go.
type holding struct {
	*blob.Memory
	held func(key string) bool
}

func (h *holding) Delete(ctx context.Context, keys ...string) error {
	if slices.ContainsFunc(keys, h.held) {
		return errors.New("the object is under a legal hold")
	}
	return h.Memory.Delete(ctx, keys...)
}

// One object that the store does not let go keeps no other, and is deleted when it can be.
func TestCollectPassesOverWhatCannotBeDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.delete(w.app(9))
	first := w.objects()[0]
	b := &holding{w.bucket, func(key string) bool { return key == first }}
	c := w.compactor(func(c *Config) { c.Bucket = b })
	c.cfg.Grace = 0
	if err := c.Collect(ctx); err == nil {
		t.Fatal("a collection that left something says that it is done")
	}
	keys, err := w.store.Garbage(ctx, 10)
	if check(t, err); !slices.Equal(keys, []string{first}) || !slices.Equal(w.objects(), keys) {
		t.Fatalf("garbage %v and objects %v are left, want %s", keys, w.objects(), first)
	}
	b.held = func(string) bool { return false }
	check(t, c.Collect(ctx))
	if len(w.objects()) != 0 {
		t.Fatalf("objects %v are left", w.objects())
	}
}

// The object by which a reconciliation asks the store for the time is left by one that dies, and is found by the next.
func TestReconcileFindsItsOwnObject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := &holding{w.bucket, func(key string) bool { return strings.Contains(key, "clock") }}
	if _, err := w.compactor(func(c *Config) { c.Bucket = b }).Reconcile(ctx, string(w.org)); err == nil {
		t.Fatal("an object was left and nobody is told")
	}
	_, err := w.compactor(func(c *Config) { c.OrphanAge = time.Nanosecond }).Reconcile(ctx, string(w.org))
	check(t, err)
	for o, err := range w.bucket.List(ctx, "") {
		check(t, err)
		t.Errorf("the object %s is left", o.Key)
	}
}

// What a flush uploaded for an organization that was deleted meanwhile is nobody's, and is deleted when it is old enough, although no row knows the organization any more.
func TestReconcileOfADeletedOrganization(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	gone := storetest.Org(t, w.store)
	check(t, w.bucket.Put(ctx, fmt.Sprintf("segments/%s/logs/%s-1-1.pack", gone, uuid.NewString()), emptyReader(), 0))
	check(t, w.store.DeleteOrganization(ctx, gone, auth.Entry{Actor: "system", Action: "organization.delete", Outcome: "ok", Org: gone, At: time.Now()}))
	c := w.compactor(func(c *Config) { c.OrphanAge = time.Nanosecond })
	units, err := c.Reconciled(ctx)
	check(t, err)
	if want := []string{string(gone), string(w.org)}; len(units) != 2 || !slices.Contains(units, want[0]) || !slices.Contains(units, want[1]) {
		t.Fatalf("reconciled are %v, want %v", units, want)
	}
	for _, org := range units {
		_, err := c.Reconcile(ctx, org)
		check(t, err)
	}
	if left := w.objects(); len(left) != 0 {
		t.Fatalf("objects %v are left", left)
	}
}
