package api

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/millstream/millstream/dashboard"
)

const (
	viewsPath      = "/api/v1/views"
	dashboardsPath = "/api/v1/dashboards"
)

func aView(name string) savedViewBody {
	return savedViewBody{Name: name, Body: savedView{Page: "logs", State: pageState{"q": {"level:error"}, "f": {"service:eq:cart", "a:eq:b"}}, Description: "d", Pinned: true}}
}

func aDashboard(title string) dashboardBody {
	return dashboardBody{Body: dashboard.Dashboard{Title: title, Tags: []string{"shop"}, Time: dashboard.Range{From: "now-6h", To: "now"}, Panels: []dashboard.Panel{
		{ID: 1, Title: "rate", Type: dashboard.TimeSeries, Grid: dashboard.Grid{W: 12, H: 8}, Targets: []dashboard.Target{{Ref: "A", Language: dashboard.PromQL, Statement: "sum(rate(x[$__rate_interval]))"}}},
	}}}
}

func TestViews(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root := w.root()
	_, viewer := w.member(root, "viewer@example.com", "viewer")
	var v savedViewView
	a := w.want(201, "POST", viewsPath, viewer, aView("errors"), &v)
	if v.Version != 1 || !v.Mine || !v.Editable || v.Shared || v.Owner != "viewer@example.com" || v.UpdatedBy != "user:viewer@example.com" ||
		!slices.Equal(v.Body.State["f"], stateValue{"service:eq:cart", "a:eq:b"}) || !v.Body.Pinned || a.header.Get("ETag") != `"1"` || a.header.Get("Location") != viewsPath+"/"+v.ID {
		t.Fatalf("%s %v", a.body, a.header)
	}
	if !strings.Contains(string(a.body), `"q":"level:error"`) {
		t.Errorf("a parameter that is given once is no string: %s", a.body)
	}
	one := viewsPath + "/" + v.ID
	change := aView("errors of the cart")
	checkProblem(t, "no version", w.call("PUT", one, viewer, change), 400, "invalid_argument", "If-Match")
	w.want(200, "PUT", one, viewer, change, &v, "If-Match", `"1"`)
	if v.Version != 2 || v.Name != "errors of the cart" {
		t.Errorf("%+v", v)
	}
	checkProblem(t, "an old ETag", w.call("PUT", one, viewer, change, "If-Match", `"1"`), 412, "conflict", "viewer@example.com changed this view at ")
	change.Version = ptr(int64(1))
	checkProblem(t, "an old version", w.call("PUT", one, viewer, change), 409, "conflict", "version 2")
	for _, bad := range []string{"1", `W/"2"`, `"x"`, `"1", "2"`, `"-1"`, `"02"`} {
		checkProblem(t, "If-Match "+bad, w.call("PUT", one, viewer, change, "If-Match", bad), 400, "invalid_argument", "If-Match")
	}
	w.want(200, "PUT", one, viewer, change, &v, "If-Match", "*")
	checkProblem(t, "delete of an old version", w.call("DELETE", one, viewer, nil, "If-Match", `"2"`), 412, "conflict", "")
	w.want(204, "DELETE", one, viewer, nil, nil, "If-Match", `"3"`)
	checkProblem(t, "deleted", w.call("GET", one, viewer, nil), 404, "not_found", "restored for 30 days")
	var list savedViewsView
	w.want(200, "GET", viewsPath+"?deleted=true", viewer, nil, &list)
	if len(list.Views) != 1 || list.Views[0].DeletedAt.IsZero() {
		t.Errorf("%+v", list)
	}
	checkProblem(t, "deleted=perhaps", w.call("GET", viewsPath+"?deleted=perhaps", viewer, nil), 400, "invalid_argument", "true or false")
	w.want(200, "POST", one+"/restore", viewer, restoreBody{Version: 1}, &v)
	if v.Version != 4 || v.Name != "errors" || !v.DeletedAt.IsZero() {
		t.Errorf("%+v", v)
	}
	w.want(200, "GET", viewsPath, viewer, nil, &list)
	if len(list.Views) != 1 || !reflect.DeepEqual(list.Views[0].Summary, savedViewSummary{"logs", "d", true, aView("").Body.State}) {
		t.Errorf("%+v", list)
	}
	var versions versionsView
	w.want(200, "GET", one+"/versions", viewer, nil, &versions)
	if len(versions.Versions) != 4 || versions.Versions[0].Version != 4 || versions.Versions[0].Body != nil || versions.Versions[3].By != "user:viewer@example.com" {
		t.Errorf("%+v", versions)
	}
	var version versionView
	w.want(200, "GET", one+"/versions/2", viewer, nil, &version)
	if version.Name != "errors of the cart" || !strings.Contains(string(version.Body), `"page":"logs"`) {
		t.Errorf("%+v", version)
	}
	for _, n := range []string{"0", "5", "x", "-1", "99999999999999999999"} {
		checkProblem(t, "version "+n, w.call("GET", one+"/versions/"+n, viewer, nil), 404, "not_found", "")
	}
	if got := w.actions(root)[:5]; !slices.Equal(got, []string{"view.restore", "view.delete", "view.update", "view.update", "view.create"}) {
		t.Errorf("the audit log: %v", got)
	}
}

