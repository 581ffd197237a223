package api

import (
	"context"
	"math"
	"net/http"

	collogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	colmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip" // exporters compress with it
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest"
	"github.com/millstream/millstream/ingest/decode"
	"github.com/millstream/millstream/ingest/otlp"
	httpstatus "github.com/millstream/millstream/internal/status"
)

// GRPC is the OTLP gRPC server over the same credentials, limits and writer as the HTTP routes. Call it after Handler.
func (a *API) GRPC() *grpc.Server {
	l := a.Limits.WithDefaults()
	s := grpc.NewServer(
		grpc.MaxRecvMsgSize(int(min(l.MaxDecoded, math.MaxInt32))),
		grpc.MaxHeaderListSize(maxHeader),
		grpc.MaxConcurrentStreams(256),
		grpc.ConnectionTimeout(readHeaderTimeout),
		grpc.UnaryInterceptor(a.recoverGRPC),
	)
	collogs.RegisterLogsServiceServer(s, grpcLogs{a: a})
	colmetrics.RegisterMetricsServiceServer(s, grpcMetrics{a: a})
	coltrace.RegisterTraceServiceServer(s, grpcTraces{a: a})
	return s
}

type (
	grpcLogs struct {
		collogs.UnimplementedLogsServiceServer
		a *API
	}
	grpcMetrics struct {
		colmetrics.UnimplementedMetricsServiceServer
		a *API
	}
	grpcTraces struct {
		coltrace.UnimplementedTraceServiceServer
		a *API
	}
)

// Export implements the OTLP logs service.
func (s grpcLogs) Export(ctx context.Context, req *collogs.ExportLogsServiceRequest) (*collogs.ExportLogsServiceResponse, error) {
	res, err := s.a.export(ctx, func(stream string) (decode.Result, error) { return otlp.Logs(req, stream, s.a.Now(), s.a.Limits) })
	if err != nil {
		return nil, err
	}
	return otlp.LogsReply(res), nil
}

// Export implements the OTLP metrics service.
func (s grpcMetrics) Export(ctx context.Context, req *colmetrics.ExportMetricsServiceRequest) (*colmetrics.ExportMetricsServiceResponse, error) {
	res, err := s.a.export(ctx, func(string) (decode.Result, error) { return otlp.Metrics(req, s.a.Now(), s.a.Limits) })
	if err != nil {
		return nil, err
	}
	return otlp.MetricsReply(res), nil
}

// Export implements the OTLP trace service.
func (s grpcTraces) Export(ctx context.Context, req *coltrace.ExportTraceServiceRequest) (*coltrace.ExportTraceServiceResponse, error) {
	res, err := s.a.export(ctx, func(stream string) (decode.Result, error) { return otlp.Traces(req, stream, s.a.Now(), s.a.Limits) })
	if err != nil {
		return nil, err
	}
	return otlp.TracesReply(res), nil
}

// export is one OTLP call: who asks, decode, write.
func (a *API) export(ctx context.Context, convert func(stream string) (decode.Result, error)) (decode.Result, error) {
	res, err := a.exportResult(ctx, convert)
	if err != nil {
		return res, grpcError(err)
	}
	a.metrics.accepted.WithLabelValues("otlp_grpc").Add(float64(res.Accepted))
	a.metrics.rejected.WithLabelValues("otlp_grpc").Add(float64(res.Rejected))
	return res, nil
}

func (a *API) exportResult(ctx context.Context, convert func(stream string) (decode.Result, error)) (res decode.Result, err error) {
	md, _ := metadata.FromIncomingContext(ctx)
	first := func(key string) string {
		if v := md.Get(key); len(v) > 0 {
			return v[0]
		}
		return ""
	}
	principal, err := a.Auth.AuthenticateSender(ctx, first("authorization"), first("x-org-id"))
	if err != nil {
		return res, err
	}
	p := intake()
	if !principal.May(p.scope, p.role) {
		return res, forbidden(principal, p)
	}
	if err := a.withinRate(ctx, http.Header{}, principal.Org, p.rate); err != nil {
		return res, err
	}
	stream := first("stream-name")
	if stream == "" {
		stream = millstream.DefaultStream
	}
	if res, err = convert(stream); err != nil {
		return res, err
	}
	ctx, cancel := context.WithTimeout(ctx, defaultTimeout)
	defer cancel()
	_, err = a.Intake.Write(ctx, ingest.Write{Org: principal.Org, Batches: res.Batches})
	return res, err
}

// recoverGRPC answers Internal for a call that panicked; the cause goes to the log.
func (a *API) recoverGRPC(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (resp any, err error) {
	defer func() {
		if p := recover(); p != nil {
			a.metrics.panics.Inc()
			a.Log.ErrorContext(ctx, "a call panicked", "method", info.FullMethod, keyError, p)
			err = status.Error(codes.Internal, "internal error")
		}
	}()
	resp, err = next(ctx, req)
	if status.Code(err) == codes.Internal {
		a.Log.ErrorContext(ctx, "a call failed", "method", info.FullMethod, keyError, err)
	}
	return resp, err
}

var grpcCodes = map[millstream.Kind]codes.Code{
	millstream.Invalid: codes.InvalidArgument, millstream.Unauthenticated: codes.Unauthenticated, millstream.Forbidden: codes.PermissionDenied, millstream.NotFound: codes.NotFound,
	millstream.Conflict: codes.Aborted, millstream.TooLarge: codes.InvalidArgument, millstream.Unsupported: codes.InvalidArgument, millstream.Unprocessable: codes.FailedPrecondition,
	millstream.RateLimited: codes.ResourceExhausted, millstream.Unavailable: codes.Unavailable, millstream.Timeout: codes.DeadlineExceeded, millstream.Canceled: codes.Canceled,
}

// grpcError carries an error over the hop. OTLP exporters repeat ResourceExhausted only when told when, so that and Unavailable say it.
func grpcError(err error) error {
	code, ok := grpcCodes[millstream.KindOf(err)]
	if !ok {
		code = codes.Internal
	}
	s := status.New(code, millstream.Message(err))
	if secs := httpstatus.RetryAfter(err); secs > 0 {
		if with, derr := s.WithDetails(&errdetails.RetryInfo{RetryDelay: &durationpb.Duration{Seconds: int64(secs)}}); derr == nil {
			s = with
		}
	}
	return s.Err()
}
