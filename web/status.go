package web

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/internal/auth"
	"github.com/millstream/millstream/ui"
)

// statusPage is what is wrong with the node, in one page. The script asks for it again every few seconds and gets only what changes.
func (p *Pages) statusPage(w http.ResponseWriter, r *http.Request, v *visit) error {
	view, err := p.state(r, v)
	if err != nil {
		return err
	}
	if r.Header.Get("HX-Request") == "true" {
		return p.render(w, r, http.StatusOK, view.Fragment())
	}
	return p.render(w, r, http.StatusOK, view.Page())
}

func (p *Pages) state(r *http.Request, v *visit) (ui.Status, error) {
	families, err := p.Gatherer.Gather()
	if err != nil {
		return ui.Status{}, err
	}
	m := figuresOf(families)
	view := ui.Status{Frame: v.frame, Node: p.Node, Roles: p.Roles, Started: p.Started, Checks: p.Checks(r.Context()), Troubles: m.troubles(), Cards: m.cards()}
	build := ui.Card{Title: "Build", Icon: "server", Figures: []ui.Figure{
		{Label: "Version", Value: p.Version}, {Label: "Go", Value: strings.TrimPrefix(runtime.Version(), "go") + " " + runtime.GOOS + "/" + runtime.GOARCH}, {Label: "Roles", Value: strings.Join(p.Roles, ", ")},
		{Label: "Memory of the process", Value: ui.Size(int64(m.sum("process_resident_memory_bytes"))), Metric: "process_resident_memory_bytes"},
		{Label: "Goroutines", Value: ui.Count(int64(m.sum("go_goroutines"))), Metric: "go_goroutines"},
	}}
	view.Cards = append(view.Cards, build)
	running, warnings, err := p.Queries.Running(r.Context(), v.who)
	if err != nil { // the rest of the page is what one wants to see then
		warnings = []string{millstream.Message(err)}
	}
	view.Unlisted = warnings
	now := p.Now()
	for _, q := range running {
		view.Queries = append(view.Queries, ui.RunningQuery{ID: q.ID, Node: q.Node, User: q.User, Statement: q.Statement, Age: now.Sub(q.Started), Rows: q.ScannedRows, Bytes: q.ScannedBytes})
	}
	return view, nil
}

func (p *Pages) cancelQuery(w http.ResponseWriter, r *http.Request, v *visit) error {
	if err := p.form(w, r); err != nil {
		return err
	}
	if !v.who.May(auth.Query, auth.Viewer) {
		return administers(v)
	}
	if err := p.Queries.CancelQuery(r.Context(), v.who, r.PostForm.Get("id")); err != nil {
		return err
	}
	return p.redirect(w, "/cluster/status")
}

// figures are the node's own metrics by name.
type figures map[string]*dto.MetricFamily

func figuresOf(families []*dto.MetricFamily) figures {
	m := figures{}
	for _, f := range families {
		m[f.GetName()] = f
	}
	return m
}

// sum adds up a metric over the labels, of those that have the given label values.
func (m figures) sum(name string, labels ...string) (total float64) {
	for _, s := range m[name].GetMetric() {
		if has(s, labels) {
			total += s.GetCounter().GetValue() + s.GetGauge().GetValue() + s.GetUntyped().GetValue() + float64(s.GetHistogram().GetSampleCount())
		}
	}
	return total
}

// has says whether a sample has the label values, given as name, value, name, value.
func has(s *dto.Metric, labels []string) bool {
next:
	for i := 0; i+1 < len(labels); i += 2 {
		for _, l := range s.GetLabel() {
			if l.GetName() == labels[i] && l.GetValue() == labels[i+1] {
				continue next
			}
		}
		return false
	}
	return true
}

// quantile is an upper bound of a quantile of a histogram since the node started; ok is false when nothing was observed.
func (m figures) quantile(name string, q float64) (bound time.Duration, ok bool) {
	counts := map[float64]uint64{}
	var bounds []float64
	var total uint64
	for _, s := range m[name].GetMetric() {
		h := s.GetHistogram()
		total += h.GetSampleCount()
		for _, b := range h.GetBucket() {
			if _, seen := counts[b.GetUpperBound()]; !seen {
				bounds = append(bounds, b.GetUpperBound())
			}
			counts[b.GetUpperBound()] += b.GetCumulativeCount()
		}
	}
	if total == 0 {
		return 0, false
	}
	for _, b := range bounds { // in rising order, as Gather gives them
		if float64(counts[b]) >= q*float64(total) {
			return time.Duration(b * float64(time.Second)), true
		}
	}
	return time.Duration(bounds[len(bounds)-1] * float64(time.Second)), true
}

