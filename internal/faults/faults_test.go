package faults

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millstream/millstream/internal/mstest"
)

// limit lets the ledger read all its rows in one answer, and makes flushes frequent enough to be hit by every fault.
var env = []string{"MS_QUERIER_MAX_RESULT_ROWS=100000000", "MS_INTAKE_FLUSH_INTERVAL_SECS=1"}

func TestKill9(t *testing.T) {
	n := mstest.Start(t, env...)
	l := startLedger(n, "ledger", 4)
	var slowest time.Duration
	for range rounds(8, 200) {
		time.Sleep(time.Duration(50+rand.IntN(1500)) * time.Millisecond)
		n.Kill()
		slowest = max(slowest, n.Run())
	}
	l.End()
	t.Logf("slowest restart: %s", slowest)
	l.check(t, "after kill -9")
	n.Flush()
	l.check(t, "after the flush")
}

func TestTornWAL(t *testing.T) {
	n := mstest.Start(t, append(env, "MS_INTAKE_FLUSH_INTERVAL_SECS=3600")...)
	for i := range rounds(4, 30) {
		l := startLedger(n, fmt.Sprintf("torn%d", i), 2)
		mstest.WaitFor(t, time.Minute, "the first record", func() bool { return l.Acked() > 0 })
		time.Sleep(300 * time.Millisecond)
		n.Kill()
		l.End()
		tear(t, n, i)
		n.Run()
		l.check(t, fmt.Sprintf("after tail damage %d", i))
	}
}

// tear does to the end of the newest WAL file what a crash can: garbage or zeros behind the last frame, or half a frame.
func tear(t *testing.T, n *mstest.Node, kind int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(n.Dir, "data", "wal", "*.wal"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no WAL file: %v", err)
	}
	f, err := os.OpenFile(files[len(files)-1], os.O_WRONLY|os.O_APPEND, 0)
	must(t, err)
	defer func() { _ = f.Close() }()
	tail := [][]byte{bytes.Repeat([]byte{0xa5}, 1+rand.IntN(5000)), make([]byte, 4096), []byte("\x40\x00\x00\x00half a frame"), {1}}[kind%4]
	_, err = f.Write(tail)
	must(t, err)
}

func TestDatabaseCrashes(t *testing.T) {
	n := mstest.Start(t, env...)
	l := startLedger(n, "ledger", 4)
	for range rounds(4, 20) {
		time.Sleep(time.Duration(300+rand.IntN(1500)) * time.Millisecond)
		pid := postmaster(t, n)
		must(t, syscall.Kill(pid, syscall.SIGQUIT)) // an immediate shutdown: no checkpoint, no goodbye
		before := l.Acked()
		mstest.WaitFor(t, time.Minute, "writes go on", func() bool { return l.Acked() > before })
	}
	n.Ready(time.Minute)
	l.End()
	l.check(t, "after database crashes")
	n.Flush()
	l.check(t, "after the flush")
}

func postmaster(t *testing.T, n *mstest.Node) int {
	t.Helper()
	var pid int
	mstest.WaitFor(t, time.Minute, "the database server runs", func() bool {
		b, err := os.ReadFile(filepath.Join(n.Dir, "data", "postgres", "postmaster.pid"))
		if err != nil {
			return false
		}
		first, _, _ := strings.Cut(string(b), "\n")
		pid, err = strconv.Atoi(strings.TrimSpace(first))
		return err == nil && syscall.Kill(pid, 0) == nil
	})
	return pid
}

func TestReaderDuringFlush(t *testing.T) {
	n := mstest.Start(t, env...)
	l := startLedger(n, "ledger", 2)
	mstest.WaitFor(t, time.Minute, "the first record", func() bool { return l.Acked() > 0 })
	var last int64
	flushes, segments, reads := 0, 0, rounds(100, 1000)
	for deadline := time.Now().Add(2 * time.Minute); reads > 0 || flushes < 3; reads-- {
		if time.Now().After(deadline) {
			t.Fatalf("%d reads left and %d flushes seen", reads, flushes)
		}
		before := l.Acked()
		a := n.SQL("SELECT count(*) AS n, count(DISTINCT seq) AS d FROM ledger")
		after := l.Attempted()
		rows, distinct := number(a.Rows[0][0]), number(a.Rows[0][1])
		if rows < before || rows > after || rows != distinct || rows < last || a.Partial {
			t.Fatalf("acked before %d, attempted after %d: n %d distinct %d, last %d, partial %v", before, after, rows, distinct, last, a.Partial)
		}
		last = rows
		if a.Stats.Segments.Total > segments {
			segments = a.Stats.Segments.Total
			flushes++
		}
		time.Sleep(10 * time.Millisecond)
	}
	l.End()
	l.check(t, "after the reads")
}

