package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	driver "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/migrations"
	"github.com/millstream/millstream/store/db"
)

const (
	schemaTable     = "millstream_schema"
	migrateLockWait = 2 * time.Minute // another node that starts may be migrating
)

// Migrate brings the schema up to this version, under an advisory lock so that nodes that start together take turns. A schema that is newer, half migrated or
// another application's is refused with what to do, and nothing is changed.
func (s *Store) Migrate(ctx context.Context) error {
	if err := s.Ping(ctx); err != nil {
		return err
	}
	if err := s.refuseForeign(ctx); err != nil { // before anything is written, also the table of versions
		return err
	}
	return s.withMigrations(ctx, func(m *migrate.Migrate, newest uint) error {
		if err := refuseVersion(m, newest); err != nil {
			return err
		}
		stop := context.AfterFunc(ctx, func() { m.GracefulStop <- true })
		defer stop()
		if err := m.Up(); err != nil && !errors.Is(err, migrate.ErrNoChange) {
			return fail(err, "migrate the database")
		}
		return ctx.Err()
	})
}

// MigrateTo moves the schema to a version, up or down; 0 removes everything that Millstream keeps in the database.
func (s *Store) MigrateTo(ctx context.Context, version uint) error {
	if err := s.Ping(ctx); err != nil {
		return err
	}
	return s.withMigrations(ctx, func(m *migrate.Migrate, newest uint) error {
		if err := refuseVersion(m, newest); err != nil {
			return err
		}
		err := m.Migrate(version)
		if version == 0 {
			err = m.Down()
		}
		if errors.Is(err, migrate.ErrNoChange) {
			return nil
		}
		return fail(err, "migrate the database to version %d", version)
	})
}

// SchemaVersion is the version the database has (0: empty) and the newest one that this program knows.
func (s *Store) SchemaVersion(ctx context.Context) (has, knows uint, err error) {
	if err := s.Ping(ctx); err != nil {
		return 0, 0, err
	}
	err = s.withMigrations(ctx, func(m *migrate.Migrate, newest uint) error {
		knows = newest
		has, _, err = m.Version()
		if errors.Is(err, migrate.ErrNilVersion) {
			return nil
		}
		return err
	})
	return has, knows, err
}

// withMigrations runs f alone among all nodes: who starts while another migrates waits, and then finds the work done.
func (s *Store) withMigrations(ctx context.Context, f func(m *migrate.Migrate, newest uint) error) (err error) {
	src, err := iofs.New(migrations.FS, ".")
	if err != nil {
		return fmt.Errorf("read the embedded migrations: %w", err)
	}
	newest := knownSchema()
	// Connections of their own, without the time limits of sessions: a step may take long on much data.
	cfg := s.pool.Config().ConnConfig
	for k := range sessionLimits {
		if strings.HasSuffix(k, "_timeout") {
			delete(cfg.RuntimeParams, k)
		}
	}
	unlock, err := lockSchema(ctx, cfg)
	if err != nil {
		return fail(err, "wait for another node's migration")
	}
	defer unlock()
	conns := stdlib.OpenDB(*cfg)
	d, err := driver.WithInstance(conns, &driver.Config{MigrationsTable: schemaTable})
	if err != nil {
		return fail(errors.Join(err, conns.Close()), "prepare the migrations")
	}
	m, err := migrate.NewWithInstance("embedded", src, "database", &atomicDriver{Driver: d, conns: conns})
	if err != nil {
		return errors.Join(fmt.Errorf("prepare the migrations: %w", err), d.Close())
	}
	err = f(m, newest)
	srcErr, dbErr := m.Close()
	return errors.Join(err, srcErr, dbErr)
}

// lockSchema waits for the right to look at and change the schema, and returns how to give it up.
func lockSchema(ctx context.Context, cfg *pgx.ConnConfig) (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, migrateLockWait)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	unlock = func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = conn.Close(end) // the lock goes with the session, however it ends
	}
	if err := db.New(conn).LockSchema(ctx); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// atomicDriver runs a step and the note of its version in one transaction. The driver it wraps notes the version in transactions of their own before and after
// the step, so that a node killed in between would leave a database that refuses every further start.
type atomicDriver struct {
	database.Driver
	conns *sql.DB
	next  int  // the version that the coming step leads to
	noted bool // by the step itself
}

// SetVersion is called before a step (dirty) and after it.
func (d *atomicDriver) SetVersion(version int, dirty bool) error {
	switch {
	case dirty:
		d.next, d.noted = version, false
		return nil
	case d.noted && version == d.next:
		return nil
	}
	return d.Driver.SetVersion(version, dirty)
}

// Run runs a step.
func (d *atomicDriver) Run(step io.Reader) (err error) {
	text, err := io.ReadAll(step)
	if err != nil {
		return err
	}
	tx, err := d.conns.Begin()
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after the commit it does nothing
	note := fmt.Sprintf("\n;TRUNCATE %s; INSERT INTO %s (version, dirty) SELECT %d, false WHERE %d >= 0;", schemaTable, schemaTable, d.next, d.next)
	if _, err := tx.Exec(string(text) + note); err != nil {
		return err
	}
	d.noted = true
	return tx.Commit()
}

// knownSchema is the newest version of the schema that this program knows.
var knownSchema = sync.OnceValue(func() uint {
	src, err := iofs.New(migrations.FS, ".")
	if err != nil {
		panic(err) // they are embedded
	}
	v, err := src.First()
	if err != nil {
		panic(err)
	}
	for {
		next, err := src.Next(v)
		if err != nil {
			return v // the source reports its end as a path error
		}
		v = next
	}
})

func refuseVersion(m *migrate.Migrate, newest uint) error {
	has, dirty, err := m.Version()
	switch {
	case errors.Is(err, migrate.ErrNilVersion):
		return nil
	case err != nil:
		return fail(err, "read the version of the database's schema")
	case dirty:
		return millstream.Errorf(millstream.Conflict, "the database's schema is half way to version %d: a migration failed there; restore the database from a backup, or repair it and set dirty to false in table %s", has, schemaTable)
	case has > newest:
		return millstream.Errorf(millstream.Conflict, "the database's schema has version %d, this program knows versions up to %d: start the newer program that migrated it, or restore a backup from before", has, newest)
	}
	return nil
}

// refuseForeign refuses a database that holds tables but no schema of ours.
func (s *Store) refuseForeign(ctx context.Context) error {
	n, err := read(ctx, func(ctx context.Context) (int64, error) { return s.q.ForeignTables(ctx, schemaTable) })
	if err != nil {
		return fail(err, "look at the database's tables")
	}
	if n > 0 {
		return millstream.Errorf(millstream.Conflict, "the database holds %d tables of something else and nothing of Millstream: give [database].url an empty database of its own (createdb millstream)", n)
	}
	return nil
}
