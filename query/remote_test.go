package query_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/blob"
	"github.com/millstream/millstream/query"
	"github.com/millstream/millstream/query/cache"
)

// gets is a bucket that counts what is read of it.
type gets struct {
	blob.Bucket
	delay time.Duration // of each answer
	mu    sync.Mutex
	count int
	bytes int64
	log   []string
}

func (b *gets) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	b.mu.Lock()
	b.count++
	b.bytes += n
	b.log = append(b.log, fmt.Sprintf("%s[%d+%d]", key, off>>10, n>>10))
	b.mu.Unlock()
	select {
	case <-time.After(b.delay):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return b.Bucket.Get(ctx, key, off, n)
}

// take gives the counts since the last call.
func (b *gets) take() (count int, bytes int64, log []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	count, bytes, log = b.count, b.bytes, b.log
	b.count, b.bytes, b.log = 0, 0, nil
	return count, bytes, log
}

// requestLogs makes records like those of a web service's: 19 fields, of them several ids, texts of a vocabulary with a long tail.
func requestLogs(from int64, rows int, seed uint64) *millstream.Batch {
	r := rand.New(rand.NewPCG(seed, 7))
	zipf := rand.NewZipf(r, 1.2, 4, 19_999)
	word := func() string { return fmt.Sprintf("w%05x", zipf.Uint64()*2654435761%1048573) }
	b := millstream.NewBuilder(millstream.Limits{})
	str := func(name, value string) { b.String([]byte(name), []byte(value)) }
	var text []byte
	for i := range rows {
		service := r.IntN(24)
		text = text[:0]
		switch {
		case r.IntN(5) < 2:
			text = fmt.Appendf(text, "%s /api/v1/%s/%d HTTP/1.1 status=%d in %dms", []string{"GET", "GET", "POST", "PUT"}[r.IntN(4)], word(), r.IntN(100000), 200+100*(r.IntN(40)/17), r.IntN(900))
		case r.IntN(325) == 0:
			text = fmt.Appendf(text, "upstream failed: connection reset by peer while reading %s from %s", word(), word())
		default:
			text = fmt.Appendf(text, "%s %s: handler %s took %d steps of %s for %s", []string{"started", "completed", "retrying", "cached"}[r.IntN(4)], word(), word(), r.IntN(50), word(), word())
			for range r.IntN(12) {
				text = fmt.Appendf(text, " %s", word())
			}
		}
		if i%200_003 == 77 {
			text = append(text, " quasarflux"...)
		}
		str("body", string(text))
		str("level", []string{"info", "info", "info", "info", "warn", "debug", "error"}[r.IntN(7)])
		str("service", fmt.Sprintf("service-%02d", service))
		str("pod", fmt.Sprintf("service-%02d-%04x", service, r.IntN(5)*7919+service))
		str("namespace", []string{"prod", "stage"}[service%2])
		str("cluster", "eu-1")
		str("container", "main")
		str("node", fmt.Sprintf("node-%d", r.IntN(12)))
		str("trace_id", fmt.Sprintf("%016x%016x", seed, uint64(i/8)*0x9e3779b97f4a7c15))
		str("span_id", fmt.Sprintf("%016x", r.Uint64()))
		str("request_id", fmt.Sprintf("%016x%016x", r.Uint64(), r.Uint64()))
		if r.IntN(100) < 85 {
			str("user_id", fmt.Sprintf("u%06d", zipf.Uint64()*10+r.Uint64N(10)))
		}
		if r.IntN(5) < 2 {
			str("method", []string{"GET", "POST", "PUT"}[r.IntN(3)])
			str("path", fmt.Sprintf("/api/v1/%s", word()))
			str("client_ip", fmt.Sprintf("10.%d.%d.%d", r.IntN(4), r.IntN(256), r.IntN(256)))
			b.Int([]byte("status"), int64(200+100*(r.IntN(40)/17)))
			b.Double([]byte("duration_ms"), r.ExpFloat64()*80)
			b.Int([]byte("bytes"), int64(r.ExpFloat64()*4000))
		}
		if err := b.Commit(from + int64(i)*1e6); err != nil {
			panic(err)
		}
	}
	return b.Batch()
}

