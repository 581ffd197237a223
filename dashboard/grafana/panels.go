package grafana

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/dashboard"
)

// types maps Grafana's panels to ours.
var types = map[string]dashboard.PanelType{
	"timeseries": dashboard.TimeSeries, "graph": dashboard.TimeSeries, "stat": dashboard.Stat, "singlestat": dashboard.Stat, "gauge": dashboard.Gauge,
	"bargauge": dashboard.Bar, "barchart": dashboard.Bar, "table": dashboard.Table, "table-old": dashboard.Table, "logs": dashboard.Logs, "heatmap": dashboard.Heatmap,
	"state-timeline": dashboard.StateTimeline, "status-history": dashboard.StateTimeline, "text": dashboard.Text, "row": dashboard.Row,
}

// panel is one panel on its way.
type panel struct {
	in    object
	out   dashboard.Panel
	notes []string // what is lost or taken for granted
}

const maxNotes = 30

func (p *panel) note(format string, args ...any) {
	if len(p.notes) < maxNotes {
		p.notes = append(p.notes, fmt.Sprintf(format, args...))
	}
}

// panels converts all panels. Those inside of collapsed rows come after their row, and what is below moves down.
func (im *importer) panels(in object) error {
	all := in.objects("panels")
	if len(all) == 0 {
		all = gridOfRows(in.objects("rows"))
	}
	down, count := 0, 0
	for _, o := range all {
		nested := o.objects("panels")
		if count += 1 + len(nested); count > maxPanels {
			return millstream.Errorf(millstream.Invalid, "the dashboard has more than %d panels", maxPanels)
		}
		row := im.panel(o, down)
		if row.Type != dashboard.Row || len(nested) == 0 {
			continue
		}
		top, bottom := math.MaxInt, 0
		for _, n := range nested {
			g := gridOf(n, 0)
			top, bottom = min(top, g.Y), max(bottom, g.Y+g.H)
		}
		below := row.Grid.Y + row.Grid.H
		for _, n := range nested {
			im.panel(n, below-top)
		}
		if row.Options.Collapsed {
			down += bottom - top
		}
	}
	return nil
}

// panel converts one panel, which moves down by so many rows, and reports on it.
func (im *importer) panel(o object, down int) dashboard.Panel {
	p := &panel{in: o}
	kind := o.text("type")
	p.out = dashboard.Panel{
		ID: im.id(o), Title: cut(printable(o.text("title")), 200), Description: cut(printable(o.text("description")), 10_000),
		Type: types[kind], Grid: gridOf(o, down),
	}
	state := im.convert(p, kind)
	if err := p.out.Validate("the panel"); state != Kept && err != nil {
		p.note("%s", millstream.Message(err))
		state = Kept
	}
	if state == Kept {
		im.keep(p)
	}
	if u := p.out.Options.Unit; u != "" {
		im.units[u]++
	}
	notes := p.notes
	if notes == nil {
		notes = []string{}
	}
	im.out.Panels = append(im.out.Panels, p.out)
	im.report.Panels = append(im.report.Panels, PanelReport{p.out.ID, p.out.Title, cut(printable(kind), 200), state, notes})
	return p.out
}

// convert fills a panel and says how well that went.
func (im *importer) convert(p *panel, kind string) State {
	switch {
	case p.in.object("libraryPanel") != nil && p.in.list("targets") == nil:
		p.note("a panel of the library: its content is not in the export")
		return Kept
	case p.out.Type == "":
		p.note("panels of the type %q are not there", cut(printable(kind), 60))
		return Kept
	case p.out.Type == dashboard.Row:
		p.out.Options.Collapsed = p.in.yes("collapsed")
	case p.out.Type == dashboard.Text:
		p.textPanel()
	case !im.targets(p):
		return Kept
	default:
		p.options(kind)
	}
	p.losses(kind)
	if len(p.notes) > 0 {
		return Changed
	}
	return Converted
}

