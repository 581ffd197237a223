package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// operation describes a route for the OpenAPI document.
type operation struct {
	summary   string
	body      any // a value of the request type; nil: no JSON body
	bodyTypes []string
	reply     any    // a value of the reply type; nil: none, or not JSON
	replyType string // content type of a reply that is not JSON
	status    int    // of success; 0: 200, or 204 without a reply
	query     []param
}

// param is a parameter of the query string.
type param struct{ name, kind, doc string }

func (a *API) openapiRoutes() []route {
	return []route{{method: "GET", path: v1 + "/openapi.json", policy: public(), handle: a.openapi, doc: operation{summary: "This document", reply: map[string]any{}}}}
}

func (a *API) openapi(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(a.spec)))
	w.Header().Set("Cache-Control", "public, max-age=300")
	_, err := w.Write(a.spec)
	return gone(err)
}

type object = map[string]any

// openapi makes the OpenAPI 3.1 document of a table of routes.
func openapi(routes []route, base, version string) ([]byte, error) {
	s := schemas{defs: object{}, types: map[string]reflect.Type{}}
	paths := object{}
	for i := range routes {
		rt := &routes[i]
		pattern := plainPattern(rt.path)
		item, _ := paths[pattern].(object)
		if item == nil {
			item = object{}
			paths[pattern] = item
		}
		method := strings.ToLower(rt.method)
		if _, twice := item[method]; twice {
			return nil, fmt.Errorf("route %s %s is given twice", rt.method, rt.path)
		}
		item[method] = s.operation(rt)
	}
	s.of(reflect.TypeFor[errorBody]())
	if s.clash != nil {
		return nil, s.clash
	}
	return json.Marshal(object{
		"openapi": "3.1.0",
		"info":    object{"title": "Millstream", "version": version, "description": "Logs, metrics and traces in an object store, with SQL and PromQL over all three."},
		"servers": []object{{"url": strings.TrimSuffix(base, "/") + "/"}},
		"paths":   paths,
		"components": object{
			"schemas": s.defs,
			"securitySchemes": object{
				"bearer": object{"type": "http", "scheme": "bearer", "description": "an access token from POST /api/v1/auth/login, or an API token"},
				"basic":  object{"type": "http", "scheme": "basic", "description": "any user name, and an API token as the password"},
			},
		},
	})
}

var patternParam = regexp.MustCompile(`\{([a-z_]+)(?::[^}]*)?\}`)

// plainPattern is a route's path with its parameters as OpenAPI writes them. A trailing wildcard becomes the parameter "rest".
func plainPattern(pattern string) string {
	return strings.Replace(patternParam.ReplaceAllString(pattern, "{$1}"), "*", "{rest}", 1)
}

func (s *schemas) operation(rt *route) object {
	d := rt.doc
	op := object{"summary": d.summary, "tags": []string{tagOf(rt.path)}, "operationId": operationID(rt)}
	var params []object
	for _, m := range patternParam.FindAllStringSubmatch(strings.Replace(rt.path, "*", "{rest}", 1), -1) {
		params = append(params, object{"name": m[1], "in": "path", "required": true, "schema": object{"type": "string"}})
	}
	for _, q := range d.query {
		params = append(params, object{"name": q.name, "in": "query", "description": q.doc, "schema": object{"type": q.kind}})
	}
	if !rt.policy.public {
		params = append(params, object{"name": "X-Org-Id", "in": "header", "description": "slug of the organization to work in, for users of several", "schema": object{"type": "string"}})
		op["security"] = []object{{"bearer": []string{}}, {"basic": []string{}}}
	}
	if rt.policy.scope != 0 {
		op["description"] = fmt.Sprintf("Needs the scope %s and at least the role %s.", rt.policy.scope, rt.policy.role)
		if rt.policy.whole {
			op["description"] = fmt.Sprintf("Needs the scope %s and at least the role %s in the organization that looks after the installation.", rt.policy.scope, rt.policy.role)
		}
	}
	if params != nil {
		op["parameters"] = params
	}
	if content := s.content(d.body, d.bodyTypes); content != nil {
		op["requestBody"] = object{"required": true, "content": content}
	}
	op["responses"] = s.responses(rt)
	return op
}

