package rpc

import (
	"context"
	"errors"
	"io"
	"net/http"

	"google.golang.org/grpc"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/rpc/rpcpb"
)

// ErrBegun marks an error of Forward that came when a part of the reply was written: nobody else may answer, and the client's connection must be cut, so that it
// does not take half a reply for the whole.
var ErrBegun = errors.New("the reply had begun")

// maxForward bounds the body of a request that is forwarded.
const maxForward = 16 << 20

// forwarded are the headers of a request that a querier needs. Credentials are not: the router has checked them.
var forwarded = map[string]bool{
	"Accept": true, "Accept-Encoding": true, "Accept-Language": true, "Content-Encoding": true, "Content-Type": true, "If-Match": true, "If-None-Match": true,
	"Last-Event-Id": true, "Prefer": true, "Range": true, "User-Agent": true, "X-Request-Id": true,
}

// Forward has the peer answer a request, as somebody whom it finds by PrincipalOf, and writes its reply to w as it comes. An error without ErrBegun means that
// nothing was written to w and another peer may be asked, with the request's body from its start again; the peer is Unavailable then, or r's context has ended.
// The X-Request-Id of r is the one under which the peer logs. What the peer's handler has to say against the request is no error but a reply. A reply may be silent for as long as it likes. The end of r's context ends the request there.
func (c *Client) Forward(w http.ResponseWriter, r *http.Request, principal []byte) error {
	body, err := readBody(r)
	if err != nil {
		return err
	}
	c.queries.Add(1)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	end := c.begin(r.Context(), "Query/Do")
	stream, err := c.query.Do(ctx, &rpcpb.HTTPRequest{
		Method: r.Method, Target: []byte(r.URL.RequestURI()), Headers: packed(r.Header, func(name string) bool { return !forwarded[name] }),
		Principal: principal, RemoteAddr: r.RemoteAddr, Body: body,
	})
	if err != nil {
		return end(err)
	}
	piece, err := stream.Recv()
	if err != nil {
		return end(cut(err))
	}
	begin(w, piece)
	werr, rerr := relay(w, piece, stream)
	err = end(rerr)
	if werr != nil {
		err = millstream.Wrap(millstream.Canceled, werr, "the client went away")
	}
	if err != nil {
		return &remote{text: err.Error(), marks: []error{err, ErrBegun}}
	}
	return nil
}

func readBody(r *http.Request) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxForward+1))
	if err != nil {
		return nil, err
	}
	if len(body) > maxForward {
		return nil, millstream.Errorf(millstream.TooLarge, "the body is larger than %d bytes", maxForward)
	}
	return body, nil
}

// begin writes status and headers. Those of the same name that are there already, of the router itself, give way.
func begin(w http.ResponseWriter, head *rpcpb.HTTPReply) {
	h := w.Header()
	for name, values := range headers(head.GetHeaders()) {
		h[name] = values
	}
	w.WriteHeader(int(head.GetStatus()))
}

// relay writes the pieces of a reply until the last one. It tells errors of the two sides apart.
func relay(w http.ResponseWriter, piece *rpcpb.HTTPReply, stream grpc.ServerStreamingClient[rpcpb.HTTPReply]) (writing, reading error) {
	control := http.NewResponseController(w)
	for {
		if _, err := w.Write(piece.GetBody()); err != nil && !errors.Is(err, http.ErrBodyNotAllowed) {
			return err, nil
		}
		if piece.GetLast() {
			for name, values := range headers(piece.GetTrailers()) {
				w.Header()[name] = values
			}
			_, _ = stream.Recv() // the end of the call; the reply is whole without it
			return nil, nil
		}
		if piece.GetFlush() {
			if err := control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
				return err, nil
			}
		}
		var err error
		if piece, err = stream.Recv(); err != nil {
			return nil, cut(err)
		}
	}
}

// cut is the error of a reply that ended before its last piece.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
