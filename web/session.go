package web

import (
	"context"
	"crypto/sha256"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/auth"
)

// The cookies, without the prefix that browsers enforce when they are Secure.
const (
	sessionCookie = "ms_session" // access token ~ refresh token
	formCookie    = "ms_form"    // secret of the forms' tokens
)

// setCookie sets a cookie that ends with the browser's session; the server ends it earlier when it must. An empty value deletes it.
func (p *Pages) setCookie(w http.ResponseWriter, r *http.Request, name, value string) {
	c := &http.Cookie{Name: p.cookieName(r, name), Value: value, Path: "/", HttpOnly: true, Secure: p.secure(r), SameSite: http.SameSiteLaxMode}
	if value == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

func (p *Pages) cookie(r *http.Request, name string) string {
	c, err := r.Cookie(p.cookieName(r, name))
	if err != nil {
		return ""
	}
	return c.Value
}

// cookieName has the prefix that binds a cookie to this host and to TLS. Plain HTTP cannot have it.
func (p *Pages) cookieName(r *http.Request, name string) string {
	if p.secure(r) {
		return "__Host-" + name
	}
	return name
}

// begin gives the browser the session of a sign-in.
func (p *Pages) begin(w http.ResponseWriter, r *http.Request, g auth.Grant) {
	p.setCookie(w, r, sessionCookie, g.Token+"~"+g.RefreshToken)
}

// who is whom the request's session belongs to, nil for strangers. org is the slug of the organization to work in; empty: the one chosen at sign-in.
// An access token that has expired is renewed on the way.
func (p *Pages) who(w http.ResponseWriter, r *http.Request, org string) (*auth.Principal, error) {
	if !p.mayTakeCookies(r) {
		return nil, nil
	}
	access, refresh, ok := strings.Cut(p.cookie(r, sessionCookie), "~")
	if !ok {
		return nil, nil
	}
	who, err := p.Auth.Authenticate(r.Context(), "Bearer "+access, org)
	if millstream.KindOf(err) == millstream.Unauthenticated {
		var g auth.Grant
		if g, err = p.renewals.renew(r.Context(), p.Auth, p.Now(), refresh, p.origin(r)); err == nil {
			p.begin(w, r, g)
			who, err = p.Auth.Authenticate(r.Context(), "Bearer "+g.Token, org)
		}
	}
	switch {
	case millstream.KindOf(err) == millstream.Unauthenticated:
		p.setCookie(w, r, sessionCookie, "")
		return nil, nil
	case millstream.KindOf(err) == millstream.Forbidden && org != "":
		return nil, millstream.Wrap(millstream.NotFound, err, "you belong to no organization %q", org)
	case err != nil:
		return nil, err
	case who.Session == "": // an API token is no session
		return nil, nil
	}
	return who, nil
}

// Session is the principal of a request of a page's script, which has the reader's cookie in place of a credential; nil: it has none. A request that changes
// something must come from a page of ours and carry its token, since browsers send cookies along with what other sites make them ask for.
func (p *Pages) Session(w http.ResponseWriter, r *http.Request) (*auth.Principal, error) {
	if p.cookie(r, sessionCookie) == "" {
		return nil, nil
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		err := p.origins.Check(r)
		if err != nil || !p.validToken(r, r.Header.Get("X-CSRF-Token")) {
			return nil, &millstream.Error{Kind: millstream.Forbidden, Msg: "the request does not come from a page of this node that is still good", Hint: "reload the page", Err: err}
		}
	} else if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		return nil, &millstream.Error{Kind: millstream.Forbidden, Msg: "the request comes from another site", Hint: "use an API token there"}
	}
	return p.who(w, r, r.Header.Get("X-Org-Id"))
}

func (p *Pages) origin(r *http.Request) auth.Origin {
	return auth.Origin{Addr: p.trusted.Client(r), Agent: r.UserAgent()}
}

// entry begins the audit entry of a change.
func (p *Pages) entry(w http.ResponseWriter, r *http.Request, who *auth.Principal, action string) auth.Entry {
	e := auth.Entry{At: p.Now(), Actor: who.Actor(), Action: action, Outcome: auth.OK, Request: w.Header().Get("X-Request-Id")}
	if who != nil {
		e.Org = who.Org
	}
	if a := p.trusted.Client(r); a.IsValid() {
		e.Address = a.String()
	}
	return e
}

const (
	renewFor   = 30 * time.Second // how long after a renewal the former cookie is still answered with it
	renewLimit = 10 * time.Second
	maxRecent  = 10_000
)

// renewals exchanges refresh tokens. One that is used twice ends its session, yet a browser with several tabs sends the same cookie several times at once, and
// again when it lost a reply; so a renewal is made once and handed to everybody who comes with the same cookie within half a minute.
type renewals struct {
	flight singleflight.Group
	mu     sync.Mutex
	recent map[auth.Hash]renewal // by the hash of the former refresh token; at most maxRecent
}

type renewal struct {
	grant auth.Grant
	at    time.Time
}

func (n *renewals) renew(ctx context.Context, s *auth.Service, now time.Time, refresh string, from auth.Origin) (auth.Grant, error) {
	key := sha256.Sum256([]byte(refresh))
	v, err, _ := n.flight.Do(string(key[:]), func() (any, error) {
		if g, ok := n.known(key, now); ok {
			return g, nil
		}
		// The renewal outlives the request that happens to make it for all.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), renewLimit)
		defer cancel()
		g, err := s.Refresh(ctx, refresh, "", from)
		if err == nil {
			n.keep(key, renewal{grant: g, at: now})
		}
		return g, err
	})
	if err != nil {
		return auth.Grant{}, err
	}
	return v.(auth.Grant), nil
}

func (n *renewals) known(key auth.Hash, now time.Time) (auth.Grant, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	got, ok := n.recent[key]
	return got.grant, ok && now.Sub(got.at) < renewFor
}

func (n *renewals) keep(key auth.Hash, made renewal) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for k, old := range n.recent {
		if made.at.Sub(old.at) >= renewFor {
			delete(n.recent, k)
		}
	}
	if len(n.recent) < maxRecent {
		n.recent[key] = made
	}
}