// troubles is what the metrics say is wrong now.
func (m figures) troubles() (out []string) {
	for _, t := range []struct {
		metric, text string
	}{
		{"millstream_ingest_fenced", "another process runs with this node's id: this one takes no writes until it is restarted with an id of its own"},
		{"millstream_wal_failures_total", "the write-ahead log failed since the node started: look at its disk and the node's log"},
		{"millstream_wal_damaged_total", "damaged write-ahead log files were put aside: see the quarantine directory and docs/operate.md"},
	} {
		if m.sum(t.metric) > 0 {
			out = append(out, t.text)
		}
	}
	if m["millstream_postgres_up"] != nil && m.sum("millstream_postgres_up") == 0 {
		out = append(out, "the node's own PostgreSQL is down and being restarted")
	}
	return out
}

// cards are the node's parts. Totals count since the node started.
func (m figures) cards() []ui.Card {
	total := func(label, metric string) ui.Figure {
		return ui.Figure{Label: label, Value: ui.Count(int64(m.sum(metric))), Metric: metric}
	}
	failures := func(label, metric string) ui.Figure {
		f := total(label, metric)
		f.Bad = m.sum(metric) > 0
		return f
	}
	bytes := func(label, metric string) ui.Figure {
		return ui.Figure{Label: label, Value: ui.Size(int64(m.sum(metric))), Metric: metric}
	}
	within := func(label, metric string, q float64) ui.Figure {
		f := ui.Figure{Label: label, Value: "–", Metric: fmt.Sprintf("histogram_quantile(%g, sum by (le) (rate(%s_bucket[5m])))", q, metric)}
		if d, ok := m.quantile(metric, q); ok {
			f.Value = "≤ " + d.String()
		}
		return f
	}
	hits, misses := m.sum("millstream_cache_hits_total"), m.sum("millstream_cache_misses_total")
	share := "–"
	if hits+misses > 0 {
		share = fmt.Sprintf("%.1f%%", 100*hits/(hits+misses))
	}
	const since = "Counts and quantiles since the node started; a name leads to its course."
	return []ui.Card{
		{Title: "Write path", Icon: "log-in", Note: since, Figures: []ui.Figure{
			total("Records taken", "millstream_ingest_rows_total"), within("99% of log commits", "millstream_wal_commit_seconds", .99), bytes("Write-ahead log on disk", "millstream_wal_disk_bytes"),
			bytes("Buffers in memory", "millstream_ingest_buffer_memory_bytes"), within("95% of flushes", "millstream_ingest_flush_seconds", .95), failures("Failed writes", "millstream_ingest_failed_writes_total"),
		}},
		{Title: "Query path", Icon: "search", Figures: []ui.Figure{
			total("Requests", "millstream_api_requests_total"), within("95% of requests", "millstream_api_request_seconds", .95), total("Rows read", "millstream_query_scanned_rows_total"), bytes("Bytes read", "millstream_query_scanned_bytes_total"),
			failures("Partial answers", "millstream_query_partial_total"), failures("Panics", "millstream_api_panics_total"),
		}},
		{Title: "Object store", Icon: "cloud", Figures: []ui.Figure{
			total("Uploads", "millstream_ingest_uploads_total"), failures("Failed uploads", "millstream_ingest_upload_failures_total"), failures("Failed flushes", "millstream_ingest_flush_failures_total"),
		}},
		{Title: "Cache", Icon: "hard-drive", Figures: []ui.Figure{
			{Label: "Hits", Value: share, Metric: "millstream_cache_hits_total"}, bytes("On disk", "millstream_cache_size_bytes"), bytes("Fetched", "millstream_cache_fetched_bytes_total"), total("Evictions", "millstream_cache_evictions_total"),
			failures("Damaged files", "millstream_cache_damaged_total"),
		}},
		{Title: "PostgreSQL", Icon: "database", Figures: []ui.Figure{
			{Label: "Own server", Value: m.ownServer()}, total("Restarts of it", "millstream_postgres_restarts_total"),
		}},
		{Title: "SQL engine", Icon: "terminal", Figures: []ui.Figure{
			total("Processes", "millstream_engine_children"), total("Statements", "millstream_query_sql_engine_total"), within("95% of its jobs", "millstream_engine_job_seconds", .95),
		}},
	}
}

func (m figures) ownServer() string {
	switch {
	case m["millstream_postgres_up"] == nil:
		return "none: an external one is used"
	case m.sum("millstream_postgres_up") > 0:
		return "up"
	}
	return "down"
}
