package grafana_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/dashboard"
	"github.com/millstream/millstream/dashboard/grafana"
)

var update = flag.Bool("update", false, "rewrite what is expected, and the generated dashboard")

func load(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func imported(t testing.TB, text []byte) (*dashboard.Dashboard, *grafana.Report) {
	t.Helper()
	d, r, err := grafana.Import(text)
	if err != nil {
		t.Fatal(err)
	}
	return d, r
}

// What each dashboard becomes, and what is said about it, stands in testdata/*.golden.
func TestImport(t *testing.T) {
	if *update {
		if err := os.WriteFile("testdata/node.json", nodeExporter(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"modern", "rows", "node"} {
		d, r := imported(t, load(t, name))
		var got bytes.Buffer
		enc := json.NewEncoder(&got)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", " ")
		if err := enc.Encode(map[string]any{"dashboard": d, "report": r}); err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("testdata", name+".golden")
		if *update {
			if err := os.WriteFile(golden, got.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%s differs from %s: look at it and run with -update", name, golden)
		}
	}
}

func TestImportOfTodaysSchema(t *testing.T) {
	d, r := imported(t, load(t, "modern"))
	states := map[string]grafana.State{}
	panels := map[string]dashboard.Panel{}
	for i, p := range d.Panels {
		states[p.Title], panels[p.Title] = r.Panels[i].State, p
	}
	for title, want := range map[string]grafana.State{
		"Overview": grafana.Converted, "Requests": grafana.Converted, "Availability": grafana.Changed, "Memory": grafana.Converted, "Endpoints": grafana.Changed, "Durations": grafana.Converted,
		"Up": grafana.Converted, "History": grafana.Changed, "Errors": grafana.Kept, "Share": grafana.Kept, "Mixed": grafana.Changed, "Per pod": grafana.Changed, "More": grafana.Kept, "From the library": grafana.Kept,
	} {
		if states[title] != want {
			t.Errorf("%s is %s, want %s", title, states[title], want)
		}
	}
	p := panels["Requests"]
	if q := p.Targets[0]; q.Statement != `sum by (code) (rate(http_requests_total{namespace=~"$namespace", job="shop "eu""}[$__rate_interval]))` || q.Legend != "{{code}}" || q.Step != "$resolution" || q.Instant || q.Hidden {
		t.Errorf("%+v", q)
	}
	if q := p.Targets[1]; q.Legend != "" || !q.Instant || !q.Hidden {
		t.Errorf("%+v", q)
	}
	if o := p.Options; o.Unit != "reqps" || *o.Decimals != 1 || *o.Min != 0 || o.Max != nil || o.Stack != "normal" || o.Log != 10 || o.Nulls != "connect" || o.Fill != 15 || o.Line != 2 ||
		o.Legend.Placement != "right" || len(o.Legend.Calcs) != 3 || o.Thresholds[0].Value != nil || o.Thresholds[1].Color != "orange" || o.Thresholds[2].Color != "#f53636" {
		t.Errorf("%+v", o)
	}
	if o := panels["Availability"].Options; o.ThresholdMode != "percentage" || o.Calc != "mean" || !o.Sparkline || len(o.Mappings) != 3 || o.Mappings[2].Color != "red" {
		t.Errorf("%+v", o)
	}
	if q := panels["Up"].Targets[0]; q.Statement != `up{job="${job}"}` || q.Legend != "${job} {{instance}}" {
		t.Errorf("%+v", q)
	}
	if g := panels["Per pod"].Grid; g.X+g.W > dashboard.Columns || g.Y != 42 {
		t.Errorf("below the collapsed row, which has 14 rows: %+v", g)
	}
	if !strings.Contains(string(panels["Share"].Original), `"big":12345678901234567890`) || !strings.Contains(string(panels["Share"].Original), `<b>&</b>`) {
		t.Errorf("the original was changed: %s", panels["Share"].Original)
	}
	vars := map[string]dashboard.Variable{}
	for _, v := range d.Variables {
		vars[v.Name] = v
	}
	if v := vars["namespace"]; v.Query != "label_values(http_requests_total, namespace)" || v.Regex != "^(shop.*)$" || !v.Multi || !v.IncludeAll || v.AllValue != ".+" || v.Default[0] != dashboard.All {
		t.Errorf("%+v", v)
	}
	if v := vars["region"]; !reflect.DeepEqual(v.Options, []string{"eu", "us", "a,b"}) {
		t.Errorf("%+v", v)
	}
	if v := vars["resolution"]; v.Options[0] != "$__interval" || v.Default[0] != "$__interval" {
		t.Errorf("%+v", v)
	}
	if v := vars["job"]; v.Options[0] != `shop "eu"` || !v.Hidden {
		t.Errorf("%+v", v)
	}
	if v := vars["team"]; v.Type != dashboard.Custom || !reflect.DeepEqual(v.Options, []string{"red", "blue"}) {
		t.Errorf("%+v", v)
	}
	if len(vars) != 8 || len(r.Variables) != 11 {
		t.Errorf("%d variables of %d", len(vars), len(r.Variables))
	}
}

func TestImportOfRows(t *testing.T) {
	d, r := imported(t, load(t, "rows"))
	at := map[string]dashboard.Grid{}
	panels := map[string]dashboard.Panel{}
	for _, p := range d.Panels {
		at[p.Title], panels[p.Title] = p.Grid, p
	}
	for title, want := range map[string]dashboard.Grid{
		"Load": {X: 0, Y: 1, W: 12, H: 6}, "Up": {X: 12, Y: 1, W: 6, H: 6}, "Disk": {X: 18, Y: 1, W: 6, H: 6}, "Below": {X: 0, Y: 7, W: 24, H: 11},
		"Details": {X: 0, Y: 18, W: 24, H: 1}, "Hosts": {X: 0, Y: 19, W: 24, H: 7}, "Notes": {X: 0, Y: 26, W: 24, H: 7}, "Other": {X: 0, Y: 33, W: 24, H: 1}, "Influx": {X: 0, Y: 34, W: 24, H: 7},
	} {
		if at[title] != want {
			t.Errorf("%s is at %+v, want %+v", title, at[title], want)
		}
	}
	if o := panels["Load"].Options; o.Unit != "short" || o.Log != 2 || *o.Min != 0 || o.Stack != "percent" || o.Nulls != "zero" || o.Fill != 20 || o.Line != 3 || o.Legend.Placement != "right" ||
		!reflect.DeepEqual(o.Legend.Calcs, []string{"mean", "last"}) || len(o.Thresholds) != 2 || o.Thresholds[1].Color != "red" || *o.Thresholds[1].Value != 4 {
		t.Errorf("%+v", o)
	}
	if len(panels["Load"].Targets) != 1 {
		t.Errorf("an empty query counts: %+v", panels["Load"].Targets)
	}
	if p := panels["Up"]; p.Type != dashboard.Stat || !p.Options.Sparkline || len(p.Options.Thresholds) != 3 || p.Options.Thresholds[1].Color != "#e0b400" || *p.Options.Thresholds[2].Value != 80 || p.Options.Mappings[0].Text != "N/A" {
		t.Errorf("%+v", p)
	}
	if p := panels["Disk"]; p.Type != dashboard.Gauge || *p.Options.Max != 100 || p.Options.Calc != "delta" || *p.Options.Mappings[0].To != 10 {
		t.Errorf("%+v", p)
	}
	if p := panels["Influx"]; p.Type != dashboard.Placeholder || !strings.Contains(string(p.Original), "SELECT mean(x)") {
		t.Errorf("%+v", p)
	}
	if d.Refresh != "" || d.Tags[0] != "legacy" || r.Variables[0].State != grafana.Converted {
		t.Errorf("%+v %+v", d, r.Variables)
	}
}

// What was exported is imported as the same dashboard, placeholders and collapsed rows included.
func TestExportIsImportedAgain(t *testing.T) {
	for _, name := range []string{"modern", "rows", "node"} {
		d, _ := imported(t, load(t, name))
		text, err := grafana.Export(d)
		if err != nil {
			t.Fatal(err)
		}
		again, _ := imported(t, text)
		for i := range d.Panels {
			if !reflect.DeepEqual(d.Panels[i], again.Panels[i]) && d.Panels[i].Type != dashboard.Placeholder {
				t.Errorf("%s: panel %q\n was %+v\n and is %+v", name, d.Panels[i].Title, d.Panels[i], again.Panels[i])
			}
			if d.Panels[i].Grid != again.Panels[i].Grid || d.Panels[i].Type != again.Panels[i].Type {
				t.Errorf("%s: panel %q moved or changed its type", name, d.Panels[i].Title)
			}
		}
		if !reflect.DeepEqual(d.Variables, again.Variables) {
			t.Errorf("%s: variables\n were %+v\n and are %+v", name, d.Variables, again.Variables)
		}
	}
}

// A placeholder gives back everything it was imported from.
func TestExportGivesOriginalsBack(t *testing.T) {
	d, _ := imported(t, load(t, "modern"))
	text, err := grafana.Export(d)
	if err != nil {
		t.Fatal(err)
	}
	var out struct {
		Panels []struct {
			Title  string
			Panels []map[string]any
		}
	}
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	for _, p := range out.Panels {
		if p.Title != "Elsewhere" {
			continue
		}
		if len(p.Panels) != 3 || p.Panels[0]["type"] != "logs" || p.Panels[1]["type"] != "piechart" || p.Panels[1]["html"] != "<b>&</b>" || p.Panels[0]["gridPos"].(map[string]any)["y"] != 27.0 {
			t.Errorf("%+v", p.Panels)
		}
		return
	}
	t.Error("the collapsed row is gone")
}

// Panels that Grafana has no language for become texts.
func TestExportOfOtherLanguages(t *testing.T) {
	d := &dashboard.Dashboard{Title: "t", Variables: []dashboard.Variable{{Name: "s", Type: dashboard.Stream, Query: "logs", Default: []string{"app"}}}, Panels: []dashboard.Panel{
		{ID: 1, Title: "sql", Type: dashboard.Table, Grid: dashboard.Grid{W: 12, H: 8}, Targets: []dashboard.Target{{Ref: "A", Language: dashboard.SQL, Statement: "SELECT 1"}}},
		{ID: 2, Title: "traces", Type: dashboard.Traces, Grid: dashboard.Grid{X: 12, W: 12, H: 8}},
	}}
	text, err := grafana.Export(d)
	if err != nil {
		t.Fatal(err)
	}
	again, r := imported(t, text)
	if again.Panels[0].Type != dashboard.Text || !strings.Contains(again.Panels[0].Options.Content, "A sql: SELECT 1") || again.Panels[1].Type != dashboard.Text || len(r.DataSources) != 0 || again.Variables[0].Options[0] != "app" {
		t.Errorf("%s", text)
	}
	if strings.Contains(string(text), "DS_PROMETHEUS") {
		t.Error("an input that nothing uses")
	}
}

func TestImportRefuses(t *testing.T) {
	many := `{"panels":[` + strings.TrimSuffix(strings.Repeat(`{},`, 501), ",") + `]}`
	constants := `{"__inputs":[{"type":"constant","name":"X","value":"` + strings.Repeat("x", 100_000) + `"}],"panels":[],"t":"` + strings.Repeat("${X}", 1000) + `"}`
	for name, c := range map[string]struct {
		text string
		kind millstream.Kind
		says string
	}{
		"no JSON":      {`{"panels":`, millstream.Invalid, "not a JSON object"},
		"an array":     {`[]`, millstream.Invalid, "not a JSON object"},
		"something":    {`{"title":"x"}`, millstream.Invalid, "neither panels nor rows"},
		"schema v2":    {`{"apiVersion":"dashboard.grafana.app/v2beta1","spec":{"elements":{},"layout":{}}}`, millstream.Invalid, "schema v2"},
		"501 panels":   {many, millstream.Invalid, "more than 500 panels"},
		"51 variables": {`{"panels":[],"templating":{"list":[` + strings.TrimSuffix(strings.Repeat(`{},`, 51), ",") + `]}}`, millstream.Invalid, "51 variables"},
		"101 inputs":   {`{"panels":[],"__inputs":[` + strings.TrimSuffix(strings.Repeat(`{"type":"constant","name":"x"},`, 101), ",") + `]}`, millstream.Invalid, "101 inputs, more than 100"},
		"constants":    {constants, millstream.TooLarge, "constants"},
		"broken by it": {`{"__inputs":[{"type":"constant","name":"X","value":"\\u00zz"}],"panels":[],"t":"${X}","u":"\\${X}"}`, 255, ""},
	} {
		_, _, err := grafana.Import([]byte(c.text))
		if c.kind == 255 { // anything but a crash
			continue
		}
		if millstream.KindOf(err) != c.kind || !strings.Contains(millstream.Message(err), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Whatever is where something else is expected, an import gives a dashboard that passes the check, or says why not.
func TestImportOfDamagedDashboards(t *testing.T) {
	seed := uint64(1)
	rng := rand.New(rand.NewPCG(seed, seed))
	junk := []any{nil, true, "", "x\x00\x01", strings.Repeat("long ", 5000), -1.0, 1e300, 3.5, []any{}, []any{nil, "a", 7.0}, map[string]any{}, map[string]any{"type": 7.0}, "$__all", "${x:y}", "🙂"}
	var damage func(v any) any
	damage = func(v any) any {
		if rng.IntN(40) == 0 {
			return junk[rng.IntN(len(junk))]
		}
		switch v := v.(type) {
		case map[string]any:
			for k, e := range v {
				v[k] = damage(e)
			}
		case []any:
			for i, e := range v {
				v[i] = damage(e)
			}
		}
		return v
	}
	converted := 0
	for range 100 {
		for _, name := range []string{"modern", "rows"} {
			var v any
			if err := json.Unmarshal(load(t, name), &v); err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(damage(v))
			if err != nil {
				t.Fatal(err)
			}
			d, r, err := grafana.Import(text)
			if err != nil {
				if millstream.KindOf(err) != millstream.Invalid {
					t.Fatalf("seed %d: %v", seed, err)
				}
				continue
			}
			converted++
			if err := d.Validate(""); err != nil || len(r.Panels) != len(d.Panels) {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if _, err := grafana.Export(d); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
	}
	if converted < 100 {
		t.Errorf("only %d of 200 damaged dashboards were converted", converted)
	}
}

// nodeExporter makes a dashboard such as those that people have for their machines: a row of numbers, and rows of graphs that are collapsed.
func nodeExporter() []byte {
	ds := map[string]any{"type": "prometheus", "uid": "${datasource}"}
	id, y := 0, 0
	panel := func(kind, title, unit string, x, y, w, h int, exprs ...string) map[string]any {
		id++
		var targets []any
		for i, e := range exprs {
			name, expr, _ := strings.Cut(e, " = ")
			targets = append(targets, map[string]any{"refId": string(rune('A' + i)), "datasource": ds, "editorMode": "code", "expr": expr, "legendFormat": name, "range": true, "instant": kind != "timeseries", "step": 240})
		}
		return map[string]any{
			"id": id, "type": kind, "title": title, "description": title + " of $node", "datasource": ds, "gridPos": map[string]any{"x": x, "y": y, "w": w, "h": h}, "targets": targets, "pluginVersion": "11.2.0",
			"fieldConfig": map[string]any{"overrides": []any{}, "defaults": map[string]any{"unit": unit, "min": 0, "color": map[string]any{"mode": "palette-classic"},
				"custom":     map[string]any{"drawStyle": "line", "fillOpacity": 20, "lineWidth": 1, "stacking": map[string]any{"mode": "none", "group": "A"}},
				"thresholds": map[string]any{"mode": "absolute", "steps": []any{map[string]any{"color": "green", "value": nil}, map[string]any{"color": "semi-dark-orange", "value": 70}, map[string]any{"color": "red", "value": 90}}}}},
			"options": map[string]any{"legend": map[string]any{"showLegend": true, "displayMode": "list", "placement": "bottom", "calcs": []any{"min", "max", "mean", "lastNotNull"}}, "reduceOptions": map[string]any{"calcs": []any{"lastNotNull"}}, "graphMode": "none"},
		}
	}
	row := func(title string, collapsed bool, panels []any) map[string]any {
		id++
		return map[string]any{"id": id, "type": "row", "title": title, "collapsed": collapsed, "gridPos": map[string]any{"x": 0, "y": y, "w": 24, "h": 1}, "panels": panels}
	}
	const node = `{instance="$node",job="$job"}`
	all := []any{row("Quick look", false, []any{})}
	y++
	for i, q := range []string{"CPU busy|percent|100 * (1 - avg(rate(node_cpu_seconds_total{mode=\"idle\",instance=\"$node\"}[$__rate_interval])))", "Load|percent|100 * node_load1" + node + " / count(node_cpu_seconds_total{mode=\"idle\",instance=\"$node\"})",
		"Memory used|percent|100 * (1 - node_memory_MemAvailable_bytes" + node + " / node_memory_MemTotal_bytes" + node + ")", "Swap used|percent|100 * (1 - node_memory_SwapFree_bytes" + node + " / node_memory_SwapTotal_bytes" + node + ")",
		"Root used|percent|100 - 100 * node_filesystem_avail_bytes{mountpoint=\"/\",instance=\"$node\"} / node_filesystem_size_bytes{mountpoint=\"/\",instance=\"$node\"}", "Uptime|s|node_time_seconds" + node + " - node_boot_time_seconds" + node} {
		f := strings.Split(q, "|")
		kind := "gauge"
		if f[1] == "s" {
			kind = "stat"
		}
		all = append(all, panel(kind, f[0], f[1], 4*i, y, 4, 4, " = "+f[2]))
	}
	y += 4
	for _, group := range []struct{ title, unit, metrics string }{
		{"CPU and memory", "bytes", "node_memory_Active_bytes node_memory_Buffers_bytes node_memory_Cached_bytes node_memory_Dirty_bytes node_memory_Mapped_bytes node_memory_Slab_bytes"},
		{"Disks", "Bps", "node_disk_read_bytes_total node_disk_written_bytes_total node_disk_io_time_seconds_total node_disk_reads_completed_total node_disk_writes_completed_total node_disk_io_now"},
		{"Network", "bps", "node_network_receive_bytes_total node_network_transmit_bytes_total node_network_receive_errs_total node_network_transmit_errs_total node_network_receive_drop_total node_network_transmit_drop_total"},
		{"Sockets", "short", "node_sockstat_TCP_alloc node_sockstat_TCP_inuse node_sockstat_TCP_tw node_sockstat_UDP_inuse node_netstat_Tcp_CurrEstab node_netstat_Tcp_RetransSegs"},
		{"System", "short", "node_context_switches_total node_forks_total node_intr_total node_procs_running node_procs_blocked node_entropy_available_bits"},
	} {
		var nested []any
		head := row(group.title, true, nil)
		for i, metric := range strings.Fields(group.metrics) {
			expr := metric + node
			if strings.HasSuffix(metric, "_total") {
				expr = "rate(" + expr + "[$__rate_interval])"
			}
			nested = append(nested, panel("timeseries", strings.ReplaceAll(strings.TrimPrefix(metric, "node_"), "_", " "), group.unit, 12*(i%2), y+1+10*(i/2), 12, 10, fmt.Sprintf("{{device}} %s = %s", metric, expr), "mean = avg("+expr+")"))
		}
		head["panels"] = nested
		all = append(all, head)
		y++
	}
	query := func(name, text string) map[string]any {
		return map[string]any{"name": name, "type": "query", "datasource": ds, "definition": text, "query": map[string]any{"query": text, "refId": "A"}, "refresh": 1, "sort": 1, "current": map[string]any{}}
	}
	text, err := json.MarshalIndent(map[string]any{
		"title": "Machines", "uid": "machines", "schemaVersion": 39, "refresh": "1m", "tags": []any{"linux"}, "time": map[string]any{"from": "now-24h", "to": "now"}, "panels": all,
		"templating": map[string]any{"list": []any{
			map[string]any{"name": "datasource", "type": "datasource", "query": "prometheus", "current": map[string]any{}},
			query("job", "label_values(node_uname_info, job)"), query("node", `label_values(node_uname_info{job="$job"}, instance)`),
		}},
	}, "", " ")
	if err != nil {
		panic(err)
	}
	return text
}

func TestImportOfManyPanels(t *testing.T) {
	if !bytes.Equal(nodeExporter(), load(t, "node")) {
		t.Error("testdata/node.json is not what the generator makes: run with -update")
	}
	d, r := imported(t, load(t, "node"))
	if len(d.Panels) != 42 {
		t.Errorf("%d panels", len(d.Panels))
	}
	last := -1
	for i, p := range d.Panels {
		if r.Panels[i].State != grafana.Converted {
			t.Errorf("%s: %v", p.Title, r.Panels[i].Notes)
		}
		if p.Type == dashboard.Row {
			if p.Grid.Y <= last {
				t.Errorf("row %s at %d overlaps what is above, down to %d", p.Title, p.Grid.Y, last)
			}
		}
		last = max(last, p.Grid.Y+p.Grid.H-1)
	}
}
