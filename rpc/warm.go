package rpc

import (
	"context"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/rpc/rpcpb"
)

// warmTimeout bounds an offer: a merge waits for it before it publishes.
const warmTimeout = 20 * time.Second

// warmer is what takes merged segments into the cache; *warm.Warmer fits.
type warmer interface {
	Push(ctx context.Context, s millstream.Segment) (accepted bool, err error)
}

// cacheServer answers for the segments that a querier keeps.
type cacheServer struct {
	rpcpb.UnimplementedCacheServer
	s *Server
}

// Warm implements the service.
func (c *cacheServer) Warm(ctx context.Context, r *rpcpb.WarmRequest) (*rpcpb.WarmReply, error) {
	if c.s.Cache == nil {
		return nil, c.s.lacks("cache of segments")
	}
	accepted, err := c.s.Cache.Push(ctx, millstream.Segment{
		ID: millstream.SegmentID(r.GetSegment()), Org: millstream.OrgID(r.GetOrg()), Stream: millstream.StreamID(r.GetStream()), Signal: millstream.Signal(r.GetSignal()),
		Data: extentOf(r.GetData()), Index: extentOf(r.GetIndex()),
	})
	return &rpcpb.WarmReply{Accepted: accepted}, err
}

// Push offers a merged segment to the peer, its owner, before it can be queried. It returns when the segment is in the peer's cache, or will not be: declined or
// failed, it is fetched when it is asked for.
func (c *Client) Push(ctx context.Context, s millstream.Segment) (accepted bool, err error) {
	bounded, cancel := context.WithTimeout(ctx, warmTimeout)
	defer cancel()
	end := c.begin(ctx, "Cache/Warm")
	r, err := c.cache.Warm(bounded, &rpcpb.WarmRequest{
		Segment: string(s.ID), Org: string(s.Org), Stream: string(s.Stream), Signal: uint32(s.Signal), Data: extentTo(s.Data), Index: extentTo(s.Index),
	})
	return r.GetAccepted(), end(err)
}

func extentOf(x *rpcpb.Extent) millstream.Extent {
	return millstream.Extent{Key: x.GetKey(), Offset: x.GetOffset(), Length: x.GetLength(), Checksum: x.GetChecksum()}
}

func extentTo(x millstream.Extent) *rpcpb.Extent {
	return &rpcpb.Extent{Key: x.Key, Offset: x.Offset, Length: x.Length, Checksum: x.Checksum}
}
