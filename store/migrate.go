package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/golang-migrate/migrate/v4"
	driver "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/golang-migrate/migrate/v4/source"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/migrations"
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
	if err := s.refuseForeign(ctx); err != nil {
		return err
	}
	return s.withMigrations(func(m *migrate.Migrate, newest uint) error {
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
	return s.withMigrations(func(m *migrate.Migrate, newest uint) error {
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
	err = s.withMigrations(func(m *migrate.Migrate, newest uint) error {
		knows = newest
		has, _, err = m.Version()
		if errors.Is(err, migrate.ErrNilVersion) {
			return nil
		}
		return err
	})
	return has, knows, err
}

func (s *Store) withMigrations(f func(m *migrate.Migrate, newest uint) error) error {
	src, err := iofs.New(migrations.FS, ".")
	if err != nil {
		return fmt.Errorf("read the embedded migrations: %w", err)
	}
	newest, err := newestOf(src)
	if err != nil {
		return fmt.Errorf("read the embedded migrations: %w", err)
	}
	// A connection of its own, without the time limits of sessions: a step may take long on much data.
	cfg := s.pool.Config().ConnConfig
	delete(cfg.RuntimeParams, "statement_timeout")
	delete(cfg.RuntimeParams, "lock_timeout")
	delete(cfg.RuntimeParams, "idle_in_transaction_session_timeout")
	d, err := driver.WithInstance(stdlib.OpenDB(*cfg), &driver.Config{MigrationsTable: schemaTable})
	if err != nil {
		return fail(err, "prepare the migrations")
	}
	m, err := migrate.NewWithInstance("embedded", src, "database", d)
	if err != nil {
		return errors.Join(fmt.Errorf("prepare the migrations: %w", err), d.Close())
	}
	m.LockTimeout = migrateLockWait
	err = f(m, newest)
	srcErr, dbErr := m.Close()
	return errors.Join(err, srcErr, dbErr)
}

func newestOf(src source.Driver) (uint, error) {
	v, err := src.First()
	if err != nil {
		return 0, err
	}
	for {
		next, err := src.Next(v)
		if err != nil {
			return v, nil // the source reports its end as a path error
		}
		v = next
	}
}

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
