package web

import (
	"net/http"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/ui"
)

func (p *Pages) loginForm(w http.ResponseWriter, r *http.Request) error {
	who, err := p.who(w, r, "")
	if err != nil && millstream.KindOf(err) != millstream.Unavailable {
		return err
	}
	if who != nil {
		return p.redirect(w, "/")
	}
	if p.fresh(r.Context()) {
		return p.redirect(w, "/setup")
	}
	return p.showLogin(w, r, http.StatusOK, ui.Login{})
}

func (p *Pages) showLogin(w http.ResponseWriter, r *http.Request, code int, page ui.Login) error {
	page.Frame, page.Refused = p.frame(nil, ""), p.refusal(r)
	if page.Refused == "" {
		page.FormToken = p.formToken(w, r)
	}
	return p.render(w, r, code, page.Page())
}

func (p *Pages) login(w http.ResponseWriter, r *http.Request) error {
	if p.refusal(r) != "" {
		return p.showLogin(w, r, http.StatusForbidden, ui.Login{})
	}
	err := p.form(w, r)
	email := r.PostForm.Get("email")
	if err == nil {
		var g auth.Grant
		if g, err = p.Auth.Login(r.Context(), email, r.PostForm.Get("password"), "", p.origin(r), p.entry(w, r, nil, "session.create")); err == nil {
			p.begin(w, r, g)
			return p.redirect(w, "/")
		}
	}
	code, problem := p.problem(w, r, err, "")
	return p.showLogin(w, r, code, ui.Login{Email: email, Problem: problem})
}

func (p *Pages) logout(w http.ResponseWriter, r *http.Request) error {
	if err := p.form(w, r); err != nil {
		return err
	}
	who, err := p.who(w, r, "")
	if err != nil {
		return err
	}
	if who != nil {
		if err := p.Auth.Logout(r.Context(), who, p.entry(w, r, who, "session.delete")); err != nil {
			return err
		}
	}
	p.setCookie(w, r, sessionCookie, "")
	p.setCookie(w, r, formCookie, "")
	return p.redirect(w, "/")
}

func (p *Pages) setupForm(w http.ResponseWriter, r *http.Request) error {
	if !p.fresh(r.Context()) {
		return p.redirect(w, "/login")
	}
	return p.showSetup(w, r, http.StatusOK, ui.Setup{Code: r.URL.Query().Get("code"), Org: "default"})
}

func (p *Pages) showSetup(w http.ResponseWriter, r *http.Request, code int, page ui.Setup) error {
	page.Frame, page.Refused = p.frame(nil, ""), p.refusal(r)
	if page.Refused == "" {
		page.FormToken = p.formToken(w, r)
	}
	return p.render(w, r, code, page.Page())
}

// setup creates the owner and shows a first token in the reply itself: it is never stored where a second look could find it.
func (p *Pages) setup(w http.ResponseWriter, r *http.Request) error {
	if p.refusal(r) != "" {
		return p.showSetup(w, r, http.StatusForbidden, ui.Setup{})
	}
	err := p.form(w, r)
	typed := ui.Setup{Code: r.PostForm.Get("code"), Email: r.PostForm.Get("email"), Org: r.PostForm.Get("organization")}
	password := r.PostForm.Get("password")
	if err == nil {
		var g auth.Grant
		if g, err = p.Auth.Setup(r.Context(), typed.Code, typed.Email, password, typed.Org, p.origin(r), p.entry(w, r, nil, "setup")); err == nil {
			p.settled.Store(true)
			p.begin(w, r, g)
			who, err := p.Auth.Authenticate(r.Context(), "Bearer "+g.Token, "")
			if err != nil {
				return err
			}
			return p.showToken(w, r, who, auth.NewToken{Name: "first", Scopes: auth.Intake | auth.Query}, true)
		}
	}
	code, problem := p.problem(w, r, err, faulty(err, typed, password))
	typed.Problem = problem
	return p.showSetup(w, r, code, typed)
}

// faulty is the field that a refusal of the setup is about.
func faulty(err error, typed ui.Setup, password string) string {
	kind, message := millstream.KindOf(err), millstream.Message(err)
	same := func(rule error) bool { return rule != nil && millstream.Message(rule) == message }
	switch {
	case kind == millstream.Unauthenticated:
		return "code"
	case kind != millstream.Invalid:
		return ""
	case same(auth.CheckPassword(password)):
		return "password"
	case same(auth.CheckSlug(typed.Org)):
		return "organization"
	}
	return "email"
}
