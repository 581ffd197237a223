// Package faults breaks a real node in every way it should survive, while a ledger knows what was sent and what was acknowledged. After every fault three
// figures must be zero: lost = acked − returned, dup = count − distinct, ghost = returned − attempted.
package faults

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millstream/millstream/internal/mstest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	mstest.Cleanup()
	os.Exit(code)
}

// full says that the long campaigns run: make faults.
var full = os.Getenv("MS_FAULTS") == "full"

// rounds is how often a fault is injected.
func rounds(short, long int) int {
	if full {
		return long
	}
	return short
}

// ledger sends numbered records, each once, and remembers what came of them.
type ledger struct {
	node    *mstest.Node
	stream  string
	next    atomic.Int64
	mu      sync.Mutex
	acked   map[int64]bool
	refused map[int64]bool // the node said that it did not take it
	answers map[int]int    // replies by status
	pause   time.Duration  // of a writer after each write
	stop    chan struct{}
	wg      sync.WaitGroup
}

func startLedger(n *mstest.Node, stream string, writers int) *ledger {
	return startSlowLedger(n, stream, writers, 0)
}

func startSlowLedger(n *mstest.Node, stream string, writers int, pause time.Duration) *ledger {
	l := &ledger{node: n, stream: stream, acked: map[int64]bool{}, refused: map[int64]bool{}, answers: map[int]int{}, pause: pause, stop: make(chan struct{})}
	for range writers {
		l.wg.Go(l.write)
	}
	return l
}

func (l *ledger) write() {
	for {
		select {
		case <-l.stop:
			return
		default:
		}
		n := 1 + rand.IntN(20)
		from := l.next.Add(int64(n)) - int64(n)
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `{"seq":%d,"message":"record number %d of the ledger"}`+"\n", from+int64(i), from+int64(i))
		}
		code, _ := l.node.Do("POST", "/api/v1/intake/json/"+l.stream, l.node.Token, "application/x-ndjson", []byte(b.String()))
		l.mu.Lock()
		l.answers[code]++
		for i := range n {
			switch {
			case code == 200:
				l.acked[from+int64(i)] = true
			case code/100 == 4:
				l.refused[from+int64(i)] = true
			}
		}
		l.mu.Unlock()
		if code != 200 {
			time.Sleep(20 * time.Millisecond)
		}
		time.Sleep(l.pause)
	}
}

// end stops the writers.
func (l *ledger) end() { close(l.stop); l.wg.Wait() }

// ackedNow is how many records are acknowledged so far.
func (l *ledger) ackedNow() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int64(len(l.acked))
}

// answered is how many replies had a status.
func (l *ledger) answered(status int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answers[status]
}

// check compares the node's answer with the ledger; the writers have ended.
func (l *ledger) check(t *testing.T, when string) {
	t.Helper()
	var rows [][]any
	mstest.WaitFor(t, 60*time.Second, "an answer "+when, func() bool {
		a, err := l.node.TrySQL("SELECT seq, count(*) AS n FROM " + l.stream + " GROUP BY seq LIMIT 100000000")
		if err != nil || a.Partial {
			t.Logf("%s: %v partial %v", when, err, a.Partial)
			return false
		}
		rows = a.Rows
		return true
	})
	returned := map[int64]bool{}
	dup, ghost, lost := 0, 0, 0
	for _, r := range rows {
		seq, _ := r[0].(json.Number).Int64()
		n, _ := r[1].(json.Number).Int64()
		returned[seq] = true
		dup += int(n - 1)
		if seq >= l.next.Load() || l.refused[seq] {
			ghost++
		}
	}
	for seq := range l.acked {
		if !returned[seq] {
			lost++
		}
	}
	if lost+dup+ghost > 0 || len(l.acked) == 0 {
		t.Errorf("%s: acked %d returned %d: lost %d dup %d ghost %d", when, len(l.acked), len(returned), lost, dup, ghost)
	}
	t.Logf("%s: attempted %d, acked %d, returned %d, replies by status %v", when, l.next.Load(), len(l.acked), len(returned), l.answers)
}
