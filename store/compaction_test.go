package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/store"
	"github.com/millstream/millstream/store/storetest"
)

// merge is a replacement of a stream's live segments.
func (w *world) merge(st store.Stream) store.Replacement {
	w.t.Helper()
	r := store.Replacement{Node: w.node.ID, Incarnation: w.node.Incarnation}
	for i, g := range w.live(st) {
		if i == 0 {
			r.Output = g
		} else {
			r.Output.Rows += g.Rows
		}
		r.Inputs = append(r.Inputs, g.ID)
	}
	r.Output.ID, r.Output.Level = millstream.SegmentID(uuid.NewString()), 1
	r.Output.Data.Key, r.Output.Index.Key = "merged-data-"+string(r.Output.ID), "merged-index-"+string(r.Output.ID)
	return r
}

// wantMerged checks that a stream has one live segment, the merged one.
func (w *world) wantMerged(st store.Stream, r store.Replacement) {
	w.t.Helper()
	if got := w.live(st); len(got) != 1 || got[0].ID != r.Output.ID {
		w.t.Fatalf("live are %v, want the merged segment %s", got, r.Output.ID)
	}
}

// TestAMergeIsRepeatedAfterItsFence: the first try went through, its reply was lost, and the node was started again. The repetition must say so: who believes that
// it was fenced deletes the objects of a live segment.
func TestAMergeIsRepeatedAfterItsFence(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	st := w.stream("app")
	w.publish(w.flush(0, 10, st), store.Published)
	w.publish(w.flush(10, 20, st), store.Published)
	r := w.merge(st)
	check(t, w.ReplaceSegments(ctx, r))
	w.start()
	check(t, w.ReplaceSegments(ctx, r))
	w.wantMerged(st, r)
}

// TestAMergeIsRepeatedWhileItsFirstTryCommits: the connection of the first try broke when everything but the commit was done. The second waits for its locks, and
// finds inputs that are gone to nobody but itself.
func TestAMergeIsRepeatedWhileItsFirstTryCommits(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	w := worldOf(t, storetest.Open(t, url))
	st := w.stream("app")
	w.publish(w.flush(0, 10, st), store.Published)
	w.publish(w.flush(10, 20, st), store.Published)
	r := w.merge(st)

	conn, err := pgx.Connect(ctx, url)
	check(t, err)
	defer func() { check(t, conn.Close(ctx)) }()
	first, err := conn.Begin(ctx)
	check(t, err)
	for _, sql := range []string{
		"UPDATE segment_rows SET state = 'replaced', dead_at = now() WHERE stream_id = $1",
		`INSERT INTO segment_rows (id, org_id, stream_id, signal, min_time, max_time, row_count, level, schema_version,
			data_key, data_offset, data_length, data_sum, index_key, index_offset, index_length, index_sum, wal_id, wal_from, wal_to, node_id, incarnation)
		SELECT '` + string(r.Output.ID) + `', org_id, stream_id, signal, min_time, max_time, 1, 1, 1, 'merged', 0, 1, 'x', 'merged', 1, 1, 'x', NULL, 0, 0, node_id, incarnation
		FROM segment_rows WHERE stream_id = $1 LIMIT 1`,
	} {
		_, err := first.Exec(ctx, sql, st.ID)
		check(t, err)
	}
	second := make(chan error, 1)
	go func() { second <- w.ReplaceSegments(ctx, r) }()
	waiting(t, url)
	check(t, first.Commit(ctx))
	check(t, <-second)
	w.wantMerged(st, r)
}

