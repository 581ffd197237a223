package auth

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/millstream/millstream"
)

func TestThrottle(t *testing.T) {
	th, now := newThrottle(5), time.Unix(1_000_000, 0)
	for i := range 5 {
		if _, ok := th.take("a", now); !ok {
			t.Fatalf("attempt %d of 5 was refused", i+1)
		}
	}
	wait, ok := th.take("a", now)
	if ok || wait != 12*time.Second {
		t.Fatalf("the sixth: %v, wait %v", ok, wait)
	}
	if _, ok := th.take("b", now); !ok {
		t.Error("another key was counted too")
	}
	if _, ok := th.take("a", now.Add(11*time.Second)); ok {
		t.Error("allowed a second early")
	}
	if _, ok := th.take("a", now.Add(12*time.Second)); !ok {
		t.Error("refused when its time had come")
	}
	if _, ok := th.take("a", now.Add(12*time.Second)); ok {
		t.Error("refused attempts and the wait gave more than one")
	}
	th.refund("a")
	if _, ok := th.take("a", now.Add(12*time.Second)); !ok {
		t.Error("a refund did not count")
	}
	for i := range 5 {
		if _, ok := th.take("a", now.Add(10*time.Minute)); !ok {
			t.Fatalf("after a long rest attempt %d was refused", i+1)
		}
	}
	if _, ok := th.take("a", now.Add(10*time.Minute)); ok {
		t.Error("a long rest saved up more than the burst")
	}
}

// Many keys must neither free the ones under attack nor lock everybody out.
func TestThrottleWithManyKeys(t *testing.T) {
	th, now := newThrottle(5), time.Unix(1_000_000, 0)
	for range 5 {
		th.take("victim", now)
	}
	for i := range 500 {
		for range 5 {
			th.take(fmt.Sprint("attacker", i), now)
		}
	}
	if _, ok := th.take("victim", now); ok {
		t.Error("the count of one key was flushed out by others")
	}
	refused := 0
	for i := range 1000 {
		if _, ok := th.take(fmt.Sprint("bystander", i), now); !ok {
			refused++
		}
	}
	if refused > 10 {
		t.Errorf("%d of 1000 bystanders were refused", refused)
	}
}

func TestThrottlesByAccountAndAddress(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	ts := newThrottles()
	for i := range 5 {
		if _, err := ts.enter("a@example.com", fmt.Sprint("10.0.0.", i), now); err != nil {
			t.Fatal(err)
		}
	}
	_, err := ts.enter("a@example.com", "10.0.0.9", now)
	if millstream.KindOf(err) != millstream.RateLimited {
		t.Errorf("sixth attempt on an account: %v", err)
	}
	ts = newThrottles()
	for i := range 20 {
		if _, err := ts.enter(fmt.Sprint("u", i), "10.0.0.1", now); err != nil {
			t.Fatalf("attempt %d from an address: %v", i+1, err)
		}
	}
	if _, err := ts.enter("other", "10.0.0.1", now); millstream.KindOf(err) != millstream.RateLimited {
		t.Errorf("21st attempt from an address: %v", err)
	}
	ts = newThrottles()
	for range 100 {
		refund, err := ts.enter("a", "b", now)
		if err != nil {
			t.Fatal("a successful attempt was counted")
		}
		refund()
	}
}

func TestOriginKey(t *testing.T) {
	for name, c := range map[string]struct {
		a, b string
		same bool
	}{
		"one v4":          {"192.0.2.1", "192.0.2.1", true},
		"two v4":          {"192.0.2.1", "192.0.2.2", false},
		"mapped":          {"192.0.2.1", "::ffff:192.0.2.1", true},
		"one v6 customer": {"2001:db8::1", "2001:db8::ffff:1", true},
		"two customers":   {"2001:db8::1", "2001:db8:0:1::1", false},
	} {
		a, b := Origin{Addr: netip.MustParseAddr(c.a)}, Origin{Addr: netip.MustParseAddr(c.b)}
		if (a.key() == b.key()) != c.same {
			t.Errorf("%s: %s, %s", name, a.key(), b.key())
		}
	}
}

// TestThrottleWhenTheClockGoesBack: who has tried too often waits for a minute at most, not until the clock is where it was.
func TestThrottleWhenTheClockGoesBack(t *testing.T) {
	th, now := newThrottle(5), time.Unix(1_800_000_000, 0)
	for i := range 6 {
		if _, ok := th.take("a", now); ok != (i < 5) {
			t.Fatalf("attempt %d: %v", i, ok)
		}
	}
	now = now.Add(-time.Hour)
	if wait, ok := th.take("a", now); ok || wait > time.Minute {
		t.Fatalf("taken: %v, wait %v", ok, wait)
	}
	if _, ok := th.take("a", now.Add(time.Minute)); !ok {
		t.Fatal("it is refused a minute later")
	}
}
