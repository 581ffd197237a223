package store_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/store"
	"github.com/millstream/millstream/store/storetest"
)

// fillAudit writes entries of a year up to now, of a hundred organizations.
func fillAudit(tb testing.TB, url string, entries int) {
	tb.Helper()
	execSQL(tb, url, `INSERT INTO audit (at, org_id, actor, action, target, address, request, detail)
		SELECT now() - make_interval(secs => 31536000.0::float8 * n / $1::integer), md5((n % 100)::text)::uuid, 'user:' || n % 1000 || '@example.test',
			(ARRAY['token.create', 'token.delete', 'stream.update', 'session.create'])[1 + n % 4], 'target-' || n, '192.0.2.7', md5(n::text), '{"name":"something"}'
		FROM generate_series(1, $1::integer) AS n`, entries)
	execSQL(tb, url, "VACUUM ANALYZE audit")
}

// deleted writes the audit entry of an organization that was deleted some time ago.
func deleted(tb testing.TB, s *store.Store, org millstream.OrgID, ago time.Duration, outcome string) {
	tb.Helper()
	check(tb, s.Record(ctx, auth.Entry{At: time.Now().Add(-ago), Org: org, Actor: "system", Action: "organization.delete", Outcome: outcome}))
}

// auditReads is how often the audit log was scanned, and how many of its entries that took, as sessions that have ended say.
func auditReads(t *testing.T, url string) (scans, entries int64) {
	t.Helper()
	conn, err := pgx.Connect(ctx, url)
	check(t, err)
	defer func() { check(t, conn.Close(ctx)) }()
	check(t, conn.QueryRow(ctx, "SELECT seq_scan + idx_scan, seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables WHERE relname = 'audit'").Scan(&scans, &entries))
	return scans, entries
}

// TestDeletedOrganizations: those of the last days, and to find them costs nothing for what else was ever recorded.
func TestDeletedOrganizations(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	s := storetest.Open(t, url)
	fillAudit(t, url, 20_000)
	gone := millstream.OrgID(uuid.NewString())
	deleted(t, s, gone, 6*24*time.Hour, auth.OK)
	deleted(t, s, gone, time.Hour, auth.OK) // a repeated entry
	deleted(t, s, millstream.OrgID(uuid.NewString()), 8*24*time.Hour, auth.OK)
	deleted(t, s, millstream.OrgID(uuid.NewString()), time.Hour, auth.Refused)
	deleted(t, s, storetest.Org(t, s), time.Hour, auth.OK) // a database that went back to before
	s.Close()
	scans, entries := auditReads(t, url)

	s = storetest.Open(t, url)
	got := must(s.DeletedOrganizations(ctx, 7*24*time.Hour))(t)
	s.Close()
	if len(got) != 1 || got[0] != string(gone) {
		t.Fatalf("deleted are %v, want %s", got, gone)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) { // until the server has counted it
		n, read := auditReads(t, url)
		if n > scans {
			if read -= entries; read > 10 {
				t.Fatalf("%d entries were read to find one organization", read)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("no scan of the audit log is counted")
		}
	}
}

// BenchmarkDeletedOrganizations among a million audit entries.
func BenchmarkDeletedOrganizations(b *testing.B) {
	url := storetest.URL(b)
	s := storetest.Open(b, url)
	fillAudit(b, url, 1_000_000)
	for range 3 {
		deleted(b, s, millstream.OrgID(uuid.NewString()), time.Hour, auth.OK)
	}
	for b.Loop() {
		if got := must(s.DeletedOrganizations(ctx, 7*24*time.Hour))(b); len(got) != 3 {
			b.Fatalf("deleted are %v", got)
		}
	}
}
