package api

import (
	"net/http"

	"github.com/millstream/millstream/internal/auth"
)

type loginBody struct {
	Email        string `json:"email"`
	Password     string `json:"password"`
	Organization string `json:"organization,omitempty" doc:"slug of the organization to work in; default: the user's first"`
}

type refreshBody struct {
	RefreshToken string `json:"refresh_token"`
	Organization string `json:"organization,omitempty" doc:"slug of the organization to work in; default: the user's first"`
}

type setupBody struct {
	Code         string `json:"code" doc:"the one-time code the node printed at start"`
	Email        string `json:"email"`
	Password     string `json:"password" doc:"12 to 128 characters"`
	Organization string `json:"organization,omitempty" doc:"slug of the first organization; default: default"`
}

type acceptBody struct {
	Token    string `json:"token" doc:"of the invitation"`
	Password string `json:"password" doc:"12 to 128 characters"`
}

type userView struct {
	ID    string `json:"id"`
	Email string `json:"email"`
	Name  string `json:"name,omitempty"`
}

type membershipView struct {
	ID   string `json:"id"`
	Slug string `json:"slug"`
	Name string `json:"name"`
	Role string `json:"role,omitempty"`
}

type grantView struct {
	Token         string           `json:"token" doc:"access token, for Authorization: Bearer"`
	ExpiresAt     stamp            `json:"expires_at"`
	RefreshToken  string           `json:"refresh_token" doc:"good once, for POST /api/v1/auth/refresh within 12 hours"`
	User          userView         `json:"user"`
	Organization  membershipView   `json:"organization"`
	Role          string           `json:"role"`
	Organizations []membershipView `json:"organizations"`
}

type meView struct {
	User          userView         `json:"user"`
	Organization  membershipView   `json:"organization"`
	Role          string           `json:"role"`
	Scopes        []string         `json:"scopes"`
	Permissions   []string         `json:"permissions" doc:"the changes this credential may make, by their names in the audit log"`
	Organizations []membershipView `json:"organizations" doc:"what X-Org-Id may name"`
	TokenID       string           `json:"token_id,omitempty" doc:"when the credential is an API token"`
}

type rotatedView struct {
	KeyID         string `json:"key_id"`
	OldValidUntil stamp  `json:"old_valid_until" doc:"until when tokens signed with the former key are accepted"`
}

func (a *API) authRoutes() []route {
	return []route{
		{method: "POST", path: v1 + "/auth/login", policy: public().audited("session.create"), handle: a.login,
			doc: operation{summary: "Sign in with e-mail and password", body: loginBody{}, reply: grantView{}}},
		{method: "POST", path: v1 + "/auth/refresh", policy: public().audited("session.refresh"), handle: a.refresh,
			doc: operation{summary: "Exchange a refresh token for new tokens; using one twice ends the session", body: refreshBody{}, reply: grantView{}}},
		{method: "POST", path: v1 + "/auth/logout", policy: known().audited("session.delete"), handle: a.logout, doc: operation{summary: "End the session"}},
		{method: "POST", path: v1 + "/auth/setup", policy: public().audited("setup"), handle: a.setup,
			doc: operation{summary: "Create the first owner, once, with the code the node printed", body: setupBody{}, reply: grantView{}, status: http.StatusCreated}},
		{method: "POST", path: v1 + "/auth/accept", policy: public().audited("invite.accept"), handle: a.accept,
			doc: operation{summary: "Accept an invitation by choosing a password", body: acceptBody{}, reply: grantView{}}},
		{method: "POST", path: v1 + "/auth/jwt/rotate", policy: administer(auth.Owner).audited("jwt_key.rotate"), handle: a.rotate,
			doc: operation{summary: "Sign with a new key; the former stays valid for 24 hours", reply: rotatedView{}}},
		{method: "GET", path: v1 + "/auth/me", policy: known(), handle: a.me, doc: operation{summary: "Who the credential is and what it may do", reply: meView{}}},
	}
}

