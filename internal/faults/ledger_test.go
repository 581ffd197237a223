// Package faults breaks a real node in every way it should survive, while a ledger knows what was sent and what was acknowledged: mstest.Ledger says what
// must hold after every fault.
package faults

import (
	"os"
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

// ledger writes to one node.
type ledger struct {
	*mstest.Ledger
	node *mstest.Node
}

func startLedger(n *mstest.Node, stream string, writers int) ledger {
	return startSlowLedger(n, stream, writers, 0)
}

func startSlowLedger(n *mstest.Node, stream string, writers int, pause time.Duration) ledger {
	return ledger{mstest.NewLedger(stream, mstest.LedgerOptions{Writers: writers, Pause: pause}, mstest.Only(n)), n}
}

// check compares the node's answer with the ledger; the writers have ended.
func (l ledger) check(t *testing.T, when string) {
	t.Helper()
	l.Check(t, l.node, when)
}
