package app

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/millstream/millstream"
)

// lock keeps other processes off a data directory until its file is closed, or the process ends however it does.
func lock(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the data directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock of the data directory: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, millstream.Wrap(millstream.Conflict, err, "the data directory %s is in use by another process: stop it, or set [node].data_dir to another directory", dir)
	}
	return f, nil
}
