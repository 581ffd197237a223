package web

import (
	"encoding/csv"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/ui"
)

// accessRoutes are the pages of people, tokens, the audit log and the organization. Changes are forms; what one may do is checked where it is done.
func (p *Pages) accessRoutes(add func(method, pattern string, h handler)) {
	const root = "/{org}/access"
	in := func(f page) handler { return p.signedIn("access", f) }
	add("GET", root, in(p.users))
	add("POST", root+"/users", in(p.addUser))
	add("POST", root+"/users/{id}/role", in(p.setRole))
	add("POST", root+"/users/{id}/invite", in(p.reinvite))
	add("POST", root+"/users/{id}/remove", in(p.removeUser))
	add("GET", root+"/tokens", in(p.tokens))
	add("POST", root+"/tokens", in(p.newToken))
	add("POST", root+"/tokens/{id}/revoke", in(p.revokeToken))
	add("GET", root+"/audit", in(p.audit))
	add("GET", root+"/audit.csv", in(p.auditCSV))
	add("GET", root+"/organization", in(p.organization))
	add("POST", root+"/organization", in(p.saveOrganization))
	back := func(to string) handler { // replies to forms have these addresses, and readers ask for them again
		return in(func(w http.ResponseWriter, _ *http.Request, v *visit) error {
			return p.redirect(w, v.frame.OrgPath(to))
		})
	}
	add("GET", root+"/users", back("access"))
	add("GET", root+"/users/{id}/{form}", back("access"))
	add("GET", root+"/tokens/{id}/revoke", back("access/tokens"))
	add("GET", "/invite", p.inviteForm)
	add("POST", "/invite", p.acceptInvite)
}

// administers refuses readers who are not administrators of the organization.
func administers(v *visit) error {
	if v.who.May(auth.Administer, auth.Admin) {
		return nil
	}
	return &millstream.Error{Kind: millstream.Forbidden, Msg: "this part of Access is for administrators of the organization", Hint: "an owner or administrator can give you the role"}
}

// looksAfter refuses readers who are not administrators of the installation.
func looksAfter(v *visit) error {
	if v.who.MayAdminister(auth.Admin) {
		return nil
	}
	return &millstream.Error{Kind: millstream.Forbidden, Msg: "the nodes are for administrators of the installation", Hint: "an owner or administrator of the organization that was set up first can give you the role there"}
}

// done leads to a page that says what has just been done; what is a key of said, and may be followed by further parameters.
func (p *Pages) done(w http.ResponseWriter, v *visit, path, what string) error {
	return p.redirect(w, "/"+url.PathEscape(v.frame.Org)+"/"+path+"?done="+what)
}

// said is what a page is told to say by done. It can only be one of ours: anything else in the address is not repeated.
func said(r *http.Request) string {
	text := map[string]string{
		"role": "The role is set.", "removed": "The user was removed from the organization.", "added": "The user was added.", "revoked": "The token is revoked.",
		"saved": "Saved.", "password": "The password is changed; your other sessions have ended.", "deleted": "Deleted.",
	}
	return text[r.URL.Query().Get("done")]
}

func (p *Pages) users(w http.ResponseWriter, r *http.Request, v *visit) error {
	if administers(v) != nil {
		return p.redirect(w, "/"+url.PathEscape(v.frame.Org)+"/access/tokens")
	}
	return p.showUsers(w, r, v, http.StatusOK, ui.Access{Done: said(r)})
}

func (p *Pages) showUsers(w http.ResponseWriter, r *http.Request, v *visit, code int, view ui.Access) error {
	all, err := p.Auth.Members(r.Context(), v.who)
	if err != nil {
		return err
	}
	view.Frame, view.Tab = v.frame, "users"
	for _, m := range all {
		view.Users = append(view.Users, ui.Member{
			ID: m.ID, Email: m.Email, Name: m.Name, Role: m.Role.String(), Pending: m.Pending, Joined: m.JoinedAt, Self: m.ID == v.who.User, Above: m.Role > v.who.Role,
		})
	}
	for role := auth.Viewer; role <= v.who.Role; role++ {
		view.Roles = append(view.Roles, role.String())
	}
	return p.render(w, r, code, view.Page())
}

