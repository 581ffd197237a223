package wal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"sort"
	"sync"
	"syscall"
)

// simFS is a file system in memory that forgets like a disk does: a crash keeps what was synced and, of the rest, a random part in pieces of 512 bytes. Names
// are durable only after SyncDir. It also fails calls on demand and fills up.
type simFS struct {
	mu      sync.Mutex
	rnd     *rand.Rand
	names   map[string]*inode // as a process sees them
	durable map[string]*inode // as after a crash
	pending []func(map[string]*inode)
	space   int64          // bytes left, -1: plenty
	failing map[string]int // operation → calls to fail
}

type inode struct {
	data   []byte // as a process sees it
	synced []byte
	lost   bool // a sync failed: later syncs say yes, but what was not synced before stays in doubt
}

func newSimFS(rnd *rand.Rand) *simFS {
	return &simFS{rnd: rnd, names: map[string]*inode{}, durable: map[string]*inode{}, space: -1, failing: map[string]int{}}
}

var errSim = errors.New("simulated I/O error")

func (s *simFS) fails(op string) bool {
	if s.failing[op] > 0 {
		s.failing[op]--
		return true
	}
	return false
}

func (s *simFS) failNext(op string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failing[op] = n
}

func (s *simFS) setSpace(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.space = n
}

// crash is a power loss. Open files of the dead process must not be used afterwards.
func (s *simFS) crash() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, change := range s.pending[:s.rnd.IntN(len(s.pending)+1)] { // a prefix of what was not synced may have come through
		change(s.durable)
	}
	s.pending = nil
	s.names = map[string]*inode{}
	for name, n := range s.durable {
		n.data = s.survivors(n)
		n.synced, n.lost = append([]byte(nil), n.data...), false
		s.names[name] = n
	}
}

// survivors are the bytes of a file after a crash: unsynced pieces are there, zeroed or cut off.
func (s *simFS) survivors(n *inode) []byte {
	out := append([]byte(nil), n.synced...)
	if len(n.data) <= len(n.synced) || s.rnd.IntN(3) == 0 {
		return out
	}
	end := len(n.data)
	if s.rnd.IntN(2) == 0 {
		end = len(n.synced) + s.rnd.IntN(len(n.data)-len(n.synced)+1)
	}
	for at := len(n.synced); at < end; at += 512 {
		piece := n.data[at:min(at+512, end)]
		if s.rnd.IntN(3) == 0 {
			piece = make([]byte, len(piece))
		}
		out = append(out, piece...)
	}
	return out
}

func (s *simFS) change(f func(map[string]*inode)) {
	f(s.names)
	s.pending = append(s.pending, f)
}

func (s *simFS) Create(name string) (File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails("create") {
		return nil, errSim
	}
	n := &inode{}
	s.change(func(m map[string]*inode) { m[name] = n })
	return &simFile{s, n}, nil
}

func (s *simFS) Open(name string) (File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ok := s.names[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return &simFile{s, n}, nil
}

func (s *simFS) Rename(from, to string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ok := s.names[from]
	if !ok || s.fails("rename") {
		return errSim
	}
	s.change(func(m map[string]*inode) { delete(m, from); m[to] = n })
	return nil
}

func (s *simFS) Remove(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.change(func(m map[string]*inode) { delete(m, name) })
	return nil
}

func (s *simFS) Link(from, to string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.names[to]; ok {
		return fs.ErrExist
	}
	n := s.names[from]
	s.change(func(m map[string]*inode) { m[to] = n })
	return nil
}

func (s *simFS) Truncate(name string, size int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.names[name]
	n.data = n.data[:size:size]
	return nil
}

func (s *simFS) List(dir string) (names []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.names {
		if filepath.Dir(name) == dir {
			names = append(names, filepath.Base(name))
		}
	}
	sort.Strings(names)
	return names, nil
}

func (s *simFS) SyncDir(string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails("syncdir") {
		return errSim
	}
	for _, change := range s.pending {
		change(s.durable)
	}
	s.pending = nil
	return nil
}

func (s *simFS) Free(string) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.space < 0 {
		return 1 << 50, nil
	}
	return s.space, nil
}

// edit changes a file's bytes behind the log's back.
func (s *simFS) edit(name string, f func([]byte) []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ok := s.names[name]
	if !ok {
		panic(fmt.Sprintf("no file %s", name))
	}
	n.data = f(append([]byte(nil), n.data...))
	n.synced = append([]byte(nil), n.data...)
}

type simFile struct {
	fs *simFS
	n  *inode
}

func (f *simFile) ReadAt(p []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if off >= int64(len(f.n.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.n.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *simFile) Write(p []byte) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	n := len(p)
	var err error
	if f.fs.fails("write") {
		n, err = f.fs.rnd.IntN(n+1), errSim
	}
	if f.fs.space >= 0 {
		if int64(n) > f.fs.space {
			n, err = int(f.fs.space), syscall.ENOSPC
		}
		f.fs.space -= int64(n)
	}
	f.n.data = append(f.n.data, p[:n]...)
	return n, err
}

func (f *simFile) Sync() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.fs.fails("sync") {
		f.n.lost = true
		return errSim
	}
	if !f.n.lost { // after a failed sync the kernel says yes although the pages are gone
		f.n.synced = append(f.n.synced[:0:0], f.n.data...)
	}
	return nil
}

func (f *simFile) Size() (int64, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return int64(len(f.n.data)), nil
}

func (f *simFile) Close() error { return nil }
