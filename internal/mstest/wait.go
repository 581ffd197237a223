package mstest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"
)

// WaitFor polls until ok or the limit.
func WaitFor(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", limit, what)
		}
	}
}

// FreeAddr is an address of this machine that nothing listens on, and that nothing gets unasked: ports of outgoing connections come from 32768 on.
func FreeAddr(t testing.TB) string {
	t.Helper()
	given.Lock()
	defer given.Unlock()
	for range 1000 {
		addr := fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(22_000))
		if given.all[addr] {
			continue
		}
		l, err := net.Listen("tcp", addr)
		if err != nil {
			continue
		}
		_ = l.Close()
		given.all[addr] = true
		return addr
	}
	t.Fatal("no port is free")
	return ""
}

// given are the addresses that FreeAddr has given in this process.
var given = struct {
	sync.Mutex
	all map[string]bool
}{all: map[string]bool{}}

// lockedBuffer keeps the end of what is written to it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// keptLog is how much of a log's end is kept, at least.
const keptLog = 1 << 20

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.b.Len() > 2*keptLog {
		l.b.Next(l.b.Len() - keptLog)
	}
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
