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
	sealRest  = 48 * time.Hour // between the end of a day and its seal: most late records come within it
	sealAge   = 96 * time.Hour // since a segment was written; longer than a flush may be repeated, which looks for its rows
	leastSeal = 16             // segments that make a manifest worth its row
)

// sealing is what Seal asks of the database; *store.Store fits.
type sealing interface {
	SealDay(ctx context.Context, stream millstream.StreamID, day int64, age time.Duration, least int) (int, error)
}

// Seal puts the finished days of a stream that are at rest into manifests, so that the catalog has a row for a day instead of hundreds. Days are independent; the
// first error is returned at the end, joined with others.
func (c *Compactor) Seal(ctx context.Context, stream string) error {
	id := millstream.StreamID(stream)
	all, err := c.cfg.Catalog.MergeCandidates(ctx, id)
	if err != nil {
		return err
	}
	var errs []error
	for _, day := range restingDays(all, c.cfg.Now(), c.cfg.TargetSize) {
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

// restingDays are the days, in order, that ended long enough ago, have segments enough and nothing to merge.
func restingDays(all []store.Candidate, now time.Time, target int64) (days []int64) {
	count := map[int64]int{}
	for i := range all {
		if d := dayOf(&all[i]); d != wide && !all[i].Sealed && all[i].Age >= sealAge && now.UnixNano() >= (d+1)*dayLength+int64(sealRest) {
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
