package elastic

import "github.com/millstream/millstream"

// Version is the release of Elasticsearch whose calls are imitated. Shippers refuse to talk to one that is older than they are.
const Version = "8.19.0"

// Root answers GET /, by which clients make sure what they talk to. id is any id that stays the same.
func Root(node, id string) []byte {
	out := millstream.AppendJSONString([]byte(`{"name":`), node)
	out = millstream.AppendJSONString(append(out, `,"cluster_name":"millstream","cluster_uuid":`...), id)
	return append(out, `,"version":{"number":"`+Version+`","build_flavor":"default","build_type":"docker","build_hash":"unknown","build_date":"2025-07-23T00:00:00.000000000Z",`+
		`"build_snapshot":false,"lucene_version":"9.12.2","minimum_wire_compatibility_version":"7.17.0","minimum_index_compatibility_version":"7.0.0"},`+
		`"tagline":"You Know, for Search"}`...)
}

const license = `{"uid":"millstream","type":"basic","mode":"basic","status":"active"`

// License answers GET _license.
func License() []byte {
	return []byte(`{"license":` + license + `,"issue_date_in_millis":1700000000000,"max_nodes":1000,"issued_to":"millstream","issuer":"millstream","start_date_in_millis":-1}}`)
}

// XPack answers GET _xpack: the features that shippers look for before they set up index management, of which there is nothing to set up.
func XPack() []byte {
	return []byte(`{"build":{"hash":"unknown","date":"2025-07-23T00:00:00.000000000Z"},"license":` + license + `},"features":{` +
		`"ilm":{"available":true,"enabled":true},"data_streams":{"available":true,"enabled":true},"security":{"available":true,"enabled":true}},"tagline":"You know, for X"}`)
}

// Nodes answers GET _nodes and below. addr is where this node's HTTP is reached, so that clients that look for more nodes find this one.
func Nodes(node, addr string) []byte {
	out := millstream.AppendJSONString([]byte(`{"_nodes":{"total":1,"successful":1,"failed":0},"cluster_name":"millstream","nodes":{`), node)
	out = millstream.AppendJSONString(append(out, `:{"name":`...), node)
	out = millstream.AppendJSONString(append(out, `,"version":"`+Version+`","build_flavor":"default","roles":["data","ingest"],"http":{"publish_address":`...), addr)
	return append(out, `}}}}`...)
}

// Acknowledged answers PUT and DELETE of a policy, a template, a data stream or a pipeline. They are taken and of no effect: streams need no setting up.
func Acknowledged() []byte { return []byte(`{"acknowledged":true}`) }

// Policy answers GET _ilm/policy/{name}: it exists, so that shippers do not try to make it.
func Policy(name string) []byte {
	out := millstream.AppendJSONString([]byte(`{`), name)
	return append(out, `:{"version":1,"modified_date":"2025-07-23T00:00:00.000Z","policy":{"phases":{"hot":{"min_age":"0ms","actions":{}}}}}}`...)
}

// IndexTemplate answers GET _index_template/{name}.
func IndexTemplate(name string) []byte {
	out := millstream.AppendJSONString([]byte(`{"index_templates":[{"name":`), name)
	out = millstream.AppendJSONString(append(out, `,"index_template":{"index_patterns":[`...), name)
	return append(out, `],"composed_of":[],"priority":150,"data_stream":{"hidden":false,"allow_custom_routing":false}}}]}`...)
}

// DataStream answers GET _data_stream/{name}.
func DataStream(name string) []byte {
	out := millstream.AppendJSONString([]byte(`{"data_streams":[{"name":`), name)
	out = millstream.AppendJSONString(append(out, `,"timestamp_field":{"name":"@timestamp"},"indices":[],"generation":1,"status":"GREEN","template":`...), name)
	return append(out, `,"hidden":false,"system":false}]}`...)
}

// Pipeline answers GET _ingest/pipeline/{name}.
func Pipeline(name string) []byte {
	out := millstream.AppendJSONString([]byte(`{`), name)
	return append(out, `:{"description":"","processors":[]}}`...)
}
