package api

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"unicode"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/dashboard"
	"github.com/millstream/millstream/dashboard/grafana"
	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/store"
)

type dashboardBody struct {
	Shared  bool                `json:"shared,omitempty" doc:"seen by the whole organization and changed by its editors"`
	Version *int64              `json:"version,omitempty" doc:"the version that is replaced, if not by If-Match; not when creating"`
	Body    dashboard.Dashboard `json:"body"`
}

type dashboardView struct {
	documentHead
	Body dashboard.Dashboard `json:"body"`
}

type dashboardSummary struct {
	Description string   `json:"description,omitempty"`
	Tags        []string `json:"tags,omitempty"`
	Folder      string   `json:"folder,omitempty"`
	Panels      int      `json:"panels"`
}

type listedDashboardView struct {
	documentHead
	Summary dashboardSummary `json:"summary"`
}

type dashboardsView struct {
	Dashboards []listedDashboardView `json:"dashboards"`
}

// importView says what became of an import, and what is or would be stored.
type importView struct {
	Report    grafana.Report      `json:"report"`
	Dashboard dashboard.Dashboard `json:"dashboard"`
	ID        string              `json:"id,omitempty" doc:"of the new dashboard; absent in a dry run"`
	Version   int64               `json:"version,omitempty"`
}

// exportBody is a dashboard in a file of our own.
type exportBody struct {
	Format    string              `json:"format" doc:"millstream.dashboard/1"`
	Dashboard dashboard.Dashboard `json:"dashboard"`
}

const exportFormat = "millstream.dashboard/1"

func (a *API) dashboardRoutes() []route {
	const path = v1 + "/dashboards"
	return append(a.documentRoutes(noun{
		kind: store.Dashboard, path: path, list: "dashboards", least: auth.Editor, read: readDashboard,
		body: dashboardBody{}, one: dashboardView{}, many: dashboardsView{},
	}),
		route{method: "POST", path: path + "/import", policy: need(auth.Administer, auth.Editor).audited("dashboard.import"), handle: a.importDashboard,
			doc: operation{summary: "Convert a dashboard of Grafana, or take in an exported one, and store it", body: map[string]any{}, reply: importView{}, status: http.StatusCreated, query: []param{
				{"dry_run", "boolean", "only report (200)"}, {"shared", "boolean", "share the new dashboard"}}}},
		route{method: "GET", path: path + "/{id}/export", policy: need(auth.Query, auth.Viewer), handle: a.exportDashboard,
			doc: operation{summary: "The dashboard as a file", reply: map[string]any{}, query: []param{{"format", "string", "millstream (the default) or grafana"}}}},
	)
}

func readDashboard(r *http.Request) (draft, error) {
	var in dashboardBody
	if err := read(r, &in); err != nil {
		return draft{}, err
	}
	if err := in.Body.Validate("body"); err != nil {
		return draft{}, err
	}
	return dashboardDraft(&in.Body, in.Shared, in.Version)
}

func dashboardDraft(d *dashboard.Dashboard, shared bool, version *int64) (draft, error) {
	return draftOf(d.Title, shared, version, dashboardSummary{d.Description, d.Tags, d.Folder, len(d.Panels)}, d)
}

// maxImport is the size of a dashboard that is imported, which is often written with much space. What it becomes is held to the limit of documents.
const maxImport = 4 << 20

func (a *API) importDashboard(w http.ResponseWriter, r *http.Request) error {
	var text json.RawMessage
	if err := readUpTo(maxImport, r, &text); err != nil {
		return err
	}
	dry, err := queryBool(r, "dry_run")
	if err != nil {
		return err
	}
	shared, err := queryBool(r, "shared")
	if err != nil {
		return err
	}
	d, report, err := converted(text)
	if err != nil {
		return err
	}
	in, err := dashboardDraft(d, shared, nil)
	if err != nil {
		return err
	}
	view := importView{Report: *report, Dashboard: *d}
	if dry {
		if len(in.Body) > store.MaxBody {
			return millstream.Errorf(millstream.TooLarge, "the dashboard has %d bytes, more than %d", len(in.Body), store.MaxBody)
		}
		callOf(r).audited = true // nothing was changed
		return reply(w, http.StatusOK, view)
	}
	made, err := a.Documents.CreateDocument(r.Context(), authorOf(r), store.Dashboard, in.Draft, entryOf(r, ""))
	if err != nil {
		return err
	}
	view.ID, view.Version = made.ID, made.Version
	w.Header().Set("ETag", etag(made.Version))
	w.Header().Set("Location", strings.TrimSuffix(a.BasePath, "/")+v1+"/dashboards/"+made.ID)
	return reply(w, http.StatusCreated, view)
}

// converted takes in a file of our own or of Grafana.
func converted(text json.RawMessage) (*dashboard.Dashboard, *grafana.Report, error) {
	var head struct{ Format string }
	if err := json.Unmarshal(text, &head); err != nil || head.Format != exportFormat {
		return grafana.Import(text)
	}
	var own exportBody
	if err := unmarshal(text, &own); err != nil {
		return nil, nil, err
	}
	if err := own.Dashboard.Validate("dashboard"); err != nil {
		return nil, nil, err
	}
	return &own.Dashboard, grafana.NewReport(&own.Dashboard), nil
}

func (a *API) exportDashboard(w http.ResponseWriter, r *http.Request) error {
	format := r.URL.Query().Get("format")
	if format != "" && format != "millstream" && format != "grafana" {
		return millstream.Errorf(millstream.Invalid, "format is %q, it must be millstream or grafana", format)
	}
	doc, err := a.document(r, store.Dashboard)
	if err != nil {
		return err
	}
	var d dashboard.Dashboard
	if err := json.Unmarshal(doc.Body, &d); err != nil {
		return fmt.Errorf("read dashboard %s: %w", doc.ID, err)
	}
	var out any = exportBody{exportFormat, d}
	if format == "grafana" {
		if out, err = grafana.Export(&d); err != nil {
			return err
		}
	}
	w.Header().Set("Content-Disposition", `attachment; filename="`+fileName(d.Title, "dashboard")+`.json"`)
	return reply(w, http.StatusOK, out)
}

// fileName makes a title harmless as the name of a file, without extension; absent is the name where nothing is left of it.
func fileName(title, absent string) string {
	name := strings.Map(func(c rune) rune {
		if c < 0x80 && (unicode.IsLetter(c) || unicode.IsDigit(c) || c == '-' || c == '_') {
			return c
		}
		return '-'
	}, title)
	return cmp.Or(strings.Trim(name[:min(len(name), maxFileName)], "-"), absent)
}

// maxFileName is the length of a file's name before its extension.
const maxFileName = 100
