package grafana

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/millstream/millstream/dashboard"
)

// options reads how a panel looks, from today's schema or from the one that its type had before.
func (p *panel) options(kind string) {
	o := &p.out.Options
	defaults := p.in.object("fieldConfig", "defaults")
	o.Unit = unitOf(defaults.text("unit"))
	o.Min, o.Max = defaults.number("min"), defaults.number("max")
	if defaults.number("decimals") != nil {
		n := defaults.whole(0, 0, 15, "decimals")
		o.Decimals = &n
	}
	o.Thresholds = thresholds(defaults.objects("thresholds", "steps"))
	if defaults.text("thresholds", "mode") == "percentage" {
		o.ThresholdMode = "percentage"
	}
	p.mappings(defaults.objects("mappings"))
	p.custom(defaults.object("custom"))
	if p.out.Type == dashboard.TimeSeries && defaults.text("noValue") == "0" {
		o.Nulls = "zero"
	}
	o.Legend = p.legend(p.in.object("options", "legend"))
	if calcs := p.in.texts("options", "reduceOptions", "calcs"); len(calcs) > 0 {
		p.calc(calcs[0])
	}
	o.Horizontal = p.in.text("options", "orientation") == "horizontal" && p.out.Type == dashboard.Bar
	o.Sparkline = p.out.Type == dashboard.Stat && p.in.text("options", "graphMode") == "area"
	switch kind {
	case "graph":
		p.oldGraph()
	case "singlestat":
		p.oldStat()
	case "barchart":
		if s := p.in.text("options", "stacking"); s == "normal" || s == "percent" {
			o.Stack = s
		}
	}
}

// custom reads the options of time series.
func (p *panel) custom(c object) {
	o := &p.out.Options
	if p.out.Type != dashboard.TimeSeries || c == nil {
		return
	}
	switch c.text("drawStyle") {
	case "bars":
		o.Style = "bars"
	case "points":
		o.Style = "points"
	}
	o.Fill, o.Line = c.whole(0, 0, 100, "fillOpacity"), c.whole(0, 0, 20, "lineWidth")
	if m := c.text("stacking", "mode"); m == "normal" || m == "percent" {
		o.Stack = m
	}
	if s := c.at("spanNulls"); s == true || numberOf(s) != nil {
		o.Nulls = "connect"
	}
	if c.text("scaleDistribution", "type") == "log" {
		o.Log = logOf(c.whole(10, 0, 100, "scaleDistribution", "log"))
	}
	if c.text("transform") == "negative-Y" {
		p.note("values are not mirrored below zero")
	}
}

// logOf is the nearer of the two bases there are.
func logOf(base int) int {
	if base == 2 {
		return 2
	}
	return 10
}

func (p *panel) legend(l object) *dashboard.Legend {
	if l == nil {
		return nil
	}
	out := &dashboard.Legend{Placement: "bottom"}
	switch {
	case l["showLegend"] == false || l.text("displayMode") == "hidden":
		out.Placement = "hidden"
	case l.text("placement") == "right":
		out.Placement = "right"
	}
	for _, c := range l.texts("calcs") {
		if name := calcOf(c); name != "" && !slices.Contains(out.Calcs, name) {
			out.Calcs = append(out.Calcs, name)
		}
	}
	return out
}

var calcNames = map[string]string{
	"last": "last", "lastNotNull": "last", "current": "last", "first": "first", "firstNotNull": "first", "mean": "mean", "avg": "mean", "min": "min", "max": "max",
	"sum": "sum", "total": "sum", "count": "count", "range": "range", "diff": "delta", "delta": "delta",
}

func calcOf(name string) string { return calcNames[name] }

// calc says what a single number is made of.
func (p *panel) calc(name string) {
	if p.out.Options.Calc = calcOf(name); p.out.Options.Calc == "" {
		p.note("the calculation %q is not there: it is the last value", cut(printable(name), 40))
	}
}

