package ui

import (
	"net/url"

	"github.com/a-h/templ"
)

// Send is the page of how to send data: one sender's setting-up at a time, with the reader's own addresses, and whether the first record has come.
type Send struct {
	Frame
	Targets Targets
	Chosen  string // id of a sender
	Scopes  []string
	Name    string // of the token just made
	Problem *Problem
}

// Page is the page as a component.
func (s Send) Page() templ.Component { return s.page() }

// sender is the chosen one.
func (s Send) sender() Snippet {
	all := s.Targets.Senders()
	for _, x := range all {
		if x.ID == s.Chosen {
			return x
		}
	}
	return all[0]
}

// to is the address of the page for a sender, with the stream that was chosen.
func (s Send) to(id string) templ.SafeURL {
	q := url.Values{"sender": {id}}
	if s.Targets.Stream != "" {
		q.Set("stream", s.Targets.Stream)
	}
	return templ.SafeURL(s.OrgPath("send") + "?" + q.Encode())
}
