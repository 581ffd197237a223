package faults

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/millstream/millstream/internal/mstest"
)

// TestQueriesRightAfterRestart asks, by every way of execution at once, in the moment in which a killed node is ready again, on a machine that has much else to do.
// A question that hangs shows what the node waits for in its log.
func TestQueriesRightAfterRestart(t *testing.T) {
	const patience = 50 * time.Second // less than a client of these tests has
	occupy(t, float64(rounds(2, 24)))
	n := mstest.Start(t, env...)
	l := startLedger(n, "ledger", 2)
	mstest.WaitFor(t, time.Minute, "the first record", func() bool { return l.Acked() > 0 })
	var took []time.Duration
	for round := range rounds(3, 60) {
		time.Sleep(time.Duration(50+rand.IntN(1500)) * time.Millisecond)
		acked := l.Acked()
		n.Kill()
		n.Run()
		var wg sync.WaitGroup
		var mu sync.Mutex
		for i, statement := range []string{
			"SELECT count(*) FROM ledger", "SELECT count(DISTINCT seq) FROM ledger", "SELECT count(*) FROM ledger WHERE message LIKE '%ledger%'",
			fmt.Sprintf("SELECT count(*) FROM ledger AS a JOIN (SELECT %d AS k) AS b ON true", round), // no kernel: the SQL engine starts
		} {
			wg.Go(func() {
				began := time.Now()
				hung := time.AfterFunc(patience, func() { n.Signal(syscall.SIGQUIT) })
				a, err := n.TrySQL(statement)
				hung.Stop()
				mu.Lock()
				defer mu.Unlock()
				took = append(took, time.Since(began))
				if err != nil || len(a.Rows) != 1 || number(a.Rows[0][0]) < acked && !a.Partial {
					t.Errorf("round %d, question %d after %s: %v, rows %v, acked %d", round, i, time.Since(began), err, a.Rows, acked)
				}
			})
		}
		wg.Wait()
		if t.Failed() {
			break
		}
	}
	l.End()
	slices.Sort(took)
	t.Logf("%d questions: half within %s, the slowest %s", len(took), took[len(took)/2].Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond))
	if !t.Failed() {
		l.check(t, "after the restarts")
	}
}

// occupy runs as many processes that do nothing but take time, until the test ends, as the machine's load lacks.
func occupy(t *testing.T, load float64) {
	t.Helper()
	text, err := os.ReadFile("/proc/loadavg")
	must(t, err)
	var now float64
	_, err = fmt.Sscan(string(text), &now)
	must(t, err)
	for ; now < load; now++ {
		cmd := exec.Command("sh", "-c", "while :; do :; done")
		must(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	}
}
