package faults

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millstream/millstream/internal/mstest"
)

// TestWideRows asks for more than an answer may hold, of rows of nearly a megabyte: it is cut and says so, and neither the node nor its SQL engine grows with
// what was asked for.
func TestWideRows(t *testing.T) {
	const (
		width      = 1000 << 10
		engine     = 512 << 20                   // what one statement may use of [querier].memory_limit
		childBound = engine + engine/2 + 256<<20 // where a child is killed, for what DuckDB does not count
		nodeBound  = 1536 << 20
	)
	n := mstest.Start(t, "MS_QUERIER_MEMORY_LIMIT=1GiB", "MS_QUERIER_THREADS=2", "MS_INTAKE_FLUSH_INTERVAL_SECS=3600", "GOMEMLIMIT=1GiB")
	sendWide(t, n, rounds(320, 5000), width)
	formats := []string{"application/json", "application/x-ndjson", "text/csv", "application/vnd.apache.arrow.stream", "application/vnd.apache.parquet"}
	ask := func(statement string, formats ...string) {
		for _, format := range formats {
			w := watchMemory(t, n)
			size, said := wideAnswer(t, n, statement, format)
			node, child := w.end()
			t.Logf("%s as %s: %d MiB, the node took %d MiB and the SQL engine %d MiB", statement, format, size>>20, node>>20, child>>20)
			if node > nodeBound || child > childBound {
				t.Errorf("%s as %s: the node took %d MiB and the SQL engine %d MiB", statement, format, node>>20, child>>20)
			}
			if size < 256<<20 || size > 400<<20 || !strings.Contains(said, "the answer was cut at 26") {
				t.Errorf("%s as %s: %d bytes, and it says %q", statement, format, size, said)
			}
		}
	}
	const all, newest, duck = "SELECT * FROM wide", "SELECT * FROM wide ORDER BY _timestamp DESC LIMIT 5000", "SELECT *, upper(message[1:10]) AS head FROM wide"
	ask(all, formats[0])
	ask(duck, formats[0], formats[3])
	n.Flush()
	ask(all, formats...)
	ask(newest, formats[1])
	ask(duck, formats[0], formats[3])
}

// sendWide ingests rows of about width bytes, ten a request.
func sendWide(t *testing.T, n *mstest.Node, rows, width int) {
	t.Helper()
	const letters = "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ 0123456789"
	text := make([]byte, width)
	for i := range text {
		text[i] = letters[rand.IntN(len(letters))]
	}
	for i := 0; i < rows; {
		var b bytes.Buffer
		for k := 0; k < 10 && i < rows; k, i = k+1, i+1 {
			at := rand.IntN(width)
			fmt.Fprintf(&b, `{"seq":%d,"message":"%s%s"}`+"\n", i, text[at:], text[:at])
		}
		mstest.WaitFor(t, time.Minute, "a wide write is taken", func() bool {
			code, reply := n.Do("POST", "/api/v1/intake/json/wide", n.Token, "application/x-ndjson", b.Bytes())
			if code != http.StatusOK && code != http.StatusServiceUnavailable {
				t.Fatalf("%d %s", code, reply)
			}
			return code == http.StatusOK
		})
	}
}

// wideAnswer runs a statement and reads the reply without keeping it: its size, and what it says beside the rows, behind them or in its trailer.
func wideAnswer(t *testing.T, n *mstest.Node, statement, format string) (size int64, said string) {
	t.Helper()
	body, err := json.Marshal(map[string]string{"language": "sql", "statement": statement})
	must(t, err)
	req, err := http.NewRequest("POST", n.URL+"/api/v1/query", bytes.NewReader(body))
	must(t, err)
	req.Header.Set("Authorization", "Bearer "+n.Token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", format)
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	defer func() { _ = resp.Body.Close() }()
	tail, buf := []byte{}, make([]byte, 64<<10)
	for {
		m, err := resp.Body.Read(buf)
		size += int64(m)
		tail = append(tail, buf[:m]...)
		tail = tail[max(0, len(tail)-1024):]
		if err == io.EOF {
			break
		}
		must(t, err)
	}
	if said = resp.Trailer.Get("Millstream-Warning"); said == "" {
		said = string(tail)
	}
	return size, said
}

// memoryWatch follows the most memory that a node and its SQL engine's children had resident.
type memoryWatch struct {
	stop        chan struct{}
	wg          sync.WaitGroup
	node, child int64
}

func watchMemory(t *testing.T, n *mstest.Node) *memoryWatch {
	t.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", n.PID()), []byte("5"), 0); err != nil { // the high-water mark begins anew
		t.Fatal(err)
	}
	w := &memoryWatch{stop: make(chan struct{})}
	w.wg.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			for _, pid := range children(n.PID()) {
				w.child = max(w.child, status(pid, "VmHWM"))
			}
			w.node = max(w.node, status(n.PID(), "VmHWM"))
			select {
			case <-w.stop:
				return
			case <-tick.C:
			}
		}
	})
	return w
}

func (w *memoryWatch) end() (node, child int64) {
	close(w.stop)
	w.wg.Wait()
	return w.node, w.child
}

// children are the processes of a node's SQL engine.
func children(parent int) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/status")
	for _, f := range all {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		if err != nil || status(pid, "PPid") != int64(parent) {
			continue
		}
		if cmd, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); !bytes.Contains(cmd, []byte("postgres")) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// status is a number of a process's status, sizes in bytes; 0 if there is none.
func status(pid int, name string) int64 {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.SplitSeq(string(b), "\n") {
		key, value, _ := strings.Cut(line, ":")
		if f := strings.Fields(value); key == name && len(f) > 0 {
			v, _ := strconv.ParseInt(f[0], 10, 64)
			if len(f) > 1 {
				v <<= 10
			}
			return v
		}
	}
	return 0
}
