package rpc

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest/wal"
	"github.com/millstream/millstream/rpc/rpcpb"
)

func TestProtocolsMustOverlap(t *testing.T) {
	for name, c := range map[string]struct {
		sent           string
		oldest, newest int
		refused        string
	}{
		"same":                    {"1-1", 1, 1, ""},
		"one number":              {"1", 1, 1, ""},
		"caller one ahead":        {"1-2", 1, 1, ""},
		"caller one behind":       {"1-1", 1, 2, ""},
		"caller has dropped ours": {"2-3", 1, 1, "speaks protocol 2 to 3 and this node 1:"},
		"we have dropped theirs":  {"0", 1, 2, "speaks protocol 0 and this node 1 to 2:"},
		"nothing sent":            {"", 1, 1, "names no protocol"},
		"nonsense":                {"new", 1, 1, "names no protocol"},
		"backwards":               {"2-1", 1, 1, "names no protocol"},
	} {
		err := checkProtocol(c.sent, c.oldest, c.newest)
		switch {
		case c.refused == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.refused != "" && (status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), c.refused)):
			t.Errorf("%s: %v, want FailedPrecondition and %q", name, err, c.refused)
		}
	}
}

// bare is a connection that sends only what the test says.
func bare(t *testing.T, addr string) rpcpb.IntakeClient {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return rpcpb.NewIntakeClient(conn)
}

func TestStrangersAreRefusedBeforeTheirBodyIsRead(t *testing.T) {
	const token = "0123456789abcdef0123456789abcdef"
	for name, c := range map[string]struct {
		token   string
		trusted bool
		sent    []string
		code    codes.Code
		says    string
	}{
		"right token":                {token, false, []string{keyToken, "Bearer " + token, keyProtocol, "1"}, codes.OK, ""},
		"no token":                   {token, false, []string{keyProtocol, "1"}, codes.Unauthenticated, "[cluster].internal_token must be set, and be the same, on all nodes"},
		"no token, trusted":          {token, true, []string{keyProtocol, "1"}, codes.Unauthenticated, "carries no token"},
		"wrong token":                {token, false, []string{keyToken, "Bearer " + token + "x", keyProtocol, "1"}, codes.Unauthenticated, "[cluster].internal_token must be the same on all nodes"},
		"empty token":                {token, false, []string{keyToken, "Bearer ", keyProtocol, "1"}, codes.Unauthenticated, "is not this cluster's"},
		"two tokens":                 {token, false, []string{keyToken, "Bearer x", keyToken, "Bearer " + token, keyProtocol, "1"}, codes.Unauthenticated, "carries no token"},
		"not a bearer":               {token, false, []string{keyToken, token, keyProtocol, "1"}, codes.Unauthenticated, "carries no token"},
		"no token set here":          {"", false, []string{keyToken, "Bearer ", keyProtocol, "1"}, codes.Unauthenticated, "or trusted_network"},
		"trusted":                    {"", true, []string{keyProtocol, "1"}, codes.OK, ""},
		"trusted, caller has one":    {"", true, []string{keyToken, "Bearer x", keyProtocol, "1"}, codes.OK, ""},
		"protocol of another age":    {token, false, []string{keyToken, "Bearer " + token, keyProtocol, "0"}, codes.FailedPrecondition, "speaks protocol 0 and this node 1:"},
		"no protocol":                {"", true, nil, codes.FailedPrecondition, "names no protocol"},
		"wrong token comes first":    {token, false, []string{keyToken, "Bearer x", keyProtocol, "0"}, codes.Unauthenticated, ""},
		"newer release that knows 1": {token, false, []string{keyToken, "Bearer " + token, keyProtocol, "1-2"}, codes.OK, ""},
	} {
		t.Run(name, func(t *testing.T) {
			reg := prometheus.NewRegistry()
			in := &fakeIntake{}
			addr := serveOn(t, &Server{Token: c.token, Trusted: c.trusted, Intake: in, Log: quietLog(), Registerer: reg})
			ctx := metadata.AppendToOutgoingContext(t.Context(), c.sent...)
			_, err := bare(t, addr).Write(ctx, &rpcpb.WriteRequest{Parts: []*rpcpb.Part{{Org: "o", Name: "s", Batch: logs(1, 1).AppendTo(nil)}}})
			if status.Code(err) != c.code || !strings.Contains(status.Convert(err).Message(), c.says) {
				t.Errorf("%v, want %v and %q", err, c.code, c.says)
			}
			if took := len(in.batches()) > 0; took != (c.code == codes.OK) {
				t.Errorf("the write was taken: %v", took)
			}
			want := 0.0
			if c.code != codes.OK {
				want = 1
			}
			if n := counted(t, reg, "millstream_rpc_server_refused_calls_total", c.code.String()); n != want {
				t.Errorf("%v refused calls counted, want %v", n, want)
			}
		})
	}
}

