package web

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/store"
	"github.com/millstream/millstream/ui"
)

// pageRows is how many lines of a long list a page shows.
const pageRows = 200

func (p *Pages) streamRoutes(add func(method, pattern string, h handler)) {
	const one = "/{org}/streams/{signal}/{name}"
	add("GET", "/{org}/streams", p.signedIn("streams", p.streams))
	add("GET", one, p.signedIn("streams", p.stream))
	add("POST", one, p.signedIn("streams", p.saveStream))
	add("POST", one+"/delete", p.signedIn("streams", p.deleteStream))
}

// streams lists the organization's streams; the script that filters gets the table only.
func (p *Pages) streams(w http.ResponseWriter, r *http.Request, v *visit) error {
	all, reasons, err := p.Catalog.Streams(r.Context(), v.who.Org, 0)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	view := ui.StreamList{Frame: v.frame, Uncounted: reasons, Total: len(all), Filter: q.Get("q"), Signal: q.Get("signal"), Sort: cmp.Or(q.Get("sort"), "name")}
	order := streamOrders[view.Sort]
	if order == nil {
		view.Sort, order = "name", byName
	}
	found := all[:0]
	for _, s := range all {
		view.Count += s.Rows
		view.Bytes += s.Bytes
		if matches(s.Key.Name, view.Filter) && (view.Signal == "" || s.Key.Signal.String() == view.Signal) {
			found = append(found, s)
		}
	}
	slices.SortFunc(found, func(a, b store.StreamSummary) int { return cmp.Or(order(a, b), byName(a, b)) })
	view.Found = len(found)
	var part []store.StreamSummary
	view.Pager, part = paged(r, found)
	for _, s := range part {
		view.Rows = append(view.Rows, streamRow(s))
	}
	if r.Header.Get("HX-Request") == "true" {
		return p.render(w, r, http.StatusOK, view.Fragment())
	}
	return p.render(w, r, http.StatusOK, view.Page())
}

func byName(a, b store.StreamSummary) int {
	return cmp.Or(strings.Compare(a.Key.Name, b.Key.Name), cmp.Compare(a.Key.Signal, b.Key.Signal))
}

var streamOrders = map[string]func(a, b store.StreamSummary) int{
	"name":   byName,
	"rows":   func(a, b store.StreamSummary) int { return cmp.Compare(b.Rows, a.Rows) },
	"bytes":  func(a, b store.StreamSummary) int { return cmp.Compare(b.Bytes, a.Bytes) },
	"newest": func(a, b store.StreamSummary) int { return cmp.Compare(b.MaxTime, a.MaxTime) },
}

// matches says whether a name contains what was typed, whatever the case.
func matches(name, typed string) bool {
	return strings.Contains(strings.ToLower(name), strings.ToLower(strings.TrimSpace(typed)))
}

// paged is the part of a list that the request's page shows.
func paged[T any](r *http.Request, all []T) (ui.Pager, []T) {
	q := r.URL.Query()
	page, err := strconv.Atoi(q.Get("page"))
	pages := max(1, (len(all)+pageRows-1)/pageRows)
	if err != nil || page < 0 || page >= pages {
		page = 0
	}
	q.Del("page")
	return ui.Pager{Path: r.URL.Path + "?" + q.Encode(), Page: page, Pages: pages}, all[page*pageRows : min(len(all), (page+1)*pageRows)]
}

func streamRow(s store.StreamSummary) ui.StreamRow {
	out := ui.StreamRow{Signal: s.Key.Signal.String(), Name: s.Key.Name, Rows: s.Rows, Bytes: s.Bytes, Segments: s.Segments, Fields: len(s.Schema.Fields), Retention: s.RetentionDays}
	if s.MaxTime > 0 {
		out.Oldest, out.Newest = time.Unix(0, s.MinTime), time.Unix(0, s.MaxTime)
	}
	return out
}

// found is the stream that the path names.
func (p *Pages) found(r *http.Request, v *visit) (store.Stream, error) {
	sig, err := millstream.ParseSignal(chi.URLParam(r, "signal"))
	if err != nil {
		return store.Stream{}, millstream.Wrap(millstream.NotFound, err, "there is no signal %q", chi.URLParam(r, "signal"))
	}
	name, err := url.PathUnescape(chi.URLParam(r, "name"))
	if err != nil {
		return store.Stream{}, millstream.Wrap(millstream.Invalid, err, "the path is not well formed")
	}
	return p.Catalog.Stream(r.Context(), millstream.StreamKey{Org: v.who.Org, Signal: sig, Name: name})
}

func (p *Pages) stream(w http.ResponseWriter, r *http.Request, v *visit) error {
	s, err := p.found(r, v)
	if err != nil {
		return err
	}
	return p.showStream(w, r, v, http.StatusOK, s, ui.StreamPage{Tab: r.URL.Query().Get("tab"), Done: said(r)})
}

