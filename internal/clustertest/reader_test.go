package clustertest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/millstream/millstream/internal/mstest"
)

// reader asks again and again how many records there are. That number never falls, unless the answer says that it is partial.
type reader struct {
	stop     chan struct{}
	once     sync.Once
	wg       sync.WaitGroup
	mu       sync.Mutex
	failed   []string
	at       []time.Time
	answers  int
	partial  int
	wrong    []string
	slowest  time.Duration
	lastSeen int64
}

func startReader(t *testing.T, pick func() *mstest.Node, stream string) *reader {
	r := &reader{stop: make(chan struct{})}
	t.Cleanup(r.halt)
	r.wg.Go(func() {
		for {
			select {
			case <-r.stop:
				return
			case <-time.After(50 * time.Millisecond):
			}
			r.read(pick(), stream)
		}
	})
	return r
}

func (r *reader) read(n *mstest.Node, stream string) {
	begin := time.Now()
	a, err := n.TrySQL("SELECT count(*) AS n, count(DISTINCT seq) AS d FROM " + stream)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.slowest = max(r.slowest, time.Since(begin))
	if err != nil {
		r.failed, r.at = append(r.failed, err.Error()), append(r.at, time.Now())
		return
	}
	rows, distinct := mstest.Number(a.Rows[0][0]), mstest.Number(a.Rows[0][1])
	r.answers++
	switch {
	case rows != distinct:
		r.wrong = append(r.wrong, fmt.Sprintf("%d rows and %d distinct", rows, distinct))
	case a.Partial:
		r.partial++
	case rows < r.lastSeen:
		r.wrong = append(r.wrong, fmt.Sprintf("%d rows in an answer that says it is complete, %d before", rows, r.lastSeen))
	default:
		r.lastSeen = rows
	}
}

func (r *reader) halt() {
	r.once.Do(func() { close(r.stop) })
	r.wg.Wait()
}

// check stops the reader and reports wrong answers.
func (r *reader) check(t *testing.T) {
	t.Helper()
	r.halt()
	t.Logf("%d answers, %d partial, %d failed; slowest %s", r.answers, r.partial, len(r.failed), r.slowest.Round(time.Millisecond))
	if r.answers == 0 {
		t.Errorf("no answer at all; %v", r.failed)
	}
	for _, w := range r.wrong {
		t.Error(w)
	}
}

// end is check, and no query may have failed since a time.
func (r *reader) end(t *testing.T, since time.Time) {
	t.Helper()
	r.check(t)
	r.noneFailed(t, since)
}

// noneFailed says whether a query failed since a time.
func (r *reader) noneFailed(t *testing.T, since time.Time) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, f := range r.failed {
		if r.at[i].After(since) {
			t.Errorf("a query failed at +%s: %s", r.at[i].Sub(since).Round(time.Millisecond), f)
		}
	}
}
