package query

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// pins keep what a snapshot reads from being deleted; *store.Store fits.
type pins interface {
	PinSnapshot(ctx context.Context, id string, at time.Time) error
	UnpinSnapshot(ctx context.Context, id string) error
}

const (
	defaultPinAfter = 5 * time.Minute // of a snapshot, in which compactors delete nothing of it anyway: they wait for at least 15
	pinEvery        = 30 * time.Second
	pinTimeout      = 5 * time.Second
)

// pinLate pins a snapshot that was taken at a time of the database's clock if it is still read after a while, until release. So what a query reads stays for as long
// as it runs, whatever the nodes that delete believe to be the longest query. Most queries are over before that and cost nothing.
func (e *Engine) pinLate(at time.Time) (release func()) {
	if e.cfg.Pins == nil {
		return func() {}
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	late := time.AfterFunc(e.cfg.PinAfter, func() {
		defer close(done)
		e.pin(ctx, at)
	})
	return func() {
		stop()
		if !late.Stop() {
			<-done
		}
	}
}

// pin keeps a pin alive until ctx ends. Where that fails for long, the query meets segments that are gone, and says so.
func (e *Engine) pin(ctx context.Context, at time.Time) {
	id := uuid.NewString()
	call := func(f func(ctx context.Context) error, what string) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pinTimeout)
		defer cancel()
		if err := f(ctx); err != nil {
			e.log.Warn("the snapshot of a long query cannot be "+what, "error", err)
		}
	}
	beat := time.NewTicker(pinEvery)
	defer beat.Stop()
	for ctx.Err() == nil {
		call(func(ctx context.Context) error { return e.cfg.Pins.PinSnapshot(ctx, id, at) }, "pinned")
		select {
		case <-beat.C:
		case <-ctx.Done():
		}
	}
	call(func(ctx context.Context) error { return e.cfg.Pins.UnpinSnapshot(ctx, id) }, "unpinned")
}