func (p *Pages) addUser(w http.ResponseWriter, r *http.Request, v *visit) error {
	view := ui.Access{}
	err := p.changes(w, r, v)
	view.Typed = ui.NewUser{Email: r.PostForm.Get("email"), Name: r.PostForm.Get("name"), Role: r.PostForm.Get("role")}
	var role auth.Role
	if err == nil {
		role, err = auth.ParseRole(view.Typed.Role)
	}
	var m auth.Member
	var inv *auth.Invitation
	if err == nil {
		m, inv, err = p.Auth.AddMember(r.Context(), v.who, auth.NewMember{Email: view.Typed.Email, Name: view.Typed.Name, Role: role}, p.entry(w, r, v.who, "user.create"))
	}
	switch {
	case err != nil:
		code, problem := p.problem(w, r, err, "email")
		view.Problem = problem
		return p.showUsers(w, r, v, code, view)
	case inv == nil:
		return p.done(w, v, "access", "added")
	}
	return p.showUsers(w, r, v, http.StatusCreated, ui.Access{Invite: p.invitation(r, m.Email, inv)})
}

// changes checks a form of an administrator.
func (p *Pages) changes(w http.ResponseWriter, r *http.Request, v *visit) error {
	if err := p.form(w, r); err != nil {
		return err
	}
	return administers(v)
}

func (p *Pages) invitation(r *http.Request, email string, inv *auth.Invitation) *ui.Invitation {
	return &ui.Invitation{Email: email, URL: p.targets(r, "").URL + "/invite?token=" + url.QueryEscape(inv.Token), Until: inv.ExpiresAt}
}

func (p *Pages) setRole(w http.ResponseWriter, r *http.Request, v *visit) error {
	err := p.changes(w, r, v)
	var role auth.Role
	if err == nil {
		role, err = auth.ParseRole(r.PostForm.Get("role"))
	}
	if err == nil {
		err = p.Auth.SetMemberRole(r.Context(), v.who, chi.URLParam(r, "id"), role, p.entry(w, r, v.who, "user.update"))
	}
	return p.afterUser(w, r, v, err, "role")
}

func (p *Pages) removeUser(w http.ResponseWriter, r *http.Request, v *visit) error {
	err := p.changes(w, r, v)
	if err == nil {
		err = p.Auth.RemoveMember(r.Context(), v.who, chi.URLParam(r, "id"), p.entry(w, r, v.who, "user.delete"))
	}
	return p.afterUser(w, r, v, err, "removed")
}

// afterUser leads back to the list, or shows it with what was wrong.
func (p *Pages) afterUser(w http.ResponseWriter, r *http.Request, v *visit, err error, what string) error {
	if err == nil {
		return p.done(w, v, "access", what)
	}
	code, problem := p.problem(w, r, err, "")
	if administers(v) != nil {
		return err
	}
	return p.showUsers(w, r, v, code, ui.Access{Problem: problem})
}

func (p *Pages) reinvite(w http.ResponseWriter, r *http.Request, v *visit) error {
	err := p.changes(w, r, v)
	var inv *auth.Invitation
	if err == nil {
		inv, err = p.Auth.Reinvite(r.Context(), v.who, chi.URLParam(r, "id"), p.entry(w, r, v.who, "user.invite"))
	}
	if err != nil {
		return p.afterUser(w, r, v, err, "")
	}
	return p.showUsers(w, r, v, http.StatusCreated, ui.Access{Invite: p.invitation(r, r.PostForm.Get("email"), inv)})
}

func (p *Pages) tokens(w http.ResponseWriter, r *http.Request, v *visit) error {
	return p.showTokens(w, r, v, http.StatusOK, ui.Access{Done: said(r)})
}

func (p *Pages) showTokens(w http.ResponseWriter, r *http.Request, v *visit, code int, view ui.Access) error {
	all, err := p.Auth.Tokens(r.Context(), v.who)
	if err != nil {
		return err
	}
	view.Frame, view.Tab = v.frame, "tokens"
	view.Scopes = (v.who.Role.Grantable() & v.who.Scopes).Names()
	for _, t := range all {
		view.Tokens = append(view.Tokens, ui.APIToken{
			ID: t.ID, Name: t.Name, Owner: t.Email, Scopes: t.Scopes.Names(), Created: t.CreatedAt, Expires: t.ExpiresAt, Used: t.LastUsedAt,
			Expired: !t.ExpiresAt.IsZero() && !t.ExpiresAt.After(p.Now()),
		})
	}
	return p.render(w, r, code, view.Page())
}

