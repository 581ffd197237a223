package grafana

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/millstream/millstream/dashboard"
)

// The input that a reader maps to their own data source.
const (
	inputName     = "DS_PROMETHEUS"
	schemaVersion = 39
)

type m = map[string]any

// Export writes a dashboard as Grafana reads it. Placeholders are what was imported. A panel without a query in PromQL becomes a text that tells its statements.
func Export(d *dashboard.Dashboard) (json.RawMessage, error) {
	out := m{
		"__inputs": []m{}, "annotations": m{"list": []m{}}, "editable": true, "graphTooltip": 0, "id": nil, "links": []m{}, "panels": exportPanels(d.Panels),
		"refresh": d.Refresh, "schemaVersion": schemaVersion, "tags": nonNil(d.Tags), "templating": m{"list": exportVariables(d.Variables)},
		"time": m{"from": "now-6h", "to": "now"}, "timezone": "", "title": d.Title, "description": d.Description,
	}
	if d.Time != (dashboard.Range{}) {
		out["time"] = m{"from": d.Time.From, "to": d.Time.To}
	}
	text, err := encode(out)
	if err != nil {
		return nil, fmt.Errorf("export dashboard: %w", err)
	}
	if strings.Contains(string(text), "${"+inputName+"}") {
		out["__inputs"] = []m{{"name": inputName, "label": "Prometheus", "type": "datasource", "pluginId": prometheus, "pluginName": "Prometheus"}}
		return encode(out)
	}
	return text, nil
}

func nonNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

func promSource() m { return m{"type": prometheus, "uid": "${" + inputName + "}"} }

// exportPanels puts the panels below a collapsed row into it; what follows moves up, as import moves it down.
func exportPanels(panels []dashboard.Panel) []m {
	out := []m{}
	up := 0
	for i := 0; i < len(panels); {
		p := &panels[i]
		g := exportPanel(p, up)
		out = append(out, g)
		i++
		if p.Type != dashboard.Row || !p.Options.Collapsed {
			continue
		}
		nested, top, bottom := []m{}, math.MaxInt, 0
		for ; i < len(panels) && panels[i].Type != dashboard.Row; i++ {
			n := &panels[i]
			nested = append(nested, exportPanel(n, up))
			top, bottom = min(top, n.Grid.Y), max(bottom, n.Grid.Y+n.Grid.H)
		}
		g["panels"] = nested
		if len(nested) > 0 {
			up += bottom - top
		}
	}
	return out
}

var exportTypes = map[dashboard.PanelType]string{
	dashboard.TimeSeries: "timeseries", dashboard.Stat: "stat", dashboard.Gauge: "gauge", dashboard.Bar: "bargauge", dashboard.Table: "table", dashboard.Logs: "logs",
	dashboard.Heatmap: "heatmap", dashboard.StateTimeline: "state-timeline", dashboard.Text: "text", dashboard.Row: "row",
}

func exportPanel(p *dashboard.Panel, up int) m {
	grid := m{"x": p.Grid.X, "y": max(p.Grid.Y-up, 0), "w": p.Grid.W, "h": p.Grid.H}
	if p.Type == dashboard.Placeholder {
		if o, err := parse(p.Original); err == nil && o != nil {
			o["gridPos"], o["id"] = grid, p.ID
			return m(o)
		}
	}
	out := m{"id": p.ID, "title": p.Title, "description": p.Description, "type": exportTypes[p.Type], "gridPos": grid}
	switch {
	case p.Type == dashboard.Row:
		out["collapsed"], out["panels"] = p.Options.Collapsed, []m{}
	case p.Type == dashboard.Text:
		out["options"] = m{"mode": "markdown", "content": p.Options.Content}
	case !slices.ContainsFunc(p.Targets, isPromQL) && (len(p.Targets) > 0 || exportTypes[p.Type] == ""):
		out["type"], out["options"] = "text", m{"mode": "markdown", "content": told(p)}
	default:
		out["datasource"], out["targets"] = promSource(), exportTargets(p.Targets)
		out["fieldConfig"], out["options"] = exportFields(p), exportOptions(p)
		if p.Type == dashboard.Bar && p.Options.Stack != "" {
			out["type"] = "barchart" // the other one does not stack
		}
	}
	return out
}

func isPromQL(t dashboard.Target) bool { return t.Language == dashboard.PromQL }

// told is a text in place of a panel whose statements Grafana cannot run.
func told(p *dashboard.Panel) string {
	var b strings.Builder
	fmt.Fprintf(&b, "A panel of the type %s in Millstream.\n", p.Type)
	for _, t := range p.Targets {
		fmt.Fprintf(&b, "\n    %s %s: %s\n", t.Ref, t.Language, strings.ReplaceAll(t.Statement, "\n", "\n    "))
	}
	return b.String()
}

func exportTargets(all []dashboard.Target) []m {
	out := []m{}
	for _, t := range all {
		if !isPromQL(t) {
			continue
		}
		g := m{"refId": t.Ref, "datasource": promSource(), "editorMode": "code", "expr": t.Statement, "legendFormat": t.Legend, "instant": t.Instant, "range": !t.Instant}
		if t.Legend == "" {
			g["legendFormat"] = "__auto"
		}
		if t.Format != "" {
			g["format"] = t.Format
		}
		if t.Step != "" {
			g["interval"] = t.Step
		}
		if t.Hidden {
			g["hide"] = true
		}
		out = append(out, g)
	}
	return out
}

