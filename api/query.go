package api

import (
	"context"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/timespec"
	"github.com/millstream/millstream/query"
	"github.com/millstream/millstream/query/sql"
)

// querier answers statements. *query.Engine fits.
type querier interface {
	Run(ctx context.Context, req query.Request, sink query.Sink) (*query.Answer, error)
	Estimate(ctx context.Context, req query.Request) (*query.Estimate, error)
}

// runningQueries shows and ends queries. *query.Engine fits.
type runningQueries interface {
	Running(org millstream.OrgID) []query.Running
	Cancel(org millstream.OrgID, id string) error
	Stop(org millstream.OrgID, id string) error
	Progress(org millstream.OrgID, id string) (query.Progress, bool)
}

type timeRangeBody struct {
	Start timespec.Value `json:"start,omitempty" doc:"RFC 3339, epoch number, or relative such as now-15m; empty: open"`
	End   timespec.Value `json:"end,omitempty" doc:"excluded; empty: open"`
	Text  string         `json:"text,omitempty" doc:"a whole range in place of start and end, such as 1h30m, last week, or 2026-09-14 08:00 to 09:00"`
	Zone  string         `json:"zone,omitempty" doc:"of the zone database, for times that name none and for the start of days; default: UTC"`
}

// span is the range at one moment.
func (b timeRangeBody) span(now time.Time) (millstream.TimeRange, error) {
	c, err := timespec.In(now, b.Zone)
	switch {
	case err != nil:
		return millstream.TimeRange{}, err
	case b.Text == "":
		return c.Range(string(b.Start), string(b.End))
	case b.Start != "" || b.End != "":
		return millstream.TimeRange{}, millstream.Errorf(millstream.Invalid, "time_range has both a text and a start or end")
	}
	return c.Span(b.Text)
}

type queryBody struct {
	Language  string        `json:"language" doc:"sql, promql or search; default: sql"`
	Statement string        `json:"statement"`
	Signal    string        `json:"signal,omitempty" doc:"of the stream: logs or traces; default: logs"`
	Stream    string        `json:"stream,omitempty" doc:"what a search is about; other languages' statements name theirs"`
	TimeRange timeRangeBody `json:"time_range,omitzero"`
	Limit     int           `json:"limit,omitempty" doc:"most rows of the answer; default of a search: 1000"`
	Params    any           `json:"params,omitempty" doc:"values of the statement's parameters: an array for ? and $1, an object for $name; for promql {\"step\":\"30s\"}"`
}

type answerView struct {
	Columns []query.Column `json:"columns"`
	Rows    [][]any        `json:"rows"`
	query.Answer
}

type runningQueriesView struct {
	Queries  []query.Running `json:"queries" doc:"oldest first"`
	Warnings []string        `json:"warnings,omitempty" doc:"which queriers could not be asked"`
}

func (a *API) queryRoutes() []route {
	return []route{
		{method: "POST", path: v1 + "/query", policy: readTelemetry(), at: onQuerier, handle: a.query, doc: operation{summary: "Run a statement", body: queryBody{}, reply: answerView{},
			query: []param{{"download", "string", "name of the file as which a browser shall keep the answer"}}}},
		{method: "POST", path: v1 + "/query/estimate", policy: readTelemetry(), at: onQuerier, handle: a.estimate, doc: operation{summary: "What a statement would read", body: queryBody{}, reply: query.Estimate{}}},
		{method: "GET", path: runningPath, policy: readTelemetry(), at: onEach, handle: a.listRunning, doc: operation{summary: "Queries that have not ended", reply: runningQueriesView{}}},
		{method: "DELETE", path: runningPath + "/{id}", policy: readTelemetry(), at: onEach, handle: a.cancelQuery, doc: operation{summary: "Cancel a query"}},
		{method: "POST", path: runningPath + "/{id}/stop", policy: readTelemetry(), at: onEach, handle: a.stopQuery, doc: operation{summary: "End a query with the rows that are ready"}},
		{method: "POST", path: v1 + "/query/stream", policy: readTelemetry(), at: onQuerier, handle: a.stream, doc: operation{summary: "Run a statement and see it run: one frame a line", body: streamBody{}, replyType: "application/x-ndjson"}},
	}
}

// request reads a query call.
func (a *API) request(r *http.Request) (query.Request, error) {
	var body queryBody
	if err := read(r, &body); err != nil {
		return query.Request{}, err
	}
	return a.requestOf(r, body)
}

func (a *API) requestOf(r *http.Request, body queryBody) (query.Request, error) {
	span, err := body.TimeRange.span(a.Now())
	if err != nil {
		return query.Request{}, err
	}
	if body.Limit < 0 {
		return query.Request{}, millstream.Errorf(millstream.Invalid, "limit %d is negative", body.Limit)
	}
	signal, err := signalOf(body.Signal)
	if err != nil {
		return query.Request{}, err
	}
	params, err := paramsOf(body.Params)
	return query.Request{Org: who(r).Org, User: who(r).Actor(), Language: body.Language, Statement: body.Statement, Signal: signal, Stream: body.Stream, Range: span,
		Limit: body.Limit, Params: params}, err
}