// newToken makes a token and shows it in the reply itself: it is never stored where a second look could find it.
func (p *Pages) newToken(w http.ResponseWriter, r *http.Request, v *visit) error {
	err := p.form(w, r)
	n := auth.NewToken{Name: r.PostForm.Get("name")}
	if err == nil {
		n.Scopes, err = auth.ParseScopes(r.PostForm["scope"])
	}
	if err == nil {
		n.Expires, err = p.expiry(r.PostForm.Get("expires"))
	}
	var text string
	var t auth.APIToken
	if err == nil {
		text, t, err = p.Auth.CreateToken(r.Context(), v.who, n, p.entry(w, r, v.who, "token.create"))
	}
	if err != nil {
		code, problem := p.problem(w, r, err, "name")
		return p.showTokens(w, r, v, code, ui.Access{Problem: problem, Name: n.Name})
	}
	page := ui.Token{Frame: v.frame, Token: text, Name: t.Name, Scopes: t.Scopes.Names(), Targets: p.targets(r, text)}
	page.Home = v.frame.OrgPath("access/tokens")
	return p.render(w, r, http.StatusCreated, page.Page())
}

// expiry is the end of a token's life from a number of days; 0 is never.
func (p *Pages) expiry(days string) (time.Time, error) {
	n, err := strconv.Atoi(days)
	if err != nil || n < 0 || n > 3650 {
		return time.Time{}, millstream.Errorf(millstream.Invalid, "the expiry %q is not a number of days up to 3650", days)
	}
	if n == 0 {
		return time.Time{}, nil
	}
	return p.Now().AddDate(0, 0, n), nil
}

func (p *Pages) revokeToken(w http.ResponseWriter, r *http.Request, v *visit) error {
	err := p.form(w, r)
	if err == nil {
		err = p.Auth.DeleteToken(r.Context(), v.who, chi.URLParam(r, "id"), p.entry(w, r, v.who, "token.delete"))
	}
	if err == nil {
		return p.done(w, v, "access/tokens", "revoked")
	}
	code, problem := p.problem(w, r, err, "")
	return p.showTokens(w, r, v, code, ui.Access{Problem: problem})
}

const (
	auditPage = 100
	auditFile = 10_000 // lines of the CSV file
)

// entries reads the audit log as the request's parameters select it.
func (p *Pages) entries(r *http.Request, v *visit, limit int) (ui.Audit, error) {
	q := r.URL.Query()
	view := ui.Audit{Actor: q.Get("actor"), Action: q.Get("action")}
	f := auth.AuditFilter{Actor: view.Actor, Action: view.Action, Limit: limit + 1}
	if before := q.Get("before"); before != "" {
		var err error
		if f.Before, err = time.Parse(time.RFC3339Nano, before); err != nil {
			return view, millstream.Wrap(millstream.Invalid, err, "before: %q is not a time", before)
		}
	}
	all, err := p.Auth.Audit(r.Context(), v.who, f)
	if err != nil {
		return view, err
	}
	if len(all) > limit {
		all = all[:limit]
		view.Older = all[limit-1].At.UTC().Format(time.RFC3339Nano)
	}
	for _, e := range all {
		out := ui.AuditEntry{At: e.At, Actor: e.Actor, Action: e.Action, Target: e.Target, Address: e.Address, Request: e.Request, Refused: e.Outcome != auth.OK}
		if len(e.Detail) > 0 {
			text, err := json.Marshal(e.Detail)
			if err != nil {
				return view, err
			}
			out.Detail = string(text)
		}
		view.Entries = append(view.Entries, out)
	}
	return view, nil
}

func (p *Pages) audit(w http.ResponseWriter, r *http.Request, v *visit) error {
	if err := administers(v); err != nil {
		return err
	}
	entries, err := p.entries(r, v, auditPage)
	if err != nil {
		return err
	}
	return p.render(w, r, http.StatusOK, ui.Access{Frame: v.frame, Tab: "audit", Audit: entries}.Page())
}