func (s *schemas) content(v any, types []string) object {
	out := object{}
	for _, t := range types {
		out[t] = object{"schema": object{}}
	}
	if v != nil {
		out["application/json"] = object{"schema": s.of(reflect.TypeOf(v))}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

func (s *schemas) responses(rt *route) object {
	d := rt.doc
	code := d.status
	if code == 0 {
		code = http.StatusOK
		if d.reply == nil && d.replyType == "" {
			code = http.StatusNoContent
		}
	}
	ok := object{"description": http.StatusText(code)}
	var types []string
	if d.replyType != "" {
		types = []string{d.replyType}
	}
	if content := s.content(d.reply, types); content != nil {
		ok["content"] = content
	}
	failure := object{"description": "an error; its code says which"}
	if rt.shape == nil {
		failure["content"] = object{"application/json": object{"schema": object{"$ref": "#/components/schemas/Error"}}}
	}
	return object{strconv.Itoa(code): ok, "default": failure}
}

// tagOf groups operations by noun.
func tagOf(pattern string) string {
	noun, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(pattern, v1), "/"), "/")
	return strings.TrimSuffix(noun, ".json")
}

var notWord = regexp.MustCompile(`[^A-Za-z0-9]+`)

func operationID(rt *route) string {
	words := strings.TrimPrefix(rt.path, v1)
	if strings.HasSuffix(words, "/") {
		words += "root"
	}
	return strings.ToLower(rt.method) + "_" + strings.Trim(notWord.ReplaceAllString(words, "_"), "_")
}

// schemas collects the JSON schemas of Go types, each struct once under its name.
type schemas struct {
	defs  object
	types map[string]reflect.Type // whose each name is
	clash error
}

var (
	timeType = reflect.TypeFor[time.Time]()
	rawType  = reflect.TypeFor[json.RawMessage]()
)

func (s *schemas) of(t reflect.Type) object {
	switch t {
	case timeType, stampType:
		return object{"type": "string", "format": "date-time"}
	case rawType:
		return object{}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.of(t.Elem())
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return object{"type": "integer"}
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}
	case reflect.Slice, reflect.Array:
		return object{"type": "array", "items": s.of(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.Struct:
		return s.structure(t)
	}
	return object{} // an interface: anything
}

func (s *schemas) structure(t reflect.Type) object {
	name := schemaName(t)
	ref := object{"$ref": "#/components/schemas/" + name}
	if has, ok := s.types[name]; ok {
		if has != t {
			s.clash = fmt.Errorf("the types %s and %s have one name in the OpenAPI document", has, t)
		}
		return ref
	}
	s.types[name] = t
	props, required := object{}, []string{}
	def := object{"type": "object", "properties": props}
	s.defs[name] = def // before the fields, which may refer to it
	for _, f := range reflect.VisibleFields(t) {
		field := jsonName(f)
		if field == "" || f.Anonymous {
			continue
		}
		p := s.of(f.Type)
		if doc := f.Tag.Get("doc"); doc != "" {
			p["description"] = doc
		}
		props[field] = p
		if !strings.Contains(f.Tag.Get("json"), "omit") && f.Type.Kind() != reflect.Pointer {
			required = append(required, field)
		}
	}
	if len(required) > 0 {
		def["required"] = required
	}
	return ref
}

// schemaName is a type's name in the document: userView becomes User, loginBody LoginRequest, errorBody Error; a type of another package has that package's name before it.
func schemaName(t reflect.Type) string {
	n := t.Name()
	if pkg := path.Base(t.PkgPath()); pkg != "api" {
		return strings.ToUpper(pkg[:1]) + pkg[1:] + n
	}
	if n = strings.TrimSuffix(n, "View"); n != "errorBody" && strings.HasSuffix(n, "Body") {
		n = strings.TrimSuffix(n, "Body") + "Request"
	}
	n = strings.TrimSuffix(n, "Body")
	return strings.ToUpper(n[:1]) + n[1:]
}
