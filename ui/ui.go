// Package ui holds what the browser gets: the pages as templ components, with the values each of them shows, and the embedded assets.
//
// It decides nothing and asks nobody: package web fills these values in. Text of any origin may be put in; templ escapes it. The scripts, the style sheet and
// the icons are in src; build.mjs makes dist of them, which is committed and embedded.
package ui

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/a-h/templ"
)

// Frame is what every page shows around its content. Who is signed in and what follows from it is empty on pages for strangers.
type Frame struct {
	Base      string // path prefix of every link, such as /millstream
	Home      string // path of the first page
	Version   string
	FormToken string // of the forms on the page and of the requests of its script
	Theme     string // "light" or "dark"; empty: as the system
	Density   string // "compact" or "comfortable"; empty: default

	Item     string // what of the page's list is shown; empty: the list, or only the page's script knows
	Page     string // path of the page below the organization, or below the base path for pages of no organization; marks the navigation
	UserID   string // who is signed in; empty: nobody
	Email    string
	UserName string
	Org      string   // slug of the organization he works in
	Orgs     []string // slugs of all he may work in
	Role     string   // "viewer", "editor", "admin" or "owner"
	Now      time.Time

	Installation bool // he looks after the installation: its nodes and their configuration

	Prefs   json.RawMessage // the reader's preferences, an object
	Streams []StreamRef     // of the organization, those with the newest data first; at most 500
	Data    map[string]any  // what the page's script is told besides
}

// StreamRef names a stream.
type StreamRef struct {
	Signal string `json:"signal"`
	Name   string `json:"name"`
}

// look is the theme and density as attributes of the document, so that nothing flashes.
func (f Frame) look() templ.Attributes {
	a := templ.Attributes{}
	if f.Theme != "" {
		a["data-theme"] = f.Theme
	}
	if f.Density != "" {
		a["data-density"] = f.Density
	}
	return a
}

// boot is what the page's script is told; lib/boot.ts has its shape.
func (f Frame) boot() any {
	type user struct {
		ID    string `json:"id"`
		Email string `json:"email"`
		Name  string `json:"name"`
	}
	data := map[string]any{"orgs": f.Orgs}
	for k, v := range f.Data {
		data[k] = v
	}
	prefs := f.Prefs
	if len(prefs) == 0 {
		prefs = json.RawMessage("{}")
	}
	streams := f.Streams
	if streams == nil {
		streams = []StreamRef{}
	}
	return struct {
		Base    string          `json:"base"`
		Org     string          `json:"org"`
		User    user            `json:"user"`
		Role    string          `json:"role"`
		Whole   bool            `json:"installation"`
		CSRF    string          `json:"csrf"`
		Now     time.Time       `json:"now"`
		Version string          `json:"version"`
		Page    string          `json:"page"`
		Prefs   json.RawMessage `json:"prefs"`
		Streams []StreamRef     `json:"streams"`
		Data    map[string]any  `json:"data"`
	}{f.Base, f.Org, user{f.UserID, f.Email, f.UserName}, f.Role, f.Installation, f.FormToken, f.Now.UTC(), f.Version, f.Page, prefs, streams, data}
}

// OrgPath is the path of a page of the organization.
func (f Frame) OrgPath(page string) string {
	return f.Base + "/" + url.PathEscape(f.Org) + "/" + page
}

// may says whether the reader has at least a role. The server decides on every request; the pages only leave out what cannot work.
func (f Frame) may(role string) bool {
	ranks := []string{"viewer", "editor", "admin", "owner"}
	return slices.Index(ranks, f.Role) >= slices.Index(ranks, role)
}

// navGroup is a part of the navigation; the one without a name is at the bottom.
type navGroup struct {
	Name  string
	Links []navLink
}

type navLink struct{ Page, Label, Icon, Path string }

// navigation lists the pages that the reader may open.
func (f Frame) navigation() []navGroup {
	org := func(page, label, icon string) navLink { return navLink{page, label, icon, f.OrgPath(page)} }
	node := func(page, label, icon string) navLink { return navLink{page, label, icon, f.Base + "/" + page} }
	admin := []navLink{org("access", "Access", "users"), node("settings", "Settings", "settings")}
	data := []navLink{org("streams", "Streams", "layers")}
	if f.may("editor") {
		data = append(data, org("send", "Send data", "plug"))
	}
	groups := []navGroup{
		{"Explore", []navLink{org("logs", "Logs", "scroll-text"), org("metrics", "Metrics", "chart-line"), org("traces", "Traces", "waypoints"), org("dashboards", "Dashboards", "layout-dashboard")}},
		{"Data", data},
	}
	if f.Installation {
		groups = append(groups, navGroup{"Cluster", []navLink{node("cluster/nodes", "Nodes", "server"), node("cluster/ownership", "Ownership", "grid-3x3")}})
	}
	return append(groups, navGroup{"Administration", admin}, navGroup{"", []navLink{node("cluster/status", "System status", "activity")}})
}

// above is the page of the navigation that a page with this title is below; false for those of the navigation themselves.
func (f Frame) above(title string) (navLink, bool) {
	for _, g := range f.navigation() {
		for _, l := range g.Links {
			if l.Page == f.Page && l.Label != title {
				return l, true
			}
		}
	}
	return navLink{}, false
}

type baseKey struct{}

// WithBase tells the components of a page below which path the assets are.
func WithBase(ctx context.Context, base string) context.Context {
	refresh()
	return context.WithValue(ctx, baseKey{}, base)
}

func iconBase(ctx context.Context) string {
	base, _ := ctx.Value(baseKey{}).(string)
	return base
}

// Check is one thing that must work for the node to be ready.
type Check struct {
	Name    string
	OK      bool
	Message string // why not
}

// Problem is what is wrong with a form that was sent.
type Problem struct {
	Field string // name of the field at fault; empty: the form as a whole
	Text  string
	Hint  string
}

// has says whether a field is at fault.
func (p *Problem) has(field string) bool { return p != nil && p.Field == field }

// Explorer is a page whose content its script builds.
type Explorer struct {
	Frame
	Title  string
	Script string // logical name, such as logs.js
}

// Login is the sign-in page.
type Login struct {
	Frame
	Email   string // as typed
	Next    string // path below the base path to go to afterwards; empty: the first page
	Ended   bool   // a session ended
	Problem *Problem
	Refused string // why no password may be typed here; empty: it may
}

// Setup is the page of the first run.
type Setup struct {
	Frame
	Code, Email, Org string // as typed
	Problem          *Problem
	Refused          string
}

// Token shows a new API token, this once.
type Token struct {
	Frame
	First   bool // the node has just been set up
	Token   string
	Name    string
	Scopes  []string
	Targets Targets
	Problem *Problem // instead of a token
}

// has says whether the token carries a scope.
func (t *Token) has(scope string) bool { return slices.Contains(t.Scopes, scope) }

// Notice is a page that says one thing, such as that there is no such page.
type Notice struct {
	Frame
	Heading, Text, Hint string
	Request             string // id that finds the request in the node's log
}

// NextPath is a path of ours to go to after signing in, or "" if what was asked for is none: an absolute or foreign address is never followed.
func NextPath(path string) string {
	u, err := url.Parse(path)
	if err != nil || u.IsAbs() || u.Host != "" || u.User != nil || !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.ContainsAny(path, "\\\r\n\t") {
		return ""
	}
	return path
}
