package api

import (
	"strings"
	"testing"
)

// A reader of the document must find every route, and nothing else.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t)
	var doc struct {
		OpenAPI string
		Paths   map[string]map[string]struct {
			Summary     string
			OperationID string `json:"operationId"`
			Responses   map[string]any
			Parameters  []struct{ Name, In string }
		}
		Components struct{ Schemas map[string]any }
	}
	a := w.want(200, "GET", "/api/v1/openapi.json", "", nil, &doc)
	if doc.OpenAPI != "3.1.0" {
		t.Errorf("version %s", doc.OpenAPI)
	}
	documented, ids := map[string]bool{}, map[string]bool{}
	for path, item := range doc.Paths {
		for method, op := range item {
			documented[strings.ToUpper(method)+" "+path] = true
			if op.Summary == "" || len(op.Responses) < 2 || ids[op.OperationID] {
				t.Errorf("%s %s: %+v", method, path, op)
			}
			ids[op.OperationID] = true
			for _, p := range op.Parameters {
				if p.In == "path" && !strings.Contains(path, "{"+p.Name+"}") {
					t.Errorf("%s has no parameter %s", path, p.Name)
				}
			}
			if n := strings.Count(path, "{"); n != countPath(op.Parameters) {
				t.Errorf("%s %s documents %d of its %d parameters", method, path, countPath(op.Parameters), n)
			}
		}
	}
	served := map[string]bool{}
	for _, rt := range w.api.routes() {
		served[rt.method+" "+plainPattern(rt.path)] = true
	}
	for r := range served {
		if !documented[r] {
			t.Errorf("%s is served and not in the document", r)
		}
	}
	for r := range documented {
		if !served[r] {
			t.Errorf("%s is in the document and not served", r)
		}
	}
	for _, ref := range strings.Split(string(a.body), `"$ref":"#/components/schemas/`)[1:] {
		name, _, _ := strings.Cut(ref, `"`)
		if doc.Components.Schemas[name] == nil {
			t.Errorf("schema %s is used and not defined", name)
		}
	}
}

func countPath(params []struct{ Name, In string }) (n int) {
	for _, p := range params {
		if p.In == "path" {
			n++
		}
	}
	return n
}
