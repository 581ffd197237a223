package e2e

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/millstream/millstream/internal/mstest"
)

var update = flag.Bool("update", false, "with MS_E2E=full: record anew what the real senders sent, into testdata")

// recording is a session of a real sender: its requests as they were sent, and what the sender's own product answered to queries on the same data.
type recording struct {
	Sender   string     `json:"sender"`
	Requests []request  `json:"requests"`
	Answers  []exchange `json:"answers,omitempty"`
}

type request struct {
	Path   string            `json:"path"`
	Header map[string]string `json:"header"`
	Body   []byte            `json:"body"`
}

// exchange is a query and its answer.
type exchange struct {
	Call   string          `json:"call"`
	Answer json.RawMessage `json:"answer"`
}

func recordingPath(name string) string { return filepath.Join("testdata", name+".json") }

func load(t *testing.T, name string) recording {
	t.Helper()
	text, err := os.ReadFile(recordingPath(name))
	must(t, err)
	var r recording
	must(t, json.Unmarshal(text, &r))
	if len(r.Requests) == 0 {
		t.Fatalf("%s holds no request", recordingPath(name))
	}
	return r
}

// save writes JSON with a line per request and per answer.
func (r recording) save(t *testing.T, name string) {
	t.Helper()
	var b bytes.Buffer
	encode := func(v any) []byte {
		text, err := json.Marshal(v)
		must(t, err)
		return text
	}
	fmt.Fprintf(&b, "{\"sender\": %s,\n\"requests\": [\n", encode(r.Sender))
	for i, q := range r.Requests {
		fmt.Fprintf(&b, "%s%s\n", comma(i), encode(q))
	}
	b.WriteString("],\n\"answers\": [\n")
	for i, e := range r.Answers {
		fmt.Fprintf(&b, "%s%s\n", comma(i), encode(e))
	}
	b.WriteString("]}\n")
	must(t, os.MkdirAll("testdata", 0o755))
	must(t, os.WriteFile(recordingPath(name), b.Bytes(), 0o644))
}

func comma(i int) string {
	if i == 0 {
		return " "
	}
	return ","
}

// replay sends the requests again as they were sent, with the node's own token.
func (r recording) replay(t *testing.T, n *mstest.Node) {
	t.Helper()
	for i, q := range r.Requests {
		var headers []string
		for name, value := range q.Header {
			headers = append(headers, name+": "+value)
		}
		if code, reply := n.Do("POST", q.Path, n.Token, q.Header["Content-Type"], q.Body, headers...); code/100 != 2 {
			t.Fatalf("request %d of %s to %s: %d %s", i, r.Sender, q.Path, code, reply)
		}
	}
}

// relay passes requests on to a node and keeps those that the node took.
type relay struct {
	URL string
	mu  sync.Mutex
	got []request
}

// kept are the headers of a request that a replay repeats; those of the connection and the credentials are not among them.
var kept = []string{"Content-Type", "Content-Encoding", "User-Agent", "X-Prometheus-Remote-Write-Version"}

func startRelay(t *testing.T, n *mstest.Node) *relay {
	t.Helper()
	r := &relay{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, in *http.Request) {
		body, err := io.ReadAll(in.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		out, err := http.NewRequestWithContext(in.Context(), in.Method, n.URL+in.URL.Path, bytes.NewReader(body))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		out.Header = in.Header.Clone()
		resp, err := http.DefaultClient.Do(out)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer func() { _ = resp.Body.Close() }()
		for name, values := range resp.Header {
			w.Header()[name] = values
		}
		w.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(w, resp.Body)
		if resp.StatusCode/100 == 2 {
			q := request{Path: in.URL.Path, Header: map[string]string{}, Body: body}
			for _, name := range kept {
				if v := strings.Join(in.Header.Values(name), ", "); v != "" {
					q.Header[name] = v
				}
			}
			r.mu.Lock()
			r.got = append(r.got, q)
			r.mu.Unlock()
		}
	}))
	t.Cleanup(server.Close)
	r.URL = server.URL
	return r
}

func (r *relay) requests() []request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]request(nil), r.got...)
}
