package rpc

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millstream/millstream/rpc/rpcpb"
)

// How soon a peer that went silent is noticed while calls wait for it: after quiet at the latest a ping goes out, which may take pingTimeout.
const (
	quiet       = 500 * time.Millisecond
	pingTimeout = 3 * time.Second
	sweepEvery  = time.Minute
)

// link is what is known of the connections to one peer: what passed, and when something last came.
type link struct {
	sent, received atomic.Uint64
	heard          atomic.Int64 // ns

	mu    sync.Mutex
	conns map[*conn]struct{}
}

// conn is a connection that tells its link what passes.
type conn struct {
	net.Conn
	link *link
}

func (l *link) dial(ctx context.Context, addr string) (net.Conn, error) {
	d := net.Dialer{Timeout: connectTimeout}
	raw, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: raw, link: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns == nil {
		l.conns = map[*conn]struct{}{}
	}
	l.conns[c] = struct{}{}
	return c, nil
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.link.received.Add(uint64(n))
		c.link.heard.Store(time.Now().UnixNano())
	}
	return n, err
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.link.sent.Add(uint64(n))
	return n, err
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.link.mu.Lock()
	delete(c.link.conns, c)
	c.link.mu.Unlock()
	return c.Conn.Close()
}

// cut closes the connections, which fails the calls on them at once.
func (l *link) cut() (any bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		any = true
		_ = c.Conn.Close() // its reader notices and closes the rest
	}
	return any
}

// watch looks after the connections until ctx ends: silent ones are broken, idle ones closed.
func (c *Clients) watch(ctx context.Context) {
	tick := time.NewTicker(quiet)
	defer tick.Stop()
	var pings sync.WaitGroup
	defer pings.Wait()
	for swept := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			for _, p := range c.list() {
				if p.calls.Load() > 0 && now.UnixNano()-p.link.heard.Load() >= int64(quiet) && p.pinging.CompareAndSwap(false, true) {
					pings.Go(func() {
						defer p.pinging.Store(false)
						c.ping(ctx, p)
					})
				}
			}
			if now.Sub(swept) >= sweepEvery {
				c.sweep(now)
				swept = now
			}
		}
	}
}

// ping asks a peer for a sign of life. One that gives none while calls wait for it is cut off, so that those calls, and all that would follow, fail at once
// and not at their deadlines. Anything that came meanwhile is a sign too.
func (c *Clients) ping(ctx context.Context, p *Client) {
	began := time.Now().UnixNano()
	bounded, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	_, err := p.status.Ping(bounded, &rpcpb.PingRequest{})
	if err == nil || bounded.Err() == nil || ctx.Err() != nil || p.link.heard.Load() >= began {
		return
	}
	if p.link.cut() {
		c.metrics.broken.Inc()
		c.log.Warn("a node gives no sign of life: its connection is closed", "node", p.node, "address", p.addr, "waited", pingTimeout)
	}
}

// sweep closes the connections that nobody has used for long.
func (c *Clients) sweep(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for t, p := range c.clients {
		if p.calls.Load() == 0 && now.UnixNano()-p.used.Load() > int64(idleFor) {
			_ = p.conn.Close() // an error would say that it is closed
			delete(c.clients, t)
		}
	}
}
