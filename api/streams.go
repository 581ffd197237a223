package api

import (
	"context"
	"net/http"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest"
	"github.com/millstream/millstream/ingest/decode"
	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/store"
)

// streams is what the stream routes ask of the catalog. ingest.Live fits.
type streams interface {
	streamReader
	streamEditor
}

type streamReader interface {
	Stream(ctx context.Context, k millstream.StreamKey) (store.Stream, error)
	Streams(ctx context.Context, org millstream.OrgID, sig millstream.Signal) (all []store.StreamSummary, reasons []string, err error)
	StreamSegments(ctx context.Context, id millstream.StreamID) ([]millstream.Segment, error)
	Unflushed(ctx context.Context, id millstream.StreamID) (p ingest.Pending, reasons []string, err error)
}

type streamEditor interface {
	UpdateStream(ctx context.Context, id millstream.StreamID, p store.StreamPatch, a auth.Entry) (store.Stream, error)
	DeleteStream(ctx context.Context, id millstream.StreamID, a auth.Entry) error
}

type fieldView struct {
	Name     string   `json:"name"`
	Type     string   `json:"type"`
	Conflict bool     `json:"conflict" doc:"values of several types were seen, and the type widened to hold them"`
	Seen     []string `json:"seen" doc:"types that were seen, in order"`
}

type streamView struct {
	ID            string      `json:"id"`
	Signal        string      `json:"signal"`
	Name          string      `json:"name"`
	RetentionDays int         `json:"retention_days" doc:"0: the organization's"`
	WriteMode     string      `json:"write_mode" doc:"empty: the node's"`
	IndexedFields []string    `json:"indexed_fields"`
	MaxFields     int         `json:"max_fields" doc:"0: 2000"`
	CreatedAt     stamp       `json:"created_at"`
	Rows          int64       `json:"rows" doc:"with the unflushed ones, as are bytes and times"`
	UnflushedRows int64       `json:"unflushed_rows" doc:"of the rows, those that no segment has yet"`
	Bytes         int64       `json:"bytes" doc:"data and index of segments, and what unflushed rows take"`
	Segments      int64       `json:"segments"`
	Start         stamp       `json:"start,omitzero" doc:"time of the oldest record"`
	End           stamp       `json:"end,omitzero" doc:"time of the newest record"`
	SchemaVersion int64       `json:"schema_version"`
	FieldCount    int         `json:"field_count"`
	Fields        []fieldView `json:"fields,omitempty" doc:"not in lists"`
	partialView
}

// partialView says that unflushed records of some nodes are not counted.
type partialView struct {
	Partial bool     `json:"partial,omitempty" doc:"a node did not tell what it has not flushed, which is not counted"`
	Reasons []string `json:"reasons,omitempty" doc:"which nodes"`
}

type streamsView struct {
	Streams []streamView `json:"streams"`
	partialView
}

type streamPatchBody struct {
	RetentionDays *int      `json:"retention_days,omitempty" doc:"days; 0: the organization's"`
	WriteMode     *string   `json:"write_mode,omitempty" doc:"wal, or empty for the node's"`
	IndexedFields *[]string `json:"indexed_fields,omitempty" doc:"fields searched by whole values often; filters of them are built in the background, also for what is there"`
	MaxFields     *int      `json:"max_fields,omitempty" doc:"further fields go to _overflow; 0: 2000"`
}

type segmentView struct {
	ID         string `json:"id"`
	Start      stamp  `json:"start"`
	End        stamp  `json:"end"`
	Rows       int64  `json:"rows"`
	DataBytes  int64  `json:"data_bytes"`
	IndexBytes int64  `json:"index_bytes"`
	Level      int    `json:"level" doc:"how many merges it went through"`
}

type segmentsView struct {
	Segments []segmentView `json:"segments"`
}

func (a *API) streamRoutes() []route {
	const one = v1 + "/streams/{signal}/{name}"
	return []route{
		{method: "GET", path: v1 + "/streams", policy: need(auth.Query, auth.Viewer), handle: a.listStreams,
			doc: operation{summary: "Streams of the organization", reply: streamsView{}, query: []param{{"signal", "string", "logs, metrics or traces; default: all"}}}},
		{method: "GET", path: one, policy: need(auth.Query, auth.Viewer), handle: a.getStream, doc: operation{summary: "A stream with its schema", reply: streamView{}}},
		{method: "PATCH", path: one, policy: need(auth.Administer, auth.Editor).audited("stream.update"), handle: a.updateStream,
			doc: operation{summary: "Change a stream's settings", body: streamPatchBody{}, reply: streamView{}}},
		{method: "DELETE", path: one, policy: need(auth.Administer, auth.Admin).audited("stream.delete"), handle: a.deleteStream, doc: operation{summary: "Delete a stream with its data"}},
		{method: "GET", path: one + "/segments", policy: need(auth.Query, auth.Viewer), handle: a.listSegments, doc: operation{summary: "A stream's segments, oldest first", reply: segmentsView{}}},
	}
}

