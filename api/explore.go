package api

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query"
	"github.com/millstream/millstream/query/promql"
)

// explorer answers what the explorer asks all day. *query.Engine fits.
type explorer interface {
	Histogram(ctx context.Context, sel query.Selection, interval time.Duration, by string) (*query.Histogram, error)
	Fields(ctx context.Context, sel query.Selection, s query.FieldSearch) (*query.FieldStats, error)
	Patterns(ctx context.Context, sel query.Selection, s query.PatternSearch) (*query.Patterns, error)
	Context(ctx context.Context, a query.Around) (*query.Context, error)
	Tail(ctx context.Context, sel query.Selection, opened func(), emit func(query.TailEvent) error) error
}

type selectionBody struct {
	Signal    string        `json:"signal,omitempty" doc:"logs or traces; default: logs"`
	Stream    string        `json:"stream"`
	Language  string        `json:"language,omitempty" doc:"of the filter: sql, the default, or search"`
	Filter    string        `json:"filter,omitempty" doc:"a SQL condition, such as level = 'error' AND match_all('timeout'); or a search"`
	TimeRange timeRangeBody `json:"time_range,omitzero"`
}

type histogramBody struct {
	selectionBody
	Interval string `json:"interval,omitempty" doc:"a duration such as 30s or 5m; default: about sixty buckets"`
	By       string `json:"by,omitempty" doc:"a field to divide by"`
}

type fieldsBody struct {
	selectionBody
	Fields []string `json:"fields,omitempty" doc:"fields whose values are counted; they are in the answer whatever search, offset and limit say"`
	Top    int      `json:"top,omitempty" doc:"most frequent values of each; default: 10"`
	Search string   `json:"search,omitempty" doc:"a part of the names of the fields to list, in any case; default: all"`
	Offset int      `json:"offset,omitempty" doc:"so many of them are left out"`
	Limit  *int     `json:"limit,omitempty" doc:"then so many are listed; default: all"`
}

func (a *API) exploreRoutes() []route {
	return []route{
		{method: "POST", path: v1 + "/query/histogram", policy: readTelemetry(), at: onQuerier, handle: a.histogram, doc: operation{summary: "Records per time bucket", body: histogramBody{}, reply: query.Histogram{}}},
		{method: "POST", path: v1 + "/query/fields", policy: readTelemetry(), at: onQuerier, handle: a.fields, doc: operation{summary: "Fields and their most frequent values", body: fieldsBody{}, reply: query.FieldStats{}}},
		{method: "POST", path: v1 + "/query/patterns", policy: readTelemetry(), at: onQuerier, handle: a.patterns, doc: operation{summary: "Patterns of similar messages", body: patternsBody{}, reply: query.Patterns{}}},
		{method: "POST", path: v1 + "/query/context", policy: readTelemetry(), at: onQuerier, handle: a.context, doc: operation{summary: "The records before and after a time", body: contextBody{}, reply: query.Context{}}},
		{method: "GET", path: v1 + "/query/tail", policy: readTelemetry(), at: onQuerier, endless: true, handle: a.tail, doc: operation{summary: "New records as server-sent events", replyType: "text/event-stream",
			query: []param{{"stream", "string", "name of the stream"}, {"signal", "string", "logs or traces"}, {"filter", "string", "a SQL condition, or a search"}, {"language", "string", "of the filter: sql or search"}}}},
	}
}

func (a *API) selection(r *http.Request, b selectionBody) (query.Selection, error) {
	sel := query.Selection{Org: who(r).Org, User: who(r).Actor(), Stream: b.Stream, Language: b.Language, Filter: b.Filter}
	var err error
	if sel.Signal, err = signalOf(b.Signal); err != nil {
		return sel, err
	}
	if b.Stream == "" {
		return sel, millstream.Errorf(millstream.Invalid, "no stream is named")
	}
	sel.Range, err = b.TimeRange.span(a.Now())
	return sel, err
}

func (a *API) histogram(w http.ResponseWriter, r *http.Request) error {
	var b histogramBody
	if err := read(r, &b); err != nil {
		return err
	}
	sel, err := a.selection(r, b.selectionBody)
	if err != nil {
		return err
	}
	var interval time.Duration
	if b.Interval != "" {
		if interval, err = promql.ParseDuration(b.Interval); err != nil || interval <= 0 {
			return millstream.Errorf(millstream.Invalid, "interval %q is not a duration: write 30s, 5m or 1h", b.Interval)
		}
	}
	h, err := a.Explore.Histogram(r.Context(), sel, interval, b.By)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, h)
}