func (p *Pages) showStream(w http.ResponseWriter, r *http.Request, v *visit, code int, s store.Stream, view ui.StreamPage) error {
	segments, err := p.Catalog.StreamSegments(r.Context(), s.ID)
	if err != nil {
		return err
	}
	pending, reasons, err := p.Catalog.Unflushed(r.Context(), s.ID)
	if err != nil {
		return err
	}
	sum := pending.Add(store.Summarize(s, segments))
	v.frame.Item = s.Key.Name
	view.Frame, view.StreamRow, view.Uncounted = v.frame, streamRow(sum), reasons
	view.Created, view.MaxFields, view.Indexed = s.CreatedAt, s.MaxFields, strings.Join(s.IndexedFields, "\n")
	switch view.Tab {
	case "segments":
		slices.Reverse(segments) // newest first
		var part []millstream.Segment
		view.Pager, part = paged(r, segments)
		for _, g := range part {
			view.SegmentRows = append(view.SegmentRows, ui.SegmentRow{
				ID: string(g.ID), Start: time.Unix(0, g.MinTime), End: time.Unix(0, g.MaxTime), Rows: g.Rows, Data: g.Data.Length, Index: g.Index.Length, Level: g.Level,
			})
		}
	case "settings":
	default:
		view.Tab = "schema"
		schemaOf(r, sum.Schema, &view)
	}
	return p.render(w, r, code, view.Page())
}

// schemaOf lists the fields that the request's filter lets through.
func schemaOf(r *http.Request, s millstream.Schema, view *ui.StreamPage) {
	q := r.URL.Query()
	view.Filter, view.Only = q.Get("q"), q.Get("conflicts") == "1"
	var found []millstream.Field
	for _, f := range s.Fields {
		if f.Conflict {
			view.Conflicts++
		}
		if matches(f.Name, view.Filter) && (f.Conflict || !view.Only) {
			found = append(found, f)
		}
	}
	view.Found = len(found)
	var part []millstream.Field
	view.Pager, part = paged(r, found)
	for _, f := range part {
		row := ui.FieldRow{Name: f.Name, Type: f.Type.String(), Conflict: f.Conflict}
		for _, t := range f.Seen {
			row.Seen = append(row.Seen, t.String())
		}
		view.Schema = append(view.Schema, row)
	}
}

func (p *Pages) saveStream(w http.ResponseWriter, r *http.Request, v *visit) error {
	s, err := p.found(r, v)
	if err != nil {
		return err
	}
	if err = p.form(w, r); err == nil && !v.who.May(auth.Administer, auth.Editor) {
		return millstream.Errorf(millstream.Forbidden, "only editors of the organization change a stream")
	}
	var patch store.StreamPatch
	if err == nil {
		patch, err = streamPatch(r.PostForm)
	}
	if err == nil {
		_, err = p.Catalog.UpdateStream(r.Context(), s.ID, patch, p.streamEntry(w, r, v, s, "stream.update"))
	}
	if err == nil {
		return p.done(w, v, "streams/"+s.Key.Signal.String()+"/"+url.PathEscape(s.Key.Name), "saved&tab=settings")
	}
	code, problem := p.problem(w, r, err, "")
	return p.showStream(w, r, v, code, s, ui.StreamPage{Tab: "settings", Problem: problem})
}

func streamPatch(form url.Values) (patch store.StreamPatch, err error) {
	number := func(name string) *int {
		n, convErr := strconv.Atoi(form.Get(name))
		if convErr != nil && err == nil {
			err = millstream.Wrap(millstream.Invalid, convErr, "%s %q is not a number", strings.ReplaceAll(name, "_", " "), form.Get(name))
		}
		return &n
	}
	patch.RetentionDays, patch.MaxFields = number("retention_days"), number("max_fields")
	fields := []string{}
	for line := range strings.Lines(form.Get("indexed")) {
		if f := strings.TrimSpace(line); f != "" {
			fields = append(fields, f)
		}
	}
	patch.IndexedFields = &fields
	return patch, err
}

func (p *Pages) streamEntry(w http.ResponseWriter, r *http.Request, v *visit, s store.Stream, action string) auth.Entry {
	e := p.entry(w, r, v.who, action)
	e.Target = s.Key.Signal.String() + "/" + s.Key.Name
	return e
}

// deleteStream deletes a stream whose name was typed to confirm it.
func (p *Pages) deleteStream(w http.ResponseWriter, r *http.Request, v *visit) error {
	s, err := p.found(r, v)
	if err != nil {
		return err
	}
	if err = p.changes(w, r, v); millstream.KindOf(err) == millstream.Forbidden && administers(v) != nil {
		return err
	}
	if err == nil && r.PostForm.Get("confirm") != s.Key.Name {
		err = millstream.Errorf(millstream.Invalid, "the name that was typed is not the stream's")
	}
	if err == nil {
		err = p.Catalog.DeleteStream(r.Context(), s.ID, p.streamEntry(w, r, v, s, "stream.delete"))
	}
	if err == nil {
		return p.done(w, v, "streams", "deleted")
	}
	code, problem := p.problem(w, r, err, "confirm")
	return p.showStream(w, r, v, code, s, ui.StreamPage{Tab: "settings", Problem: problem})
}
