package query_test

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query"
	"github.com/millstream/millstream/query/cache"
)

// fleet is a coordinating node and others that own segments, over one catalog and one object store.
type fleet struct {
	*node
	others map[millstream.NodeID]*node
	caches map[millstream.NodeID]*cache.Cache
	stores map[millstream.NodeID]*gets // what the others read
	// through, if it has a node, is the way to it; else it is called.
	through map[millstream.NodeID]query.LeafNode
	owners  *query.Owners // of the coordinator; a silent node is waited for for a minute, unless a test is about silence
	// ruin, if set, stands between the coordinator and a node.
	ruin  func(ctx context.Context, to millstream.NodeID, emit func([]byte) error, ask func(emit func([]byte) error) error) error
	asked atomic.Int64
}

// line is the way to one of the others.
type line struct {
	f  *fleet
	to millstream.NodeID
}

func (l line) Leaf(ctx context.Context, ask []byte, emit func([]byte) error) error {
	l.f.asked.Add(1)
	do := func(emit func([]byte) error) error {
		if n := l.f.through[l.to]; n != nil {
			return n.Leaf(ctx, ask, emit)
		}
		return l.f.others[l.to].Leaf(ctx, ask, emit)
	}
	if l.f.ruin != nil {
		return l.f.ruin(ctx, l.to, emit, do)
	}
	return do(emit)
}

var fleetIDs = []millstream.NodeID{"a", "b", "c"} // a coordinates

// owners are the nodes in the order of a segment's name, which is as good as any.
func owners(id millstream.SegmentID) (out []millstream.Member) {
	n := 0
	for _, c := range id {
		n += int(c)
	}
	for i := range fleetIDs {
		out = append(out, millstream.Member{ID: fleetIDs[(n+i)%len(fleetIDs)]})
	}
	return out
}

// reader has segments read by the first in their rank that has not failed.
func reader(rank func(millstream.SegmentID) []millstream.Member) func(millstream.SegmentID, []millstream.NodeID) *millstream.Member {
	return func(id millstream.SegmentID, failed []millstream.NodeID) *millstream.Member {
		for _, m := range rank(id) {
			if !slices.Contains(failed, m.ID) {
				return &m
			}
		}
		return nil
	}
}

func newFleet(t testing.TB, changes ...func(*query.Config)) *fleet {
	t.Helper()
	f := &fleet{others: map[millstream.NodeID]*node{}, caches: map[millstream.NodeID]*cache.Cache{}, stores: map[millstream.NodeID]*gets{}}
	f.node = newNode(t, func(c *query.Config) {
		c.Owners = &query.Owners{Self: "a", Reader: reader(owners), Silence: time.Minute, Dial: func(m millstream.Member) query.LeafNode { return line{f, m.ID} }}
		f.owners = c.Owners
		f.caches["a"] = c.Cache
		for _, change := range changes {
			change(c)
		}
	})
	for _, id := range fleetIDs[1:] {
		f.others[id] = newNode(t, func(c *query.Config) {
			f.stores[id] = &gets{Bucket: f.bucket}
			own, err := cache.Open(cache.Config{Bucket: f.stores[id], Dir: filepath.Join(t.TempDir(), "cache"), Open: query.SegmentOpener()})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = own.Close() })
			c.Cache, f.caches[id] = own, own
		})
	}
	return f
}

// spread makes requests' records many segments, so that every node owns some of each stream.
func (f *fleet) spread() {
	requests(f.node, false)
	all := slices.Clone(f.buffers)
	f.buffers, f.end = nil, 0
	for _, b := range all {
		for i := range b.batch.Times {
			f.append(millstream.Logs, f.nameOf(b.stream), row(b.batch, i))
			f.flush()
		}
	}
}

func (f *fleet) nameOf(id millstream.StreamID) string {
	for _, st := range f.streams {
		if st.ID == id {
			return st.Key.Name
		}
	}
	return ""
}

// row is one record of a batch as a batch, with the types that its own values have.
func row(b *millstream.Batch, i int) *millstream.Batch {
	var pairs []string
	for k := range b.Columns {
		if c := &b.Columns[k]; c.IsValid(i) {
			pairs = append(pairs, c.Name+"="+strings.ReplaceAll(c.Text(i), " ", "_"))
		}
	}
	return lines(b.Times[i], strings.Join(pairs, " "))
}