func (a *API) fields(w http.ResponseWriter, r *http.Request) error {
	var b fieldsBody
	if err := read(r, &b); err != nil {
		return err
	}
	sel, err := a.selection(r, b.selectionBody)
	if err != nil {
		return err
	}
	s := query.FieldSearch{Names: b.Fields, Top: b.Top, Search: b.Search, Offset: b.Offset, Limit: -1}
	if b.Limit != nil {
		s.Limit = *b.Limit
	}
	if s.Offset < 0 || b.Limit != nil && s.Limit < 0 {
		return millstream.Errorf(millstream.Invalid, "offset and limit must not be negative")
	}
	stats, err := a.Explore.Fields(r.Context(), sel, s)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, stats)
}

type patternsBody struct {
	selectionBody
	Field   string `json:"field,omitempty" doc:"whose texts have the patterns; default: message"`
	Limit   int    `json:"limit,omitempty" doc:"most frequent patterns; default: 100"`
	Compare bool   `json:"compare,omitempty" doc:"also count them in the range of the same length before"`
}

func (a *API) patterns(w http.ResponseWriter, r *http.Request) error {
	var b patternsBody
	if err := read(r, &b); err != nil {
		return err
	}
	sel, err := a.selection(r, b.selectionBody)
	if err != nil {
		return err
	}
	found, err := a.Explore.Patterns(r.Context(), sel, query.PatternSearch{Field: b.Field, Limit: b.Limit, Compare: b.Compare})
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, found)
}

// tailBeat is how often a silent tail says that it lives, so that proxies do not cut it.
const tailBeat = 15 * time.Second

// tail streams new records: an event "records" with an array of objects, an event "dropped" with a count when the reader was too slow.
func (a *API) tail(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	sel, err := a.selection(r, selectionBody{Signal: q.Get("signal"), Stream: q.Get("stream"), Language: q.Get("language"), Filter: q.Get("filter")})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	events := make(chan query.TailEvent)
	done := make(chan error, 1)
	opened := make(chan struct{}) // closed when the selection is good; until then an error is an ordinary reply
	go func() {                   // ends with ctx, which ends with the handler
		done <- a.Explore.Tail(ctx, sel, func() { close(opened) }, func(e query.TailEvent) error {
			select {
			case events <- e:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	out := &eventStream{w: w, flush: http.NewResponseController(w).Flush}
	beat := time.NewTicker(tailBeat)
	defer beat.Stop()
	for {
		var werr error
		select {
		case err := <-done:
			return err
		case e := <-events:
			werr = out.records(e)
		case <-opened:
			opened = nil
			werr = out.comment("open")
		case <-beat.C:
			werr = out.comment("alive")
		}
		if werr != nil {
			cancel()
			if err := <-done; err != nil { // the reader is gone; the log is told
				callOf(r).err = errors.Join(callOf(r).err, err)
			}
			return gone(werr)
		}
	}
}

// eventStream writes server-sent events.
type eventStream struct {
	w     http.ResponseWriter
	flush func() error
	open  bool
}

func (s *eventStream) begin() {
	if s.open {
		return
	}
	s.open = true
	s.w.Header().Set("Content-Type", "text/event-stream")
	s.w.WriteHeader(http.StatusOK)
}

func (s *eventStream) comment(text string) error {
	s.begin()
	if _, err := s.w.Write([]byte(": " + text + "\n\n")); err != nil {
		return err
	}
	return s.flush()
}

func (s *eventStream) event(name string, v any) error {
	s.begin()
	body, err := encode(v)
	if err != nil {
		return err
	}
	if _, err := s.w.Write([]byte("event: " + name + "\ndata: " + string(body) + "\n")); err != nil { // the JSON ends its line
		return err
	}
	return s.flush()
}

func (s *eventStream) records(e query.TailEvent) error {
	s.begin()
	var b strings.Builder
	if e.Dropped > 0 {
		body, err := encode(map[string]int64{"dropped": e.Dropped})
		if err != nil {
			return err
		}
		b.WriteString("event: dropped\ndata: " + string(body) + "\n")
	}
	for _, gap := range e.Gaps {
		body, err := encode(map[string]string{"reason": gap})
		if err != nil {
			return err
		}
		b.WriteString("event: gap\ndata: " + string(body) + "\n")
	}
	if e.N > 0 {
		b.WriteString("event: records\ndata: ")
		b.Write(query.AppendObjects(nil, &e.Rows))
		b.WriteString("\n\n")
	}
	if _, err := s.w.Write([]byte(b.String())); err != nil {
		return err
	}
	return s.flush()
}
