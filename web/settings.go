package web

import (
	"net/http"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ui"
)

func (p *Pages) settings(w http.ResponseWriter, r *http.Request, v *visit) error {
	return p.showSettings(w, r, v, http.StatusOK, nil)
}

func (p *Pages) showSettings(w http.ResponseWriter, r *http.Request, v *visit, code int, problem *ui.Problem) error {
	all, _, err := p.Catalog.Streams(r.Context(), v.who.Org, millstream.Logs)
	if err != nil {
		return err
	}
	v.frame.Streams = refs(all)
	return p.render(w, r, code, ui.Settings{Frame: v.frame, Problem: problem, Done: said(r)}.Page())
}

func (p *Pages) changePassword(w http.ResponseWriter, r *http.Request, v *visit) error {
	err := p.form(w, r)
	if err == nil {
		err = p.Auth.ChangePassword(r.Context(), v.who, r.PostForm.Get("current"), r.PostForm.Get("password"), p.entry(w, r, v.who, "user.update"))
	}
	if err == nil {
		return p.redirect(w, "/settings?done=password")
	}
	field := "password"
	if millstream.KindOf(err) == millstream.Forbidden {
		field = "current"
	}
	code, problem := p.problem(w, r, err, field)
	return p.showSettings(w, r, v, code, problem)
}

func (p *Pages) configuration(w http.ResponseWriter, r *http.Request, v *visit) error {
	if err := looksAfter(v); err != nil {
		return err
	}
	view := ui.Settings{Frame: v.frame, Configuration: true}
	for _, e := range p.Settings {
		view.Values = append(view.Values, ui.Setting(e))
	}
	return p.render(w, r, http.StatusOK, view.Page())
}
