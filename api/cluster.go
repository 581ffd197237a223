package api

import (
	"context"
	"net/http"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/auth"
)

// nodes is where the cluster's members are read. *store.Store fits.
type nodes interface {
	Nodes(ctx context.Context, silence time.Duration) ([]millstream.Member, error)
}

type nodeView struct {
	ID                  string        `json:"id"`
	Self                bool          `json:"self" doc:"it is the node that answers"`
	Roles               []string      `json:"roles"`
	State               string        `json:"state" doc:"up, silent (its heartbeats are late and it gets no work), draining, refused (it takes no call of the node that answers: another internal_token or release), or fenced (another process runs under its id)"`
	Version             string        `json:"version"`
	Address             string        `json:"address" doc:"of its internal listener"`
	Weight              float64       `json:"weight" doc:"in vCPU"`
	HeartbeatAgeSeconds float64       `json:"heartbeat_age_seconds" doc:"by the database's clock"`
	Since               stamp         `json:"since"`
	Incarnation         int64         `json:"incarnation" doc:"counts the starts of the node"`
	Load                *loadView     `json:"load,omitempty" doc:"absent while the node cannot be asked"`
	Traffic             []trafficView `json:"traffic,omitempty" doc:"what it sends to other nodes"`
}

type loadView struct {
	CPU              float64    `json:"cpu" doc:"CPUs in use"`
	MemoryBytes      int64      `json:"memory_bytes"`
	MemoryTotalBytes int64      `json:"memory_total_bytes,omitempty" doc:"that the node may use"`
	UnflushedBytes   int64      `json:"unflushed_bytes"`
	QueriesRunning   int        `json:"queries_running"`
	Rates            *ratesView `json:"rates,omitempty" doc:"since the node was asked before; absent when that was not within the last minute"`
}

type ratesView struct {
	RowsPerSecond         float64 `json:"rows_per_second" doc:"that its intake took"`
	StoredBytesPerSecond  float64 `json:"stored_bytes_per_second" doc:"written to the object store"`
	FetchedBytesPerSecond float64 `json:"fetched_bytes_per_second" doc:"read from the object store"`
}

type trafficView struct {
	To               string  `json:"to" doc:"id of the node"`
	WritesPerSecond  float64 `json:"writes_per_second"`
	QueriesPerSecond float64 `json:"queries_per_second"`
	BytesPerSecond   float64 `json:"bytes_per_second" doc:"in both directions"`
}

type nodesView struct {
	Nodes []nodeView `json:"nodes" doc:"by id"`
}

// What a node is, as others see it.
const (
	stateUp       = "up"
	stateSilent   = "silent"   // its heartbeats are late: it gets no work
	stateDraining = "draining" // it is leaving
	stateRefused  = "refused"  // it takes no call of the node that asks: another internal token, or a release too far away
	stateFenced   = "fenced"   // another process runs under its id: it takes no writes
)

const (
	// listedSilence is how long a node that sends no heartbeats stays in the list; its row is deleted then.
	listedSilence = 5 * time.Minute
	// defaultPeerTimeout is that of the configuration.
	defaultPeerTimeout = 15 * time.Second
)

func (a *API) clusterRoutes() []route {
	watching := administer(auth.Admin)
	watching.timeout = -1
	return []route{
		{method: "GET", path: v1 + "/cluster/nodes", policy: administer(auth.Admin), handle: a.listNodes, doc: operation{summary: "Nodes of the cluster", reply: nodesView{}}},
		{method: "GET", path: v1 + "/cluster/events", policy: watching, endless: true, handle: a.watchNodes,
			doc: operation{summary: "The nodes as server-sent events: an event \"nodes\" with what GET /cluster/nodes answers, on each change and every 5 seconds; an event \"trouble\" with an error while they cannot be read", replyType: "text/event-stream"}},
	}
}

func (a *API) listNodes(w http.ResponseWriter, r *http.Request) error {
	view, _, err := a.watched.now(r.Context(), a)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, view)
}

const (
	watchEvery = time.Second     // how often the nodes are looked at for a change
	watchSend  = 5 * time.Second // how often they are sent without one
	// watchFor ends the stream now and then: whoever watches comes back with his credential, which may have lost its rights.
	watchFor = 10 * time.Minute
)

// watchNodes streams the nodes until the client goes.
func (a *API) watchNodes(w http.ResponseWriter, r *http.Request) error {
	out := &eventStream{w: w, flush: http.NewResponseController(w).Flush}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	end := time.NewTimer(watchFor)
	defer end.Stop()
	var sent time.Time
	var last string
	for {
		view, shape, err := a.watched.now(r.Context(), a)
		if now := time.Now(); shape != last || now.Sub(sent) >= watchSend-watchEvery/2 {
			sent, last = now, shape
			if err := a.tellNodes(r, out, view, err); err != nil {
				return gone(err)
			}
		}
		select {
		case <-r.Context().Done():
			return context.Cause(r.Context())
		case <-end.C:
			return nil
		case <-tick.C:
		}
	}
}

func (a *API) tellNodes(r *http.Request, out *eventStream, view nodesView, failed error) error {
	if failed != nil {
		return out.event("trouble", errorBody{a.detail(callOf(r), failed)})
	}
	return out.event("nodes", view)
}
