package web

import (
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"strings"

	"github.com/millstream/millstream/ui"
)

// hostForm is what is believed of a Host header: it goes into commands that readers paste into a shell.
var hostForm = regexp.MustCompile(`^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?$`)

// secure says whether the browser speaks TLS. A node whose external URL is https and that is asked by that name is behind a proxy that ends TLS.
func (p *Pages) secure(r *http.Request) bool {
	return p.trusted.HTTPS(r) || p.external != nil && p.external.Scheme == "https" && strings.EqualFold(r.Host, p.external.Host)
}

// mayTakeCookies says whether passwords and sessions may travel on this connection: over TLS, to this machine itself, or because the operator says so.
func (p *Pages) mayTakeCookies(r *http.Request) bool {
	return p.InsecureCookies || p.secure(r) || local(r.Host)
}

// refusal is why no password may be typed on this connection; empty: it may.
func (p *Pages) refusal(r *http.Request) string {
	if p.mayTakeCookies(r) {
		return ""
	}
	return "Everybody on the way could read it. Put a TLS proxy in front of the node and set [http].trusted_proxies; or open it through a tunnel (ssh -L 5080:localhost:5080 …) as http://localhost:5080; " +
		"or, in a network you trust, set [http].insecure_cookies = true (MS_HTTP_INSECURE_COOKIES=true)."
}

func local(host string) bool {
	name := hostname(host)
	if ip, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return ip.IsLoopback()
	}
	return strings.EqualFold(name, "localhost")
}

func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return host
}

// targets are the node's addresses as the reader sees them.
func (p *Pages) targets(r *http.Request, token string) ui.Targets {
	t := ui.Targets{Token: token}
	host := r.Host
	if p.external != nil {
		t.URL, host = strings.TrimSuffix(p.external.String(), "/"), p.external.Host
	} else {
		if !hostForm.MatchString(host) {
			host = "localhost"
		}
		scheme := "http://"
		if p.secure(r) {
			scheme = "https://"
		}
		t.URL = scheme + host + p.BasePath
	}
	if at, port, err := net.SplitHostPort(p.GRPC); err == nil && (at == "" || !local(at) || local(host)) {
		t.GRPC = net.JoinHostPort(strings.Trim(hostname(host), "[]"), port)
	}
	return t
}