// keep makes a placeholder of a panel.
func (im *importer) keep(p *panel) {
	p.out.Type, p.out.Targets, p.out.Options = dashboard.Placeholder, nil, dashboard.Options{}
	original, err := encode(p.in)
	if err == nil {
		p.out.Original = original
		err = p.out.Validate("the panel")
	}
	if err != nil {
		p.out.Original = nil
		p.note("the original cannot be kept: %s", millstream.Message(err))
	}
}

func (p *panel) textPanel() {
	content, mode := p.in.text("options", "content"), p.in.text("options", "mode")
	if p.in.object("options") == nil || p.in["content"] != nil {
		content, mode = p.in.text("content"), p.in.text("mode")
	}
	p.out.Options.Content = variables(content)
	if mode == "html" {
		p.note("HTML is shown as text")
	}
}

// targets converts the queries that can run here; false: there are none.
func (im *importer) targets(p *panel) bool {
	own := im.sources.of(p.in["datasource"])
	queries := p.in.objects("targets")
	converted := 0
	refs := map[string]bool{}
	for i, q := range queries {
		src := own
		if q["datasource"] != nil && (own.kind == kindMixed || own.kind == kindDefault || im.sources.of(q["datasource"]).kind != kindDefault) {
			src = im.sources.of(q["datasource"])
		}
		ref := printable(q.text("refId"))
		if ref == "" || refs[ref] || len(ref) > 64 {
			ref = fmt.Sprintf("Q%d", i+1)
		}
		refs[ref] = true
		yes, sure := speaksPromQL(src, q)
		if !yes {
			im.sources.count(src, Kept)
			p.note("query %s of %s is left out", ref, nameOf(src))
			continue
		}
		im.sources.count(src, Converted)
		switch {
		case src.kind == kindDefault:
			im.assumed = true
		case !sure:
			p.note("query %s: %s is taken for Prometheus", ref, nameOf(src))
		}
		if q.text("expr") == "" && len(queries) > 1 {
			continue // an empty line of the editor
		}
		converted++
		p.out.Targets = append(p.out.Targets, p.target(ref, q))
	}
	return converted > 0 || len(queries) == 0
}

func nameOf(s source) string {
	switch {
	case s.kind == kindDefault:
		return "the default data source"
	case s.kind == kindUnknown || s.name == s.kind:
		return fmt.Sprintf("the data source %q", cut(printable(s.name), 60))
	}
	return fmt.Sprintf("the data source %q (%s)", cut(printable(s.name), 60), cut(printable(s.kind), 60))
}

func (p *panel) target(ref string, q object) dashboard.Target {
	t := dashboard.Target{
		Ref: ref, Language: dashboard.PromQL, Statement: variables(q.text("expr")), Legend: cut(printable(variables(q.text("legendFormat"))), 2000),
		Instant: q.yes("instant") && !q.yes("range"), Step: variables(q.text("interval")), Hidden: q.yes("hide"),
	}
	if t.Legend == "__auto" {
		t.Legend = ""
	}
	if f := q.text("format"); f == "table" || f == "heatmap" {
		t.Format = f
	}
	for _, name := range globals.FindAllStringSubmatch(t.Statement, -1) {
		if !slices.Contains(known, name[1]) {
			p.note("query %s uses $%s, which has no value here", ref, name[1])
		}
	}
	return t
}

var (
	globals = regexp.MustCompile(`\$\{?(__[a-z_]+)`)
	known   = []string{"__interval", "__interval_ms", "__rate_interval", "__rate_interval_ms", "__range", "__range_s", "__range_ms"}
	square  = regexp.MustCompile(`\[\[\s*([A-Za-z_]\w*)(:\w+)?\s*\]\]`)
	auto    = regexp.MustCompile(`\$\{?__auto_interval_\w+\}?`)
)

// variables writes references to variables in today's form.
func variables(s string) string {
	s = square.ReplaceAllString(s, "$${$1$2}")
	return auto.ReplaceAllLiteralString(s, "$__interval")
}

