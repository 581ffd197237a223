package rpc

import (
	"context"
	"errors"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest"
	"github.com/millstream/millstream/ingest/wal"
	"github.com/millstream/millstream/rpc/rpcpb"
)

// kindCodes is the table of kinds and codes, one to one. A status without a Fault in its details is not from the table: gRPC made it, or the handshake.
var kindCodes = [...]codes.Code{
	millstream.Internal:        codes.Internal,
	millstream.Invalid:         codes.InvalidArgument,
	millstream.Unauthenticated: codes.Unauthenticated,
	millstream.Forbidden:       codes.PermissionDenied,
	millstream.NotFound:        codes.NotFound,
	millstream.Conflict:        codes.Aborted,
	millstream.TooLarge:        codes.OutOfRange,
	millstream.Unsupported:     codes.Unimplemented,
	millstream.Unprocessable:   codes.FailedPrecondition,
	millstream.RateLimited:     codes.ResourceExhausted,
	millstream.Unavailable:     codes.Unavailable,
	millstream.Timeout:         codes.DeadlineExceeded,
	millstream.Canceled:        codes.Canceled,
}

func codeOf(k millstream.Kind) codes.Code {
	if int(k) >= len(kindCodes) {
		return codes.Internal
	}
	return kindCodes[k]
}

func kindOf(c codes.Code) millstream.Kind {
	for k, code := range kindCodes {
		if code == c {
			return millstream.Kind(k)
		}
	}
	return millstream.Internal
}

// maxText bounds each text of a Fault, so that an error always fits into a header.
const maxText = 2 << 10

func text(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), maxText)], "\uFFFD")
}

// toStatus readies an error for the hop: kind, message and what callers branch on.
func toStatus(err error) error {
	if err == nil {
		return nil
	}
	f := &rpcpb.Fault{
		UnknownOutcome: errors.Is(err, wal.ErrUnknown), Stale: errors.Is(err, ingest.ErrStale), NotReady: errors.Is(err, ingest.ErrNotReady), Fenced: errors.Is(err, ingest.ErrFenced),
		Cause: text(err.Error()),
	}
	var e *millstream.Error
	if errors.As(err, &e) {
		f.Message, f.Hint, f.Position, f.RetryAfter = text(e.Msg), text(e.Hint), uint32(max(e.Position, 0)), uint32(max(e.RetryAfter, 0))
	} else {
		f.Plain = true
	}
	s, derr := status.New(codeOf(millstream.KindOf(err)), text(millstream.Message(err))).WithDetails(f)
	if derr != nil { // a Fault always encodes
		return derr
	}
	return s.Err()
}

// remote is an error of another node: its text, and the sentinels it was made of.
type remote struct {
	text  string
	marks []error
}

func (r *remote) Error() string { return r.text }

func (r *remote) Unwrap() []error { return r.marks }

// fault finds what toStatus wrote into an error of a call.
func fault(err error) (*rpcpb.Fault, codes.Code) {
	s, ok := status.FromError(err)
	if !ok {
		return nil, codes.Unknown
	}
	for _, d := range s.Details() {
		if f, ok := d.(*rpcpb.Fault); ok {
			return f, s.Code()
		}
	}
	return nil, s.Code()
}

// fromFault is the error that a peer answered with.
func fromFault(peer string, f *rpcpb.Fault, code codes.Code) error {
	cause := &remote{text: peer + ": " + f.GetCause()}
	for _, m := range []struct {
		is   bool
		mark error
	}{{f.GetUnknownOutcome(), wal.ErrUnknown}, {f.GetStale(), ingest.ErrStale}, {f.GetNotReady(), ingest.ErrNotReady}, {f.GetFenced(), ingest.ErrFenced}} {
		if m.is {
			cause.marks = append(cause.marks, m.mark)
		}
	}
	kind := kindOf(code)
	switch {
	case !f.GetPlain():
		return &millstream.Error{Kind: kind, Msg: f.GetMessage(), Hint: f.GetHint(), Position: int(f.GetPosition()), RetryAfter: int(f.GetRetryAfter()), Err: cause}
	case kind == millstream.Timeout:
		cause.marks = append(cause.marks, context.DeadlineExceeded)
	case kind == millstream.Canceled:
		cause.marks = append(cause.marks, context.Canceled)
	}
	return cause
}

// fromStatus is the error of a call to a peer, as its caller may see it. ctx is the caller's.
func fromStatus(ctx context.Context, peer string, err error) error {
	if err == nil {
		return nil
	}
	f, code := fault(err)
	switch {
	case f != nil:
		return fromFault(peer, f, code)
	case refused(code):
		return millstream.Wrap(millstream.Unavailable, errors.Join(ErrRefused, err), "%s refuses the calls of this node: %s", peer, status.Convert(err).Message())
	case code == codes.Unimplemented:
		return millstream.Wrap(millstream.Unavailable, err, "%s does not know the call: it runs another release", peer)
	case ended(ctx) != nil:
		return &remote{text: "the call of " + peer + " ended: " + ended(ctx).Error(), marks: []error{ended(ctx)}}
	case code == codes.DeadlineExceeded:
		return millstream.Wrap(millstream.Unavailable, err, "%s did not answer in time", peer)
	}
	return &millstream.Error{Kind: millstream.Unavailable, Msg: peer + " cannot be reached", RetryAfter: 1, Err: err}
}

// ended is why a context has ended, if it has. A call can end by the deadline of its context before the context itself has noticed it.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if at, ok := ctx.Deadline(); ok && !time.Now().Before(at) {
		return context.DeadlineExceeded
	}
	return nil
}

// ErrRefused: the peer takes no call of this node, which has another token or speaks no protocol that it does.
var ErrRefused = errors.New("the peer refuses this node")

// refused says that a status without a Fault is the handshake's: the peer took nothing, and will not until somebody changes something.
func refused(code codes.Code) bool {
	return code == codes.Unauthenticated || code == codes.FailedPrecondition || code == codes.PermissionDenied
}
