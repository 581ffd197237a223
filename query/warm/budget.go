package warm

import (
	"context"
	"sync"
	"time"
)

// budget is a number of bytes a second. Whoever finds it not overdrawn may take any amount, and the next wait until that is paid: so one thing may be larger than
// what a second gives. A second's worth is saved at most.
type budget struct {
	rate float64
	now  func() time.Time
	mu   sync.Mutex
	have float64
	at   time.Time
}

func newBudget(rate int64, now func() time.Time) *budget {
	return &budget{rate: float64(rate), now: now, have: float64(rate), at: now()}
}

// take takes n bytes if the budget is not overdrawn.
func (b *budget) take(n int64) bool {
	_, ok := b.draw(n)
	return ok
}

// draw is take; if it fails, wait is how long the budget stays overdrawn.
func (b *budget) draw(n int64) (wait time.Duration, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	b.have = min(b.have+b.rate*now.Sub(b.at).Seconds(), b.rate)
	b.at = now
	if b.have <= 0 {
		return time.Duration(-b.have/b.rate*float64(time.Second)) + time.Millisecond, false
	}
	b.have -= float64(n)
	return 0, true
}

// wait takes n bytes as soon as the budget is not overdrawn.
func (b *budget) wait(ctx context.Context, n int64) error {
	for {
		d, ok := b.draw(n)
		if ok {
			return ctx.Err()
		}
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
