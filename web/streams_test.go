package web

import (
	"context"
	"fmt"
	"html"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest"
	"github.com/millstream/millstream/internal/auth"
)

func (w *world) stream(sig millstream.Signal, name string, fields ...millstream.Field) millstream.StreamID {
	w.t.Helper()
	s, err := w.store.EnsureStream(context.Background(), millstream.StreamKey{Org: w.org(), Signal: sig, Name: name})
	must(w.t, err)
	_, err = w.store.MergeFields(context.Background(), s.ID, fields)
	must(w.t, err)
	return s.ID
}

func TestStreamList(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	r := w.reader().signIn()
	if a := r.get("/shop/streams"); !strings.Contains(a.body, "No data yet") || !strings.Contains(a.body, `href="/shop/send"`) {
		t.Error("an empty organization is not led to sending")
	}
	for i := range pageRows + 5 {
		w.stream(millstream.Logs, fmt.Sprintf("s%03d", i))
	}
	w.stream(millstream.Traces, "S007-traces")
	body := r.get("/shop/streams").body
	if n := strings.Count(body, `<th scope="row">`); n != pageRows || !strings.Contains(body, "206 streams, page 1 of 2") {
		t.Errorf("%d lines on the first page", n)
	}
	if n := strings.Count(body, `<span class="muted">not flushed yet</span>`); n != pageRows {
		t.Errorf("%d lines say that nothing is flushed yet", n)
	}
	next := regexp.MustCompile(`rel="next" href="([^"]*)"`).FindStringSubmatch(body)
	if body := r.get(html.UnescapeString(next[1])).body; strings.Count(body, `<th scope="row">`) != 6 {
		t.Error("the second page is not right")
	}
	fragment := r.get("/shop/streams?q=S007", "HX-Request", "true").body
	if strings.Contains(fragment, "<html") || strings.Count(fragment, `<th scope="row">`) != 2 {
		t.Errorf("filtered by name: %s", fragment)
	}
	if body := r.get("/shop/streams?q=s007&signal=traces").body; strings.Count(body, `<th scope="row">`) != 1 {
		t.Error("filtered by signal")
	}
	for _, odd := range []string{"?page=99", "?page=-1", "?page=x", "?sort=nothing", "?signal=nothing", "?q=" + url.QueryEscape(`"><script>alert(1)</script>`)} {
		if a := r.get("/shop/streams" + odd); a.code != 200 || strings.Contains(a.body, "<script>alert") {
			t.Errorf("%s: %d", odd, a.code)
		}
	}
}

func TestStreamPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	r := w.reader().signIn()
	fields := []millstream.Field{{Name: "<b>odd</b>", Type: millstream.Int64, Seen: []millstream.Type{millstream.Int64}}, {Name: "code", Type: millstream.String, Conflict: true, Seen: []millstream.Type{millstream.Int64, millstream.String}}}
	for i := range 1500 {
		fields = append(fields, millstream.Field{Name: fmt.Sprintf("f%04d", i), Type: millstream.Double, Seen: []millstream.Type{millstream.Double}})
	}
	w.stream(millstream.Logs, "app", fields...)
	const path = "/shop/streams/logs/app"
	a := r.get(path)
	if a.code != 200 || !strings.Contains(a.body, "&lt;b&gt;odd") || strings.Count(a.body, `<th scope="row">`) != pageRows || !strings.Contains(a.body, "1,502 fields, page 1 of 8") {
		t.Errorf("%d", a.code)
	}
	if body := r.get(path + "?conflicts=1").body; strings.Count(body, `<th scope="row">`) != 1 || !strings.Contains(body, "int64 and string") {
		t.Error("the widened field is not shown with what it came as")
	}
	if a := r.get(path + "?tab=segments"); !strings.Contains(a.body, "Nothing is flushed yet") {
		t.Error("no segments")
	}
	for _, missing := range []string{"/shop/streams/logs/none", "/shop/streams/nothing/app", "/shop/streams/logs/%2e%2e"} {
		if a := r.get(missing); a.code != 404 {
			t.Errorf("%s: %d", missing, a.code)
		}
	}
	// Settings: what is wrong is said, and what was right before stays.
	settings := path + "?tab=settings"
	for name, typed := range map[string][]string{"no number": {"retention_days", "soon", "max_fields", "0"}, "too long": {"retention_days", "999999", "max_fields", "0"}, "negative": {"retention_days", "1", "max_fields", "-1"}} {
		if a := r.send(settings, path, typed...); a.code != 400 || a.alert() == "" {
			t.Errorf("%s: %d", name, a.code)
		}
	}
	if a := r.send(settings, path, "retention_days", "7", "max_fields", "0", "indexed", "user_id\r\n\r\n trace.id "); a.code != 303 {
		t.Fatalf("%d %s", a.code, a.alert())
	}
	s, err := w.store.Stream(context.Background(), millstream.StreamKey{Org: w.org(), Signal: millstream.Logs, Name: "app"})
	must(t, err)
	if s.RetentionDays != 7 || fmt.Sprint(s.IndexedFields) != "[user_id trace.id]" {
		t.Errorf("%d days, indexed %q", s.RetentionDays, s.IndexedFields)
	}
	// Deleting asks for the name, and is for administrators.
	if a := r.send(settings, path+"/delete", "confirm", "ap"); a.code != 400 {
		t.Errorf("a wrong name: %d", a.code)
	}
	who, err := w.auth.Authenticate(context.Background(), "Bearer "+w.grant().Token, "")
	must(t, err)
	_, _, err = w.auth.AddMember(context.Background(), who, auth.NewMember{Email: "bob@example.com", Role: auth.Viewer, Password: password}, auth.Entry{Action: "user.create", Org: who.Org})
	must(t, err)
	bob := w.reader()
	bob.send("/login", "/login", "email", "bob@example.com", "password", password)
	for _, p := range []string{path, path + "/delete"} {
		if a := bob.send(path, p, "confirm", "app", "retention_days", "1", "max_fields", "0"); a.code != 403 {
			t.Errorf("a viewer posts to %s: %d", p, a.code)
		}
	}
	if a := r.send(settings, path+"/delete", "confirm", "app"); a.code != 303 {
		t.Errorf("%d %s", a.code, a.alert())
	}
	if a := r.get(path); a.code != 404 {
		t.Errorf("after the deletion: %d", a.code)
	}
}

// A stream's own page counts what is not flushed yet, as its list and the API do.
func TestStreamPageCountsUnflushedRows(t *testing.T) {
	t.Parallel()
	catalog := faultyCatalog{pending: ingest.Pending{Rows: 1234, Bytes: 5000, MinTime: 1e18, MaxTime: 2e18}, uncounted: []string{"node b did not tell"}}
	w := newWorld(t, false, func(c *Config) {
		catalog.Live = c.Catalog.(ingest.Live)
		c.Catalog = &catalog
	})
	w.stream(millstream.Logs, "app")
	r := w.reader().signIn()
	body := r.get("/shop/streams/logs/app").body
	for _, want := range []string{"<dt>Rows</dt><dd>1,234</dd>", "<dt>Stored</dt><dd>5.00 kB</dd>", "2033-05-18 03:33", "<p>Node b did not tell.</p>"} {
		if !strings.Contains(body, want) {
			t.Errorf("%s is not in the page", want)
		}
	}
	if body := r.get("/shop/streams").body; !strings.Contains(body, "<p>Node b did not tell.</p>") {
		t.Error("the list does not say that a node is missing")
	}
}
