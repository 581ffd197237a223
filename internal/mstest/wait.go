package mstest

import (
	"bytes"
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

// FreeAddr is an address of this machine that nothing listens on.
func FreeAddr(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

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
