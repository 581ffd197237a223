package compactor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/blob"
	"github.com/millstream/millstream/store"
)

// What reconciliation does not believe: more orphans than this part of an organization's objects, if they are more than a few.
const (
	orphanShare = 20 // one in so many: 5 %
	fewOrphans  = 100
	pageObjects = 20_000 // compared at a time, some 8 MB
	maxMissing  = 100    // of a report
	indexExt    = ".index"
)

// Report is what a reconciliation found.
type Report struct {
	Objects int      // in the store
	Orphans int      // objects older than OrphanAge that nothing names
	Deleted int      // of the orphans
	Missing []string // objects of data that the catalog names and the store lacks, 100 at most
	Indexes int      // live segments whose index object the store lacks: they get another
}

// reconciliation is one walk over an organization's objects, in key order, beside its catalog rows.
type reconciliation struct {
	c       *Compactor
	org     millstream.OrgID
	before  time.Time // by the store's clock; objects made later may still be published
	named   *store.Inventory
	report  Report
	orphans []string
	page    []blob.Info
}

// Reconcile compares an organization's catalog rows with the objects in the store. Orphans, as a crash between upload and publish leaves them, are deleted after
// OrphanAge, unless they are so many that the catalog is more likely to be wrong. Data that is missing is told loudly and nothing else; an index that is missing is
// noted in the catalog, so that it is built anew.
func (c *Compactor) Reconcile(ctx context.Context, org string) (Report, error) {
	prefix := "segments/" + org + "/"
	now, err := c.storeTime(ctx, prefix)
	if err != nil {
		return Report{}, err
	}
	r := &reconciliation{c: c, org: millstream.OrgID(org), before: now.Add(-c.cfg.OrphanAge), named: c.cfg.Catalog.Inventory(millstream.OrgID(org))}
	for o, err := range c.cfg.Bucket.List(ctx, prefix) {
		if err != nil {
			return r.report, err
		}
		if err := r.add(ctx, o); err != nil {
			return r.report, err
		}
	}
	if err := r.compare(ctx, prefix+"\U0010FFFF"); err != nil {
		return r.report, err
	}
	c.unreadable("reconcile", r.named.Unreadable())
	return r.report, r.deleteOrphans(ctx)
}

// storeTime is the time by the object store's own clock, in which its objects have theirs: that of an object made now. By any other clock, one that is wrong by a
// day would make orphans of what is about to be published. The object lies among those that are reconciled, so that one that was left is an orphan like any other.
func (c *Compactor) storeTime(ctx context.Context, prefix string) (now time.Time, err error) {
	key, err := blob.Upload(ctx, c.cfg.Bucket, strings.NewReader(""), 0, func() string { return prefix + "clock/" + uuid.NewString() })
	if err != nil {
		return now, err
	}
	defer func() { err = errors.Join(err, c.cfg.Bucket.Delete(context.WithoutCancel(ctx), key)) }()
	info, err := c.cfg.Bucket.Stat(ctx, key)
	return info.Modified, err
}

// add takes one object more. A page never ends between the objects of one segment, which are found by the name of one of them.
func (r *reconciliation) add(ctx context.Context, o blob.Info) error {
	r.report.Objects++
	if n := len(r.page); n >= r.c.page && segmentName(r.page[n-1].Key) != segmentName(o.Key) {
		if err := r.compare(ctx, r.page[n-1].Key); err != nil {
			return err
		}
	}
	r.page = append(r.page, o)
	return nil
}

// segmentName is an object's key without incarnation, attempt and ending: what all objects of a segment share.
func segmentName(key string) string {
	name := key[strings.LastIndexByte(key, '/')+1:]
	for range 2 {
		if i := strings.LastIndexByte(name, '-'); i >= 0 {
			name = name[:i]
		}
	}
	return key[:strings.LastIndexByte(key, '/')+1] + name
}

// compare compares the page with the rows of the same stretch of keys. The rows are read after the page was listed, so what was published meanwhile is known.
func (r *reconciliation) compare(ctx context.Context, upto string) error {
	if err := r.named.Move(ctx, upto); err != nil {
		return err
	}
	for _, o := range r.page {
		if !r.named.Meet(o.Key) && o.Modified.Before(r.before) {
			r.orphans = append(r.orphans, o.Key)
		}
	}
	r.page = r.page[:0]
	return r.named.Unmet(ctx, func(u store.Unmet) error { return r.missing(ctx, u) })
}

// missing looks at objects that something names and the list lacked: made after it, deleted since together with their rows, or lost.
func (r *reconciliation) missing(ctx context.Context, u store.Unmet) error {
	var lost []string
	for _, key := range u.Keys {
		if _, err := r.c.cfg.Bucket.Stat(ctx, key); millstream.KindOf(err) == millstream.NotFound {
			lost = append(lost, key)
		} else if err != nil {
			return err
		}
	}
	if len(lost) == 0 {
		return nil
	}
	lost, err := r.named.Named(ctx, u.Of(lost), false)
	if err != nil {
		return err
	}
	var indexes []string
	for _, key := range lost {
		if strings.HasSuffix(key, indexExt) {
			indexes = append(indexes, key)
			continue
		}
		r.c.metrics.missing.Inc()
		r.c.log.Error("an object that the catalog names is not in the store: its rows are lost", "organization", r.org, "key", key)
		if len(r.report.Missing) < maxMissing {
			r.report.Missing = append(r.report.Missing, key)
		}
	}
	return r.missingIndexes(ctx, u.Of(indexes))
}

// missingIndexes has indexes built anew whose objects are lost. Those of dead segments, which only old snapshots read, are not worth it.
func (r *reconciliation) missingIndexes(ctx context.Context, u store.Unmet) error {
	if len(u.Keys) == 0 {
		return nil
	}
	n, err := r.named.LoseIndexes(ctx, u)
	r.report.Indexes += int(n)
	r.c.metrics.lostIndexes.Add(float64(n))
	if n > 0 {
		r.c.log.Error("index objects that the catalog names are not in the store: queries of their segments fail until they are built anew", "organization", r.org, "segments", n, "first", u.Keys[0])
	}
	return err
}

func (r *reconciliation) deleteOrphans(ctx context.Context) error {
	c := r.c
	r.report.Orphans = len(r.orphans)
	if n := len(r.orphans); n > fewOrphans && n > r.report.Objects/orphanShare {
		c.metrics.refused.Set(float64(n))
		c.log.Error("too many objects that nothing names: none is deleted; is this the right database for this object store?", "organization", r.org, "orphans", n, "objects", r.report.Objects)
		return nil
	}
	c.metrics.refused.Set(0)
	for keys := range slices.Chunk(r.orphans, deleteBatch) {
		named, err := r.named.Named(ctx, store.Unmet{Keys: keys}, true) // asked once more, by the exact names, before what cannot be undone
		if err != nil {
			return err
		}
		keys = slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return slices.Contains(named, k) })
		if len(keys) == 0 {
			continue
		}
		if err := c.cfg.Bucket.Delete(ctx, keys...); err != nil {
			return err
		}
		r.report.Deleted += len(keys)
		c.metrics.orphans.Add(float64(len(keys)))
	}
	if r.report.Deleted > 0 {
		c.log.Info("deleted objects that nothing named", "organization", r.org, "objects", r.report.Deleted)
	}
	return nil
}
