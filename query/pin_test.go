package query_test

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/blob"
	"github.com/millstream/millstream/query"
	"github.com/millstream/millstream/query/cache"
)

// notedPins notes pins, and fails the first tries.
type notedPins struct {
	mu     sync.Mutex
	held   map[string]time.Time
	ever   int
	pinned chan struct{} // gets one for each
	failed error
}

func (p *notedPins) PinSnapshot(_ context.Context, id string, at time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ever++
	p.pinned <- struct{}{}
	if p.failed != nil {
		return p.failed
	}
	p.held[id] = at
	return nil
}

func (p *notedPins) UnpinSnapshot(_ context.Context, id string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.held, id)
	return nil
}

// waitingNode is a node whose store answers when it is told to.
func waitingNode(t *testing.T, p *notedPins, after time.Duration) (*node, chan struct{}) {
	t.Helper()
	n := newNode(t, nil)
	n.append(millstream.Logs, "app", requestLogs(epoch, 100, 1))
	n.flush()
	open := make(chan struct{})
	c, err := cache.Open(cache.Config{Bucket: gatedBucket{n.bucket, open}, Dir: filepath.Join(t.TempDir(), "slow"), Open: query.SegmentOpener()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	slow := newNode(t, func(cfg *query.Config) { cfg.Cache, cfg.Pins, cfg.PinAfter = c, p, after })
	slow.bucket, slow.streams, slow.segments, slow.position, slow.end = n.bucket, n.streams, n.segments, n.position, n.end
	return slow, open
}

// A query that runs for long pins its snapshot for as long as it runs, by the database's clock, whatever its own node or the compactors take for the longest query. That
// what is pinned stays is compactor.TestCollect.
func TestALongQueryPinsItsSnapshot(t *testing.T) {
	for name, failed := range map[string]error{"pinned": nil, "the catalog is away": errors.New("no connection")} {
		t.Run(name, func(t *testing.T) {
			p := &notedPins{held: map[string]time.Time{}, pinned: make(chan struct{}, 10), failed: failed}
			n, open := waitingNode(t, p, time.Nanosecond)
			ended := make(chan error, 1)
			go func() {
				_, _, err := n.try(t, query.Request{Org: org, Statement: "SELECT count(*) AS n FROM app", Range: day})
				ended <- err
			}()
			<-p.pinned
			p.mu.Lock()
			if len(p.held) != 1 && failed == nil {
				t.Errorf("%d pins are held while the query runs", len(p.held))
			}
			for _, at := range p.held {
				if !at.Equal(snapshotAt) {
					t.Errorf("pinned at %s, the snapshot is of %s", at, snapshotAt)
				}
			}
			p.mu.Unlock()
			close(open)
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			if len(p.held) != 0 {
				t.Errorf("%d pins are held after the query", len(p.held))
			}
		})
	}
}

func TestAShortQueryPinsNothing(t *testing.T) {
	p := &notedPins{held: map[string]time.Time{}, pinned: make(chan struct{}, 10)}
	n, open := waitingNode(t, p, 0) // five minutes
	close(open)
	if _, _, err := n.try(t, query.Request{Org: org, Statement: "SELECT count(*) AS n FROM app", Range: day}); err != nil || p.ever != 0 {
		t.Fatalf("%d pins, error %v", p.ever, err)
	}
}

// gatedBucket answers when its channel is closed.
type gatedBucket struct {
	blob.Bucket
	open chan struct{}
}

func (b gatedBucket) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	select {
	case <-b.open:
		return b.Bucket.Get(ctx, key, off, n)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
