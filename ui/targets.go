package ui

import (
	"net"
	"net/url"
	"strings"
)

// Targets are the addresses that senders use, as the reader's machine sees them, and the token they send.
type Targets struct {
	URL   string // of the API, without a slash at the end
	GRPC  string // host:port of OTLP gRPC; empty: not told
	Token string // empty: the snippets read the variable TOKEN of the shell
}

// Snippet is how one kind of sender is set up.
type Snippet struct {
	ID      string
	Name    string
	Where   string // file or place the text belongs to
	Text    string
	Becomes string
}

// token is what snippets for a shell send.
func (t Targets) token() string {
	if t.Token == "" {
		return "$TOKEN"
	}
	return t.Token
}

// secret is what snippets for files contain, which expand nothing.
func (t Targets) secret() string {
	if t.Token == "" {
		return "ms_…"
	}
	return t.Token
}

// Senders is a snippet for each protocol that the node takes.
func (t Targets) Senders() []Snippet {
	fill := strings.NewReplacer("{url}", t.URL, "{url:port}", withPort(t.URL), "{grpc}", t.GRPC, "{token}", t.token(), "{secret}", t.secret())
	all := []Snippet{
		{ID: "otlp", Name: "OpenTelemetry", Where: "environment of your service, for any SDK", Becomes: "logs and traces of the stream “default”, metrics by name", Text: `export OTEL_EXPORTER_OTLP_ENDPOINT={url}
export OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf
export OTEL_EXPORTER_OTLP_HEADERS="Authorization=Bearer%20{token}"`},
		{ID: "json", Name: "NDJSON with curl", Where: "shell", Becomes: "logs of the stream the path names, here “app”", Text: `curl {url}/api/v1/intake/json/app \
  -H "Authorization: Bearer {token}" \
  -d '{"level":"info","message":"hello","service":"checkout"}'`},
		{ID: "prometheus", Name: "Prometheus remote write", Where: "prometheus.yml", Becomes: "metrics by name, for PromQL and SQL", Text: `remote_write:
  - url: {url}/api/v1/intake/prometheus/api/v1/write
    authorization:
      credentials: {secret}`},
		{ID: "elastic", Name: "Elasticsearch bulk", Where: "filebeat.yml; Logstash, Vector and Fluent Bit likewise", Becomes: "logs, a stream per index", Text: `output.elasticsearch:
  hosts: ["{url:port}/api/v1/intake/elastic"]
  username: any
  password: {secret}
setup.ilm.enabled: false
setup.template.enabled: false`},
		{ID: "loki", Name: "Loki push", Where: "Promtail; Alloy and the Docker driver likewise", Becomes: "logs of the stream “default”, labels as fields", Text: `clients:
  - url: {url}/api/v1/intake/loki/api/v1/push
    bearer_token: {secret}`},
	}
	if t.GRPC != "" {
		all[0].Text += "\n# or over gRPC:\n# OTEL_EXPORTER_OTLP_ENDPOINT=http://{grpc} OTEL_EXPORTER_OTLP_PROTOCOL=grpc"
	}
	for i := range all {
		all[i].Text = fill.Replace(all[i].Text)
	}
	return all
}

// Question asks for the record that the curl snippet sends.
func (t Targets) Question() Snippet {
	return Snippet{ID: "query", Name: "Ask for it", Where: "shell", Text: `curl ` + t.URL + `/api/v1/query \
  -H "Authorization: Bearer ` + t.token() + `" -H "Content-Type: application/json" \
  -d '{"language":"sql","statement":"SELECT * FROM app LIMIT 10"}'`}
}

// withPort names the port of a URL: Beats take 9200 for one that names none.
func withPort(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Port() != "" || u.Hostname() == "" {
		return address
	}
	port := "80"
	if u.Scheme == "https" {
		port = "443"
	}
	u.Host = net.JoinHostPort(u.Hostname(), port)
	return u.String()
}
