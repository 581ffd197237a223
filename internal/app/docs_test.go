package app

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millstream/millstream/internal/config"
	"github.com/millstream/millstream/internal/node"
	"github.com/millstream/millstream/internal/postgres/pgtest"
)

// What an operator is told to set, call and watch is there: names of settings, of calls and of metrics in the pages for operators.
func TestOperatorsPagesNameWhatExists(t *testing.T) {
	p := everything(t)
	known := settingNames(p.cfg)
	known = append(known, metricNames(p.registry)...)
	calls := callPatterns(t, p.handler)
	t.Run("the check finds what is wrong", func(t *testing.T) { findsWhatIsWrong(t, known, calls) })
	for _, page := range []string{"operations.md", "operate.md"} {
		text, err := os.ReadFile(filepath.Join("../../docs", page))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range unknownNames(text, known) {
			t.Errorf("%s: there is no %s", page, name)
		}
		for _, path := range unknownPaths(text, calls) {
			t.Errorf("%s: there is no call %s", page, path)
		}
	}
}

func findsWhatIsWrong(t *testing.T, known []string, calls []*regexp.Regexp) {
	text := []byte("`[querier].timeout_sec` | `MS_NODE_IDS=1 MS_NODE_ID=2` | `millstream_cluster_member{role}` `work_owned` `[wal].dir` http://x:1/api/v1/readyz " +
		"$B/api/v1/cluster/nodes/q/drain `/api/v1/nothing` -X PATCH $B/api/v1/streams/logs/app")
	if got, want := unknownNames(text, known), []string{"MS_NODE_IDS", "[querier].timeout_sec", "millstream_cluster_member", "work_owned"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := unknownPaths(text, calls), []string{"/api/v1/nothing"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// everything is a node that has every role and takes part in a cluster; it runs until the test ends, since some metrics come with the start of their part.
func everything(t *testing.T) *parts {
	t.Helper()
	dir := t.TempDir()
	cfg, err := config.Load("", []string{
		`MS_NODE_ROLES=["router","intake","querier","compactor","alert"]`, "MS_NODE_ID=docs", "MS_NODE_DATA_DIR=" + dir, "MS_OBJECT_STORE_ROOT=" + filepath.Join(dir, "objects"),
		"MS_DATABASE_URL=" + pgtest.URL(t), "MS_DATABASE_MAX_CONNECTIONS=4", "MS_CLUSTER_TRUSTED_NETWORK=true", "MS_CLUSTER_ADVERTISE_ADDR=127.0.0.1:1",
		"MS_CIPHER_KEY=" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("k"), 32)), "MS_HTTP_LISTEN=127.0.0.1:0", "MS_RPC_LISTEN=127.0.0.1:0", "MS_OTLP_LISTEN=127.0.0.1:0",
	})
	if err != nil {
		t.Fatal(err)
	}
	p := newParts(&cfg, Options{Stderr: io.Discard, Pace: Pace{View: 100 * time.Millisecond}})
	db, err := p.openDatabase(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	closeParts, err := p.build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	last := node.Service{Name: "test", Run: func(ctx context.Context, started func()) error { started(); close(ready); <-ctx.Done(); return nil }}
	go func() { ended <- node.Run(ctx, p.log, cfg.Grace(), append(p.services(db), last)...) }()
	t.Cleanup(func() {
		stop()
		if err := errors.Join(<-ended, closeParts(), db.close()); err != nil {
			t.Error(err)
		}
	})
	select {
	case <-ready:
	case err := <-ended:
		ended <- err
		t.Fatal("the node ended before it was ready")
	}
	return p
}

func settingNames(cfg *config.Config) (names []string) {
	for _, s := range config.Settings(cfg) {
		names = append(names, s.Name(), s.Env)
	}
	return names
}

var fqName = regexp.MustCompile(`fqName: "([^"]+)"`)

// metricNames also has those of which there is no value yet.
func metricNames(r *prometheus.Registry) (names []string) {
	all := make(chan *prometheus.Desc)
	go func() { r.Describe(all); close(all) }()
	for d := range all {
		if m := fqName.FindStringSubmatch(d.String()); m != nil {
			names = append(names, m[1])
		}
	}
	return names
}

// callPatterns are the paths of the OpenAPI document, with whatever has no slash for each parameter.
func callPatterns(t *testing.T, h http.Handler) (patterns []*regexp.Regexp) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/openapi.json", nil))
	var doc struct{ Paths map[string]any }
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil || len(doc.Paths) == 0 {
		t.Fatalf("the OpenAPI document: %d, %v", w.Code, err)
	}
	parameter := regexp.MustCompile(`\\\{[^/]+\\\}`)
	for path := range doc.Paths {
		patterns = append(patterns, regexp.MustCompile("^"+parameter.ReplaceAllString(regexp.QuoteMeta(path), "[^/]+")+"$"))
	}
	return patterns
}

var (
	inText = regexp.MustCompile(`\[[a-z_]+(?:\.[a-z_]+)?\]\.[a-z_]+|\bMS_[A-Z0-9_]+|\b(?:millstream|work)_[a-z_]+`)
	inPath = regexp.MustCompile(`/api/v1/[a-z0-9_/{}.-]+`)
)

func unknownNames(text []byte, known []string) []string {
	return slices.DeleteFunc(found(inText, text), func(name string) bool { return slices.Contains(known, name) })
}

func unknownPaths(text []byte, calls []*regexp.Regexp) []string {
	return slices.DeleteFunc(found(inPath, text), func(path string) bool {
		return slices.ContainsFunc(calls, func(c *regexp.Regexp) bool { return c.MatchString(path) })
	})
}

// found are the different texts that match, in order.
func found(re *regexp.Regexp, text []byte) (out []string) {
	for _, m := range re.FindAll(bytes.ReplaceAll(text, []byte("_FILE"), nil), -1) {
		out = append(out, strings.TrimRight(string(m), "."))
	}
	slices.Sort(out)
	return slices.Compact(out)
}