// run answers a statement in the language that it is in.
func (a *API) run(ctx context.Context, req query.Request, sink query.Sink) (*query.Answer, error) {
	switch req.Language {
	case "promql":
		return a.runPromQL(ctx, req, sink)
	case "", "sql", "search":
		return a.Query.Run(ctx, req, sink)
	}
	return nil, millstream.Errorf(millstream.Invalid, "the query language %q is unknown: use sql, promql or search", req.Language)
}

func paramsOf(v any) (p sql.Params, err error) {
	switch v := v.(type) {
	case nil:
	case []any:
		p.Positional = v
	case map[string]any:
		p.Named = v
	default:
		err = millstream.Errorf(millstream.Invalid, "params must be an array or an object")
	}
	return p, err
}

// formats are the media types an answer can have, by what Accept names.
var formats = map[string]query.Format{
	"application/json": query.JSON, "application/x-ndjson": query.NDJSON, "application/ndjson": query.NDJSON, "text/csv": query.CSV,
	"application/vnd.apache.arrow.stream": query.Arrow, "application/vnd.apache.parquet": query.Parquet, "*/*": query.JSON, "application/*": query.JSON, "text/*": query.CSV,
}

// formatOf chooses the format that Accept likes best.
func formatOf(accept string) (query.Format, error) {
	if accept == "" {
		return query.JSON, nil
	}
	best, found := query.JSON, -1.0
	for part := range strings.SplitSeq(accept, ",") {
		typ, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		f, ok := formats[typ]
		q := 1.0
		if s, has := params["q"]; has {
			if q, err = strconv.ParseFloat(s, 64); err != nil {
				continue
			}
		}
		if ok && q > found && q > 0 {
			best, found = f, q
		}
	}
	if found < 0 {
		return 0, millstream.Errorf(millstream.Unsupported, "no format of %q can be had: ask for application/json, application/x-ndjson, text/csv, application/vnd.apache.arrow.stream or application/vnd.apache.parquet", accept)
	}
	return best, nil
}

func (a *API) query(w http.ResponseWriter, r *http.Request) error {
	req, err := a.request(r)
	if err != nil {
		return err
	}
	format, err := formatOf(r.Header.Get("Accept"))
	if err != nil {
		return err
	}
	if strings.Contains(r.Header.Get("Prefer"), "respond-async") {
		return millstream.Errorf(millstream.Unprocessable, "asynchronous search jobs are not part of this release: run the query directly")
	}
	w.Header().Set("Content-Type", format.ContentType())
	if name := r.URL.Query().Get("download"); name != "" {
		end := format.Extension()
		w.Header().Set("Content-Disposition", `attachment; filename="`+fileName(strings.TrimSuffix(name, end), "millstream")+end+`"`)
	}
	if !format.Annotated() {
		w.Header().Set("Trailer", partialTrailer+", "+warningTrailer)
	}
	enc := query.NewEncoder(format, w)
	answer, err := a.run(r.Context(), req, enc)
	if err != nil {
		return a.brokenAnswer(w, r, enc, err)
	}
	if err := enc.Close(answer); err != nil {
		return gone(err)
	}
	if !format.Annotated() {
		annotate(w.Header(), answer)
	}
	return nil
}

// Trailers of an answer whose format has no place for what they say.
const (
	partialTrailer = "Millstream-Partial"
	warningTrailer = "Millstream-Warning"
)

// annotate says behind an answer why rows may be missing.
func annotate(h http.Header, a *query.Answer) {
	for _, reason := range a.Reasons {
		h.Add(partialTrailer, reason)
	}
	for _, text := range a.Warnings {
		h.Add(warningTrailer, text)
	}
}

// brokenAnswer ends an answer that failed: as an ordinary error while nothing was sent; later inside the answer, where the format can say it.
func (a *API) brokenAnswer(w http.ResponseWriter, r *http.Request, enc query.Encoder, err error) error {
	if !enc.Started() {
		w.Header().Del("Content-Type")
		w.Header().Del("Trailer")
		w.Header().Del("Content-Disposition")
		return err
	}
	c := callOf(r)
	c.err = errors.Join(err, c.err)
	detail := a.detail(c, err)
	if enc.Fail(errorBody{detail}) {
		return nil
	}
	return err
}

func (a *API) estimate(w http.ResponseWriter, r *http.Request) error {
	req, err := a.request(r)
	if err != nil {
		return err
	}
	e, err := a.Query.Estimate(r.Context(), req)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, e)
}

// stepOf reads the step of a PromQL range query from the parameters of a statement.
func stepOf(p sql.Params) (string, error) {
	v, ok := p.Named["step"]
	if !ok {
		return "", nil
	}
	switch v := v.(type) {
	case string:
		return v, nil
	case json.Number:
		return v.String(), nil
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	}
	return "", millstream.Errorf(millstream.Invalid, "params.step is a duration such as \"30s\" or a number of seconds")
}
