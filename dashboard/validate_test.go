package dashboard_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/dashboard"
)

const whole = `{"title":"All","description":"d","tags":["a"],"folder":"shop/eu","time":{"from":"now-6h","to":"now/d"},"refresh":"30s",
"variables":[{"name":"env","type":"query","query":"label_values(up, env)","multi":true,"include_all":true,"all_value":".*","default":["$__all"],"regex":"^p"},
 {"name":"c","type":"constant","options":["x"]},{"name":"s","type":"stream","query":"logs"},{"name":"q","type":"query","language":"sql","query":"SELECT DISTINCT level FROM app"}],
"panels":[
 {"id":1,"type":"row","title":"r","grid":{"x":0,"y":0,"w":24,"h":1},"options":{"collapsed":true}},
 {"id":2,"title":"t","type":"timeseries","grid":{"x":0,"y":1,"w":12,"h":8},"targets":[{"ref":"A","language":"promql","statement":"rate(x[$__rate_interval])","legend":"{{job}}","step":"$interval"},{"ref":"B","language":"sql","statement":"SELECT 1","format":"table"}],
  "options":{"unit":"s","decimals":2,"min":0,"max":10,"thresholds":[{"color":"green"},{"value":5,"color":"#ff0000"}],"threshold_mode":"percentage","mappings":[{"from":0,"to":1,"text":"low","color":"red"}],"stack":"normal","style":"bars","fill":20,"line":1,"nulls":"connect","log":10,"legend":{"placement":"right","calcs":["mean"]},"calc":"max"}},
 {"id":3,"type":"logs","grid":{"x":12,"y":1,"w":12,"h":8},"targets":[{"ref":"A","language":"search","statement":"level:error","stream":"app"}]},
 {"id":4,"type":"placeholder","grid":{"x":0,"y":9,"w":24,"h":4},"original":{"type":"piechart"}}]}`

func TestWholeDashboardIsValid(t *testing.T) {
	var d dashboard.Dashboard
	if err := json.Unmarshal([]byte(whole), &d); err != nil {
		t.Fatal(err)
	}
	if err := d.Validate("body"); err != nil {
		t.Fatal(err)
	}
	if err := (&dashboard.Dashboard{Title: "empty"}).Validate(""); err != nil {
		t.Error(err)
	}
}

