// Package netfault is a TCP proxy that fails as networks do, for tests: it stands between two nodes and can be told to lose what passes.
package netfault

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// Mode is what the proxy does with what passes.
type Mode uint8

// The modes. They hold for connections that exist and for new ones.
const (
	Pass      Mode = iota
	Blackhole      // takes connections and bytes, passes nothing on
	Swallow        // requests pass, replies do not: the work is done and nobody learns of it
	Refuse         // resets every connection as soon as it is made
)

// Proxy passes the connections to its address on to a target.
type Proxy struct {
	target   string
	listener net.Listener
	done     sync.WaitGroup

	mu     sync.Mutex
	mode   Mode
	pairs  map[*pair]struct{}
	passed [2]int64 // bytes to the target, and back
	closed bool
}

type pair struct{ client, server *net.TCPConn }

// Listen starts a proxy to target on a free port of the loopback.
func Listen(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{target: target, listener: l, pairs: map[*pair]struct{}{}}
	p.done.Go(p.accept)
	return p, nil
}

// Addr is where the proxy listens.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Set changes what the proxy does from now on. What a fault held back is lost: connections that lived through one are reset when it ends.
func (p *Proxy) Set(m Mode) {
	p.mu.Lock()
	was := p.mode
	p.mode = m
	p.mu.Unlock()
	if m == Refuse || was != Pass {
		p.Reset()
	}
}

// Reset breaks every connection that there is; new ones are not concerned.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.pairs {
		c.reset()
	}
}

// Passed is how many bytes reached the target, and how many of its replies the other side.
func (p *Proxy) Passed() (requests, replies int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.passed[0], p.passed[1]
}

// Close ends the proxy and its connections.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	err := p.listener.Close()
	p.Reset()
	p.done.Wait()
	return err
}

func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		client := c.(*net.TCPConn)
		p.mu.Lock()
		refuse := p.mode == Refuse || p.closed
		p.mu.Unlock()
		if refuse {
			(&pair{client: client}).reset()
			continue
		}
		p.done.Go(func() { p.serve(client) })
	}
}

func (p *Proxy) serve(client *net.TCPConn) {
	c, err := net.DialTimeout("tcp", p.target, 5*time.Second)
	if err != nil {
		(&pair{client: client}).reset()
		return
	}
	pr := &pair{client, c.(*net.TCPConn)}
	p.mu.Lock()
	p.pairs[pr] = struct{}{}
	if p.closed || p.mode == Refuse {
		pr.reset()
	}
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { p.pump(0, pr.server, pr.client) })
	both.Go(func() { p.pump(1, pr.client, pr.server) })
	both.Wait()
	p.mu.Lock()
	delete(p.pairs, pr)
	p.mu.Unlock()
	_ = pr.client.Close()
	_ = pr.server.Close()
}

// pump passes bytes of one direction on until its source ends.
func (p *Proxy) pump(direction int, to, from *net.TCPConn) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && p.passes(direction, n) {
			if _, werr := to.Write(buf[:n]); werr != nil {
				err = werr
			}
		}
		if errors.Is(err, io.EOF) {
			if p.passes(direction, 0) {
				_ = to.CloseWrite()
			}
			return
		}
		if err != nil {
			_ = to.Close()
			return
		}
	}
}

func (p *Proxy) passes(direction, n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mode == Blackhole || p.mode == Swallow && direction == 1 {
		return false
	}
	p.passed[direction] += int64(n)
	return true
}

// reset closes both sides in a way that their peers take for a failure.
func (c *pair) reset() {
	for _, side := range []*net.TCPConn{c.client, c.server} {
		if side != nil {
			_ = side.SetLinger(0)
			_ = side.Close()
		}
	}
}
