package store

import (
	"context"
	"errors"
	"time"
)

// How long rows outlive their use.
const (
	pinAge   = 15 * time.Minute // an idempotency key
	rangeAge = 72 * time.Hour   // a published range: a lost reply is retried within seconds, this leaves room for a node that is down for a weekend
)

// Sweep deletes what nobody needs any more: rows of silent nodes, expired idempotency keys, sessions, invites and signing keys, old published ranges, documents
// that were deleted a month ago, links that nobody follows, and leases of rates that nobody asks for. Private documents of people who left the organization are
// deleted as if by their owner. It is safe to run anywhere, any number of times; every minute is right. It returns how many rows went.
func (s *Store) Sweep(ctx context.Context) (deleted int64, err error) {
	steps := []func() (int64, error){
		func() (int64, error) { return s.q.DeleteSilentNodes(ctx, NodeSilence.Seconds()) },
		func() (int64, error) { return s.q.DeleteOldPins(ctx, pinAge.Seconds()) },
		func() (int64, error) { return s.q.DeleteOldRanges(ctx, rangeAge.Seconds()) },
		func() (int64, error) { return s.q.DeleteSilentPins(ctx, pinSilence.Seconds()) },
		func() (int64, error) { return s.q.DeleteOldSessions(ctx) },
		func() (int64, error) { return s.q.DeleteOldInvites(ctx) },
		func() (int64, error) { return s.q.DeleteOldKeys(ctx) },
		func() (int64, error) { return s.q.OrphanDocuments(ctx) },
		func() (int64, error) { return s.q.DeleteOldDocuments(ctx, deletedAge.Seconds()) },
		func() (int64, error) { return s.q.DeleteOldLinks(ctx, linkAge.Seconds()) },
		func() (int64, error) { return s.q.DeleteOldRates(ctx, rateAge.Seconds()) },
	}
	var errs []error
	for _, step := range steps {
		n, err := step()
		deleted += n
		errs = append(errs, err)
	}
	return deleted, fail(errors.Join(errs...), "sweep the database")
}
