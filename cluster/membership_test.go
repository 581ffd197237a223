package cluster

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millstream/millstream"
)

func TestViewFollowsTheTable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase()
		a := d.join(t, "a")
		if n := a.View().Count(Compactor); n != 1 {
			t.Fatalf("a node that is ready sees %d compactors, not itself alone", n)
		}
		b := d.join(t, "b")
		time.Sleep(2 * time.Second) // nobody announces anything here
		equal(t, "without announcements", ids(a.View().Live(Compactor)), []string{"a", "b"})
		d.announceTo(a, b)
		c := d.join(t, "c")
		time.Sleep(200 * time.Millisecond)
		equal(t, "announced", ids(a.View().Live(Compactor)), []string{"a", "b", "c"})
		before := d.readings()
		for range 1000 {
			a.Changed()
			time.Sleep(time.Millisecond)
		}
		if n := d.readings() - before; n > 15 {
			t.Errorf("a burst of announcements in one second made the nodes read %d times", n)
		}
		killAll(t, a, b, c)
	})
}

// A node that reads its log for long is no member meanwhile; its warm-up begins when it is one, not a heartbeat later.
func TestANodeIsAMemberWhenItIsReady(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase()
		a := d.join(t, "a")
		b := d.start(t, "b")
		time.Sleep(62 * time.Second)
		if n := a.View().Count(Compactor); n != 1 || b.compactor.Active() || b.compactor.Mine("u") {
			t.Errorf("%d members, the starting node works: %v", n, b.compactor.Active())
		}
		if err := b.Enter(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(15*time.Second - time.Millisecond)
		if a.View().Count(Compactor) != 2 || b.compactor.Active() {
			t.Error("active before the end of the warm-up, or no member")
		}
		time.Sleep(2 * time.Millisecond)
		if !b.compactor.Active() {
			t.Error("not active after the warm-up")
		}
		killAll(t, a, b)
	})
}

func TestLastViewStaysWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase()
		a, b := d.join(t, "a"), d.join(t, "b")
		time.Sleep(time.Minute)
		d.set(true)
		time.Sleep(time.Hour)
		equal(t, "live", ids(a.View().Live(Compactor)), []string{"a", "b"})
		if age := value(t, a.reg, "millstream_cluster_view_age_seconds", ""); age < 3590 || age > 3610 {
			t.Errorf("the view is said to be %v s old", age)
		}
		if d.now().Sub(a.Now()).Abs() > time.Millisecond {
			t.Errorf("the database's clock is taken to be %v, it is %v", a.Now(), d.now())
		}
		if !a.compactor.Active() {
			t.Error("the node gave its work up though nobody else can have taken it in its view")
		}
		b.kill(t)
		d.set(false)
		for range 200 { // rows are an hour old at first, and nobody is given up before it could send a heartbeat
			time.Sleep(50 * time.Millisecond)
			equal(t, "live", ids(a.View().Live(Compactor)), []string{"a", "b"})
		}
		if a.compactor.Active() {
			t.Error("the others may have given the node up, and it did not warm up again")
		}
		time.Sleep(9 * time.Second) // b ended during the outage
		equal(t, "live", ids(a.View().Live(Compactor)), []string{"a"})
		time.Sleep(5 * time.Second)
		if !a.compactor.Active() {
			t.Error("not active after the warm-up")
		}
		a.kill(t)
	})
}

func TestDrainTakesTheRowAwayForGood(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase()
		a, b := d.join(t, "a"), d.join(t, "b")
		d.announceTo(a, b)
		time.Sleep(20 * time.Second)
		b.Drain()
		b.Drain()
		if b.compactor.Active() || !b.Draining() {
			t.Error("a draining node takes work")
		}
		time.Sleep(5*time.Second + 200*time.Millisecond)
		equal(t, "after the next heartbeat", ids(a.View().Members()), []string{"a"})
		time.Sleep(time.Minute)
		equal(t, "a minute later", ids(a.View().Members()), []string{"a"})
		killAll(t, a, b)
	})
}