func TestObjectStoreGoesAway(t *testing.T) {
	s3 := mstest.NewGateway(t)
	n := mstest.Start(t, append(env, s3.Env()...)...)
	l := startLedger(n, "ledger", 2)
	for range rounds(2, 10) {
		time.Sleep(2 * time.Second)
		s3.Kill()
		before := l.Acked()
		time.Sleep(3 * time.Second)
		mstest.WaitFor(t, time.Minute, "writes while the object store is away", func() bool { return l.Acked() > before })
		s3.Start()
	}
	l.End()
	l.check(t, "after outages of the object store")
	n.Flush()
	l.check(t, "after the flush")
	n.Kill()
	s3.Kill()
	n.Launch() // the node waits for the object store, and says so
	mstest.WaitFor(t, time.Minute, "the node tells what it waits for", func() bool { return strings.Contains(n.Log(), "waiting") })
	s3.Start()
	n.Ready(time.Minute)
	l.check(t, "after a start without the object store")
}

// TestLongOutageOfTheObjectStore: writes go on from the log until what is unflushed reaches its limit, are refused then, and everything is there when the store
// is back. Five minutes by make faults.
func TestLongOutageOfTheObjectStore(t *testing.T) {
	away, pause, total := 15*time.Second, time.Duration(0), "4 MiB"
	if full {
		away, pause, total = 5*time.Minute, 10*time.Millisecond, "8 MiB"
	}
	s3 := mstest.NewGateway(t)
	n := mstest.Start(t, append(append(env, s3.Env()...), "MS_INTAKE_BUFFER_SIZE="+total, "MS_INTAKE_BUFFER_TOTAL="+total)...)
	l := startSlowLedger(n, "ledger", 2, pause)
	mstest.WaitFor(t, time.Minute, "the first record", func() bool { return l.Acked() > 0 })
	mstest.WaitFor(t, time.Minute, "a flush", func() bool { return n.SQL("SELECT count(*) FROM ledger").Stats.Segments.Total > 0 })
	s3.Kill()
	began, before, last, pressed := time.Now(), l.Acked(), int64(0), time.Duration(0)
	for time.Since(began) < away || pressed == 0 && time.Since(began) < away+time.Minute { // a busy machine writes slowly
		time.Sleep(100 * time.Millisecond)
		if pressed == 0 && l.Answered(http.StatusServiceUnavailable) > 0 {
			pressed = time.Since(began)
			t.Logf("back-pressure after %s and %d records", pressed.Round(time.Second), l.Acked()-before)
		}
		if rows := n.Count("SELECT count(*) FROM ledger"); rows < last {
			t.Fatalf("%d rows, %d before", rows, last)
		} else {
			last = rows
		}
	}
	switch {
	case l.Acked() == before:
		t.Error("no write was taken while the object store was away")
	case pressed == 0:
		t.Errorf("%d records were taken, which is more than %s", l.Acked()-before, total)
	}
	resident := status(n.PID(), "VmRSS")
	s3.Start()
	back, stalled := time.Now(), l.Acked()
	mstest.WaitFor(t, time.Minute, "writes go on", func() bool { return l.Acked() > stalled+1000 })
	goesOn := time.Since(back)
	l.End()
	n.Flush()
	t.Logf("away %s; resident %d MiB at its end; writes went on after %s, all was published after %s", away, resident>>20, goesOn.Round(time.Millisecond), time.Since(back).Round(time.Millisecond))
	if resident > 512<<20 {
		t.Errorf("the node took %d MiB", resident>>20)
	}
	l.check(t, "after the outage")
	n.Kill()
	n.Run()
	l.check(t, "after kill -9")
}

func TestPauseAndResume(t *testing.T) {
	n := mstest.Start(t, env...)
	l := startLedger(n, "ledger", 2)
	for range rounds(1, 10) {
		time.Sleep(time.Second)
		n.Signal(syscall.SIGSTOP)
		time.Sleep(time.Duration(rounds(3, 25)) * time.Second)
		before := l.Acked()
		n.Signal(syscall.SIGCONT)
		mstest.WaitFor(t, time.Minute, "writes go on", func() bool { return l.Acked() > before })
	}
	l.End()
	l.check(t, "after pauses")
}

func TestOrderlyStopPublishesEverything(t *testing.T) {
	n := mstest.Start(t, append(env, "MS_INTAKE_FLUSH_INTERVAL_SECS=3600")...)
	l := startLedger(n, "ledger", 2)
	mstest.WaitFor(t, time.Minute, "some records", func() bool { return l.Acked() > 100 })
	l.End()
	if !n.Stop() {
		t.Errorf("the node did not stop in order:\n%s", n.Log())
	}
	n.Run()
	l.check(t, "after an orderly stop")
	if a := n.SQL("SELECT count(*) FROM ledger"); a.Stats.UnflushedRows != 0 {
		t.Errorf("%d rows are unflushed after an orderly stop", a.Stats.UnflushedRows)
	}
}

func TestSecondNodeOnTheSameDirectoryIsRefused(t *testing.T) {
	n := mstest.Start(t, env...)
	cmd := exec.Command(mstest.Binary(t), "serve")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "MS_NODE_DATA_DIR=" + filepath.Join(n.Dir, "data"), "MS_HTTP_LISTEN=127.0.0.1:0", "MS_OTLP_LISTEN=127.0.0.1:0"}
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "in use") {
		t.Errorf("%v: %s", err, out)
	}
	n.Ready(time.Minute)
}

func number(v any) int64 {
	n, _ := v.(json.Number).Int64()
	return n
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
