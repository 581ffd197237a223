// Package api is the HTTP API: a file per noun, one table of routes with their policies, and one place that turns an error into a reply.
//
// In a cluster the API is the same on every node that serves it: what takes a query engine is answered by a querier where there is none; see forward.go.
//
// A request passes the frame (request id, client address, headers, log, metrics, panics), the router, the guard of its route (credentials, policy, rate
// limit, time limit) and reaches a handler, which reads, calls once and renders. A route without a policy cannot be served: Handler refuses to build.
package api

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/cluster"
	"github.com/millstream/millstream/ingest/decode"
	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/query/promql"
	"github.com/millstream/millstream/rpc"
)

// v1 is the root of the API below the base path.
const v1 = "/api/v1"

// API serves the HTTP API. Its fields are set once, before Handler. Those that want a *query.Engine, and PromQL, are nil on a node without one; nil are also Intake
// and Flusher where a node takes no writes.
type API struct {
	Auth      *auth.Service
	Streams   streams        // ingest.Live
	Nodes     nodes          // *store.Store
	Placed    placed         // *store.Store
	Intake    intaker        // *ingest.Router
	Query     querier        // *query.Engine
	Queries   runningQueries // *query.Engine
	Metrics   metricReader   // *query.Engine
	Metadata  metadataReader // ingest.Live
	Explore   explorer       // *query.Engine
	Search    searcher       // *query.Engine
	Flusher   flusher        // *ingest.Writer
	Traces    tracer         // *query.Engine
	Finder    finder         // *store.Store
	Names     nameReader     // *query.Engine; nil: only what the database knows is found
	Documents documents      // *store.Store
	PromQL    *promql.API
	Peers     *Peers               // the other nodes; nil: the node is alone
	View      func() *cluster.View // who is there and owns segments; it must not block
	Limiter   limiter              // per organization and rate class; nil: no limits
	Checks    []Check              // what readyz asks
	// Drain makes this node leave the cluster, then finish its work and stop. It returns when the node has begun to; once more is no error.
	Drain    func(ctx context.Context) error
	Status   func() rpc.Status // how this node is
	Draining func() bool       // the node is about to stop: readyz says so, for load balancers; nil: never
	Limits   decode.Limits
	Session  func(http.ResponseWriter, *http.Request) (*auth.Principal, error) // of a web page's script; nil without an error: it has none
	Pages    func(http.ResponseWriter, *http.Request) error                    // answers what no route does, such as the web pages; nil: nothing does

	Log        *slog.Logger
	Registerer prometheus.Registerer
	Gatherer   prometheus.Gatherer // behind /metrics
	Now        func() time.Time

	Node           string         // this node's id
	PeerTimeout    time.Duration  // the silence after which a node gets no work; 0: 15 s
	BasePath       string         // path prefix of everything, such as /millstream
	TrustedProxies []netip.Prefix // whose X-Forwarded-For is believed
	Version        string

	metrics    *metrics
	unmatched  *meters // of requests that no route matched
	ready      *readiness
	names      *names
	watched    *watched
	simulating chan struct{} // holds a token while a simulation runs
	ending     *ending
	passed     func(context.Context) []byte // whom a request that another node passed on is for; nil: requests come from outside
	stall      time.Duration                // how long the other side of a connection may do nothing; 0: defaultStall
	spec       []byte                       // the OpenAPI document
}

// limiter says whether an organization may make one more request of a class, and else when. *RateLimiter fits.
type limiter interface {
	Allow(ctx context.Context, org millstream.OrgID, class string) RateVerdict
}

// routes is the whole API. A noun adds its list here.
func (a *API) routes() []route {
	var all []route
	for _, noun := range []func() []route{
		a.healthRoutes, a.authRoutes, a.tokenRoutes, a.organizationRoutes, a.userRoutes, a.auditRoutes, a.streamRoutes, a.clusterRoutes, a.ownershipRoutes, a.openapiRoutes,
		a.jsonRoutes, a.otlpRoutes, a.prometheusWriteRoutes, a.nodeRoutes, a.elasticRoutes, a.lokiRoutes,
		a.queryRoutes, a.promRoutes, a.exploreRoutes, a.searchRoutes, a.traceRoutes,
		a.viewRoutes, a.dashboardRoutes, a.preferenceRoutes, a.linkRoutes, a.findRoutes,
	} {
		all = append(all, noun()...)
	}
	return all
}

