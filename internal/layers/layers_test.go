// Package layers tests that imports go one way.
package layers

import (
	"go/build"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const module = "github.com/millstream/millstream"

// rows lists the layers from the bottom up: a package may import packages of lower rows only, never a sibling. The most specific prefix decides.
var rows = [][]string{
	{""},
	{"segment", "blob", "migrations", "store/db", "rpc/rpcpb", "ui", "internal"},
	{"segment/metrics", "ingest/decode", "ingest/wal"},
	{"internal/timespec"},
	{"store", "cluster", "shard", "ingest/json", "ingest/elastic", "ingest/loki", "ingest/otlp", "ingest/prometheus", "ingest/pipeline", "query/sql", "query/search", "query/promql", "query/cache", "query/engine", "dashboard"},
	{"ingest", "query/scan", "query/warm"},
	{"query", "compactor", "alert", "rpc"},
	{"api", "web"},
	{"internal/app"},
	{"internal/mstest"},
	{"cmd", "scripts"},
}

// depth is the longest chain of our own imports that is allowed up to internal/app, the top. What starts nodes stands in front of it: the command, and tests.
const depth = 7

func rowOf(rel string) (row int, name string) {
	best := -1
	for i, r := range rows {
		for _, p := range r {
			if (rel == p || strings.HasPrefix(rel, p+"/") && p != "") && len(p) >= best {
				best, row, name = len(p), i, p
			}
		}
	}
	if best < 0 {
		return -1, ""
	}
	return row, name
}

func TestImportsGoOneWay(t *testing.T) {
	imports := load(t)
	for pkg, deps := range imports {
		row, name := rowOf(pkg)
		if row < 0 {
			t.Errorf("package %s is in no layer: give it a row", pkg)
			continue
		}
		for _, d := range deps {
			drow, dname := rowOf(d)
			switch {
			case drow > row:
				t.Errorf("%s imports %s, which is above it", pkg, d)
			case drow == row && dname != name:
				t.Errorf("%s imports its sibling %s", pkg, d)
			}
		}
	}
}

func TestImportChainsAreShort(t *testing.T) {
	imports := load(t)
	memo := map[string]int{}
	var length func(p string) int
	length = func(p string) int {
		if n, ok := memo[p]; ok {
			return n
		}
		n := 0
		for _, d := range imports[p] {
			n = max(n, length(d))
		}
		memo[p] = n + 1
		return n + 1
	}
	for p := range imports {
		most := depth
		if strings.HasPrefix(p, "cmd/") || p == "internal/mstest" {
			most++
		}
		if n := length(p); n > most {
			t.Errorf("the longest import chain from %s is %d, more than %d", p, n, most)
		}
	}
}

// load maps each package, relative to the module, to the packages of ours that its non-test files import.
func load(t *testing.T) map[string][]string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		rel = strings.TrimPrefix(filepath.ToSlash(rel), ".")
		if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil && rel != "" {
			return fs.SkipDir // a module of its own
		}
		if base := filepath.Base(path); rel != "" && (strings.HasPrefix(base, ".") || base == "testdata" || base == "node_modules" || base == "data" || base == "bin") {
			return fs.SkipDir
		}
		p, err := build.ImportDir(path, 0)
		if err != nil || len(p.GoFiles)+len(p.CgoFiles) == 0 {
			return nil // no package here
		}
		out[rel] = nil
		for _, i := range p.Imports {
			if i == module || strings.HasPrefix(i, module+"/") {
				out[rel] = append(out[rel], strings.TrimPrefix(strings.TrimPrefix(i, module), "/"))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 5 {
		t.Fatalf("found %d packages only: the walk is broken", len(out))
	}
	return out
}
