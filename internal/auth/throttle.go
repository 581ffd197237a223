package auth

import (
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/millstream/millstream"
)

// throttle limits attempts per key in memory that does not grow with the number of keys. Each key has a cell in each of four rows; a cell is the
// theoretical arrival time of the generic cell rate algorithm, in nanoseconds. An attempt is refused only when all four cells refuse it, so two keys must
// collide in every row before one is counted for the other; nobody can flush another's count out by sending many keys.
type throttle struct {
	interval int64 // ns an attempt costs
	burst    int64 // ns that may be spent ahead
	seed     maphash.Seed
	cells    [4][4096]atomic.Int64
}

// newThrottle allows n attempts a minute per key, all at once if none came before.
func newThrottle(n int) *throttle {
	interval := int64(time.Minute) / int64(n)
	return &throttle{interval: interval, burst: int64(time.Minute) - interval, seed: maphash.MakeSeed()}
}

// take counts an attempt. When it is one too many it is not counted, and wait says when the next may come.
func (t *throttle) take(key string, now time.Time) (wait time.Duration, ok bool) {
	at := now.UnixNano()
	wait = time.Duration(t.interval + t.burst)
	cells := t.find(key)
	for _, c := range cells {
		old := c.Load()
		if most := at + t.burst + t.interval; old > most { // no attempt leads there: the clock went back
			c.CompareAndSwap(old, most)
			old = most
		}
		if ahead := old - at; ahead <= t.burst {
			ok = true
		} else {
			wait = min(wait, time.Duration(ahead-t.burst))
		}
	}
	if !ok {
		return wait, false
	}
	for _, c := range cells {
		for {
			old := c.Load()
			next := min(max(old, at)+t.interval, at+t.burst+t.interval)
			if c.CompareAndSwap(old, next) {
				break
			}
		}
	}
	return 0, true
}

// refund takes back an attempt that turned out to be right: only failures count.
func (t *throttle) refund(key string) {
	for _, c := range t.find(key) {
		c.Add(-t.interval)
	}
}

func (t *throttle) find(key string) (out [4]*atomic.Int64) {
	h := maphash.String(t.seed, key)
	for i := range out {
		out[i] = &t.cells[i][h%uint64(len(t.cells[i]))]
		h /= uint64(len(t.cells[i]))
	}
	return out
}

// Attempts allowed per minute. Successful ones are given back.
const (
	perAccount = 5
	perAddress = 20
)

// throttles guards what people choose or type, and what costs the hash of a password. Random tokens that a program sends by itself (sessions, API tokens) are
// not counted.
type throttles struct{ account, address *throttle }

func newThrottles() throttles {
	return throttles{account: newThrottle(perAccount), address: newThrottle(perAddress)}
}

// enter counts an attempt on an account (empty: none) from an address. The returned function takes it back after a success.
func (t throttles) enter(account, address string, now time.Time) (refund func(), err error) {
	if wait, ok := t.address.take(address, now); !ok {
		return nil, tooMany(wait)
	}
	if account == "" {
		return func() { t.address.refund(address) }, nil
	}
	if wait, ok := t.account.take(account, now); !ok {
		return nil, tooMany(wait)
	}
	return func() { t.address.refund(address); t.account.refund(account) }, nil
}

func tooMany(wait time.Duration) error {
	secs := int((wait + time.Second - 1) / time.Second)
	return &millstream.Error{Kind: millstream.RateLimited, Msg: "too many failed attempts", Hint: "wait and try again", RetryAfter: max(secs, 1)}
}