// oldGraph reads the panel that time series had before.
func (p *panel) oldGraph() {
	o, in := &p.out.Options, p.in
	if axes := in.objects("yaxes"); len(axes) > 0 {
		o.Unit = cmp.Or(o.Unit, unitOf(axes[0].text("format")))
		o.Min, o.Max = axes[0].number("min"), axes[0].number("max")
		if axes[0].number("decimals") != nil {
			n := axes[0].whole(0, 0, 15, "decimals")
			o.Decimals = &n
		}
		if base := axes[0].whole(1, 1, 100, "logBase"); base > 1 {
			o.Log = logOf(base)
		}
	}
	switch {
	case in.yes("bars") && !in.yes("lines"):
		o.Style = "bars"
	case in.yes("points") && !in.yes("lines"):
		o.Style = "points"
	}
	o.Fill, o.Line = in.whole(1, 0, 10, "fill")*10, in.whole(1, 0, 20, "linewidth")
	switch {
	case in.yes("stack") && in.yes("percentage"):
		o.Stack = "percent"
	case in.yes("stack"):
		o.Stack = "normal"
	}
	switch in.text("nullPointMode") {
	case "connected":
		o.Nulls = "connect"
	case "null as zero":
		o.Nulls = "zero"
	}
	if mode := in.text("xaxis", "mode"); mode == "series" || mode == "histogram" {
		p.note("the axis by %s is an axis of time here", mode)
	}
	p.oldLegend()
	var steps []object
	for _, t := range in.objects("thresholds") {
		color := cmp.Or(t.text("fillColor"), t.text("lineColor"), map[string]string{"critical": "red", "warning": "orange", "ok": "green"}[t.text("colorMode")], "red")
		if t.text("op") == "lt" {
			p.note("the threshold below %s is left out", t.text("value"))
			continue
		}
		steps = append(steps, object{"value": t["value"], "color": color})
	}
	if steps != nil {
		o.Thresholds = thresholds(append([]object{{"color": "transparent"}}, steps...))
	}
}

func (p *panel) oldLegend() {
	l := p.in.object("legend")
	if l == nil {
		return
	}
	out := &dashboard.Legend{Placement: "bottom"}
	switch {
	case l["show"] == false:
		out.Placement = "hidden"
	case l.yes("rightSide"):
		out.Placement = "right"
	}
	for _, name := range []string{"min", "max", "avg", "current", "total"} {
		if l.yes(name) && l.yes("values") {
			out.Calcs = append(out.Calcs, calcOf(name))
		}
	}
	p.out.Options.Legend = out
}

// oldStat reads the panel that stat and gauge had before.
func (p *panel) oldStat() {
	o, in := &p.out.Options, p.in
	o.Unit = cmp.Or(o.Unit, unitOf(in.text("format")))
	if in.number("decimals") != nil {
		n := in.whole(0, 0, 15, "decimals")
		o.Decimals = &n
	}
	if name := in.text("valueName"); name != "" {
		p.calc(name)
	}
	if in.yes("gauge", "show") {
		p.out.Type = dashboard.Gauge
		o.Min, o.Max = in.number("gauge", "minValue"), in.number("gauge", "maxValue")
	}
	o.Sparkline = p.out.Type == dashboard.Stat && in.yes("sparkline", "show")
	if in.text("prefix") != "" || in.text("postfix") != "" {
		p.note("the text around the number (%s … %s) is left out", cut(printable(in.text("prefix")), 40), cut(printable(in.text("postfix")), 40))
	}
	colors, limits := in.texts("colors"), strings.Split(in.text("thresholds"), ",")
	var steps []object
	for i, c := range colors {
		step := object{"color": c}
		if i > 0 {
			if i > len(limits) || numberOf(strings.TrimSpace(limits[i-1])) == nil {
				break
			}
			step["value"] = *numberOf(strings.TrimSpace(limits[i-1]))
		}
		steps = append(steps, step)
	}
	if len(steps) > 1 {
		o.Thresholds = thresholds(steps)
	}
	maps := in.objects("valueMaps")
	if in.whole(1, 0, 2, "mappingType") == 2 {
		maps = in.objects("rangeMaps")
	}
	p.mappings(maps)
}

