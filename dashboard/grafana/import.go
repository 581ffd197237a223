// Package grafana reads and writes Grafana's JSON of dashboards: the classic schema with panels on a grid, and the older one with rows.
package grafana

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/dashboard"
)

// State is what became of a part of an import.
type State string

// The states. A changed part works and lacks something; a placeholder shows nothing and keeps the original; a dropped part is gone.
const (
	Converted State = "converted"
	Changed   State = "changed"
	Kept      State = "placeholder"
	Dropped   State = "dropped"
)

// Report says what became of each part of an import.
type Report struct {
	Panels      []PanelReport    `json:"panels"`
	Variables   []VariableReport `json:"variables"`
	Units       []UnitReport     `json:"units"`
	DataSources []SourceReport   `json:"data_sources"`
	Notes       []string         `json:"notes" doc:"of the dashboard as a whole"`
}

// PanelReport is about one panel.
type PanelReport struct {
	ID    int      `json:"id" doc:"in the new dashboard"`
	Title string   `json:"title"`
	Type  string   `json:"type" doc:"in Grafana"`
	State State    `json:"state" doc:"converted, changed or placeholder"`
	Notes []string `json:"notes"`
}

// VariableReport is about one variable.
type VariableReport struct {
	Name  string   `json:"name"`
	Type  string   `json:"type" doc:"in Grafana"`
	State State    `json:"state" doc:"converted, changed or dropped"`
	Notes []string `json:"notes"`
}

// UnitReport is about one unit.
type UnitReport struct {
	Unit   string `json:"unit"`
	Known  bool   `json:"known" doc:"numbers are scaled and named; else the unit is shown behind the number"`
	Panels int    `json:"panels"`
}

// SourceReport is about one data source.
type SourceReport struct {
	Name    string `json:"name"`
	Type    string `json:"type,omitempty"`
	State   State  `json:"state" doc:"converted: its queries run here; placeholder: they do not"`
	Queries int    `json:"queries"`
}

func emptyReport() Report {
	return Report{Panels: []PanelReport{}, Variables: []VariableReport{}, Units: []UnitReport{}, DataSources: []SourceReport{}, Notes: []string{}}
}

// NewReport is the report on a dashboard that needs no conversion.
func NewReport(d *dashboard.Dashboard) *Report {
	r := emptyReport()
	for _, p := range d.Panels {
		state := Converted
		if p.Type == dashboard.Placeholder {
			state = Kept
		}
		r.Panels = append(r.Panels, PanelReport{p.ID, p.Title, string(p.Type), state, []string{}})
	}
	for _, v := range d.Variables {
		r.Variables = append(r.Variables, VariableReport{v.Name, string(v.Type), Converted, []string{}})
	}
	return &r
}

const (
	maxPanels    = 500
	maxVariables = 50
	maxInputs    = 100
	maxExpanded  = 8 << 20 // bytes of a dashboard with the constants of its inputs put in
)

// importer is the state of one import.
type importer struct {
	out       dashboard.Dashboard
	report    Report
	sources   sources
	variables map[string]bool
	ids       map[int]bool
	units     map[string]int
	assumed   bool // that the default data source is Prometheus
}

// Import converts a dashboard: as exported, or as the answer or the body of a call of Grafana's API. What is no dashboard is Invalid.
func Import(text []byte) (*dashboard.Dashboard, *Report, error) {
	in, err := unwrap(text)
	if err != nil {
		return nil, nil, err
	}
	im := &importer{sources: newSources(in), variables: map[string]bool{}, ids: map[int]bool{}, units: map[string]int{}, report: emptyReport()}
	im.head(in)
	vars := in.objects("templating", "list")
	if len(vars) > maxVariables {
		return nil, nil, millstream.Errorf(millstream.Invalid, "the dashboard has %d variables, more than %d", len(vars), maxVariables)
	}
	for _, v := range vars {
		im.variable(v)
	}
	if err := im.panels(in); err != nil {
		return nil, nil, err
	}
	im.finish()
	if err := im.out.Validate("the converted dashboard"); err != nil {
		return nil, nil, err
	}
	return &im.out, &im.report, nil
}

