package store_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/store"
	"github.com/millstream/millstream/store/storetest"
)

var ctx = context.Background()

// world is a store with one organization, one started node and one WAL that the node holds.
type world struct {
	*store.Store
	t    testing.TB
	org  millstream.OrgID
	node millstream.Member
	wal  millstream.WALID
}

func newWorld(t testing.TB) *world { return worldOf(t, storetest.New(t)) }

func worldOf(t testing.TB, s *store.Store) *world {
	t.Helper()
	w := &world{Store: s, t: t, org: storetest.Org(t, s), wal: millstream.WALID(uuid.NewString())}
	w.node = millstream.Member{ID: millstream.NodeID("node-" + string(w.wal[:8])), Addr: "127.0.0.1:1", Roles: []string{"standalone"}, MilliCPU: 2000, Version: "test"}
	w.start()
	w.take(w.claim())
	return w
}

func (w *world) start() {
	w.t.Helper()
	w.node.Incarnation = must(w.StartNode(ctx, w.node))(w.t)
}

func (w *world) claim() store.WALTake {
	return store.WALTake{ID: w.wal, Node: w.node.ID, Incarnation: w.node.Incarnation, Addr: w.node.Addr, Identity: "8:1"}
}

func (w *world) take(c store.WALTake) millstream.LSN {
	w.t.Helper()
	return must(w.TakeWAL(ctx, c))(w.t)
}

func (w *world) stream(name string) store.Stream {
	w.t.Helper()
	return must(w.EnsureStream(ctx, millstream.StreamKey{Org: w.org, Signal: millstream.Logs, Name: name}))(w.t)
}

// flush is the range (from, to] with one segment a stream, whose ids follow from the range as the write path makes them.
func (w *world) flush(from, to millstream.LSN, streams ...store.Stream) millstream.Flush {
	f := millstream.Flush{WAL: w.wal, Node: w.node.ID, Incarnation: w.node.Incarnation, From: from, To: to, Checksum: fmt.Sprintf("sum-%d-%d", from, to)}
	for _, st := range streams {
		f.Segments = append(f.Segments, segment(w.wal, from, to, st, "attempt-1"))
	}
	return f
}

func segment(wal millstream.WALID, from, to millstream.LSN, st store.Stream, attempt string) millstream.Segment {
	id := uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "%s/%d/%d/%s", wal, from, to, st.ID)).String()
	return millstream.Segment{
		ID: millstream.SegmentID(id), Org: st.Key.Org, Stream: st.ID, Signal: st.Key.Signal, MinTime: int64(from), MaxTime: int64(to), Rows: int64(to - from), SchemaVersion: 1,
		Data:  millstream.Extent{Key: "data/" + id + "/" + attempt, Length: 1000, Checksum: "d"},
		Index: millstream.Extent{Key: "index/" + id + "/" + attempt, Offset: 7, Length: 100, Checksum: "i"},
		WAL:   wal, From: from, To: to,
	}
}

func (w *world) publish(f millstream.Flush, want store.Outcome) millstream.LSN {
	w.t.Helper()
	got, position, err := w.Publish(ctx, f)
	if err != nil {
		w.t.Fatalf("publish (%d, %d]: %v", f.From, f.To, err)
	}
	if got != want {
		w.t.Fatalf("publish (%d, %d]: %v, want %v", f.From, f.To, got, want)
	}
	return position
}

func (w *world) live(st store.Stream) []millstream.Segment {
	w.t.Helper()
	all := must(w.StreamSegments(ctx, st.ID))(w.t)
	for i := range all {
		if age := time.Since(time.Unix(0, all[i].Written)); age < -time.Minute || age > time.Hour {
			w.t.Fatalf("segment %s was written %s ago", all[i].ID, age)
		}
		all[i].Written = 0
	}
	return all
}

func (w *world) entry(action string) auth.Entry {
	return auth.Entry{Actor: "user:a@example.test", Action: action, Org: w.org, At: time.Now()}
}

// must is for calls that a test relies on: must(f())(t).
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantKind checks the kind of an error.
func wantKind(t testing.TB, err error, want millstream.Kind) {
	t.Helper()
	if err == nil || millstream.KindOf(err) != want {
		t.Fatalf("got error %v of kind %d, want kind %d", err, millstream.KindOf(err), want)
	}
}

func TestCollector(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	r := prometheus.NewPedanticRegistry()
	check(t, r.Register(s.Collector()))
	families, err := r.Gather()
	check(t, err)
	if len(families) != 7 {
		t.Fatalf("%d families, want 7", len(families))
	}
}
