package dashboard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/timespec"
)

// Bounds of a dashboard, in characters where nothing else is said.
const (
	maxPanels      = 500
	maxVariables   = 50
	maxTargets     = 26
	maxTags        = 50
	maxOptions     = 1000 // values of a variable
	maxList        = 100  // thresholds, mappings, calcs
	maxRow         = 10_000
	maxHeight      = 200
	maxTitle       = 200
	maxShort       = 200
	maxText        = 10_000
	maxStatement   = 64 << 10 // bytes
	maxContent     = 64 << 10 // bytes
	maxOriginal    = 24       // levels of nesting
	maxDescription = 2000
)

var (
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)
	refName      = regexp.MustCompile(`^[^\x00-\x1f\x7f]{1,64}$`)
	durationText = regexp.MustCompile(`^[0-9]+(ms|s|m|h|d)$`)
	stepText     = regexp.MustCompile(`^>?([0-9]+(ms|s|m|h|d|w|y)|\$\{?[A-Za-z_][A-Za-z0-9_]*\}?)$`)
	colorText    = regexp.MustCompile(`^(green|yellow|orange|red|blue|purple|gray|transparent|#[0-9a-fA-F]{6})$`)

	panelTypes    = []PanelType{TimeSeries, Stat, Gauge, Bar, Table, Logs, Heatmap, StateTimeline, Traces, Text, Row, Placeholder}
	variableTypes = []VariableType{Query, Custom, Constant, Interval, TextBox, Stream}
	languages     = []Language{PromQL, SQL, Search}
	calcs         = []string{"last", "first", "mean", "min", "max", "sum", "count", "range", "delta"}
)

// checker collects the first fault, with the JSON path of what is wrong.
type checker struct{ err error }

func (c *checker) failf(path, format string, args ...any) {
	if c.err == nil {
		c.err = millstream.Errorf(millstream.Invalid, "%s", strings.TrimPrefix(path, ".")+": "+fmt.Sprintf(format, args...))
	}
}

