package compactor

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/store"
)

const (
	sealRest  = 48 * time.Hour   // between the end of a day and its seal: most late records come within it
	sealAge   = 96 * time.Hour   // since a segment was written; longer than a flush may be repeated, which looks for its rows
	leastSeal = 16               // segments that make a manifest worth its row
	sealQuiet = 10 * time.Minute // without a node that knows no manifests; far longer than one takes to stop after its row went
)

// sealing is what Seal asks of the database; *store.Store fits.
type sealing interface {
	ManifestsKnown(ctx context.Context) (bool, error)
	SealDay(ctx context.Context, stream millstream.StreamID, day int64, age time.Duration, least int) (int, error)
}

// Seal puts the finished days of a stream that are at rest into manifests, so that the catalog has a row for a day instead of hundreds. Days are independent; the
// first error is returned at the end, joined with others. While an upgrade is under way nothing is sealed: see sealable.
func (c *Compactor) Seal(ctx context.Context, stream string) error {
	if ok, err := c.sealable(ctx); !ok {
		return err
	}
	id := millstream.StreamID(stream)
	all, err := c.cfg.Catalog.MergeCandidates(ctx, id)
	if err != nil {
		return err
	}
	absent := c.missingOf(id, all)
	var errs []error
	for _, day := range restingDays(all, c.cfg.Now(), c.cfg.TargetSize) {
		if slices.ContainsFunc(all, func(g store.Candidate) bool { _, ok := absent[g.ID]; return ok && dayOf(&g) == day }) {
			continue // its row may be ended by hand
		}
		n, err := c.cfg.Catalog.SealDay(ctx, id, day, sealAge, leastSeal)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if n > 0 {
			c.metrics.manifests.Inc()
			c.metrics.sealed.Add(float64(n))
			c.log.Debug("sealed a day", "stream", id, "day", time.Unix(0, day*dayLength).UTC().Format(time.DateOnly), "segments", n)
		}
	}
	return errors.Join(errs...)
}

// sealable says whether this node has seen for a while that all nodes know manifests. One of a release before cannot work any more once something is sealed; it has no row
// while it drains, hence the wait. One that hangs for longer is refused when it comes back, and it cannot start again on this schema.
func (c *Compactor) sealable(ctx context.Context) (bool, error) {
	known, err := c.cfg.Catalog.ManifestsKnown(ctx)
	if err != nil {
		return false, err
	}
	now := time.Now() // monotonic: a clock that is set does not shorten the wait
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !known:
		c.knownSince = time.Time{}
	case c.knownSince.IsZero():
		c.knownSince = now
	}
	return known && now.Sub(c.knownSince) >= sealQuiet, nil
}

// restingDays are the days, in order, that ended long enough ago, have segments enough and nothing to merge.
func restingDays(all []store.Candidate, now time.Time, target int64) (days []int64) {
	count := map[int64]int{}
	for i := range all {
		if d := dayOf(&all[i]); d != wide && !all[i].Kept && all[i].Age >= sealAge && now.UnixNano() >= (d+1)*dayLength+int64(sealRest) {
			count[d]++
		}
	}
	for _, g := range Plan(all, now, target) {
		delete(count, dayOf(&g.Inputs[0]))
	}
	for d, n := range count {
		if n >= leastSeal {
			days = append(days, d)
		}
	}
	slices.Sort(days)
	return days
}
