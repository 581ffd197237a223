package api

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/millstream/millstream/ingest/decode"
)

func TestCompression(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t)
	a := *w.api
	a.Registerer, a.Gatherer = newRegistry()
	long := strings.Repeat(`{"k":"v"}`, 1000)
	write := func(contentType, text string) handler {
		return func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Content-Type", contentType)
			for part := range slices.Chunk([]byte(text), 1000) {
				if _, err := w.Write(part); err != nil {
					return err
				}
				w.(http.Flusher).Flush()
			}
			return nil
		}
	}
	s := a.with(t, open("/json", write("application/json", long)), open("/parquet", write("application/vnd.apache.parquet", long)), open("/events", write("text/event-stream", long)),
		open("/short", func(w http.ResponseWriter, _ *http.Request) error { return reply(w, 200, map[string]int{"a": 1}) }))
	for _, c := range []struct{ path, accept, want string }{
		{"/json", "gzip", "gzip"}, {"/json", "gzip, zstd", "zstd"}, {"/json", "ZSTD", "zstd"}, {"/json", "zstd;q=0, gzip;q=0.5", "gzip"}, {"/json", "", ""}, {"/json", "br", ""},
		{"/parquet", "gzip", ""}, {"/events", "gzip", ""}, {"/short", "gzip", ""},
	} {
		got := get(t, s.URL+c.path, "Accept-Encoding", c.accept)
		if e := got.header.Get("Content-Encoding"); e != c.want {
			t.Errorf("%s for %q: %q", c.path, c.accept, e)
			continue
		}
		plain := got.body
		switch c.want {
		case "gzip":
			z, err := gzip.NewReader(bytes.NewReader(got.body))
			if err != nil {
				t.Fatal(err)
			}
			if plain, err = io.ReadAll(z); err != nil {
				t.Error(err)
			}
		case "zstd":
			z, err := zstd.NewReader(bytes.NewReader(got.body))
			if err != nil {
				t.Fatal(err)
			}
			if plain, err = io.ReadAll(z); err != nil {
				t.Error(err)
			}
			z.Close()
		}
		if c.path != "/short" && string(plain) != long {
			t.Errorf("%s as %q: %d bytes, want %d", c.path, c.want, len(plain), len(long))
		}
		if c.want != "" && len(got.body) > len(long)/2 {
			t.Errorf("%s as %q was not compressed: %d bytes", c.path, c.want, len(got.body))
		}
	}
}

func TestClientAddress(t *testing.T) {
	a := &API{TrustedProxies: prefixes("10.0.0.0/8", "fd00::/8")}
	for name, c := range map[string]struct{ peer, forwarded, want string }{
		"direct":                 {"192.0.2.1:99", "", "192.0.2.1"},
		"a liar":                 {"192.0.2.1:99", "1.1.1.1", "192.0.2.1"},
		"one proxy":              {"10.0.0.1:99", "192.0.2.7", "192.0.2.7"},
		"two proxies":            {"10.0.0.1:99", "192.0.2.7, 10.9.9.9", "192.0.2.7"},
		"a liar behind a proxy":  {"10.0.0.1:99", "127.0.0.1, 192.0.2.7", "192.0.2.7"},
		"with a port":            {"10.0.0.1:99", "192.0.2.7:1234", "192.0.2.7"},
		"IPv6":                   {"[fd00::1]:99", "2001:db8::1", "2001:db8::1"},
		"IPv6 in brackets":       {"[fd00::1]:99", "[2001:db8::1]:443", "2001:db8::1"},
		"mapped":                 {"[::ffff:10.0.0.1]:99", "192.0.2.7", "192.0.2.7"},
		"garbage":                {"10.0.0.1:99", "192.0.2.7, unknown", "10.0.0.1"},
		"empty header":           {"10.0.0.1:99", "", "10.0.0.1"},
		"only proxies":           {"10.0.0.1:99", "10.2.2.2, 10.3.3.3", "10.2.2.2"},
		"from a Unix socket":     {"@", "192.0.2.7", ""},
		"garbage further left":   {"10.0.0.1:99", "x, 192.0.2.7", "192.0.2.7"},
		"zone of the link":       {"[fe80::1%eth0]:99", "", "fe80::1"},
		"zone does not un-trust": {"[fd00::1%eth0]:99", "192.0.2.7", "192.0.2.7"},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = c.peer
		if c.forwarded != "" {
			r.Header.Set("X-Forwarded-For", c.forwarded)
		}
		got := a.clientAddr(r)
		if got.IsValid() != (c.want != "") || got.IsValid() && got.String() != c.want {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
}

// A body that stalls is cut off, whether or not a handler reads it; one that moves may take its time, and so may a handler that has read it.
func TestSlowBodies(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t)
	post := func(path string, h handler) route {
		return route{method: "POST", path: path, policy: intake(), handle: h}
	}
	public := func(rt route) route { rt.policy.public = true; return rt }
	serve := func(stall time.Duration) *httptest.Server {
		a := *w.api
		a.Registerer, a.Gatherer = newRegistry()
		a.stall = stall
		return a.with(t,
			post("/refused", nil),
			public(post("/read", func(w http.ResponseWriter, r *http.Request) error {
				if _, err := decode.Body(r.Body, "", decode.Limits{}); err != nil {
					return err
				}
				select {
				case <-r.Context().Done():
					return r.Context().Err()
				case <-time.After(stall + stall/4):
					return empty(w)
				}
			})))
	}
	send := func(s *httptest.Server, path, body string, pause time.Duration) int {
		conn, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\n", path)
		for i := range body {
			time.Sleep(pause) // the pace is what is tested
			fmt.Fprint(conn, body[i:i+1])
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	hasty := serve(300 * time.Millisecond)
	if got := send(hasty, "/read", "ab", 0); got != 504 {
		t.Errorf("a body that stalls: %d", got)
	}
	if got := send(hasty, "/refused", "ab", 0); got != 401 {
		t.Errorf("a body that stalls and that nobody reads: %d", got)
	}
	const stall = 4 * time.Second // the whole body takes longer, but a pause of the machine between two bytes does not
	if got := send(serve(stall), "/read", "abcdefgh", stall/7); got != 204 {
		t.Errorf("a body that takes more than the stall time but moves: %d", got)
	}
}
