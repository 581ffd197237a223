package clustertest

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millstream/millstream/internal/mstest"
	"github.com/millstream/millstream/internal/postgres/pgtest"
	"github.com/millstream/millstream/store"
)

// placed is a cluster of queriers with declared CPUs over a database, an S3 server that is listened to, and many small published segments.
type placed struct {
	*mstest.Cluster
	t        *testing.T
	router   *mstest.Node
	gets     *atomic.Int64 // requests for objects, of all nodes
	segments []string      // ids
}

// Streams and flushes: each flush publishes a segment of each stream. A level's records are counted without reading data, from a segment's index.
const (
	placedStreams = 40
	placedFlushes = 20
	placedRows    = 3 // of a segment
)

// place starts queriers with so many CPUs each, and publishes.
func place(t *testing.T, cpus ...int) *placed {
	t.Helper()
	gateway, database := mstest.NewGateway(t), pgtest.URL(t)
	target, err := url.Parse(gateway.URL)
	if err != nil {
		t.Fatal(err)
	}
	p := &placed{t: t, gets: &atomic.Int64{}}
	pass := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host // it is signed
		if r.In.Method == http.MethodGet && !strings.HasSuffix(r.In.URL.Path, "/readiness") {
			p.gets.Add(1)
		}
	}}
	front := httptest.NewServer(pass)
	t.Cleanup(front.Close)
	pace := unflushed
	pace.Silence = time.Minute // every segment is read by its owner, however slow the machine is
	p.Cluster = mstest.StartCluster(t, mstest.ClusterOptions{
		InProcess: true, Pace: pace, Database: database, S3: gateway, Bare: true, Env: []string{"MS_OBJECT_STORE_ENDPOINT=" + front.URL},
	}, "router", "intake", fmt.Sprint("querier*", len(cpus)))
	for i, n := range p.Of("querier") {
		n.CPUs = cpus[i]
	}
	p.Start()
	p.router = p.Router()
	for f := range placedFlushes {
		for s := range placedStreams {
			var b strings.Builder
			for i := range placedRows {
				fmt.Fprintf(&b, `{"seq":%d,"level":"info","message":"flush %d of stream %d"}`+"\n", i, f, s)
			}
			if code, reply := p.router.Do("POST", "/api/v1/intake/json/"+streamOf(s), p.router.Token, "application/x-ndjson", []byte(b.String())); code != 200 {
				t.Fatalf("a write: %d %s", code, reply)
			}
		}
		p.router.Flush()
	}
	catalog, err := store.Open(t.Context(), database, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer catalog.Close()
	live, err := catalog.LiveSegments(t.Context(), store.Place{}, 10_000)
	if err != nil || len(live) != placedStreams*placedFlushes {
		t.Fatalf("%d live segments, %v", len(live), err)
	}
	for _, s := range live {
		p.segments = append(p.segments, string(s.ID))
	}
	return p
}

func streamOf(i int) string { return fmt.Sprintf("app_%d", i) }

// owner is a querier as the API shows it.
type owner struct {
	ID               string
	Weight, Expected float64
	Segments         int
	Warm             *float64 `json:"warm_percent"`
}

// members are the queriers that own segments.
func (p *placed) members() map[string]owner {
	p.t.Helper()
	var v struct{ Members []owner }
	p.router.JSON("GET", "/api/v1/cluster/ownership", p.router.Token, nil, &v)
	out := map[string]owner{}
	for _, m := range v.Members {
		out[m.ID] = m
	}
	return out
}

// shares waits until exactly these queriers own segments, as every node sees it, and compares what each owns with its part of the weights: of n segments a share s is binomial, and 4.5 standard
// deviations are passed once in 150,000.
func (p *placed) shares(want map[string]float64) map[string]owner {
	p.t.Helper()
	var members map[string]owner
	ids := slices.Sorted(maps.Keys(want))
	mstest.WaitFor(p.t, time.Minute, fmt.Sprintf("%v own segments", ids), func() bool {
		members = p.members()
		return slices.Equal(slices.Sorted(maps.Keys(members)), ids) && !slices.ContainsFunc(p.Nodes, func(n *mstest.Node) bool {
			return n.Runs() && metric(p.t, n, "millstream_cluster_members") != float64(len(ids)+2) // with the router and the intake
		})
	})
	sum := 0
	for id, share := range want {
		m := members[id]
		p.near(id+"'s segments", m.Segments, len(p.segments), share)
		if math.Abs(m.Expected-share) > 1e-9 {
			p.t.Errorf("%s of weight %g expects %g, want %g", id, m.Weight, m.Expected, share)
		}
		sum += m.Segments
	}
	if sum != len(p.segments) {
		p.t.Errorf("%d segments of %d are owned", sum, len(p.segments))
	}
	return members
}