// remote is another node over the same segments, with an empty cache and a store that counts.
func (n *node) remote(t testing.TB) (*node, *gets) {
	t.Helper()
	store := &gets{Bucket: n.bucket}
	c, err := cache.Open(cache.Config{Bucket: store, Dir: filepath.Join(t.TempDir(), "remote"), Open: query.SegmentOpener()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	r := newNode(t, func(cfg *query.Config) { cfg.Cache = c })
	r.bucket, r.streams, r.segments, r.position, r.end = n.bucket, n.streams, n.segments, n.position, n.end
	return r, store
}

// local is another node over the same segments, which lie in files that are read in place.
func (n *node) local(t testing.TB) *node {
	t.Helper()
	dir, err := blob.NewDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for info, err := range n.bucket.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		r, err := n.bucket.Get(t.Context(), info.Key, 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close(), dir.Put(t.Context(), info.Key, bytes.NewReader(body), info.Size)); err != nil {
			t.Fatal(err)
		}
	}
	c, err := cache.Open(cache.Config{Bucket: dir, Dir: filepath.Join(t.TempDir(), "local"), Open: query.SegmentOpener()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	l := newNode(t, func(cfg *query.Config) { cfg.Cache = c })
	l.streams, l.segments, l.position, l.end = n.streams, n.segments, n.position, n.end
	return l
}

// narrow are statements that need little of requestLogs, some by kernels and some by the SQL engine.
var narrow = []string{
	"SELECT service, count(*) AS n FROM app GROUP BY service ORDER BY service", // the index alone
	"SELECT * FROM app WHERE match_all('quasarflux') ORDER BY _timestamp DESC LIMIT 100",
	"SELECT count(*) AS n FROM app WHERE body LIKE '%connection reset by peer%'",
	"SELECT service, avg(duration_ms) AS d FROM app GROUP BY service ORDER BY service",
	"SELECT * FROM app WHERE trace_id = '00000000000000029e3779b97f4a7c15' ORDER BY _timestamp LIMIT 10",
	"SELECT * FROM app ORDER BY _timestamp DESC LIMIT 100",
	"SELECT service, count(*) AS n FROM app WHERE status >= 400 GROUP BY service ORDER BY service",
	"SELECT user_id, count(*) AS n FROM app GROUP BY user_id ORDER BY n DESC, user_id LIMIT 10",
	"SELECT time_bucket(INTERVAL 1 minute, _timestamp) AS t, count(*) AS n FROM app GROUP BY t ORDER BY t",
	"SELECT upper(level) AS l, max(bytes) AS m FROM app GROUP BY l ORDER BY l",
}

// TestRequestsToTheStore: a cold query makes at most two requests and one for each 4 MiB fetched of a segment, and does not fetch all of it for the sake of
// little; a warm one makes none. Cold, warm and over files in place, a query has the same answer.
func TestRequestsToTheStore(t *testing.T) {
	n := newNode(t, nil)
	for i := range 5 {
		n.append(millstream.Logs, "app", requestLogs(epoch+int64(i)*65536*1e6, 65536, uint64(i)))
	}
	n.flush()
	size := n.segments[0].Data.Length
	if size < 20<<20 {
		t.Fatalf("the segment has %d bytes only", size)
	}
	local := n.local(t)
	for _, statement := range narrow {
		ask := func(n *node) []string {
			rows, _, err := n.try(t, query.Request{Org: org, Statement: statement, Range: day})
			if err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
			return rows
		}
		want := ask(local)
		if len(want) < 2 {
			t.Errorf("%s: no rows", statement)
		}
		remote, store := n.remote(t)
		expect(t, statement+", cold", ask(remote), want...)
		count, fetched, log := store.take()
		t.Logf("%s: %d requests, %.1f MiB", statement, count, float64(fetched)/(1<<20))
		if most := 2 + float64(fetched)/(4<<20); float64(count) > most {
			t.Errorf("%s: %d requests for %d bytes, more than %.1f: %v", statement, count, fetched, most, log)
		}
		if data := fetched - n.segments[0].Index.Length; data > size*9/10 {
			t.Errorf("%s: fetched %d bytes of data of %d: %v", statement, data, size, log)
		}
		expect(t, statement+", warm", ask(remote), want...)
		if count, _, log := store.take(); count != 0 {
			t.Errorf("%s: a warm query made %d requests: %v", statement, count, log)
		}
	}
}

// BenchmarkRemote asks narrow statements over files in place, with a warm cache, and with an empty one of a store that takes 20 ms to begin an answer.
func BenchmarkRemote(b *testing.B) {
	n := newNode(b, nil)
	for i := range 10 {
		n.append(millstream.Logs, "app", requestLogs(epoch+int64(i)*65536*1e6, 65536, uint64(i)))
		if i%5 == 4 {
			n.flush()
		}
	}
	local := n.local(b)
	warm, _ := n.remote(b)
	statements := append(slices.Clone(narrow), "SELECT upper(body) AS t, count(*) AS n FROM app GROUP BY t ORDER BY n DESC, t LIMIT 3")
	for i, statement := range statements {
		ask := func(b *testing.B, n *node) {
			if _, _, err := n.try(b, query.Request{Org: org, Statement: statement, Range: day}); err != nil {
				b.Fatal(err)
			}
		}
		for name, n := range map[string]*node{"local": local, "warm": warm} {
			b.Run(fmt.Sprintf("%d/%s", i, name), func(b *testing.B) {
				ask(b, n)
				before := cpu()
				for b.Loop() {
					ask(b, n)
				}
				b.ReportMetric(float64(cpu()-before)/1e6/float64(b.N), "cpu-ms/op")
			})
		}
		b.Run(fmt.Sprintf("%d/cold", i), func(b *testing.B) {
			var requests, fetched int64
			for b.Loop() {
				b.StopTimer()
				cold, store := n.remote(b)
				store.delay = 20 * time.Millisecond
				b.StartTimer()
				ask(b, cold)
				count, bytes, _ := store.take()
				requests, fetched = requests+int64(count), fetched+bytes
			}
			b.ReportMetric(float64(requests)/float64(b.N), "requests/op")
			b.ReportMetric(float64(fetched)/float64(b.N)/(1<<20), "MiB/op")
		})
	}
}
