package api

import (
	"net/http"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/auth"
)

type newOrganizationBody struct {
	Slug string `json:"slug" doc:"short unique name, [A-Za-z0-9_.-]{1,128}"`
	Name string `json:"name,omitempty" doc:"default: the slug"`
}

type organizationPatchBody struct {
	Slug          *string `json:"slug,omitempty"`
	Name          *string `json:"name,omitempty"`
	RetentionDays *int    `json:"retention_days,omitempty" doc:"days records are kept; 0: the node's default"`
	IntakeQPS     *int    `json:"intake_qps,omitempty" doc:"intake requests per second; 0: the node's default"`
	QueryQPS      *int    `json:"query_qps,omitempty" doc:"queries per second; 0: the node's default"`
	QuotaBytes    *int64  `json:"quota_bytes,omitempty" doc:"stored bytes; 0: no quota"`
}

type organizationView struct {
	ID            string `json:"id"`
	Slug          string `json:"slug"`
	Name          string `json:"name"`
	RetentionDays int    `json:"retention_days"`
	IntakeQPS     int    `json:"intake_qps"`
	QueryQPS      int    `json:"query_qps"`
	QuotaBytes    int64  `json:"quota_bytes"`
	CreatedAt     stamp  `json:"created_at"`
}

type organizationsView struct {
	Organizations []organizationView `json:"organizations"`
}

func (a *API) organizationRoutes() []route {
	return []route{
		{method: "GET", path: v1 + "/organizations", policy: known(), handle: a.listOrganizations, doc: operation{summary: "Organizations you belong to", reply: organizationsView{}}},
		{method: "POST", path: v1 + "/organizations", policy: need(auth.Administer, auth.Owner).audited("organization.create"), handle: a.createOrganization,
			doc: operation{summary: "Create an organization; you become its owner", body: newOrganizationBody{}, reply: organizationView{}, status: http.StatusCreated}},
		{method: "GET", path: v1 + "/organizations/{id}", policy: known(), handle: a.getOrganization, doc: operation{summary: "The organization with its settings", reply: organizationView{}}},
		{method: "PATCH", path: v1 + "/organizations/{id}", policy: need(auth.Administer, auth.Admin).audited("organization.update"), handle: a.updateOrganization,
			doc: operation{summary: "Change settings: retention, rate limits, quotas", body: organizationPatchBody{}, reply: organizationView{}}},
		{method: "DELETE", path: v1 + "/organizations/{id}", policy: need(auth.Administer, auth.Owner).audited("organization.delete"), handle: a.deleteOrganization,
			doc: operation{summary: "Delete the organization with all its data"}},
	}
}

func (a *API) listOrganizations(w http.ResponseWriter, r *http.Request) error {
	all, err := a.Auth.Organizations(r.Context(), who(r))
	if err != nil {
		return err
	}
	view := organizationsView{Organizations: []organizationView{}}
	for _, o := range all {
		view.Organizations = append(view.Organizations, organizationOf(o))
	}
	return reply(w, http.StatusOK, view)
}

func (a *API) createOrganization(w http.ResponseWriter, r *http.Request) error {
	var in newOrganizationBody
	if err := read(r, &in); err != nil {
		return err
	}
	o, err := a.Auth.CreateOrganization(r.Context(), who(r), in.Slug, in.Name, entryOf(r, ""))
	if err != nil {
		return err
	}
	return reply(w, http.StatusCreated, organizationOf(o))
}

func (a *API) getOrganization(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "id")
	if err != nil {
		return err
	}
	o, err := a.Auth.Organization(r.Context(), who(r), millstream.OrgID(id))
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, organizationOf(o))
}

func (a *API) updateOrganization(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "id")
	if err != nil {
		return err
	}
	var in organizationPatchBody
	if err := read(r, &in); err != nil {
		return err
	}
	o, err := a.Auth.UpdateOrganization(r.Context(), who(r), millstream.OrgID(id), auth.OrganizationPatch(in), entryOf(r, ""))
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, organizationOf(o))
}

func (a *API) deleteOrganization(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "id")
	if err != nil {
		return err
	}
	if err := a.Auth.DeleteOrganization(r.Context(), who(r), millstream.OrgID(id), entryOf(r, "")); err != nil {
		return err
	}
	return empty(w)
}

func organizationOf(o auth.Organization) organizationView {
	return organizationView{ID: string(o.ID), Slug: o.Slug, Name: o.Name, RetentionDays: o.RetentionDays, IntakeQPS: o.IntakeQPS, QueryQPS: o.QueryQPS,
		QuotaBytes: o.QuotaBytes, CreatedAt: stamp{o.CreatedAt}}
}
