package ingest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/gob"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/millstream/millstream/blob"
)

var killCycles = flag.Int("kill.cycles", campaign(12, 200), "processes that the kill test kills")

// campaign is the size of a fault test: short, or long if MS_FAULTS=full.
func campaign(short, long int) int {
	if os.Getenv("MS_FAULTS") == "full" {
		return long
	}
	return short
}

// killPoints are where a child kills itself; "" is a random moment chosen by the parent.
var killPoints = []string{"", "before sync", "after sync", "acknowledged", "upload", "publish", "published", "retire"}

const killDir, killAt, killSeed = "MILLSTREAM_TEST_KILL_DIR", "MILLSTREAM_TEST_KILL_AT", "MILLSTREAM_TEST_KILL_SEED"

// keep writes the state to the model's file, whole or not at all. A kill of the process loses nothing that was kept, as it would not of a database.
func (m *model) keep() {
	if m.file == "" {
		return
	}
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(m.state); err != nil {
		panic(err)
	}
	if err := os.WriteFile(m.file+".tmp", b.Bytes(), 0o600); err != nil {
		panic(err)
	}
	if err := os.Rename(m.file+".tmp", m.file); err != nil {
		panic(err)
	}
}

// openModel continues the state in a file.
func openModel(file string) (*model, error) {
	m := newModel()
	m.file = file
	b, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return m, nil
	}
	if err != nil {
		return nil, err
	}
	return m, gob.NewDecoder(bytes.NewReader(b)).Decode(&m.state)
}

// killSite is the node in dir, in this process.
func killSite(t *testing.T, dir string) *site {
	m, err := openModel(filepath.Join(dir, "model"))
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t)
	s.dir, s.model = dir, m
	if s.bucket, err = blob.NewDir(filepath.Join(dir, "objects")); err != nil {
		t.Fatal(err)
	}
	s.adjust = func(w *Writer) { w.logGrace = 0 }
	return s
}

// TestKillChild is the process that gets killed; it does nothing unless the kill test starts it.
func TestKillChild(t *testing.T) {
	dir := os.Getenv(killDir)
	if dir == "" {
		return
	}
	at := os.Getenv(killAt)
	seed, err := strconv.ParseUint(os.Getenv(killSeed), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	var armed atomic.Bool
	left := atomic.Int64{}
	left.Store(1 + int64(seed%5))
	die := func(step string) {
		if armed.Load() && step == at && left.Add(-1) == 0 {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	s := killSite(t, dir)
	s.change = func(c *WriterConfig) {
		c.FlushInterval, c.WAL.SegmentSize = 20*time.Millisecond, 20_000
		c.WAL.FS = &disk{before: func() { die("before sync") }, after: func() { die("after sync") }}
	}
	adjust := s.adjust
	s.adjust = func(w *Writer) { adjust(w); w.hook = die }
	s.start()
	armed.Store(true)
	var out sync.Mutex
	say := func(what string, first, n int) {
		out.Lock()
		defer out.Unlock()
		fmt.Printf("\n%s %d %d\n", what, first, n)
	}
	var wg sync.WaitGroup
	for k := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			rnd := rand.New(rand.NewPCG(seed, uint64(k)))
			for i := 0; ; i++ {
				first, n := int(seed)*10_000_000+k*1_000_000+i*100, 1+rnd.IntN(20)
				say("try", first, n)
				if err := s.w.Append(context.Background(), rows("app", first, n)); err == nil {
					say("ack", first, n)
					die("acknowledged")
				}
			}
		}()
	}
	wg.Wait()
}

// TestKill starts a process, kills it in the middle of its writing, and starts the next one on the same directory, again and again. At the end everything that
// was acknowledged is there once, and nothing is there that was not sent.
func TestKill(t *testing.T) {
	if os.Getenv(killDir) != "" {
		return
	}
	dir := t.TempDir()
	acked, sent := map[int64]bool{}, map[int64]bool{}
	for cycle := range *killCycles {
		point := killPoints[cycle%len(killPoints)]
		if err := killOne(dir, point, cycle, acked, sent); err != nil {
			t.Fatalf("cycle %d, killed at %q: %v", cycle, point, err)
		}
		if cycle%10 == 9 || cycle == *killCycles-1 {
			verifyKilled(t, dir, cycle, acked, sent)
		}
	}
	t.Logf("%d kills, %d records acknowledged, %d sent", *killCycles, len(acked), len(sent))
}

func killOne(dir, point string, cycle int, acked, sent map[int64]bool) error {
	cmd := exec.Command(os.Args[0], "-test.run=^TestKillChild$")
	cmd.Env = append(os.Environ(), killDir+"="+dir, killAt+"="+point, killSeed+"="+strconv.Itoa(cycle))
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	var text []string
	limit := time.AfterFunc(2*time.Minute, func() { cmd.Process.Kill() })
	defer limit.Stop()
	started := false
	for sc := bufio.NewScanner(pipe); sc.Scan(); {
		var what string
		var first, n int64
		if k, _ := fmt.Sscanf(sc.Text(), "%s %d %d", &what, &first, &n); k != 3 || what != "try" && what != "ack" {
			text = append(text, sc.Text())
			continue
		}
		if !started && point == "" {
			time.AfterFunc(time.Duration(10+rand.IntN(100))*time.Millisecond, func() { cmd.Process.Kill() })
		}
		started = true
		for i := first; i < first+n; i++ {
			sent[i] = true
			acked[i] = acked[i] || what == "ack"
			if !acked[i] {
				delete(acked, i)
			}
		}
	}
	err = cmd.Wait()
	if !started || cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		return fmt.Errorf("the child did not run until it was killed: %v\n%s", err, text)
	}
	return nil
}

func verifyKilled(t *testing.T, dir string, cycle int, acked, sent map[int64]bool) {
	t.Helper()
	s := killSite(t, dir)
	began := time.Now()
	s.start()
	ready := time.Since(began)
	defer s.kill()
	got, err := s.read(s.stream("app"))
	if err != nil {
		t.Fatal(err)
	}
	lost, dup, ghost := 0, 0, 0
	var which []int64
	there := make(map[int64]bool, len(got))
	for _, v := range got {
		if there[v] {
			dup++
			which = append(which, v)
		}
		if !sent[v] {
			ghost++
			which = append(which, v)
		}
		there[v] = true
	}
	for v := range acked {
		if !there[v] {
			lost++
			which = append(which, v)
		}
	}
	if lost+dup+ghost > 0 || ready > 30*time.Second {
		t.Fatalf("after cycle %d: lost %d, dup %d, ghost %d of %d: %v …; ready in %v", cycle, lost, dup, ghost, len(acked), which[:min(len(which), 20)], ready)
	}
}
