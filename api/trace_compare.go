package api

import (
	"net/http"

	"github.com/millstream/millstream/internal/timespec"
	"github.com/millstream/millstream/query"
)

type compareBody struct {
	Stream    string      `json:"stream,omitempty" doc:"trace stream; default: all"`
	Service   string      `json:"service,omitempty" doc:"of the spans of both"`
	Operation string      `json:"operation,omitempty" doc:"name of the spans of both"`
	Status    string      `json:"status,omitempty" doc:"ok, error or unset; of the spans of both"`
	Roots     bool        `json:"roots,omitempty" doc:"only spans without a parent"`
	Search    string      `json:"search,omitempty" doc:"in the search language, over the fields of the spans of both"`
	Selection spanBoxBody `json:"selection"`
	Baseline  spanBoxBody `json:"baseline,omitzero" doc:"spans of the selection are left out of it; default: every other span of the selection's time range"`
	Limit     int         `json:"limit,omitempty" doc:"attributes; default: 20"`
}

type spanBoxBody struct {
	TimeRange   timeRangeBody `json:"time_range,omitzero"`
	MinDuration string        `json:"min_duration,omitempty" doc:"such as 250ms"`
	MaxDuration string        `json:"max_duration,omitempty"`
}

func (a *API) compareTraces(w http.ResponseWriter, r *http.Request) error {
	var b compareBody
	if err := read(r, &b); err != nil {
		return err
	}
	if b.Baseline.TimeRange == (timeRangeBody{}) {
		b.Baseline.TimeRange = b.Selection.TimeRange
	}
	c := query.TraceComparison{TraceSearch: query.TraceSearch{Stream: b.Stream, Service: b.Service, Operation: b.Operation, Status: b.Status, Roots: b.Roots, Search: b.Search}, Limit: b.Limit}
	var err error
	if c.Selection, err = a.spanBox(b.Selection); err != nil {
		return err
	}
	if c.Baseline, err = a.spanBox(b.Baseline); err != nil {
		return err
	}
	found, err := a.Traces.CompareTraces(r.Context(), query.Request{Org: who(r).Org, User: who(r).Actor()}, c)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, found)
}

func (a *API) spanBox(b spanBoxBody) (box query.SpanBox, err error) {
	if box.Range, err = timespec.Range(string(b.TimeRange.Start), string(b.TimeRange.End), a.Now()); err != nil {
		return box, err
	}
	if box.MinDuration, err = duration(b.MinDuration, "min_duration"); err != nil {
		return box, err
	}
	box.MaxDuration, err = duration(b.MaxDuration, "max_duration")
	return box, err
}
