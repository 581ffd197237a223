package mstest

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Balancer is what stands before several routers: it sends to those that say they are ready, in turn.
type Balancer struct {
	nodes []*Node
	up    atomic.Pointer[[]*Node]
	turn  atomic.Int64
}

// NewBalancer asks the nodes ten times a second whether they are ready, until the test's end.
func NewBalancer(t testing.TB, nodes ...*Node) *Balancer {
	b := &Balancer{nodes: nodes}
	b.look()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				b.look()
			}
		}
	})
	t.Cleanup(func() { close(stop); wg.Wait() })
	return b
}

func (b *Balancer) look() {
	var up []*Node
	for _, n := range b.nodes {
		if n.IsReady() {
			up = append(up, n)
		}
	}
	b.up.Store(&up)
}

// Pick is the node for the next request; any while none is ready.
func (b *Balancer) Pick() *Node {
	up := *b.up.Load()
	if len(up) == 0 {
		up = b.nodes
	}
	return up[int(b.turn.Add(1))%len(up)]
}
