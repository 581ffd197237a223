package app

import (
	"context"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/cluster"
	"github.com/millstream/millstream/compactor"
	"github.com/millstream/millstream/internal/config"
)

// rebuildInterval is how often outdated and missing indexes are looked for.
const rebuildInterval = 5 * time.Minute

// reconcileInterval is how often the catalog is compared with the object store. What it finds is at least a day old.
const reconcileInterval = 6 * time.Hour

// sealInterval is how often finished days are looked for; nothing waits for them.
const sealInterval = 30 * time.Minute

// newJobs makes the work that is divided between nodes, of the roles that this one has.
func (p *parts) newJobs() error {
	p.jobs = cluster.NewJobs(p.cfg.Grace()/2, p.log, p.registry)
	if p.cfg.Node.Has(config.Alert) {
		cluster.NewWork(config.Alert, p.membership, p.registry) // members and the primary are told by its gauges, also while there are no jobs
	}
	if !p.cfg.Node.Has(config.Compactor) {
		return nil
	}
	if err := p.newCompactor(); err != nil {
		return err
	}
	c := &p.cfg.Compactor
	work := cluster.NewWork(config.Compactor, p.membership, p.registry)
	p.jobs.Add(work, cluster.Job{Work: cluster.Compaction, Interval: secs(c.IntervalSecs), Parallel: 2 * c.MaxConcurrentGroups, Units: p.compactor.Streams, Run: p.compactor.Compact})
	p.jobs.Add(work, cluster.Job{Work: cluster.PartitionManifest, Interval: sealInterval, Units: p.compactor.Streams, Run: p.compactor.Seal})
	p.jobs.Add(work, cluster.Job{Work: cluster.StorageReconciler, Interval: reconcileInterval, Units: p.compactor.Reconciled, Run: func(ctx context.Context, org string) error {
		_, err := p.compactor.Reconcile(ctx, org)
		return err
	}})
	p.jobs.Add(work, cluster.Job{Work: cluster.IndexRebuild, Interval: rebuildInterval, Units: p.compactor.Organizations, Run: p.compactor.RebuildIndexes})
	return nil
}

// lostIndex notes that a segment's index is not in the object store, or not whole: a compactor builds another.
func (p *parts) lostIndex(ctx context.Context, s millstream.Segment) {
	news, err := p.store.LoseIndex(ctx, s)
	if err != nil {
		p.log.Warn("a lost index could not be noted; whoever misses it next will", "segment", s.ID, "error", err)
	} else if news {
		p.log.Error("the index of a segment is damaged or gone: queries of it fail until a compactor has built another", "segment", s.ID, "key", s.Index.Key)
	}
}

func (p *parts) newCompactor() error {
	temp, err := scratch(p.cfg.Node.DataDir, "compactor")
	if err != nil {
		return err
	}
	c := &p.cfg.Compactor
	p.compactor = compactor.New(compactor.Config{
		Node: millstream.NodeID(p.cfg.Node.ID), Incarnation: p.membership.Incarnation, Catalog: p.store, Bucket: p.bucket, Segments: p.segments, Warm: p.pushMerged, TempDir: temp,
		TargetSize: int64(c.TargetSize), Groups: c.MaxConcurrentGroups, RetentionDays: c.RetentionDays, Grace: compactor.Grace(secs(p.cfg.Querier.TimeoutSecs)),
		Log: p.log, Registerer: p.registry, Now: p.clock,
	})
	return nil
}

// collect deletes what is dead, on every compactor node: that is safe to repeat.
func (p *parts) collect(ctx context.Context, ready func()) error {
	ready()
	tick := time.NewTicker(secs(p.cfg.Compactor.IntervalSecs))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := p.compactor.Collect(ctx); err != nil && ctx.Err() == nil {
				p.log.Warn("dead segments could not be deleted; the next round tries again", "component", "compactor", "error", err)
			}
		}
	}
}