// auditCSV is the newest lines as a file. A value that a spreadsheet would run as a formula is kept from it by a quote.
func (p *Pages) auditCSV(w http.ResponseWriter, r *http.Request, v *visit) error {
	if err := administers(v); err != nil {
		return err
	}
	view, err := p.entries(r, v, auditFile)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="audit.csv"`)
	out := csv.NewWriter(w)
	lines := [][]string{{"time", "actor", "action", "target", "outcome", "address", "request", "detail"}}
	for _, e := range view.Entries {
		outcome := "ok"
		if e.Refused {
			outcome = "refused"
		}
		line := []string{e.At.UTC().Format(time.RFC3339Nano), e.Actor, e.Action, e.Target, outcome, e.Address, e.Request, e.Detail}
		for i, cell := range line {
			if cell != "" && strings.ContainsRune("=+-@\t\r", rune(cell[0])) {
				line[i] = "'" + cell
			}
		}
		lines = append(lines, line)
	}
	return gone(out.WriteAll(lines))
}

func (p *Pages) organization(w http.ResponseWriter, r *http.Request, v *visit) error {
	if err := administers(v); err != nil {
		return err
	}
	o, err := p.Auth.Organization(r.Context(), v.who, v.who.Org)
	if err != nil {
		return err
	}
	return p.showOrganization(w, r, v, http.StatusOK, o, nil)
}

func (p *Pages) showOrganization(w http.ResponseWriter, r *http.Request, v *visit, code int, o auth.Organization, problem *ui.Problem) error {
	view := ui.Access{Frame: v.frame, Tab: "organization", Problem: problem, Done: said(r)}
	view.Org = ui.Organization{ID: string(o.ID), Slug: o.Slug, Name: o.Name, RetentionDays: o.RetentionDays, IntakeQPS: o.IntakeQPS, QueryQPS: o.QueryQPS, QuotaBytes: o.QuotaBytes}
	return p.render(w, r, code, view.Page())
}

func (p *Pages) saveOrganization(w http.ResponseWriter, r *http.Request, v *visit) error {
	err := p.changes(w, r, v)
	if millstream.KindOf(err) == millstream.Forbidden {
		return err
	}
	name := r.PostForm.Get("name")
	var days int
	if err == nil {
		if days, err = strconv.Atoi(r.PostForm.Get("retention_days")); err != nil {
			err = millstream.Errorf(millstream.Invalid, "the retention %q is not a number of days", r.PostForm.Get("retention_days"))
		}
	}
	if err == nil {
		_, err = p.Auth.UpdateOrganization(r.Context(), v.who, v.who.Org, auth.OrganizationPatch{Name: &name, RetentionDays: &days}, p.entry(w, r, v.who, "organization.update"))
	}
	if err == nil {
		return p.done(w, v, "access/organization", "saved")
	}
	code, problem := p.problem(w, r, err, "name")
	return p.showOrganization(w, r, v, code, auth.Organization{ID: v.who.Org, Slug: v.who.Slug, Name: name, RetentionDays: days}, problem)
}

func (p *Pages) inviteForm(w http.ResponseWriter, r *http.Request) error {
	return p.showInvite(w, r, http.StatusOK, ui.InvitePage{Token: r.URL.Query().Get("token")})
}

func (p *Pages) showInvite(w http.ResponseWriter, r *http.Request, code int, page ui.InvitePage) error {
	page.Frame, page.Refused = p.frame(nil, ""), p.refusal(r)
	page.Theme, page.Density = look(r)
	if page.Refused == "" {
		page.FormToken = p.formToken(w, r)
	}
	return p.render(w, r, code, page.Page())
}

// acceptInvite sets the password of somebody who was invited and signs him in.
func (p *Pages) acceptInvite(w http.ResponseWriter, r *http.Request) error {
	if p.refusal(r) != "" {
		return p.showInvite(w, r, http.StatusForbidden, ui.InvitePage{})
	}
	err := p.form(w, r)
	token := r.PostForm.Get("token")
	if err == nil {
		var g auth.Grant
		if g, err = p.Auth.AcceptInvite(r.Context(), token, r.PostForm.Get("password"), p.origin(r), p.entry(w, r, nil, "invite.accept")); err == nil {
			p.begin(w, r, g)
			return p.redirect(w, "/")
		}
	}
	code, problem := p.problem(w, r, err, "password")
	return p.showInvite(w, r, code, ui.InvitePage{Token: token, Problem: problem})
}
