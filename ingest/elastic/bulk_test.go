package elastic

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest/decode"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// reply is what clients read of a reply.
type reply struct {
	Took   int
	Errors bool
	Items  []map[string]struct {
		Index  string `json:"_index"`
		ID     string `json:"_id"`
		Status int
		Result string
		Error  struct{ Type, Reason string }
	}
}

// statuses decodes a body and gives "op status" of each item, as the reply has them.
func statuses(t *testing.T, index, body string) (string, *Bulk, reply) {
	t.Helper()
	b, err := Decode(index, []byte(body), now, decode.Limits{})
	if err != nil {
		return "refused: " + err.Error(), nil, reply{}
	}
	var r reply
	if err := json.Unmarshal(b.Reply(1500*time.Microsecond), &r); err != nil {
		t.Fatalf("%v: %s", err, b.Reply(0))
	}
	var out []string
	for _, it := range r.Items {
		for op, v := range it {
			out = append(out, fmt.Sprint(op, " ", v.Status))
			if (v.Status == 201) != (v.Result == "created") || (v.Status >= 400) != (v.Error.Type != "" && v.Error.Reason != "") {
				t.Errorf("item %+v", v)
			}
		}
	}
	if r.Errors != (b.Rejected > 0) || r.Took != 1 {
		t.Errorf("errors %v, took %d with %d rejected", r.Errors, r.Took, b.Rejected)
	}
	return strings.Join(out, ", "), b, r
}

