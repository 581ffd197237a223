package api

import (
	"net/http"

	"github.com/millstream/millstream/internal/auth"
)

type entryView struct {
	At      stamp          `json:"at"`
	Actor   string         `json:"actor" doc:"user:<e-mail>, token:<id>, system or anonymous"`
	Action  string         `json:"action"`
	Target  string         `json:"target,omitempty"`
	Outcome string         `json:"outcome" doc:"ok or refused"`
	Address string         `json:"address,omitempty"`
	Request string         `json:"request_id,omitempty"`
	Detail  map[string]any `json:"detail,omitempty"`
}

type auditView struct {
	Entries []entryView `json:"entries" doc:"newest first"`
}

const maxAudit = 1000

func (a *API) auditRoutes() []route {
	return []route{{method: "GET", path: v1 + "/audit", policy: need(auth.Administer, auth.Admin), handle: a.listAudit,
		doc: operation{summary: "Changes, and refused administrative calls", reply: auditView{}, query: []param{
			{"actor", "string", "only this actor"}, {"action", "string", "only this action"}, {"before", "string", "only entries before this time, to read on"}, {"limit", "integer", "1 to 1000, default 100"},
		}}}}
}

func (a *API) listAudit(w http.ResponseWriter, r *http.Request) error {
	before, err := queryTime(r, "before")
	if err != nil {
		return err
	}
	limit, err := queryInt(r, "limit", 100, maxAudit)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	all, err := a.Auth.Audit(r.Context(), who(r), auth.AuditFilter{Actor: q.Get("actor"), Action: q.Get("action"), Before: before, Limit: limit})
	if err != nil {
		return err
	}
	view := auditView{Entries: []entryView{}}
	for _, e := range all {
		view.Entries = append(view.Entries, entryView{At: stamp{e.At}, Actor: e.Actor, Action: e.Action, Target: e.Target, Outcome: e.Outcome, Address: e.Address, Request: e.Request, Detail: e.Detail})
	}
	return reply(w, http.StatusOK, view)
}
