package api

import (
	"net/http"
	"net/netip"

	"github.com/millstream/millstream/internal/proxy"
)

// clientAddr is the address a request really comes from.
func (a *API) clientAddr(r *http.Request) netip.Addr {
	if a.passed != nil { // the node that passed the request on says whose it is
		addr, _ := netip.ParseAddr(r.Header.Get("X-Forwarded-For"))
		return addr
	}
	return proxy.Trusted(a.TrustedProxies).Client(r)
}