// TestBulkCases runs the shared cases; what each must give stands beside its name.
func TestBulkCases(t *testing.T) {
	want := map[string]struct {
		statuses string
		accepted int
	}{
		"two index ops with ids": {"index 201, index 201", 2},
		"empty _id":              {"index 201, index 201, index 201", 3},
		"create without id":      {"create 201", 1},
		"malformed action line":  {"refused: Malformed action/metadata line [3], expected FIELD_NAME but found [END_OBJECT]", 0},
		"no trailing newline":    {"index 201", 1},
		"CRLF lines":             {"index 201", 1},
		"delete op":              {"delete 400", 0},
		"source is array":        {"index 400, index 201", 1},
		"blank line inside":      {"index 201, index 201", 2},
	}
	data, err := os.ReadFile("testdata/bulk_cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct{ Name, NDJSON string }
	if err := json.Unmarshal(data, &cases); err != nil || len(cases) != len(want) {
		t.Fatal(len(cases), err)
	}
	for _, c := range cases {
		got, b, _ := statuses(t, "", c.NDJSON)
		accepted := 0
		if b != nil {
			accepted = b.Accepted
		}
		if w := want[c.Name]; got != w.statuses || accepted != w.accepted {
			t.Errorf("%s: %q with %d accepted, want %+v", c.Name, got, accepted, w)
		}
	}
}

func TestBulkItems(t *testing.T) {
	const ok = `{"index":{"_index":"t"}}` + "\n" + `{"f":1}` + "\n"
	for _, c := range []struct{ name, index, body, want string }{
		{"update between", "", ok + `{"update":{"_index":"t","_id":"1"}}` + "\n" + `{"doc":{"f":2}}` + "\n" + ok, "index 201, update 400, index 201"},
		{"delete between", "", ok + `{"delete":{"_index":"t","_id":"1"}}` + "\n" + ok, "index 201, delete 400, index 201"},
		{"malformed document", "", `{"index":{"_index":"t"}}` + "\n" + `{"f":` + "\n" + ok, "index 400, index 201"},
		{"two documents on a line", "", `{"index":{"_index":"t"}}` + "\n" + `{"f":1}{"f":2}` + "\n" + ok, "index 400, index 201"},
		{"document that is text", "", `{"index":{"_index":"t"}}` + "\n" + `"text"` + "\n" + ok, "index 400, index 201"},
		{"no index", "", `{"index":{}}` + "\n" + `{"f":1}` + "\n" + ok, "index 400, index 201"},
		{"index null", "", `{"index":{"_index":null}}` + "\n" + `{"f":1}` + "\n", "index 400"},
		{"index of the path", "p", `{"create":{}}` + "\n" + `{"f":1}` + "\n" + ok + `{"create":{}}` + "\n" + `{"f":1}` + "\n", "create 201, index 201, create 201"},
		{"bad index", "", `{"index":{"_index":"a/b"}}` + "\n" + `{"f":1}` + "\n" + ok, "index 400, index 201"},
		{"hidden index", "", `{"index":{"_index":".kibana"}}` + "\n" + `{"f":1}` + "\n", "index 400"},
		{"other parameters", "", `{"index":{"_index":"t","_type":"_doc","require_alias":false,"retry_on_conflict":3,"routing":null}}` + "\n" + `{"f":1}` + "\n", "index 201"},
		{"from the future", "", `{"index":{"_index":"t"}}` + "\n" + `{"@timestamp":"2027-01-01T00:00:00Z"}` + "\n" + ok, "index 400, index 201"},
		{"too deep", "", `{"index":{"_index":"t"}}` + "\n" + `{"f":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + "}\n" + ok, "index 400, index 201"},
		{"spaces", "", " \n\n " + ok, "index 201"},
	} {
		if got, _, _ := statuses(t, c.index, c.body); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestBulkRefusedAsAWhole(t *testing.T) {
	const ok = `{"index":{"_index":"t"}}` + "\n" + `{"f":1}` + "\n"
	for _, c := range []struct{ body, message string }{
		{"", "request body is required"},
		{" \r\n", "request body is required"},
		{ok + "oops\n", "line [3], an object is expected"},
		{ok + `{"index":{"_index":"t"}` + "\n" + `{"f":1}` + "\n", "line [3], unexpected end"},
		{ok + `{"upsert":{"_index":"t"}}` + "\n" + `{"f":1}` + "\n", "line [3], expected field [create], [delete], [index] or [update] but found [upsert]"},
		{`{"index":{"_index":["t"]}}` + "\n" + `{"f":1}` + "\n", "line [1], expected a simple value for field [_index]"},
		{`{"index":{"_index":"t"},"create":{}}` + "\n" + `{"f":1}` + "\n", "line [1], expected END_OBJECT"},
		{`{"index":{"_index":"t"}} x` + "\n" + `{"f":1}` + "\n", "line [1], something follows the action"},
		{`{"index":"t"}` + "\n" + `{"f":1}` + "\n", "line [1], an object is expected"},
		{`{"index":{"_index":` + "\n" + `{"f":1}` + "\n", "line [1], unexpected end"},
		{ok + `{"index":{"_index":"t"}}` + "\n", "line [3] has no document"},
	} {
		_, err := Decode("", []byte(c.body), now, decode.Limits{})
		if millstream.KindOf(err) != millstream.Invalid || !strings.Contains(err.Error(), c.message) {
			t.Errorf("%q: %v, want %q", c.body, err, c.message)
		}
	}
	many := strings.Repeat(`{"delete":{}}`+"\n", maxActions+1)
	if _, err := Decode("", []byte(many), now, decode.Limits{}); millstream.KindOf(err) != millstream.TooLarge {
		t.Errorf("too many actions: %v", err)
	}
}

func TestBulkStreamsAndIDs(t *testing.T) {
	var body strings.Builder
	for _, index := range []string{"x-2026.11.30", "x-2026.12.01", "y", "x", ".ds-logs-app-default-2026.11.30-000001", "x-2026.11.30"} {
		fmt.Fprintf(&body, "{\"create\":{\"_index\":%q,\"_id\":\"id \\\"%s\\\"\"}}\n{\"f\":%q,\"_index\":\"theirs\"}\n", index, index, index)
	}
	_, b, r := statuses(t, "", body.String())
	got := map[string]string{}
	for _, batch := range b.Batches {
		f, index := batch.Column("f"), batch.Column(IndexField)
		for i := range batch.Rows() {
			got[batch.Name] += f.Str(i) + "=" + index.Str(i) + " "
		}
		if batch.Signal != millstream.Logs {
			t.Errorf("signal %v", batch.Signal)
		}
	}
	want := map[string]string{
		"x":                "x-2026.11.30=x-2026.11.30 x-2026.12.01=x-2026.12.01 x=theirs x-2026.11.30=x-2026.11.30 ",
		"y":                "y=theirs ",
		"logs-app-default": ".ds-logs-app-default-2026.11.30-000001=.ds-logs-app-default-2026.11.30-000001 ",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if it := r.Items[4]["create"]; it.Index != ".ds-logs-app-default-2026.11.30-000001" || it.ID != `id ".ds-logs-app-default-2026.11.30-000001"` {
		t.Errorf("%+v", it)
	}
}

func TestStreamName(t *testing.T) {
	for in, want := range map[string]string{
		"x":                                      "x",
		"x-2026.11.30":                           "x",
		"x-2026.11.30-000001":                    "x",
		"filebeat-8.19.0-2026.11.30":             "filebeat-8.19.0",
		"x-2026.13.30":                           "x-2026.13.30",
		"x-2026.11.00":                           "x-2026.11.00",
		"x-2026-11-30":                           "x-2026-11-30",
		"x-000001":                               "x-000001",
		"-2026.11.30":                            "-2026.11.30",
		"2026.11.30":                             "2026.11.30",
		".ds-logs-app-default-2026.11.30-000001": "logs-app-default",
		".ds-logs-app-default":                   "logs-app-default",
		".ds-":                                   "",
		"":                                       "",
	} {
		if got := StreamName(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestManyIndexes(t *testing.T) {
	var body strings.Builder
	for i := range maxStreams + 2 {
		fmt.Fprintf(&body, "{\"index\":{\"_index\":\"s%d\"}}\n{}\n", i)
	}
	b, err := Decode("", []byte(body.String()), now, decode.Limits{})
	if err != nil || b.Accepted != maxStreams || b.Rejected != 2 {
		t.Errorf("%d accepted, %d rejected, %v", b.Accepted, b.Rejected, err)
	}
}

func TestBodiesAreJSON(t *testing.T) {
	for name, body := range map[string][]byte{
		"root": Root(`n"1`, "id"), "license": License(), "xpack": XPack(), "nodes": Nodes("n", "h:1"), "ack": Acknowledged(), "policy": Policy("p"),
		"template": IndexTemplate("t"), "data stream": DataStream("d"), "pipeline": Pipeline("\x00é"),
		"error": ErrorBody(400, millstream.Errorf(millstream.Invalid, "bad \"thing\"")),
	} {
		var v map[string]any
		if err := json.Unmarshal(body, &v); err != nil {
			t.Errorf("%s: %v: %s", name, err, body)
		}
	}
	var e struct {
		Status int
		Error  struct {
			Type, Reason string
			RootCause    []struct{ Type, Reason string } `json:"root_cause"`
		}
	}
	if err := json.Unmarshal(ErrorBody(429, millstream.Errorf(millstream.RateLimited, "slow down")), &e); err != nil || e.Status != 429 ||
		e.Error.Type != "es_rejected_execution_exception" || e.Error.Reason != "slow down" || len(e.Error.RootCause) != 1 {
		t.Errorf("%+v %v", e, err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"index":{"_index":"t"}}` + "\n" + `{"f":1}` + "\n"))
	f.Add([]byte(`{"delete":{"_id":"1"}}` + "\r\n" + `{"create":{"_index":".ds-a-2026.01.01-000001"}}` + "\n" + `{"a":{"b":[1]}}`))
	f.Add([]byte(`{"update":{"_index":"x-2026.11.30"}}` + "\n\n" + `{}` + "\n" + `{"index":{}}` + "\n" + `[`))
	f.Fuzz(func(t *testing.T, body []byte) {
		b, err := Decode("d", body, now, decode.Limits{})
		if err != nil {
			return
		}
		var r reply
		if err := json.Unmarshal(b.Reply(0), &r); err != nil || len(r.Items) != b.Accepted+b.Rejected {
			t.Fatalf("%d items, %d accepted, %d rejected, %v", len(r.Items), b.Accepted, b.Rejected, err)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	var body []byte
	for i := range 2000 {
		body = fmt.Appendf(body, `{"create":{"_index":"logs-app-default"}}`+"\n"+`{"@timestamp":"2026-03-01T11:59:59.%06dZ","level":"info","service":"api-gateway","pod":"api-gateway-5709ba31d-%x","trace_id":"%032x","status":200,"duration_ms":%d.5,"message":"10.3.86.29 - - \"POST /api/v1/products/%d HTTP/1.1\" 200 922 rt=0.1190"}`+"\n", i, i, i*7919, i%300, i)
	}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		bulk, err := Decode("", body, now, decode.Limits{})
		if err != nil || bulk.Rejected > 0 {
			b.Fatal(err)
		}
		bulk.Reply(time.Millisecond)
	}
}
