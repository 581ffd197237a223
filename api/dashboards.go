package api

import (
	"net/http"

	"github.com/millstream/millstream/dashboard"
	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/store"
)

type dashboardBody struct {
	Shared  bool                `json:"shared,omitempty" doc:"seen by the whole organization and changed by its editors"`
	Version *int64              `json:"version,omitempty" doc:"the version that is replaced, if not by If-Match; not when creating"`
	Body    dashboard.Dashboard `json:"body"`
}

type dashboardView struct {
	documentHead
	Body dashboard.Dashboard `json:"body"`
}

type dashboardSummary struct {
	Description string   `json:"description,omitempty"`
	Tags        []string `json:"tags,omitempty"`
	Folder      string   `json:"folder,omitempty"`
	Panels      int      `json:"panels"`
}

type listedDashboardView struct {
	documentHead
	Summary dashboardSummary `json:"summary"`
}

type dashboardsView struct {
	Dashboards []listedDashboardView `json:"dashboards"`
}

func (a *API) dashboardRoutes() []route {
	return a.documentRoutes(noun{
		kind: store.Dashboard, path: v1 + "/dashboards", list: "dashboards", least: auth.Editor, read: readDashboard,
		body: dashboardBody{}, one: dashboardView{}, many: dashboardsView{},
	})
}

func readDashboard(r *http.Request) (draft, error) {
	var in dashboardBody
	if err := read(r, &in); err != nil {
		return draft{}, err
	}
	if err := in.Body.Validate("body"); err != nil {
		return draft{}, err
	}
	return dashboardDraft(&in.Body, in.Shared, in.Version)
}

func dashboardDraft(d *dashboard.Dashboard, shared bool, version *int64) (draft, error) {
	return draftOf(d.Title, shared, version, dashboardSummary{d.Description, d.Tags, d.Folder, len(d.Panels)}, d)
}
