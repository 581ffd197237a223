package store_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/store"
)

func TestTakeWAL(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	app := w.stream("app")
	w.publish(w.flush(0, 100, app), store.Published)

	claim := func(change func(c *store.WALTake)) store.WALTake {
		c := w.claim()
		c.First, c.Last = 1, 120
		change(&c)
		return c
	}
	for name, c := range map[string]struct {
		claim store.WALTake
		why   error
	}{
		"another directory":                     {claim(func(c *store.WALTake) { c.Identity = "8:2" }), store.ErrIdentity},
		"frames below the position are lost":    {claim(func(c *store.WALTake) { c.Last = 99 }), store.ErrShort},
		"everything is lost":                    {claim(func(c *store.WALTake) { c.First, c.Last = 0, 0 }), store.ErrShort},
		"frames above the position are lost":    {claim(func(c *store.WALTake) { c.First = 102 }), store.ErrMissing},
		"a WAL the database has not, cut below": {claim(func(c *store.WALTake) { c.ID, c.First = millstream.WALID(uuid.NewString()), 50 }), store.ErrMissing},
		"an incarnation above the database's":   {claim(func(c *store.WALTake) { c.Incarnation++ }), store.ErrForgotten},
		"an incarnation below the database's":   {claim(func(c *store.WALTake) { c.Incarnation-- }), store.ErrFenced},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.TakeWAL(ctx, c.claim)
			if !errors.Is(err, c.why) {
				t.Fatalf("got %v, want %v", err, c.why)
			}
		})
	}
	for name, c := range map[string]store.WALTake{
		"with unpublished frames":             claim(func(c *store.WALTake) {}),
		"with the published files gone":       claim(func(c *store.WALTake) { c.First = 101 }),
		"with everything published and gone":  claim(func(c *store.WALTake) { c.First, c.Last = 101, 100 }),
		"by another node on the same machine": claim(func(c *store.WALTake) { c.Node, c.Incarnation = w.other() }),
	} {
		t.Run(name, func(t *testing.T) {
			if at := w.take(c); at != 100 {
				t.Fatalf("position %d, want 100", at)
			}
		})
	}
}

// other starts another node.
func (w *world) other() (millstream.NodeID, int64) {
	w.t.Helper()
	return "other", must(w.StartNode(ctx, millstream.Member{ID: "other"}))(w.t)
}

func TestTakenWALFencesItsFormerHolder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.claim()
	c.Node, c.Incarnation = w.other()
	w.take(c)
	if _, _, err := w.Publish(ctx, w.flush(0, 1, w.stream("app"))); !errors.Is(err, store.ErrFenced) {
		t.Fatalf("got %v, want ErrFenced", err)
	}
}

func TestAdoptAndDiscardWAL(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.publish(w.flush(0, 100, w.stream("app")), store.Published)
	copied := w.claim()
	copied.Identity, copied.First, copied.Last = "9:9", 1, 80
	if _, err := w.TakeWAL(ctx, copied); !errors.Is(err, store.ErrIdentity) {
		t.Fatalf("got %v, want ErrIdentity", err)
	}
	check(t, w.AdoptWAL(ctx, w.wal))
	if at := w.take(copied); at != 100 {
		t.Fatalf("position %d, want 100", at)
	}
	copied.Last = 100
	w.take(copied) // it is the registered directory now
	if _, err := w.TakeWAL(ctx, w.claim()); !errors.Is(err, store.ErrIdentity) {
		t.Fatalf("the former directory: got %v, want ErrIdentity", err)
	}

	if list := must(w.WALs(ctx))(t); len(list) != 1 || list[0].ID != w.wal || list[0].Position != 100 || list[0].LastPublish.IsZero() {
		t.Fatalf("WALs %+v", list)
	}

	check(t, w.DiscardWAL(ctx, w.wal))
	if _, err := w.TakeWAL(ctx, copied); !errors.Is(err, store.ErrDiscarded) {
		t.Fatalf("got %v, want ErrDiscarded", err)
	}
	if _, _, err := w.Publish(ctx, w.flush(100, 101)); !errors.Is(err, store.ErrFenced) {
		t.Fatalf("got %v, want ErrFenced", err)
	}
	if list := must(w.WALs(ctx))(t); len(list) != 0 {
		t.Fatalf("WALs %+v after the discard", list)
	}
	if n := len(must(w.Snapshot(ctx, w.org, nil, millstream.TimeRange{}))(t).WALs); n != 0 {
		t.Fatalf("a snapshot waits for %d WALs, want 0", n)
	}
	wantKind(t, w.AdoptWAL(ctx, millstream.WALID(uuid.NewString())), millstream.NotFound)
	if err := w.AdoptWAL(ctx, "nonsense"); millstream.Message(err) != `there is no WAL "nonsense"` {
		t.Fatalf("got %v", err)
	}
	if _, err := w.Stream(ctx, millstream.StreamKey{Org: w.org, Signal: millstream.Logs, Name: "nope"}); millstream.Message(err) != `there is no stream "nope" of signal logs` {
		t.Fatalf("got %v", err)
	}
}

