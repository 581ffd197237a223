package proxy

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
)

func TestHTTPS(t *testing.T) {
	trusted := Trusted{netip.MustParsePrefix("10.0.0.0/8")}
	for name, c := range map[string]struct {
		peer, proto string
		tls, want   bool
	}{
		"plain":                    {peer: "192.0.2.1:9"},
		"TLS to us":                {peer: "192.0.2.1:9", tls: true, want: true},
		"a proxy's word":           {peer: "10.1.2.3:9", proto: "https", want: true},
		"a proxy's, mapped":        {peer: "[::ffff:10.1.2.3]:9", proto: "HTTPS", want: true},
		"a proxy without TLS":      {peer: "10.1.2.3:9", proto: "http"},
		"anybody's word":           {peer: "192.0.2.1:9", proto: "https"},
		"an address we cannot see": {peer: "@", proto: "https"},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = c.peer
		r.Header.Set("X-Forwarded-Proto", c.proto)
		if c.tls {
			r.TLS = &tls.ConnectionState{}
		}
		if got := trusted.HTTPS(r); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestClient(t *testing.T) {
	trusted := Trusted{netip.MustParsePrefix("10.0.0.0/8")}
	for name, c := range map[string]struct{ peer, forwarded, want string }{
		"no proxy":           {"192.0.2.1:9", "1.1.1.1", "192.0.2.1"},
		"one proxy":          {"10.0.0.1:9", "1.1.1.1", "1.1.1.1"},
		"two proxies":        {"10.0.0.1:9", "9.9.9.9, 1.1.1.1, 10.0.0.2", "1.1.1.1"},
		"with a port":        {"10.0.0.1:9", "[2001:db8::1]:443", "2001:db8::1"},
		"nonsense in a hop":  {"10.0.0.1:9", "1.1.1.1, x", "10.0.0.1"},
		"only proxies there": {"10.0.0.1:9", "10.0.0.3, 10.0.0.2", "10.0.0.3"},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = c.peer
		r.Header.Set("X-Forwarded-For", c.forwarded)
		if got := trusted.Client(r).String(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
