package ui

import (
	"encoding/json"
	"fmt"
	"net/url"

	"github.com/a-h/templ"
)

// Settings is the page of what somebody may set for himself, or of the node's configuration.
type Settings struct {
	Frame
	Problem       *Problem // with the password
	Done          string
	Configuration bool
	Values        []Setting
}

// Setting is one of the node's configuration.
type Setting struct{ Name, Env, Value, Source, Doc string }

// Page is the page as a component.
func (s Settings) Page() templ.Component { return s.page() }

func (s Settings) orgLogs(slug string) string { return s.Base + "/" + url.PathEscape(slug) + "/logs" }

// pref is a preference as text; empty: it was never set.
func (s Settings) pref(name string) string { return prefOf(s.Prefs, name, "") }

func prefOf(prefs json.RawMessage, name, otherwise string) string {
	var all map[string]any
	if json.Unmarshal(prefs, &all) != nil || all[name] == nil {
		return otherwise
	}
	return fmt.Sprint(all[name])
}
