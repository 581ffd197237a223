package query_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/blob"
	"github.com/millstream/millstream/cluster"
	"github.com/millstream/millstream/internal/mstest"
	"github.com/millstream/millstream/query"
	"github.com/millstream/millstream/query/cache"
	"github.com/millstream/millstream/query/warm"
	"github.com/millstream/millstream/store"
)

// wire counts what a real S3 server is asked for, and the bytes that it answers with.
type wire struct{ gets, bytes atomic.Int64 }

func (w *wire) take() (gets, bytes int64) { return w.gets.Swap(0), w.bytes.Swap(0) }

// onS3 copies a node's objects to a real S3 server and gives a bucket of it whose requests are counted on the wire.
func (n *node) onS3(t *testing.T) (*blob.S3, *wire) {
	t.Helper()
	gateway := mstest.NewGateway(t)
	target, err := url.Parse(gateway.URL)
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{}
	proxy := &httputil.ReverseProxy{
		Director: func(r *http.Request) { r.URL.Scheme, r.URL.Host = target.Scheme, target.Host }, // Host stays: it is signed
		ModifyResponse: func(r *http.Response) error {
			if r.Request.Method == http.MethodGet {
				w.gets.Add(1)
				w.bytes.Add(r.ContentLength)
			}
			return nil
		},
	}
	srv := httptest.NewServer(proxy)
	t.Cleanup(srv.Close)
	s3, err := blob.NewS3(t.Context(), blob.S3Config{Bucket: "test", Region: "us-east-1", Endpoint: srv.URL, PathStyle: true, AccessKey: "test", SecretKey: "testsecret",
		MultipartThreshold: 16 << 20, MaxConcurrency: 16, OpTimeout: 30 * time.Second})
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
		if err := errors.Join(err, r.Close(), s3.Put(t.Context(), info.Key, bytes.NewReader(body), info.Size)); err != nil {
			t.Fatal(err)
		}
	}
	w.take()
	return s3, w
}

// over is another node over the same segments, with an empty cache of a bucket.
func (n *node) over(t *testing.T, b cache.Bucket) (*node, *cache.Cache) {
	t.Helper()
	c, err := cache.Open(cache.Config{Bucket: b, Dir: filepath.Join(t.TempDir(), "over"), Open: query.SegmentOpener()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	r := newNode(t, func(cfg *query.Config) { cfg.Cache = c })
	r.streams, r.segments, r.position, r.end = n.streams, n.segments, n.position, n.end
	return r, c
}

// LiveSegments is what the warmer asks of a catalog.
func (n *node) LiveSegments(_ context.Context, after store.Place, _ int) ([]millstream.Segment, error) {
	if after.ID != "" {
		return nil, nil
	}
	return n.segments, nil
}

// TestRequestsToS3 counts, on the wire, what cold, warmed, pushed and warm queries ask a real S3 server for: at most two requests and one for each 4 MiB fetched of a
// segment, never all of it for a narrow query; none of the index after warming; nothing at all of what was pushed or is warm.
func TestRequestsToS3(t *testing.T) {
	n := newNode(t, nil)
	for i := range 3 {
		n.append(millstream.Logs, "app", requestLogs(epoch+int64(i)*65536*1e6, 65536, uint64(i)))
	}
	n.flush()
	large := n.segments[0]
	s3, w := n.onS3(t)
	placed := cluster.NewPlacement([]cluster.Node{{ID: "cache", Node: "a", MilliCPU: 1000}})
	warmer := func(n *node, c *cache.Cache) *warm.Warmer {
		return warm.New(warm.Config{Catalog: n, Cache: c, Placement: func() *cluster.Placement { return placed }, Self: "a", Rate: 1 << 40, Settle: time.Millisecond})
	}
	for _, statement := range []string{narrow[0], narrow[1], narrow[3], narrow[9]} {
		ask := func(n *node) []string {
			rows, _, err := n.try(t, query.Request{Org: org, Statement: statement, Range: day})
			if err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
			return rows
		}
		want := ask(n)
		cold, _ := n.over(t, s3)
		expect(t, statement+", cold", ask(cold), want...)
		gets, fetched := w.take()
		t.Logf("%s: cold %d requests, %.1f MiB", statement, gets, float64(fetched)/(1<<20))
		if most := 2 + float64(fetched)/(4<<20); float64(gets) > most || gets == 0 {
			t.Errorf("%s: %d requests for %d bytes, at most %.1f are wanted", statement, gets, fetched, most)
		}
		if data := fetched - large.Index.Length; data > large.Data.Length*9/10 {
			t.Errorf("%s: fetched %d bytes of data of %d", statement, data, large.Data.Length)
		}
		expect(t, statement+", warm", ask(cold), want...)
		if gets, _ := w.take(); gets != 0 {
			t.Errorf("%s: warm, it made %d requests", statement, gets)
		}

		warmed, c := n.over(t, s3)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		x := warmer(n, c)
		go func() { ended <- x.Run(ctx, func() {}) }()
		mstest.WaitFor(t, time.Minute, "the share is warm", func() bool { return x.Share().Warm == 1 })
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if gets, fetched := w.take(); gets != 1 || fetched != large.Index.Length {
			t.Errorf("warming made %d requests for %d bytes, want one for the index of %d", gets, fetched, large.Index.Length)
		}
		expect(t, statement+", warmed", ask(warmed), want...)
		if warmGets, _ := w.take(); warmGets > max(gets-1, 0) {
			t.Errorf("%s: %d requests after warming, %d when cold, of which one is the index", statement, warmGets, gets)
		}
	}
}

// TestPushesFromS3: a small segment that was pushed is there as a whole, so no query of it asks the store.
func TestPushesFromS3(t *testing.T) {
	n := newNode(t, nil)
	n.append(millstream.Logs, "app", requestLogs(epoch, 2000, 1))
	n.flush()
	s3, w := n.onS3(t)
	pushed, c := n.over(t, s3)
	x := warm.New(warm.Config{Catalog: n, Cache: c, Placement: func() *cluster.Placement { return nil }, Self: "a"})
	if accepted, err := x.Push(t.Context(), n.segments[0]); !accepted || err != nil {
		t.Fatalf("accepted %v, error %v", accepted, err)
	}
	if gets, fetched := w.take(); gets != 2 || fetched != n.segments[0].Index.Length+n.segments[0].Data.Length {
		t.Errorf("the push made %d requests for %d bytes, want index and data once", gets, fetched)
	}
	for _, statement := range narrow {
		rows, _, err := pushed.try(t, query.Request{Org: org, Statement: statement, Range: day})
		if err != nil {
			t.Fatal(err)
		}
		want, _, err := n.try(t, query.Request{Org: org, Statement: statement, Range: day})
		if err != nil {
			t.Fatal(err)
		}
		expect(t, statement, rows, want...)
	}
	if gets, _ := w.take(); gets != 0 {
		t.Errorf("queries of a pushed segment made %d requests", gets)
	}
}
