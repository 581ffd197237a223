package rpc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/netfault"
)

func get(target string) *http.Request { return httptest.NewRequest(http.MethodGet, target, nil) }

// router is a real HTTP server that forwards everything to the client's peer, as the API does.
func router(t *testing.T, c *Client) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", "router's")
		switch err := c.Forward(w, r, []byte("who")); {
		case errors.Is(err, ErrBegun):
			panic(http.ErrAbortHandler)
		case err != nil:
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	}))
	srv.Config.ErrorLog = nil
	t.Cleanup(srv.Close)
	return srv
}

func TestForwardCarriesARequestAndItsReply(t *testing.T) {
	var seen *http.Request
	var body, principal string
	c := connect(t, &Server{Query: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		seen, body, principal = r, string(b), string(PrincipalOf(r.Context()))
		h := w.Header()
		h.Set("Content-Type", "text/csv")
		h.Set("X-Request-Id", "querier's")
		h.Add("Vary", "a")
		h.Add("Vary", "b")
		h.Set("Connection", "close")
		h.Set("Trailer", "Millstream-Partial, Millstream-Warning")
		w.WriteHeader(http.StatusTeapot)
		w.WriteHeader(http.StatusOK)
		_, _ = io.WriteString(w, "a,b\n")
		h.Add("Millstream-Partial", "one")
		h.Add("Millstream-Partial", "two")
		h.Set(http.TrailerPrefix+"Late", "yes")
		h.Set("Ignored", "came too late")
	})})
	srv := router(t, c)
	req, err := http.NewRequest(http.MethodPost, srv.URL+"/api/v1/query%2Fx?q=a%20b&c=%26", strings.NewReader("SELECT 1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range [][2]string{{"Authorization", "Bearer secret"}, {"Cookie", "session=1"}, {"X-Forwarded-For", "1.2.3.4"}, {"Accept", "text/csv"}, {"Content-Type", "application/sql"}, {"X-Request-Id", "mine"}, {"Last-Event-ID", "5"}} {
		req.Header.Set(kv[0], kv[1])
	}
	resp, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil || string(got) != "a,b\n" || resp.StatusCode != http.StatusTeapot {
		t.Errorf("%d %q %v", resp.StatusCode, got, err)
	}
	if seen.Method != http.MethodPost || seen.URL.Path != "/api/v1/query/x" || seen.URL.RawPath != "/api/v1/query%2Fx" || seen.URL.RawQuery != "q=a%20b&c=%26" || body != "SELECT 1" || seen.ContentLength != 8 || principal != "who" || seen.RemoteAddr == "" {
		t.Errorf("the peer saw %s %s from %q with %q (%d bytes) for %q", seen.Method, seen.URL, seen.RemoteAddr, body, seen.ContentLength, principal)
	}
	if names := slices.Sorted(maps.Keys(seen.Header)); !slices.Equal(names, []string{"Accept", "Accept-Encoding", "Content-Type", "Last-Event-Id", "User-Agent", "X-Request-Id"}) {
		t.Errorf("headers that were passed on: %v", names)
	}
	h := resp.Header
	if h.Get("Content-Type") != "text/csv" || !slices.Equal(h["X-Request-Id"], []string{"querier's"}) || !slices.Equal(h["Vary"], []string{"a", "b"}) || h.Get("Ignored") != "" || resp.Close {
		t.Errorf("headers %v", h)
	}
	if !slices.Equal(resp.Trailer["Millstream-Partial"], []string{"one", "two"}) || resp.Trailer.Get("Late") != "yes" || resp.Trailer.Get("Millstream-Warning") != "" {
		t.Errorf("trailers %v", resp.Trailer)
	}
}