func TestDocumentPolicies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root := w.root()
	_, viewer := w.member(root, "viewer@example.com", "viewer")
	_, editor := w.member(root, "editor@example.com", "editor")
	reader, _ := w.apiToken(root, "query")
	sender, _ := w.apiToken(root, "intake")
	admin, _ := w.apiToken(root, "admin", "query")
	shared := aView("shared")
	shared.Shared = true
	w.want(403, "POST", viewsPath, viewer, shared, nil)
	w.want(403, "POST", dashboardsPath, viewer, aDashboard("d"), nil)
	w.want(403, "POST", viewsPath, reader, aView("v"), nil)
	w.want(403, "GET", viewsPath, sender, nil, nil)
	w.want(201, "POST", dashboardsPath, admin, aDashboard("by a machine"), nil)
	var v savedViewView
	w.want(201, "POST", viewsPath, editor, shared, &v)
	one := viewsPath + "/" + v.ID
	w.want(200, "GET", one, viewer, nil, &v)
	if v.Mine || v.Editable || !v.Shared {
		t.Errorf("%+v", v)
	}
	w.want(200, "GET", one, reader, nil, nil)
	w.want(403, "PUT", one, viewer, shared, nil, "If-Match", "*")
	w.want(403, "DELETE", one, viewer, nil, nil)
	w.want(403, "POST", one+"/restore", viewer, restoreBody{Version: 1}, nil)
	w.want(200, "PUT", one, root, shared, nil, "If-Match", "*")
	checkProblem(t, "not the owner's", w.call("PUT", one, root, aView("taken"), "If-Match", "*"), 403, "permission_denied", "only its owner")
	w.want(200, "PUT", one, editor, aView("private again"), nil, "If-Match", "*")
	w.want(404, "GET", one, root, nil, nil)
}

// Nothing of an organization can be seen or changed from another, whatever the rank.
func TestDocumentsOfAnotherOrganization(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root := w.root()
	view, board := aView("v"), aDashboard("d")
	view.Shared, board.Shared = true, true
	var v, d documentHead
	w.want(201, "POST", viewsPath, root, view, &v)
	w.want(201, "POST", dashboardsPath, root, board, &d)
	var link createdLinkView
	w.want(201, "POST", "/api/v1/links", root, linkBody{State: pageState{"q": {"x"}}}, &link)
	w.want(200, "PUT", "/api/v1/preferences", root, preferences{Theme: "dark"}, nil)
	other, _ := w.other()
	for _, one := range []string{viewsPath + "/" + v.ID, dashboardsPath + "/" + d.ID, dashboardsPath + "/" + v.ID} {
		body := any(view)
		if strings.HasPrefix(one, dashboardsPath) {
			body = board
		}
		w.want(404, "GET", one, other, nil, nil)
		w.want(404, "PUT", one, other, body, nil, "If-Match", "*")
		w.want(404, "DELETE", one, other, nil, nil)
		w.want(404, "GET", one+"/versions", other, nil, nil)
		w.want(404, "GET", one+"/versions/1", other, nil, nil)
		w.want(404, "POST", one+"/restore", other, restoreBody{Version: 1}, nil)
	}
	for _, path := range []string{viewsPath, dashboardsPath, viewsPath + "?deleted=true", dashboardsPath + "?deleted=true"} {
		if a := w.want(200, "GET", path, other, nil, nil); strings.Contains(string(a.body), `"id"`) {
			t.Errorf("%s shows %s", path, a.body)
		}
	}
	w.want(404, "GET", "/api/v1/links/"+link.ID, other, nil, nil)
	var p keptPreferencesView
	w.want(200, "GET", "/api/v1/preferences", other, nil, &p)
	if p.Version != 0 || p.Preferences.Theme != "" {
		t.Errorf("%+v", p)
	}
	w.want(200, "GET", viewsPath+"/"+v.ID, root, nil, nil)
}

