package ingest

import (
	"context"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millstream/millstream/blob"
)

// Objects that were uploaded and wait for their publish are named by nobody: after a day reconciliation deletes such. A publish that comes later must not name them.
func TestPublishLongAfterTheUpload(t *testing.T) {
	s := newSite(t)
	var ahead atomic.Int64
	s.change = func(c *WriterConfig) {
		c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	}
	var away atomic.Bool // the database, from the first publish on
	s.adjust = func(w *Writer) {
		w.hook = func(step string) {
			if step == "publish" && ahead.Load() == 0 {
				away.Store(true)
				s.model.setDown(true)
			}
		}
	}
	s.start()
	id := s.stream("app")
	s.append(rows("app", 0, 10))
	if err := s.w.flushAll(context.Background()); err == nil {
		t.Fatal("a flush without a database succeeded")
	}
	if s.deleteObjects() == 0 {
		t.Fatal("nothing was uploaded before the database went away")
	}
	if !away.Load() {
		t.Fatal("no publish was tried")
	}
	ahead.Store(int64(25 * time.Hour))
	s.model.setDown(false)
	s.flush()
	s.want(id, 10)
	s.wantObjects()
}

// A process that stands still for a day between upload and publish must not publish what is deleted by then.
func TestPublishByAProcessThatStoodStill(t *testing.T) {
	for _, step := range []string{"upload", "publish"} {
		t.Run("after "+step, func(t *testing.T) {
			s := newSite(t)
			var ahead, deleted atomic.Int64
			s.change = func(c *WriterConfig) {
				c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
			}
			still := func() {
				if ahead.CompareAndSwap(0, int64(25*time.Hour)) {
					deleted.Store(int64(s.deleteObjects()))
				}
			}
			s.adjust = func(w *Writer) {
				w.hook = func(at string) {
					if at == step && step == "publish" {
						still()
					}
				}
			}
			if step == "upload" {
				s.bucket = &stillAfterPut{s.bucket, still}
			}
			s.start()
			id := s.stream("app")
			s.append(rows("app", 0, 10))
			s.flush()
			s.want(id, 10)
			s.wantObjects()
			if deleted.Load() == 0 {
				t.Fatal("nothing was deleted meanwhile")
			}
		})
	}
}

// stillAfterPut stands still when a segment's object is stored and the reply is on its way.
type stillAfterPut struct {
	blob.Bucket
	still func()
}

func (b *stillAfterPut) Put(ctx context.Context, key string, r io.ReadSeeker, size int64) error {
	err := b.Bucket.Put(ctx, key, r, size)
	if strings.HasPrefix(key, "segments/") {
		b.still()
	}
	return err
}

// deleteObjects deletes all segments' objects, as reconciliation does with those that nothing has named for a day.
func (s *site) deleteObjects() (deleted int) {
	s.t.Helper()
	for o, err := range s.bucket.List(context.Background(), "segments/") {
		if err == nil {
			err = s.bucket.Delete(context.Background(), o.Key)
		}
		if err != nil {
			s.t.Fatal(err)
		}
		deleted++
	}
	return deleted
}

// wantObjects checks that what is published is there.
func (s *site) wantObjects() {
	s.t.Helper()
	s.model.mu.Lock()
	defer s.model.mu.Unlock()
	if len(s.model.state.Segments) == 0 {
		s.t.Fatal("nothing was published")
	}
	for _, g := range s.model.state.Segments {
		if _, err := s.bucket.Stat(context.Background(), g.Data.Key); err != nil {
			s.t.Errorf("the published segment's object: %v", err)
		}
	}
}
