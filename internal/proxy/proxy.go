// Package proxy finds out what a reverse proxy hides: where a request really comes from, and whether its sender used TLS.
package proxy

import (
	"net/http"
	"net/netip"
	"strings"
)

// Trusted are the networks of proxies whose X-Forwarded headers are believed.
type Trusted []netip.Prefix

// Client is the address a request really comes from: the peer's, or, when the peer is a trusted proxy, the last address in X-Forwarded-For that is not one.
// What stands further left was written by whoever sent it and is not believed. The zero Addr means that the peer is not known.
func (t Trusted) Client(r *http.Request) netip.Addr {
	addr := peer(r)
	if !t.has(addr) {
		return addr
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0; i-- {
		hop, ok := parseHop(strings.TrimSpace(hops[i]))
		if !ok {
			return addr
		}
		addr = hop
		if !t.has(hop) {
			return hop
		}
	}
	return addr
}

// HTTPS says whether the request came over TLS: to this process, or to a trusted proxy that says so in X-Forwarded-Proto.
func (t Trusted) HTTPS(r *http.Request) bool {
	return r.TLS != nil || t.has(peer(r)) && strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}

func (t Trusted) has(addr netip.Addr) bool {
	for _, p := range t {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

func peer(r *http.Request) netip.Addr {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap().WithZone("")
}

// parseHop reads an address, with a port as some proxies write it.
func parseHop(s string) (netip.Addr, bool) {
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return ap.Addr().Unmap().WithZone(""), true
	}
	a, err := netip.ParseAddr(strings.Trim(s, "[]"))
	return a.Unmap().WithZone(""), err == nil
}
