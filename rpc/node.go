package rpc

import (
	"context"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/rpc/rpcpb"
)

// Status is what a node says of itself.
type Status struct {
	Node        millstream.NodeID
	Version     string // of the release
	Protocol    int    // the newest it speaks
	Incarnation int64
	Started     time.Time
	Draining    bool
	CPU         float64 // CPUs in use, a recent mean
	Memory      int64   // bytes
	Buffered    int64   // bytes of unflushed rows
	Queries     int     // that run now
	Traffic     []Traffic

	Fenced      bool   // another process runs under the node's id
	MemoryTotal int64  // bytes that the node may use
	Rows        uint64 // that its intake took since it started
	Stored      uint64 // bytes written to the object store since then
	Fetched     uint64 // bytes read from it

	Cached int64    // bytes that its segment cache holds
	Warm   *float64 // of the segments that it owns, those whose index is in there, in percent; nil: it does not know
}

// nodeServer answers for the process itself.
type nodeServer struct {
	rpcpb.UnimplementedNodeServer
	s *Server
}

// Ping implements the service.
func (n *nodeServer) Ping(context.Context, *rpcpb.PingRequest) (*rpcpb.PingReply, error) {
	return &rpcpb.PingReply{}, nil
}

// Status implements the service.
func (n *nodeServer) Status(context.Context, *rpcpb.StatusRequest) (*rpcpb.StatusReply, error) {
	var st Status
	if n.s.Status != nil {
		st = n.s.Status()
	}
	out := &rpcpb.StatusReply{
		Node: string(n.s.Node), Version: n.s.Version, Protocol: Protocol, Incarnation: st.Incarnation, Draining: st.Draining,
		Cpu: st.CPU, MemoryBytes: uint64(max(st.Memory, 0)), BufferedBytes: uint64(max(st.Buffered, 0)), Queries: uint32(max(st.Queries, 0)),
		Fenced: st.Fenced, MemoryTotalBytes: uint64(max(st.MemoryTotal, 0)), Rows: st.Rows, StoredBytes: st.Stored, FetchedBytes: st.Fetched,
		CachedBytes: uint64(max(st.Cached, 0)), WarmPercent: st.Warm,
	}
	if !st.Started.IsZero() {
		out.StartedNs = st.Started.UnixNano()
	}
	for _, t := range st.Traffic {
		out.Traffic = append(out.Traffic, &rpcpb.Traffic{Node: string(t.Node), Addr: t.Addr, Writes: t.Writes, Queries: t.Queries, SentBytes: t.Sent, ReceivedBytes: t.Received})
	}
	return out, nil
}

// Drain implements the service.
func (n *nodeServer) Drain(ctx context.Context, _ *rpcpb.DrainRequest) (*rpcpb.DrainReply, error) {
	if n.s.Drain == nil {
		return nil, n.s.lacks("way to be drained")
	}
	return &rpcpb.DrainReply{}, n.s.Drain(ctx)
}

// Status asks the peer how it is, for 2 s at most.
func (c *Client) Status(ctx context.Context) (Status, error) {
	bounded, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	end := c.begin(ctx, "Node/Status")
	r, err := c.status.Status(bounded, &rpcpb.StatusRequest{})
	if err := end(err); err != nil {
		return Status{}, err
	}
	st := Status{
		Node: millstream.NodeID(r.GetNode()), Version: r.GetVersion(), Protocol: int(r.GetProtocol()), Incarnation: r.GetIncarnation(), Draining: r.GetDraining(),
		CPU: r.GetCpu(), Memory: int64(r.GetMemoryBytes()), Buffered: int64(r.GetBufferedBytes()), Queries: int(r.GetQueries()),
		Fenced: r.GetFenced(), MemoryTotal: int64(r.GetMemoryTotalBytes()), Rows: r.GetRows(), Stored: r.GetStoredBytes(), Fetched: r.GetFetchedBytes(),
		Cached: int64(r.GetCachedBytes()), Warm: r.WarmPercent,
	}
	if ns := r.GetStartedNs(); ns != 0 {
		st.Started = time.Unix(0, ns)
	}
	for _, t := range r.GetTraffic() {
		st.Traffic = append(st.Traffic, Traffic{Node: millstream.NodeID(t.GetNode()), Addr: t.GetAddr(), Writes: t.GetWrites(), Queries: t.GetQueries(), Sent: t.GetSentBytes(), Received: t.GetReceivedBytes()})
	}
	return st, nil
}

// Drain tells the peer to leave the cluster. It returns when the peer has begun to, which Server.Drain decides.
func (c *Client) Drain(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	end := c.begin(ctx, "Node/Drain")
	_, err := c.status.Drain(bounded, &rpcpb.DrainRequest{})
	return end(err)
}
