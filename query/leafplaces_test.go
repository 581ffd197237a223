package query_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query"
	"github.com/millstream/millstream/query/cache"
)

const byService = "SELECT service, count(*) AS n FROM app GROUP BY service ORDER BY service"

// An owner runs so many leaves and lets so many wait, which tell that they are alive; the next is refused, and others read the segments. No answer lacks anything.
func TestOwnersHaveSoManyPlaces(t *testing.T) {
	var f *fleet
	f = newFleet(t, func(c *query.Config) {
		c.Owners.Silence = time.Minute // only a refusal makes others read
		c.Limits.MaxConcurrent = 10
	})
	f.others["b"] = newNode(t, func(c *query.Config) {
		c.Cache, c.Limits = f.caches["b"], query.Limits{MaxConcurrent: 1, LeafQueue: 2}
	})
	f.spread()
	want, _ := f.ask(t, byService)
	first := f.asked.Load()
	running, free := make(chan struct{}), make(chan struct{})
	waiting := make(chan struct{}, 2)
	var once sync.Once
	f.ruin = func(_ context.Context, to millstream.NodeID, emit func([]byte) error, ask func(func([]byte) error) error) error {
		if to != "b" {
			return ask(emit)
		}
		alive := false
		return ask(func(frame []byte) error {
			switch {
			case frame[0] != 'p':
				once.Do(func() { close(running); <-free }) // it has the place until its reader goes on
			case !alive:
				alive = true
				select {
				case waiting <- struct{}{}:
				default:
				}
			}
			return emit(frame)
		})
	}
	var wg sync.WaitGroup
	ask := func() (answer *query.Answer) {
		got, answer, err := f.try(t, query.Request{Org: org, Statement: byService, Range: day})
		if err != nil || !slices.Equal(got, want) || answer.Partial {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
		return answer
	}
	wg.Go(func() { ask() })
	<-running
	for range 2 {
		wg.Go(func() { ask() })
	}
	<-waiting
	<-waiting
	before := f.asked.Load()
	if answer := ask(); answer == nil || slices.ContainsFunc(answer.Stats.Parts, func(p query.NodePart) bool { return p.Node == "b" }) {
		t.Errorf("a node without a place took part: %+v", answer)
	}
	if n := f.asked.Load() - before; n <= first {
		t.Errorf("%d nodes were asked, want one more than the %d of a query that nobody refuses", n, first)
	}
	close(free)
	wg.Wait()
	if answer := ask(); answer == nil || len(answer.Stats.Parts) != 3 {
		t.Errorf("the node has places again and takes no part: %+v", answer)
	}
}

// Two nodes that coordinate queries and own segments for each other, with one place for each kind of work: no one waits for the other in a circle, whether they
// wait in line or are refused.
func TestNodesThatOwnForEachOther(t *testing.T) {
	for name, queue := range map[string]int{"a long line": 1000, "a short line": 1} {
		t.Run(name, func(t *testing.T) {
			nodes := map[millstream.NodeID]*node{}
			config := func(self millstream.NodeID) func(*query.Config) {
				return func(c *query.Config) {
					c.Limits = query.Limits{MaxConcurrent: 1, Queue: 1000, LeafQueue: queue, Timeout: 30 * time.Second}
					c.Owners = &query.Owners{Self: self, Silence: time.Minute, Dial: func(m millstream.Member) query.LeafNode { return nodes[m.ID] }}
					c.Owners.Reader = reader(func(id millstream.SegmentID) []millstream.Member {
						return slices.DeleteFunc(owners(id), func(m millstream.Member) bool { return m.ID == "c" })
					})
				}
			}
			nodes["a"] = newNode(t, config("a"))
			(&fleet{node: nodes["a"]}).spread()
			nodes["b"] = newNode(t, func(c *query.Config) {
				own, err := cache.Open(cache.Config{Bucket: nodes["a"].bucket, Dir: filepath.Join(t.TempDir(), "b"), Open: query.SegmentOpener()})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = own.Close() })
				c.Cache, c.Catalog, c.Unflushed = own, nodes["a"], nodes["a"]
				config("b")(c)
			})
			var wg sync.WaitGroup
			for id, n := range nodes {
				for range 8 {
					wg.Go(func() {
						for _, s := range statements[:11] { // those of kernels
							got, answer, err := n.try(t, query.Request{Org: org, Statement: s.sql, Range: day})
							if err != nil || answer.Partial {
								t.Errorf("%s: %s: %v", id, s.sql, err)
								return
							}
							slices.Sort(got[1:])
							want := slices.Clone(s.want)
							slices.Sort(want[1:])
							expect(t, fmt.Sprintf("%s: %s", id, s.sql), got, want...)
						}
					})
				}
			}
			wg.Wait()
		})
	}
}
