package api

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/auth"
)

// orgList is an organizationLister.
type orgList struct {
	all []auth.Organization
	err error
}

func (o *orgList) Organizations(context.Context, string) ([]auth.Organization, error) {
	return o.all, o.err
}

func TestRateLimiter(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	orgs := &orgList{all: []auth.Organization{{ID: "a", IntakeQPS: 10}, {ID: "b"}}}
	l := NewRateLimiter(RateLimits{Organizations: orgs, Defaults: Rates{QueryQPS: 5}, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }})
	take := func(org millstream.OrgID, class string, n int) (allowed int) {
		for range n {
			if l.Allow(t.Context(), org, class).OK {
				allowed++
			}
		}
		return allowed
	}
	if got := take("a", rateIntake, 100); got != 100 {
		t.Errorf("before the settings are known %d of 100 pass", got)
	}
	if err := l.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := take("a", rateIntake, 100); got != 20 {
		t.Errorf("%d pass at once, want two seconds' worth of 10", got)
	}
	if v := l.Allow(t.Context(), "a", rateIntake); v.OK || v.Limit != 10 || v.Remaining != 0 || v.Reset <= 0 || v.Reset > 100*time.Millisecond {
		t.Errorf("%+v", v)
	}
	if got := take("b", rateIntake, 100); got != 100 {
		t.Errorf("an organization without a limit: %d of 100", got)
	}
	if got := take("a", rateQuery, 100); got != 10 {
		t.Errorf("the node's default for queries: %d, want 10", got)
	}
	if got := take("a", "", 100); got != 100 {
		t.Errorf("a route without a class: %d of 100", got)
	}
	if v := l.Allow(t.Context(), "b", rateQuery); !v.OK || v.Limit != 5 || v.Remaining != 9 || v.Reset != 200*time.Millisecond {
		t.Errorf("%+v", v)
	}
	now = now.Add(500 * time.Millisecond)
	if got := take("a", rateIntake, 100); got != 5 {
		t.Errorf("half a second later %d pass, want 5", got)
	}
	now = now.Add(time.Hour)
	if got := take("a", rateIntake, 100); got != 20 {
		t.Errorf("after a rest %d pass, want 20", got)
	}

	orgs.err = errors.New("down")
	if err := l.Refresh(t.Context()); err == nil {
		t.Error("no error")
	}
	now = now.Add(time.Hour)
	if got := take("a", rateIntake, 100); got != 20 {
		t.Errorf("without the database %d pass, want 20", got)
	}
	orgs.all, orgs.err = nil, nil
	if err := l.Refresh(t.Context()); err != nil || len(l.keys) != 0 {
		t.Errorf("organizations that are gone are kept: %d, %v", len(l.keys), err)
	}
}

func TestRateLimiterRuns(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l := NewRateLimiter(RateLimits{Organizations: &orgList{}, Log: slog.New(slog.DiscardHandler), Now: time.Now})
	var wg sync.WaitGroup
	ready := make(chan struct{})
	wg.Go(func() {
		if err := l.Run(ctx, func() { close(ready) }); err != nil {
			t.Error(err)
		}
	})
	<-ready
	cancel()
	wg.Wait()
}
