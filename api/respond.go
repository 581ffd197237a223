package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/status"
)

// errorBody is how the API says that something went wrong.
type errorBody struct {
	Error errorDetail `json:"error"`
}

type errorDetail struct {
	Code      string `json:"code" doc:"machine-readable kind of the error"`
	Message   string `json:"message"`
	Hint      string `json:"hint,omitempty" doc:"what to do about it"`
	Position  int    `json:"position,omitempty" doc:"1-based character of the statement or body the message is about"`
	RequestID string `json:"request_id,omitempty" doc:"finds the request in the node's log"`
}

// errorShape is the error body of a product that a route imitates.
type errorShape func(r *http.Request, httpStatus int, detail errorDetail) (contentType string, body []byte)

// respond runs a handler and turns its error into the reply. It is the only place that does.
func (a *API) respond(h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			a.fail(w, r, err)
		}
	}
}

// fail writes the reply for an error. A reply that has begun cannot be taken back: then the connection is cut, so that no client takes half for the whole.
func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) {
	c := callOf(r)
	c.err = errors.Join(err, c.err)
	if out, ok := w.(*writer); ok && out.status != 0 {
		panic(http.ErrAbortHandler)
	}
	kind := millstream.KindOf(err)
	code := status.HTTP(kind)
	detail := a.detail(c, err)
	var special *statusError
	if errors.As(err, &special) {
		code = special.status
	}
	h := w.Header()
	if secs := status.RetryAfter(err); secs > 0 {
		h.Set("Retry-After", strconv.Itoa(secs))
	}
	if kind == millstream.Unauthenticated {
		h.Set("WWW-Authenticate", `Bearer realm="millstream"`)
	}
	contentType, body := a.shape(c, r)(r, code, detail)
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(code)
	_, _ = w.Write(body) // the client may be gone; there is nobody left to tell
}

// shape is that of the product whose API the request speaks, also where no route takes it.
func (a *API) shape(c *call, r *http.Request) errorShape {
	if c.route != nil && c.route.shape != nil {
		return c.route.shape
	}
	path := strings.TrimPrefix(r.URL.Path, a.BasePath)
	below := func(root string) bool { return path == root || strings.HasPrefix(path, root+"/") }
	switch {
	case below(elasticRoot):
		return elasticShape
	case below(otlpRoot), below("/v1/logs"), below("/v1/metrics"), below("/v1/traces"):
		return otlpShape
	}
	return ownShape
}

// detail is what may be said about an error.
func (a *API) detail(c *call, err error) errorDetail {
	kind := millstream.KindOf(err)
	d := errorDetail{Code: status.Code(kind), Message: strings.ToValidUTF8(millstream.Message(err), "\uFFFD"), RequestID: c.id}
	var e *millstream.Error
	if errors.As(err, &e) && kind != millstream.Internal {
		d.Hint, d.Position = strings.ToValidUTF8(e.Hint, "\uFFFD"), e.Position
	}
	return d
}

func ownShape(_ *http.Request, _ int, d errorDetail) (string, []byte) {
	body, _ := encode(errorBody{d}) // strings and a number always encode
	return "application/json", body
}

// reply renders a value as JSON.
func reply(w http.ResponseWriter, code int, v any) error {
	body, err := encode(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(code)
	_, err = w.Write(body)
	return gone(err)
}

// empty is the reply of a call that has nothing to say.
func empty(w http.ResponseWriter) error {
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// gone marks a failed write as what it is: the client went away.
func gone(err error) error {
	if err == nil {
		return nil
	}
	return millstream.Wrap(millstream.Canceled, err, "the client went away")
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // replies are never HTML: their content type says so, and nosniff holds browsers to it
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// statusError gives an error a status outside the table of kinds; the code in the reply stays the kind's.
type statusError struct {
	status int
	err    error
}

func (e *statusError) Error() string { return e.err.Error() }

func (e *statusError) Unwrap() error { return e.err }

func methodNotAllowed(w http.ResponseWriter, r *http.Request) error {
	var allowed []string
	ctx := chi.RouteContext(r.Context())
	for _, m := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"} {
		if ctx.Routes.Match(chi.NewRouteContext(), m, routePath(r)) {
			allowed = append(allowed, m)
		}
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	return &statusError{http.StatusMethodNotAllowed, &millstream.Error{Kind: millstream.Invalid, Msg: "method " + r.Method + " is not allowed here", Hint: "allowed: " + strings.Join(allowed, ", ")}}
}

// routePath is the path as the router sees it.
func routePath(r *http.Request) string {
	if r.URL.RawPath != "" {
		return r.URL.RawPath
	}
	return r.URL.Path
}
