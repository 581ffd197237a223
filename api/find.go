package api

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/store"
)

// finder finds what has a name in the database. *store.Store fits.
type finder interface {
	Search(ctx context.Context, by store.Author, text string, most int) ([]store.Hit, error)
}

type foundView struct {
	Kind   string `json:"kind" doc:"trace, dashboard, view, stream, service or metric"`
	Title  string `json:"title" doc:"the name"`
	Detail string `json:"detail,omitempty" doc:"the signal of a stream, the page of a view, the folder of a dashboard"`
	Path   string `json:"path" doc:"of the page that shows it, below the base path"`
}

type findView struct {
	Results []foundView `json:"results" doc:"best first"`
}

const (
	maxFound = 100
	maxText  = 100 // characters of a text
)

func (a *API) findRoutes() []route {
	return []route{{method: "GET", path: v1 + "/search", policy: need(auth.Query, auth.Viewer), at: onQuerier, handle: a.findNames,
		doc: operation{summary: "Find streams, dashboards, views, services and metrics by name, or a pasted trace id", reply: findView{}, query: []param{
			{"q", "string", "characters of the name in their order, in any case; or a trace id"}, {"limit", "integer", "1 to 100, default 20"},
		}}}}
}

// ranked is a result on its way. Results of one rank stand in the order of kinds, the shorter name first.
type ranked struct {
	foundView
	rank, kind int
}

// The order of kinds.
const (
	kindTrace = iota
	kindDashboard
	kindView
	kindStream
	kindService
	kindMetric
)

var traceID = regexp.MustCompile(`^(?:[0-9a-f]{32}|[0-9a-f]{16})$`)

func (a *API) findNames(w http.ResponseWriter, r *http.Request) error {
	limit, err := queryInt(r, "limit", 20, maxFound)
	if err != nil {
		return err
	}
	text := strings.ToLower(strings.TrimSpace(r.URL.Query().Get("q")))
	if n := utf8.RuneCountInString(text); n > maxText || strings.ContainsRune(text, 0) {
		return millstream.Errorf(millstream.Invalid, "q has %d characters, it must be text of at most %d", n, maxText)
	}
	view := findView{Results: []foundView{}}
	if text == "" {
		return reply(w, http.StatusOK, view)
	}
	all, err := a.find(r, text, limit)
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(x, y ranked) int {
		return cmp.Or(cmp.Compare(x.rank, y.rank), cmp.Compare(x.kind, y.kind), cmp.Compare(len(x.Title), len(y.Title)), cmp.Compare(x.Title, y.Title))
	})
	for _, f := range all[:min(limit, len(all))] {
		view.Results = append(view.Results, f.foundView)
	}
	return reply(w, http.StatusOK, view)
}

func (a *API) find(r *http.Request, text string, limit int) ([]ranked, error) {
	pages := "/" + url.PathEscape(who(r).Slug) + "/"
	var all []ranked
	if id := strings.ReplaceAll(text, "-", ""); traceID.MatchString(id) {
		all = append(all, ranked{foundView{"trace", id, "", pages + "traces/" + id}, -1, kindTrace})
	}
	hits, err := a.Finder.Search(r.Context(), authorOf(r), text, limit)
	if err != nil {
		return nil, err
	}
	for _, h := range hits {
		f, err := hitOf(h, pages)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	known := a.names.of(r.Context(), who(r).Org)
	all = append(all, matching(known.services, text, limit, ranked{foundView{Kind: "service", Path: pages + "services?service="}, 0, kindService})...)
	return append(all, matching(known.metrics, text, limit, ranked{foundView{Kind: "metric", Path: pages + "metrics?q="}, 0, kindMetric})...), nil
}

func hitOf(h store.Hit, pages string) (ranked, error) {
	switch h.Kind {
	case store.Dashboard:
		var s dashboardSummary
		err := json.Unmarshal(h.Summary, &s)
		return ranked{foundView{"dashboard", h.Name, s.Folder, pages + "dashboards/" + h.ID}, h.Rank, kindDashboard}, err
	case store.View:
		var s savedViewSummary
		err := json.Unmarshal(h.Summary, &s)
		state := s.State.query()
		state.Set("view", h.ID)
		return ranked{foundView{"view", h.Name, s.Page, pages + s.Page + "?" + state.Encode()}, h.Rank, kindView}, err
	}
	return ranked{foundView{"stream", h.Name, h.Signal.String(), pages + h.Signal.String() + "?stream=" + url.QueryEscape(h.Name)}, h.Rank, kindStream}, nil
}

// matching are the best of a list of names.
func matching(names []string, text string, most int, as ranked) []ranked {
	var out []ranked
	better := func(x, y ranked) int {
		return cmp.Or(cmp.Compare(x.rank, y.rank), cmp.Compare(len(x.Title), len(y.Title)), cmp.Compare(x.Title, y.Title))
	}
	for _, name := range names {
		f := as
		if f.rank = store.Match(strings.ToLower(name), text); f.rank == store.NoMatch {
			continue
		}
		f.Title, f.Path = name, as.Path+url.QueryEscape(name)
		out = append(out, f)
		if len(out) >= 4*most { // so that a list of any length needs no more memory than this
			slices.SortFunc(out, better)
			out = out[:most]
		}
	}
	slices.SortFunc(out, better)
	return out[:min(most, len(out))]
}
