// Package store is everything Millstream keeps in PostgreSQL: nodes, WALs, streams, segments, people and their rights. Rows never leave it; SQL lives in
// queries/*.sql. Each rule of the publish protocol is one transaction here.
package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/store/db"
)

var _ auth.Store = (*Store)(nil)

// Store is a pool of connections to one database. It is safe for concurrent use.
type Store struct {
	pool     *pgxpool.Pool
	q        *db.Queries
	pins     pinGroup
	schemas  schemaCache
	sealed   manifestCache
	unsealed atomic.Int64                           // segments, since the process began
	reads    struct{ fetched, cached atomic.Int64 } // of manifests
}

// Limits that PostgreSQL itself enforces on our sessions, so that a node that hangs never holds the locks of others.
var sessionLimits = map[string]string{
	"application_name":                    "millstream",
	"statement_timeout":                   "30s",
	"lock_timeout":                        "5s",
	"idle_in_transaction_session_timeout": "10s",
	"timezone":                            "UTC",
}

// Open prepares a pool of at most maxConns connections; it connects when first used. Call Migrate before anything else.
func Open(ctx context.Context, url string, maxConns int32) (*Store, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, millstream.Wrap(millstream.Invalid, err, "[database].url is not a PostgreSQL URL: use postgres://user:password@host:5432/database")
	}
	if maxConns > 0 {
		cfg.MaxConns = maxConns
	}
	for k, v := range sessionLimits {
		if _, set := cfg.ConnConfig.RuntimeParams[k]; !set {
			cfg.ConnConfig.RuntimeParams[k] = v
		}
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fail(err, "open the database")
	}
	return &Store{pool: pool, q: db.New(pool)}, nil
}

// Close waits for connections in use and closes the pool.
func (s *Store) Close() { s.pool.Close() }

// Ping answers whether the database can be reached.
func (s *Store) Ping(ctx context.Context) error { return fail(s.pool.Ping(ctx), "reach the database") }

// tx runs f in one transaction (read committed). An error of f rolls back and is returned as it is. A connection that was lost before the transaction began is
// replaced; once f ran, an error of the connection leaves the outcome unknown and is the caller's to repeat.
func (s *Store) tx(ctx context.Context, f func(q *db.Queries) error) error {
	tx, err := read(ctx, s.pool.Begin)
	if err != nil {
		return err
	}
	// After the commit it does nothing. When it fails, the connection is closed, which rolls back as well, and f's error tells more.
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if err := f(s.q.WithTx(tx)); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// readPauses are the waits between tries of a read: together longer than a restart of the embedded server.
var readPauses = [...]time.Duration{20 * time.Millisecond, 100 * time.Millisecond, 300 * time.Millisecond, 600 * time.Millisecond, 1200 * time.Millisecond}

// read runs a query that changes nothing, again when the connection was lost: a restart of the server breaks every pooled connection once.
func read[T any](ctx context.Context, f func(ctx context.Context) (T, error)) (T, error) {
	for _, pause := range readPauses {
		out, err := f(ctx)
		if err == nil || !unreachable(err) || ctx.Err() != nil {
			return out, err
		}
		select {
		case <-ctx.Done():
			return out, err
		case <-time.After(pause):
		}
	}
	return f(ctx)
}

// fail classifies an error of the database; what was tried goes into the message. Errors that have a kind already stay as they are.
func fail(err error, format string, args ...any) error {
	var known *millstream.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	what := fmt.Sprintf(format, args...)
	var pg *pgconn.PgError
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: %w", what, err)
	case errors.Is(err, pgx.ErrNoRows):
		return millstream.Wrap(millstream.NotFound, err, "%s: not found", what)
	case unreachable(err):
		return millstream.Wrap(millstream.Unavailable, err, "%s: the database cannot be reached", what)
	case errors.As(err, &pg):
		switch pg.Code {
		case "23505": // unique_violation
			return millstream.Wrap(millstream.Conflict, err, "%s: it exists already", what)
		case "22P02": // invalid_text_representation: an id that is no UUID names nothing
			return millstream.Wrap(millstream.NotFound, err, "%s: not found", what)
		case "23503": // foreign_key_violation
			return millstream.Wrap(millstream.NotFound, err, "%s: what it belongs to is gone", what)
		case "22021", "23514": // character_not_in_repertoire, check_violation
			return millstream.Wrap(millstream.Invalid, err, "%s: a value is not allowed", what)
		case "55P03", "57014", "40P01", "40001": // lock_timeout, statement_timeout, deadlock, serialization
			return millstream.Wrap(millstream.Unavailable, err, "%s: the database is busy", what)
		}
	}
	return fmt.Errorf("%s: %w", what, err)
}

// unreachable says whether the error is about the connection, not about the statement.
func unreachable(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch pg.Code {
		case "57P01", "57P02", "57P03", "53300": // shutdowns, starting up, too many connections
			return true
		}
		return pg.Code[:2] == "08"
	}
	var connect *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connect) || errors.As(err, &network) && !errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, pgconn.ErrConnClosed) || pgconn.SafeToRetry(err)
}

// findable makes a value that PostgreSQL cannot hold (a NUL, invalid UTF-8) what it is to a look-up: something that does not exist.
func findable(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "22021" {
		return pgx.ErrNoRows
	}
	return err
}

// oneRow turns a change that met no row into ErrNoRows.
func oneRow(n int64, err error) error {
	if err == nil && n == 0 {
		return pgx.ErrNoRows
	}
	return err
}
