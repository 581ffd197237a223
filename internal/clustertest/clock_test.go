package clustertest

import (
	"testing"
	"time"

	"github.com/millstream/millstream/internal/mstest"
)

// Nodes whose clocks are off, each by another amount, do what the others do; and what a node remembers for minutes it remembers for as long when its clock is set
// right, or wrong, between two of its lives.
func TestClocksThatAreOff(t *testing.T) {
	c := small(t, mstest.ClusterOptions{Bare: true}, "router*2", "intake*2", "querier", "compactor", "alert")
	routers, intakes := c.Of("router"), c.Of("intake")
	for n, off := range map[*mstest.Node]time.Duration{
		routers[0]: 10 * time.Minute, routers[1]: -10 * time.Minute, intakes[0]: -20 * time.Minute, intakes[1]: 20 * time.Minute, c.Of("querier")[0]: 10 * time.Minute, c.Of("compactor")[0]: -10 * time.Minute,
	} {
		n.Ahead = off
	}
	c.Start()

	// A session of one router is one of the other, whose clock is behind.
	var grant struct {
		Token   string
		Refresh string `json:"refresh_token"`
	}
	routers[0].JSON("POST", "/api/v1/auth/login", "", map[string]string{"email": mstest.Email, "password": mstest.Password}, &grant)
	routers[1].JSON("GET", "/api/v1/auth/me", grant.Token, nil, nil)
	routers[1].JSON("POST", "/api/v1/auth/refresh", "", map[string]string{"refresh_token": grant.Refresh}, &grant)
	routers[0].JSON("GET", "/api/v1/auth/me", grant.Token, nil, nil)

	for _, r := range routers {
		mstest.WaitFor(t, time.Minute, "everybody is up to "+r.ID, func() bool { return len(r.Up()) == len(c.Nodes) })
	}

	// Repetitions are recognised after a restart with the right clock, and after one with a clock that is further off.
	streams := []string{"a", "b", "c", "d", "e", "f"} // some on each intake
	write := func(through *mstest.Node) {
		t.Helper()
		for _, s := range streams {
			send(t, through, s, 0, 10, "Idempotency-Key: once")
		}
		for _, s := range streams {
			complete(t, through, s, 10)
		}
	}
	write(routers[0])
	routers[0].Flush()
	for _, ahead := range []time.Duration{0, 40 * time.Minute} {
		for _, n := range intakes {
			n.Kill()
			n.Ahead = ahead
			n.Run()
		}
		for _, r := range routers {
			mstest.WaitFor(t, time.Minute, "the intakes are up to "+r.ID, func() bool { return len(r.Up()) == len(c.Nodes) })
			write(r)
		}
	}
}