// losses notes what a panel has that there is nothing for.
func (p *panel) losses(kind string) {
	for _, l := range []struct {
		n    int
		what string
	}{
		{len(p.in.list("fieldConfig", "overrides")), "overrides of single fields"},
		{len(p.in.list("seriesOverrides")), "overrides of single series"},
		{len(p.in.list("transformations")), "transformations"},
		{len(p.in.list("links")) + len(p.in.list("fieldConfig", "defaults", "links")), "links"},
		{len(p.in.list("styles")), "styles of columns"},
	} {
		if l.n > 0 {
			p.note("%d %s are left out", l.n, l.what)
		}
	}
	if v := p.in.text("repeat"); v != "" {
		p.note("it is not repeated for each value of $%s", cut(printable(v), 60))
	}
	for _, field := range []string{"timeFrom", "timeShift"} {
		if v := p.in.text(field); v != "" {
			p.note("its own time (%s %s) is left out", field, cut(printable(v), 40))
		}
	}
	if p.in.object("alert") != nil {
		p.note("its alert rule is left out")
	}
	if kind == "status-history" {
		p.note("it is shown as a state timeline")
	}
}

func gridOf(o object, down int) dashboard.Grid {
	g := dashboard.Grid{
		X: o.whole(0, 0, dashboard.Columns-1, "gridPos", "x"), Y: o.whole(0, 0, 9000, "gridPos", "y"),
		W: o.whole(12, 1, dashboard.Columns, "gridPos", "w"), H: o.whole(8, 1, 200, "gridPos", "h"),
	}
	g.W = min(g.W, dashboard.Columns-g.X)
	g.Y = min(max(g.Y+down, 0), 9800)
	return g
}

// Heights of the older schema are pixels; a row of the grid is 30 of them with 8 between.
const (
	oldHeight  = 250
	rowHeight  = 38
	oldColumns = 12
)

// gridOfRows gives panels of the older schema, which stand in rows of twelve columns, a place on the grid.
func gridOfRows(rows []object) []object {
	var out []object
	y := 0
	for _, r := range rows {
		collapsed := r.yes("collapse")
		panels, height := placeRow(r, y)
		if !collapsed && !r.yes("showTitle") && (len(rows) == 1 || r.text("title") == "") {
			out = append(out, panels...)
			y += height
			continue
		}
		head := object{"type": "row", "title": r.text("title"), "collapsed": collapsed, "repeat": r.text("repeat"), "gridPos": place(0, y, dashboard.Columns, 1)}
		out = append(out, head)
		y++
		if collapsed {
			head["panels"] = anyList(panels)
			continue
		}
		panels, height = placeRow(r, y)
		out = append(out, panels...)
		y += height
	}
	return out
}

// placeRow puts the panels of a row side by side, below each other when they are too wide, and says how high that is.
func placeRow(r object, y int) (panels []object, height int) {
	x, line, top := 0, 0, y
	panels = r.objects("panels")
	for _, p := range panels {
		w := p.whole(oldColumns, 1, oldColumns, "span") * dashboard.Columns / oldColumns
		h := (pixels(p["height"], pixels(r["height"], oldHeight)) + rowHeight - 1) / rowHeight
		if x+w > dashboard.Columns {
			x, y, line = 0, y+line, 0
		}
		p["gridPos"] = place(x, y, w, h)
		x, line = x+w, max(line, h)
	}
	return panels, y + line - top
}

func place(x, y, w, h int) map[string]any {
	return map[string]any{"x": float64(x), "y": float64(y), "w": float64(w), "h": float64(h)}
}

// pixels reads a height such as 250 or "250px".
func pixels(v any, absent int) int {
	f := numberOf(strings.TrimSuffix(strings.TrimSpace(textOf(v)), "px"))
	if f == nil || *f < 1 {
		return absent
	}
	return int(max(min(*f, 5000), 3*rowHeight))
}
