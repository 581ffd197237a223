package api

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/auth"
)

// call is what the frame knows of one request. It is made in frame and written by the request's own goroutine only.
type call struct {
	id        string
	start     time.Time
	addr      netip.Addr
	route     *route // nil: nothing matched
	principal *auth.Principal
	audited   bool  // an audit entry was made with the change
	err       error // what the reply was made from
	tag       []any // further attributes of the log line
}

type callKey struct{}

// callOf is the state of a request that came through the frame.
func callOf(r *http.Request) *call { return r.Context().Value(callKey{}).(*call) }

// who is the principal of a request whose route is not public.
func who(r *http.Request) *auth.Principal { return callOf(r).principal }

// Attribute keys of the request log.
const (
	keyRequest = "request"
	keyOrg     = "org"
	keyActor   = "actor"
	keyError   = "error"
)

// fixedHeaders are on every reply. The values are shared and never changed in place: a handler that wants another one sets it anew.
var fixedHeaders = []struct {
	name  string // in canonical form
	value []string
}{
	{"X-Content-Type-Options", []string{"nosniff"}},
	{"Cache-Control", []string{"no-store"}},
	{"Referrer-Policy", []string{"no-referrer"}},
	{"Content-Security-Policy", []string{"default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"}},
}

// frame surrounds the router: it gives each request an id, finds the client's address, sets the headers every reply has, and afterwards logs and counts.
func (a *API) frame(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &call{id: requestID(r), start: a.Now(), addr: a.clientAddr(r)}
		if a.passed != nil {
			c.tag = []any{"passed_on", true} // the node that the request came to logs it as well, under the same id
		}
		r = r.WithContext(context.WithValue(r.Context(), callKey{}, c))
		out := newWriter(w, r, a.stall)
		h := out.Header()
		h.Set("X-Request-Id", c.id)
		for _, f := range fixedHeaders {
			h[f.name] = f.value
		}
		a.metrics.inflight.Inc()
		guarded := guardBody(w, r, a.stall)
		r.Body, out.request = guarded, guarded
		defer func() {
			cut := a.recovered(out, r, recover())
			a.metrics.inflight.Dec()
			out.close()
			a.account(out, r, c)
			if cut {
				panic(http.ErrAbortHandler)
			}
		}()
		next.ServeHTTP(out, r)
	})
}

// recovered answers 500 for a handler that panicked. When the reply has begun it says that the connection must be cut instead, so that no client takes half a
// reply for the whole.
func (a *API) recovered(w *writer, r *http.Request, p any) (cut bool) {
	if p == nil {
		return false
	}
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		return true
	}
	a.metrics.panics.Inc()
	err := fmt.Errorf("panic: %v\n%s", p, bytes.TrimSpace(debug.Stack()))
	if w.status != 0 {
		callOf(r).err = err
		return true
	}
	a.fail(w, r, err)
	return false
}

// account logs and counts a finished request.
func (a *API) account(w *writer, r *http.Request, c *call) {
	took := a.Now().Sub(c.start)
	status := w.status
	if status == 0 {
		status = http.StatusOK
	}
	meters, pattern := a.unmatched, "unmatched"
	if c.route != nil {
		meters, pattern = c.route.meters, c.route.path
	}
	meters.requests[min(status/100, len(meters.requests)-1)].Inc()
	meters.seconds.Observe(took.Seconds())
	level := a.levelOf(c, status)
	if !a.Log.Enabled(r.Context(), level) {
		return
	}
	args := []any{keyRequest, c.id, "method", r.Method, "route", pattern, "status", status, "bytes", w.written, "took", took, "client", c.addr}
	if c.principal != nil {
		args = append(args, keyOrg, c.principal.Slug, keyActor, c.principal.Actor())
	}
	if c.err != nil {
		args = append(args, keyError, c.err)
	}
	a.Log.Log(r.Context(), level, "request", append(args, c.tag...)...)
}

