package query_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/blob"
	"github.com/millstream/millstream/query"
	"github.com/millstream/millstream/query/cache"
)

// gets is a bucket that counts what is read of it.
type gets struct {
	blob.Bucket
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

// remoteNode is a node whose segments lie in a counted store, with a function that empties its cache.
func remoteNode(t testing.TB) (*node, *gets, func()) {
	t.Helper()
	memory := blob.NewMemory()
	store := &gets{Bucket: memory}
	var n *node
	open := func() *cache.Cache {
		c, err := cache.Open(cache.Config{Bucket: store, Dir: filepath.Join(t.TempDir(), "remote"), Open: query.SegmentOpener()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	n = newNode(t, func(cfg *query.Config) { cfg.Cache = open() })
	n.bucket = memory
	return n, store, func() {}
}

func TestColdQueriesReadWhatTheyNeed(t *testing.T) {
	n, store, _ := remoteNode(t)
	for i := range 5 {
		n.append(millstream.Logs, "app", requestLogs(epoch+int64(i)*65536*1e6, 65536, uint64(i)))
	}
	n.flush()
	s := n.segments[0]
	t.Logf("data %d MB, index %d MB, rows %d", s.Data.Length>>20, s.Index.Length>>20, s.Rows)
	for _, q := range []string{
		"SELECT service, count(*) AS n FROM app GROUP BY service",
		"SELECT * FROM app WHERE match_all('quasarflux') ORDER BY _timestamp DESC LIMIT 100",
		"SELECT count(*) AS n FROM app WHERE body LIKE '%connection reset by peer%'",
		"SELECT time_bucket(INTERVAL 1 minute, _timestamp) AS t, count(*) AS n FROM app GROUP BY t",
		"SELECT service, avg(duration_ms) AS d FROM app GROUP BY service",
		"SELECT * FROM app WHERE trace_id = '0000000000000002e6f4590b9a164106'",
		"SELECT * FROM app ORDER BY _timestamp DESC LIMIT 100",
		"SELECT service, count(*) AS n FROM app WHERE status >= 400 GROUP BY service",
		"SELECT user_id, count(*) AS n FROM app GROUP BY user_id ORDER BY n DESC LIMIT 10",
		"SELECT level, quantile_cont(duration_ms, 0.95) AS p FROM app GROUP BY level",
	} {
		n2, store2, _ := remoteNode(t)
		n2.bucket = n.bucket
		store2.Bucket = store.Bucket
		n2.streams, n2.segments, n2.position, n2.end = n.streams, n.segments, n.position, n.end
		_, a, err := n2.try(t, query.Request{Org: org, Statement: q, Range: day})
		if err != nil {
			t.Error(q, err)
			continue
		}
		count, bytes, log := store2.take()
		t.Logf("%s\n   %d GETs, %.1f MB, allowed %.1f, took %d ms\n %v", q, count, float64(bytes)/(1<<20), 2+float64(bytes)/(4<<20), a.Stats.TookMS, log)
		if _, _, err := n2.try(t, query.Request{Org: org, Statement: q, Range: day}); err != nil {
			t.Fatal(err)
		}
		if count, _, log := store2.take(); count != 0 {
			t.Errorf("%s warm: %d gets %v", q, count, log)
		}
	}
}