// TestARefusedNodeIsUnavailable: what the handshake says is the operator's affair. To the sender of a write the peer is just not there, and took nothing.
func TestARefusedNodeIsUnavailable(t *testing.T) {
	addr := serveOn(t, &Server{Token: "one", Intake: &fakeIntake{}, Log: quietLog()})
	c := clientsWith(t, ClientConfig{Token: "other"}).To(millstream.Member{ID: "peer", Addr: addr})
	_, err := c.Write(t.Context(), logs(100, 1))
	if millstream.KindOf(err) != millstream.Unavailable || errors.Is(err, wal.ErrUnknown) || !strings.Contains(millstream.Message(err), "internal_token must be the same") {
		t.Errorf("%v", err)
	}
	if _, err := c.Status(t.Context()); millstream.KindOf(err) != millstream.Unavailable || !errors.Is(err, ErrRefused) {
		t.Errorf("%v", err)
	}
	same := clientsWith(t, ClientConfig{Token: "one"}).To(millstream.Member{ID: "peer", Addr: addr})
	if _, err := same.Write(t.Context(), logs(100, 1)); err != nil {
		t.Errorf("with the same token: %v", err)
	}
}

func TestRefusedCallsAreLoggedOnce(t *testing.T) {
	var lines countingHandler
	addr := serveOn(t, &Server{Token: "one", Log: slog.New(&lines)})
	c := clientsWith(t, ClientConfig{Token: "other"}).To(millstream.Member{ID: "peer", Addr: addr})
	for range 20 {
		if _, err := c.Status(t.Context()); err == nil {
			t.Fatal("taken")
		}
	}
	if n := len(lines.got); n != 1 || !strings.Contains(lines.got[0], "self") {
		t.Errorf("%d lines: %q, want one that names the caller", n, lines.got)
	}
}

// countingHandler keeps the lines of a log. Its test reads them when nothing logs any more.
type countingHandler struct{ got []string }

func (h *countingHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }
func (h *countingHandler) WithAttrs([]slog.Attr) slog.Handler           { return h }
func (h *countingHandler) WithGroup(string) slog.Handler                { return h }
func (h *countingHandler) Handle(_ context.Context, r slog.Record) error {
	line := r.Message
	r.Attrs(func(a slog.Attr) bool { line += " " + a.String(); return true })
	h.got = append(h.got, line)
	return nil
}

func TestANodeLacksWhatItIsNot(t *testing.T) {
	c := connect(t, &Server{Log: quietLog()})
	for what, call := range map[string]func() error{
		"intake":            func() error { _, err := c.Write(t.Context(), logs(1, 1)); return err },
		"querier":           func() error { return c.Forward(nil, get("/"), nil) },
		"way to be drained": func() error { return c.Drain(t.Context()) },
	} {
		if err := call(); millstream.KindOf(err) != millstream.Unavailable || errors.Is(err, wal.ErrUnknown) || millstream.Message(err) != "node peer has no "+what {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestAnotherServiceIsNoNode(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	go func() { _ = g.Serve(l) }()
	defer g.Stop()
	c := clientsWith(t, ClientConfig{}).To(millstream.Member{ID: "peer", Addr: l.Addr().String()})
	if _, err := c.Status(t.Context()); millstream.KindOf(err) != millstream.Unavailable || !strings.Contains(err.Error(), "does not know the call") {
		t.Errorf("%v", err)
	}
}
