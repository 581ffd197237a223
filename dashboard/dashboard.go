// Package dashboard is the model of a dashboard: panels on a grid of 24 columns that show what queries answer, with variables and a time range. It checks
// dashboards, and reads and writes those of Grafana. It is pure: it asks and stores nothing.
package dashboard

import "encoding/json"

// Columns is the width of the grid. A row of it is as high as in Grafana, so that imports keep their layout.
const Columns = 24

// Dashboard is what is stored.
type Dashboard struct {
	Title       string     `json:"title"`
	Description string     `json:"description,omitempty"`
	Tags        []string   `json:"tags,omitempty"`
	Folder      string     `json:"folder,omitempty" doc:"names divided by slashes"`
	Time        Range      `json:"time,omitzero"`
	Refresh     string     `json:"refresh,omitempty" doc:"a duration such as 30s; absent: only when asked"`
	Variables   []Variable `json:"variables,omitempty"`
	Panels      []Panel    `json:"panels"`
}

// Range is the time range a dashboard opens with: points such as now-6h or now.
type Range struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Variable is something the reader chooses; statements refer to it as $name or ${name}.
type Variable struct {
	Name       string       `json:"name"`
	Label      string       `json:"label,omitempty"`
	Type       VariableType `json:"type" doc:"query, custom, constant, interval, text or stream"`
	Language   Language     `json:"language,omitempty" doc:"of a query: promql (the default) or sql"`
	Query      string       `json:"query,omitempty" doc:"promql: label_values(…), label_names(), metrics(…) or query_result(…); sql: a statement whose first column counts; stream: the signal"`
	Regex      string       `json:"regex,omitempty" doc:"keeps the answers that match; its first group is the value"`
	Options    []string     `json:"options,omitempty" doc:"of custom and interval; the value of constant"`
	Multi      bool         `json:"multi,omitempty"`
	IncludeAll bool         `json:"include_all,omitempty"`
	AllValue   string       `json:"all_value,omitempty" doc:"what stands for all; absent: all of them"`
	Default    []string     `json:"default,omitempty" doc:"what is chosen at first; $__all: every value"`
	Hidden     bool         `json:"hidden,omitempty"`
}

// All among the values of a variable stands for every one.
const All = "$__all"

// VariableType says where a variable's choices come from.
type VariableType string

// The types of variables.
const (
	Query    VariableType = "query"
	Custom   VariableType = "custom"
	Constant VariableType = "constant"
	Interval VariableType = "interval"
	TextBox  VariableType = "text"
	Stream   VariableType = "stream"
)

// Language is that of a statement.
type Language string

// The languages.
const (
	PromQL Language = "promql"
	SQL    Language = "sql"
	Search Language = "search"
)

// Panel is one picture.
type Panel struct {
	ID          int             `json:"id" doc:"unique in the dashboard, from 1"`
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description,omitempty"`
	Type        PanelType       `json:"type" doc:"timeseries, stat, gauge, bar, table, logs, heatmap, state-timeline, traces, text, row or placeholder"`
	Grid        Grid            `json:"grid"`
	Targets     []Target        `json:"targets,omitempty"`
	Options     Options         `json:"options,omitzero"`
	Original    json.RawMessage `json:"original,omitempty" doc:"of a placeholder: what was imported and could not be converted"`
}

// PanelType says how a panel shows its answers.
type PanelType string

// The types of panels. A row holds the panels below it, up to the next row. A placeholder keeps what was imported and cannot be shown.
const (
	TimeSeries    PanelType = "timeseries"
	Stat          PanelType = "stat"
	Gauge         PanelType = "gauge"
	Bar           PanelType = "bar"
	Table         PanelType = "table"
	Logs          PanelType = "logs"
	Heatmap       PanelType = "heatmap"
	StateTimeline PanelType = "state-timeline"
	Traces        PanelType = "traces"
	Text          PanelType = "text"
	Row           PanelType = "row"
	Placeholder   PanelType = "placeholder"
)

// Grid is a place on the grid: a corner and a size, in columns and rows.
type Grid struct {
	X int `json:"x"`
	Y int `json:"y"`
	W int `json:"w"`
	H int `json:"h"`
}

// Target is one query of a panel. Beside variables a statement may use $__interval (the step), $__rate_interval and $__range.
type Target struct {
	Ref       string   `json:"ref" doc:"a short name, such as A"`
	Language  Language `json:"language" doc:"promql, sql or search"`
	Statement string   `json:"statement"`
	Stream    string   `json:"stream,omitempty" doc:"of language search"`
	Legend    string   `json:"legend,omitempty" doc:"names the series, with {{label}} for a label's value; absent: all labels"`
	Format    string   `json:"format,omitempty" doc:"time_series (the default), table or heatmap"`
	Instant   bool     `json:"instant,omitempty" doc:"only the newest value"`
	Step      string   `json:"step,omitempty" doc:"the least step, such as 30s or $interval"`
	Hidden    bool     `json:"hidden,omitempty"`
}

// Options are how a panel looks. Those that a type has no use for are ignored.
type Options struct {
	Unit          string      `json:"unit,omitempty" doc:"a unit's id, such as bytes, percent or s; anything else is shown behind the number"`
	Decimals      *int        `json:"decimals,omitempty"`
	Min           *float64    `json:"min,omitempty"`
	Max           *float64    `json:"max,omitempty"`
	Thresholds    []Threshold `json:"thresholds,omitempty" doc:"ascending; the first may have no value: it holds from the least number"`
	ThresholdMode string      `json:"threshold_mode,omitempty" doc:"absolute (the default) or percentage of min to max"`
	Mappings      []Mapping   `json:"mappings,omitempty"`
	Stack         string      `json:"stack,omitempty" doc:"normal or percent; absent: not stacked"`
	Style         string      `json:"style,omitempty" doc:"of time series: lines (the default), bars or points"`
	Fill          int         `json:"fill,omitempty" doc:"percent"`
	Line          int         `json:"line,omitempty" doc:"width in pixels; 0: 1"`
	Nulls         string      `json:"nulls,omitempty" doc:"gap (the default), connect or zero"`
	Log           int         `json:"log,omitempty" doc:"base of a logarithmic axis: 2 or 10; 0: linear"`
	Legend        *Legend     `json:"legend,omitempty"`
	Calc          string      `json:"calc,omitempty" doc:"what a single number is made of: last (the default), first, mean, min, max, sum, count, range or delta"`
	Horizontal    bool        `json:"horizontal,omitempty" doc:"of bars"`
	Sparkline     bool        `json:"sparkline,omitempty" doc:"of stat"`
	Collapsed     bool        `json:"collapsed,omitempty" doc:"of a row"`
	Content       string      `json:"content,omitempty" doc:"of text: Markdown"`
}

// Threshold is a color from a value on.
type Threshold struct {
	Value *float64 `json:"value,omitempty"`
	Color string   `json:"color" doc:"green, yellow, orange, red, blue, purple, gray, transparent or #rrggbb"`
}

// Mapping shows a text instead of a value, or of a range of them.
type Mapping struct {
	Value string   `json:"value,omitempty"`
	From  *float64 `json:"from,omitempty"`
	To    *float64 `json:"to,omitempty"`
	Text  string   `json:"text"`
	Color string   `json:"color,omitempty"`
}

// Legend names the series of a panel.
type Legend struct {
	Placement string   `json:"placement" doc:"bottom, right or hidden"`
	Calcs     []string `json:"calcs,omitempty" doc:"as calc"`
}
