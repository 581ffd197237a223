package ui

import (
	"net"
	"net/url"
	"regexp"
	"strings"
)

// Targets are the addresses that senders use, as the reader's machine sees them, and the token they send.
type Targets struct {
	URL   string // of the API, without a slash at the end
	GRPC  string // host:port of OTLP gRPC; empty: not told
	Token string // empty: the snippets read the variable TOKEN of the shell
	// Stream is the name of the stream of logs; empty: app.
	Stream string
}

// Snippet is how one kind of sender is set up.
type Snippet struct {
	ID      string
	Name    string
	Where   string // file or place the text belongs to
	Text    string
	Becomes string
	Signal  string // of the first record to wait for: logs, metrics or traces
	Note    string // what people stumble over
	Named   bool   // the text names the stream of the logs
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

// stream is the stream of logs that the snippets name.
func (t Targets) stream() string {
	if t.Stream == "" {
		return "app"
	}
	return t.Stream
}

// table is the stream in a statement inside of JSON.
func (t Targets) table() string {
	if simple.MatchString(t.stream()) {
		return t.stream()
	}
	return `\"` + t.stream() + `\"`
}

// simple is a name that SQL takes without quotes.
var simple = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)

// Senders is a snippet for each kind of sender.
func (t Targets) Senders() []Snippet {
	host, port, tls := t.address()
	fill := strings.NewReplacer("{url}", t.URL, "{url:port}", withPort(t.URL), "{grpc}", t.GRPC, "{token}", t.token(), "{secret}", t.secret(), "{stream}", t.stream(),
		"{host}", host, "{port}", port, "{tls}", tls, "{path}", t.path())
	all := []Snippet{
		{ID: "otlp", Name: "OpenTelemetry SDK", Where: "Environment of your service, for any language", Signal: "traces", Becomes: "logs and traces of the stream “default”, metrics by name", Text: `export OTEL_EXPORTER_OTLP_ENDPOINT={url}
export OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf
export OTEL_EXPORTER_OTLP_HEADERS="Authorization=Bearer%20{token}"`, Note: "The space in the header’s value is written %20: SDKs decode it."},
		{ID: "json", Name: "NDJSON with curl", Where: "Shell", Signal: "logs", Becomes: "logs of the stream that the path names", Text: `curl {url}/api/v1/intake/json/{stream} \
  -H "Authorization: Bearer {token}" \
  -d '{"level":"info","message":"hello","service":"checkout"}'`, Note: "The reply counts what was taken; one bad record never costs its neighbours."},
		{ID: "collector", Name: "OpenTelemetry Collector", Where: "otel-collector.yaml", Signal: "logs", Becomes: "logs and traces of the stream, metrics by name", Text: `exporters:
  otlp_http:
    endpoint: {url}
    compression: gzip
    headers:
      Authorization: Bearer {secret}
      stream-name: {stream}
service:
  pipelines:
    logs:
      receivers: [otlp]
      exporters: [otlp_http]
    traces:
      receivers: [otlp]
      exporters: [otlp_http]
    metrics:
      receivers: [otlp]
      exporters: [otlp_http]`, Note: "The exporter adds /v1/logs, /v1/metrics and /v1/traces to the endpoint itself. Older Collectors know it as otlphttp."},
		{ID: "prometheus", Name: "Prometheus remote write", Where: "prometheus.yml", Signal: "metrics", Becomes: "metrics by name, for PromQL and SQL", Text: `remote_write:
  - url: {url}/api/v1/intake/prometheus/api/v1/write
    authorization:
      credentials: {secret}`, Note: "send_exemplars and send_native_histograms are off unless you switch them on."},
		{ID: "fluentbit", Name: "Fluent Bit", Where: "fluent-bit.yaml", Signal: "logs", Becomes: "logs of the stream", Text: `pipeline:
  outputs:
    - name: opentelemetry
      match: "*"
      host: {host}
      port: {port}
      tls: {tls}
      logs_uri: {path}/v1/logs
      header:
        - Authorization Bearer {secret}
        - stream-name {stream}
      compress: gzip`, Note: "logs_uri is / unless it is set, which would find nothing."},
		{ID: "vector", Name: "Vector", Where: "vector.yaml", Signal: "logs", Becomes: "logs of the stream", Text: `sinks:
  millstream:
    type: http
    inputs: ["your_source"]
    uri: {url}/api/v1/intake/json/{stream}
    method: post
    compression: gzip
    encoding:
      codec: json
    request:
      headers:
        Authorization: Bearer {secret}`, Note: "Put the id of your own source under inputs."},
		{ID: "elastic", Name: "Filebeat", Where: "filebeat.yml; Logstash likewise", Signal: "logs", Becomes: "logs, a stream per index", Text: `output.elasticsearch:
  hosts: ["{url:port}/api/v1/intake/elastic"]
  username: any
  password: {secret}
  index: {stream}
setup.ilm.enabled: false
setup.template.enabled: false`, Note: "A host without a port would mean 9200, so it is named."},
		{ID: "alloy", Name: "Grafana Alloy", Where: "config.alloy", Signal: "logs", Becomes: "logs of the stream “default”, labels as fields", Text: `loki.write "millstream" {
  endpoint {
    url          = "{url}/api/v1/intake/loki/api/v1/push"
    bearer_token = "{secret}"
  }
}`, Note: "Name it in forward_to of your loki.source components: [loki.write.millstream.receiver]."},
		{ID: "loki", Name: "Promtail", Where: "promtail.yaml; the Docker driver likewise", Signal: "logs", Becomes: "logs of the stream “default”, labels as fields", Text: `clients:
  - url: {url}/api/v1/intake/loki/api/v1/push
    bearer_token: {secret}`, Note: "Promtail has been succeeded by Alloy."},
	}
	if t.GRPC != "" {
		all[0].Text += "\n# or over gRPC:\n# OTEL_EXPORTER_OTLP_ENDPOINT=http://{grpc} OTEL_EXPORTER_OTLP_PROTOCOL=grpc"
	}
	for i := range all {
		all[i].Named = strings.Contains(all[i].Text, "{stream}")
		all[i].Text = fill.Replace(all[i].Text)
	}
	return all
}

// address is the URL in parts, for senders that want them apart; tls is "on" or "off".
func (t Targets) address() (host, port, tls string) {
	u, err := url.Parse(withPort(t.URL))
	if err != nil {
		return "localhost", "5080", "off"
	}
	tls = "off"
	if u.Scheme == "https" {
		tls = "on"
	}
	return u.Hostname(), u.Port(), tls
}

// path is the URL's path, empty when there is none.
func (t Targets) path() string {
	u, err := url.Parse(t.URL)
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(u.Path, "/")
}

// Question asks for the record that the curl snippet sends.
func (t Targets) Question() Snippet {
	return Snippet{ID: "query", Name: "Ask for it", Where: "Shell", Text: `curl ` + t.URL + `/api/v1/query \
  -H "Authorization: Bearer ` + t.token() + `" -H "Content-Type: application/json" \
  -d '{"language":"sql","statement":"SELECT * FROM ` + t.table() + ` LIMIT 10"}'`}
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