func TestTwoWritersOverHTTP(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root := w.root()
	var d dashboardView
	w.want(201, "POST", dashboardsPath, root, aDashboard("d"), &d)
	var wg sync.WaitGroup
	statuses := make(chan int, 2)
	for i := range cap(statuses) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			statuses <- w.call("PUT", dashboardsPath+"/"+d.ID, root, aDashboard(fmt.Sprint("writer ", i)), "If-Match", `"1"`).status
		}()
	}
	wg.Wait()
	got := []int{<-statuses, <-statuses}
	slices.Sort(got)
	if !slices.Equal(got, []int{200, 412}) {
		t.Errorf("two writers got %v", got)
	}
}

func TestBadDocuments(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root := w.root()
	var v savedViewView
	w.want(201, "POST", viewsPath, root, aView("v"), &v)
	big := strings.Repeat("x", 10<<10)
	for name, c := range map[string]struct {
		path, body string
		status     int
		code, says string
	}{
		"2 MB":             {viewsPath, `{"name":"v","body":{"page":"logs","state":{"q":"` + strings.Repeat("x", 2<<20) + `"}}}`, 413, "too_large", ""},
		"a long state":     {viewsPath, `{"name":"v","body":{"page":"logs","state":{"q":"` + strings.Repeat("x", 66<<10) + `"}}}`, 413, "too_large", "body.state"},
		"deep":             {viewsPath, `{"name":"v","body":` + strings.Repeat(`{"state":`, 5000) + strings.Repeat("}", 5001), 400, "invalid_argument", ""},
		"deep original":    {dashboardsPath, `{"body":{"title":"d","panels":[{"id":1,"type":"placeholder","grid":{"x":0,"y":0,"w":1,"h":1},"original":` + strings.Repeat(`{"a":`, 26) + "1" + strings.Repeat("}", 26) + `}]}}`, 400, "invalid_argument", "body.panels[0].original"},
		"a long name":      {viewsPath, `{"name":"` + big + `","body":{"page":"logs","state":{}}}`, 400, "invalid_argument", "10240 characters"},
		"no name":          {viewsPath, `{"name":" ","body":{"page":"logs","state":{}}}`, 400, "invalid_argument", "name is empty"},
		"a NUL in a name":  {viewsPath, `{"name":"a\u0000b","body":{"page":"logs","state":{}}}`, 400, "invalid_argument", "control character"},
		"unknown page":     {viewsPath, `{"name":"v","body":{"page":"alerts","state":{}}}`, 400, "invalid_argument", "body.page"},
		"unknown field":    {viewsPath, `{"name":"v","body":{"page":"logs","sate":{}}}`, 400, "invalid_argument", `did you mean "state"?`},
		"a wrong type":     {viewsPath, `{"name":7,"body":{"page":"logs","state":{}}}`, 400, "invalid_argument", `"name" is a number`},
		"a number in it":   {viewsPath, `{"name":"v","body":{"page":"logs","state":{"q":1}}}`, 400, "invalid_argument", "a string or an array of strings"},
		"null in it":       {viewsPath, `{"name":"v","body":{"page":"logs","state":{"q":["a",{}]}}}`, 400, "invalid_argument", "a string or an array of strings"},
		"long parameter":   {viewsPath, `{"name":"v","body":{"page":"logs","state":{"` + big + `":"x"}}}`, 400, "invalid_argument", "body.state"},
		"version 0":        {viewsPath + "/" + v.ID, `{"version":0,"name":"v","body":{"page":"logs","state":{}}}`, 400, "invalid_argument", "version is 0"},
		"an array":         {dashboardsPath, `[]`, 400, "invalid_argument", ""},
		"no title":         {dashboardsPath, `{"body":{"title":"","panels":[]}}`, 400, "invalid_argument", "body.title: it is empty"},
		"a long title":     {dashboardsPath, `{"body":{"title":"` + big + `","panels":[]}}`, 400, "invalid_argument", "body.title"},
		"outside the grid": {dashboardsPath, `{"body":{"title":"d","panels":[{"id":1,"type":"stat","grid":{"x":20,"y":0,"w":8,"h":4}}]}}`, 400, "invalid_argument", "body.panels[0].grid: x 20 and w 8"},
		"no state":         {"/api/v1/links", `{"state":{}}`, 400, "invalid_argument", "state is empty"},
		"a long link":      {"/api/v1/links", `{"state":{"q":"` + strings.Repeat("\\u0001", 11<<10) + `"}}`, 413, "too_large", "state has"},
		"version -1":       {viewsPath + "/" + v.ID + "/restore", `{"version":-1}`, 400, "invalid_argument", "numbered from 1"},
	} {
		method := "POST"
		if strings.HasSuffix(c.path, v.ID) {
			method = "PUT"
		}
		checkProblem(t, name, w.call(method, c.path, root, c.body), c.status, c.code, c.says)
	}
	for _, id := range []string{"x", "018f0000-0000-7000-8000-00000000ffff", "%00", strings.Repeat("a", 10<<10)} {
		w.want(404, "GET", viewsPath+"/"+id, root, nil, nil)
		w.want(404, "GET", dashboardsPath+"/"+id+"/versions", root, nil, nil)
		w.want(404, "GET", "/api/v1/links/"+id, root, nil, nil)
	}
	w.want(415, "POST", viewsPath, root, "a=b", nil, "Content-Type", "application/x-www-form-urlencoded")
}