func (a *API) listStreams(w http.ResponseWriter, r *http.Request) error {
	var sig millstream.Signal
	if name := r.URL.Query().Get("signal"); name != "" {
		var err error
		if sig, err = millstream.ParseSignal(name); err != nil {
			return err
		}
	}
	all, reasons, err := a.Streams.Streams(r.Context(), who(r).Org, sig)
	if err != nil {
		return err
	}
	view := streamsView{Streams: make([]streamView, len(all)), partialView: partialView{len(reasons) > 0, reasons}}
	for i, s := range all {
		view.Streams[i] = summaryOf(s)
	}
	return reply(w, http.StatusOK, view)
}

// findStream resolves the stream of the path within the principal's organization.
func (a *API) findStream(r *http.Request) (s store.Stream, err error) {
	signal, err := pathValue(r, "signal")
	if err != nil {
		return s, err
	}
	sig, err := millstream.ParseSignal(signal)
	if err != nil {
		return s, err
	}
	name, err := pathValue(r, "name")
	if err != nil {
		return s, err
	}
	if err := decode.CheckStream(name); err != nil {
		return s, err
	}
	return a.Streams.Stream(r.Context(), millstream.StreamKey{Org: who(r).Org, Signal: sig, Name: name})
}

func (a *API) getStream(w http.ResponseWriter, r *http.Request) error {
	s, err := a.findStream(r)
	if err != nil {
		return err
	}
	view, err := a.describe(r.Context(), s)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, view)
}

// describe adds what a stream's segments hold, and its schema.
func (a *API) describe(ctx context.Context, s store.Stream) (streamView, error) {
	segments, err := a.Streams.StreamSegments(ctx, s.ID)
	if err != nil {
		return streamView{}, err
	}
	pending, reasons, err := a.Streams.Unflushed(ctx, s.ID)
	if err != nil {
		return streamView{}, err
	}
	sum := pending.Add(store.Summarize(s, segments))
	view := summaryOf(sum)
	view.partialView = partialView{len(reasons) > 0, reasons}
	for _, f := range sum.Schema.Fields {
		seen := make([]string, len(f.Seen))
		for i, t := range f.Seen {
			seen[i] = t.String()
		}
		view.Fields = append(view.Fields, fieldView{Name: f.Name, Type: f.Type.String(), Conflict: f.Conflict, Seen: seen})
	}
	return view, nil
}

func summaryOf(s store.StreamSummary) streamView {
	view := streamView{
		ID: string(s.ID), Signal: s.Key.Signal.String(), Name: s.Key.Name, RetentionDays: s.RetentionDays, WriteMode: s.WriteMode, IndexedFields: s.IndexedFields, MaxFields: s.MaxFields,
		CreatedAt: stamp{s.CreatedAt}, Rows: s.Rows, UnflushedRows: s.Unflushed, Bytes: s.Bytes, Segments: s.Segments, SchemaVersion: s.Schema.Version, FieldCount: len(s.Schema.Fields),
	}
	if view.IndexedFields == nil {
		view.IndexedFields = []string{}
	}
	if s.Rows > 0 {
		view.Start, view.End = stampOf(s.MinTime), stampOf(s.MaxTime)
	}
	return view
}

func (a *API) updateStream(w http.ResponseWriter, r *http.Request) error {
	s, err := a.findStream(r)
	if err != nil {
		return err
	}
	var in streamPatchBody
	if err := read(r, &in); err != nil {
		return err
	}
	if s, err = a.Streams.UpdateStream(r.Context(), s.ID, store.StreamPatch(in), entryOf(r, s.Key.Signal.String()+"/"+s.Key.Name)); err != nil {
		return err
	}
	view, err := a.describe(r.Context(), s)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, view)
}

func (a *API) deleteStream(w http.ResponseWriter, r *http.Request) error {
	s, err := a.findStream(r)
	if err != nil {
		return err
	}
	if err := a.Streams.DeleteStream(r.Context(), s.ID, entryOf(r, s.Key.Signal.String()+"/"+s.Key.Name)); err != nil {
		return err
	}
	return empty(w)
}

func (a *API) listSegments(w http.ResponseWriter, r *http.Request) error {
	s, err := a.findStream(r)
	if err != nil {
		return err
	}
	all, err := a.Streams.StreamSegments(r.Context(), s.ID)
	if err != nil {
		return err
	}
	view := segmentsView{Segments: make([]segmentView, len(all))}
	for i, g := range all {
		view.Segments[i] = segmentView{ID: string(g.ID), Start: stampOf(g.MinTime), End: stampOf(g.MaxTime), Rows: g.Rows, DataBytes: g.Data.Length, IndexBytes: g.Index.Length, Level: g.Level}
	}
	return reply(w, http.StatusOK, view)
}
