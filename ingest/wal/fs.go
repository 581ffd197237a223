package wal

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// FS is the part of a file system that a log uses. Tests replace it to drop unsynced writes, fail calls or fill the disk.
type FS interface {
	Create(name string) (File, error) // truncates an existing file
	Open(name string) (File, error)   // for reading
	Rename(from, to string) error     // replaces to
	Remove(name string) error
	Link(from, to string) error
	Truncate(name string, size int64) error
	List(dir string) (names []string, err error)
	SyncDir(dir string) error // makes creations and renames in dir durable
	Free(dir string) (bytes int64, err error)
}

// File is an open file. Sync makes what was written durable; once it has failed nothing is known of what was written before.
type File interface {
	io.ReaderAt
	io.Writer
	io.Closer
	Sync() error
	Size() (int64, error)
}

// OS is the operating system's file system.
type OS struct{}

type osFile struct{ *os.File }

// Sync is fdatasync: the size and the data reach the disk, times need not.
func (f osFile) Sync() error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); err != unix.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}

func (f osFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

// Create implements FS.
func (OS) Create(name string) (File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// Open implements FS.
func (OS) Open(name string) (File, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// Rename implements FS.
func (OS) Rename(from, to string) error { return os.Rename(from, to) }

// Remove implements FS.
func (OS) Remove(name string) error { return os.Remove(name) }

// Link implements FS.
func (OS) Link(from, to string) error { return os.Link(from, to) }

// Truncate implements FS.
func (OS) Truncate(name string, size int64) error { return os.Truncate(name, size) }

// List implements FS.
func (OS) List(dir string) ([]string, error) {
	es, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(es))
	for _, e := range es {
		names = append(names, e.Name())
	}
	return names, nil
}

// SyncDir implements FS.
func (OS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// Free implements FS.
func (OS) Free(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, os.NewSyscallError("statfs", err)
	}
	return int64(st.Bavail) * st.Bsize, nil
}
