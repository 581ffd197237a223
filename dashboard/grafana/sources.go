package grafana

import (
	"cmp"
	"slices"
	"strings"
)

// sources knows what the data sources of a dashboard are, and counts their queries.
type sources struct {
	plugins map[string]string // what a variable or an input of this name stands for
	seen    map[string]*SourceReport
}

// source is what a query or a panel names.
type source struct{ name, kind string }

// Kinds beside those that Grafana has: a source that is not named, one whose kind is not known, and the sign for several.
const (
	kindDefault = ""
	kindUnknown = "unknown"
	kindMixed   = "mixed"
	prometheus  = "prometheus"
)

func newSources(in object) sources {
	s := sources{plugins: map[string]string{}, seen: map[string]*SourceReport{}}
	for _, i := range in.objects("__inputs") {
		if i.text("type") == "datasource" {
			s.plugins[i.text("name")] = i.text("pluginId")
		}
	}
	for _, v := range in.objects("templating", "list") {
		if v.text("type") == "datasource" {
			s.plugins[v.text("name")] = v.text("query")
		}
	}
	return s
}

// of reads a data source as it is written in a panel, a query or a variable.
func (s *sources) of(v any) source {
	switch v := v.(type) {
	case string:
		return source{v, s.kind(v)}
	case map[string]any:
		o := object(v)
		uid, kind := o.text("uid"), o.text("type")
		switch {
		case uid == "-- Mixed --":
			kind = kindMixed
		case kind == "" || kind == "datasource" && uid != "":
			kind = s.kind(uid)
		}
		return source{cmp.Or(uid, kind), kind}
	}
	return source{}
}

// kind finds out what a data source is by its name.
func (s *sources) kind(name string) string {
	if strings.HasPrefix(name, "$") || strings.HasPrefix(name, "[[") {
		variable, _, _ := strings.Cut(strings.Trim(name, "${}[]"), ":")
		if p, ok := s.plugins[variable]; ok {
			return p
		}
		return kindUnknown
	}
	low := strings.ToLower(name)
	has := func(s string) bool { return strings.Contains(low, s) }
	switch {
	case name == "" || low == "default":
		return kindDefault
	case name == "-- Mixed --":
		return kindMixed
	case name == "-- Grafana --" || name == "grafana":
		return "grafana"
	case name == "-- Dashboard --":
		return "dashboard"
	case name == "__expr__":
		return "expression"
	case has("prom") || has("mimir") || has("thanos") || has("cortex") || has("victoriametrics"):
		return prometheus
	case has("loki"):
		return "loki"
	}
	return kindUnknown
}

// speaksPromQL says whether a query of a source can run here; sure is false when that is only likely.
func speaksPromQL(s source, query object) (yes, sure bool) {
	switch s.kind {
	case prometheus, "grafana-amazonprometheus-datasource", "grafana-azureprometheus-datasource":
		return true, true
	case "victoriametrics-datasource", "victoriametrics-metrics-datasource":
		return true, false // its language has functions of its own
	case kindDefault, kindUnknown:
		expr := strings.TrimSpace(query.text("expr"))
		logs := strings.HasPrefix(expr, "{") && strings.Contains(expr, "|") || strings.Contains(expr, "|=") || strings.Contains(expr, "| json")
		return expr != "" && !logs && query["rawSql"] == nil, false
	}
	return false, false
}

const maxSources = 200

// count notes a query of a source.
func (s *sources) count(src source, state State) {
	name := cmp.Or(src.name, "default")
	r := s.seen[name]
	if r == nil {
		if len(s.seen) >= maxSources {
			return
		}
		r = &SourceReport{Name: cut(printable(name), 200), Type: cut(printable(src.kind), 200), State: state}
		s.seen[name] = r
	}
	if state == Converted {
		r.State = Converted
	}
	r.Queries++
}

func (s *sources) reports() []SourceReport {
	out := []SourceReport{}
	for _, r := range s.seen {
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b SourceReport) int { return strings.Compare(a.Name, b.Name) })
	return out
}
