package rpc

import (
	"context"
	"errors"
	"io"

	"github.com/millstream/millstream/rpc/rpcpb"
)

// leaves is what runs parts of queries; *query.Engine fits.
type leaves interface {
	Leaf(ctx context.Context, ask []byte, emit func(frame []byte) error) error
}

type leafServer struct {
	rpcpb.UnimplementedLeafServer
	s *Server
}

func (l *leafServer) Run(req *rpcpb.LeafRequest, stream rpcpb.Leaf_RunServer) error {
	if l.s.Leaves == nil {
		return l.s.lacks("querier")
	}
	ctx := stream.Context()
	var frame rpcpb.LeafFrame
	err := l.s.Leaves.Leaf(ctx, req.GetAsk(), func(b []byte) error {
		frame.Frame = b // encoded when Send returns
		return stream.Send(&frame)
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// Leaf is (*query.Engine).Leaf on the peer. An answer that breaks off is an error; the last frame says that it is complete.
func (c *Client) Leaf(ctx context.Context, ask []byte, emit func(frame []byte) error) error {
	call, cancel := context.WithCancel(ctx)
	defer cancel()
	end := c.begin(ctx, "Leaf/Run")
	stream, err := c.leaf.Run(call, &rpcpb.LeafRequest{Ask: ask})
	for err == nil {
		var f *rpcpb.LeafFrame
		if f, err = stream.Recv(); err != nil {
			break
		}
		if eerr := emit(f.GetFrame()); eerr != nil {
			_ = end(errAbandoned)
			return eerr
		}
	}
	if errors.Is(err, io.EOF) {
		return end(nil)
	}
	return end(err)
}
