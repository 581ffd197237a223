package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/millstream/millstream"
)

// Dir is a locked WAL directory: the id of its WAL, kept in a file, and the directory's identity. A copied directory has the id but another identity, which
// is how a WAL that was cloned is told from one that was restarted.
type Dir struct {
	Path     string
	ID       millstream.WALID
	Identity string // device and inode
	lock     *os.File
}

const idFile, lockFile = "wal-id", "lock"

// OpenDir creates the directory if it is missing, locks it against other processes, and reads its WAL's id or makes a new one.
func OpenDir(path string) (*Dir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("create the WAL directory: %w", err)
	}
	lock, err := lockDir(path)
	if err != nil {
		return nil, err
	}
	d := &Dir{Path: path, lock: lock}
	if d.Identity, err = identity(path); err == nil {
		d.ID, err = readID(path)
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return d, nil
}

// Close releases the lock.
func (d *Dir) Close() error { return d.lock.Close() }

func lockDir(path string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(path, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock of the WAL directory: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, millstream.Wrap(millstream.Conflict, err, "the WAL directory %s is in use by another process: stop it, or set [wal].dir to another directory", path)
	}
	return f, nil
}

func identity(path string) (string, error) {
	st, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return "", fmt.Errorf("the file system of %s gives no inode", path)
	}
	return fmt.Sprintf("%d:%d", sys.Dev, sys.Ino), nil
}

// readID reads the id file. It makes one only in a directory without log files: with files there, a new id would hide rows that the old one owes.
func readID(path string) (millstream.WALID, error) {
	name := filepath.Join(path, idFile)
	text, err := os.ReadFile(name)
	if err == nil {
		id, err := uuid.Parse(strings.TrimSpace(string(text)))
		if err != nil {
			return "", millstream.Wrap(millstream.Invalid, err, "%s does not hold a WAL id: restore it from a backup", name)
		}
		return millstream.WALID(id.String()), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if old, _ := filepath.Glob(filepath.Join(path, "*"+suffix)); len(old) > 0 {
		return "", millstream.Errorf(millstream.Invalid, "%s is missing but the directory holds %d log files: restore it, or move the files away", name, len(old))
	}
	id := uuid.NewString()
	return millstream.WALID(id), writeDurably(name, id+"\n")
}

func writeDurably(name, text string) error {
	tmp := name + ".tmp"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp, name); err != nil {
		return err
	}
	return OS{}.SyncDir(filepath.Dir(name))
}