func exportFields(p *dashboard.Panel) m {
	o := &p.Options
	defaults := m{"mappings": exportMappings(o.Mappings)}
	if o.Unit != "" {
		defaults["unit"] = o.Unit
	}
	if o.Decimals != nil {
		defaults["decimals"] = *o.Decimals
	}
	if o.Min != nil {
		defaults["min"] = *o.Min
	}
	if o.Max != nil {
		defaults["max"] = *o.Max
	}
	if o.Thresholds != nil {
		mode := "absolute"
		if o.ThresholdMode != "" {
			mode = o.ThresholdMode
		}
		defaults["thresholds"] = m{"mode": mode, "steps": exportThresholds(o.Thresholds)}
	}
	if p.Type == dashboard.TimeSeries {
		defaults["custom"] = exportCustom(o)
		if o.Nulls == "zero" {
			defaults["noValue"] = "0"
		}
	}
	return m{"defaults": defaults, "overrides": []m{}}
}

func exportThresholds(all []dashboard.Threshold) []m {
	out := []m{}
	for _, t := range all {
		out = append(out, m{"color": t.Color, "value": t.Value})
	}
	return out
}

func exportMappings(all []dashboard.Mapping) []m {
	out := []m{}
	for i, mp := range all {
		result := m{"text": mp.Text, "index": i}
		if mp.Color != "" {
			result["color"] = mp.Color
		}
		switch {
		case mp.From != nil || mp.To != nil:
			out = append(out, m{"type": "range", "options": m{"from": mp.From, "to": mp.To, "result": result}})
		case mp.Value == "null":
			out = append(out, m{"type": "special", "options": m{"match": "null", "result": result}})
		default:
			out = append(out, m{"type": "value", "options": m{mp.Value: result}})
		}
	}
	return out
}

func exportCustom(o *dashboard.Options) m {
	style := map[string]string{"": "line", "lines": "line", "bars": "bars", "points": "points"}[o.Style]
	stack := o.Stack
	if stack == "" {
		stack = "none"
	}
	custom := m{"drawStyle": style, "fillOpacity": o.Fill, "lineWidth": o.Line, "stacking": m{"mode": stack, "group": "A"}, "spanNulls": o.Nulls == "connect"}
	if o.Log != 0 {
		custom["scaleDistribution"] = m{"type": "log", "log": o.Log}
	}
	return custom
}

var exportCalcs = map[string]string{"last": "lastNotNull", "first": "firstNotNull", "delta": "diff"}

func exportCalc(name string) string {
	if g, ok := exportCalcs[name]; ok {
		return g
	}
	return name
}

func exportOptions(p *dashboard.Panel) m {
	o := &p.Options
	out := m{}
	if o.Legend != nil {
		calcs := []string{}
		for _, c := range o.Legend.Calcs {
			calcs = append(calcs, exportCalc(c))
		}
		placement := o.Legend.Placement
		if placement == "hidden" {
			placement = "bottom"
		}
		out["legend"] = m{"showLegend": o.Legend.Placement != "hidden", "displayMode": "list", "placement": placement, "calcs": calcs}
	}
	if o.Calc != "" {
		out["reduceOptions"] = m{"calcs": []string{exportCalc(o.Calc)}, "fields": "", "values": false}
	}
	switch p.Type {
	case dashboard.Bar:
		out["orientation"] = map[bool]string{true: "horizontal", false: "vertical"}[o.Horizontal]
		if o.Stack != "" {
			out["stacking"] = o.Stack
		}
	case dashboard.Stat:
		out["graphMode"] = map[bool]string{true: "area", false: "none"}[o.Sparkline]
	}
	return out
}

func exportVariables(all []dashboard.Variable) []m {
	out := []m{}
	for i := range all {
		out = append(out, exportVariable(&all[i]))
	}
	return out
}

func exportVariable(v *dashboard.Variable) m {
	hide := 0
	if v.Hidden {
		hide = 2
	}
	g := m{"name": v.Name, "label": v.Label, "multi": v.Multi, "includeAll": v.IncludeAll, "hide": hide, "options": []m{}}
	if v.AllValue != "" {
		g["allValue"] = v.AllValue
	}
	if v.Default != nil {
		g["current"] = m{"text": v.Default, "value": v.Default}
	}
	switch {
	case v.Type == dashboard.Query && v.Language != dashboard.SQL:
		g["type"], g["datasource"], g["query"], g["definition"], g["refresh"] = "query", promSource(), m{"query": v.Query, "refId": "A"}, v.Query, 2
		if v.Regex != "" {
			g["regex"] = "/" + v.Regex + "/"
		}
	case v.Type == dashboard.Constant:
		g["type"], g["query"] = "constant", strings.Join(v.Options, "")
	case v.Type == dashboard.TextBox:
		g["type"], g["query"] = "textbox", strings.Join(v.Default, "")
	case v.Type == dashboard.Interval:
		values := slices.DeleteFunc(slices.Clone(v.Options), func(s string) bool { return s == "$__interval" })
		g["type"], g["query"], g["auto"], g["auto_count"], g["auto_min"] = "interval", joinList(values), len(values) < len(v.Options), 30, "10s"
	default: // what is asked of SQL or of the list of streams cannot be asked there: the values it has now
		values := v.Options
		if len(values) == 0 {
			values = v.Default
		}
		g["type"], g["query"] = "custom", joinList(values)
	}
	return g
}

// joinList is the reverse of splitList.
func joinList(values []string) string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = strings.ReplaceAll(v, ",", `\,`)
	}
	return strings.Join(out, ",")
}
