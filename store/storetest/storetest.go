// Package storetest gives tests of other packages a migrated store in a database of their own.
package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/internal/postgres/pgtest"
	"github.com/millstream/millstream/store"
)

// New is an empty, migrated store, which is closed with the test.
func New(tb testing.TB) *store.Store {
	tb.Helper()
	return Open(tb, URL(tb))
}

// URL is the URL of a new database with the schema in it.
func URL(tb testing.TB) string {
	tb.Helper()
	return pgtest.Clone(tb, "millstream", Migrate)
}

// Migrate makes the schema in an empty database.
func Migrate(ctx context.Context, url string) error {
	s, err := store.Open(ctx, url, 2)
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Migrate(ctx)
}

// Open opens a store that is closed with the test.
func Open(tb testing.TB, url string) *store.Store {
	tb.Helper()
	s, err := store.Open(context.Background(), url, 8)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Close)
	return s
}

// Org is a new organization with an owner.
func Org(tb testing.TB, s *store.Store) millstream.OrgID {
	tb.Helper()
	id := uuid.NewString()
	o := auth.Organization{ID: millstream.OrgID(id), Slug: "org-" + id[:8], Name: "Test", CreatedAt: time.Now()}
	u := auth.User{ID: uuid.NewString(), Email: id[:8] + "@example.test", Password: "x", CreatedAt: time.Now()}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := create(ctx, s, u, o); err != nil {
		tb.Fatal(err)
	}
	return o.ID
}

// create makes the first organization by the setup, a further one through the first one's owner.
func create(ctx context.Context, s *store.Store, u auth.User, o auth.Organization) error {
	a := auth.Entry{Actor: "system", Action: "organization.create", Org: o.ID}
	err := s.Setup(ctx, nil, u, o, a)
	if millstream.KindOf(err) != millstream.Conflict {
		return err
	}
	all, err := s.Organizations(ctx, "")
	if err != nil {
		return err
	}
	members, err := s.Members(ctx, all[0].ID)
	if err != nil {
		return err
	}
	if len(members) == 0 {
		return errors.New("the first organization has no member")
	}
	return s.CreateOrganization(ctx, o, members[0].ID, a)
}
