package api

import (
	"net/http"
	"net/netip"
	"strings"
)

// clientAddr is the address a request really comes from: the peer's, or, when the peer is a trusted proxy, the last address in X-Forwarded-For that is not one.
// What stands further left was written by whoever sent it and is not believed.
func (a *API) clientAddr(r *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	addr := peer.Addr().Unmap().WithZone("")
	if !a.trusted(addr) {
		return addr
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0; i-- {
		hop, ok := parseHop(strings.TrimSpace(hops[i]))
		if !ok {
			return addr
		}
		addr = hop
		if !a.trusted(hop) {
			return hop
		}
	}
	return addr
}

// parseHop reads an address, with a port as some proxies write it.
func parseHop(s string) (netip.Addr, bool) {
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return ap.Addr().Unmap().WithZone(""), true
	}
	a, err := netip.ParseAddr(strings.Trim(s, "[]"))
	return a.Unmap().WithZone(""), err == nil
}

func (a *API) trusted(addr netip.Addr) bool {
	for _, p := range a.TrustedProxies {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}