const maxSteps = 100

// thresholds are ascending, and only the first may have no value.
func thresholds(steps []object) []dashboard.Threshold {
	var out []dashboard.Threshold
	for _, s := range steps[:min(len(steps), maxSteps)] {
		t := dashboard.Threshold{Value: s.number("value"), Color: colorOf(s.text("color"))}
		if t.Value == nil && len(out) > 0 {
			continue
		}
		out = append(out, t)
	}
	slices.SortStableFunc(out, func(a, b dashboard.Threshold) int {
		switch {
		case a.Value == nil && b.Value == nil:
			return 0
		case a.Value == nil:
			return -1
		case b.Value == nil:
			return 1
		}
		return cmp.Compare(*a.Value, *b.Value)
	})
	return out
}

// mappings reads all forms that value mappings ever had.
func (p *panel) mappings(all []object) {
	add := func(m dashboard.Mapping, color string) {
		if color != "" {
			m.Color = colorOf(color)
		}
		m.Value, m.Text = cut(printable(m.Value), 200), cut(printable(m.Text), 200)
		if len(p.out.Options.Mappings) < maxSteps {
			p.out.Options.Mappings = append(p.out.Options.Mappings, m)
		}
	}
	for _, m := range all {
		kind, opts := m.text("type"), m.object("options")
		switch {
		case kind == "value" && opts != nil:
			for _, value := range sortedKeys(opts) {
				add(dashboard.Mapping{Value: value, Text: opts.text(value, "text")}, opts.text(value, "color"))
			}
		case kind == "range" && opts != nil:
			add(dashboard.Mapping{From: opts.number("from"), To: opts.number("to"), Text: opts.text("result", "text")}, opts.text("result", "color"))
		case kind == "special" && strings.HasPrefix(opts.text("match"), "null"):
			add(dashboard.Mapping{Value: "null", Text: opts.text("result", "text")}, opts.text("result", "color"))
		case m["value"] != nil && m["value"] != "":
			add(dashboard.Mapping{Value: m.text("value"), Text: m.text("text")}, "")
		case m.number("from") != nil || m.number("to") != nil:
			add(dashboard.Mapping{From: m.number("from"), To: m.number("to"), Text: m.text("text")}, "")
		default:
			p.note("a value mapping of the kind %q is left out", cut(printable(kind), 40))
		}
	}
}

func sortedKeys(o object) []string {
	keys := make([]string, 0, len(o))
	for k := range o {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// unitOf is a unit as it is kept; "none" is none.
func unitOf(u string) string {
	if u == "none" {
		return ""
	}
	return cut(printable(u), 60)
}

var (
	hexColor = regexp.MustCompile(`^#([0-9a-fA-F]{6})([0-9a-fA-F]{2})?$`)
	rgbColor = regexp.MustCompile(`^rgba?\(\s*(\d{1,3})\s*,\s*(\d{1,3})\s*,\s*(\d{1,3})\s*(?:,\s*([0-9.]+)\s*)?\)$`)
)

// colorOf is the nearest color there is.
func colorOf(s string) string {
	s = strings.TrimSpace(s)
	if m := hexColor.FindStringSubmatch(s); m != nil {
		return "#" + strings.ToLower(m[1])
	}
	if m := rgbColor.FindStringSubmatch(s); m != nil {
		if alpha := numberOf(m[4]); alpha != nil && *alpha == 0 {
			return "transparent"
		}
		out := "#"
		for _, part := range m[1:4] {
			n, _ := strconv.Atoi(part) // three digits
			out += fmt.Sprintf("%02x", min(n, 255))
		}
		return out
	}
	for _, name := range []string{"green", "yellow", "orange", "red", "blue", "purple", "transparent"} {
		if strings.HasSuffix(strings.ToLower(s), name) {
			return name
		}
	}
	return "gray"
}
