package clustertest

import (
	"context"
	"testing"
	"time"

	collogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/millstream/millstream/internal/mstest"
)

// A collector may send OTLP gRPC to a router or straight to any intake, with the same credentials; other nodes do not listen.
func TestOTLPToRoutersAndIntakes(t *testing.T) {
	c := small(t, mstest.ClusterOptions{}, "intake*2", "querier", "router")
	export := func(n *mstest.Node, token string) error {
		conn, err := grpc.NewClient(n.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token), time.Minute)
		defer cancel()
		body := &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: "over gRPC to " + n.ID}}
		_, err = collogs.NewLogsServiceClient(conn).Export(ctx, &collogs.ExportLogsServiceRequest{ResourceLogs: []*logs.ResourceLogs{{ScopeLogs: []*logs.ScopeLogs{{LogRecords: []*logs.LogRecord{{Body: body}}}}}}})
		return err
	}
	for _, n := range c.Nodes {
		if n.Has("querier") {
			if err := export(n, n.Token); status.Code(err) != codes.Unavailable {
				t.Errorf("%s: %v", n.ID, err)
			}
			continue
		}
		if err := export(n, n.Token); err != nil {
			t.Errorf("%s: %v", n.ID, err)
		}
		if err := export(n, "nobody's"); status.Code(err) != codes.Unauthenticated {
			t.Errorf("%s without a right: %v", n.ID, err)
		}
	}
	if got := c.Router().Count(`SELECT count(DISTINCT message) FROM "default"`); got != 3 {
		t.Errorf("%d records, want 3", got)
	}
}
