package compactor

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millstream/millstream/store"
)

// paused is a catalog whose first publish goes through, but the process stands still before it hears of it.
type paused struct {
	*store.Store
	meanwhile func(r store.Replacement)
	tries     atomic.Int64
}

func (p *paused) ReplaceSegments(ctx context.Context, r store.Replacement) error {
	err := p.Store.ReplaceSegments(ctx, r)
	if err == nil && p.tries.Add(1) == 1 {
		p.meanwhile(r)
		return errors.New("the connection broke")
	}
	return err
}

// A compactor stands still while its publish goes through. Meanwhile another one builds the merged segment's index anew, and the row that was published is collected:
// the data lives on under another id, so whoever wakes up and finds its own segment gone may not delete the object.
func TestALateRetryDeletesNothingThatIsRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	st := w.app(6)
	w.register(st)
	other := w.compactor(nil)
	other.cfg.Grace = 0
	p := &paused{Store: w.store, meanwhile: func(r store.Replacement) {
		if news, err := w.store.LoseIndex(ctx, r.Output); err != nil || !news {
			t.Errorf("lose the index: %v, %v", news, err)
		}
		if err := errors.Join(other.RebuildIndexes(ctx, string(w.org)), other.Collect(ctx)); err != nil {
			t.Error(err)
		}
	}}
	check(t, w.compactor(func(c *Config) { c.Catalog = p }).Compact(ctx, string(st.ID)))
	if got := w.live(st); len(got) != 1 || got[0].Rows != 600 {
		t.Fatalf("live %+v, want the rebuilt segment", got)
	}
	wantSequences(t, w.sequences(st), 600)
	if n := len(w.objects()); n != 2 {
		t.Fatalf("%d objects, want the data and its new index", n)
	}
}

// A compactor stands still for two days between upload and publish: what it uploaded was an orphan for a day and is deleted, so it may not be published.
func TestAMergeThatWaitedForDaysIsNotPublished(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	st := w.app(6)
	now := time.Now()
	c := w.compactor(func(c *Config) { c.Now = func() time.Time { return now } })
	c.hook = func(step string) {
		if step != "uploaded" {
			return
		}
		rep, err := w.compactor(func(c *Config) { c.OrphanAge = time.Nanosecond }).Reconcile(ctx, string(w.org))
		if err != nil || rep.Deleted != 2 {
			t.Errorf("reconciled %+v, %v, want the 2 objects of the merge deleted", rep, err)
		}
		now = now.Add(48 * time.Hour)
	}
	check(t, c.Compact(ctx, string(st.ID)))
	if got := w.live(st); len(got) != 6 {
		t.Fatalf("%d live segments, want the 6 inputs", len(got))
	}
	wantSequences(t, w.sequences(st), 600)
}
