package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/postgres"
	"github.com/millstream/millstream/internal/postgres/pgtest"
	"github.com/millstream/millstream/store"
	"github.com/millstream/millstream/store/storetest"
)

// campaign is how long the server is restarted under load, and how often.
func campaign() (restarts int) {
	if os.Getenv("MS_FAULTS") == "full" {
		return 20
	}
	return 4
}

// The server ends without warning while writers publish, zombies of theirs try to, and a reader checks each snapshot. Afterwards every row that a writer was told
// about is there once, and nothing else: a WAL's rows equal its position.
func TestServerRestartsDuringPublishes(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	s := storetest.Open(t, server.URL())
	check(t, s.Migrate(ctx))
	org := storetest.Org(t, s)
	app, err := s.EnsureStream(ctx, millstream.StreamKey{Org: org, Signal: millstream.Logs, Name: "app"})
	check(t, err)

	end, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var counts ledger
	const writers = 3
	final := make([]millstream.LSN, writers)
	wals := make([]millstream.WALID, writers)
	for i := range writers {
		w := &world{Store: s, t: t, org: org, wal: millstream.WALID(uuid.NewString()), node: millstream.Member{ID: millstream.NodeID(fmt.Sprint("n", i))}}
		w.start()
		zombie := *w
		w.start()
		w.take(w.claim())
		wals[i] = w.wal
		wg.Add(2)
		go func() { defer wg.Done(); final[i] = write(end, w, app, &counts) }()
		go func() { defer wg.Done(); haunt(end, &zombie, app, &counts) }()
	}
	wg.Add(1)
	go func() { defer wg.Done(); observe(end, s, app, &counts) }()
	for range campaign() {
		time.Sleep(time.Duration(300+rand.IntN(400)) * time.Millisecond)
		crash(t, server)
	}
	time.Sleep(300 * time.Millisecond)
	stop()
	wg.Wait()

	snapshot := must(s.Snapshot(ctx, org, []millstream.StreamKey{app.Key}, everything))(t)
	rows := rowsOf(snapshot)
	for i, id := range wals {
		if rows[id] != int64(final[i]) {
			t.Errorf("WAL %d: %d rows, the writer was told of %d", i, rows[id], final[i])
		}
	}
	t.Logf("restarts %d, %s", campaign(), counts.String())
	if counts.published.Load() == 0 || counts.fenced.Load() == 0 || counts.reads.Load() == 0 {
		t.Error("the campaign did not do its work")
	}
	if n := counts.bad.Load(); n > 0 {
		t.Errorf("%d snapshots were inconsistent", n)
	}
}

var everything = millstream.TimeRange{Start: -1 << 62, End: 1 << 62}

type ledger struct{ published, already, lost, fenced, reads, bad atomic.Int64 }

func (l *ledger) String() string {
	return fmt.Sprintf("published %d, already %d, lost replies and refused connections %d, zombies fenced %d, snapshots %d, inconsistent %d",
		l.published.Load(), l.already.Load(), l.lost.Load(), l.fenced.Load(), l.reads.Load(), l.bad.Load())
}

// write publishes range after range, each until its outcome is known, and returns the position it was told last.
func write(end context.Context, w *world, st store.Stream, l *ledger) (position millstream.LSN) {
	for end.Err() == nil {
		f := w.flush(position, position+1+millstream.LSN(rand.IntN(100)), st)
		for {
			o, at, err := w.Publish(ctx, f)
			if err != nil {
				if millstream.KindOf(err) != millstream.Unavailable {
					w.t.Errorf("publish: %v", err)
					return position
				}
				l.lost.Add(1)
				time.Sleep(10 * time.Millisecond)
				continue
			}
			switch o {
			case store.Published:
				l.published.Add(1)
			case store.Already:
				l.already.Add(1)
			default:
				w.t.Errorf("outcome %v at %d", o, at)
			}
			position = at
			break
		}
	}
	return position
}

// haunt publishes as the former incarnation.
func haunt(end context.Context, w *world, st store.Stream, l *ledger) {
	for end.Err() == nil {
		_, _, err := w.Publish(ctx, w.flush(0, 10, st))
		switch {
		case errors.Is(err, store.ErrFenced):
			l.fenced.Add(1)
		case millstream.KindOf(err) != millstream.Unavailable:
			w.t.Errorf("a zombie's publish: %v", err)
		}
		time.Sleep(3 * time.Millisecond)
	}
}

// observe takes snapshots: in each of them a WAL's live rows equal its position.
func observe(end context.Context, s *store.Store, st store.Stream, l *ledger) {
	for end.Err() == nil {
		snapshot, err := s.Snapshot(ctx, st.Key.Org, []millstream.StreamKey{st.Key}, everything)
		if err != nil {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		l.reads.Add(1)
		rows := rowsOf(snapshot)
		for _, w := range snapshot.WALs {
			if rows[w.ID] != int64(w.Position) {
				l.bad.Add(1)
			}
		}
	}
}

func rowsOf(s store.Snapshot) map[millstream.WALID]int64 {
	rows := map[millstream.WALID]int64{}
	for _, g := range s.Segments {
		rows[g.WAL] += g.Rows
	}
	return rows
}

// crash ends the server at once, without a checkpoint; its supervisor starts it again.
func crash(t *testing.T, server *postgres.Server) {
	t.Helper()
	pid := server.PID()
	if pid == 0 {
		return // still down from the last time
	}
	if err := syscall.Kill(pid, syscall.SIGQUIT); !errors.Is(err, syscall.ESRCH) { // gone already, and its supervisor has not noticed
		check(t, err)
	}
}

// A restart breaks every pooled connection. Once the server answers again, no read fails because of them.
func TestReadsSurviveARestart(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	s := storetest.Open(t, server.URL())
	check(t, s.Migrate(ctx))
	w := worldOf(t, s)
	app := w.stream("app")
	for range 3 {
		var wg sync.WaitGroup
		for range 8 { // as many connections as the pool takes
			wg.Add(1)
			go func() {
				defer wg.Done()
				if _, err := w.StreamByID(ctx, app.ID); err != nil {
					t.Error(err)
				}
			}()
		}
		wg.Wait()
		before := server.PID()
		crash(t, server)
		awaitRestart(t, server, before)
		for range 8 {
			must(w.StreamByID(ctx, app.ID))(t)
			must(w.Snapshot(ctx, w.org, []millstream.StreamKey{app.Key}, everything))(t)
			w.stream("new")
		}
	}
}

func awaitRestart(t *testing.T, server *postgres.Server, before int) {
	t.Helper()
	for range 3000 {
		if pid := server.PID(); pid != 0 && pid != before {
			if conn, err := pgx.Connect(ctx, server.URL()); err == nil {
				check(t, conn.Close(ctx))
				return
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the server does not come back")
}

func TestUnreachableDatabase(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	s := storetest.Open(t, server.URL())
	check(t, s.Migrate(ctx))
	check(t, server.Stop(ctx))
	short, cancel := context.WithTimeout(ctx, time.Minute) // reads are tried again for seconds
	defer cancel()
	_, err := s.Streams(short, millstream.OrgID(uuid.NewString()), 0)
	wantKind(t, err, millstream.Unavailable)
	wantKind(t, s.Ping(short), millstream.Unavailable)
	_, err = s.Pin(short, pin(millstream.OrgID(uuid.NewString()), "k", 1, "a"))
	wantKind(t, err, millstream.Unavailable)
	_, err = store.Open(ctx, "mysql://nonsense", 1)
	wantKind(t, err, millstream.Invalid)
}