func TestForwardOfEmptyAndLargeReplies(t *testing.T) {
	large := strings.Repeat("0123456789abcdef", 1<<16) // 1 MiB
	c := connect(t, &Server{Query: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/large":
			for s := large; s != ""; s = s[min(len(s), 100_001):] {
				_, _ = io.WriteString(w, s[:min(len(s), 100_001)])
			}
		case "/none":
			w.WriteHeader(http.StatusNoContent)
		}
	})})
	srv := router(t, c)
	for path, want := range map[string]struct {
		status int
		body   string
	}{"/large": {200, large}, "/none": {204, ""}, "/nothing": {200, ""}} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			req, _ := http.NewRequest(method, srv.URL+path, nil)
			resp, err := srv.Client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if method == http.MethodHead {
				want.body = ""
			}
			if err != nil || resp.StatusCode != want.status || string(body) != want.body {
				t.Errorf("%s %s: %d, %d bytes, %v", method, path, resp.StatusCode, len(body), err)
			}
		}
	}
}

// TestForwardPassesOnWhatIsFlushed and only that waits for no more.
func TestForwardPassesOnWhatIsFlushed(t *testing.T) {
	next := make(chan string)
	ended := make(chan error, 1)
	c := connect(t, &Server{Query: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		if err := errors.Join(control.SetReadDeadline(time.Now()), control.SetWriteDeadline(time.Now())); err != nil {
			t.Error(err)
		}
		for {
			select {
			case s := <-next:
				_, _ = fmt.Fprintln(w, s)
				_ = control.Flush()
			case <-r.Context().Done():
				_, err := io.WriteString(w, "more")
				ended <- errors.Join(r.Context().Err(), err)
				return
			}
		}
	})})
	srv := router(t, c)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { next <- "first" }()
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL, nil)
	resp, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for _, want := range []string{"first", "second"} {
		if want == "second" {
			next <- want
		}
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("%q, %v", lines.Text(), lines.Err())
		}
	}
	cancel() // the client goes away
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the handler ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("the handler was not told that the client went away")
	}
}

func TestForwardFailsBeforeTheReply(t *testing.T) {
	boom := func(http.ResponseWriter, *http.Request) { panic("secret") }
	half := func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half")
		panic(http.ErrAbortHandler)
	}
	for name, c := range map[string]struct {
		h    http.HandlerFunc
		kind millstream.Kind
	}{"panic": {boom, millstream.Internal}, "abort of what nobody saw": {half, millstream.Unavailable}} {
		client := connect(t, &Server{Log: quietLog(), Query: c.h})
		w := httptest.NewRecorder()
		err := client.Forward(w, get("/"), nil)
		if millstream.KindOf(err) != c.kind || errors.Is(err, ErrBegun) || w.Body.Len() > 0 || len(w.Header()) > 0 {
			t.Errorf("%s: %v, body %q, headers %v", name, err, w.Body, w.Header())
		}
	}
}

func TestForwardIsCutWithTheReply(t *testing.T) {
	c, p := connectThrough(t, &Server{Log: quietLog(), Query: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "half")
		w.(http.Flusher).Flush()
		if r.URL.Path == "/abort" {
			panic(http.ErrAbortHandler)
		}
		<-r.Context().Done()
	})}, ClientConfig{})
	w := httptest.NewRecorder()
	if err := c.Forward(w, get("/abort"), nil); !errors.Is(err, ErrBegun) || millstream.KindOf(err) != millstream.Unavailable || w.Body.String() != "half" {
		t.Errorf("%v, body %q", err, w.Body)
	}
	resp, err := router(t, c).Client().Get(router(t, c).URL + "/abort")
	if err == nil {
		defer resp.Body.Close()
		if _, err = io.ReadAll(resp.Body); err == nil {
			t.Error("the client took half a reply for the whole")
		}
	}
	if err := c.Forward(&onWrite{httptest.NewRecorder(), func() { reset(p) }}, get("/wait"), nil); !errors.Is(err, ErrBegun) {
		t.Errorf("after a reset: %v", err)
	}
	p.Set(netfault.Cut)
	eventually(t, "calls are not taken", func() bool {
		w := httptest.NewRecorder()
		err := c.Forward(w, get("/abort"), nil)
		return err != nil && !errors.Is(err, ErrBegun) && millstream.KindOf(err) == millstream.Unavailable && w.Body.Len() == 0
	})
}

