package web

import (
	"cmp"
	"encoding/json"
	"net/http"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/internal/status"
	"github.com/millstream/millstream/ui"
)

func (p *Pages) loginForm(w http.ResponseWriter, r *http.Request) error {
	who, err := p.who(w, r, "")
	if err != nil && millstream.KindOf(err) != millstream.Unavailable {
		return err
	}
	next := ui.NextPath(r.URL.Query().Get("next"))
	if who != nil {
		return p.redirect(w, cmp.Or(next, "/"))
	}
	if p.fresh(r.Context()) {
		return p.redirect(w, "/setup")
	}
	return p.showLogin(w, r, http.StatusOK, ui.Login{Next: next, Ended: r.URL.Query().Get("ended") == "1"})
}

func (p *Pages) showLogin(w http.ResponseWriter, r *http.Request, code int, page ui.Login) error {
	page.Frame, page.Refused = p.frame(nil, ""), p.refusal(r)
	page.Theme, page.Density = look(r)
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
	email, next := r.PostForm.Get("email"), ui.NextPath(r.PostForm.Get("next"))
	var g auth.Grant
	if err == nil {
		if g, err = p.Auth.Login(r.Context(), email, r.PostForm.Get("password"), "", p.origin(r), p.entry(w, r, nil, "session.create")); err == nil {
			p.begin(w, r, g)
		}
	}
	switch {
	case r.Header.Get("Accept") == "application/json": // a page whose session ended and that stays open
		return p.loginReply(w, r, g, err)
	case err == nil:
		return p.redirect(w, cmp.Or(next, "/"))
	}
	code, problem := p.problem(w, r, err, "")
	return p.showLogin(w, r, code, ui.Login{Email: email, Next: next, Problem: problem})
}

// loginReply answers a script that signs in: who it is, for it must be the same reader, and the token for its next requests.
func (p *Pages) loginReply(w http.ResponseWriter, r *http.Request, g auth.Grant, err error) error {
	code, body := http.StatusOK, any(nil)
	if err == nil {
		body = map[string]string{"user": g.User.ID, "csrf": p.formToken(w, r)}
	} else {
		var problem *ui.Problem
		code, problem = p.problem(w, r, err, "")
		failed := map[string]any{"error": map[string]string{"code": status.Code(millstream.KindOf(err)), "message": problem.Text, "hint": problem.Hint}}
		if !p.validToken(r, r.PostForm.Get("form_token")) { // the reader has signed out in another tab: only a page of ours can read the new one
			failed["csrf"] = p.formToken(w, r)
		}
		body = failed
	}
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, err = w.Write(text)
	return gone(err)
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
	page.Theme, page.Density = look(r)
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

// showToken makes a token and shows it this once. The reader is told what went wrong instead when it could not be made.
func (p *Pages) showToken(w http.ResponseWriter, r *http.Request, who *auth.Principal, n auth.NewToken, first bool) error {
	page := ui.Token{Frame: p.frame(who, who.Slug), First: first, Name: n.Name, Scopes: n.Scopes.Names()}
	page.Theme, page.Density = look(r)
	code := http.StatusCreated
	text, t, err := p.Auth.CreateToken(r.Context(), who, n, p.entry(w, r, who, "token.create"))
	if err != nil {
		code, page.Problem = p.problem(w, r, err, "")
		page.Problem.Hint = "you are signed in; make a token on the page Access"
		return p.render(w, r, code, page.Page())
	}
	page.Token, page.Name, page.Targets = text, t.Name, p.targets(r, text)
	return p.render(w, r, code, page.Page())
}
