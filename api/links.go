package api

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/store"
)

// linkKeeper keeps states of pages that are too long for an address.
type linkKeeper interface {
	CreateLink(ctx context.Context, by store.Author, state json.RawMessage, a auth.Entry) (string, error)
	Link(ctx context.Context, org millstream.OrgID, id string, now time.Time) (json.RawMessage, error)
}

type linkBody struct {
	State pageState `json:"state" doc:"the parameters of the page's address: each a string, or an array of strings"`
}

type createdLinkView struct {
	ID string `json:"id" doc:"cannot be guessed; whoever belongs to the organization and has it can read the state"`
}

type linkView struct {
	ID    string    `json:"id"`
	State pageState `json:"state"`
}

func (a *API) linkRoutes() []route {
	return []route{
		{method: "POST", path: v1 + "/links", policy: need(auth.Query, auth.Viewer).audited("link.create"), handle: a.createLink,
			doc: operation{summary: "Keep a state that is too long for an address; it goes 90 days after its last use", body: linkBody{}, reply: createdLinkView{}, status: http.StatusCreated}},
		{method: "GET", path: v1 + "/links/{id}", policy: need(auth.Query, auth.Viewer), handle: a.getLink, doc: operation{summary: "The state behind a link", reply: linkView{}}},
	}
}

func (a *API) createLink(w http.ResponseWriter, r *http.Request) error {
	var in linkBody
	if err := read(r, &in); err != nil {
		return err
	}
	if len(in.State) == 0 {
		return millstream.Errorf(millstream.Invalid, "state is empty: there is nothing to keep")
	}
	if err := in.State.check("state"); err != nil {
		return err
	}
	state, err := encode(in.State) // maps are written in order, so that one state is one text
	if err != nil {
		return err
	}
	id, err := a.Documents.CreateLink(r.Context(), authorOf(r), state, entryOf(r, ""))
	if err != nil {
		return err
	}
	return reply(w, http.StatusCreated, createdLinkView{ID: id})
}

func (a *API) getLink(w http.ResponseWriter, r *http.Request) error {
	id, err := pathValue(r, "id")
	if err != nil {
		return err
	}
	state, err := a.Documents.Link(r.Context(), who(r).Org, id, a.Now())
	if err != nil {
		return err
	}
	view := linkView{ID: id}
	if err := json.Unmarshal(state, &view.State); err != nil {
		return err
	}
	return reply(w, http.StatusOK, view)
}