// TestRetentionIsLengthenedWhileSegmentsExpire: once somebody has been told that a stream keeps its records for longer, nothing expires by what held before, however
// long the compactor that read it stands still.
func TestRetentionIsLengthenedWhileSegmentsExpire(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	w := worldOf(t, storetest.Open(t, url))
	st := w.stream("app")
	w.publish(w.flush(0, 10, st), store.Published) // its records are of 1970
	conn, err := pgx.Connect(ctx, url)
	check(t, err)
	defer func() { check(t, conn.Close(ctx)) }()
	slow, err := conn.Begin(ctx) // whom the compactor waits for
	check(t, err)
	_, err = slow.Exec(ctx, "SELECT 1 FROM segment_rows WHERE stream_id = $1 FOR UPDATE", st.ID)
	check(t, err)
	expired := make(chan error, 1)
	go func() {
		_, err := w.ExpireOld(ctx, w.node.ID, w.node.Incarnation, st.ID, 30)
		expired <- err
	}()
	waiting(t, url)
	days := 36_500
	told := make(chan error, 1)
	go func() {
		_, err := w.UpdateStream(ctx, st.ID, store.StreamPatch{RetentionDays: &days}, auth.Entry{Actor: "system", Action: "stream.update", Org: w.org, At: time.Now()})
		told <- err
	}()
	before := false // told before anything expired
	for deadline := time.Now().Add(time.Minute); !before && waiters(t, url) < 2 && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		select {
		case err := <-told:
			check(t, err)
			before = true
		default:
		}
	}
	check(t, slow.Commit(ctx))
	check(t, <-expired)
	if n := len(w.live(st)); before && n != 1 {
		t.Fatalf("%d live segments: one expired by a retention that was no longer the stream's", n)
	}
	if !before {
		check(t, <-told)
	}
}

// TestANodeIsStartedAnewWhileItsSegmentsExpire: a process that is fenced only while its transaction waits expires nothing, rows and sealed days alike.
func TestANodeIsStartedAnewWhileItsSegmentsExpire(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	w := worldOf(t, storetest.Open(t, url))
	st := w.stream("app")
	w.publish(w.flush(0, 10, st), store.Published) // its records are of 1970
	if n := must(w.SealDay(ctx, st.ID, 0, 0, 1))(t); n != 1 {
		t.Fatalf("%d segments were sealed, want 1", n)
	}
	w.publish(w.flush(10, 20, st), store.Published)
	conn, err := pgx.Connect(ctx, url)
	check(t, err)
	defer func() { check(t, conn.Close(ctx)) }()
	slow, err := conn.Begin(ctx) // whom the compactor waits for
	check(t, err)
	_, err = slow.Exec(ctx, "SELECT 1 FROM segment_rows WHERE stream_id = $1 FOR UPDATE", st.ID)
	check(t, err)
	old := w.node
	expired := make(chan error, 1)
	go func() {
		_, err := w.ExpireOld(ctx, old.ID, old.Incarnation, st.ID, 30)
		expired <- err
	}()
	waiting(t, url)
	w.start()
	check(t, slow.Commit(ctx))
	if err := <-expired; !errors.Is(err, store.ErrFenced) {
		t.Fatalf("got %v, want ErrFenced", err)
	}
	if n := len(w.live(st)); n != 2 {
		t.Fatalf("%d live segments, want 2", n)
	}
	if n := must(w.ExpireOld(ctx, w.node.ID, w.node.Incarnation, st.ID, 30))(t); n != 2 || len(w.live(st)) != 0 {
		t.Fatalf("the newer process expired %d segments, want 2", n)
	}
}

// waiters is how many connections of the database wait for a lock.
func waiters(t *testing.T, url string) (n int) {
	t.Helper()
	conn, err := pgx.Connect(ctx, url)
	check(t, err)
	defer func() { check(t, conn.Close(ctx)) }()
	check(t, conn.QueryRow(ctx, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'").Scan(&n))
	return n
}

// waiting returns when a connection of the database waits for a lock.
func waiting(t *testing.T, url string) {
	t.Helper()
	for range 6000 {
		if waiters(t, url) > 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("nobody waits for a lock")
}

// TestAPinHoldsWhatDiedJustBefore: a merge's transaction began before the snapshot and ended after it, so its inputs died before and are in the snapshot.
func TestAPinHoldsWhatDiedJustBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	st := w.stream("app")
	w.publish(w.flush(0, 10, st), store.Published)
	w.publish(w.flush(10, 20, st), store.Published)
	check(t, w.ReplaceSegments(ctx, w.merge(st)))
	pin := uuid.NewString()
	check(t, w.PinSnapshot(ctx, pin, time.Now().Add(20*time.Second)))
	if n := w.collect(); n != 0 {
		t.Fatalf("%d segments that a pinned snapshot may read were collected", n)
	}
	check(t, w.UnpinSnapshot(ctx, pin))
	if n := w.collect(); n != 2 {
		t.Fatalf("%d segments were collected, want the 2 inputs", n)
	}
}