// onWrite calls do whenever something of a reply is written.
type onWrite struct {
	*httptest.ResponseRecorder
	do func()
}

func (w *onWrite) Write(p []byte) (int, error) { w.do(); return w.ResponseRecorder.Write(p) }

func TestForwardEndsWithItsContext(t *testing.T) {
	ctx := expires(t)
	told, over := make(chan struct{}), make(chan struct{})
	c := connect(t, &Server{Query: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(ctx.over)
		<-r.Context().Done()
		close(told)
		<-over // what it would answer now must not be first
	})})
	if err := c.Forward(httptest.NewRecorder(), get("/").WithContext(ctx), nil); millstream.KindOf(err) != millstream.Timeout {
		t.Errorf("%v", err)
	}
	close(over)
	<-told
}

func TestForwardRefusesHugeBodies(t *testing.T) {
	c := connect(t, &Server{Query: http.NotFoundHandler()})
	r := httptest.NewRequest(http.MethodPost, "/", io.LimitReader(zeros{}, maxForward+1))
	if err := c.Forward(httptest.NewRecorder(), r, nil); millstream.KindOf(err) != millstream.TooLarge {
		t.Errorf("%v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// slowWriter takes the reply's first piece and then nothing until it is let go.
type slowWriter struct {
	*httptest.ResponseRecorder
	once sync.Once
	let  chan struct{}
}

func (w *slowWriter) Write(p []byte) (int, error) {
	w.once.Do(func() { <-w.let })
	return len(p), nil
}

// TestASlowReaderHoldsTheHandlerBack: what is under way of a reply is bounded, and others on the same connection go on.
func TestASlowReaderHoldsTheHandlerBack(t *testing.T) {
	var written atomic.Int64
	c := connect(t, &Server{Query: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/quick" {
			_, _ = io.WriteString(w, "quick")
			return
		}
		piece := make([]byte, maxPiece)
		for range 64 { // 4 MiB
			n, err := w.Write(piece)
			if err != nil {
				return
			}
			written.Add(int64(n))
		}
	})})
	var wg sync.WaitGroup
	let := make(chan struct{})
	const readers = 20 // more than fit into the window of the connection
	for range readers {
		wg.Go(func() {
			if err := c.Forward(&slowWriter{ResponseRecorder: httptest.NewRecorder(), let: let}, get("/slow"), nil); err != nil {
				t.Error(err)
			}
		})
	}
	last := int64(-1)
	eventually(t, "the handlers wait", func() bool {
		time.Sleep(100 * time.Millisecond)
		now := written.Load()
		defer func() { last = now }()
		return now > 0 && now == last
	})
	if most := int64(readers * 3 * window); written.Load() > most {
		t.Errorf("%d bytes were written for readers that read nothing, at most %d should be", written.Load(), most)
	}
	w := httptest.NewRecorder()
	if err := c.Forward(w, get("/quick"), nil); err != nil || w.Body.String() != "quick" {
		t.Errorf("beside slow readers: %q, %v", w.Body, err)
	}
	close(let)
	wg.Wait()
	if written.Load() != readers*4<<20 {
		t.Errorf("%d bytes written in all", written.Load())
	}
}

// TestASilentReplyLives: a live tail without records is not cut by anything on the way.
func TestASilentReplyLives(t *testing.T) {
	t.Parallel()
	silence := 16 * time.Second // longer than keepalive takes to give a connection up
	if testing.Short() {
		silence = 2 * time.Second
	}
	c := connect(t, &Server{Query: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		select {
		case <-time.After(silence):
			_, _ = io.WriteString(w, "at last")
		case <-r.Context().Done():
		}
	})})
	w := httptest.NewRecorder()
	if err := c.Forward(w, get("/"), nil); err != nil || w.Body.String() != "at last" {
		t.Errorf("%q, %v", w.Body, err)
	}
}
