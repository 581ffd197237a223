// Package node runs the services of a process: started in order, each after the previous is ready, stopped one at a time in reverse.
package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Service is a named part of a node. Run blocks; it calls ready once when others may rely on it, and when its context ends it drains and returns.
type Service struct {
	Name string
	Run  func(ctx context.Context, ready func()) error
	// Grace is how long the service may drain; 0 means the node's.
	Grace time.Duration
}

type running struct {
	name  string
	grace time.Duration
	stop  context.CancelFunc
	ready chan struct{}
	done  chan struct{}
	err   error // valid once done is closed
}

// ErrGrace is in the error of a service that did not stop within its grace.
var ErrGrace = errors.New("did not stop within its grace")

// Run starts the services in order and blocks until ctx ends or a service fails or returns; then it stops them in reverse order. Services get contexts that
// outlive ctx, which is what makes the order possible. The error joins what the services returned; nil after an orderly stop.
func Run(ctx context.Context, log *slog.Logger, grace time.Duration, services ...Service) error {
	failed := make(chan *running, len(services))
	var started []*running
	var first *running
	for _, s := range services {
		r := start(ctx, s, grace, failed)
		started = append(started, r)
		begin := time.Now()
		if first = awaitReady(ctx, r, failed); first != nil || ctx.Err() != nil {
			break
		}
		log.Info("started", "component", s.Name, "took", time.Since(begin).Round(time.Millisecond))
	}
	if first == nil && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case first = <-failed:
		}
	}
	if first != nil {
		log.Error("a service ended; the node stops", "component", first.name, "error", first.err)
	} else {
		log.Info("stopping as asked")
	}
	return stopAll(log, started, first)
}

func start(ctx context.Context, s Service, grace time.Duration, failed chan<- *running) *running {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &running{name: s.Name, grace: s.Grace, stop: cancel, ready: make(chan struct{}), done: make(chan struct{})}
	if r.grace == 0 {
		r.grace = grace
	}
	isReady := make(chan struct{}, 1)
	go func() {
		r.err = s.Run(own, func() {
			select {
			case isReady <- struct{}{}:
				close(r.ready)
			default: // a second call changes nothing
			}
		})
		close(r.done)
		failed <- r
	}()
	return r
}

// awaitReady returns the service that ended before r was ready, if one did.
func awaitReady(ctx context.Context, r *running, failed <-chan *running) *running {
	select {
	case <-r.ready:
		return nil
	case f := <-failed:
		return f
	case <-ctx.Done():
		return nil
	}
}

func stopAll(log *slog.Logger, started []*running, first *running) error {
	var errs []error
	for i := len(started) - 1; i >= 0; i-- {
		r := started[i]
		begin := time.Now()
		r.stop()
		timer := time.NewTimer(r.grace)
		select {
		case <-r.done:
			timer.Stop()
		case <-timer.C:
			errs = append(errs, fmt.Errorf("%s: %w of %s", r.name, ErrGrace, r.grace))
			log.Error("did not stop in time", "component", r.name, "grace", r.grace)
			continue
		}
		switch {
		case r.err != nil && !errors.Is(r.err, context.Canceled):
			errs = append(errs, fmt.Errorf("%s: %w", r.name, r.err))
		case r == first:
			errs = append(errs, fmt.Errorf("%s: ended without being asked to", r.name))
		}
		log.Info("stopped", "component", r.name, "took", time.Since(begin).Round(time.Millisecond))
	}
	return errors.Join(errs...)
}
