package grafana

import (
	"fmt"
	"strings"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/dashboard"
)

// all is how Grafana writes that every value is chosen; it is ours as well.
const all = dashboard.All

// variable converts one variable, or drops it, and reports on it.
func (im *importer) variable(o object) {
	kind := o.text("type")
	v := dashboard.Variable{
		Name: o.text("name"), Label: cut(printable(o.text("label")), 200), Multi: o.yes("multi"), IncludeAll: o.yes("includeAll"), AllValue: printable(o.text("allValue")),
		Default: current(o), Hidden: o.whole(0, 0, 2, "hide") == 2,
	}
	state, notes := im.convertVariable(&v, o, kind)
	if state != Dropped {
		if err := v.Validate("the variable"); err != nil {
			state, notes = Dropped, append(notes, millstream.Message(err))
		} else if im.variables[v.Name] {
			state, notes = Dropped, append(notes, "another one has this name")
		}
	}
	if state == Converted && len(notes) > 0 {
		state = Changed
	}
	if state != Dropped {
		im.variables[v.Name] = true
		im.out.Variables = append(im.out.Variables, v)
	}
	if notes == nil {
		notes = []string{}
	}
	im.report.Variables = append(im.report.Variables, VariableReport{cut(printable(v.Name), 200), cut(printable(kind), 60), state, notes})
}

func (im *importer) convertVariable(v *dashboard.Variable, o object, kind string) (state State, notes []string) {
	switch kind {
	case "query":
		return Converted, im.queryVariable(v, o)
	case "custom":
		v.Type = dashboard.Custom
		v.Options, notes = listed(o)
	case "constant":
		v.Type, v.Hidden = dashboard.Constant, true
		v.Options, v.Default = []string{printable(queryText(o))}, nil
	case "interval":
		v.Type, v.Multi, v.IncludeAll = dashboard.Interval, false, false
		v.Options, _ = listed(o)
		if o.yes("auto") {
			v.Options = append([]string{"$__interval"}, v.Options...)
		}
		for i, d := range v.Default {
			v.Default[i] = variables(d)
		}
	case "textbox":
		v.Type = dashboard.TextBox
		if v.Default == nil && queryText(o) != "" {
			v.Default = []string{printable(queryText(o))}
		}
	case "datasource":
		return Dropped, []string{"there is one data source here"}
	case "adhoc":
		return Dropped, []string{"filters for all panels at once are not there"}
	default:
		return Dropped, []string{fmt.Sprintf("variables of the type %q are not there", cut(printable(kind), 60))}
	}
	return Converted, notes
}

// queryVariable keeps a query that can run here, and of any other the values it had.
func (im *importer) queryVariable(v *dashboard.Variable, o object) (notes []string) {
	v.Type = dashboard.Query
	v.Query = strings.TrimSpace(printable(variables(queryText(o))))
	v.Regex = strings.TrimSuffix(strings.TrimPrefix(printable(o.text("regex")), "/"), "/")
	src := im.sources.of(o["datasource"])
	if yes, sure := speaksPromQL(src, object{"expr": v.Query}); !yes {
		v.Type, v.Query, v.Regex = dashboard.Custom, "", ""
		v.Options, _ = listed(object{"options": o["options"]})
		return []string{fmt.Sprintf("it asks %s: it has the values that were saved", nameOf(src))}
	} else if src.kind == kindDefault {
		im.assumed = true
	} else if !sure {
		notes = append(notes, fmt.Sprintf("%s is taken for Prometheus", nameOf(src)))
	}
	return notes
}

// queryText is a variable's query, which is a text or an object that holds one.
func queryText(o object) string {
	if q := o.object("query"); q != nil {
		if text := q.text("query"); text != "" {
			return text
		}
		return o.text("definition")
	}
	if q := o.text("query"); q != "" {
		return q
	}
	return o.text("definition")
}

const maxValues = 1000

// listed are the values of a variable that lists them: in its query divided by commas, or saved as options.
func listed(o object) (values, notes []string) {
	named := false
	for _, part := range splitList(o.text("query")) {
		name, value, pair := strings.Cut(part, " : ")
		if pair {
			part, named = strings.TrimSpace(value), named || strings.TrimSpace(name) != strings.TrimSpace(value)
		}
		if part != all && len(values) < maxValues {
			values = append(values, printable(part))
		}
	}
	if values == nil {
		for _, opt := range o.objects("options") {
			if v := opt.text("value"); v != "" && v != all && len(values) < maxValues && !strings.HasPrefix(v, "$__auto") {
				values = append(values, printable(v))
			}
		}
	}
	if named {
		notes = append(notes, "values are shown as they are, not by their names")
	}
	return values, notes
}

// splitList divides at commas that no backslash stands before.
func splitList(s string) []string {
	var out []string
	for _, part := range strings.Split(strings.ReplaceAll(s, `\,`, "\x00"), ",") {
		if part = strings.TrimSpace(strings.ReplaceAll(part, "\x00", ",")); part != "" {
			out = append(out, part)
		}
	}
	return out
}

// current is what is chosen when the dashboard opens.
func current(o object) []string {
	var out []string
	for _, v := range o.texts("current", "value") {
		if len(out) < maxValues {
			out = append(out, printable(v))
		}
	}
	return out
}
