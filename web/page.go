package web

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/store"
	"github.com/millstream/millstream/ui"
)

// visit is one request of a signed-in reader for a page.
type visit struct {
	who   *auth.Principal
	frame ui.Frame
}

// page reads, calls once and renders, for a reader who is signed in.
type page func(w http.ResponseWriter, r *http.Request, v *visit) error

// signedIn surrounds a page: strangers are sent to sign in and come back afterwards. name is the page's path for the navigation. The organization is the path's
// first element where the pattern has one, else the one that the reader worked in last.
func (p *Pages) signedIn(name string, f page) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		org := chi.URLParam(r, "org")
		who, err := p.who(w, r, cmp.Or(org, lastOrg(r)))
		if err != nil && org == "" && millstream.KindOf(err) == millstream.NotFound {
			who, err = p.who(w, r, "")
		}
		switch {
		case err != nil:
			return err
		case who == nil && p.fresh(r.Context()):
			return p.redirect(w, "/setup")
		case who == nil:
			return p.toLogin(w, r)
		case !who.May(auth.Query, auth.Viewer):
			return millstream.Errorf(millstream.Unavailable, "your rights cannot be confirmed now: the database does not answer")
		}
		v := &visit{who: who, frame: p.frame(who, who.Slug)}
		if err := p.fill(w, r, v, name); err != nil {
			return err
		}
		return f(w, r, v)
	}
}

// toLogin sends a stranger to sign in and then back. Only what can be asked for again by GET is gone back to.
func (p *Pages) toLogin(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return p.redirect(w, "/login")
	}
	next := strings.TrimPrefix(r.URL.RequestURI(), p.BasePath)
	if len(next) > maxNext {
		next = r.URL.EscapedPath()[len(p.BasePath):]
	}
	q := url.Values{"next": {next}}
	if p.cookie(r, sessionCookie) != "" {
		q.Set("ended", "1")
	}
	return p.redirect(w, "/login?"+q.Encode())
}

// maxNext is how long an address to go back to may be; a longer one loses its parameters.
const maxNext = 12 << 10

const (
	lookCookie = "ms_look" // theme.density, written by the page's script
	orgCookie  = "ms_org"  // slug of the organization worked in last
	maxStreams = 500       // that a page is told of
)

// look reads the theme and density that this browser chose; what is not known is left to the system.
func look(r *http.Request) (theme, density string) {
	c, err := r.Cookie(lookCookie)
	if err != nil {
		return "", ""
	}
	theme, density, _ = strings.Cut(c.Value, ".")
	if theme != "light" && theme != "dark" {
		theme = ""
	}
	if density != "compact" && density != "comfortable" {
		density = ""
	}
	return theme, density
}

func lastOrg(r *http.Request) string {
	c, err := r.Cookie(orgCookie)
	if err != nil || auth.CheckSlug(c.Value) != nil {
		return ""
	}
	return c.Value
}

// fill completes the frame for a signed-in reader.
func (p *Pages) fill(w http.ResponseWriter, r *http.Request, v *visit, name string) error {
	f := &v.frame
	f.Page, f.Now, f.FormToken = name, p.Now(), p.formToken(w, r)
	f.Theme, f.Density = look(r)
	f.UserID, f.Role, f.Installation = v.who.User, v.who.Role.String(), v.who.MayAdminister(auth.Admin)
	all, err := p.Auth.Memberships(r.Context(), v.who)
	if err != nil {
		return err
	}
	for _, m := range all {
		f.Orgs = append(f.Orgs, m.Slug)
	}
	f.Prefs = p.preferences(w, r, v.who)
	if f.Org != lastOrg(r) {
		http.SetCookie(w, &http.Cookie{Name: orgCookie, Value: f.Org, Path: "/", MaxAge: 365 * 24 * 3600, HttpOnly: true, Secure: p.secure(r), SameSite: http.SameSiteLaxMode})
	}
	return nil
}

// preferences are the reader's, as JSON; the page is rendered without them when they cannot be read.
func (p *Pages) preferences(w http.ResponseWriter, r *http.Request, who *auth.Principal) json.RawMessage {
	by := store.Author{Org: who.Org, User: who.User}
	id, err := p.Catalog.PreferencesID(r.Context(), by)
	var d store.Document
	if err == nil {
		d, err = p.Catalog.Document(r.Context(), by, store.Preferences, id)
	}
	if err != nil && millstream.KindOf(err) != millstream.NotFound {
		p.logFailure(w, r, err)
	}
	return d.Body
}

// explorer is a page whose content its script builds. It is told the organization's streams, so that the first query need not wait for them.
func (p *Pages) explorer(title, script string) page {
	return func(w http.ResponseWriter, r *http.Request, v *visit) error {
		all, _, err := p.Catalog.Streams(r.Context(), v.who.Org, 0)
		if err != nil {
			return err
		}
		v.frame.Streams = refs(all)
		return p.render(w, r, http.StatusOK, ui.Explorer{Frame: v.frame, Title: title, Script: script}.Page())
	}
}

// refs are the streams with the newest data first.
func refs(all []store.StreamSummary) []ui.StreamRef {
	slices.SortFunc(all, func(a, b store.StreamSummary) int {
		return cmp.Or(cmp.Compare(b.MaxTime, a.MaxTime), cmp.Compare(a.Key.Signal, b.Key.Signal), cmp.Compare(a.Key.Name, b.Key.Name))
	})
	out := make([]ui.StreamRef, min(len(all), maxStreams))
	for i := range out {
		out[i] = ui.StreamRef{Signal: all[i].Key.Signal.String(), Name: all[i].Key.Name}
	}
	return out
}

// home leads to where the reader works.
func (p *Pages) home(w http.ResponseWriter, r *http.Request, v *visit) error {
	return p.redirect(w, "/"+url.PathEscape(v.frame.Org)+"/logs")
}

func (p *Pages) toHome(w http.ResponseWriter, _ *http.Request) error { return p.redirect(w, "/") }

// fresh says whether nobody has set the node up yet. When that cannot be found out, somebody has.
func (p *Pages) fresh(ctx context.Context) bool {
	if p.settled.Load() {
		return false
	}
	orgs, err := p.Catalog.Organizations(ctx, "")
	if err != nil {
		return false
	}
	if len(orgs) > 0 {
		p.settled.Store(true)
	}
	return len(orgs) == 0
}
