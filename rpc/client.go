package rpc

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/stats"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest/wal"
	"github.com/millstream/millstream/rpc/rpcpb"
)

const (
	// connectTimeout is for a connection and its first frames.
	connectTimeout = 2 * time.Second
	// maxBackoff keeps the time short in which a peer that came back is still thought to be away.
	maxBackoff = 2 * time.Second
	// idleFor is after how long without a call the connection to a peer is closed, and what is known of the peer forgotten.
	idleFor = 5 * time.Minute
)

// ClientConfig says who calls.
type ClientConfig struct {
	Node       millstream.NodeID // this node
	Token      string            // [cluster].internal_token; "" on a trusted network without one
	Log        *slog.Logger
	Registerer prometheus.Registerer
}

// Clients are the connections of this node to its peers: one each. Make them with NewClients, and Close them.
type Clients struct {
	cfg      ClientConfig
	greeting greetings
	metrics  *instruments
	log      *slog.Logger
	stop     context.CancelFunc
	done     sync.WaitGroup

	mu      sync.Mutex
	clients map[target]*Client
}

type target struct {
	node millstream.NodeID
	addr string
}

// NewClients begins without any connection; the first call to a peer makes it.
func NewClients(cfg ClientConfig) *Clients {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	ctx, stop := context.WithCancel(context.Background())
	c := &Clients{
		cfg: cfg, greeting: greeting(cfg.Token, string(cfg.Node)), metrics: newInstruments(cfg.Registerer, "client"),
		log: cfg.Log.With("component", "rpc"), stop: stop, clients: map[target]*Client{},
	}
	c.done.Go(func() { c.watch(ctx) })
	return c
}

// Close ends every call and connection.
func (c *Clients) Close() {
	c.stop()
	c.done.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.clients {
		_ = p.conn.Close() // an error would say that it is closed
	}
	clear(c.clients)
}

// To is the client of a member. It costs little and connects to nothing: ask for it before each use, as members move and idle connections are closed.
func (c *Clients) To(m millstream.Member) *Client {
	t := target{m.ID, m.Addr}
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.clients[t]
	if p == nil {
		p = c.dial(t)
		c.clients[t] = p
	}
	p.used.Store(time.Now().UnixNano())
	return p
}

// list is every client at this time.
func (c *Clients) list() []*Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.clients))
}

// Traffic is what went to and came from one peer since it was first called.
type Traffic struct {
	Node            millstream.NodeID
	Addr            string
	Writes, Queries uint64
	Sent, Received  uint64 // bytes
}

// Traffic tells of every peer that was called in the last minutes, by id.
func (c *Clients) Traffic() []Traffic {
	var out []Traffic
	for _, p := range c.list() {
		out = append(out, Traffic{Node: p.node, Addr: p.addr, Writes: p.writes.Load(), Queries: p.queries.Load(), Sent: p.link.sent.Load(), Received: p.link.received.Load()})
	}
	slices.SortFunc(out, func(a, b Traffic) int { return strings.Compare(string(a.Node)+" "+a.Addr, string(b.Node)+" "+b.Addr) })
	return out
}

// Client calls one peer. Its methods are those of what they stand for on this node, and fail like those; a peer that cannot be reached is Unavailable.
type Client struct {
	node    millstream.NodeID
	addr    string
	peer    string // as messages name it
	conn    *grpc.ClientConn
	link    *link
	metrics *instruments
	limits  limits

	calls   atomic.Int64 // under way
	used    atomic.Int64 // when somebody last asked for the client, ns
	pinging atomic.Bool
	writes  atomic.Uint64
	queries atomic.Uint64

	intake rpcpb.IntakeClient
	rows   rpcpb.RowsClient
	leaf   rpcpb.LeafClient
	cache  rpcpb.CacheClient
	query  rpcpb.QueryClient
	status rpcpb.NodeClient
}

func (c *Clients) dial(t target) *Client {
	p := &Client{node: t.node, addr: t.addr, peer: fmt.Sprintf("node %s at %s", t.node, t.addr), link: &link{}, metrics: c.metrics, limits: limits{wal.MaxPayload, maxMessage}}
	conn, err := grpc.NewClient("passthrough:///"+t.addr, // the dialer resolves names, at each connection anew
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithPerRPCCredentials(c.greeting),
		grpc.WithContextDialer(p.link.dial),
		grpc.WithNoProxy(),
		grpc.WithStatsHandler(sentHandler{}),
		grpc.WithDisableServiceConfig(),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime, Timeout: keepaliveTimeout, PermitWithoutStream: true}),
		grpc.WithConnectParams(grpc.ConnectParams{
			MinConnectTimeout: connectTimeout, Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: maxBackoff},
		}),
		grpc.WithStaticStreamWindowSize(window),
		grpc.WithStaticConnWindowSize(windowAll),
		experimental.WithBufferPool(buffers{}),
		grpc.WithReadBufferSize(socketBuffer),
		grpc.WithWriteBufferSize(socketBuffer),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(newCodec()), grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)),
	)
	if err != nil { // the options contradict each other: they are the same for every peer
		panic(fmt.Sprintf("rpc: make a client: %v", err))
	}
	p.conn = conn
	p.leaf, p.cache = rpcpb.NewLeafClient(conn), rpcpb.NewCacheClient(conn)
	p.intake, p.rows, p.query, p.status = rpcpb.NewIntakeClient(conn), rpcpb.NewRowsClient(conn), rpcpb.NewQueryClient(conn), rpcpb.NewNodeClient(conn)
	return p
}

// Node is the id of the peer.
func (c *Client) Node() millstream.NodeID { return c.node }

// begin counts a call in. What it returns counts it out and makes the call's error one for the caller.
func (c *Client) begin(ctx context.Context, method string) (end func(error) error) {
	c.calls.Add(1)
	count := c.metrics.begin(method)
	return func(err error) error {
		c.calls.Add(-1)
		count(err)
		return fromStatus(ctx, c.peer, err)
	}
}

// greetings puts the handshake on each call.
type greetings map[string]string

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (g greetings) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return g, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials: the token protects from strangers on the network, who could not read what passes there.
func (greetings) RequireTransportSecurity() bool { return false }

type sentKey struct{}

// sentHandler notes for calls that want to know, whether anything of theirs was handed to a connection.
type sentHandler struct{}

// withSent makes a context that notes whether its call has handed a message to a connection.
func withSent(ctx context.Context) (context.Context, *atomic.Bool) {
	sent := new(atomic.Bool)
	return context.WithValue(ctx, sentKey{}, sent), sent
}

// TagRPC implements stats.Handler.
func (sentHandler) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements stats.Handler. gRPC queues a message for its connection as a whole and tells of it right after, on the caller's goroutine.
func (sentHandler) HandleRPC(ctx context.Context, s stats.RPCStats) {
	if _, ok := s.(*stats.OutPayload); !ok {
		return
	}
	if sent, ok := ctx.Value(sentKey{}).(*atomic.Bool); ok {
		sent.Store(true)
	}
}

// TagConn implements stats.Handler.
func (sentHandler) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (sentHandler) HandleConn(context.Context, stats.ConnStats) {}
