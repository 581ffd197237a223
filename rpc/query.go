package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/rpc/rpcpb"
)

// queryServer runs forwarded requests through the node's own handler.
type queryServer struct {
	rpcpb.UnimplementedQueryServer
	s *Server
}

type principalKey struct{}

// PrincipalOf is what Client.Forward was given as the principal of a request that came from another node; nil for any other request.
func PrincipalOf(ctx context.Context) []byte {
	p, _ := ctx.Value(principalKey{}).([]byte)
	return p
}

// Do implements the service.
func (q *queryServer) Do(req *rpcpb.HTTPRequest, stream grpc.ServerStreamingServer[rpcpb.HTTPReply]) error {
	if q.s.Query == nil {
		return q.s.lacks("querier")
	}
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	r, err := request(ctx, req)
	if err != nil {
		return err
	}
	w := &replyWriter{ctx: stream.Context(), stream: stream, header: http.Header{}, next: &rpcpb.HTTPReply{}}
	w.endless = func() {
		stop := context.AfterFunc(q.s.leaving, cancel)
		context.AfterFunc(ctx, func() { stop() })
	}
	if err := serve(q.s.Query, w, r); err != nil {
		return err
	}
	return w.finish()
}

// serve runs a handler. One that aborts its reply, which is how a handler says that what it wrote so far must not pass for an answer, fails the call.
func serve(h http.Handler, w http.ResponseWriter, r *http.Request) (err error) {
	defer func() {
		p := recover()
		if e, ok := p.(error); ok && errors.Is(e, http.ErrAbortHandler) {
			err = millstream.Errorf(millstream.Unavailable, "the reply broke off")
		} else if p != nil {
			panic(p)
		}
	}()
	h.ServeHTTP(w, r)
	return nil
}

// request builds the request that a router had.
func request(ctx context.Context, req *rpcpb.HTTPRequest) (*http.Request, error) {
	u, err := url.ParseRequestURI(string(req.GetTarget()))
	if err != nil {
		return nil, millstream.Wrap(millstream.Invalid, err, "the target of a forwarded request cannot be read")
	}
	principal := req.GetPrincipal()
	if principal == nil {
		principal = []byte{} // it is a forwarded request all the same
	}
	r := &http.Request{
		Method: req.GetMethod(), URL: u, RequestURI: string(req.GetTarget()), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: headers(req.GetHeaders()), RemoteAddr: req.GetRemoteAddr(), Body: http.NoBody,
	}
	if body := req.GetBody(); len(body) > 0 {
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	return r.WithContext(context.WithValue(ctx, principalKey{}, principal)), nil
}

func headers(hs []*rpcpb.Header) http.Header {
	out := make(http.Header, len(hs))
	for _, h := range hs {
		values := make([]string, len(h.GetValues()))
		for i, v := range h.GetValues() {
			values[i] = string(v)
		}
		out[h.GetName()] = values
	}
	return out
}

// packed is a header in a fixed order, without the names that drop says.
func packed(h http.Header, drop func(name string) bool) []*rpcpb.Header {
	var out []*rpcpb.Header
	for _, name := range slices.Sorted(maps.Keys(h)) {
		if drop(name) {
			continue
		}
		p := &rpcpb.Header{Name: name}
		for _, v := range h[name] {
			p.Values = append(p.Values, []byte(v))
		}
		out = append(out, p)
	}
	return out
}

// maxPiece is how much of a reply is collected before it is sent without being flushed.
const maxPiece = 64 << 10

// replyWriter sends what a handler writes. It is for one goroutine at a time, as every http.ResponseWriter.
type replyWriter struct {
	ctx     context.Context
	stream  grpc.ServerStreamingServer[rpcpb.HTTPReply]
	header  http.Header
	endless func() // called if the reply is an event stream
	status  int
	next    *rpcpb.HTTPReply // the piece that is sent next, without its body
	body    []byte           // which is collected here
	err     error            // of the first send that failed
}

// Header implements http.ResponseWriter.
func (w *replyWriter) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *replyWriter) WriteHeader(code int) {
	if w.status != 0 || code < 200 { // of the informational ones a router's client has none
		return
	}
	if w.status = code; strings.HasPrefix(w.header.Get("Content-Type"), "text/event-stream") {
		w.endless()
	}
	w.next.Status = uint32(code)
	w.next.Headers = packed(w.header, func(name string) bool { return strings.HasPrefix(name, http.TrailerPrefix) || hop[name] })
}

// hop are headers of a connection, not of a reply.
var hop = map[string]bool{"Connection": true, "Keep-Alive": true, "Proxy-Connection": true, "Te": true, "Transfer-Encoding": true, "Upgrade": true}

// Write implements http.ResponseWriter. It waits while the reader is slow.
func (w *replyWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	for n := 0; n < len(p); {
		take := min(len(p)-n, maxPiece-len(w.body))
		w.body = append(w.body, p[n:n+take]...)
		n += take
		if len(w.body) == maxPiece {
			if err := w.send(); err != nil {
				return n, err
			}
		}
	}
	return len(p), w.err
}

// FlushError implements what http.ResponseController flushes by.
func (w *replyWriter) FlushError() error {
	w.WriteHeader(http.StatusOK)
	w.next.Flush = true
	return w.send()
}

// Flush implements http.Flusher.
func (w *replyWriter) Flush() { _ = w.FlushError() } // the error shows at the next Write

// SetReadDeadline is there for http.ResponseController: the whole request is here already.
func (w *replyWriter) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline is there for http.ResponseController: the router cuts off clients that stop reading, and with them this call.
func (w *replyWriter) SetWriteDeadline(time.Time) error { return nil }

// finish sends the rest and the trailers.
func (w *replyWriter) finish() error {
	w.WriteHeader(http.StatusOK)
	declared := map[string]bool{}
	for _, names := range w.header["Trailer"] {
		for name := range strings.SplitSeq(names, ",") {
			declared[http.CanonicalHeaderKey(strings.TrimSpace(name))] = true
		}
	}
	w.next.Last = true
	w.next.Trailers = packed(w.header, func(name string) bool { return !declared[name] && !strings.HasPrefix(name, http.TrailerPrefix) })
	return w.send()
}

// send passes the collected piece on.
func (w *replyWriter) send() error {
	if w.err != nil {
		return w.err
	}
	w.next.Body = w.body
	if err := w.stream.Send(w.next); err != nil {
		w.err = fmt.Errorf("send a reply to the router: %w", err)
		if w.ctx.Err() != nil {
			w.err = w.ctx.Err()
		}
	}
	w.next, w.body = &rpcpb.HTTPReply{}, w.body[:0] // Send has copied the body
	return w.err
}