// Handler builds the API of a node that serves all of it.
func (a *API) Handler() (http.Handler, error) { return a.build(a.routes()) }

// HealthHandler builds what every other node answers: health, readiness and metrics, and nothing else.
func (a *API) HealthHandler() (http.Handler, error) {
	a.Pages = nil
	return a.build(a.healthRoutes())
}

// QueryHandler builds what a querier answers of the requests that other nodes pass on: the routes that take an engine, without the base path. principal gives
// whom a request is for, as auth.Principal.Encode wrote it; credentials and rates were checked where the request came in. A reply that broke after it had begun
// ends in a panic with http.ErrAbortHandler, and must be cut there.
func (a *API) QueryHandler(principal func(context.Context) []byte) (http.Handler, error) {
	a.shareEnding()
	q := *a
	q.passed, q.BasePath, q.TrustedProxies = principal, "", nil
	q.Peers, q.Limiter, q.Session, q.Pages = nil, nil, nil, nil
	return q.build(slices.DeleteFunc(q.routes(), func(rt route) bool { return rt.at == anywhere }))
}

func (a *API) build(routes []route) (http.Handler, error) {
	a.metrics, a.ready = newMetrics(a.Registerer, a.passed != nil), &readiness{}
	a.shareEnding()
	a.watched, a.simulating = &watched{}, make(chan struct{}, 1)
	a.names = &names{read: a.Names, log: a.Log, now: a.Now, orgs: map[millstream.OrgID]*orgNames{}}
	a.unmatched = a.metrics.of("unmatched", "other")
	for i := range routes {
		rt := &routes[i]
		rt.meters = a.metrics.of(rt.path, rt.method)
		if rt.at == onQuerier && a.Query == nil {
			rt.handle = a.forward
		}
	}
	if a.stall == 0 {
		a.stall = defaultStall
	}
	mux, err := a.mux(routes)
	if err != nil {
		return nil, err
	}
	if a.spec, err = openapi(routes, a.BasePath, a.Version); err != nil {
		return nil, err
	}
	return a.frame(mux), nil
}

// mux registers the routes. It fails for a route without a policy, so that nothing is ever open by omission.
func (a *API) mux(routes []route) (*chi.Mux, error) {
	base := strings.TrimSuffix(a.BasePath, "/")
	if base != "" && !strings.HasPrefix(base, "/") {
		return nil, fmt.Errorf("[http].base_path %q must begin with a slash", a.BasePath)
	}
	m := chi.NewRouter()
	m.NotFound(a.respond(a.elsewhere()))
	m.MethodNotAllowed(a.respond(methodNotAllowed))
	for i := range routes {
		rt := &routes[i]
		if err := rt.check(); err != nil {
			return nil, err
		}
		m.Method(rt.method, base+rt.path, a.respond(a.guard(rt)))
	}
	return m, nil
}

// elsewhere answers what is not the API's.
func (a *API) elsewhere() handler {
	if a.Pages == nil {
		return func(http.ResponseWriter, *http.Request) error { return errNothingHere }
	}
	return a.guard(&route{path: "pages", policy: public(), handle: a.Pages, meters: a.metrics.of("pages", "other")})
}

var errNothingHere = millstream.Errorf(millstream.NotFound, "there is nothing at this path")

// Limits of a connection. The body of a request may take as long as it likes while it moves; see body.go.
const (
	readHeaderTimeout = 5 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeader         = 16 << 10 // net/http adds up to two buffers of 4 KiB before it refuses
)

// Server is an HTTP server with the API's limits around a handler.
func Server(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(log.With("component", "http").Handler(), slog.LevelDebug),
	}
}

// handler reads, calls once and renders; an error becomes a reply in respond.go.
type handler func(w http.ResponseWriter, r *http.Request) error
