package ui

import (
	"slices"
	"time"

	"github.com/a-h/templ"
)

// Status is the page of what is wrong with the node. It is rendered whole, or only its changing part for the script.
type Status struct {
	Frame
	Node     string
	Roles    []string
	Started  time.Time
	GoText   string // version of Go and platform
	Checks   []Check
	Troubles []string // what is wrong besides the checks, in sentences
	Cards    []Card
	Queries  []RunningQuery
	Unlisted []string // why queries may be missing there
}

// Card is a part of the node with its figures.
type Card struct {
	Title, Icon string
	Note        string
	Figures     []Figure
}

// Figure is a number with its name. Metric is the expression behind it, for the explorer.
type Figure struct {
	Label, Value string
	Bad          bool
	Metric       string
}

// RunningQuery is a query that has not ended.
type RunningQuery struct {
	ID, Node, User, Statement string
	Age                       time.Duration
	Rows, Bytes               int64
}

// Page is the whole page.
func (s Status) Page() templ.Component { return s.page() }

// Fragment is what changes on it.
func (s Status) Fragment() templ.Component { return s.body() }

// elsewhere says whether any of the queries runs on another node.
func (s Status) elsewhere() bool {
	return slices.ContainsFunc(s.Queries, func(q RunningQuery) bool { return q.Node != s.Node })
}

func (s Status) bad() (out []string) {
	for _, c := range s.Checks {
		if !c.OK {
			text := c.Name + " does not work"
			if c.Message != "" {
				text += ": " + c.Message
			}
			out = append(out, text)
		}
	}
	return append(out, s.Troubles...)
}
