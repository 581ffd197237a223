package compactor

import "context"

const (
	collectBatch = 2000 // segments forgotten by a transaction
	deleteBatch  = 500  // objects deleted by a request
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
		if err := c.cfg.Bucket.Delete(ctx, keys...); err != nil {
			return err
		}
		if err := c.cfg.Catalog.DropGarbage(ctx, keys); err != nil {
			return err
		}
		c.metrics.deleted.Add(float64(len(keys)))
	}
}

// unreadable tells of manifests that were passed over by a kind of work.
func (c *Compactor) unreadable(work string, errs []error) {
	c.metrics.unreadable.WithLabelValues(work).Add(float64(len(errs)))
	for _, err := range errs {
		c.log.Error("a manifest cannot be read: its segments keep their objects, and queries of a live one's day fail; put its row back from a backup, or delete it to give its records up", "work", work, "error", err)
	}
}
