package api

import (
	"net/http"
	"slices"

	"github.com/millstream/millstream/internal/auth"
)

type newTokenBody struct {
	Name      string   `json:"name"`
	Scopes    []string `json:"scopes" doc:"of intake, query, admin; no more than you have yourself"`
	ExpiresAt *stamp   `json:"expires_at,omitempty" doc:"absent: never"`
}

type tokenView struct {
	ID         string   `json:"id" doc:"the 8 characters after ms_"`
	Token      string   `json:"token,omitempty" doc:"shown once, in the reply that creates it"`
	Name       string   `json:"name"`
	Scopes     []string `json:"scopes"`
	Owner      string   `json:"owner,omitempty" doc:"e-mail of whoever made it; its rights never exceed theirs, except that intake goes on when they leave"`
	CreatedAt  stamp    `json:"created_at"`
	ExpiresAt  stamp    `json:"expires_at,omitzero"`
	LastUsedAt stamp    `json:"last_used_at,omitzero" doc:"to the minute"`
}

type tokensView struct {
	Tokens []tokenView `json:"tokens"`
}

func (a *API) tokenRoutes() []route {
	return []route{
		{method: "GET", path: v1 + "/auth/tokens", policy: need(auth.Administer, auth.Viewer), handle: a.listTokens,
			doc: operation{summary: "API tokens: all of the organization for admins, else your own", reply: tokensView{}}},
		{method: "POST", path: v1 + "/auth/tokens", policy: need(auth.Administer, auth.Viewer).audited("token.create"), handle: a.createToken,
			doc: operation{summary: "Create an API token", body: newTokenBody{}, reply: tokenView{}, status: http.StatusCreated}},
		{method: "DELETE", path: v1 + "/auth/tokens/{id}", policy: need(auth.Administer, auth.Viewer).audited("token.delete"), handle: a.deleteToken,
			doc: operation{summary: "Revoke an API token; it ends everywhere within 5 seconds"}},
	}
}

func (a *API) listTokens(w http.ResponseWriter, r *http.Request) error {
	all, err := a.Auth.Tokens(r.Context(), who(r))
	if err != nil {
		return err
	}
	view := tokensView{Tokens: []tokenView{}}
	for _, t := range slices.Backward(all) {
		view.Tokens = append(view.Tokens, tokenOf(t))
	}
	return reply(w, http.StatusOK, view)
}

func (a *API) createToken(w http.ResponseWriter, r *http.Request) error {
	var in newTokenBody
	if err := read(r, &in); err != nil {
		return err
	}
	scopes, err := auth.ParseScopes(in.Scopes)
	if err != nil {
		return err
	}
	n := auth.NewToken{Name: in.Name, Scopes: scopes}
	if in.ExpiresAt != nil {
		n.Expires = in.ExpiresAt.Time
	}
	text, t, err := a.Auth.CreateToken(r.Context(), who(r), n, entryOf(r, ""))
	if err != nil {
		return err
	}
	view := tokenOf(t)
	view.Token = text
	return reply(w, http.StatusCreated, view)
}

func (a *API) deleteToken(w http.ResponseWriter, r *http.Request) error {
	id, err := pathValue(r, "id")
	if err != nil {
		return err
	}
	if err := a.Auth.DeleteToken(r.Context(), who(r), id, entryOf(r, id)); err != nil {
		return err
	}
	return empty(w)
}

func tokenOf(t auth.APIToken) tokenView {
	return tokenView{ID: t.ID, Name: t.Name, Scopes: t.Scopes.Names(), Owner: t.Email, CreatedAt: stamp{t.CreatedAt}, ExpiresAt: stamp{t.ExpiresAt}, LastUsedAt: stamp{t.LastUsedAt}}
}
