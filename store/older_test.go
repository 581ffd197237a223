package store_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/millstream/millstream/store"
	"github.com/millstream/millstream/store/storetest"
)

// olderStatements are of the kinds by which a release that knows no manifests reads and changes the catalog's rows; $1 is a stream.
var olderStatements = []string{
	"SELECT count(*) FROM segments WHERE stream_id = $1",
	"SELECT count(*) FROM unnest(ARRAY['x.data']) AS k(key) WHERE $1::uuid IS NOT NULL AND EXISTS (SELECT 1 FROM segments g WHERE g.data_key = k.key)",
	"SELECT count(*) FROM streams s LEFT JOIN segments g ON g.stream_id = s.id AND g.state = 'live' WHERE s.id = $1",
	"SELECT g.id FROM segments g WHERE g.stream_id = $1 ORDER BY g.id FOR UPDATE",
	"UPDATE segments SET index_version = index_version WHERE stream_id = $1",
	"WITH old AS (SELECT id FROM segments WHERE stream_id = $1 AND state = 'expired') DELETE FROM segments s USING old WHERE s.id = old.id RETURNING s.id",
}

// TestAnOlderReleaseIsRefused from the first seal on, whatever it asks: it may hang for longer than seals wait for it, and come back. Before, and when no day is sealed
// any more, it works as it did.
func TestAnOlderReleaseIsRefused(t *testing.T) {
	t.Parallel()
	m, url := newCatalogModelAt(t, 1)
	st := m.streams[0]
	conn, err := pgx.Connect(ctx, url)
	check(t, err)
	defer func() { check(t, conn.Close(ctx)) }()
	old := func(works bool) {
		t.Helper()
		for _, sql := range olderStatements {
			_, err := conn.Exec(ctx, sql, m.streams[1].ID) // of which nothing is sealed
			if works && err != nil || !works && (err == nil || !strings.Contains(err.Error(), "too old")) {
				t.Fatalf("%s: %v; works: %t", sql, err, works)
			}
		}
	}
	m.put(st, 1, 4)
	old(true)
	if n := must(m.SealDay(ctx, st.ID, 1, 0, 1))(t); n != 4 {
		t.Fatalf("%d segments were sealed, want 4", n)
	}
	old(false)
	m.check()
	must(m.Unseal(ctx, m.of(st)[0]))(t)
	old(true)
	must(m.SealDay(ctx, st.ID, 1, 0, 1))(t)
	check(t, m.DeleteStream(ctx, st.ID, m.entry("stream.delete")))
	old(false) // the objects of what has expired are named by the manifest alone
	m.collect()
	old(true)
}

// TestTheReleaseBeforeSealedDays: where days are sealed when the schema gets here, the releases about know manifests, and the name that they use goes on working.
func TestTheReleaseBeforeSealedDays(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	w := worldOf(t, storetest.Open(t, url))
	st := w.stream("a")
	w.publish(w.flush(0, 10, st), store.Published)
	if n := must(w.SealDay(ctx, st.ID, 0, 0, 1))(t); n != 1 {
		t.Fatalf("%d segments were sealed, want 1", n)
	}
	check(t, w.MigrateTo(ctx, 12))
	check(t, w.Migrate(ctx))
	w.publish(w.flush(10, 20, st), store.Published)
	conn, err := pgx.Connect(ctx, url)
	check(t, err)
	defer func() { check(t, conn.Close(ctx)) }()
	n := 0
	check(t, conn.QueryRow(ctx, "SELECT count(*) FROM segments").Scan(&n))
	if all := must(w.StreamSegments(ctx, st.ID))(t); n != 1 || len(all) != 2 {
		t.Fatalf("%d rows and %d segments, want 1 and 2", n, len(all))
	}
}
