package api

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"unicode/utf8"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/store"
)

// savedView is a page of the explorer as somebody arranged it.
type savedView struct {
	Page        string    `json:"page" doc:"logs, metrics or traces"`
	State       pageState `json:"state" doc:"the parameters of the page's address: each a string, or an array of strings"`
	Description string    `json:"description,omitempty"`
	Pinned      bool      `json:"pinned,omitempty"`
}

type savedViewBody struct {
	Name    string    `json:"name" doc:"up to 200 characters"`
	Shared  bool      `json:"shared,omitempty" doc:"needs the role editor"`
	Version *int64    `json:"version,omitempty" doc:"the version that is replaced, if not by If-Match; not when creating"`
	Body    savedView `json:"body"`
}

type savedViewView struct {
	documentHead
	Body savedView `json:"body"`
}

type savedViewSummary struct {
	Page        string    `json:"page"`
	Description string    `json:"description,omitempty"`
	Pinned      bool      `json:"pinned,omitempty"`
	State       pageState `json:"state,omitempty" doc:"only one that fits an address"`
}

type listedViewView struct {
	documentHead
	Summary savedViewSummary `json:"summary"`
}

type savedViewsView struct {
	Views []listedViewView `json:"views"`
}

func (a *API) viewRoutes() []route {
	return a.documentRoutes(noun{
		kind: store.View, path: v1 + "/views", list: "views", least: auth.Viewer, read: readView,
		body: savedViewBody{}, one: savedViewView{}, many: savedViewsView{},
	})
}

const (
	maxDescription = 2000
	maxAddress     = 1900 // characters of a state in an address
)

func readView(r *http.Request) (draft, error) {
	var in savedViewBody
	if err := read(r, &in); err != nil {
		return draft{}, err
	}
	if err := checkName("name", in.Name); err != nil {
		return draft{}, err
	}
	b := in.Body
	switch b.Page {
	case "logs", "metrics", "traces":
	default:
		return draft{}, millstream.Errorf(millstream.Invalid, "body.page is %q, it must be logs, metrics or traces", b.Page)
	}
	if n := utf8.RuneCountInString(b.Description); n > maxDescription {
		return draft{}, millstream.Errorf(millstream.Invalid, "body.description has %d characters, more than %d", n, maxDescription)
	}
	if err := b.State.check("body.state"); err != nil {
		return draft{}, err
	}
	summary := savedViewSummary{Page: b.Page, Description: b.Description, Pinned: b.Pinned}
	if len(b.State.query().Encode()) <= maxAddress {
		summary.State = b.State
	}
	return draftOf(in.Name, in.Shared, in.Version, summary, b)
}

// draftOf encodes what is kept.
func draftOf(name string, shared bool, version *int64, summary, body any) (draft, error) {
	s, err := encode(summary)
	if err != nil {
		return draft{}, err
	}
	b, err := encode(body)
	return draft{store.Draft{Name: name, Shared: shared, Summary: bytes.TrimSpace(s), Body: bytes.TrimSpace(b)}, version}, err
}

// pageState is the parameters of a page's address.
type pageState map[string]stateValue

// query is the state as it stands in an address.
func (s pageState) query() url.Values {
	v := url.Values{}
	for name, values := range s {
		v[name] = values
	}
	return v
}

// stateValue is one parameter; a parameter that is given once is a plain string in JSON.
type stateValue []string

// UnmarshalJSON takes a string or an array of strings.
func (v *stateValue) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil && string(text) != "null" {
		*v = stateValue{one}
		return nil
	}
	var many []string
	if err := json.Unmarshal(text, &many); err != nil || many == nil {
		return millstream.Errorf(millstream.Invalid, "a parameter of the state is %.40s, it must be a string or an array of strings", text)
	}
	*v = many
	return nil
}

// MarshalJSON is the reverse.
func (v stateValue) MarshalJSON() ([]byte, error) {
	if len(v) == 1 {
		return encode(v[0])
	}
	return encode([]string(v))
}

const (
	maxParameters = 200
	maxParameter  = 128 // characters of a parameter's name
)

// check refuses a state that no address would have; path is its place in the body.
func (s pageState) check(path string) error {
	if len(s) > maxParameters {
		return millstream.Errorf(millstream.Invalid, "%s has %d parameters, more than %d", path, len(s), maxParameters)
	}
	for name := range s {
		if n := utf8.RuneCountInString(name); n == 0 || n > maxParameter {
			return millstream.Errorf(millstream.Invalid, "%s has a parameter whose name has %d characters: 1 to %d are allowed", path, n, maxParameter)
		}
	}
	text, err := encode(s)
	if err == nil && len(text) > store.MaxLinkState {
		err = millstream.Errorf(millstream.TooLarge, "%s has %d bytes as JSON, more than %d", path, len(text), store.MaxLinkState)
	}
	return err
}
