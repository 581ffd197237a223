package rpc

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest"
	"github.com/millstream/millstream/ingest/wal"
	"github.com/millstream/millstream/rpc/rpcpb"
)

// intake is what takes writes; *ingest.Writer fits.
type intake interface {
	Write(ctx context.Context, batches ...*millstream.Batch) (repeated int, err error)
	Flush(ctx context.Context) error
	WAL() millstream.WALID
}

// rows is what tells the unflushed rows of a WAL; *ingest.Writer fits.
type rows interface {
	Runs(ctx context.Context, a ingest.Ask, emit func(ingest.Run) error) (ingest.Reach, error)
	Pending(ctx context.Context, a ingest.PendingAsk) (map[millstream.StreamID]ingest.Pending, error)
	Metadata(ctx context.Context, id millstream.WALID, org millstream.OrgID) ([]millstream.Metadata, error)
	Subscribe(ctx context.Context, stream millstream.StreamID, emit func(ingest.Tailed) error) error
}

// Server answers the calls of other nodes. What is nil is answered with Unavailable: the node does not have it.
type Server struct {
	Token   string // what callers must show
	Trusted bool   // without a Token: take every call; else none is taken
	Node    millstream.NodeID
	Version string // of the release

	Intake intake
	Rows   rows
	Leaves leaves
	Cache  warmer
	Query  http.Handler // answers forwarded requests; PrincipalOf tells it who asks
	Drain  func(context.Context) error
	Status func() Status

	Log        *slog.Logger
	Registerer prometheus.Registerer

	metrics *instruments
	digest  [sha256.Size]byte // of Token
	warned  atomic.Int64      // when a refused call was last logged, ns
	leaving context.Context   // ends with Leave
	leave   context.CancelFunc
}

// GRPC is the server with its services. Call it once, when the fields are set.
func (s *Server) GRPC() *grpc.Server {
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	s.Log = s.Log.With("component", "rpc")
	s.metrics = newInstruments(s.Registerer, "server")
	s.digest = sha256.Sum256([]byte(s.Token))
	s.leaving, s.leave = context.WithCancel(context.Background())
	g := grpc.NewServer(
		grpc.InTapHandle(s.admit), // before the body is read: strangers cost no memory
		grpc.UnaryInterceptor(s.unary),
		grpc.StreamInterceptor(s.stream),
		grpc.ForceServerCodecV2(newCodec()),
		experimental.BufferPool(buffers{}),
		grpc.NumStreamWorkers(workers),
		grpc.ReadBufferSize(socketBuffer),
		grpc.WriteBufferSize(socketBuffer),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxSendMsgSize(maxMessage),
		grpc.MaxConcurrentStreams(maxCalls),
		grpc.MaxHeaderListSize(maxHeader),
		grpc.StaticStreamWindowSize(window),
		grpc.StaticConnWindowSize(windowAll),
		grpc.ConnectionTimeout(connectTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: keepaliveTime, Timeout: keepaliveTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepaliveTime / 2, PermitWithoutStream: true}),
	)
	rpcpb.RegisterIntakeServer(g, &intakeServer{s: s})
	rpcpb.RegisterRowsServer(g, &rowsServer{s: s})
	rpcpb.RegisterLeafServer(g, &leafServer{s: s})
	rpcpb.RegisterCacheServer(g, &cacheServer{s: s})
	rpcpb.RegisterQueryServer(g, &queryServer{s: s})
	rpcpb.RegisterNodeServer(g, &nodeServer{s: s})
	return g
}

// Leave ends the calls that would never end, as a node that stops must not wait for them: subscriptions, and replies that are event streams, whose readers come
// again and find another node. Other calls go on.
func (s *Server) Leave() { s.leave() }

// untilLeave ends a context when the node leaves.
func (s *Server) untilLeave(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.leaving, cancel)
	return ctx, func() { stop(); cancel() }
}

const (
	// workers are goroutines that answer calls one after the other, as a new goroutine would have to grow its stack first. Calls beyond these get their own.
	workers   = 64
	maxCalls  = 10_000   // of one peer: each live tail of a router's clients is one
	maxHeader = 16 << 10 // bytes of the metadata of a call
)

// admit is asked for every call as soon as its headers are there, on the connection's own goroutine.
func (s *Server) admit(ctx context.Context, info *tap.Info) (context.Context, error) {
	err := s.handshake(info.Header)
	if err == nil {
		return ctx, nil
	}
	s.metrics.refused.WithLabelValues(status.Code(err).String()).Inc()
	if now, last := time.Now().UnixNano(), s.warned.Load(); now-last > int64(warnEvery) && s.warned.CompareAndSwap(last, now) {
		s.Log.WarnContext(ctx, "calls of another node are refused", "node", caller(info.Header), "address", address(ctx), "error", status.Convert(err).Message())
	}
	return nil, err
}

// warnEvery spaces the warnings about refused calls.
const warnEvery = 10 * time.Second

func (s *Server) handshake(md metadata.MD) error {
	switch {
	case s.Token != "":
		if err := checkToken(md, s.digest); err != nil {
			return err
		}
	case !s.Trusted:
		return status.Error(codes.Unauthenticated, "this node has no token to compare: set [cluster].internal_token on all nodes, or trusted_network")
	}
	sent := ""
	if v := md.Get(keyProtocol); len(v) > 0 {
		sent = v[0]
	}
	return checkProtocol(sent, OldestProtocol, Protocol)
}

func caller(md metadata.MD) string {
	if v := md.Get(keyNode); len(v) > 0 {
		return text(v[0])
	}
	return ""
}

func address(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok {
		return p.Addr.String()
	}
	return ""
}

func (s *Server) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
	err = s.call(ctx, info.FullMethod, func() (err error) {
		resp, err = next(ctx, req)
		return err
	})
	return resp, err
}

func (s *Server) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	return s.call(ss.Context(), info.FullMethod, func() error { return next(srv, ss) })
}

// call runs a handler: it counts and logs, makes an error of a panic, and readies errors for the hop.
func (s *Server) call(ctx context.Context, method string, run func() error) (err error) {
	end := s.metrics.begin(method)
	err = recovered(run)
	out := toStatus(err)
	end(out)
	if err != nil {
		level := slog.LevelDebug
		if status.Code(out) == codes.Internal {
			level = slog.LevelError
		}
		md, _ := metadata.FromIncomingContext(ctx)
		s.Log.Log(ctx, level, "a call failed", "method", method, "node", caller(md), "error", err)
	}
	return out
}

// recovered makes an error of a panic. A write that panicked may have been logged.
func recovered(run func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = millstream.Wrap(millstream.Internal, errors.Join(wal.ErrUnknown, fmt.Errorf("panic: %v\n%s", p, debug.Stack())), "internal error")
		}
	}()
	return run()
}

// lacks is the answer of a node that does not have what was asked for.
func (s *Server) lacks(what string) error {
	return &millstream.Error{Kind: millstream.Unavailable, Msg: fmt.Sprintf("node %s has no %s", s.Node, what), RetryAfter: 1}
}