// A node that starts has no row until it is ready, also not that of its former life.
func TestANodeHasItsRowWhenItIsReady(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	old := w.node
	w.node.Draining = true
	w.start()
	if list := must(w.Nodes(ctx, time.Minute))(t); len(list) != 0 {
		t.Fatalf("listed: %v", list)
	}
	w.node.Draining = false
	at := must(w.EnterNode(ctx, w.node))(t)
	must(w.EnterNode(ctx, old))(t) // the former process, which is fenced
	list := must(w.Nodes(ctx, time.Minute))(t)
	if len(list) != 1 || list[0].Incarnation != w.node.Incarnation || !list[0].HeartbeatAt.Equal(at) {
		t.Errorf("listed %v, entered at %s", list, at)
	}
}

func TestNodes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	app := w.stream("app")
	w.publish(w.flush(0, 7, app), store.Published)
	unknown := millstream.WALID(uuid.NewString())
	beat := func(m millstream.Member) store.Beat {
		t.Helper()
		return must(w.Heartbeat(ctx, m, []millstream.WALID{w.wal, unknown}))(t)
	}
	b := beat(w.node)
	if b.Fenced || b.Forgotten || b.SystemID == "" || time.Since(b.Now).Abs() > time.Minute {
		t.Fatalf("beat %+v", b)
	}
	if _, known := b.Positions[unknown]; b.Positions[w.wal] != 7 || known || len(b.Positions) != 1 {
		t.Fatalf("positions %v", b.Positions)
	}
	if again := beat(w.node); again.SystemID != b.SystemID {
		t.Fatalf("the database's name changed from %s to %s", b.SystemID, again.SystemID)
	}
	list := must(w.Nodes(ctx, time.Minute))(t)
	if len(list) != 1 || list[0].ID != w.node.ID || list[0].Addr != w.node.Addr || list[0].Incarnation != w.node.Incarnation || list[0].MilliCPU != 2000 || list[0].WAL != w.wal {
		t.Fatalf("nodes %+v", list)
	}
	if age := list[0].HeartbeatAge; age <= 0 || age > 10*time.Second {
		t.Fatalf("the heartbeat was %v ago", age)
	}

	old := w.node
	w.start()
	if b := beat(old); !b.Fenced || b.Written {
		t.Fatalf("the former incarnation is not fenced: %+v", b)
	}
	if list := must(w.Nodes(ctx, time.Minute))(t); list[0].WAL != "" {
		t.Fatalf("the WAL of the former incarnation is said to be the new one's: %+v", list)
	}
	check(t, w.RemoveNode(ctx, old.ID, old.Incarnation))
	if n := len(must(w.Nodes(ctx, time.Minute))(t)); n != 1 {
		t.Fatalf("the former incarnation removed the new one's row: %d nodes", n)
	}
	check(t, w.RemoveNode(ctx, w.node.ID, w.node.Incarnation))
	if n := len(must(w.Nodes(ctx, time.Minute))(t)); n != 0 {
		t.Fatalf("%d nodes after removal", n)
	}
	w.start()
	leaving := w.node
	leaving.Draining = true
	for range 2 {
		if b := beat(leaving); b.Written || b.Fenced {
			t.Fatalf("beat of a draining node: %+v", b)
		}
		if n := len(must(w.Nodes(ctx, time.Minute))(t)); n != 0 {
			t.Fatalf("%d nodes after the heartbeat of a draining one", n)
		}
	}
	before := w.node.Incarnation
	if w.start(); w.node.Incarnation <= before {
		t.Fatalf("incarnation %d after %d: removing a row must not reset it", w.node.Incarnation, before)
	}
}

