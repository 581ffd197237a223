package web

import (
	"net/http"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/ui"
)

// tokenScopes is what a token made on the first page carries: sending and asking, as far as the maker may; nothing that changes the node.
func tokenScopes(who *auth.Principal) auth.Scope {
	return who.Role.Grantable() & who.Scopes & (auth.Intake | auth.Query)
}

func (p *Pages) newToken(w http.ResponseWriter, r *http.Request) error {
	if err := p.form(w, r); err != nil {
		return err
	}
	who, err := p.who(w, r, r.PostForm.Get("org"))
	if err != nil {
		return err
	}
	if who == nil {
		return p.redirect(w, "/login")
	}
	if tokenScopes(who) == 0 {
		return millstream.Errorf(millstream.Forbidden, "you may not make tokens now")
	}
	return p.showToken(w, r, who, auth.NewToken{Name: r.PostForm.Get("name"), Scopes: tokenScopes(who)}, false)
}

// showToken makes a token and shows it this once. The reader is told what went wrong instead when it could not be made.
func (p *Pages) showToken(w http.ResponseWriter, r *http.Request, who *auth.Principal, n auth.NewToken, first bool) error {
	page := ui.Token{Frame: p.frame(who, r.PostForm.Get("org")), First: first, Name: n.Name, Scopes: n.Scopes.Names()}
	page.FormToken = p.formToken(w, r)
	code := http.StatusCreated
	text, t, err := p.Auth.CreateToken(r.Context(), who, n, p.entry(w, r, who, "token.create"))
	if err != nil {
		code, page.Problem = p.problem(w, r, err, "")
		if first {
			page.Problem.Hint = "you are signed in; make a token on the first page"
		}
		return p.render(w, r, code, page.Page())
	}
	page.Token, page.Name, page.Targets = text, t.Name, p.targets(r, text)
	return p.render(w, r, code, page.Page())
}
