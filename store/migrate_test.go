package store_test

import (
	"io/fs"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/postgres/pgtest"
	"github.com/millstream/millstream/migrations"
	"github.com/millstream/millstream/store/storetest"
)

func execSQL(t testing.TB, url, sql string, args ...any) {
	t.Helper()
	conn, err := pgx.Connect(ctx, url)
	check(t, err)
	defer func() { check(t, conn.Close(ctx)) }()
	_, err = conn.Exec(ctx, sql, args...)
	check(t, err)
}

func TestMigrateUpAndDown(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, pgtest.URL(t))
	version := func(want uint) {
		t.Helper()
		has, knows, err := s.SchemaVersion(ctx)
		check(t, err)
		if has != want || knows < 2 {
			t.Fatalf("version %d of %d, want %d", has, knows, want)
		}
	}
	version(0)
	check(t, s.Migrate(ctx))
	_, newest, err := s.SchemaVersion(ctx)
	check(t, err)
	version(newest)
	check(t, s.Migrate(ctx))
	steps := versions(t)
	for i := len(steps) - 1; i > 0; i-- { // every step down and up again
		below, v := steps[i-1], steps[i]
		check(t, s.MigrateTo(ctx, below))
		version(below)
		check(t, s.MigrateTo(ctx, v))
		check(t, s.MigrateTo(ctx, below))
	}
	check(t, s.Migrate(ctx))
	version(newest)
	worldOf(t, s) // and it works
}

// versions are those of the migrations in rising order, after 0 for none.
func versions(t *testing.T) []uint {
	t.Helper()
	names, err := fs.Glob(migrations.FS, "*.up.sql")
	check(t, err)
	out := []uint{0}
	for _, name := range names {
		number, _, _ := strings.Cut(name, "_")
		v, err := strconv.ParseUint(number, 10, 32)
		check(t, err)
		out = append(out, uint(v))
	}
	return out
}

func TestMigrateTogether(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	var wg sync.WaitGroup
	for range 4 {
		s := storetest.Open(t, url)
		wg.Add(1)
		go func() {
			defer wg.Done()
			if err := s.Migrate(ctx); err != nil {
				t.Error(err)
			}
		}()
	}
	wg.Wait()
}

func TestMigrateRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ sql, says string }{
		"a newer schema":           {"UPDATE millstream_schema SET version = 999", "newer program"},
		"a half migrated schema":   {"UPDATE millstream_schema SET dirty = true", "half way"},
		"another program's tables": {"DROP TABLE millstream_schema", "something else"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := storetest.URL(t)
			execSQL(t, url, c.sql)
			err := storetest.Open(t, url).Migrate(ctx)
			wantKind(t, err, millstream.Conflict)
			if !strings.Contains(err.Error(), c.says) {
				t.Fatalf("the refusal does not say what to do: %v", err)
			}
		})
	}
}

// A step that fails, as one that is interrupted, changes nothing, and the next start tries it again.
func TestMigrateAfterAFailedStep(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s := storetest.Open(t, url)
	check(t, s.MigrateTo(ctx, 1))
	execSQL(t, url, "CREATE TABLE batch_owner (in_the_way int)")
	if err := s.Migrate(ctx); err == nil {
		t.Fatal("the step did not fail")
	}
	has, _, err := s.SchemaVersion(ctx)
	check(t, err)
	if has != 1 {
		t.Fatalf("version %d, want 1", has)
	}
	execSQL(t, url, "DROP TABLE batch_owner")
	check(t, s.Migrate(ctx))
	worldOf(t, s)
}
