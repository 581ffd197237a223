package web

import (
	"net/http"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/ui"
)

// send is how to send data, with the reader's own addresses.
func (p *Pages) send(w http.ResponseWriter, r *http.Request, v *visit) error {
	q := r.URL.Query()
	return p.showSend(w, r, v, http.StatusOK, q.Get("stream"), ui.Send{Chosen: q.Get("sender")}, "")
}

func (p *Pages) showSend(w http.ResponseWriter, r *http.Request, v *visit, code int, stream string, view ui.Send, token string) error {
	view.Frame, view.Targets = v.frame, p.targets(r, token)
	if auth.CheckSlug(stream) == nil { // a stream's name has the same form; anything else would not be one, and goes into no snippet
		view.Targets.Stream = stream
	}
	return p.render(w, r, code, view.Page())
}

// sendToken makes a token for intake and shows it in the snippets of the reply, this once.
func (p *Pages) sendToken(w http.ResponseWriter, r *http.Request, v *visit) error {
	err := p.form(w, r)
	view, stream := ui.Send{Chosen: r.PostForm.Get("sender")}, r.PostForm.Get("stream")
	if err == nil && v.who.Role.Grantable()&auth.Intake == 0 {
		err = &millstream.Error{Kind: millstream.Forbidden, Msg: "your role may not send data", Hint: "an administrator of the organization can make you an editor, or a token"}
	}
	var text string
	var t auth.APIToken
	if err == nil {
		text, t, err = p.Auth.CreateToken(r.Context(), v.who, auth.NewToken{Name: r.PostForm.Get("name"), Scopes: auth.Intake}, p.entry(w, r, v.who, "token.create"))
	}
	if err != nil {
		code, problem := p.problem(w, r, err, "name")
		view.Problem = problem
		return p.showSend(w, r, v, code, stream, view, "")
	}
	view.Name = t.Name
	return p.showSend(w, r, v, http.StatusCreated, stream, view, text)
}
