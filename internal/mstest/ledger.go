package mstest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Ledger sends numbered records and remembers what came of them. Whatever happens to the nodes, three figures must be zero: lost = acked − returned,
// dup = count − distinct, ghost = returned − attempted.
type Ledger struct {
	Streams []string
	pick    func() *Node // who takes the next write
	keyed   bool
	next    atomic.Int64
	pause   time.Duration
	stop    chan struct{}
	once    sync.Once // of stop
	wg      sync.WaitGroup

	mu      sync.Mutex
	acked   map[int64]bool
	refused map[int64]bool // a node said that it did not take it and never will
	answers map[int]int    // replies by status; 0: there was none
	failed  []Failure
	lastAck time.Time
	gap     time.Duration // the longest time without an acknowledgement
}

// Failure is a reply of 5xx, one that says that the sender went away, or none.
type Failure struct {
	At     time.Time
	Node   string
	Status int
	Reply  string
}

// LedgerOptions say how a ledger sends.
type LedgerOptions struct {
	Writers int
	Pause   time.Duration // of a writer after each write
	// Streams is how many streams the records are spread over, so that in a cluster every intake has some; 0: one, of the ledger's name.
	Streams int
	// Keyed sends each write with an Idempotency-Key, and again until a node says what came of it: then also what is unknown may not be there twice. Else each
	// write is sent once.
	Keyed bool
}

// NewLedger starts to write through the nodes that pick gives, until End.
func NewLedger(name string, o LedgerOptions, pick func() *Node) *Ledger {
	streams := []string{name}
	for i := 1; i < o.Streams; i++ {
		streams = append(streams, fmt.Sprintf("%s_%d", name, i))
	}
	l := &Ledger{
		Streams: streams, pick: pick, keyed: o.Keyed, pause: o.Pause, stop: make(chan struct{}),
		acked: map[int64]bool{}, refused: map[int64]bool{}, answers: map[int]int{}, lastAck: time.Now(),
	}
	for range o.Writers {
		l.wg.Go(l.write)
	}
	return l
}

func (l *Ledger) write() {
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
		for !l.send(from, n, b.String()) && l.keyed {
			select {
			case <-l.stop:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
		time.Sleep(l.pause)
	}
}

// send makes one call and says whether its outcome is known.
func (l *Ledger) send(from int64, n int, body string) (known bool) {
	node := l.pick()
	stream := l.Streams[int(from)%len(l.Streams)]
	var headers []string
	if l.keyed {
		headers = append(headers, fmt.Sprintf("Idempotency-Key: %s-%d", stream, from))
	}
	code, reply := node.Do("POST", "/api/v1/intake/json/"+stream, node.Token, "application/x-ndjson", []byte(body), headers...)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers[code]++
	now := time.Now()
	switch {
	case code == 200:
		l.gap = max(l.gap, now.Sub(l.lastAck))
		l.lastAck = now
		for i := range n {
			l.acked[from+int64(i)] = true
		}
		return true
	case code/100 == 4 && code != 429 && code != 499: // 499 says nothing of the outcome
		for i := range n {
			l.refused[from+int64(i)] = true
		}
		return true
	}
	l.failed = append(l.failed, Failure{now, node.ID, code, string(reply[:min(len(reply), 300)])})
	if !l.keyed {
		time.Sleep(20 * time.Millisecond)
	}
	return false
}

// Only picks one node, always.
func Only(n *Node) func() *Node { return func() *Node { return n } }

// End stops the writers.
func (l *Ledger) End() {
	l.once.Do(func() { close(l.stop) })
	l.wg.Wait()
}

// Acked is how many records are acknowledged so far.
func (l *Ledger) Acked() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int64(len(l.acked))
}

// Attempted is how many records were or are being sent so far.
func (l *Ledger) Attempted() int64 { return l.next.Load() }

// Answered is how many replies had a status.
func (l *Ledger) Answered(status int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answers[status]
}

// Failures are those since a time.
func (l *Ledger) Failures(since time.Time) (out []Failure) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.failed {
		if !f.At.Before(since) {
			out = append(out, f)
		}
	}
	return out
}

// Gap is the longest time between two acknowledgements since the last call.
func (l *Ledger) Gap() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	gap := max(l.gap, now.Sub(l.lastAck))
	l.gap, l.lastAck = 0, now
	return gap
}

// Check compares a node's answer with the ledger; the writers have ended.
func (l *Ledger) Check(t testing.TB, n *Node, when string) {
	t.Helper()
	var rows [][]any
	for _, stream := range l.Streams {
		WaitFor(t, time.Minute, "an answer "+when, func() bool {
			a, err := n.TrySQL("SELECT seq, count(*) AS n FROM " + stream + " GROUP BY seq LIMIT 100000000")
			if err != nil || a.Partial {
				t.Logf("%s: %s: %v partial %v", when, stream, err, a.Partial)
				return false
			}
			rows = append(rows, a.Rows...)
			return true
		})
	}
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
