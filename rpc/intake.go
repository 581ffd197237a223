package rpc

import (
	"bytes"
	"context"

	"google.golang.org/grpc/metadata"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/rpc/rpcpb"
)

// intakeServer passes writes to the node's own intake.
type intakeServer struct {
	rpcpb.UnimplementedIntakeServer
	s *Server
}

// Write implements the service.
func (i *intakeServer) Write(ctx context.Context, req *rpcpb.WriteRequest) (*rpcpb.WriteReply, error) {
	if i.s.Intake == nil {
		return nil, i.s.lacks("intake")
	}
	if err := i.checkWAL(ctx); err != nil {
		return nil, err
	}
	batches := make([]*millstream.Batch, len(req.GetParts()))
	for n, p := range req.GetParts() {
		body := p.GetBatch() // a batch that came alone shares the request's memory; of several none must keep that of the others
		if len(batches) > 1 {
			body = bytes.Clone(body)
		}
		b, err := millstream.DecodeBatch(body)
		if err != nil {
			return nil, err
		}
		b.Org, b.Name = millstream.OrgID(p.GetOrg()), p.GetName()
		batches[n] = b
	}
	repeated, err := i.s.Intake.Write(ctx, batches...)
	if err != nil {
		return nil, err
	}
	return &rpcpb.WriteReply{Repeated: uint32(repeated)}, nil
}

// checkWAL refuses a write that is meant for another WAL than this node's: in it the batches may be already, and here nobody would know them.
func (i *intakeServer) checkWAL(ctx context.Context) error {
	md, _ := metadata.FromIncomingContext(ctx)
	for _, want := range md.Get(keyWAL) {
		if held := i.s.Intake.WAL(); millstream.WALID(want) != held {
			return millstream.Errorf(millstream.Unavailable, "node %s holds WAL %s, not %s", i.s.Node, held, want)
		}
	}
	return nil
}

// Flush implements the service.
func (i *intakeServer) Flush(ctx context.Context, _ *rpcpb.FlushRequest) (*rpcpb.FlushReply, error) {
	if i.s.Intake == nil {
		return nil, i.s.lacks("intake")
	}
	return &rpcpb.FlushReply{}, i.s.Intake.Flush(ctx)
}