// The database lost the node and its WAL: what the marker in the object store says brings them back, and the WAL publishes from the start.
func TestRestoreAfterAnOlderDatabase(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lost := w.claim()
	lost.ID, lost.Node, lost.Incarnation = millstream.WALID(uuid.NewString()), "lost", 5
	m := millstream.Member{ID: "lost", Incarnation: 5}
	if b := must(w.Heartbeat(ctx, m, nil))(t); !b.Forgotten || b.Fenced {
		t.Fatalf("beat %+v", b)
	}
	check(t, w.Restore(ctx, lost))
	check(t, w.Restore(ctx, lost))
	if b := must(w.Heartbeat(ctx, m, []millstream.WALID{lost.ID}))(t); b.Forgotten || b.Fenced || b.Positions[lost.ID] != 0 || len(b.Positions) != 1 {
		t.Fatalf("beat %+v", b)
	}
	f := w.flush(0, 3, w.stream("app"))
	f.WAL, f.Node, f.Incarnation = lost.ID, "lost", 5
	w.publish(f, store.Published)
	if next := must(w.StartNode(ctx, millstream.Member{ID: "lost", Incarnation: 9}))(t); next != 10 {
		t.Fatalf("incarnation %d, want 10", next)
	}
}

// The database went back to where the node's earlier start held the WAL, and another node has put this start's incarnation back from its marker. The node has not
// noticed yet and publishes: it is not fenced, for nobody came after it, but must take its WAL again.
func TestPublishAfterAnotherNodeRestored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	now := w.claim()
	now.Incarnation++
	check(t, w.Restore(ctx, now))
	f := w.flush(0, 3, w.stream("app"))
	f.Incarnation = now.Incarnation
	if _, _, err := w.Publish(ctx, f); !errors.Is(err, store.ErrForgotten) || millstream.KindOf(err) != millstream.Unavailable {
		t.Fatalf("got %v, want ErrForgotten", err)
	}
	if at := must(w.TakeWAL(ctx, now))(t); at != 0 {
		t.Fatalf("position %d", at)
	}
	w.publish(f, store.Published)
	f.Incarnation--
	if _, _, err := w.Publish(ctx, f); !errors.Is(err, store.ErrFenced) {
		t.Fatalf("the earlier start publishes: %v, want ErrFenced", err)
	}
}

// The database went back to before the start of a node that has no WAL, and so no marker: its heartbeats bring it back, and it is told once that it was forgotten.
func TestANodeWithoutAWALComesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := millstream.Member{ID: "querier", Addr: "127.0.0.1:1", Incarnation: 5}
	listed := func() bool {
		return slices.ContainsFunc(must(w.Nodes(ctx, time.Minute))(t), func(n millstream.Member) bool { return n.ID == m.ID })
	}
	leaving := m
	leaving.Draining = true
	if b := must(w.Heartbeat(ctx, leaving, nil))(t); !b.Forgotten {
		t.Fatalf("beat %+v", b)
	}
	if b := must(w.Heartbeat(ctx, m, nil))(t); !b.Forgotten || b.Fenced || b.Written || listed() {
		t.Fatalf("beat %+v, listed %v", b, listed())
	}
	if b := must(w.Heartbeat(ctx, m, nil))(t); b.Forgotten || b.Fenced || !b.Written || !listed() {
		t.Fatalf("beat %+v, listed %v", b, listed())
	}
	earlier := m
	earlier.Incarnation--
	if b := must(w.Heartbeat(ctx, earlier, nil))(t); !b.Fenced {
		t.Fatalf("beat of an earlier start: %+v", b)
	}
	if next := must(w.StartNode(ctx, millstream.Member{ID: m.ID, Incarnation: 5}))(t); next != 6 {
		t.Fatalf("incarnation %d, want 6", next)
	}
}