// Each fault is refused, and the message begins with its place.
func TestValidateNamesThePlace(t *testing.T) {
	for says, change := range map[string]func(d *dashboard.Dashboard){
		"body.title: it is empty":                     func(d *dashboard.Dashboard) { d.Title = " " },
		"body.title: it has 201 characters":           func(d *dashboard.Dashboard) { d.Title = strings.Repeat("ü", 201) },
		"body.title: it contains a control":           func(d *dashboard.Dashboard) { d.Title = "a\x00" },
		"body.tags[1]":                                func(d *dashboard.Dashboard) { d.Tags = []string{"a", strings.Repeat("x", 10_000)} },
		"body.refresh":                                func(d *dashboard.Dashboard) { d.Refresh = "often" },
		"body.time.from":                              func(d *dashboard.Dashboard) { d.Time.From = "yesterdayish" },
		"body.variables[0].name":                      func(d *dashboard.Dashboard) { d.Variables[0].Name = "a-b" },
		"body.variables[1].name: \"__x\"":             func(d *dashboard.Dashboard) { d.Variables[1].Name = "__x" },
		"body.variables[2].name: \"env\" is there":    func(d *dashboard.Dashboard) { d.Variables[2].Name = "env" },
		"body.variables[0].type":                      func(d *dashboard.Dashboard) { d.Variables[0].Type = "" },
		"body.variables[0].query":                     func(d *dashboard.Dashboard) { d.Variables[0].Query = "" },
		"body.variables[1].options":                   func(d *dashboard.Dashboard) { d.Variables[1].Options = nil },
		"body.variables[0].default: there are 1001":   func(d *dashboard.Dashboard) { d.Variables[0].Default = make([]string, 1001) },
		"body.panels[1].id: 1 is there twice":         func(d *dashboard.Dashboard) { d.Panels[1].ID = 1 },
		"body.panels[0].id: it is 0":                  func(d *dashboard.Dashboard) { d.Panels[0].ID = 0 },
		"body.panels[1].type: \"pie\"":                func(d *dashboard.Dashboard) { d.Panels[1].Type = "pie" },
		"body.panels[1].grid.w":                       func(d *dashboard.Dashboard) { d.Panels[1].Grid.W = 0 },
		"body.panels[2].grid: x 12":                   func(d *dashboard.Dashboard) { d.Panels[2].Grid.W = 13 },
		"body.panels[1].grid.y":                       func(d *dashboard.Dashboard) { d.Panels[1].Grid.Y = 1 << 40 },
		"body.panels[1].targets[1].ref: \"A\"":        func(d *dashboard.Dashboard) { d.Panels[1].Targets[1].Ref = "A" },
		"body.panels[1].targets[0].language":          func(d *dashboard.Dashboard) { d.Panels[1].Targets[0].Language = "flux" },
		"body.panels[1].targets[0].statement":         func(d *dashboard.Dashboard) { d.Panels[1].Targets[0].Statement = strings.Repeat("x", 70_000) },
		"body.panels[1].targets[0].step":              func(d *dashboard.Dashboard) { d.Panels[1].Targets[0].Step = "soon" },
		"body.panels[1].targets[0].format":            func(d *dashboard.Dashboard) { d.Panels[1].Targets[0].Format = "csv" },
		"body.panels[1].targets: there are 27":        func(d *dashboard.Dashboard) { d.Panels[1].Targets = make([]dashboard.Target, 27) },
		"body.panels[1].options.decimals":             func(d *dashboard.Dashboard) { *d.Panels[1].Options.Decimals = 99 },
		"body.panels[1].options.stack":                func(d *dashboard.Dashboard) { d.Panels[1].Options.Stack = "up" },
		"body.panels[1].options.log":                  func(d *dashboard.Dashboard) { d.Panels[1].Options.Log = 3 },
		"body.panels[1].options.thresholds[0].color":  func(d *dashboard.Dashboard) { d.Panels[1].Options.Thresholds[0].Color = "url(x)" },
		"body.panels[1].options.thresholds[1].value":  func(d *dashboard.Dashboard) { d.Panels[1].Options.Thresholds[1].Value = nil },
		"body.panels[1].options.mappings[0].color":    func(d *dashboard.Dashboard) { d.Panels[1].Options.Mappings[0].Color = "red;" },
		"body.panels[1].options.legend.placement":     func(d *dashboard.Dashboard) { d.Panels[1].Options.Legend.Placement = "" },
		"body.panels[1].options.legend.calcs[0]":      func(d *dashboard.Dashboard) { d.Panels[1].Options.Legend.Calcs[0] = "median" },
		"body.panels[2].options.content":              func(d *dashboard.Dashboard) { d.Panels[2].Options.Content = strings.Repeat("x", 70_000) },
		"body.panels[2].original: only a placeholder": func(d *dashboard.Dashboard) { d.Panels[2].Original = []byte(`{}`) },
		"body.panels[3].original: it is not a JSON":   func(d *dashboard.Dashboard) { d.Panels[3].Original = []byte(`[1]`) },
		"body.panels[3].original: it is nested": func(d *dashboard.Dashboard) {
			d.Panels[3].Original = []byte(`{"a":` + strings.Repeat("[", 24) + `"]\"["` + strings.Repeat("]", 24) + `}`)
		},
		"body.panels: there are 501": func(d *dashboard.Dashboard) { d.Panels = make([]dashboard.Panel, 501) },
	} {
		var d dashboard.Dashboard
		if err := json.Unmarshal([]byte(whole), &d); err != nil {
			t.Fatal(err)
		}
		change(&d)
		err := d.Validate("body")
		if millstream.KindOf(err) != millstream.Invalid || !strings.HasPrefix(fmt.Sprint(err), says) {
			t.Errorf("want %q: %v", says, err)
		}
	}
}
