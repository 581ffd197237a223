// Package netfault breaks networks for tests: it stands between a client and a server and loses what passes.
package netfault

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// Link is a TCP connection's way to a server that a test can break: an address of its own, which stays while the server behind it comes and goes.
type Link struct {
	Addr string
	t    testing.TB
	l    net.Listener
	wg   sync.WaitGroup

	mu     sync.Mutex
	target string // host:port, or the path of a socket
	fault  Fault
	change chan struct{} // closed when fault changes
	open   map[net.Conn]bool
	closed bool
}

// Fault is what a Link does to what passes it.
type Fault int

// The faults of a Link.
const (
	Whole      Fault = iota // everything passes
	Cut                     // connections break and new ones are refused after they were taken
	Blackhole               // connections stay and new ones are taken, and nothing passes in either direction
	NoReplies               // what clients send arrives, and no reply comes back
	NoRequests              // nothing that clients send arrives
)

// NewLink makes a link to a server until the test's end.
func NewLink(t testing.TB, target string) *Link {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k := &Link{Addr: l.Addr().String(), t: t, l: l, target: target, change: make(chan struct{}), open: map[net.Conn]bool{}}
	k.wg.Go(k.accept)
	t.Cleanup(k.close)
	return k
}

// Set changes what happens from now on, also to connections that are open.
func (k *Link) Set(f Fault) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fault == f {
		return
	}
	k.fault = f
	close(k.change)
	k.change = make(chan struct{})
	if f == Cut {
		k.breakAll()
	}
}

// To changes the server behind the link for new connections.
func (k *Link) To(target string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.target = target
}

// breakAll resets every open connection. The caller holds mu.
func (k *Link) breakAll() {
	for c := range k.open {
		if t, ok := c.(*net.TCPConn); ok {
			_ = t.SetLinger(0) // a reset, as a process that dies with unread data gives it
		}
		_ = c.Close()
	}
}

func (k *Link) close() {
	k.mu.Lock()
	k.closed = true
	k.breakAll()
	close(k.change)
	k.change = make(chan struct{})
	k.mu.Unlock()
	_ = k.l.Close()
	k.wg.Wait()
}

func (k *Link) accept() {
	for {
		c, err := k.l.Accept()
		if err != nil {
			return
		}
		if !k.keep(c) {
			continue
		}
		k.wg.Go(func() { k.serve(c) })
	}
}

// keep says whether a connection may live, and closes it otherwise.
func (k *Link) keep(c net.Conn) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed || k.fault == Cut {
		_ = c.Close()
		return false
	}
	k.open[c] = true
	return true
}

func (k *Link) drop(c net.Conn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.open, c)
	_ = c.Close()
}

func (k *Link) serve(client net.Conn) {
	defer k.drop(client)
	if !k.pass(NoRequests) { // to a server that cannot be reached a dial takes for ever
		return
	}
	k.mu.Lock()
	target := k.target
	k.mu.Unlock()
	network := "tcp"
	if strings.HasPrefix(target, "/") {
		network = "unix"
	}
	server, err := net.Dial(network, target)
	if err != nil || !k.keep(server) {
		return
	}
	defer k.drop(server)
	done := make(chan struct{}, 2)
	k.wg.Go(func() { k.copy(server, client, NoRequests); done <- struct{}{} })
	k.wg.Go(func() { k.copy(client, server, NoReplies); done <- struct{}{} })
	<-done // one direction's end is the connection's: none of our protocols closes half
}

// copy passes bytes on while no fault stops this direction.
func (k *Link) copy(to, from net.Conn, stops Fault) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if !k.pass(stops) {
				return
			}
			if _, werr := to.Write(buf[:n]); werr != nil {
				return
			}
		}
		if err != nil {
			if err != io.EOF { // what waits at the other end is not delivered any more
				return
			}
			_ = k.pass(stops)
			return
		}
	}
}

// pass waits until a direction is free; false means that the connection is to end.
func (k *Link) pass(stops Fault) bool {
	for {
		k.mu.Lock()
		fault, change, closed := k.fault, k.change, k.closed
		k.mu.Unlock()
		switch {
		case closed || fault == Cut:
			return false
		case fault != Blackhole && fault != stops:
			return true
		}
		<-change
	}
}
