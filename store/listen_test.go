package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/internal/postgres/pgtest"
	"github.com/millstream/millstream/store"
	"github.com/millstream/millstream/store/storetest"
)

type message struct{ channel, payload string }

// listen passes announcements on; it returns once the store listens.
func listen(t *testing.T, s *store.Store) <-chan message {
	t.Helper()
	end, stop := context.WithCancel(ctx)
	heard, done := make(chan message, 1000), make(chan error, 1)
	go func() { done <- s.Listen(end, func(c, p string) { heard <- message{c, p} }) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("listen ended with %v", err)
		}
	})
	for range 4 {
		await(t, heard, func(m message) bool { return m.payload == "" })
	}
	return heard
}

func await(t *testing.T, heard <-chan message, want func(message) bool) {
	t.Helper()
	late := time.After(time.Minute)
	for {
		select {
		case m := <-heard:
			if want(m) {
				return
			}
		case <-late:
			t.Fatal("an announcement did not come")
		}
	}
}

func TestListen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	heard := listen(t, w.Store)
	app := w.stream("app")
	await(t, heard, func(m message) bool { return m == message{store.ChannelStreams, string(app.ID)} })
	w.publish(w.flush(0, 1, app), store.Published)
	await(t, heard, func(m message) bool { return m == message{store.ChannelSegments, string(w.org)} })
	w.start()
	await(t, heard, func(m message) bool { return m == message{store.ChannelNodes, string(w.node.ID)} })
	check(t, w.CreateOrganization(ctx, organization("other"), must(w.Members(ctx, w.org))(t)[0].ID, w.entry("organization.create")))
	await(t, heard, func(m message) bool { return m == message{store.ChannelAuth, string(w.org)} })
}

// A flush of many organizations is announced in pieces that fit a notification.
func TestListenManyOrganizations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	owner := must(w.Members(ctx, w.org))(t)[0].ID
	want := map[string]bool{}
	var streams []store.Stream
	for i := range 450 {
		o := organization(fmt.Sprint("o", i))
		check(t, w.CreateOrganization(ctx, o, owner, auth.Entry{Action: "organization.create"}))
		streams = append(streams, must(w.EnsureStream(ctx, millstream.StreamKey{Org: o.ID, Signal: millstream.Logs, Name: "app"}))(t))
		want[string(o.ID)] = true
	}
	heard := listen(t, w.Store)
	w.publish(w.flush(0, 1, streams...), store.Published)
	await(t, heard, func(m message) bool {
		for _, id := range strings.Split(m.payload, ",") {
			delete(want, id)
		}
		return len(want) == 0
	})
}

func TestListenReconnects(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	s := storetest.Open(t, server.URL())
	check(t, s.Migrate(ctx))
	heard := listen(t, s)
	crash(t, server)
	for range 4 { // anything may have changed meanwhile
		await(t, heard, func(m message) bool { return m.payload == "" })
	}
	w := worldOf(t, s)
	await(t, heard, func(m message) bool { return m == message{store.ChannelNodes, string(w.node.ID)} })
}

func TestSweep(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	w := worldOf(t, storetest.Open(t, url))
	w.publish(w.flush(0, 1, w.stream("app")), store.Published)
	must(w.Pin(ctx, pin(w.org, "key", 1, "a")))(t)
	user := must(w.Members(ctx, w.org))(t)[0].ID
	check(t, w.CreateSession(ctx, auth.Session{ID: "s", User: user, Hash: hash("r"), ExpiresAt: time.Now().Add(time.Hour)}, w.entry("session.create")))
	if n := must(w.Sweep(ctx))(t); n != 0 {
		t.Fatalf("%d rows in use were deleted", n)
	}
	execSQL(t, url, `UPDATE nodes SET heartbeat_at = now() - interval '6 min'`)
	execSQL(t, url, `UPDATE batch_owner SET pinned_at = now() - interval '16 min'`)
	execSQL(t, url, `UPDATE wal_ranges SET published_at = now() - interval '4 days'`)
	execSQL(t, url, `UPDATE sessions SET expires_at = now() - interval '2 days'`)
	execSQL(t, url, `INSERT INTO invites SELECT decode(repeat('ab', 32), 'hex'), id, now() - interval '1 s' FROM users`)
	execSQL(t, url, `INSERT INTO jwt_keys VALUES ('k', 'x', now(), now() - interval '2 h')`)
	if n := must(w.Sweep(ctx))(t); n != 6 {
		t.Fatalf("%d rows were deleted, want 6", n)
	}
	if _, _, err := w.Publish(ctx, w.flush(0, 1)); !errors.Is(err, store.ErrMismatch) {
		t.Fatalf("a range nobody remembers: got %v, want ErrMismatch", err)
	}
}