func (c *checker) text(path, value string, most int) {
	switch n := utf8.RuneCountInString(value); {
	case n > most:
		c.failf(path, "it has %d characters, more than %d", n, most)
	case strings.ContainsFunc(value, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r' }):
		c.failf(path, "it contains a control character")
	}
}

func (c *checker) count(path string, n, most int) {
	if n > most {
		c.failf(path, "there are %d, more than %d", n, most)
	}
}

func (c *checker) within(path string, n, least, most int) {
	if n < least || n > most {
		c.failf(path, "it is %d, it must be from %d to %d", n, least, most)
	}
}

// oneOf checks a word; an empty one is the default where that is allowed.
func oneOf[T ~string](c *checker, path string, value T, optional bool, allowed []T) {
	if value == "" && optional || slices.Contains(allowed, value) {
		return
	}
	words := make([]string, len(allowed))
	for i, a := range allowed {
		words[i] = string(a)
	}
	c.failf(path, "%.40q is not known: use %s", string(value), strings.Join(words, ", "))
}

// Validate refuses, as Invalid, what could not be shown. The message begins with the JSON path of what is wrong, below the given one.
func (d *Dashboard) Validate(path string) error {
	c := &checker{}
	if strings.TrimSpace(d.Title) == "" {
		c.failf(path+".title", "it is empty")
	}
	c.text(path+".title", d.Title, maxTitle)
	c.text(path+".description", d.Description, maxDescription)
	c.text(path+".folder", d.Folder, maxShort)
	c.count(path+".tags", len(d.Tags), maxTags)
	for i, t := range d.Tags {
		c.text(fmt.Sprintf("%s.tags[%d]", path, i), t, maxShort)
	}
	if d.Refresh != "" && !durationText.MatchString(d.Refresh) {
		c.failf(path+".refresh", "%.40q is not a duration: write 30s, 5m or 1h", d.Refresh)
	}
	c.timeRange(path+".time", d.Time)
	c.count(path+".variables", len(d.Variables), maxVariables)
	c.count(path+".panels", len(d.Panels), maxPanels)
	if c.err != nil {
		return c.err
	}
	c.variables(path+".variables", d.Variables)
	c.panels(path+".panels", d.Panels)
	return c.err
}

func (c *checker) timeRange(path string, r Range) {
	if r == (Range{}) {
		return
	}
	for field, text := range map[string]string{".from": r.From, ".to": r.To} {
		if _, err := timespec.Parse(text, time.Unix(0, 0)); err != nil {
			c.failf(path+field, "%.60q is not a time: write now-6h, now/d or 2026-11-30T12:00:00Z", text)
		}
	}
}

func (c *checker) variables(path string, all []Variable) {
	seen := map[string]bool{}
	for i := range all {
		v, at := &all[i], fmt.Sprintf("%s[%d]", path, i)
		c.variable(at, v)
		if seen[v.Name] {
			c.failf(at+".name", "%q is there twice", v.Name)
		}
		seen[v.Name] = true
	}
}

// Validate checks one variable, as Dashboard.Validate does.
func (v *Variable) Validate(path string) error {
	c := &checker{}
	c.variable(path, v)
	return c.err
}

func (c *checker) variable(at string, v *Variable) {
	if !variableName.MatchString(v.Name) || strings.HasPrefix(v.Name, "__") {
		c.failf(at+".name", "%.80q is not allowed: use letters, digits and _, not two _ in front", v.Name)
	}
	oneOf(c, at+".type", v.Type, false, variableTypes)
	oneOf(c, at+".language", v.Language, true, []Language{PromQL, SQL})
	c.text(at+".label", v.Label, maxShort)
	c.text(at+".query", v.Query, maxText)
	c.text(at+".regex", v.Regex, maxText)
	c.text(at+".all_value", v.AllValue, maxText)
	c.values(at+".options", v.Options)
	c.values(at+".default", v.Default)
	if v.Type == Query && strings.TrimSpace(v.Query) == "" {
		c.failf(at+".query", "a variable of the type query needs one")
	}
	if v.Type == Constant && len(v.Options) != 1 {
		c.failf(at+".options", "a constant has one value")
	}
}

func (c *checker) values(path string, values []string) {
	c.count(path, len(values), maxOptions)
	for i, v := range values {
		c.text(fmt.Sprintf("%s[%d]", path, i), v, maxText)
	}
}

func (c *checker) panels(path string, all []Panel) {
	seen := map[int]bool{}
	for i := range all {
		p, at := &all[i], fmt.Sprintf("%s[%d]", path, i)
		c.panel(at, p)
		if seen[p.ID] {
			c.failf(at+".id", "%d is there twice", p.ID)
		}
		seen[p.ID] = true
		if c.err != nil {
			return
		}
	}
}

// Validate checks one panel, as Dashboard.Validate does.
func (p *Panel) Validate(path string) error {
	c := &checker{}
	c.panel(path, p)
	return c.err
}

func (c *checker) panel(at string, p *Panel) {
	if p.ID < 1 {
		c.failf(at+".id", "it is %d, ids begin with 1", p.ID)
	}
	oneOf(c, at+".type", p.Type, false, panelTypes)
	c.text(at+".title", p.Title, maxShort)
	c.text(at+".description", p.Description, maxText)
	c.grid(at+".grid", p.Grid)
	c.targets(at+".targets", p)
	c.options(at+".options", &p.Options)
	c.original(at+".original", p)
}

func (c *checker) grid(path string, g Grid) {
	c.within(path+".x", g.X, 0, Columns-1)
	c.within(path+".w", g.W, 1, Columns)
	c.within(path+".y", g.Y, 0, maxRow)
	c.within(path+".h", g.H, 1, maxHeight)
	if g.X+g.W > Columns {
		c.failf(path, "x %d and w %d reach beyond column %d", g.X, g.W, Columns)
	}
}

func (c *checker) targets(path string, p *Panel) {
	c.count(path, len(p.Targets), maxTargets)
	seen := map[string]bool{}
	for i := range p.Targets {
		t, at := &p.Targets[i], fmt.Sprintf("%s[%d]", path, i)
		if !refName.MatchString(t.Ref) {
			c.failf(at+".ref", "%.80q is not allowed: use 1 to 64 characters", t.Ref)
		}
		if seen[t.Ref] {
			c.failf(at+".ref", "%q is there twice", t.Ref)
		}
		seen[t.Ref] = true
		oneOf(c, at+".language", t.Language, false, languages)
		oneOf(c, at+".format", t.Format, true, []string{"time_series", "table", "heatmap"})
		if len(t.Statement) > maxStatement {
			c.failf(at+".statement", "it has %d bytes, more than %d", len(t.Statement), maxStatement)
		}
		c.text(at+".statement", t.Statement, maxStatement)
		c.text(at+".stream", t.Stream, maxShort)
		c.text(at+".legend", t.Legend, maxDescription)
		if t.Step != "" && (len(t.Step) > maxShort || !stepText.MatchString(t.Step)) {
			c.failf(at+".step", "%.40q is not a step: write 30s, 5m or $interval", t.Step)
		}
	}
}

func (c *checker) options(path string, o *Options) {
	c.text(path+".unit", o.Unit, 60)
	if o.Decimals != nil {
		c.within(path+".decimals", *o.Decimals, 0, 15)
	}
	c.within(path+".fill", o.Fill, 0, 100)
	c.within(path+".line", o.Line, 0, 20)
	if o.Log != 0 && o.Log != 2 && o.Log != 10 {
		c.failf(path+".log", "it is %d, it must be 2 or 10", o.Log)
	}
	oneOf(c, path+".threshold_mode", o.ThresholdMode, true, []string{"absolute", "percentage"})
	oneOf(c, path+".stack", o.Stack, true, []string{"normal", "percent"})
	oneOf(c, path+".style", o.Style, true, []string{"lines", "bars", "points"})
	oneOf(c, path+".nulls", o.Nulls, true, []string{"gap", "connect", "zero"})
	oneOf(c, path+".calc", o.Calc, true, calcs)
	c.thresholds(path+".thresholds", o.Thresholds)
	c.mappings(path+".mappings", o.Mappings)
	if o.Legend != nil {
		oneOf(c, path+".legend.placement", o.Legend.Placement, false, []string{"bottom", "right", "hidden"})
		c.count(path+".legend.calcs", len(o.Legend.Calcs), maxList)
		for i, name := range o.Legend.Calcs {
			oneOf(c, fmt.Sprintf("%s.legend.calcs[%d]", path, i), name, false, calcs)
		}
	}
	if len(o.Content) > maxContent {
		c.failf(path+".content", "it has %d bytes, more than %d", len(o.Content), maxContent)
	}
}

func (c *checker) thresholds(path string, all []Threshold) {
	c.count(path, len(all), maxList)
	for i, t := range all {
		at := fmt.Sprintf("%s[%d]", path, i)
		c.color(at+".color", t.Color)
		switch {
		case t.Value == nil && i > 0:
			c.failf(at+".value", "only the first may have none")
		case i > 0 && all[i-1].Value != nil && *t.Value < *all[i-1].Value:
			c.failf(at+".value", "it is below the one before")
		}
	}
}

func (c *checker) mappings(path string, all []Mapping) {
	c.count(path, len(all), maxList)
	for i, m := range all {
		at := fmt.Sprintf("%s[%d]", path, i)
		c.text(at+".value", m.Value, maxShort)
		c.text(at+".text", m.Text, maxShort)
		if m.Color != "" {
			c.color(at+".color", m.Color)
		}
	}
}

func (c *checker) color(path, color string) {
	if !colorText.MatchString(color) {
		c.failf(path, "%.40q is not a color: use green, yellow, orange, red, blue, purple, gray, transparent or #rrggbb", color)
	}
}

func (c *checker) original(path string, p *Panel) {
	switch {
	case len(p.Original) == 0:
	case p.Type != Placeholder:
		c.failf(path, "only a placeholder has one")
	case !json.Valid(p.Original) || bytes.TrimSpace(p.Original)[0] != '{':
		c.failf(path, "it is not a JSON object")
	case depth(p.Original) > maxOriginal:
		c.failf(path, "it is nested deeper than %d levels", maxOriginal)
	}
}

// depth is how deep a valid JSON text is nested.
func depth(text []byte) int {
	level, deepest, quoted := 0, 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			level++
			deepest = max(deepest, level)
		case c == '}' || c == ']':
			level--
		}
	}
	return deepest
}
