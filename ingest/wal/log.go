// Package wal is the write-ahead log of a node: what is acknowledged has been synced here first. One committer groups the frames of all writers into one
// write and one fdatasync; reading resumes after damage; files go once everything in them is published.
package wal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millstream/millstream"
)

// Sentinels that callers branch on.
var (
	// ErrUnknown: the write or sync failed, so the frames may or may not survive a crash. They are not in this process's log: a retry with the same batch
	// id on this node is safe, one on another node is not.
	ErrUnknown = errors.New("the outcome of the log write is unknown")
	// ErrFull: the disk watermark is reached; nothing was written.
	ErrFull = errors.New("the log is at its disk limit")
	// ErrClosed: the log does not accept; nothing was written.
	ErrClosed = errors.New("the log is closed")
	// ErrGone: frames that were asked for are no longer in the log.
	ErrGone = errors.New("the log no longer holds these frames")

	errDamaged = errors.New("damaged frame")
)

// Options configure a log; zero values mean the documented defaults.
type Options struct {
	Dir         string
	ID          millstream.WALID
	FS          FS    // nil: the operating system's
	SegmentSize int64 // a file is closed when it reaches this size; 128 MiB
	NoSync      bool  // acknowledge without fdatasync: safe against a crash of the process only
	MaxDisk     int64 // bytes of all files; 16 GiB
	MinFree     int64 // bytes that must stay free on the file system; 1 GiB, < 0: no bound
	Log         *slog.Logger
	Registerer  prometheus.Registerer
	Now         func() time.Time

	mutant mutant
}