func (f *fleet) askAll(t *testing.T, what string) {
	t.Helper()
	for _, s := range statements {
		got, answer := f.ask(t, s.sql)
		if answer.Partial || len(answer.Warnings) > 0 {
			t.Errorf("%s: %s: warnings %q, partial %q", what, s.sql, answer.Warnings, answer.Reasons)
		}
		if !s.ordered || !strings.Contains(s.sql, "ORDER BY") {
			slices.Sort(got[1:])
		}
		expect(t, what+": "+s.sql, got, s.want...)
	}
}

func TestOwnersReadTheirSegments(t *testing.T) {
	f := newFleet(t)
	f.spread()
	f.askAll(t, "three nodes")
	for _, s := range f.segments {
		for id, c := range f.caches {
			if own := owners(s.ID)[0].ID == id; c.Has(s) != own {
				t.Errorf("segment %s on node %s: cached %v, owned %v", s.ID, id, c.Has(s), own)
			}
		}
	}
	_, answer := f.ask(t, "SELECT service, count(*) FROM app GROUP BY service")
	s := answer.Stats
	if s.Segments != (query.SegmentStats{Total: 7, Scanned: 7, Cached: 7}) || s.Nodes != 3 || len(s.Parts) != 3 || s.Parts[0].Node != "a" {
		t.Errorf("statistics %+v", s)
	}
	segments := 0
	for _, p := range s.Parts {
		segments += p.Segments
	}
	if segments != 7 {
		t.Errorf("the nodes read %d segments, want 7: %+v", segments, s.Parts)
	}
}

// TestStatisticsSayWhatWasFetched: of a segment of which a part is there, the rest is what a query fetches.
func TestStatisticsSayWhatWasFetched(t *testing.T) {
	f := newFleet(t, func(c *query.Config) {
		c.Owners.Reader = reader(func(millstream.SegmentID) []millstream.Member { return []millstream.Member{{ID: "b"}, {ID: "c"}} })
	})
	f.append(millstream.Logs, "app", requestLogs(epoch, 65536, 1))
	f.flush()
	index, data := f.segments[0].Index.Length, f.segments[0].Data.Length
	ask := func(statement string) (fetched int64) {
		t.Helper()
		_, answer := f.ask(t, statement)
		_, want, _ := f.stores["b"].take()
		part := answer.Stats.Parts[1]
		if part.Node != "b" || part.Segments != 1 || part.FetchedBytes != want || (part.Cached == 1) != (want == 0) || answer.Stats.Segments.Cached != part.Cached {
			t.Errorf("%s: %d bytes came from the store: %+v", statement, want, answer.Stats)
		}
		return want
	}
	if n := ask("SELECT service, count(*) FROM app GROUP BY service"); n != index {
		t.Errorf("of an index of %d bytes %d were fetched", index, n)
	}
	for _, statement := range []string{"SELECT service, avg(duration_ms) FROM app GROUP BY service", "SELECT upper(body) AS t, count(*) AS n FROM app GROUP BY t ORDER BY n DESC, t LIMIT 3"} {
		if n := ask(statement); n == 0 || n >= data {
			t.Errorf("%s: %d bytes of %d were fetched", statement, n, data)
		}
		if n := ask(statement); n != 0 {
			t.Errorf("%s, again: %d bytes were fetched", statement, n)
		}
	}
}

// otherRelease is the way to a node whose leaves have another form.
type otherRelease struct{ line }

func (o otherRelease) Leaf(ctx context.Context, ask []byte, emit func([]byte) error) error {
	ask = slices.Clone(ask)
	ask[0]++
	return o.line.Leaf(ctx, ask, emit)
}

func TestOwnersOfAnotherReleaseAreNotBelieved(t *testing.T) {
	var f *fleet
	f = newFleet(t, func(c *query.Config) {
		c.Owners.Dial = func(m millstream.Member) query.LeafNode {
			if m.ID == "b" {
				return otherRelease{line{f, m.ID}}
			}
			return line{f, m.ID}
		}
	})
	f.spread()
	f.askAll(t, "b is of another release")
	_, answer := f.ask(t, "SELECT service, count(*) FROM app GROUP BY service")
	for _, p := range answer.Stats.Parts {
		if p.Node == "b" {
			t.Errorf("b had a part: %+v", p)
		}
	}
	if len(answer.Stats.Parts) != 2 {
		t.Errorf("parts %+v, want those of a and c", answer.Stats.Parts)
	}
}

