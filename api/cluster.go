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
	ID                  string   `json:"id"`
	Roles               []string `json:"roles"`
	State               string   `json:"state" doc:"up, silent or draining"`
	Version             string   `json:"version"`
	Address             string   `json:"address"`
	Weight              float64  `json:"weight" doc:"in vCPU"`
	HeartbeatAgeSeconds float64  `json:"heartbeat_age_seconds"`
	Since               stamp    `json:"since"`
}

type nodesView struct {
	Nodes []nodeView `json:"nodes"`
}

// What a node is, as others see it.
const (
	stateUp       = "up"
	stateSilent   = "silent"   // its heartbeats are late: it gets no work
	stateDraining = "draining" // it is leaving
	stateFenced   = "fenced"   // another process runs under its id: it takes no writes
)

const (
	// listedSilence is how long a node that sends no heartbeats stays in the list; its row is deleted then.
	listedSilence = 5 * time.Minute
	// upSilence is the silence after which no work is sent to a node.
	upSilence = 15 * time.Second
)

func (a *API) clusterRoutes() []route {
	return []route{{method: "GET", path: v1 + "/cluster/nodes", policy: need(auth.Administer, auth.Admin), handle: a.listNodes, doc: operation{summary: "Nodes of the cluster", reply: nodesView{}}}}
}

func (a *API) listNodes(w http.ResponseWriter, r *http.Request) error {
	members, err := a.Nodes.Nodes(r.Context(), listedSilence)
	if err != nil {
		return err
	}
	view := nodesView{Nodes: make([]nodeView, len(members))}
	for i, m := range members {
		age := max(a.Now().Sub(m.HeartbeatAt), 0)
		state := "up"
		switch {
		case m.Draining:
			state = "draining"
		case age > upSilence:
			state = "silent"
		}
		view.Nodes[i] = nodeView{ID: string(m.ID), Roles: m.Roles, State: state, Version: m.Version, Address: m.Addr, Weight: float64(m.MilliCPU) / 1000,
			HeartbeatAgeSeconds: age.Seconds(), Since: stamp{m.StartedAt}}
	}
	return reply(w, http.StatusOK, view)
}