func (o Options) withDefaults() Options {
	if o.FS == nil {
		o.FS = OS{}
	}
	if o.SegmentSize == 0 {
		o.SegmentSize = 128 << 20
	}
	if o.MaxDisk == 0 {
		o.MaxDisk = 16 << 30
	}
	if o.MinFree == 0 {
		o.MinFree = 1 << 30
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Log is a write-ahead log. Open it, Replay it, Start it, and only then Append.
type Log struct {
	opt     Options
	id      millstream.WALID
	raw     uuid.UUID
	seed    uint32
	log     *slog.Logger
	metrics metrics

	mu    sync.Mutex // guards what follows
	files []*file    // by first LSN; the last one is written to
	last  millstream.LSN

	committer
}

// mutant switches a protection off, to show that a test notices.
type mutant struct{ skipCRC, skipSync bool }

// file is one file of the log. Its fields but first are guarded by Log.mu.
type file struct {
	first       millstream.LSN
	valid       int64 // behind the last frame that counts
	disk        int64 // bytes on disk
	newest      int64 // time of the newest frame known, ns
	prev        header
	quarantined bool
}

func (f *file) name() string { return fileName(f.first) }

// Open finds the log's files and its end. A torn tail of the newest file, which was never acknowledged, is cut.
func Open(o Options) (*Log, error) {
	l := &Log{opt: o.withDefaults(), id: o.ID}
	var err error
	if l.raw, err = uuid.Parse(string(o.ID)); err != nil {
		return nil, fmt.Errorf("WAL id %q: %w", o.ID, err)
	}
	l.seed = checksumSeed(l.raw)
	l.log, l.metrics = l.opt.Log.With("component", "wal"), newMetrics(l.opt.Registerer)
	if err := l.find(); err != nil {
		return nil, fmt.Errorf("open the WAL in %s: %w", o.Dir, err)
	}
	if err := l.findEnd(); err != nil {
		return nil, fmt.Errorf("read the newest WAL file: %w", err)
	}
	l.updateSize()
	return l, nil
}

// ID is the WAL's id.
func (l *Log) ID() millstream.WALID { return l.id }

// First is the oldest LSN the log can still read; Last+1 if it is empty.
func (l *Log) First() millstream.LSN {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.files) == 0 {
		return l.last + 1
	}
	return l.files[0].first
}

// Last is the newest LSN that is durable.
func (l *Log) Last() millstream.LSN {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// Size is the bytes on disk of all files.
func (l *Log) Size() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.size()
}

func (l *Log) size() (n int64) {
	for _, f := range l.files {
		n += f.disk
	}
	return n
}

func (l *Log) updateSize() {
	l.metrics.disk.Set(float64(l.Size()))
}

func (l *Log) path(name string) string { return filepath.Join(l.opt.Dir, name) }

// find lists the files, reads their headers and bounds each by what its successor says of it.
func (l *Log) find() error {
	names, err := l.opt.FS.List(l.opt.Dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasSuffix(name, suffix+".tmp") { // a file that never came to be
			if err := l.opt.FS.Remove(l.path(name)); err != nil {
				return err
			}
		}
		digits, ok := strings.CutSuffix(name, suffix)
		if !ok || len(digits) != 20 {
			continue
		}
		first, err := strconv.ParseUint(digits, 10, 64)
		if err != nil {
			continue
		}
		f, err := l.inspect(name, millstream.LSN(first))
		if err != nil {
			return err
		}
		l.files = append(l.files, f)
	}
	sort.Slice(l.files, func(i, j int) bool { return l.files[i].first < l.files[j].first })
	for i := 1; i < len(l.files); i++ {
		if p, h := l.files[i-1], l.files[i].prev; h.prevFirst == p.first {
			p.valid = min(p.valid, h.prevValid)
		}
	}
	return nil
}

func (l *Log) inspect(name string, first millstream.LSN) (*file, error) {
	r, err := l.opt.FS.Open(l.path(name))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	size, err := r.Size()
	if err != nil {
		return nil, err
	}
	f := &file{first: first, valid: size, disk: size}
	b := make([]byte, headerSize)
	if _, err := r.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	h, ok, err := l.parseHeader(name, b)
	if err != nil {
		return nil, err
	}
	if !ok || h.first != first {
		l.quarantine(f, 0, headerSize, "the file header is damaged")
		return f, nil
	}
	f.prev, f.newest = h, h.created
	return f, nil
}

// findEnd reads the newest file to learn the last LSN and cuts a torn tail.
func (l *Log) findEnd() error {
	if len(l.files) == 0 {
		return nil
	}
	f := l.files[len(l.files)-1]
	l.last = f.first - 1
	r, err := l.opt.FS.Open(l.path(f.name()))
	if err != nil {
		return err
	}
	defer r.Close()
	// What an earlier process wrote but did not sync is read from the page cache as if it were durable; it must be, before it is published.
	if err := r.Sync(); err != nil {
		return fmt.Errorf("sync WAL file %s: %w", f.name(), err)
	}
	s := l.newScanner(r, f.valid, f.first, 0)
	s.reuse = true
	s.onSkip = func(at, n int64, _ millstream.LSN) { l.quarantine(f, at, n, "damaged frames were skipped") }
	for {
		fr, err := s.read(func(millstream.LSN) bool { return true })
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		l.last, f.newest = fr.LSN, fr.Time
	}
	if f.valid <= s.end {
		return nil
	}
	l.log.Warn("cut a torn tail that was never acknowledged", "file", f.name(), "offset", s.end, "bytes", f.valid-s.end)
	l.metrics.torn.Add(float64(f.valid - s.end))
	if !f.quarantined { // a quarantined file keeps what it holds for whoever looks into it
		if err := l.opt.FS.Truncate(l.path(f.name()), s.end); err != nil {
			return err
		}
		f.disk = s.end
	}
	f.valid = s.end
	return nil
}

// quarantine keeps a damaged file under another name, where retirement does not find it, and says so loudly.
func (l *Log) quarantine(f *file, at, length int64, what string) {
	l.metrics.damaged.Inc()
	l.log.Error("WAL damage: "+what, "file", f.name(), "offset", at, "bytes", length, "kept_as", f.name()+damageSuffix)
	if f.quarantined {
		return
	}
	f.quarantined = true
	if err := l.opt.FS.Link(l.path(f.name()), l.path(f.name()+damageSuffix)); err != nil && !errors.Is(err, errExist) {
		l.log.Error("could not keep the damaged WAL file", "file", f.name(), "error", err)
	}
}

// Replay calls fn for every frame up to and including to, in order. Frames at or below after have no payload; they only tell of batch ids. A frame's payload is
// fn's to keep. Damage is skipped, counted and logged. It is ErrGone if frames directly above after are no longer there.
func (l *Log) Replay(ctx context.Context, after, to millstream.LSN, fn func(Frame) error) error {
	l.mu.Lock()
	files := make([]file, len(l.files))
	for i, f := range l.files {
		files[i] = *f
	}
	l.mu.Unlock()
	if len(files) > 0 && after+1 < files[0].first && after < to {
		return fmt.Errorf("frames %d to %d: %w", after+1, files[0].first-1, ErrGone)
	}
	next := millstream.LSN(0)
	for i := range files {
		var below millstream.LSN
		if i+1 < len(files) {
			below = files[i+1].first
		}
		var err error
		if next, err = l.replayFile(ctx, &files[i], below, next, after, to, fn); err != nil {
			return err
		}
		if next > to {
			return nil
		}
	}
	return nil
}

func (l *Log) replayFile(ctx context.Context, f *file, below, next, after, to millstream.LSN, fn func(Frame) error) (millstream.LSN, error) {
	r, err := l.opt.FS.Open(l.path(f.name()))
	if err != nil {
		return next, fmt.Errorf("open WAL file %s: %w", f.name(), err)
	}
	defer r.Close()
	defer func() { l.noteTime(f.first, f.newest) }()
	s := l.newScanner(r, f.valid, f.first, below)
	s.onSkip = func(at, n int64, _ millstream.LSN) { l.damaged(f.first, at, n) }
	for {
		fr, err := s.read(func(n millstream.LSN) bool { return n > after && n <= to })
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return next, fmt.Errorf("read WAL file %s at %d: %w", f.name(), s.pos, err)
		}
		if fr.LSN > to {
			return fr.LSN, nil
		}
		l.noteGap(f, next, fr.LSN, after)
		next = fr.LSN + 1
		f.newest = max(f.newest, fr.Time)
		if err := errors.Join(ctx.Err(), fn(fr)); err != nil {
			return next, err
		}
	}
	if s.bad >= 0 {
		l.damaged(f.first, s.bad, f.valid-s.bad)
	}
	return next, nil
}

// noteGap reports frames that were owed but are not there. Below after they are published and nobody misses them.
func (l *Log) noteGap(f *file, next, got, after millstream.LSN) {
	if next == 0 || got <= next || got <= after+1 {
		return
	}
	l.metrics.missing.Add(float64(got - next))
	l.log.Error("WAL frames are missing", "file", f.name(), "from", next, "to", got-1)
}

func (l *Log) damaged(first millstream.LSN, at, length int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.files {
		if f.first == first {
			l.quarantine(f, at, length, "damaged frames were skipped")
		}
	}
}

func (l *Log) noteTime(first millstream.LSN, t int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.files {
		if f.first == first {
			f.newest = max(f.newest, t)
		}
	}
}

// Retire removes files from the oldest on that hold only frames up to position, all of them older than before. The file being written stays.
func (l *Log) Retire(position millstream.LSN, before time.Time) error {
	defer l.updateSize()
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.files) > 1 && l.files[1].first <= position+1 && l.files[0].newest < before.UnixNano() {
		if err := l.opt.FS.Remove(l.path(l.files[0].name())); err != nil {
			return fmt.Errorf("remove WAL file %s: %w", l.files[0].name(), err)
		}
		l.files = l.files[1:]
	}
	return nil
}
