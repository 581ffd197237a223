package api

import (
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/millstream/millstream"
)

// engineFields are what a node without an engine does not have.
var engineFields = map[string]bool{"Query": true, "Queries": true, "Metrics": true, "Metadata": true, "Explore": true, "Search": true, "Traces": true, "Names": true, "names": true, "PromQL": true}

// Every route whose handler comes to a field of the engine, by whatever way, is answered by a querier where there is none.
func TestEveryRouteKnowsItsPlace(t *testing.T) {
	t.Parallel()
	uses := methodsOfAPI(t)
	reach := map[string]bool{}
	var needs func(method string) bool
	needs = func(method string) bool {
		if v, seen := reach[method]; seen {
			return v
		}
		reach[method] = false
		for name := range uses[method] {
			if strings.HasSuffix(strings.ToLower(name), "routes") {
				continue // a table binds handlers and calls none
			}
			if engineFields[name] || uses[name] != nil && needs(name) {
				reach[method] = true
			}
		}
		return reach[method]
	}
	bare := &API{}
	counts := map[place]int{}
	for _, rt := range bare.routes() {
		counts[rt.at]++
		name := handlerName(rt.handle)
		if strings.HasPrefix(rt.path, v1+"/query/prometheus/") && name != "buildInfo" {
			name = "prom" // whose closures are the routes'
		}
		if uses[name] == nil {
			continue // a closure that names no method of the API, such as that of /metrics
		}
		if want := rt.at != anywhere; needs(name) != want && name != "buildInfo" {
			t.Errorf("%s %s: its handler %s takes an engine: %v, and its place is %d", rt.method, rt.path, name, needs(name), rt.at)
		}
		if rt.policy.rate == rateQuery && rt.at == anywhere {
			t.Errorf("%s %s reads telemetry and is not a querier's", rt.method, rt.path)
		}
	}
	if counts[onQuerier] < 30 || counts[onEach] != 3 || counts[anywhere] < 50 {
		t.Errorf("places of routes: %v", counts)
	}
}

var boundMethod = regexp.MustCompile(`\(\*API\)\.(\w+)`)

func handlerName(h handler) string {
	m := boundMethod.FindStringSubmatch(runtime.FuncForPC(reflect.ValueOf(h).Pointer()).Name())
	if m == nil {
		return ""
	}
	return m[1]
}

// methodsOfAPI is, by method of API, which fields and methods of its receiver it names.
func methodsOfAPI(t *testing.T) map[string]map[string]bool {
	t.Helper()
	pkgs, err := parser.ParseDir(token.NewFileSet(), ".", nil, 0) //nolint:staticcheck // no build tags here
	if err != nil {
		t.Fatal(err)
	}
	uses := map[string]map[string]bool{}
	for _, f := range pkgs["api"].Files {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil || len(fn.Recv.List[0].Names) == 0 {
				continue
			}
			star, ok := fn.Recv.List[0].Type.(*ast.StarExpr)
			if !ok || star.X.(*ast.Ident).Name != "API" {
				continue
			}
			receiver, named := fn.Recv.List[0].Names[0].Name, map[string]bool{}
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok {
					if x, ok := s.X.(*ast.Ident); ok && x.Name == receiver {
						named[s.Sel.Name] = true
					}
				}
				return true
			})
			uses[fn.Name.Name] = named
		}
	}
	return uses
}

// Without an engine every route still answers, and those that take one ask a querier.
func TestRoutesWithoutAnEngine(t *testing.T) {
	t.Parallel()
	s := newSplit(t, "", func(*API, string) {}, "q-1")
	s.peers["q-1"].handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if principalIn(r.Context()) == nil || r.Header.Get("X-Request-Id") == "" {
			w.WriteHeader(http.StatusTeapot)
		}
		w.WriteHeader(http.StatusNoContent)
	})
	s.intakes = []millstream.Member{{ID: "q-1"}}
	for _, rt := range s.routing.routes() {
		if rt.policy.rate == rateIntake || rt.path == v1+"/auth/logout" || rt.endless {
			continue // those take no engine, end the test's session, or do not end
		}
		path := plainPattern(rt.path)
		for _, p := range []string{"{id}", "{n}", "{signal}", "{name}", "{rest}", "{stream}", "{index}", "{trace_id}"} {
			path = strings.ReplaceAll(path, p, "x")
		}
		got := s.via(rt.method, path, "{}")
		asked := len(s.peers["q-1"].asked)
		for range asked {
			<-s.peers["q-1"].asked
		}
		switch {
		case got.status == 500 || strings.Contains(s.log.String(), "panic:"):
			t.Fatalf("%s %s: %d %s", rt.method, path, got.status, got.body)
		case rt.at == anywhere && asked > 0, rt.at != anywhere && asked != 1:
			t.Errorf("%s %s: %d queriers were asked", rt.method, path, asked)
		case rt.at == onQuerier && got.status != 204:
			t.Errorf("%s %s: %d %s", rt.method, path, got.status, got.body)
		}
	}
}