var errLine = millstream.Errorf(millstream.Unavailable, "the line is cut")

func TestOwnersThatFail(t *testing.T) {
	for name, ruin := range map[string]func(ctx context.Context, emit func([]byte) error, ask func(emit func([]byte) error) error) error{
		"cannot be reached": func(context.Context, func([]byte) error, func(func([]byte) error) error) error { return errLine },
		"die on the way": func(_ context.Context, emit func([]byte) error, ask func(func([]byte) error) error) error {
			n := 0
			return ask(func(frame []byte) error {
				if n++; n > 1 {
					return errLine
				}
				return emit(frame)
			})
		},
		"end too early": func(_ context.Context, emit func([]byte) error, ask func(func([]byte) error) error) error {
			return ask(func(frame []byte) error {
				if frame[0] == 'd' {
					return nil
				}
				return emit(frame)
			})
		},
		"say what nobody understands": func(_ context.Context, emit func([]byte) error, ask func(func([]byte) error) error) error {
			return ask(func(frame []byte) error { return emit(append([]byte{frame[0]}, 0xff, 0xff, 0xff)) })
		},
		"fall silent": func(ctx context.Context, _ func([]byte) error, _ func(func([]byte) error) error) error {
			<-ctx.Done()
			return ctx.Err()
		},
		"are late": func(_ context.Context, emit func([]byte) error, ask func(func([]byte) error) error) error {
			time.Sleep(300 * time.Millisecond)
			return ask(emit)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t)
			f.owners.Silence = 150 * time.Millisecond
			f.spread()
			f.ruin = func(ctx context.Context, to millstream.NodeID, emit func([]byte) error, ask func(func([]byte) error) error) error {
				if to == "b" {
					return ruin(ctx, emit, ask)
				}
				return ask(emit)
			}
			f.askAll(t, "b fails")
			f.ruin = func(ctx context.Context, _ millstream.NodeID, emit func([]byte) error, ask func(func([]byte) error) error) error {
				return ruin(ctx, emit, ask)
			}
			f.askAll(t, "b and c fail")
		})
	}
}

// What is wrong with the question is told once; nobody else is asked.
func TestOwnersErrorsThatAreTheQuestions(t *testing.T) {
	f := newFleet(t)
	f.spread()
	refused := millstream.Errorf(millstream.Unprocessable, "too many groups")
	f.ruin = func(context.Context, millstream.NodeID, func([]byte) error, func(func([]byte) error) error) error {
		return refused
	}
	before := f.asked.Load()
	_, _, err := f.try(t, query.Request{Org: org, Statement: "SELECT service, count(*) FROM app GROUP BY service", Range: day})
	if !errors.Is(err, refused) || f.asked.Load()-before > 2 {
		t.Fatalf("error %v after %d questions, want the refusal after 2 at most", err, f.asked.Load()-before)
	}
}

// A segment that is gone on its owner means that the snapshot is old.
func TestOwnerLacksASegment(t *testing.T) {
	f := newFleet(t)
	f.spread()
	lost := 0
	var mu sync.Mutex
	f.ruin = func(_ context.Context, _ millstream.NodeID, emit func([]byte) error, ask func(func([]byte) error) error) error {
		mu.Lock()
		lost++
		first := lost <= 2
		mu.Unlock()
		if first {
			return millstream.Errorf(millstream.NotFound, "there is no object")
		}
		return ask(emit)
	}
	got, _ := f.ask(t, "SELECT count(*) AS n FROM app WHERE level <> 'none'")
	expect(t, "after a new snapshot", got, "n", "7")
}

func TestCancelReachesTheOwners(t *testing.T) {
	f := newFleet(t)
	f.spread()
	reached, ended := make(chan struct{}, 9), make(chan struct{}, 9)
	f.ruin = func(ctx context.Context, _ millstream.NodeID, emit func([]byte) error, _ func(func([]byte) error) error) error {
		reached <- struct{}{}
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				ended <- struct{}{}
				return ctx.Err()
			case <-tick.C:
				if err := emit([]byte{'p'}); err != nil {
					return err
				}
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := f.Run(ctx, query.Request{Org: org, Statement: "SELECT service, count(*) FROM app GROUP BY service", Range: day}, query.NewEncoder(query.CSV, io.Discard))
		done <- err
	}()
	<-reached
	<-reached
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
	if len(ended) != 2 {
		t.Fatalf("%d of 2 owners were told to stop", len(ended))
	}
}
