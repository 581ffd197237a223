package wal

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millstream/millstream"
)

const testID = millstream.WALID("6e8bc430-9c3a-11d9-9669-0800200c9a66")

func options(fsys FS) Options {
	return Options{Dir: "wal", ID: testID, FS: fsys, MinFree: -1}
}

// mustOpen opens, replays everything above after and starts.
func mustOpen(t testing.TB, o Options, after millstream.LSN) (*Log, []Frame) {
	t.Helper()
	l, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	frames := replayAll(t, l, after)
	if err := l.Start(after); err != nil {
		t.Fatal(err)
	}
	return l, frames
}

func replayAll(t testing.TB, l *Log, after millstream.LSN) (frames []Frame) {
	t.Helper()
	err := l.Replay(context.Background(), after, l.Last(), func(f Frame) error {
		if f.LSN > after {
			frames = append(frames, f)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return frames
}

func entry(n uint64, size int) Entry {
	p := make([]byte, max(size, 8))
	binary.LittleEndian.PutUint64(p, n)
	for i := 8; i < len(p); i++ {
		p[i] = byte(n) + byte(i)
	}
	return Entry{Org: "org", Stream: "stream", Signal: millstream.Logs, Batch: millstream.BatchID{byte(n)}, Payload: p}
}

func number(f Frame) uint64 { return binary.LittleEndian.Uint64(f.Payload) }

// write appends one entry and waits.
func write(l *Log, e ...Entry) (millstream.LSN, error) {
	type result struct {
		lsn millstream.LSN
		err error
	}
	done := make(chan result, 1)
	if err := l.Append(context.Background(), e, func(lsn millstream.LSN, _ int64, err error) { done <- result{lsn, err} }); err != nil {
		return 0, err
	}
	r := <-done
	return r.lsn, r.err
}

func TestReplayGivesWhatWasAppended(t *testing.T) {
	dir := t.TempDir()
	o := Options{Dir: dir, ID: testID, SegmentSize: 4096, MinFree: -1}
	l, _ := mustOpen(t, o, 0)
	for n := range uint64(50) {
		lsn, err := write(l, entry(2*n, 300), entry(2*n+1, 10))
		if err != nil || lsn != millstream.LSN(2*n+1) {
			t.Fatalf("write %d: lsn %d, %v", n, lsn, err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l, frames := mustOpen(t, o, 40)
	defer l.Close()
	if len(frames) != 60 || l.Last() != 100 || l.First() != 1 {
		t.Fatalf("%d frames, first %d, last %d", len(frames), l.First(), l.Last())
	}
	for i, f := range frames {
		if f.LSN != millstream.LSN(41+i) || number(f) != uint64(40+i) || f.Org != "org" || f.Stream != "stream" || f.Signal != millstream.Logs || f.Batch[0] != byte(40+i) || f.Time == 0 {
			t.Fatalf("frame %d: %+v", i, f)
		}
	}
	if lsn, err := write(l, entry(100, 10)); err != nil || lsn != 101 {
		t.Fatalf("after a restart: lsn %d, %v", lsn, err)
	}
}

func TestLargePayloads(t *testing.T) {
	o := options(newSimFS(rand.New(rand.NewPCG(1, 1))))
	l, _ := mustOpen(t, o, 0)
	for n, size := range []int{copyLimit + 1, groupSize + 3, 100, 3 * window} {
		if _, err := write(l, entry(uint64(n), size), entry(uint64(n), 20)); err != nil {
			t.Fatal(err)
		}
	}
	l.Close()
	_, frames := mustOpen(t, o, 0)
	if len(frames) != 8 || len(frames[2].Payload) != groupSize+3 {
		t.Fatalf("%d frames", len(frames))
	}
	if err := l.Append(context.Background(), []Entry{{Payload: make([]byte, MaxPayload+1)}}, nil); millstream.KindOf(err) != millstream.TooLarge {
		t.Errorf("an oversized payload: %v", err)
	}
}

func TestCallbacksComeInOrder(t *testing.T) {
	l, _ := mustOpen(t, options(newSimFS(rand.New(rand.NewPCG(1, 1)))), 0)
	var mu sync.Mutex
	var got []millstream.LSN
	var wg sync.WaitGroup
	for range 16 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for n := range uint64(100) {
				err := l.Append(context.Background(), []Entry{entry(n, 10)}, func(lsn millstream.LSN, _ int64, err error) {
					mu.Lock()
					defer mu.Unlock()
					got = append(got, lsn)
				})
				if err != nil {
					t.Error(err)
				}
			}
		}()
	}
	wg.Wait()
	l.Close()
	for i, lsn := range got {
		if lsn != millstream.LSN(i+1) {
			t.Fatalf("callback %d has LSN %d", i, lsn)
		}
	}
	if len(got) != 1600 {
		t.Fatalf("%d callbacks", len(got))
	}
	if _, err := write(l, entry(0, 10)); !errors.Is(err, ErrClosed) || millstream.KindOf(err) != millstream.Unavailable {
		t.Errorf("a write after Close: %v", err)
	}
}

func TestFailedSyncSealsTheFile(t *testing.T) {
	for _, op := range []string{"sync", "write"} {
		t.Run(op, func(t *testing.T) {
			fsys := newSimFS(rand.New(rand.NewPCG(7, 7)))
			l, _ := mustOpen(t, options(fsys), 0)
			for n := range uint64(3) {
				if _, err := write(l, entry(n, 100)); err != nil {
					t.Fatal(err)
				}
			}
			fsys.failNext(op, 1)
			if _, err := write(l, entry(99, 100)); !errors.Is(err, ErrUnknown) || millstream.KindOf(err) != millstream.Unavailable {
				t.Fatalf("a failed %s: %v", op, err)
			}
			if lsn, err := write(l, entry(3, 100)); err != nil || lsn != 4 {
				t.Fatalf("after it: lsn %d, %v", lsn, err)
			}
			l.Close()
			fsys.crash()
			_, frames := mustOpen(t, options(fsys), 0)
			if len(frames) != 4 || number(frames[3]) != 3 {
				t.Fatalf("replay gives %d frames: the failed write must not come back beside its LSN's second holder", len(frames))
			}
		})
	}
}

func TestNoNewFileMeansNoWrites(t *testing.T) {
	fsys := newSimFS(rand.New(rand.NewPCG(7, 7)))
	o := options(fsys)
	now := time.Unix(1, 0)
	o.Now = func() time.Time { now = now.Add(time.Second); return now }
	l, _ := mustOpen(t, o, 0)
	write(l, entry(0, 10))
	fsys.failNext("sync", 1)
	fsys.failNext("create", 2)
	if _, err := write(l, entry(1, 10)); !errors.Is(err, ErrUnknown) {
		t.Fatal(err)
	}
	if _, err := write(l, entry(1, 10)); err == nil || errors.Is(err, ErrUnknown) || millstream.KindOf(err) != millstream.Unavailable {
		t.Fatalf("without a file: %v", err)
	}
	if lsn, err := write(l, entry(1, 10)); err != nil || lsn != 2 {
		t.Fatalf("healed: lsn %d, %v", lsn, err)
	}
}

// A rotation that fails half-way may leave the new file's name on disk. The old file must not go on, or its frames would be cut at the next start.
func TestFailedRotationLosesNothing(t *testing.T) {
	for _, op := range []string{"create", "rename", "syncdir"} {
		fsys := newSimFS(rand.New(rand.NewPCG(3, 3)))
		o := options(fsys)
		o.SegmentSize = 500
		now := time.Unix(1, 0)
		o.Now = func() time.Time { now = now.Add(time.Second); return now }
		l, _ := mustOpen(t, o, 0)
		acked := 0
		for n := range uint64(30) {
			if n%7 == 3 {
				fsys.failNext(op, 2)
			}
			if _, err := write(l, entry(n, 200)); err == nil {
				acked++
			}
		}
		l.Close()
		fsys.crash()
		if _, frames := mustOpen(t, o, 0); len(frames) != acked {
			t.Errorf("%s: %d frames of %d acknowledged", op, len(frames), acked)
		}
	}
}

func TestDiskWatermarks(t *testing.T) {
	fsys := newSimFS(rand.New(rand.NewPCG(1, 1)))
	o := options(fsys)
	o.MaxDisk = 2000
	o.MinFree = 1000
	l, _ := mustOpen(t, o, 0)
	var err error
	n := 0
	for ; err == nil; n++ {
		_, err = write(l, entry(uint64(n), 100))
	}
	var e *millstream.Error
	if !errors.Is(err, ErrFull) || !errors.As(err, &e) || e.Kind != millstream.Unavailable || e.RetryAfter == 0 || n < 5 {
		t.Fatalf("max_disk after %d writes: %v", n, err)
	}
	l.opt.MaxDisk = 1 << 30
	if _, err := write(l, entry(0, 100)); err != nil {
		t.Fatalf("it must heal by itself: %v", err)
	}
	fsys.setSpace(1050)
	if _, err := write(l, entry(0, 100)); !errors.Is(err, ErrFull) {
		t.Fatalf("min free: %v", err)
	}
	fsys.setSpace(900)
	if err := l.Full(); !errors.Is(err, ErrFull) {
		t.Errorf("below min free: %v", err)
	}
	fsys.setSpace(-1)
	if err := l.Full(); err != nil {
		t.Errorf("with room: %v", err)
	}
	if _, err := write(l, entry(0, 100)); err != nil {
		t.Fatal(err)
	}
}

func TestDiskFull(t *testing.T) {
	fsys := newSimFS(rand.New(rand.NewPCG(5, 5)))
	l, _ := mustOpen(t, options(fsys), 0)
	acked := 0
	fsys.setSpace(1000)
	for n := range uint64(20) {
		if _, err := write(l, entry(n, 100)); err == nil {
			acked++
		} else if millstream.KindOf(err) != millstream.Unavailable {
			t.Fatal(err)
		}
	}
	fsys.setSpace(-1)
	time.Sleep(retryOpen)
	if _, err := write(l, entry(0, 100)); err != nil {
		t.Fatalf("the log must heal: %v", err)
	}
	l.Close()
	if _, frames := mustOpen(t, options(fsys), 0); len(frames) != acked+1 {
		t.Fatalf("%d frames of %d", len(frames), acked+1)
	}
}

func TestRetireKeepsWhatIsOwed(t *testing.T) {
	fsys := newSimFS(rand.New(rand.NewPCG(1, 1)))
	o := options(fsys)
	o.SegmentSize = 1000
	now := time.Unix(1000, 0)
	o.Now = func() time.Time { return now }
	l, _ := mustOpen(t, o, 0)
	for n := range uint64(40) {
		now = now.Add(time.Minute)
		write(l, entry(n, 100))
	}
	if err := l.Retire(20, now.Add(-30*time.Minute)); err != nil {
		t.Fatal(err)
	}
	if f := l.First(); f > 10 || f == 1 {
		t.Errorf("first is %d: files younger than the grace must stay, older go", f)
	}
	l.Retire(20, now)
	if f := l.First(); f > 21 || f < 10 {
		t.Errorf("first is %d: frames above the position must stay", f)
	}
	first := l.First()
	if err := l.Replay(context.Background(), first-2, 40, func(Frame) error { return nil }); !errors.Is(err, ErrGone) {
		t.Errorf("a replay of retired frames: %v", err)
	}
	l.Close()
	if _, frames := mustOpen(t, o, first-1); len(frames) != 40-int(first)+1 {
		t.Errorf("%d frames after retirement", len(frames))
	}
}

func TestStartAboveAnAdoptedPosition(t *testing.T) {
	fsys := newSimFS(rand.New(rand.NewPCG(1, 1)))
	l, _ := mustOpen(t, options(fsys), 0)
	write(l, entry(0, 10))
	l.Close()
	l, _ = mustOpen(t, options(fsys), 100)
	if lsn, err := write(l, entry(1, 10)); err != nil || lsn != 101 {
		t.Fatalf("lsn %d, %v", lsn, err)
	}
	l.Close()
	if _, frames := mustOpen(t, options(fsys), 100); len(frames) != 1 {
		t.Fatalf("%d frames", len(frames))
	}
}

func TestNoSyncSyncsOnDemand(t *testing.T) {
	fsys := newSimFS(rand.New(rand.NewPCG(2, 1)))
	o := options(fsys)
	o.NoSync = true
	l, _ := mustOpen(t, o, 0)
	for n := range uint64(5) {
		write(l, entry(n, 1000))
	}
	if err := l.Sync(context.Background()); err != nil {
		t.Fatal(err)
	}
	fsys.crash()
	if _, frames := mustOpen(t, o, 0); len(frames) < 5 {
		t.Fatalf("%d frames after Sync", len(frames))
	}
}

// TestPlantedFrames: a sender may put the bytes of a frame into its data. After damage they must not be taken for one.
func TestPlantedFrames(t *testing.T) {
	fsys := newSimFS(rand.New(rand.NewPCG(1, 1)))
	l, _ := mustOpen(t, options(fsys), 0)
	stranger := &Log{} // whoever plants does not know the WAL's id
	evil := entry(666, 50)
	planted := append(stranger.appendFrame(nil, &evil, 2, 1), evil.Payload...)
	e := entry(0, 10)
	e.Payload = append(e.Payload, planted...)
	write(l, e)
	write(l, entry(1, 10))
	l.Close()
	fsys.edit("wal/"+fileName(1), func(b []byte) []byte { b[headerSize+20] ^= 1; return b })
	_, frames := mustOpen(t, options(fsys), 0)
	if len(frames) != 1 || number(frames[0]) != 1 {
		t.Fatalf("%d frames", len(frames))
	}
}

func TestForeignAndNewerFilesAreRefused(t *testing.T) {
	fsys := newSimFS(rand.New(rand.NewPCG(1, 1)))
	l, _ := mustOpen(t, options(fsys), 0)
	l.Close()
	o := options(fsys)
	o.ID = "00000000-0000-4000-8000-000000000001"
	if _, err := Open(o); millstream.KindOf(err) != millstream.Invalid || !strings.Contains(err.Error(), string(testID)) {
		t.Errorf("a foreign file: %v", err)
	}
}

func TestDirIsLockedAndKeepsItsID(t *testing.T) {
	path := filepath.Join(t.TempDir(), "wal")
	d, err := OpenDir(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenDir(path); millstream.KindOf(err) != millstream.Conflict {
		t.Errorf("a second process: %v", err)
	}
	d.Close()
	again, err := OpenDir(path)
	if err != nil || again.ID != d.ID || again.Identity != d.Identity {
		t.Fatalf("reopened: %+v, %v", again, err)
	}
	again.Close()
	copied := filepath.Join(t.TempDir(), "wal")
	if err := os.CopyFS(copied, os.DirFS(path)); err != nil {
		t.Fatal(err)
	}
	c, err := OpenDir(copied)
	if err != nil || c.ID != d.ID || c.Identity == d.Identity {
		t.Errorf("a copy must have the id but another identity: %+v, %v", c, err)
	}
	c.Close()
	os.Remove(filepath.Join(path, idFile))
	os.WriteFile(filepath.Join(path, fileName(1)), nil, 0o600)
	if _, err := OpenDir(path); millstream.KindOf(err) != millstream.Invalid {
		t.Errorf("log files without an id: %v", err)
	}
}

// TestDamage harms a log in 120 ways; a restart must lose only what was hit, keep later frames, and put damaged files aside.
func TestDamage(t *testing.T) {
	kinds := []string{"append", "truncate", "zero", "flip"}
	for seed := range uint64(120) {
		kind := kinds[seed%4]
		if err := damageOnce(t, seed, kind); err != nil {
			t.Errorf("seed %d, %s: %v", seed, kind, err)
		}
	}
}

func damageOnce(t *testing.T, seed uint64, kind string) error {
	rnd := rand.New(rand.NewPCG(seed, 1))
	fsys := newSimFS(rnd)
	o := options(fsys)
	o.SegmentSize = 3000
	o.Log = slog.New(slog.DiscardHandler)
	l, _ := mustOpen(t, o, 0)
	total := uint64(20 + rnd.IntN(20))
	for n := range total {
		if _, err := write(l, entry(n, 20+rnd.IntN(300))); err != nil {
			return err
		}
	}
	l.Close()
	names, _ := fsys.List("wal")
	newest := names[len(names)-1]
	victim := newest
	if kind == "zero" || kind == "flip" {
		victim = names[rnd.IntN(len(names))]
	}
	size := 0
	hit := func(b []byte) []byte {
		size = len(b)
		switch at := rnd.IntN(len(b)); kind {
		case "append":
			garbage := make([]byte, 1+rnd.IntN(400))
			for i := range garbage {
				garbage[i] = byte(rnd.Uint32())
			}
			return append(b, garbage...)
		case "truncate":
			return b[:at]
		case "zero":
			clear(b[at:min(len(b), at+1+rnd.IntN(60))])
		case "flip":
			b[at] ^= 1 << rnd.IntN(8)
		}
		return b
	}
	fsys.edit("wal/"+victim, hit)
	l, frames := mustOpen(t, o, 0)
	defer l.Close()
	seen := map[uint64]bool{}
	last := millstream.LSN(0)
	for _, f := range frames {
		if f.LSN <= last || uint64(f.LSN) != number(f)+1 {
			return fmt.Errorf("frame %d after %d holds %d", f.LSN, last, number(f))
		}
		last = f.LSN
		seen[number(f)] = true
	}
	missing := int(total) - len(seen)
	names, _ = fsys.List("wal")
	kept := strings.Contains(strings.Join(names, " "), victim+damageSuffix)
	switch {
	case kind == "append" && missing > 0:
		return fmt.Errorf("%d of %d frames lost to garbage at the end", missing, total)
	case (kind == "zero" || kind == "flip") && missing > 3:
		return fmt.Errorf("%d frames lost to a small hit in %s of %d bytes", missing, victim, size)
	case missing > 0 && victim != newest && !kept:
		return fmt.Errorf("%d frames lost and the file was not put aside", missing)
	case (kind == "zero" || kind == "flip") && missing > 0 && seen[total-1] && !kept:
		return fmt.Errorf("damage before valid frames and the file was not put aside")
	}
	lsn, err := write(l, entry(1000, 10))
	if err != nil || lsn != l.Last() || lsn <= last {
		return fmt.Errorf("a write after damage: lsn %d, %v", lsn, err)
	}
	return nil
}
