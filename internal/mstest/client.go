package mstest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

func (n *Node) signIn() {
	n.t.Helper()
	var grant struct{ Token string }
	n.JSON("POST", "/api/v1/auth/login", "", map[string]string{"email": Email, "password": Password}, &grant)
	var tok map[string]any
	n.JSON("POST", "/api/v1/auth/tokens", grant.Token, map[string]any{"name": "test", "scopes": []string{"intake", "query", "admin"}}, &tok)
	n.Token, _ = tok["token"].(string)
	if n.Token == "" {
		n.t.Fatalf("no token in %v", tok)
	}
}

// JSON makes a call with a JSON body and decodes the reply; any status but 2xx fails the test.
func (n *Node) JSON(method, path, token string, in, out any) {
	n.t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		n.t.Fatal(err)
	}
	code, reply := n.Do(method, path, token, "application/json", body)
	if code/100 != 2 {
		n.t.Fatalf("%s %s: %d %s", method, path, code, reply)
	}
	if out == nil {
		return
	}
	if err := json.Unmarshal(reply, out); err != nil {
		n.t.Fatalf("%s %s: %v in %s", method, path, err, reply)
	}
}

// Do makes a call and returns status and body; status 0 means that there was no reply. Extra headers come as "Name: value".
func (n *Node) Do(method, path, token, contentType string, body []byte, headers ...string) (int, []byte) {
	req, err := http.NewRequest(method, n.URL+path, bytes.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, []byte(err.Error())
	}
	defer func() { _ = resp.Body.Close() }()
	reply, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, []byte(err.Error())
	}
	return resp.StatusCode, reply
}

var client = &http.Client{Timeout: 60 * time.Second}

// Answer is the reply of a query.
type Answer struct {
	Columns []struct{ Name, Type string }
	Rows    [][]any
	Partial bool
	Reasons []string `json:"partial_reasons"`
	Stats   struct {
		UnflushedRows int64 `json:"unflushed_rows"`
		Segments      struct{ Total, Scanned, Cached int }
		Parts         []Part // of the nodes that read segments, if they were several
	}
}

// Part is what one node read of a query's segments.
type Part struct {
	Node             string
	Segments, Cached int
	Fetched          int64 `json:"fetched_bytes"`
}

// SQL runs a statement; any failure fails the test.
func (n *Node) SQL(statement string) Answer {
	n.t.Helper()
	a, err := n.TrySQL(statement)
	if err != nil {
		n.t.Fatalf("%s: %v", statement, err)
	}
	return a
}

// TrySQL runs a statement.
func (n *Node) TrySQL(statement string) (Answer, error) {
	var a Answer
	body, err := json.Marshal(map[string]string{"language": "sql", "statement": statement})
	if err != nil {
		return a, err
	}
	code, reply := n.Do("POST", "/api/v1/query", n.Token, "application/json", body)
	if code != http.StatusOK {
		return a, fmt.Errorf("status %d: %s", code, reply)
	}
	d := json.NewDecoder(bytes.NewReader(reply))
	d.UseNumber()
	return a, d.Decode(&a)
}

// Count is the single number of a one-row answer.
func (n *Node) Count(statement string) int64 {
	n.t.Helper()
	a := n.SQL(statement)
	if len(a.Rows) != 1 || len(a.Rows[0]) != 1 {
		n.t.Fatalf("%s: %v is not one number", statement, a.Rows)
	}
	v, err := a.Rows[0][0].(json.Number).Int64()
	if err != nil {
		n.t.Fatal(err)
	}
	return v
}

// Flush publishes everything acknowledged so far, on every node. One that has just come back may not be reached at once.
func (n *Node) Flush() {
	n.t.Helper()
	WaitFor(n.t, time.Minute, "a flush", func() bool {
		code, reply := n.Do("POST", "/api/v1/node/flush", n.Token, "application/json", []byte("{}"))
		if code/100 != 2 && code != http.StatusServiceUnavailable {
			n.t.Fatalf("flush: %d %s", code, reply)
		}
		return code/100 == 2
	})
}

// Number is a value of an answer as a whole number; 0 if it is none.
func Number(v any) int64 {
	n, _ := v.(json.Number)
	i, _ := n.Int64()
	return i
}
