package compactor

import (
	"context"
	"errors"
)

const (
	collectBatch = 2000 // segments forgotten by a transaction
	deleteBatch  = 500  // objects deleted by a request

	deleteFailures = 12 // in a row are a store that fails; of a batch with one object that cannot be deleted, halves fail nine times
)

// Collect forgets segments that have been dead for the grace and deletes the objects that nothing names any more. Every node may run it at any time.
func (c *Compactor) Collect(ctx context.Context) error {
	for {
		n, unreadable, err := c.cfg.Catalog.CollectDead(ctx, c.cfg.Grace, collectBatch)
		if err != nil {
			return err
		}
		c.metrics.collected.Add(float64(n))
		if n < collectBatch {
			c.unreadable("collect", unreadable)
			break
		}
	}
	for {
		keys, err := c.cfg.Catalog.Garbage(ctx, deleteBatch)
		if err != nil || len(keys) == 0 {
			return err
		}
		c.step("delete")
		failures := 0
		gone, failed := c.delete(ctx, keys, &failures)
		if err := c.cfg.Catalog.DropGarbage(ctx, gone); err != nil {
			return errors.Join(failed, err)
		}
		c.metrics.deleted.Add(float64(len(gone)))
		if failed != nil && (len(gone) == 0 || len(keys) < deleteBatch) {
			return failed
		}
	}
}

// delete deletes objects, if not all at once then by halves: one that the store does not let go must not keep the others for ever. It gives up when deletions fail in a
// row, since then it is the store that fails. It returns those that are gone, and the first error.
func (c *Compactor) delete(ctx context.Context, keys []string, failures *int) (gone []string, err error) {
	if err = c.cfg.Bucket.Delete(ctx, keys...); err == nil {
		*failures = 0
		return keys, nil
	}
	if *failures++; len(keys) == 1 || *failures >= deleteFailures || ctx.Err() != nil {
		return nil, err
	}
	half := len(keys) / 2
	for _, some := range [][]string{keys[:half], keys[half:]} {
		if *failures >= deleteFailures {
			break
		}
		g, _ := c.delete(ctx, some, failures)
		gone = append(gone, g...)
	}
	return gone, err
}

// unreadable tells of manifests that were passed over by a kind of work.
func (c *Compactor) unreadable(work string, errs []error) {
	c.metrics.unreadable.WithLabelValues(work).Add(float64(len(errs)))
	for _, err := range errs {
		c.log.Error("a manifest cannot be read: its segments keep their objects, and queries of a live one's day fail; put its row back from a backup, or delete it to give its records up", "work", work, "error", err)
	}
}
