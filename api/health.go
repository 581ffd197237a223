package api

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/millstream/millstream"
)

// Check is one thing that must work for the node to be ready, or, if it is not Vital, one that the node can do without for a while: it is shown and the node stays
// ready. Its error's message is shown when its kind says that it may be.
type Check struct {
	Name  string
	Vital bool
	Run   func(ctx context.Context) error
}

const (
	checkTimeout = 2 * time.Second
	// readyFor is how long a readiness answer is given again without asking: anybody may ask as often as he likes.
	readyFor = time.Second
)

// readiness is the last answer; mu is held while the checks run, so that they run once however many ask.
type readiness struct {
	mu   sync.Mutex
	at   time.Time
	last readyView
}

type checkView struct {
	State   string `json:"state" doc:"ok or failing"`
	Message string `json:"message,omitempty"`
}

type readyView struct {
	Status string               `json:"status" doc:"ready, not_ready or draining"`
	Checks map[string]checkView `json:"checks"`
}

type aliveView struct {
	Status  string `json:"status"`
	Version string `json:"version"`
}

func (a *API) healthRoutes() []route {
	return []route{
		{method: "GET", path: v1 + "/healthz", policy: public(), handle: a.healthz, doc: operation{summary: "Whether the process lives", reply: aliveView{}}},
		{method: "GET", path: v1 + "/readyz", policy: public(), handle: a.readyz, doc: operation{summary: "Whether the node can work, with the state of each check; 503 when not", reply: readyView{}}},
		{method: "GET", path: "/metrics", policy: public(), handle: a.exposition(), doc: operation{summary: "The node's own metrics in the Prometheus text format", replyType: "text/plain"}},
	}
}

func (a *API) healthz(w http.ResponseWriter, _ *http.Request) error {
	return reply(w, http.StatusOK, aliveView{Status: "alive", Version: a.Version})
}

func (a *API) readyz(w http.ResponseWriter, r *http.Request) error {
	view := a.readiness(r.Context())
	if a.Draining != nil && a.Draining() {
		view.Status = stateDraining // it still serves what comes
	}
	if view.Status == "ready" {
		return reply(w, http.StatusOK, view)
	}
	w.Header().Set("Retry-After", "2")
	return reply(w, http.StatusServiceUnavailable, view)
}

func (a *API) readiness(ctx context.Context) readyView {
	a.ready.mu.Lock()
	defer a.ready.mu.Unlock()
	if now := a.Now(); now.Sub(a.ready.at) >= readyFor {
		a.ready.last = a.runChecks(context.WithoutCancel(ctx))
		a.ready.at = now
	}
	return a.ready.last
}

// CheckState is the outcome of a check.
type CheckState struct {
	Name    string
	OK      bool
	Message string // why not, as far as it may be shown
}

// CheckStates is what readyz would answer now, check by check. It may be called once the handler is built.
func (a *API) CheckStates(ctx context.Context) []CheckState {
	view := a.readiness(ctx)
	out := make([]CheckState, len(a.Checks))
	for i, c := range a.Checks {
		v := view.Checks[c.Name]
		out[i] = CheckState{Name: c.Name, OK: v.State == "ok", Message: v.Message}
	}
	return out
}

func (a *API) runChecks(ctx context.Context) readyView {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	errs := make([]error, len(a.Checks))
	var wg sync.WaitGroup
	for i, c := range a.Checks {
		wg.Go(func() { errs[i] = c.Run(ctx) })
	}
	wg.Wait()
	view := readyView{Status: "ready", Checks: map[string]checkView{}}
	for i, c := range a.Checks {
		if errs[i] == nil {
			view.Checks[c.Name] = checkView{State: "ok"}
			continue
		}
		a.Log.Warn("readiness check fails", "check", c.Name, keyError, errs[i])
		if c.Vital {
			view.Status = "not_ready"
		}
		view.Checks[c.Name] = checkView{State: "failing", Message: millstream.Message(errs[i])}
	}
	return view
}

// exposition serves the registry; compression is the frame's.
func (a *API) exposition() handler {
	h := promhttp.HandlerFor(a.Gatherer, promhttp.HandlerOpts{DisableCompression: true})
	return func(w http.ResponseWriter, r *http.Request) error {
		h.ServeHTTP(w, r)
		return nil
	}
}
