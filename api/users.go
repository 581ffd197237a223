package api

import (
	"net/http"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/auth"
)

type newUserBody struct {
	Email    string `json:"email"`
	Name     string `json:"name,omitempty"`
	Role     string `json:"role" doc:"owner, admin, editor or viewer; not above your own"`
	Password string `json:"password,omitempty" doc:"initial password; absent: the reply has an invitation with which the user chooses one"`
}

type userPatchBody struct {
	Role            *string `json:"role,omitempty" doc:"of somebody not above you, to one not above yours"`
	Password        *string `json:"password,omitempty" doc:"your own new password; ends your other sessions"`
	CurrentPassword string  `json:"current_password,omitempty"`
}

type memberView struct {
	ID       string `json:"id"`
	Email    string `json:"email"`
	Name     string `json:"name,omitempty"`
	Role     string `json:"role"`
	Pending  bool   `json:"pending" doc:"has not chosen a password yet"`
	JoinedAt stamp  `json:"joined_at"`
}

type membersView struct {
	Users []memberView `json:"users"`
}

type invitationView struct {
	Token     string `json:"token" doc:"shown once; for POST /api/v1/auth/accept"`
	ExpiresAt stamp  `json:"expires_at"`
}

type newMemberView struct {
	User       memberView      `json:"user"`
	Invitation *invitationView `json:"invitation,omitempty"`
}

func (a *API) userRoutes() []route {
	return []route{
		{method: "GET", path: v1 + "/users", policy: need(auth.Administer, auth.Admin), handle: a.listUsers, doc: operation{summary: "People of the organization", reply: membersView{}}},
		{method: "POST", path: v1 + "/users", policy: need(auth.Administer, auth.Admin).audited("user.create"), handle: a.createUser,
			doc: operation{summary: "Add somebody, with an initial password or an invitation", body: newUserBody{}, reply: newMemberView{}, status: http.StatusCreated}},
		{method: "PATCH", path: v1 + "/users/{id}", policy: need(auth.Administer, auth.Viewer).audited("user.update"), handle: a.updateUser,
			doc: operation{summary: "Change somebody's role (admins) or your own password", body: userPatchBody{}}},
		{method: "DELETE", path: v1 + "/users/{id}", policy: need(auth.Administer, auth.Admin).audited("user.delete"), handle: a.deleteUser,
			doc: operation{summary: "Remove somebody from the organization"}},
		{method: "POST", path: v1 + "/users/{id}/invite", policy: need(auth.Administer, auth.Admin).audited("user.invite"), handle: a.inviteUser,
			doc: operation{summary: "A new invitation to choose a password; earlier ones end", reply: invitationView{}, status: http.StatusCreated}},
	}
}

func (a *API) listUsers(w http.ResponseWriter, r *http.Request) error {
	all, err := a.Auth.Members(r.Context(), who(r))
	if err != nil {
		return err
	}
	view := membersView{Users: []memberView{}}
	for _, m := range all {
		view.Users = append(view.Users, memberOf(m))
	}
	return reply(w, http.StatusOK, view)
}

func (a *API) createUser(w http.ResponseWriter, r *http.Request) error {
	var in newUserBody
	if err := read(r, &in); err != nil {
		return err
	}
	role, err := auth.ParseRole(in.Role)
	if err != nil {
		return err
	}
	m, inv, err := a.Auth.AddMember(r.Context(), who(r), auth.NewMember{Email: in.Email, Name: in.Name, Role: role, Password: in.Password}, entryOf(r, ""))
	if err != nil {
		return err
	}
	view := newMemberView{User: memberOf(m)}
	if inv != nil {
		view.Invitation = &invitationView{Token: inv.Token, ExpiresAt: stamp{inv.ExpiresAt}}
	}
	return reply(w, http.StatusCreated, view)
}

func (a *API) updateUser(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "id")
	if err != nil {
		return err
	}
	var in userPatchBody
	if err := read(r, &in); err != nil {
		return err
	}
	p := who(r)
	switch {
	case (in.Role == nil) == (in.Password == nil):
		return millstream.Errorf(millstream.Invalid, "change either the role or the password")
	case in.Role != nil:
		err = a.setRole(r, p, id, *in.Role)
	case id != p.User:
		return &millstream.Error{Kind: millstream.Forbidden, Msg: "only the user can change the password", Hint: "POST /api/v1/users/{id}/invite makes a link to choose a new one"}
	default:
		err = a.Auth.ChangePassword(r.Context(), p, in.CurrentPassword, *in.Password, entryOf(r, id))
	}
	if err != nil {
		return err
	}
	return empty(w)
}

func (a *API) setRole(r *http.Request, p *auth.Principal, id, name string) error {
	role, err := auth.ParseRole(name)
	if err != nil {
		return err
	}
	if p.Role < auth.Admin {
		return forbidden(p, need(auth.Administer, auth.Admin))
	}
	return a.Auth.SetMemberRole(r.Context(), p, id, role, entryOf(r, id))
}

func (a *API) deleteUser(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "id")
	if err != nil {
		return err
	}
	if err := a.Auth.RemoveMember(r.Context(), who(r), id, entryOf(r, id)); err != nil {
		return err
	}
	return empty(w)
}

func (a *API) inviteUser(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "id")
	if err != nil {
		return err
	}
	inv, err := a.Auth.Reinvite(r.Context(), who(r), id, entryOf(r, id))
	if err != nil {
		return err
	}
	return reply(w, http.StatusCreated, invitationView{Token: inv.Token, ExpiresAt: stamp{inv.ExpiresAt}})
}

func memberOf(m auth.Member) memberView {
	return memberView{ID: m.ID, Email: m.Email, Name: m.Name, Role: m.Role.String(), Pending: m.Pending, JoinedAt: stamp{m.JoinedAt}}
}
