package api

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/millstream/millstream/dashboard"
	"github.com/millstream/millstream/dashboard/grafana"
)

func grafanaFile(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile("../dashboard/grafana/testdata/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestDashboards(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root := w.root()
	_, viewer := w.member(root, "viewer@example.com", "viewer")
	in := aDashboard("Shop")
	in.Shared = true
	var d dashboardView
	w.want(201, "POST", dashboardsPath, root, in, &d)
	if d.Name != "Shop" || !reflect.DeepEqual(d.Body, in.Body) {
		t.Errorf("%+v", d)
	}
	w.want(200, "GET", dashboardsPath+"/"+d.ID, viewer, nil, &d)
	if d.Editable {
		t.Error("a viewer may edit it")
	}
	var list dashboardsView
	w.want(200, "GET", dashboardsPath, viewer, nil, &list)
	if len(list.Dashboards) != 1 || !reflect.DeepEqual(list.Dashboards[0].Summary, dashboardSummary{Tags: []string{"shop"}, Panels: 1}) {
		t.Errorf("%+v", list)
	}
	in.Body.Title = "Shop, renamed"
	w.want(200, "PUT", dashboardsPath+"/"+d.ID, root, in, &d, "If-Match", `"1"`)
	if d.Name != "Shop, renamed" {
		t.Errorf("%+v", d)
	}
	w.want(403, "DELETE", dashboardsPath+"/"+d.ID, viewer, nil, nil)
	w.want(200, "POST", dashboardsPath+"/"+d.ID+"/restore", root, restoreBody{Version: 1}, &d)
	if d.Body.Title != "Shop" || d.Version != 3 {
		t.Errorf("%+v", d)
	}
}

func TestImportOfGrafanaDashboards(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root := w.root()
	_, viewer := w.member(root, "viewer@example.com", "viewer")
	const path = dashboardsPath + "/import"
	w.want(403, "POST", path+"?dry_run=true", viewer, grafanaFile(t, "modern"), nil)
	before := len(w.actions(root))
	var dry importView
	w.want(200, "POST", path+"?dry_run=true", root, grafanaFile(t, "modern"), &dry)
	if dry.ID != "" || len(dry.Report.Panels) != 19 || len(dry.Dashboard.Panels) != 19 || dry.Report.Panels[1].State != grafana.Converted || len(dry.Report.DataSources) == 0 || len(dry.Report.Units) == 0 {
		t.Errorf("%+v", dry.Report)
	}
	var list dashboardsView
	w.want(200, "GET", dashboardsPath, root, nil, &list)
	if len(list.Dashboards) != 0 || len(w.actions(root)) != before {
		t.Error("a dry run changed something")
	}
	var made importView
	w.want(201, "POST", path+"?shared=true", root, grafanaFile(t, "modern"), &made)
	if made.ID == "" || made.Version != 1 || !reflect.DeepEqual(made.Report, dry.Report) {
		t.Errorf("%+v", made)
	}
	if got := w.actions(root); !slices.Contains(got, "dashboard.import") {
		t.Errorf("the audit log: %v", got)
	}
	var d dashboardView
	w.want(200, "GET", dashboardsPath+"/"+made.ID, viewer, nil, &d)
	if !reflect.DeepEqual(d.Body, made.Dashboard) {
		t.Error("what is stored is not what was reported")
	}

	// As a file of Grafana the placeholders are what they were; as one of our own it comes back whole.
	a := w.want(200, "GET", dashboardsPath+"/"+made.ID+"/export?format=grafana", viewer, nil, nil)
	if !strings.Contains(string(a.body), `"html":"<b>&</b>"`) || !strings.Contains(string(a.body), `"type":"piechart"`) || a.header.Get("Content-Disposition") != `attachment; filename="Shop---RED.json"` {
		t.Errorf("%v %s", a.header, a.body)
	}
	var again importView
	w.want(200, "POST", path+"?dry_run=true", root, string(a.body), &again)
	if len(again.Dashboard.Panels) != 19 || !reflect.DeepEqual(again.Dashboard.Variables, made.Dashboard.Variables) {
		t.Errorf("%+v", again.Dashboard)
	}
	own := w.want(200, "GET", dashboardsPath+"/"+made.ID+"/export", viewer, nil, nil)
	var back importView
	w.want(201, "POST", path, root, string(own.body), &back)
	if !reflect.DeepEqual(back.Dashboard, made.Dashboard) || back.ID == made.ID || back.Report.Panels[12].State != grafana.Kept {
		t.Errorf("%+v", back)
	}
	checkProblem(t, "format", w.call("GET", dashboardsPath+"/"+made.ID+"/export?format=pdf", root, nil), 400, "invalid_argument", "millstream or grafana")
	other, _ := w.other()
	w.want(404, "GET", dashboardsPath+"/"+made.ID+"/export", other, nil, nil)
}

func TestBadImports(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root := w.root()
	const path = dashboardsPath + "/import"
	big := `{"title":"big","panels":[` + strings.TrimSuffix(strings.Repeat(`{"type":"x","data":"`+strings.Repeat("y", 200_000)+`","gridPos":{}},`, 8), ",") + `]}`
	for name, c := range map[string]struct {
		body   string
		status int
		says   string
	}{
		"empty":          {``, 400, "empty"},
		"no JSON":        {`{"panels":`, 400, "not valid JSON"},
		"not one":        {`{"a":1}`, 400, "neither panels nor rows"},
		"an array":       {`[1]`, 400, "not a JSON object"},
		"twice":          {`{"panels":[],"panels":[]}`, 400, "given twice"},
		"deep":           {`{"panels":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`, 400, "nested deeper"},
		"5 MB":           {`{"panels":[],"x":"` + strings.Repeat("x", 5<<20) + `"}`, 413, ""},
		"too big a one":  {big, 413, "more than 1048576"},
		"our own, wrong": {`{"format":"millstream.dashboard/1","dashboard":{"title":"x","panels":[{"id":1,"type":"pie","grid":{"x":0,"y":0,"w":1,"h":1}}]}}`, 400, "dashboard.panels[0].type"},
		"our own, typo":  {`{"format":"millstream.dashboard/1","dashboard":{"titel":"x","panels":[]}}`, 400, `did you mean "title"?`},
	} {
		for _, dry := range []string{"", "?dry_run=true"} {
			code := "invalid_argument"
			if c.status == 413 {
				code = "too_large"
			}
			checkProblem(t, name+dry, w.call("POST", path+dry, root, c.body), c.status, code, c.says)
		}
	}
	var list dashboardsView
	w.want(200, "GET", dashboardsPath, root, nil, &list)
	if len(list.Dashboards) != 0 {
		t.Errorf("%+v", list)
	}
}

// A title can be anything; the name of the file cannot.
// The reply of an import is what the OpenAPI document says, also where there is nothing.
func TestImportReportHasNoNulls(t *testing.T) {
	_, r, err := grafana.Import([]byte(`{"panels":[]}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []any{r, grafana.NewReport(&dashboard.Dashboard{})} {
		if text, err := json.Marshal(v); err != nil || strings.Contains(string(text), "null") {
			t.Errorf("%s %v", text, err)
		}
	}
}