func TestPreferences(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root := w.root()
	_, viewer := w.member(root, "viewer@example.com", "viewer")
	const path = "/api/v1/preferences"
	var p keptPreferencesView
	if a := w.want(200, "GET", path, viewer, nil, &p); p.Version != 0 || p.Preferences != (preferences{}) || a.header.Get("ETag") != `"0"` {
		t.Errorf("%s", a.body)
	}
	var versions versionsView
	w.want(200, "GET", path+"/versions", viewer, nil, &versions)
	w.want(404, "POST", path+"/restore", viewer, restoreBody{Version: 1}, nil)
	all := preferences{Theme: "dark", Density: "compact", TimeZone: "Europe/Vienna", Clock: "12h", WeekStart: "sunday", SingleKeys: ptr(false), ReducedMotion: "on", Bytes: "binary", DefaultStream: "app", DefaultRange: "1h"}
	w.want(200, "PUT", path, viewer, all, &p, "If-Match", `"0"`)
	if p.Version != 1 || p.Preferences.TimeZone != "Europe/Vienna" || *p.Preferences.SingleKeys {
		t.Errorf("%+v", p)
	}
	w.want(412, "PUT", path, viewer, all, nil, "If-Match", `"0"`)
	p = keptPreferencesView{}
	w.want(200, "PUT", path, viewer, preferences{Theme: "light"}, &p)
	if p.Version != 2 || p.Preferences.Density != "" {
		t.Errorf("what is absent is not the default: %+v", p)
	}
	w.want(200, "GET", path+"/versions", viewer, nil, &versions)
	if len(versions.Versions) != 2 {
		t.Errorf("%+v", versions)
	}
	w.want(200, "POST", path+"/restore", viewer, restoreBody{Version: 1}, &p)
	if p.Version != 3 || p.Preferences.Theme != "dark" {
		t.Errorf("%+v", p)
	}
	w.want(200, "GET", path, root, nil, &p)
	if p.Version != 0 {
		t.Error("somebody else's preferences")
	}
	for name, c := range map[string]struct{ body, says string }{
		"unknown key": {`{"them":"dark"}`, `did you mean "theme"?`},
		"theme":       {`{"theme":"pink"}`, "system, light, dark"},
		"zone":        {`{"time_zone":"Mars/Olympus"}`, "Europe/Vienna"},
		"local":       {`{"time_zone":"Local"}`, "time_zone"},
		"path":        {`{"time_zone":"../../etc/passwd"}`, "time_zone"},
		"type":        {`{"single_keys":"on"}`, "true or false"},
		"long":        {`{"default_stream":"` + strings.Repeat("x", 10<<10) + `"}`, "default_stream"},
	} {
		checkProblem(t, name, w.call(http.MethodPut, path, viewer, c.body), 400, "invalid_argument", c.says)
	}
	if got := w.actions(root)[:3]; !slices.Equal(got, []string{"preferences.restore", "preferences.update", "preferences.update"}) {
		t.Errorf("the audit log: %v", got)
	}
}

func TestLinks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root := w.root()
	_, viewer := w.member(root, "viewer@example.com", "viewer")
	state := pageState{"q": {strings.Repeat("a long statement ", 1000)}, "f": {"a", "b"}, "none": {}}
	var link createdLinkView
	w.want(201, "POST", "/api/v1/links", viewer, linkBody{State: state}, &link)
	var got linkView
	w.want(200, "GET", "/api/v1/links/"+link.ID, root, nil, &got)
	if len(got.State) != 3 || got.State["q"][0] != state["q"][0] || len(got.State["f"]) != 2 || len(got.State["none"]) != 0 {
		t.Errorf("%+v", got)
	}
	again := createdLinkView{}
	w.want(201, "POST", "/api/v1/links", viewer, linkBody{State: state}, &again)
	if again != link {
		t.Error("the same state is two links")
	}
}
