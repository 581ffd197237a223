package api

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"
)

// A name is decoded once. What is still encoded after that stays as it is, and is no name.
func TestEncodedTraversal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root := w.root()
	var me meView
	w.want(200, "GET", "/api/v1/auth/me", root, nil, &me)
	w.stream(me.Organization.ID, "app.v1-x_y")
	w.want(200, "GET", "/api/v1/streams/logs/app.v1-x_y", root, nil, nil)
	w.want(200, "GET", "/api/v1/streams/logs/app%2Ev1%2dx%5Fy", root, nil, nil)
	for _, name := range []string{"..", "%2e%2e", "%252e%252e", "%2e%2e%2fsecret", "%252e%252e%252fsecret", "..%5csecret", "a%2fb", "a%252fb", "a%00b", "a%0ab", "%c0%ae%c0%ae", "app%252Ev1", "%ff", ".hidden"} {
		for _, tail := range []string{"", "/segments"} {
			a := w.call("GET", "/api/v1/streams/logs/"+name+tail, root, nil)
			if a.status != 404 && a.status != 400 {
				t.Errorf("%s%s: %d %s", name, tail, a.status, a.body)
			}
		}
	}
	checkProblem(t, "unknown signal", w.call("GET", "/api/v1/streams/events/app", root, nil), 400, "invalid_argument", "signal")
}

func TestStrictJSON(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root := w.root()
	deep := strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40)
	for name, c := range map[string]struct {
		body, contentType string
		status            int
		code, message     string
		position          int
	}{
		"unknown field":    {`{"name":"x","scope":["query"]}`, "application/json", 400, "invalid_argument", `did you mean "scopes"?`, 19},
		"swapped letters":  {`{"naem":"x"}`, "application/json", 400, "invalid_argument", `did you mean "name"?`, 7},
		"other case":       {`{"Name":"x"}`, "application/json", 400, "invalid_argument", `did you mean "name"?`, 7},
		"nothing like it":  {`{"zzzzzz":"x"}`, "application/json", 400, "invalid_argument", "known fields: expires_at, name, scopes", 0},
		"twice":            {`{"name":"x","name":"y"}`, "application/json", 400, "invalid_argument", "twice", 0},
		"wrong type":       {`{"name":["x"]}`, "application/json", 400, "invalid_argument", `"name" is a array, it must be a string`, 0},
		"trailing":         {`{"name":"x"} {}`, "application/json", 400, "invalid_argument", "after the end", 0},
		"cut":              {`{"name":"x"`, "application/json", 400, "invalid_argument", "not valid JSON", 0},
		"not JSON":         {`name=x`, "application/json", 400, "invalid_argument", "not valid JSON", 0},
		"empty":            {``, "application/json", 400, "invalid_argument", "empty", 0},
		"an array":         {`[]`, "application/json", 400, "invalid_argument", "", 0},
		"bad time":         {`{"name":"x","expires_at":"soon"}`, "application/json", 400, "invalid_argument", "not a time", 0},
		"deep":             {deep, "application/json", 400, "invalid_argument", "", 0},
		"not UTF-8":        {"{\"name\":\"\xff\"}", "application/json", 400, "invalid_argument", "UTF-8", 0},
		"a form":           {`name=x`, "application/x-www-form-urlencoded", 415, "unsupported_media_type", "application/json", 0},
		"text":             {`{}`, "text/plain", 415, "unsupported_media_type", "", 0},
		"broken type":      {`{}`, ";;", 415, "unsupported_media_type", "", 0},
		"with a parameter": {`{"scopes":["query"]}`, "application/json; charset=utf-8", 400, "invalid_argument", "name", 0},
		"too large":        {`{"name":"` + strings.Repeat("a", maxJSON) + `"}`, "application/json", 413, "too_large", "", 0},
	} {
		a := w.call("POST", "/api/v1/auth/tokens", root, c.body, "Content-Type", c.contentType)
		checkProblem(t, name, a, c.status, c.code, c.message)
		if c.position != 0 && a.problem(t).Position != c.position {
			t.Errorf("%s: position %d, want %d", name, a.problem(t).Position, c.position)
		}
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte(`{"name":"x","scopes":["query"]}`))
	_ = z.Close()
	w.want(201, "POST", "/api/v1/auth/tokens", root, packed.String(), nil, "Content-Encoding", "gzip")
	checkProblem(t, "unknown coding", w.call("POST", "/api/v1/auth/tokens", root, "x", "Content-Encoding", "br"), 415, "unsupported_media_type", "")
}
