package web

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/store"
	"github.com/millstream/millstream/ui"
)

// maxStreams is how many streams the page lists.
const maxStreams = 200

// home is the first page. It is shown whatever fails: each part says so itself.
func (p *Pages) home(w http.ResponseWriter, r *http.Request) error {
	org := r.URL.Query().Get("org")
	who, err := p.who(w, r, org)
	if err != nil && millstream.KindOf(err) != millstream.Unavailable {
		return err
	}
	page := ui.Home{
		Frame: p.frame(who, org), Roles: p.Roles, Started: p.Started, Now: p.Now(), Checks: p.Checks(r.Context()), Targets: p.targets(r, ""),
	}
	if who == nil {
		page.Fresh = p.fresh(r.Context())
		return p.render(w, r, http.StatusOK, page.Page())
	}
	page.Node, page.FormToken, page.Scopes = p.Node, p.formToken(w, r), tokenScopes(who).Names()
	page.Streams = p.streams(w, r, who)
	page.Orgs = p.others(w, r, who)
	return p.render(w, r, http.StatusOK, page.Page())
}

func (p *Pages) toHome(w http.ResponseWriter, _ *http.Request) error { return p.redirect(w, "/") }

// streams lists the organization's streams by signal and name.
func (p *Pages) streams(w http.ResponseWriter, r *http.Request, who *auth.Principal) *ui.Streams {
	if !who.May(auth.Query, auth.Viewer) {
		return &ui.Streams{Problem: "your rights cannot be confirmed now: the database does not answer"}
	}
	all, err := p.Catalog.Streams(r.Context(), who.Org, 0)
	if err != nil {
		p.logFailure(w, r, err)
		return &ui.Streams{Problem: millstream.Message(err)}
	}
	slices.SortFunc(all, func(a, b store.StreamSummary) int {
		return cmp.Or(cmp.Compare(a.Key.Signal, b.Key.Signal), cmp.Compare(a.Key.Name, b.Key.Name))
	})
	view := &ui.Streams{Total: len(all)}
	for i, s := range all {
		view.Count += s.Rows
		view.Bytes += s.Bytes
		if i < maxStreams {
			view.Rows = append(view.Rows, streamOf(s))
		}
	}
	return view
}

func streamOf(s store.StreamSummary) ui.Stream {
	out := ui.Stream{Signal: s.Key.Signal.String(), Name: s.Key.Name, Rows: s.Rows, Bytes: s.Bytes, Segments: s.Segments, Fields: len(s.Schema.Fields)}
	if s.Segments > 0 {
		out.Newest = time.Unix(0, s.MaxTime)
	}
	return out
}

// others are the organizations the reader may change to.
func (p *Pages) others(w http.ResponseWriter, r *http.Request, who *auth.Principal) (slugs []string) {
	all, err := p.Auth.Memberships(r.Context(), who)
	if err != nil {
		p.logFailure(w, r, err)
		return nil
	}
	for _, m := range all {
		if m.Org != who.Org {
			slugs = append(slugs, m.Slug)
		}
	}
	return slugs
}

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