func TestAStopTakesTheRowAwayAtOnceAndForGood(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase()
		a, b := d.join(t, "a"), d.join(t, "b")
		d.announceTo(a, b)
		ctx, stop := context.WithCancel(t.Context())
		left := make(chan error)
		go func() { left <- b.Announce(ctx, func() {}) }()
		stop()
		if err := <-left; err != nil {
			t.Fatal(err)
		}
		time.Sleep(200 * time.Millisecond)
		equal(t, "announced", ids(a.View().Members()), []string{"a"})
		time.Sleep(time.Minute) // b's heartbeats go on while it finishes its work
		equal(t, "a minute later", ids(a.View().Members()), []string{"a"})
		killAll(t, a, b)
	})
}

// logged is a log that a test reads.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}

func TestTheOlderOfTwoProcessesIsFenced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase()
		var log logged
		older := d.join(t, "a", func(c *Config) { c.Log, c.Self.Addr = slog.New(slog.NewTextHandler(&log, nil)), "older" })
		time.Sleep(20 * time.Second)
		if value(t, older.reg, "millstream_cluster_fenced", "") != 0 || older.Fenced() {
			t.Error("a node alone is fenced")
		}
		newer := d.join(t, "a", func(c *Config) { c.Self.Addr = "newer" })
		time.Sleep(15*time.Second + time.Millisecond)
		if n := log.count("level=ERROR"); n != 3 || log.count("another process runs under this node's id") != 3 {
			t.Errorf("%d errors in three heartbeats", n)
		}
		if value(t, older.reg, "millstream_cluster_fenced", "") != 1 || !older.Fenced() || older.compactor.Active() {
			t.Error("the older process is not fenced")
		}
		if m, _ := newer.View().Member("a"); m.Addr != "newer" || newer.Fenced() || !newer.compactor.Active() {
			t.Errorf("the newer process does not have the row: %+v", m)
		}
		if err := older.Leave(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Second)
		equal(t, "after the older left", ids(newer.View().Live(Compactor)), []string{"a"})
		killAll(t, older, newer)
	})
}

// A node whose clock is off sees, and does, exactly what the others do at the same moments.
func TestOnlyTheDatabasesClockCounts(t *testing.T) {
	t.Parallel()
	off := func(by time.Duration) string {
		var out strings.Builder
		synctest.Test(t, func(t *testing.T) {
			d := newDatabase()
			a := d.join(t, "a", func(c *Config) { c.Now = func() time.Time { return time.Now().Add(by) } })
			b, c := d.join(t, "b"), d.join(t, "c")
			time.Sleep(33 * time.Millisecond) // so that no sample is taken at the very moment of a reading or a heartbeat
			for step := range 80 {
				if step == 40 {
					c.kill(t)
				}
				time.Sleep(time.Second)
				fmt.Fprintln(&out, step, ids(a.View().Live(Compactor)), a.compactor.Active(), a.alert.Primary(), a.compactor.Mine("u"), a.Now().Sub(d.now()).Round(time.Millisecond), b.View().State(a.view("a")), a.View().State(a.view("b")))
			}
			killAll(t, a, b)
		})
		return out.String()
	}
	right := off(0)
	if !strings.Contains(right, "13 [a b c] false") || !strings.Contains(right, "14 [a b c] true") || !strings.Contains(right, "79 [a b] true") {
		t.Fatalf("the run itself is not as expected:\n%s", right)
	}
	for _, by := range []time.Duration{10 * time.Minute, -10 * time.Minute, 1000 * time.Hour} {
		if wrong := off(by); wrong != right {
			t.Errorf("with a clock that is %v off:\n%s\nwith the right one:\n%s", by, wrong, right)
		}
	}
}

func (m *Membership) view(id millstream.NodeID) millstream.Member {
	found, _ := m.View().Member(id)
	return found
}

func TestEachHeartbeatTellsTheWeight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase()
		var weight atomic.Int64
		weight.Store(2000)
		a := d.join(t, "a", func(c *Config) { c.Weight = func() int { return int(weight.Load()) } })
		if m := a.view("a"); m.MilliCPU != 2000 {
			t.Errorf("registered with %d", m.MilliCPU)
		}
		weight.Store(3500)
		time.Sleep(7 * time.Second)
		if m := a.view("a"); m.MilliCPU != 3500 {
			t.Errorf("after a heartbeat %d", m.MilliCPU)
		}
		a.kill(t)
	})
}
