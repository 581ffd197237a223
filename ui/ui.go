// Package ui holds what the browser gets: the pages as templ components, with the values each of them shows, and the embedded assets.
//
// It decides nothing and asks nobody: package web fills these values in. Text of any origin may be put in; templ escapes it.
package ui

import "time"

// Frame is what every page shows around its content.
type Frame struct {
	Base      string // path prefix of every link, such as /millstream
	Home      string // path of the first page
	Version   string
	Email     string // who is signed in; empty: nobody
	Org       string // slug of the organization he works in
	FormToken string // of the forms on the page
	Fresh     bool   // nobody has set the node up yet
}

// Check is one thing that must work for the node to be ready.
type Check struct {
	Name    string
	OK      bool
	Message string // why not
}

// Home is the first page.
type Home struct {
	Frame
	Node    string // its id; empty for strangers
	Roles   []string
	Started time.Time
	Now     time.Time
	Checks  []Check
	Targets Targets
	Streams *Streams // nil: nobody is signed in
	Orgs    []string // slugs of the reader's other organizations
	Scopes  []string // what a token of the reader's can carry
}

// Ready says whether every check is good.
func (h *Home) Ready() bool {
	for _, c := range h.Checks {
		if !c.OK {
			return false
		}
	}
	return true
}

// Streams is the panel of an organization's streams.
type Streams struct {
	Rows    []Stream // at most as many as the page shows
	Total   int      // how many there are
	Count   int64    // rows of all of them
	Bytes   int64
	Problem string // why there is no list
}

// Stream is a line of that panel.
type Stream struct {
	Signal, Name          string
	Rows, Bytes, Segments int64
	Fields                int
	Newest                time.Time // zero: nothing is published
}

// Problem is what is wrong with a form that was sent.
type Problem struct {
	Field string // name of the field at fault; empty: the form as a whole
	Text  string
	Hint  string
}

// has says whether a field is at fault.
func (p *Problem) has(field string) bool { return p != nil && p.Field == field }

// Login is the sign-in page.
type Login struct {
	Frame
	Email   string // as typed
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
func (t *Token) has(scope string) bool {
	for _, s := range t.Scopes {
		if s == scope {
			return true
		}
	}
	return false
}

// Notice is a page that says one thing, such as that there is no such page.
type Notice struct {
	Frame
	Heading, Text, Hint string
	Request             string // id that finds the request in the node's log
}
