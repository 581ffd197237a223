package postgres

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/millstream/millstream"
)

// account is the user that the server runs as. The server refuses to run as root, so a node that is root gives it another; else it is the node's own.
type account struct {
	uid, gid int
	switches bool // the node is root and the server's processes change to uid and gid
}

// serverAccount chooses: the owner of an existing data directory, else the user that distributions make for the server.
func serverAccount(dataDir string) (account, error) {
	if os.Geteuid() != 0 {
		return account{uid: os.Geteuid(), gid: os.Getegid()}, nil
	}
	if fi, err := os.Stat(dataDir); err == nil {
		if st := fi.Sys().(*syscall.Stat_t); st.Uid != 0 {
			return account{uid: int(st.Uid), gid: int(st.Gid), switches: true}, nil
		}
	}
	for _, name := range []string{"postgres", "millstream"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uerr := strconv.Atoi(u.Uid)
		gid, gerr := strconv.Atoi(u.Gid)
		if err := errors.Join(uerr, gerr); err != nil {
			return account{}, fmt.Errorf("user %s has no numeric ids: %w", name, err)
		}
		return account{uid: uid, gid: gid, switches: true}, nil
	}
	return account{}, millstream.Errorf(millstream.Unavailable, "the node runs as root, PostgreSQL refuses to, and there is no user postgres to run it as: create one with `useradd --system postgres`, or start the node as another user")
}

// attributes makes a child run as the account, in a process group of its own, so that a terminal's interrupt reaches only the node, which stops the server last.
func (a account) attributes() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if a.switches {
		attr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
	return attr
}

// mkdir makes a private directory of the account's, or checks that an existing one is that: a directory that others own in a shared place is no place for a
// database or its socket.
func (a account) mkdir(dir string) error {
	err := os.Mkdir(dir, 0o700)
	switch {
	case errors.Is(err, fs.ErrExist):
		fi, err := os.Lstat(dir)
		if err != nil {
			return err
		}
		if st, ok := fi.Sys().(*syscall.Stat_t); !ok || !fi.IsDir() || int(st.Uid) != a.uid || fi.Mode().Perm()&0o077 != 0 {
			return millstream.Errorf(millstream.Conflict, "%s exists and is not a private directory of the user that runs PostgreSQL (uid %d): remove it, or `chown %d %s && chmod 700 %s`", dir, a.uid, a.uid, dir, dir)
		}
		return nil
	case err != nil:
		return err
	}
	if a.switches {
		return os.Chown(dir, a.uid, a.gid)
	}
	return nil
}

// reaches says whether the account may enter every directory on the way to path. Permissions that the mode bits do not show make the answer no, which costs
// nothing: see handle.
func (a account) reaches(path string) bool {
	if !a.switches {
		return true
	}
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		fi, err := os.Stat(dir)
		if err != nil {
			return false
		}
		st := fi.Sys().(*syscall.Stat_t)
		bit := fs.FileMode(0o001)
		switch {
		case int(st.Uid) == a.uid:
			bit = 0o100
		case int(st.Gid) == a.gid:
			bit = 0o010
		}
		if fi.Mode()&bit == 0 {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
	}
}

// handle is a directory as a child of the account is to name it.
type handle struct {
	path string
	file *os.File // to be passed to the child as its descriptor 3; nil: the path is enough
}

// open makes a directory usable to the account. Where the account may not enter the parents (a home directory of root, say), the child gets the open directory
// and names it by its own descriptor: Linux follows that without walking the parents, and the server works relative to its data directory anyway.
func (a account) open(dir string) (handle, error) {
	if a.reaches(dir) {
		return handle{path: dir}, nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return handle{}, err
	}
	return handle{path: "/proc/self/fd/3", file: f}, nil
}

func (h handle) extraFiles() []*os.File {
	if h.file == nil {
		return nil
	}
	return []*os.File{h.file}
}

func (h handle) close() {
	if h.file != nil {
		_ = h.file.Close() // it was only a name
	}
}
