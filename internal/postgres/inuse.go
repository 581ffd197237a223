package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/millstream/millstream"
)

const (
	dyingWait = 30 * time.Second // a former server that is stopping: its node was killed, and it still writes its last checkpoint
	livingGap = time.Second      // a server that has not noticed yet that its node is gone
)

// claim makes sure that no server runs on the data directory. One that is stopping is waited for; one that runs is a refusal. The pid file of a server that is gone
// is removed, also when its number has since gone to another process, which would keep the server from starting for ever.
func claim(ctx context.Context, dir string) error {
	begin := time.Now()
	for {
		pid, state, err := runningServer(dir)
		if err != nil {
			return fmt.Errorf("look for a running database server: %w", err)
		}
		if pid == 0 {
			return nil
		}
		limit := livingGap
		if state == "stopping" {
			limit = dyingWait
		}
		if time.Since(begin) > limit {
			return millstream.Errorf(millstream.Conflict, "the database in %s is in use by another server (process %d, %s): another node runs on this data directory; stop it, or give this node another [node].data_dir", dir, pid, state)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// runningServer is the process and state of the server that runs on dir, or 0. The state is the server's own word: starting, ready, stopping.
func runningServer(dir string) (pid int, state string, err error) {
	file := filepath.Join(dir, "postmaster.pid")
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, "", nil
	}
	if err != nil {
		return 0, "", err
	}
	lines := strings.Split(string(text), "\n")
	if pid, err = strconv.Atoi(strings.TrimSpace(lines[0])); err == nil && pid > 0 && worksIn(pid, dir) {
		state = "starting"
		if len(lines) > 7 && strings.TrimSpace(lines[7]) != "" {
			state = strings.TrimSpace(lines[7])
		}
		return pid, state, nil
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, "", err
	}
	return 0, "", nil
}

// worksIn says whether the process lives and has dir as its working directory, as every server has its data directory.
func worksIn(pid int, dir string) bool {
	cwd, err := os.Stat(fmt.Sprintf("/proc/%d/cwd", pid))
	if err != nil {
		return false
	}
	own, err := os.Stat(dir)
	return err == nil && os.SameFile(cwd, own)
}
