package ui

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/a-h/templ"
	"go.yaml.in/yaml/v2"
)

func html(t *testing.T, c templ.Component) string {
	t.Helper()
	var b strings.Builder
	if err := c.Render(WithBase(context.Background(), "/base"), &b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// pages is every page with everything on it that can be.
func pages(base, text string) map[string]templ.Component {
	f := Frame{Base: base, Home: base + "/", Version: text, FormToken: text}
	in := f
	in.UserID, in.Email, in.UserName, in.Org, in.Orgs, in.Role, in.Page = text, text, text, text, []string{text}, "owner", "logs"
	in.Streams, in.Data, in.Prefs = []StreamRef{{Signal: text, Name: text}}, map[string]any{text: text}, json.RawMessage(`{}`)
	p := &Problem{Field: "email", Text: text, Hint: text}
	targets := Targets{URL: "http://localhost:5080" + base, GRPC: "localhost:4317", Token: text}
	all := map[string]templ.Component{
		"login":   Login{Frame: f, Email: text, Next: text, Problem: p}.Page(),
		"ended":   Login{Frame: f, Ended: true}.Page(),
		"plain":   Login{Frame: f, Refused: text}.Page(),
		"setup":   Setup{Frame: f, Code: text, Email: text, Org: text, Problem: p}.Page(),
		"token":   Token{Frame: in, First: true, Token: text, Name: text, Scopes: []string{"intake", "query"}, Targets: targets}.Page(),
		"notoken": Token{Frame: in, Problem: p}.Page(),
		"notice":  Notice{Frame: f, Heading: text, Text: text, Hint: text, Request: text}.Page(),
	}
	now := time.Now()
	row := StreamRow{Signal: "logs", Name: text, Newest: now}
	all["users"] = Access{Frame: in, Tab: "users", Done: text, Users: []Member{{ID: text, Email: text, Name: text, Role: "viewer", Pending: true}}, Roles: []string{"viewer"}, Invite: &Invitation{Email: text, URL: text}}.Page()
	all["tokens"] = Access{Frame: in, Tab: "tokens", Problem: p, Tokens: []APIToken{{ID: text, Name: text, Owner: text, Scopes: []string{text}}}, Scopes: []string{text}}.Page()
	all["audit"] = Access{Frame: in, Tab: "audit", Audit: Audit{Actor: text, Action: text, Older: text, Entries: []AuditEntry{{Actor: text, Action: text, Target: text, Address: text, Detail: text}}}}.Page()
	all["organization"] = Access{Frame: in, Tab: "organization", Org: Organization{Slug: text, Name: text}}.Page()
	all["invite"] = InvitePage{Frame: f, Token: text, Problem: p}.Page()
	all["settings"] = Settings{Frame: in, Problem: p, Done: text}.Page()
	all["configuration"] = Settings{Frame: in, Configuration: true, Values: []Setting{{text, text, text, text, text}}}.Page()
	all["status"] = Status{Frame: in, Node: text, Checks: []Check{{Name: text, Message: text}}, Cards: []Card{{Title: text, Icon: "info", Note: text, Figures: []Figure{{text, text, true, text}}}}, Queries: []RunningQuery{{ID: text, User: text, Statement: text}}}.Page()
	all["streams"] = StreamList{Frame: in, Rows: []StreamRow{row}, Total: 1, Filter: text, Signal: text, Sort: text, Pager: Pager{Path: "/base/x/streams?q=" + url.QueryEscape(text), Pages: 2}}.Page()
	all["schema"] = StreamPage{Frame: in, StreamRow: row, Tab: "schema", Filter: text, Schema: []FieldRow{{text, text, true, []string{text}}}}.Page()
	all["segments"] = StreamPage{Frame: in, StreamRow: row, Tab: "segments", SegmentRows: []SegmentRow{{ID: text}}}.Page()
	all["stream"] = StreamPage{Frame: in, StreamRow: row, Tab: "settings", Problem: p, Indexed: text}.Page()
	all["send"] = Send{Frame: in, Targets: targets, Name: text, Problem: p}.Page()
	for _, script := range []string{"logs.js", "metrics.js", "traces.js", "trace.js", "services.js", "dashboards.js", "dashboard.js"} {
		all[script] = Explorer{Frame: in, Title: text, Script: script}.Page()
	}
	return all
}

// Whatever text a page is given, it stays text; and nothing on a page needs more than the policy allows.
func TestTextStaysText(t *testing.T) {
	const hostile = `<script>alert(1)</script>"' onload=x javascript:alert(2)`
	inline := regexp.MustCompile(`(?i)<script(>| [^>]*>[^<])|<style|\s(style|on[a-z]+)=["']?[^"'>]*["']|href="javascript`)
	boot := regexp.MustCompile(`<script id="boot" type="application/json">[^<]*</script>`) // data, which is not run
	for name, page := range pages("/base", hostile) {
		got := boot.ReplaceAllString(html(t, page), "")
		if strings.Contains(got, "<script>alert") || strings.Contains(got, `"' onload`) {
			t.Errorf("%s: %s", name, got)
		}
		if m := inline.FindString(strings.ReplaceAll(got, "onload=x", "")); m != "" {
			t.Errorf("%s has %q", name, m)
		}
		for _, m := range regexp.MustCompile(`(?:href|src|action)="([^"]*)"`).FindAllStringSubmatch(got, -1) {
			if !strings.HasPrefix(m[1], "/base/") && m[1] != "#main" {
				t.Errorf("%s refers to %q, outside the base path", name, m[1])
			}
		}
		if n := strings.Count(got, "<h1"); n != 1 {
			t.Errorf("%s has %d first headings", name, n)
		}
	}
}

func TestHiddenCharactersAreShown(t *testing.T) {
	for in, want := range map[string]string{
		"app":                   "app",
		"größe":                 "größe",
		"a\u202egnp.exe":        "a[U+202E]gnp.exe",
		"a\x00b\x1b[31m":        "a[U+0000]b[U+001B][31m",
		"zero\u200bwidth\ufeff": "zero[U+200B]width[U+FEFF]",
		"bad\xff":               "bad[U+FFFD]",
		"two\u2028lines":        "two[U+2028]lines",
	} {
		if got := visible(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestFiguresAndTimes(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 12: "12", 999: "999", 1000: "1,000", 157574: "157,574", 1234567890: "1,234,567,890", -1000: "-1,000"} {
		if got := count(n); got != want {
			t.Errorf("count %d: %q", n, got)
		}
	}
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1.00 kB", 9994: "9.99 kB", 9996: "10.0 kB", 123456: "123 kB", 999_600: "1.00 MB", 1_900_000_000: "1.90 GB", math.MaxInt64: "9223 PB"} {
		if got := size(n); got != want {
			t.Errorf("size %d: %q, want %q", n, got, want)
		}
	}
	now := time.Unix(1_800_000_000, 0)
	for d, want := range map[time.Duration]string{0: "now", 59 * time.Second: "59 s ago", 61 * time.Minute: "1 h 1 min ago", 49 * time.Hour: "2 d 1 h ago", -2 * time.Minute: "in 2 min"} {
		if got := ago(now.Add(-d), now); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
}

// The snippets for files must be what their readers parse.
func TestSnippetsAreYAML(t *testing.T) {
	targets := Targets{URL: "https://ms.example.com/base", GRPC: "ms.example.com:4317", Token: "ms_secret"}
	parsed := map[string]map[string]any{}
	for _, s := range targets.Senders() {
		if strings.ContainsAny(s.Text, "{}") && s.ID != "json" && s.ID != "alloy" {
			t.Errorf("%s is not filled in:\n%s", s.ID, s.Text)
		}
		if !strings.Contains(s.Text, "ms_secret") {
			t.Errorf("%s does not send the token", s.ID)
		}
		if s.ID == "otlp" || s.ID == "json" || s.ID == "alloy" { // not YAML
			continue
		}
		into := map[string]any{}
		if err := yaml.Unmarshal([]byte(s.Text), &into); err != nil {
			t.Errorf("%s: %v\n%s", s.ID, err, s.Text)
		}
		parsed[s.ID] = into
	}
	for id, want := range map[string]string{
		"collector":  "map[otlp_http:map[compression:gzip endpoint:https://ms.example.com/base headers:map[Authorization:Bearer ms_secret stream-name:app]]]",
		"fluentbit":  "map[outputs:[map[compress:gzip header:[Authorization Bearer ms_secret stream-name app] host:ms.example.com logs_uri:/base/v1/logs match:* name:opentelemetry port:443 tls:true]]]",
		"vector":     "map[millstream:map[compression:gzip encoding:map[codec:json] inputs:[your_source] method:post request:map[headers:map[Authorization:Bearer ms_secret]] type:http uri:https://ms.example.com/base/api/v1/intake/json/app]]",
		"prometheus": "[map[authorization:map[credentials:ms_secret] url:https://ms.example.com/base/api/v1/intake/prometheus/api/v1/write]]",
		"loki":       "[map[bearer_token:ms_secret url:https://ms.example.com/base/api/v1/intake/loki/api/v1/push]]",
		"elastic":    "map[hosts:[https://ms.example.com:443/base/api/v1/intake/elastic] index:app password:ms_secret username:any]",
	} {
		key := map[string]string{"collector": "exporters", "fluentbit": "pipeline", "vector": "sinks", "prometheus": "remote_write", "loki": "clients", "elastic": "output.elasticsearch"}[id]
		if got := fmt.Sprint(parsed[id][key]); got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
}

// The question of the first page is a command that works as it is.
func TestQuestionNamesTheStream(t *testing.T) {
	for stream, want := range map[string]string{"": "SELECT * FROM app LIMIT 10", "my-app": `SELECT * FROM "my-app" LIMIT 10`} {
		_, body, ok := strings.Cut(Targets{URL: "http://localhost:5080", Stream: stream}.Question().Text, "-d '")
		var got struct{ Language, Statement string }
		if err := json.Unmarshal([]byte(strings.TrimSuffix(body, "'")), &got); !ok || err != nil || got.Language != "sql" || got.Statement != want {
			t.Errorf("%q asks %+v (%v), want %s", stream, got, err, want)
		}
	}
}

func TestSnippetsWithoutAToken(t *testing.T) {
	for _, s := range (Targets{URL: "http://[::1]"}).Senders() {
		if strings.Contains(s.Text, "Bearer \"") || !strings.Contains(s.Text, "$TOKEN") && !strings.Contains(s.Text, "ms_…") {
			t.Errorf("%s:\n%s", s.ID, s.Text)
		}
		if s.Signal == "" || s.Note == "" || s.Becomes == "" {
			t.Errorf("%s is not described", s.ID)
		}
		if s.ID == "elastic" && !strings.Contains(s.Text, "http://[::1]:80/") {
			t.Errorf("no port:\n%s", s.Text)
		}
	}
}

// Text has at least 4.5:1 on every surface it is used on, borders of inputs and focus rings 3:1, in both themes (WCAG 2.2 AA).
func TestContrast(t *testing.T) {
	css, _ := FindAsset(strings.TrimPrefix(asset("app.css"), AssetRoot))
	light, dark, ok := strings.Cut(string(css.Body), "[data-theme=dark]{")
	if !ok {
		t.Fatal("no dark theme")
	}
	system, rest, _ := strings.Cut(light, ":root:not([data-theme=light]){")
	if system, _, _ = strings.Cut(rest, "}"); !strings.HasPrefix(dark, system) {
		t.Error("the dark theme differs by how it is chosen")
	}
	light, _, _ = strings.Cut(light, ":root:not(")
	pairs := []struct {
		fore, back string
		least      float64
	}{
		{"on-accent", "accent", 4.5}, {"on-accent", "accent-hover", 4.5}, {"text-2", "accent-soft", 4.5}, {"text", "accent-soft", 4.5}, {"accent", "accent-soft", 4.5}, {"mark-text", "mark", 4.5},
		{"ok", "ok-soft", 4.5}, {"ok", "surface", 4.5}, {"accent", "surface", 4.5}, {"accent-hover", "surface", 4.5}, {"text-2", "surface-3", 4.5}, {"text", "surface-3", 4.5},
		{"border-strong", "surface", 3}, {"border-strong", "bg", 3}, {"focus", "bg", 3}, {"focus", "surface", 3}, {"text", "lb-warn", 4.5}, {"text", "lb-error", 4.5},
	}
	add := func(fore, back string, least float64) {
		pairs = append(pairs, struct {
			fore, back string
			least      float64
		}{fore, back, least})
	}
	for _, level := range []string{"fatal", "error", "warn", "info", "debug", "trace"} {
		add("lv-"+level, "lb-"+level, 4.5)
		add("lv-"+level, "surface", 4.5)
	}
	for _, syntax := range []string{"kw", "field", "str", "num", "op"} {
		add("syn-"+syntax, "surface", 4.5)
	}
	for i := range 8 {
		add("c"+strconv.Itoa(i+1), "surface", 3)
	}
	for _, text := range []string{"text", "text-2", "text-3"} {
		for _, surface := range []string{"bg", "surface", "surface-2"} {
			add(text, surface, 4.5)
		}
	}
	for name, theme := range map[string]string{"light": light, "dark": dark} {
		tokens := map[string]float64{}
		for _, m := range regexp.MustCompile(`--([a-z0-9-]+):#([0-9A-Fa-f]{3,6})\b`).FindAllStringSubmatch(theme, -1) {
			if _, seen := tokens[m[1]]; !seen {
				tokens[m[1]] = luminance(t, m[2])
			}
		}
		for _, p := range pairs {
			a, aok := tokens[p.fore]
			b, bok := tokens[p.back]
			if ratio := (max(a, b) + .05) / (min(a, b) + .05); !aok || !bok || ratio < p.least {
				t.Errorf("%s: %s on %s has %.2f:1, less than %.1f:1", name, p.fore, p.back, ratio, p.least)
			}
		}
	}
}

func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	if len(hex) == 3 {
		hex = string([]byte{hex[0], hex[0], hex[1], hex[1], hex[2], hex[2]})
	}
	n, err := strconv.ParseUint(hex, 16, 32)
	if err != nil {
		t.Fatal(err)
	}
	linear := func(v uint64) float64 {
		c := float64(v&255) / 255
		if c <= .04045 {
			return c / 12.92
		}
		return math.Pow((c+.055)/1.055, 2.4)
	}
	return .2126*linear(n>>16) + .7152*linear(n>>8) + .0722*linear(n)
}

// What is in the bundle stays small. Sizes are as browsers get them: compressed.
func TestBudgets(t *testing.T) {
	size := func(name string) int {
		a, ok := FindAsset(name)
		if !ok {
			t.Fatalf("no %s", name)
		}
		if a.Gzip == nil {
			return len(a.Body)
		}
		return len(a.Gzip)
	}
	of := func(name string) int {
		total := size(strings.TrimPrefix(asset(name), AssetRoot))
		for _, i := range imports(name) {
			total += size(strings.TrimPrefix(i, AssetRoot))
		}
		return total
	}
	all := 0
	for name := range current.Load().files {
		if strings.HasSuffix(name, ".js") {
			all += size(name)
		}
	}
	for _, c := range []struct {
		what string
		is   int
		most int
	}{
		{"all scripts", all, 250_000}, {"the script of the sign-in page", of("account.js"), 25_000}, {"the style sheet", of("app.css"), 20_000}, {"the icons", of("icons.svg"), 6_000},
		{"the fonts", of("inter-latin-wght-normal.woff2") + of("jetbrains-mono-latin-wght-normal.woff2"), 100_000}, {"the script of Logs", of("logs.js"), 90_000},
	} {
		if c.is > c.most {
			t.Errorf("%s: %d bytes, more than %d", c.what, c.is, c.most)
		}
		t.Logf("%s: %d bytes of %d", c.what, c.is, c.most)
	}
	for name := range current.Load().manifest {
		if n := size(strings.TrimPrefix(style(name), AssetRoot)); n > 20_000 {
			t.Errorf("the style sheet of %s: %d bytes, more than 20000", name, n)
		}
	}
	if n := len(html(t, pages("", "x")["logs.js"])); n > 100_000 {
		t.Errorf("the shell has %d bytes", n)
	}
}

// A directory of assets that is not whole is refused, and the embedded files go on serving.
func TestUseDir(t *testing.T) {
	if err := UseDir(t.TempDir()); err == nil || !strings.Contains(err.Error(), "make ui") {
		t.Errorf("an empty directory: %v", err)
	}
	if devDir != "" {
		t.Error("it is used")
	}
}
