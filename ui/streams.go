package ui

import (
	"net/url"
	"strconv"
	"time"

	"github.com/a-h/templ"
)

// StreamList is the page of the organization's streams. The script asks for it again while a filter is typed and gets only the table.
type StreamList struct {
	Frame
	Rows           []StreamRow
	Total          int    // that there are, whatever the filter
	Found          int    // that pass the filter
	Filter, Signal string // of names; of one signal, or empty
	Sort           string // name, rows, bytes or newest
	Pager          Pager
	Count          int64 // rows of all streams
	Bytes          int64
	Uncounted      []string // why unflushed rows of some nodes are not in the numbers
}

// StreamRow is a stream as its list shows it.
type StreamRow struct {
	Signal, Name          string
	Rows, Bytes, Segments int64
	Fields                int
	Retention             int       // days; 0: the organization's
	Oldest, Newest        time.Time // zero: nothing is published
}

// StreamPage is one stream.
type StreamPage struct {
	Frame
	StreamRow
	Uncounted []string // as in the list

	Tab     string // schema, segments or settings
	Problem *Problem
	Done    string

	Schema    []FieldRow
	Found     int // fields that pass the filter
	Conflicts int // fields whose type widened
	Filter    string
	Only      bool // only those with conflicts
	Pager     Pager

	SegmentRows []SegmentRow

	Indexed   string // one field a line, as typed
	MaxFields int
	Created   time.Time
}

// FieldRow is a field of the schema. Seen are the types it came with.
type FieldRow struct {
	Name, Type string
	Conflict   bool
	Seen       []string
}

// SegmentRow is a segment.
type SegmentRow struct {
	ID                string
	Start, End        time.Time
	Rows, Data, Index int64
	Level             int
}

// Pager leads through a long list. Page counts from 0.
type Pager struct {
	Path        string // with parameters, without the page
	Page, Pages int
}

// at is the address of a page.
func (p Pager) at(page int) templ.SafeURL {
	u, err := url.Parse(p.Path)
	if err != nil {
		return templ.SafeURL(p.Path)
	}
	q := u.Query()
	q.Set("page", strconv.Itoa(page))
	u.RawQuery = q.Encode()
	return templ.SafeURL(u.String())
}

// Page is the whole page.
func (l StreamList) Page() templ.Component { return l.page() }

// Fragment is the table.
func (l StreamList) Fragment() templ.Component { return l.table() }

// Page is the whole page.
func (s StreamPage) Page() templ.Component { return s.page() }

func (s StreamPage) path(tab string) string {
	p := s.OrgPath("streams/" + s.Signal + "/" + url.PathEscape(s.Name))
	if tab != "" && tab != "schema" {
		p += "?tab=" + tab
	}
	return p
}

// explore is where the stream's records are looked at.
func (r StreamRow) explore(f Frame) templ.SafeURL {
	switch r.Signal {
	case "metrics":
		return templ.SafeURL(f.OrgPath("metrics"))
	case "traces":
		return templ.SafeURL(f.OrgPath("traces") + "?stream=" + url.QueryEscape(r.Name))
	}
	return templ.SafeURL(f.OrgPath("logs") + "?stream=" + url.QueryEscape(r.Name))
}

func signalIcon(signal string) string {
	switch signal {
	case "metrics":
		return "chart-line"
	case "traces":
		return "waypoints"
	}
	return "scroll-text"
}

// sorted is the address of the list in another order.
func (l StreamList) sorted(by string) templ.SafeURL {
	q := url.Values{"sort": {by}}
	if l.Filter != "" {
		q.Set("q", l.Filter)
	}
	if l.Signal != "" {
		q.Set("signal", l.Signal)
	}
	return templ.SafeURL(l.OrgPath("streams") + "?" + q.Encode())
}

// retention writes days; none of its own is the organization's.
func retention(days int) string {
	if days == 0 {
		return "organization’s"
	}
	return plural(days, "day", "days")
}

func day(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return t.UTC().Format("2006-01-02 15:04")
}
