package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/millstream/millstream"
)

const superuser = "millstream"

// dataVersion is the major version of the server that a data directory belongs to; "" when the directory is missing or empty.
func dataVersion(dir string) (string, error) {
	text, err := os.ReadFile(filepath.Join(dir, "PG_VERSION"))
	if err == nil {
		return strings.TrimSpace(string(text)), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the database's data directory: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the database's data directory: %w", err)
	}
	if len(entries) > 0 {
		return "", millstream.Errorf(millstream.Conflict, "%s holds files but no PostgreSQL database: move them away, or choose another [node].data_dir", dir)
	}
	return "", nil
}

// initialise makes a new data directory. It appears under its name only when it is whole, so an interrupted initdb leaves nothing that looks like a database.
func initialise(ctx context.Context, bin, dir string, as account, sync bool) error {
	unfinished := dir + ".new"
	if err := os.RemoveAll(unfinished); err != nil {
		return fmt.Errorf("clear an unfinished database: %w", err)
	}
	if err := as.mkdir(unfinished); err != nil {
		return fmt.Errorf("make the database's data directory: %w", err)
	}
	h, err := as.open(unfinished)
	if err != nil {
		return fmt.Errorf("make the database's data directory: %w", err)
	}
	defer h.close()
	// Segments of 4 MiB instead of 16 keep a small database small. Whoever reaches the socket's directory is trusted: nobody else can enter it.
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", h.path, "-U", superuser, "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync", "--no-instructions", "--wal-segsize=4")
	cmd.Dir = "/"
	cmd.Env = environment()
	cmd.SysProcAttr = as.attributes()
	cmd.ExtraFiles = h.extraFiles()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, lastLines(string(out), 5))
	}
	if sync {
		// One call for the file system instead of initdb's fsync per file.
		if err := syncTree(unfinished); err != nil {
			return fmt.Errorf("write the new database to disk: %w", err)
		}
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replace the empty data directory: %w", err)
	}
	if err := os.Rename(unfinished, dir); err != nil {
		return fmt.Errorf("name the new data directory: %w", err)
	}
	return syncDir(filepath.Dir(dir))
}

func syncTree(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// environment is what the server's programs get: no PG* variable of the node's own environment may point them elsewhere.
func environment() []string {
	return []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C", "TZ=UTC"}
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "; ")
}
