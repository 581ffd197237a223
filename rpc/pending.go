package rpc

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest"
	"github.com/millstream/millstream/rpc/rpcpb"
)

// pendingTimeout bounds the calls that ask for sums.
const pendingTimeout = 10 * time.Second

// Pending implements the service.
func (r *rowsServer) Pending(ctx context.Context, req *rpcpb.PendingRequest) (*rpcpb.PendingReply, error) {
	if r.s.Rows == nil {
		return nil, r.s.lacks("intake")
	}
	a := ingest.PendingAsk{WAL: millstream.WALID(req.GetWal()), Org: millstream.OrgID(req.GetOrg())}
	for _, id := range req.GetStreams() {
		a.Streams = append(a.Streams, millstream.StreamID(id))
	}
	pending, err := r.s.Rows.Pending(ctx, a)
	if err != nil {
		return nil, err
	}
	out := &rpcpb.PendingReply{}
	for id, p := range pending {
		ps := &rpcpb.PendingStream{Stream: string(id), Rows: p.Rows, Bytes: p.Bytes, MinTime: p.MinTime, MaxTime: p.MaxTime}
		for _, f := range p.Fields {
			pf := &rpcpb.Field{Name: []byte(f.Name), Type: uint32(f.Type), WideInt: f.WideInt, Conflict: f.Conflict}
			for _, t := range f.Seen {
				pf.Seen = append(pf.Seen, byte(t))
			}
			ps.Fields = append(ps.Fields, pf)
		}
		out.Streams = append(out.Streams, ps)
	}
	return out, nil
}

// Pending is (*ingest.Writer).Pending on the peer.
func (c *Client) Pending(ctx context.Context, a ingest.PendingAsk) (map[millstream.StreamID]ingest.Pending, error) {
	req := &rpcpb.PendingRequest{Wal: string(a.WAL), Org: string(a.Org)}
	for _, id := range a.Streams {
		req.Streams = append(req.Streams, string(id))
	}
	bounded, cancel := context.WithTimeout(ctx, pendingTimeout)
	defer cancel()
	end := c.begin(ctx, "Rows/Pending")
	reply, err := c.rows.Pending(bounded, req)
	if err := end(err); err != nil {
		return nil, err
	}
	out := make(map[millstream.StreamID]ingest.Pending, len(reply.GetStreams()))
	for _, ps := range reply.GetStreams() {
		p := ingest.Pending{Rows: ps.GetRows(), Bytes: ps.GetBytes(), MinTime: ps.GetMinTime(), MaxTime: ps.GetMaxTime()}
		for _, pf := range ps.GetFields() {
			f := millstream.Field{Name: string(pf.GetName()), Type: millstream.Type(pf.GetType()), WideInt: pf.GetWideInt(), Conflict: pf.GetConflict()}
			for _, t := range pf.GetSeen() {
				f.Seen = append(f.Seen, millstream.Type(t))
			}
			p.Fields = append(p.Fields, f)
		}
		out[millstream.StreamID(ps.GetStream())] = p
	}
	return out, nil
}

// Metadata implements the service.
func (r *rowsServer) Metadata(ctx context.Context, req *rpcpb.MetadataRequest) (*rpcpb.MetadataReply, error) {
	if r.s.Rows == nil {
		return nil, r.s.lacks("intake")
	}
	ms, err := r.s.Rows.Metadata(ctx, millstream.WALID(req.GetWal()), millstream.OrgID(req.GetOrg()))
	if err != nil {
		return nil, err
	}
	out := &rpcpb.MetadataReply{}
	for _, m := range ms {
		out.Metadata = append(out.Metadata, &rpcpb.MetricMetadata{Name: []byte(m.Name), Type: []byte(m.Type), Unit: []byte(m.Unit), Help: []byte(m.Help)})
	}
	return out, nil
}

// Metadata is (*ingest.Writer).Metadata on the peer.
func (c *Client) Metadata(ctx context.Context, id millstream.WALID, org millstream.OrgID) ([]millstream.Metadata, error) {
	bounded, cancel := context.WithTimeout(ctx, pendingTimeout)
	defer cancel()
	end := c.begin(ctx, "Rows/Metadata")
	reply, err := c.rows.Metadata(bounded, &rpcpb.MetadataRequest{Wal: string(id), Org: string(org)})
	if err := end(err); err != nil {
		return nil, err
	}
	var out []millstream.Metadata
	for _, m := range reply.GetMetadata() {
		out = append(out, millstream.Metadata{Name: string(m.GetName()), Type: string(m.GetType()), Unit: string(m.GetUnit()), Help: string(m.GetHelp())})
	}
	return out, nil
}

// Subscribe implements the service.
func (r *rowsServer) Subscribe(req *rpcpb.SubscribeRequest, stream grpc.ServerStreamingServer[rpcpb.SubscribeReply]) error {
	if r.s.Rows == nil {
		return r.s.lacks("intake")
	}
	buf := buffers{}.Get(0)
	defer func() { buffers{}.Put(buf) }()
	ctx, cancel := r.s.untilLeave(stream.Context())
	defer cancel()
	err := r.s.Rows.Subscribe(ctx, millstream.StreamID(req.GetStream()), func(t ingest.Tailed) error {
		reply := &rpcpb.SubscribeReply{Incarnation: t.Incarnation, Told: t.Told}
		if t.Batch != nil {
			*buf = t.Batch.AppendTo((*buf)[:0])
			reply.Batch = *buf // encoded when Send returns
		}
		return stream.Send(reply)
	})
	if gone := stream.Context().Err(); gone != nil {
		return gone
	}
	return err
}

// Subscribe is (*ingest.Writer).Subscribe on the peer. It returns nil if ctx ends, or the writer's life does; a connection that breaks is an error, after which
// what was missed shows in Told of the next subscription.
func (c *Client) Subscribe(ctx context.Context, stream millstream.StreamID, emit func(ingest.Tailed) error) error {
	call, cancel := context.WithCancel(ctx)
	defer cancel()
	end := c.begin(ctx, "Rows/Subscribe")
	events, err := c.rows.Subscribe(call, &rpcpb.SubscribeRequest{Stream: string(stream)})
	for err == nil {
		var reply *rpcpb.SubscribeReply
		if reply, err = events.Recv(); err != nil {
			break
		}
		told := ingest.Tailed{Incarnation: reply.GetIncarnation(), Told: reply.GetTold()}
		if p := reply.GetBatch(); len(p) > 0 {
			b, derr := millstream.DecodeBatch(p)
			if derr != nil {
				_ = end(errAbandoned)
				return derr
			}
			b.Stream, told.Batch = stream, b
		}
		if eerr := emit(told); eerr != nil {
			_ = end(errAbandoned)
			return eerr
		}
	}
	if errors.Is(err, io.EOF) || ctx.Err() != nil {
		_ = end(nil)
		return nil
	}
	return end(err)
}
