package web

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/internal/status"
	"github.com/millstream/millstream/ui"
)

// render writes a whole page, or nothing.
func (p *Pages) render(w http.ResponseWriter, r *http.Request, code int, page templ.Component) error {
	var b bytes.Buffer
	if err := page.Render(r.Context(), &b); err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(b.Len()))
	h.Set("Content-Security-Policy", p.policy)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	// Not no-referrer: then browsers would send the forms with "Origin: null".
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=(), clipboard-write=(self)")
	if p.mayTakeCookies(r) {
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
	}
	w.WriteHeader(code)
	_, err := w.Write(b.Bytes())
	return gone(err)
}

// fail is the page for an error. It is the only place where one becomes a reply, apart from forms that are shown again.
func (p *Pages) fail(w http.ResponseWriter, r *http.Request, err error) {
	kind := millstream.KindOf(err)
	if kind == millstream.Canceled {
		return
	}
	p.logFailure(w, r, err)
	code := status.HTTP(kind)
	var method *methodError
	if errors.As(err, &method) {
		code = http.StatusMethodNotAllowed
		w.Header().Set("Allow", method.allowed)
	}
	frame := p.frame(nil, "")
	frame.Theme, frame.Density = look(r)
	n := ui.Notice{Frame: frame, Heading: heading(code), Text: millstream.Message(err), Hint: hint(err)}
	if code >= http.StatusInternalServerError {
		n.Request = w.Header().Get("X-Request-Id")
	}
	setRetry(w, err)
	if err := p.render(w, r, code, n.Page()); err != nil && millstream.KindOf(err) != millstream.Canceled {
		p.log.Error("a page could not be rendered", "page", "notice", "error", err)
		w.WriteHeader(http.StatusInternalServerError)
	}
}

// logFailure notes what is our fault; the frame around the pages logs the request itself.
func (p *Pages) logFailure(w http.ResponseWriter, r *http.Request, err error) {
	level := slog.LevelDebug
	switch millstream.KindOf(err) {
	case millstream.Internal:
		level = slog.LevelError
	case millstream.Unavailable, millstream.Timeout:
		level = slog.LevelWarn
	}
	p.log.Log(r.Context(), level, "page failed", "request", w.Header().Get("X-Request-Id"), "path", r.URL.Path, "error", err)
}

// problem prepares a form to be shown again: it logs what is our fault, sets what the reply's headers say of the error, and returns the status and what to tell.
func (p *Pages) problem(w http.ResponseWriter, r *http.Request, err error, field string) (int, *ui.Problem) {
	p.logFailure(w, r, err)
	setRetry(w, err)
	kind := millstream.KindOf(err)
	if kind == millstream.Unauthenticated {
		w.Header().Set("WWW-Authenticate", `Bearer realm="millstream"`)
	}
	return status.HTTP(kind), &ui.Problem{Field: field, Text: millstream.Message(err), Hint: hint(err)}
}

func setRetry(w http.ResponseWriter, err error) {
	if secs := status.RetryAfter(err); secs > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(secs))
	}
}

func hint(err error) string {
	var e *millstream.Error
	if !errors.As(err, &e) || e.Kind == millstream.Internal {
		return ""
	}
	if e.Kind == millstream.RateLimited && e.RetryAfter > 0 {
		return "try again in " + strconv.Itoa(e.RetryAfter) + " seconds"
	}
	return e.Hint
}

func heading(code int) string {
	switch code {
	case http.StatusNotFound:
		return "Not found"
	case http.StatusForbidden:
		return "Not allowed"
	case http.StatusUnauthorized:
		return "Not signed in"
	case http.StatusTooManyRequests:
		return "Too many requests"
	case http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return "Not available now"
	case http.StatusInternalServerError:
		return "Something went wrong"
	}
	return http.StatusText(code)
}

// frame is what the page shows around its content. org is the organization that the request named, to keep working in.
func (p *Pages) frame(who *auth.Principal, org string) ui.Frame {
	f := ui.Frame{Base: p.BasePath, Home: p.BasePath + "/", Version: p.Version, Org: org}
	if who != nil {
		f.Email, f.Org = who.Email, who.Slug
	}
	return f
}

// redirect sends the reader to a page of ours; browsers ask for it by GET.
func (p *Pages) redirect(w http.ResponseWriter, path string) error {
	w.Header().Set("Location", p.BasePath+path)
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// methodError is the one error with a status outside the table of kinds.
type methodError struct{ allowed string }

func (e *methodError) Error() string { return "allowed are " + e.allowed }

func (p *Pages) notAllowed(_ http.ResponseWriter, r *http.Request) error {
	cause := &methodError{allowed: strings.Join(p.methods(strings.TrimPrefix(r.URL.Path, p.BasePath)), ", ")}
	return millstream.Wrap(millstream.Invalid, cause, "this page does not take %s", r.Method)
}