func originOf(r *http.Request) auth.Origin {
	return auth.Origin{Addr: callOf(r).addr, Agent: r.UserAgent()}
}

func (a *API) login(w http.ResponseWriter, r *http.Request) error {
	var in loginBody
	if err := read(r, &in); err != nil {
		return err
	}
	g, err := a.Auth.Login(r.Context(), in.Email, in.Password, in.Organization, originOf(r), entryOf(r, ""))
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, grantOf(g))
}

func (a *API) refresh(w http.ResponseWriter, r *http.Request) error {
	var in refreshBody
	if err := read(r, &in); err != nil {
		return err
	}
	g, err := a.Auth.Refresh(r.Context(), in.RefreshToken, in.Organization, originOf(r))
	if err != nil {
		return err
	}
	e := entryOf(r, g.User.ID)
	e.Org, e.Actor = g.Org.Org, "user:"+g.User.Email
	a.record(r, e)
	return reply(w, http.StatusOK, grantOf(g))
}

func (a *API) logout(w http.ResponseWriter, r *http.Request) error {
	if err := a.Auth.Logout(r.Context(), who(r), entryOf(r, who(r).User)); err != nil {
		return err
	}
	return empty(w)
}

func (a *API) setup(w http.ResponseWriter, r *http.Request) error {
	var in setupBody
	if err := read(r, &in); err != nil {
		return err
	}
	g, err := a.Auth.Setup(r.Context(), in.Code, in.Email, in.Password, in.Organization, originOf(r), entryOf(r, ""))
	if err != nil {
		return err
	}
	return reply(w, http.StatusCreated, grantOf(g))
}

func (a *API) accept(w http.ResponseWriter, r *http.Request) error {
	var in acceptBody
	if err := read(r, &in); err != nil {
		return err
	}
	g, err := a.Auth.AcceptInvite(r.Context(), in.Token, in.Password, originOf(r), entryOf(r, ""))
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, grantOf(g))
}

func (a *API) rotate(w http.ResponseWriter, r *http.Request) error {
	key, err := a.Auth.RotateKeys(r.Context(), entryOf(r, ""))
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, rotatedView{KeyID: key.ID, OldValidUntil: stamp{auth.OldKeysUntil(key.CreatedAt)}})
}

func (a *API) me(w http.ResponseWriter, r *http.Request) error {
	p := who(r)
	ms, err := a.Auth.Memberships(r.Context(), p)
	if err != nil {
		return err
	}
	view := meView{
		User: userView{ID: p.User, Email: p.Email}, Role: p.Role.String(), Scopes: p.Scopes.Names(), Permissions: []string{}, TokenID: p.TokenID,
		Organization: membershipView{ID: string(p.Org), Slug: p.Slug}, Organizations: membershipsOf(ms),
	}
	for _, m := range ms {
		if m.Org == p.Org {
			view.Organization.Name = m.Name
		}
	}
	for _, rt := range a.routes() {
		if rt.policy.action != "" && rt.policy.scope != 0 && rt.policy.allows(p) {
			view.Permissions = append(view.Permissions, rt.policy.action)
		}
	}
	return reply(w, http.StatusOK, view)
}

func grantOf(g auth.Grant) grantView {
	return grantView{
		Token: g.Token, ExpiresAt: stamp{g.ExpiresAt}, RefreshToken: g.RefreshToken, Role: g.Org.Role.String(),
		User:         userView{ID: g.User.ID, Email: g.User.Email, Name: g.User.Name},
		Organization: membershipView{ID: string(g.Org.Org), Slug: g.Org.Slug, Name: g.Org.Name}, Organizations: membershipsOf(g.Memberships),
	}
}

func membershipsOf(ms []auth.Membership) []membershipView {
	out := make([]membershipView, len(ms))
	for i, m := range ms {
		out[i] = membershipView{ID: string(m.Org), Slug: m.Slug, Name: m.Name, Role: m.Role.String()}
	}
	return out
}
