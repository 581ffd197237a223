package api

import (
	"net/http"
	"net/netip"

	"github.com/millstream/millstream/internal/proxy"
)

// clientAddr is the address a request really comes from.
func (a *API) clientAddr(r *http.Request) netip.Addr {
	return proxy.Trusted(a.TrustedProxies).Client(r)
}