// levelOf keeps what happens many times a second out of the log at the usual level, and puts what is our fault where it is seen.
func (a *API) levelOf(c *call, status int) slog.Level {
	switch {
	case status >= 500 && millstream.KindOf(c.err) == millstream.Internal:
		return slog.LevelError
	case status >= 500:
		return slog.LevelWarn
	case status < 400 && (c.route == nil || c.route.policy.rate == rateIntake || c.route.policy.public):
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// guard is what stands before a route's handler: credentials, policy, rate limit, time limit; and after it, the audit entry of a change that made none itself.
func (a *API) guard(rt *route) handler {
	timeout := rt.policy.timeout
	if timeout == 0 {
		timeout = defaultTimeout
	}
	handle := rt.handle
	if rt.endless {
		handle = a.ending.bound(handle)
	}
	return func(w http.ResponseWriter, r *http.Request) error {
		c := callOf(r)
		c.route = rt
		if timeout > 0 {
			ctx, cancel := context.WithTimeout(r.Context(), timeout)
			defer cancel()
			r = r.WithContext(ctx)
		}
		if !rt.policy.public {
			if err := a.admit(w, r, c, rt.policy); err != nil {
				return err
			}
		}
		err := handle(w, r)
		if rt.policy.action == "" {
			return err
		}
		switch {
		case err == nil && !c.audited:
			a.record(r, entryOf(r, ""))
		case millstream.KindOf(err) == millstream.Forbidden:
			a.refused(r, rt.policy)
		}
		return err
	}
}

// admit finds out who asks and whether they may.
func (a *API) admit(w http.ResponseWriter, r *http.Request, c *call, p policy) error {
	principal, err := a.principal(w, r, p.scope == auth.Intake)
	if err != nil {
		return err
	}
	c.principal = principal
	if principal.Degraded && p.scope != auth.Intake {
		return millstream.Errorf(millstream.Unavailable, "rights cannot be confirmed now: the database does not answer")
	}
	if !p.allows(principal) {
		if p.scope == auth.Administer {
			a.refused(r, p)
		}
		return forbidden(principal, p)
	}
	return a.withinRate(r.Context(), w.Header(), principal.Org, p.rate)
}

// principal is whom a request's credential belongs to, or the session of the page whose script made it.
func (a *API) principal(w http.ResponseWriter, r *http.Request, sends bool) (*auth.Principal, error) {
	if a.passed != nil {
		return auth.DecodePrincipal(a.passed(r.Context()))
	}
	credential := r.Header.Get("Authorization")
	if credential == "" && a.Session != nil {
		if p, err := a.Session(w, r); p != nil || err != nil {
			return p, err
		}
	}
	authenticate := a.Auth.Authenticate
	if sends {
		authenticate = a.Auth.AuthenticateSender
	}
	return authenticate(r.Context(), credential, r.Header.Get("X-Org-Id"))
}

// withinRate counts a request of a rate class against the organization's limit, of which the reply's headers tell.
func (a *API) withinRate(ctx context.Context, h http.Header, org millstream.OrgID, class string) error {
	if a.Limiter == nil || class == "" {
		return nil
	}
	v := a.Limiter.Allow(ctx, org, class)
	seconds := int((v.Reset + time.Second - 1) / time.Second)
	if v.Limit > 0 {
		h.Set("RateLimit-Limit", strconv.Itoa(v.Limit))
		h.Set("RateLimit-Remaining", strconv.Itoa(v.Remaining))
		h.Set("RateLimit-Reset", strconv.Itoa(seconds))
	}
	if !v.OK {
		a.metrics.limited.WithLabelValues(class).Inc()
		return &millstream.Error{Kind: millstream.RateLimited, Msg: fmt.Sprintf("the organization's limit of %s requests is reached", class), RetryAfter: max(seconds, 1)}
	}
	return nil
}

func forbidden(p *auth.Principal, need policy) error {
	if p.Scopes&need.scope == 0 {
		return &millstream.Error{Kind: millstream.Forbidden, Msg: fmt.Sprintf("the API token lacks the scope %q", need.scope), Hint: "use a token with that scope"}
	}
	if need.whole {
		return &millstream.Error{Kind: millstream.Forbidden, Msg: fmt.Sprintf("this concerns the installation as a whole: it needs the role %q in the organization that looks after it", need.role),
			Hint: "ask an owner or admin of the organization that was set up first"}
	}
	return &millstream.Error{Kind: millstream.Forbidden, Msg: fmt.Sprintf("this needs the role %q, yours is %q", need.role, p.Role),
		Hint: "ask an owner or admin of the organization"}
}

// entryOf begins the audit entry of the change a route makes. Whoever asks for it writes it with the change, so the guard does not write one of its own.
func entryOf(r *http.Request, target string) auth.Entry {
	c := callOf(r)
	c.audited = true
	e := auth.Entry{At: c.start, Actor: c.principal.Actor(), Action: c.route.policy.action, Target: target, Outcome: auth.OK, Request: c.id}
	if c.principal != nil {
		e.Org = c.principal.Org
	}
	if c.addr.IsValid() {
		e.Address = c.addr.String()
	}
	return e
}

// refused records that somebody known was refused an administrative call.
func (a *API) refused(r *http.Request, p policy) {
	e := entryOf(r, r.URL.Path)
	e.Outcome = auth.Refused
	if e.Action == "" {
		e.Action = "admin." + strings.ToLower(r.Method)
	}
	a.record(r, e)
}

// record writes an audit entry that belongs to no transaction, also when the client has gone.
func (a *API) record(r *http.Request, e auth.Entry) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), 5*time.Second)
	defer cancel()
	if err := a.Auth.Record(ctx, e); err != nil {
		c := callOf(r)
		c.err = errors.Join(c.err, fmt.Errorf("write the audit entry: %w", err))
	}
}

// requestID takes over an id that a proxy gave, if it is harmless, else makes one.
func requestID(r *http.Request) string {
	id := r.Header.Get("X-Request-Id")
	if n := len(id); n > 0 && n <= 64 && strings.IndexFunc(id, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.'
	}) < 0 {
		return id
	}
	var b [12]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