// near compares a count with a share of all within the error of sampling.
func (p *placed) near(what string, got, of int, share float64) {
	p.t.Helper()
	tolerance := 4.5 * math.Sqrt(share*(1-share)/float64(of))
	p.t.Logf("%s: %d of %d, %.1f %%; want %.1f ± %.1f", what, got, of, 100*float64(got)/float64(of), 100*share, 100*tolerance)
	if math.Abs(float64(got)/float64(of)-share) > tolerance {
		p.t.Errorf("%s: %d of %d, want %.1f %%", what, got, of, 100*share)
	}
}

// owners asks for each segment's owner.
func (p *placed) owners() map[string]string {
	p.t.Helper()
	out := map[string]string{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for part := range slices.Chunk(p.segments, len(p.segments)/4) {
		wg.Go(func() {
			for _, id := range part {
				var v struct{ Ranking []struct{ ID string } }
				p.router.JSON("GET", "/api/v1/cluster/ownership/segments/"+id, p.router.Token, nil, &v)
				mu.Lock()
				out[id] = v.Ranking[0].ID
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return out
}

// warmed waits until every querier has the indexes of all that it owns, and says so.
func (p *placed) warmed() {
	p.t.Helper()
	mstest.WaitFor(p.t, time.Minute, "all caches are warm", func() bool {
		members := p.members()
		return !slices.ContainsFunc(p.Of("querier"), func(n *mstest.Node) bool {
			m := members[n.ID]
			return m.Warm == nil || *m.Warm < 100 || metric(p.t, n, "millstream_warmer_warm_segments") != float64(m.Segments)
		})
	})
}

// served is what nodes did for a round of queries.
type served struct {
	segments, cached map[string]int
	gets             int64 // requests to the S3 server
}

// total are the segments that were read, and those that came from a disk.
func (s served) total() (segments, cached int) {
	for id, n := range s.segments {
		segments, cached = segments+n, cached+s.cached[id]
	}
	return segments, cached
}

const (
	ofIndexes = "SELECT level, count(*) AS n FROM %s GROUP BY level"
	ofData    = "SELECT max(seq) AS m, count(DISTINCT message) AS n FROM %s WHERE seq >= 0"
)

// ask asks every stream and wants the whole of it.
func (p *placed) ask(statement string, want func(row []any) bool) served {
	p.t.Helper()
	out, before := served{segments: map[string]int{}, cached: map[string]int{}}, p.gets.Load()
	for s := range placedStreams {
		a := p.router.SQL(fmt.Sprintf(statement, streamOf(s)))
		if a.Partial || len(a.Rows) != 1 || !want(a.Rows[0]) || a.Stats.Segments.Scanned != placedFlushes {
			p.t.Fatalf("%s: %v, partial %v, %+v", streamOf(s), a.Rows, a.Reasons, a.Stats)
		}
		for _, part := range a.Stats.Parts {
			out.segments[part.Node] += part.Segments
			out.cached[part.Node] += part.Cached
		}
	}
	out.gets = p.gets.Load() - before
	return out
}

// counts asks what indexes know, and data what only data does.
func (p *placed) counts() served {
	p.t.Helper()
	return p.ask(ofIndexes, func(r []any) bool { return r[0] == "info" && mstest.Number(r[1]) == placedRows*placedFlushes })
}

func (p *placed) data() served {
	p.t.Helper()
	return p.ask(ofData, func(r []any) bool { return mstest.Number(r[0]) == placedRows-1 && mstest.Number(r[1]) == placedFlushes })
}

// agree compares who read segments with who owns them.
func (p *placed) agree(s served, members map[string]owner) {
	p.t.Helper()
	for id, m := range members {
		if s.segments[id] != m.Segments {
			p.t.Errorf("%s read %d segments and owns %d", id, s.segments[id], m.Segments)
		}
	}
	if n, _ := s.total(); n != len(p.segments) {
		p.t.Errorf("%d segments were read, want each of %d once", n, len(p.segments))
	}
}

// moved compares two maps of owners: nothing may go but from one of from, or to one of to.
func (p *placed) moved(before, after map[string]string, from, to string) (moves map[string]int) {
	p.t.Helper()
	moves = map[string]int{}
	for id, was := range before {
		is := after[id]
		if is == was {
			continue
		}
		if from != "" && was != from || to != "" && is != to {
			p.t.Errorf("segment %s went from %s to %s", id, was, is)
		}
		moves[was+" to "+is]++
	}
	return moves
}

// Queriers of 16, 16 and 8 CPUs own 40, 40 and 20 % of real segments, and read them. One of 16 more takes 28.6 % and leaves the rest where it is; then the one of 8
// goes, and its 14.3 % are divided among those that stay.
func TestSharesFollowWeights(t *testing.T) {
	p := place(t, 16, 16, 8)
	q := p.Of("querier")
	a, b, c := q[0].ID, q[1].ID, q[2].ID
	members := p.shares(map[string]float64{a: .4, b: .4, c: .2})
	p.warmed()
	p.agree(p.data(), members)
	three := p.owners()

	fourth := p.Add("querier")
	fourth.CPUs = 16
	fetched := map[string]float64{}
	for _, n := range q {
		fetched[n.ID] = metric(t, n, "millstream_cache_fetched_bytes_total")
	}
	fourth.Run()
	d := fourth.ID
	members = p.shares(map[string]float64{a: 2. / 7, b: 2. / 7, c: 1. / 7, d: 2. / 7})
	four := p.owners()
	t.Logf("moved: %v", p.moved(three, four, "", d))
	p.agree(p.data(), members)
	for _, n := range q {
		if now := metric(t, n, "millstream_cache_fetched_bytes_total"); now != fetched[n.ID] {
			t.Errorf("%s fetched %g bytes though it got nothing new", n.ID, now-fetched[n.ID])
		}
	}

	var foreseen struct {
		Moved   int `json:"moved_segments"`
		Between int `json:"moved_between_others"`
	}
	p.router.JSON("POST", "/api/v1/cluster/ownership/simulate", p.router.Token, map[string]any{"remove": []string{c}}, &foreseen)
	if !q[2].Stop() {
		t.Errorf("%s did not end in order", c)
	}
	members = p.shares(map[string]float64{a: 1. / 3, b: 1. / 3, d: 1. / 3})
	moves := p.moved(four, p.owners(), c, "")
	t.Logf("moved: %v", moves)
	gone := 0
	for _, n := range moves {
		gone += n
	}
	if gone != foreseen.Moved || foreseen.Between != 0 {
		t.Errorf("%d segments moved; foreseen were %+v", gone, foreseen)
	}
	for _, id := range []string{a, b, d} {
		p.near(c+"'s segments that went to "+id, moves[c+" to "+id], gone, 1./3)
	}
	p.agree(p.data(), members)
}

// A fourth equal querier costs the hit share no more than what moves to it, which its warmer makes good without a query; what has been read is asked of the S3 server no more.
func TestHitShareAfterAFourthQuerier(t *testing.T) {
	p := place(t, 4, 4, 4)
	q := p.Of("querier")
	p.warmed()
	p.data()
	for what, ask := range map[string]func() served{"indexes": p.counts, "data": p.data} {
		s := ask()
		if n, cached := s.total(); n != cached || s.gets != 0 {
			t.Errorf("before: of %s %d of %d segments were on a disk, and %d requests went to the S3 server", what, cached, n, s.gets)
		}
	}
	before := p.owners()
	fourth := p.Add("querier")
	fourth.CPUs = 4
	fourth.Run()
	share := map[string]float64{fourth.ID: .25}
	for _, n := range q {
		share[n.ID] = .25
	}
	members := p.shares(share)
	dip := p.counts()
	moved := 0
	for _, n := range p.moved(before, p.owners(), "", fourth.ID) {
		moved += n
	}
	n, cached := dip.total()
	t.Logf("at once: %d of %d segments on a disk, %d moved", cached, n, moved)
	if n-cached > moved {
		t.Errorf("%d segments of %d were not on a disk; %d moved", n-cached, n, moved)
	}
	for _, x := range q {
		if dip.cached[x.ID] != dip.segments[x.ID] {
			t.Errorf("%s lost segments that it kept: %d of %d on its disk", x.ID, dip.cached[x.ID], dip.segments[x.ID])
		}
	}
	p.warmed()
	s := p.counts()
	p.agree(s, members)
	if n, cached := s.total(); n != cached || s.gets != 0 {
		t.Errorf("after warming: %d of %d segments on a disk, %d requests to the S3 server", cached, n, s.gets)
	}
	if s := p.data(); s.gets == 0 || s.gets > int64(2*moved) {
		t.Errorf("data of %d moved segments took %d requests to the S3 server", moved, s.gets)
	}
	if s := p.data(); s.gets != 0 {
		t.Errorf("asked again, data took %d requests to the S3 server", s.gets)
	}
}