// unwrap finds the dashboard in what was given, with the constants among its inputs put in.
func unwrap(text []byte) (object, error) {
	outer, err := parse(text)
	if err != nil {
		return nil, millstream.Wrap(millstream.Invalid, err, "this is not a JSON object: %s", err)
	}
	in := inner(outer)
	if in["elements"] != nil && in["layout"] != nil {
		return nil, &millstream.Error{Kind: millstream.Invalid, Msg: "this dashboard is in Grafana's schema v2", Hint: "export it as classic JSON"}
	}
	if in.list("panels") == nil && in.list("rows") == nil {
		return nil, &millstream.Error{Kind: millstream.Invalid, Msg: "this is no Grafana dashboard: it has neither panels nor rows", Hint: "in Grafana: Share, Export, Save to file"}
	}
	inputs := append(in.objects("__inputs"), outer.objects("inputs")...)
	if len(inputs) > maxInputs { // the whole text is searched for each of them
		return nil, millstream.Errorf(millstream.Invalid, "the dashboard has %d inputs, more than %d", len(inputs), maxInputs)
	}
	filled, err := fill(text, inputs)
	if err != nil {
		return nil, err
	}
	if outer, err = parse(filled); err != nil {
		return nil, millstream.Wrap(millstream.Invalid, err, "the constants among the inputs cannot be put in: %s", err)
	}
	in = inner(outer)
	in["__inputs"] = anyList(inputs)
	return in, nil
}

// inner is the dashboard of an answer or a body of Grafana's API, or of a resource.
func inner(outer object) object {
	if outer["panels"] != nil || outer["rows"] != nil {
		return outer
	}
	if d := outer.object("dashboard"); d != nil {
		return d
	}
	if spec := outer.object("spec"); spec != nil {
		return spec
	}
	return outer
}

// fill puts constants where their names are.
func fill(text []byte, inputs []object) ([]byte, error) {
	for _, i := range inputs {
		if i.text("type") != "constant" || i.text("name") == "" {
			continue
		}
		value, err := encode(i.text("value"))
		if err != nil {
			return nil, err
		}
		name := []byte("${" + i.text("name") + "}")
		if bytes.Count(text, name)*len(value)+len(text) > maxExpanded {
			return nil, millstream.Errorf(millstream.TooLarge, "the dashboard has more than %d bytes once its constants are put in", maxExpanded)
		}
		text = bytes.ReplaceAll(text, name, value[1:len(value)-1])
	}
	return text, nil
}

func anyList(all []object) []any {
	out := make([]any, len(all))
	for i, o := range all {
		out[i] = map[string]any(o)
	}
	return out
}

var plainDuration = regexp.MustCompile(`^[0-9]+(ms|s|m|h|d)$`)

func (im *importer) head(in object) {
	d := &im.out
	d.Title, d.Description = cut(printable(in.text("title")), 200), cut(printable(in.text("description")), 2000)
	if strings.TrimSpace(d.Title) == "" {
		d.Title = "Imported dashboard"
	}
	for _, t := range in.texts("tags") {
		if len(d.Tags) < 50 {
			d.Tags = append(d.Tags, cut(printable(t), 200))
		}
	}
	if r := in.text("refresh"); plainDuration.MatchString(r) {
		d.Refresh = r
	}
	d.Time = dashboard.Range{From: in.text("time", "from"), To: in.text("time", "to")}
	if (&dashboard.Dashboard{Title: "x", Time: d.Time}).Validate("") != nil {
		if d.Time != (dashboard.Range{}) {
			im.note("the time range %s to %s is not known here: it is the last 6 hours", cut(d.Time.From, 40), cut(d.Time.To, 40))
		}
		d.Time = dashboard.Range{From: "now-6h", To: "now"}
	}
	annotations := 0
	for _, a := range in.objects("annotations", "list") {
		if a.at("builtIn") == nil {
			annotations++
		}
	}
	if annotations > 0 {
		im.note("%d annotations are left out", annotations)
	}
	if n := len(in.list("links")); n > 0 {
		im.note("%d links of the dashboard are left out", n)
	}
}

// printable leaves out control characters that have no place in a name.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f {
			return -1
		}
		return r
	}, s)
}

func (im *importer) note(format string, args ...any) {
	im.report.Notes = append(im.report.Notes, fmt.Sprintf(format, args...))
}

// finish sums up what was met.
func (im *importer) finish() {
	if im.assumed {
		im.note("queries that name no data source are taken for PromQL")
	}
	for unit, n := range im.units {
		im.report.Units = append(im.report.Units, UnitReport{unit, dashboard.KnownUnit(unit), n})
	}
	slices.SortFunc(im.report.Units, func(a, b UnitReport) int { return strings.Compare(a.Unit, b.Unit) })
	im.report.DataSources = im.sources.reports()
}

// id is a panel's id, or a new one when it has none of its own.
func (im *importer) id(o object) int {
	id := o.whole(0, 0, 1<<30, "id")
	for next := 1; id == 0 || im.ids[id]; next++ {
		if !im.ids[next] {
			id = next
		}
	}
	im.ids[id] = true
	return id
}
