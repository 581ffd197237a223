package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest/decode"
	"github.com/millstream/millstream/rpc"
)

// Peers are the other nodes of the cluster, as this one sees them.
type Peers struct {
	Live func(role string) []millstream.Member // those that are alive and carry the role, by id; it must not block
	To   func(millstream.Member) Peer

	turn atomic.Uint64 // of the queriers
}

// Peer is another node, asked over the internal listener. *rpc.Client fits.
type Peer interface {
	// Forward has a querier answer a request for the encoded principal. It writes the reply to w as it comes, flushed. An error before the head means that the
	// querier said nothing; one after it, that the rest of the reply is missing.
	Forward(w http.ResponseWriter, r *http.Request, principal []byte) error
	// Flush publishes what an intake had acknowledged before the call.
	Flush(ctx context.Context) error
	// Drain makes a node leave the cluster and stop; see API.Drain.
	Drain(ctx context.Context) error
	// Status is how the node is.
	Status(ctx context.Context) (rpc.Status, error)
}

// queriers are the live ones. Each call begins with the next one, so that they are asked in turn.
func (p *Peers) queriers() []millstream.Member {
	if p == nil {
		return nil
	}
	all := p.Live("querier")
	if len(all) == 0 {
		return nil
	}
	first := int(p.turn.Add(1) % uint64(len(all)))
	return slices.Concat(all[first:], all[:first])
}

// maxForwarded is the longest body that a forwarded route reads.
const maxForwarded = maxJSON

// keptHeaders are the headers of a request that say something to a querier. Credentials are not among them.
var keptHeaders = []string{"Accept", "Accept-Encoding", "Content-Encoding", "Content-Type", "Prefer", "User-Agent"}

var errNoQuerier = millstream.Errorf(millstream.Unavailable, "no querier node is available")

// forward has a querier answer. What it answers, errors included, is the answer; one that cannot be reached before its reply begins is passed over, for the
// next. A reply that breaks off later is an error, for which respond cuts the connection: nobody takes half an answer for the whole.
func (a *API) forward(w http.ResponseWriter, r *http.Request) error {
	// One byte beyond the limit goes along too, so that the querier refuses what is too long as it would if it had been asked itself.
	body, err := decode.Body(io.LimitReader(r.Body, maxForwarded+1), "", decode.Limits{MaxBody: maxForwarded + 1, MaxDecoded: maxForwarded + 1})
	if err != nil {
		return err
	}
	if out, ok := w.(*writer); ok {
		out.relayed = true
	}
	principal := who(r).Encode()
	var missed error
	for _, m := range a.Peers.queriers() {
		out := &relay{ResponseWriter: w, head: http.Header{}}
		err := a.Peers.To(m).Forward(out, a.passOn(r, body), principal)
		switch {
		case err == nil && out.began:
			a.metrics.forwarded[answered].Inc()
			return nil
		case out.began:
			a.metrics.forwarded[cut].Inc()
			return err
		case r.Context().Err() != nil:
			return context.Cause(r.Context())
		case err == nil:
			err = errors.New("the reply has no head")
		}
		a.metrics.missed.Inc()
		a.Log.Warn("a querier cannot be reached, the next one is asked", keyRequest, callOf(r).id, "node", m.ID, keyError, err)
		missed = errors.Join(missed, err)
	}
	a.metrics.forwarded[nobody].Inc()
	return millstream.Wrap(millstream.Unavailable, missed, "%s", millstream.Message(errNoQuerier))
}

// passOn is a request as a querier gets it: below the base path, under the same id.
func (a *API) passOn(r *http.Request, body []byte) *http.Request {
	c := callOf(r)
	base := strings.TrimSuffix(a.BasePath, "/")
	u := &url.URL{Path: strings.TrimPrefix(r.URL.Path, base), RawPath: strings.TrimPrefix(r.URL.RawPath, base), RawQuery: r.URL.RawQuery}
	out := request(r.Context(), r.Method, u, body)
	for _, name := range keptHeaders {
		if v := r.Header[name]; len(v) > 0 {
			out.Header[name] = v
		}
	}
	out.Header.Set("X-Request-Id", c.id)
	if c.addr.IsValid() {
		out.RemoteAddr = netip.AddrPortFrom(c.addr, 0).String()
	}
	return out
}

func request(ctx context.Context, method string, u *url.URL, body []byte) *http.Request {
	r := &http.Request{Method: method, URL: u, Header: http.Header{}, Body: http.NoBody, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	if len(body) > 0 {
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	return r.WithContext(ctx)
}

// relay passes a reply on. Before the head is there nothing reaches the client, so that another querier can be asked.
type relay struct {
	http.ResponseWriter
	head  http.Header // of this reply, until it began
	began bool
}

// Header is the reply's; once it has begun, what is set there are its trailers.
func (w *relay) Header() http.Header {
	if w.began {
		return w.ResponseWriter.Header()
	}
	return w.head
}

// WriteHeader begins the reply.
func (w *relay) WriteHeader(code int) {
	if w.began {
		return
	}
	h := w.ResponseWriter.Header()
	for name, values := range w.head {
		h[name] = values
	}
	w.began = true
	w.ResponseWriter.WriteHeader(code)
}

func (w *relay) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.ResponseWriter.Write(p)
}

// Flush sends what there is, so that a tail and the frames of a query arrive as they come.
func (w *relay) Flush() {
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w.ResponseWriter).Flush() // a broken connection shows at the next Write
}
