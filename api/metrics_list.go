package api

import (
	"net/http"
	"strings"

	"github.com/millstream/millstream/query"
)

type metricView struct {
	Name   string `json:"name"`
	Type   string `json:"type,omitempty" doc:"as the sender told: counter, gauge, histogram …"`
	Unit   string `json:"unit,omitempty"`
	Help   string `json:"help,omitempty"`
	Series int    `json:"series" doc:"the greatest number of series that one segment, or the unflushed samples, has of it"`
}

type metricsView struct {
	Metrics []metricView `json:"metrics" doc:"those with samples in the last six hours"`
	Total   int          `json:"total" doc:"that the search finds"`
	Cut     bool         `json:"cut" doc:"there are more than are listed"`
	*query.Answer
}

const maxMetrics = 1000 // in one answer

func (a *API) findMetrics(w http.ResponseWriter, r *http.Request) error {
	limit, err := queryInt(r, "limit", maxMetrics, maxMetrics)
	if err != nil {
		return err
	}
	org := who(r).Org
	found, total, answer, err := a.Metrics.FindMetrics(r.Context(), query.Request{Org: org, User: who(r).Actor()}, r.URL.Query().Get("search"), limit)
	if err != nil {
		return err
	}
	var names []string
	for _, m := range found {
		names = append(names, describedAs(m.Name)...)
	}
	known, err := a.Metadata.MetadataOf(r.Context(), org, names)
	if err != nil {
		return err
	}
	view := metricsView{Metrics: make([]metricView, len(found)), Total: total, Cut: total > len(found), Answer: answer}
	for i, m := range found {
		view.Metrics[i] = metricView{Name: m.Name, Series: m.Series}
		for _, name := range describedAs(m.Name) {
			if d, ok := known[name]; ok {
				view.Metrics[i].Type, view.Metrics[i].Unit, view.Metrics[i].Help = d.Type, d.Unit, d.Help
				break
			}
		}
	}
	return reply(w, http.StatusOK, view)
}

// describedAs are the names under which a metric's description may be kept: its own, or that of the family of which it is a part.
func describedAs(name string) []string {
	for _, part := range []string{"_bucket", "_count", "_sum", "_total", "_created", "_info"} {
		if family, ok := strings.CutSuffix(name, part); ok && family != "" {
			return []string{name, family}
		}
	}
	return []string{name}
}
