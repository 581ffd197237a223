package faults

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millstream/millstream/internal/mstest"
)

// TestDiskFull fills the disk of the WAL, a real file system of 64 MiB, under load: once up to what must stay free, once wholly.
func TestDiskFull(t *testing.T) {
	for name, c := range map[string]struct {
		minFree string
		leave   int64
	}{"watermark": {"16 MiB", 8 << 20}, "no space left": {"0", 0}} {
		t.Run(name, func(t *testing.T) {
			disk := smallDisk(t)
			if disk == "" {
				t.Log("no file system may be mounted here: the simulated one of ingest/wal must do")
				return
			}
			n := mstest.Start(t, append(env, "MS_WAL_DIR="+filepath.Join(disk, "wal"), "MS_WAL_SEGMENT_SIZE=1MiB", "MS_WAL_MIN_FREE="+c.minFree)...)
			l := startLedger(n, "ledger", 2)
			mstest.WaitFor(t, time.Minute, "writes are taken", func() bool { return l.Acked() > 0 })
			ballast := fill(t, disk, c.leave)
			mstest.WaitFor(t, time.Minute, "writes are refused", func() bool { return l.Answered(http.StatusServiceUnavailable) > 3 })
			status, retryAfter, reply := post(t, n, "/api/v1/intake/json/ledger", `{"seq":-1}`)
			if status != http.StatusServiceUnavailable || retryAfter == "" || !strings.Contains(reply, "WAL") {
				t.Errorf("a write on a full disk: %d, Retry-After %q, %s", status, retryAfter, reply)
			}
			acked := l.Acked()
			if rows := n.Count("SELECT count(*) FROM ledger"); rows < acked {
				t.Errorf("%d rows of %d can be read while the disk is full", rows, acked)
			}
			n.Flush() // the objects are on another disk
			must(t, os.Remove(ballast))
			acked = l.Acked()
			mstest.WaitFor(t, time.Minute, "writes go on", func() bool { return l.Acked() > acked })
			l.End()
			l.check(t, "after the disk was full")
			n.Kill()
			n.Run()
			l.check(t, "after kill -9")
		})
	}
}

// smallDisk mounts a file system of 64 MiB for the time of the test; "" if that is not permitted.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64m"); err != nil {
		t.Logf("mount: %v", err)
		return ""
	}
	t.Cleanup(func() { // by then the node has stopped
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

// fill writes a file that leaves so many bytes of a file system free, and gives its name.
func fill(t *testing.T, disk string, leave int64) string {
	t.Helper()
	f, err := os.Create(filepath.Join(disk, "ballast"))
	must(t, err)
	defer func() { _ = f.Close() }()
	for {
		var st syscall.Statfs_t
		must(t, syscall.Statfs(disk, &st))
		free := int64(st.Bavail) * st.Bsize
		if free <= leave {
			return f.Name()
		}
		_, err := f.Write(bytes.Repeat([]byte{'x'}, int(min(free-leave, 1<<20))))
		if errors.Is(err, syscall.ENOSPC) && leave == 0 {
			return f.Name()
		}
		must(t, err)
	}
}

// post sends records once and gives what the reply says of another try.
func post(t *testing.T, n *mstest.Node, path, body string) (status int, retryAfter, reply string) {
	t.Helper()
	req, err := http.NewRequest("POST", n.URL+path, strings.NewReader(body))
	must(t, err)
	req.Header.Set("Authorization", "Bearer "+n.Token)
	req.Header.Set("Content-Type", "application/x-ndjson")
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	must(t, err)
	return resp.StatusCode, resp.Header.Get("Retry-After"), string(text)
}
