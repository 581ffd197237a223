package api

import (
	"net/http"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest/decode"
	"github.com/millstream/millstream/ingest/elastic"
)

// elasticRoot is what shippers take for the address of an Elasticsearch.
const elasticRoot = v1 + "/intake/elastic"

// elasticRoutes are the calls that shippers make of Elasticsearch: the handshake, the set-up of things that streams do not need, and _bulk.
func (a *API) elasticRoutes() []route {
	const base = elasticRoot
	line := func(method, path, summary string, h handler) route {
		return route{method: method, path: base + path, policy: intake(), handle: h, doc: operation{summary: "Elasticsearch API: " + summary, replyType: "application/json"}, shape: elasticShape}
	}
	fixed := func(f func() []byte) handler {
		return func(w http.ResponseWriter, _ *http.Request) error { return elasticReply(w, http.StatusOK, f()) }
	}
	named := func(f func(name string) []byte) handler {
		return func(w http.ResponseWriter, r *http.Request) error {
			name, err := pathValue(r, "name")
			if err != nil {
				return err
			}
			return elasticReply(w, http.StatusOK, f(name))
		}
	}
	root := func() []byte { return elastic.Root(a.Node, a.Node) }
	nodes := func() []byte { return elastic.Nodes(a.Node, "") }
	routes := []route{
		line("GET", "/", "what this is", fixed(root)), line("HEAD", "/", "whether this is there", fixed(root)),
		line("GET", "", "what this is", fixed(root)), line("HEAD", "", "whether this is there", fixed(root)),
		line("GET", "/_license", "licence", fixed(elastic.License)), line("GET", "/_xpack", "features", fixed(elastic.XPack)),
		line("GET", "/_nodes", "nodes", fixed(nodes)), line("GET", "/_nodes/{name}", "nodes", fixed(nodes)),
		line("POST", "/_bulk", "many documents", a.elasticBulk), line("PUT", "/_bulk", "many documents", a.elasticBulk),
		line("POST", "/{index}/_bulk", "many documents of one index", a.elasticBulk), line("PUT", "/{index}/_bulk", "many documents of one index", a.elasticBulk),
	}
	for path, f := range map[string]func(string) []byte{"/_ilm/policy/{name}": elastic.Policy, "/_index_template/{name}": elastic.IndexTemplate, "/_data_stream/{name}": elastic.DataStream, "/_ingest/pipeline/{name}": elastic.Pipeline} {
		routes = append(routes, line("GET", path, "set-up", named(f)), line("HEAD", path, "set-up", named(f)), line("PUT", path, "set-up, of no effect", fixed(elastic.Acknowledged)))
	}
	return routes
}

// elasticShape is Elasticsearch's error body.
func elasticShape(_ *http.Request, code int, d errorDetail) (string, []byte) {
	text := d.Message
	if d.Hint != "" {
		text += " (" + d.Hint + ")"
	}
	kind := map[int]millstream.Kind{400: millstream.Invalid, 401: millstream.Unauthenticated, 403: millstream.Forbidden, 404: millstream.NotFound, 405: millstream.Invalid, 409: millstream.Conflict, 413: millstream.TooLarge,
		415: millstream.Unsupported, 422: millstream.Unprocessable, 429: millstream.RateLimited, 503: millstream.Unavailable, 504: millstream.Timeout}[code]
	err := &millstream.Error{Kind: kind, Msg: text}
	if kind == millstream.Internal {
		err = &millstream.Error{Kind: millstream.Internal}
	}
	return "application/json", elastic.ErrorBody(code, err)
}

func elasticReply(w http.ResponseWriter, code int, body []byte) error {
	h := w.Header()
	h.Set("X-Elastic-Product", "Elasticsearch")
	h.Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, err := w.Write(body)
	return gone(err)
}

func (a *API) elasticBulk(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("X-Elastic-Product", "Elasticsearch")
	index, err := pathValue(r, "index")
	if err != nil {
		return err
	}
	body, err := a.body(r)
	if err != nil {
		return err
	}
	defer decode.Release(body)
	bulk, err := elastic.Decode(index, body, a.Now(), a.Limits)
	if err != nil {
		return err
	}
	if err := a.write(w, r, body, bulk.Batches); err != nil {
		return err
	}
	a.counted(r, "elastic", bulk.Result)
	return elasticReply(w, http.StatusOK, bulk.Reply(a.Now().Sub(callOf(r).start)))
}
