package attack

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/prompb"
	collogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

const protobuf = "application/x-protobuf"

// statusOf reads OTLP/HTTP's error body, which has the encoding of the request.
func statusOf(t *testing.T, what string, r reply, contentType string) *status.Status {
	t.Helper()
	var s status.Status
	var err error
	if contentType == protobuf {
		err = proto.Unmarshal([]byte(r.body), &s)
	} else {
		err = protojson.Unmarshal([]byte(r.body), &s)
	}
	if err != nil || s.GetMessage() == "" || r.header.Get("Content-Type") != contentType {
		t.Errorf("%s: the error body is %q as %s (%v), want a status as %s", what, r.body, r.header.Get("Content-Type"), err, contentType)
	}
	return &s
}

func attackOTLP(t *testing.T, a *target) {
	for _, path := range []string{"/v1/logs", "/v1/metrics", "/v1/traces", "/api/v1/intake/otlp/v1/logs"} {
		for _, contentType := range []string{"application/json", protobuf} {
			for name, body := range map[string]string{"0xff": strings.Repeat("\xff", 100), "zeros": strings.Repeat("\x00", 100), "groups": strings.Repeat("\x0b", 1000), "a length that lies": "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
				"a list": "[]", "deep": strings.Repeat(`{"resourceLogs":`, 5000), "cut": `{"resourceLogs":[{`} {
				what := path + " " + contentType + " " + name
				r := a.call(t, "POST", path, contentType, []byte(body))
				r.check(t, what, 400)
				statusOf(t, what, r, contentType)
			}
			r := a.call(t, "POST", path, contentType, nil, "Authorization: Bearer ms_nothing_nothing")
			r.check(t, path, 401)
			statusOf(t, path+" without credentials", r, contentType)
		}
		for _, contentType := range []string{"text/xml", "", "application/x-protobuff"} {
			a.call(t, "POST", path, contentType, []byte("x")).check(t, path+" "+contentType, 415)
		}
		if r := a.call(t, "POST", path, protobuf, nil); r.status != 200 || r.body != "" {
			t.Errorf("%s with nothing in it: %v", path, r)
		}
	}
	value := &common.AnyValue{}
	for range 3000 {
		value = &common.AnyValue{Value: &common.AnyValue_ArrayValue{ArrayValue: &common.ArrayValue{Values: []*common.AnyValue{value}}}}
	}
	deep, err := proto.Marshal(&collogs.ExportLogsServiceRequest{ResourceLogs: []*logs.ResourceLogs{{ScopeLogs: []*logs.ScopeLogs{{LogRecords: []*logs.LogRecord{{Body: value}, {}}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	if r := a.call(t, "POST", "/v1/logs", protobuf, deep); r.status != 400 && r.status != 200 {
		t.Errorf("a body of 3,000 levels: %v", r)
	}
	log := func(records string) []byte {
		return []byte(`{"resourceLogs":[{"scopeLogs":[{"logRecords":[` + records + `]}]}]}`)
	}
	a.want(t, 200, "POST", "/v1/logs", "application/json", log(`{"timeUnixNano":"18446744073709551615"},{}`), `"rejectedLogRecords":"1"`)
	a.want(t, 200, "POST", "/v1/logs", "application/json", log(`{"attributes":[{"value":{"stringValue":"x"}}]},{}`), `"rejectedLogRecords":"1"`)
	a.want(t, 200, "POST", "/v1/traces", "application/json", []byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"no ids"}]}]}]}`), `"rejectedSpans":"1"`)
	now := fmt.Sprint(time.Now().UnixNano())
	for _, m := range map[string]string{
		"no name": `{"gauge":{"dataPoints":[{"asInt":"1","timeUnixNano":"` + now + `"}]}}`, "no time": `{"name":"m","gauge":{"dataPoints":[{"asInt":"1"}]}}`,
		"bounds":         `{"name":"m","histogram":{"dataPoints":[{"timeUnixNano":"` + now + `","bucketCounts":[1,2],"explicitBounds":[1,2,3]}]}}`,
		"scale":          `{"name":"m","exponentialHistogram":{"dataPoints":[{"timeUnixNano":"` + now + `","scale":2147483647,"count":"1","positive":{"offset":2147483647,"bucketCounts":["1"]}}]}}`,
		"the far future": `{"name":"m","gauge":{"dataPoints":[{"asInt":"1","timeUnixNano":"18446744073709551615"}]}}`,
	} {
		a.want(t, 200, "POST", "/v1/metrics", "application/json", []byte(`{"resourceMetrics":[{"scopeMetrics":[{"metrics":[`+m+`]}]}]}`), `"rejectedDataPoints":"1"`)
	}
}

func attackGRPC(t *testing.T, a *target) {
	conn, err := grpc.NewClient(a.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	client := collogs.NewLogsServiceClient(conn)
	export := func(req *collogs.ExportLogsServiceRequest, md ...string) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := client.Export(metadata.AppendToOutgoingContext(ctx, md...), req)
		return err
	}
	one := func(body string) *collogs.ExportLogsServiceRequest {
		return &collogs.ExportLogsServiceRequest{ResourceLogs: []*logs.ResourceLogs{{ScopeLogs: []*logs.ScopeLogs{{LogRecords: []*logs.LogRecord{{Body: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: body}}}}}}}}}
	}
	good := []string{"authorization", "Bearer " + a.Token}
	for name, c := range map[string]struct {
		err  error
		want codes.Code
	}{
		"nobody": {export(one("x")), codes.Unauthenticated}, "somebody": {export(one("x"), "authorization", "Bearer ms_aaaaaaaa_"+strings.Repeat("a", 52)), codes.Unauthenticated},
		"another organization": {export(one("x"), append(good, "x-org-id", "nobodys")...), codes.PermissionDenied},
		"a bad stream":         {export(one("x"), append(good, "stream-name", "../x")...), codes.InvalidArgument},
		"nothing":              {export(&collogs.ExportLogsServiceRequest{}, good...), codes.OK}, "a record": {export(one("over gRPC"), good...), codes.OK},
		"105 MiB": {export(one(strings.Repeat("x", 105<<20)), good...), codes.ResourceExhausted},
	} {
		if got := grpcstatus.Code(c.err); got != c.want {
			t.Errorf("%s: %v, want %v", name, c.err, c.want)
		}
	}
	var out collogs.ExportLogsServiceResponse
	ctx := metadata.AppendToOutgoingContext(t.Context(), good...)
	if err := conn.Invoke(ctx, "/opentelemetry.proto.collector.logs.v1.LogsService/Nothing", one("x"), &out); grpcstatus.Code(err) != codes.Unimplemented {
		t.Errorf("a method that is not there: %v", err)
	}
	raw, err := net.Dial("tcp", a.GRPC)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = raw.Close() }()
	if _, err := raw.Write([]byte(strings.Repeat("GET / HTTP/1.1\r\n\xff\x00", 1000))); err != nil {
		t.Log(err) // it may have been cut off already
	}
	a.rows(t, `SELECT count(*) FROM "default" WHERE message = 'over gRPC'`, "[[1]]")
}

func attackElastic(t *testing.T, a *target) {
	const path = "/api/v1/intake/elastic/_bulk"
	var cases []struct{ Name, NDJSON, Expect string }
	read(t, "../../ingest/elastic/testdata/bulk_cases.json", &cases)
	for _, c := range cases {
		r := a.call(t, "POST", path, "application/x-ndjson", []byte(c.NDJSON))
		if want := strings.HasPrefix(c.Expect, "400"); want != (r.status == 400) || !want && r.status != 200 {
			t.Errorf("%s: %v, want %s", c.Name, r, c.Expect)
		}
		if r.header.Get("X-Elastic-Product") != "Elasticsearch" {
			t.Errorf("%s: no product header", c.Name)
		}
	}
	for name, body := range map[string]string{"nothing": "", "a new line": "\n", "not JSON": "hello\nworld\n", "an unknown action": `{"frob":{"_index":"t"}}` + "\n{}\n", "two actions": `{"index":{},"create":{}}` + "\n{}\n",
		"no document": `{"index":{"_index":"t"}}` + "\n", "deep": strings.Repeat(`{"index":`, 50_000), "0xff": "\xff\xff\xff\n"} {
		r := a.call(t, "POST", path, "application/x-ndjson", []byte(body))
		r.check(t, name, 400, `"root_cause"`, `"status":400`)
	}
	mixed := `{"create":{"_index":"es"}}` + "\n" + `{"a":` + "\n" + `{"create":{"_index":"es"}}` + "\n[1]\n" + `{"delete":{"_index":"es","_id":"1"}}` + "\n" + `{"update":{"_index":"es","_id":"1"}}` + "\n{}\n" +
		`{"create":{"_index":"es"}}` + "\n" + `{"a":1}` + "\n"
	var reply struct {
		Errors bool
		Items  []map[string]struct{ Status int }
	}
	r := a.want(t, 200, "POST", path, "application/x-ndjson", []byte(mixed))
	if err := json.Unmarshal([]byte(r.body), &reply); err != nil || !reply.Errors || len(reply.Items) != 5 || reply.Items[4]["create"].Status != 201 || reply.Items[0]["create"].Status != 400 {
		t.Errorf("good and bad documents: %v", r)
	}
	a.rows(t, "SELECT count(*) FROM es", "[[1]]")
	r = a.call(t, "POST", path, "application/x-ndjson", []byte("{}"), "Authorization: ")
	r.check(t, "no credentials", 401, "security_exception")
}

func read(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}

func attackLoki(t *testing.T, a *target) {
	const path = "/api/v1/intake/loki/api/v1/push"
	var cases []struct{ Name, CT, Enc, Body, Expect string }
	read(t, "../../ingest/loki/testdata/push_cases.json", &cases)
	for _, c := range cases {
		body, headers := []byte(c.Body), []string{"Content-Encoding: " + c.Enc}
		if c.Enc == "gzip" {
			body = gz(t, body)
		}
		r := a.call(t, "POST", path, c.CT, body, headers...)
		if r.status >= 500 || strings.HasPrefix(c.Expect, "204") != (r.status == 204) && !strings.Contains(c.Expect, "ccept") {
			t.Errorf("%s: %v, want %s", c.Name, r, c.Expect)
		}
	}
	for name, body := range map[string]string{"nothing": "", "0xff": "\xff\x00\x01", "a time": `{"streams":[{"stream":{},"values":[["soon","x"]]}]}`, "a long time": `{"streams":[{"stream":{},"values":[["99999999999999999999999","x"]]}]}`,
		"half an entry": `{"streams":[{"stream":{},"values":[["1"]]}]}`, "no stream": `{"streams":[null]}`, "deep": strings.Repeat(`{"streams":[`, 50_000), "cut": `{"streams":[{"stream":{"a":"b"},"values":[["1","x"]`} {
		r := a.call(t, "POST", path, "application/json", []byte(body))
		r.check(t, name, 400)
		if !strings.HasPrefix(r.header.Get("Content-Type"), "text/plain") {
			t.Errorf("%s: an error as %s", name, r.header.Get("Content-Type"))
		}
	}
	a.call(t, "POST", path, "text/xml", []byte("x")).check(t, "XML", 415)
	a.call(t, "POST", path, protobuf, []byte("\xff\x00\x01")).check(t, "protobuf", 400)
	a.call(t, "POST", path, "application/json", []byte("{}"), "Authorization: ").check(t, "no credentials", 401)
}

func attackRemoteWrite(t *testing.T, a *target) {
	const path, v2 = "/api/v1/intake/prometheus/api/v1/write", "application/x-protobuf;proto=io.prometheus.write.v2.Request"
	ms := time.Now().UnixMilli()
	series := func(at int64, pairs ...string) prompb.TimeSeries {
		s := prompb.TimeSeries{Samples: []prompb.Sample{{Value: 1, Timestamp: at}}}
		for i := 0; i < len(pairs); i += 2 {
			s.Labels = append(s.Labels, prompb.Label{Name: pairs[i], Value: pairs[i+1]})
		}
		return s
	}
	request := func(ts ...prompb.TimeSeries) []byte {
		b, err := (&prompb.WriteRequest{Timeseries: ts}).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		return snappy.Encode(nil, b)
	}
	good := series(ms, "__name__", "written")
	for name, c := range map[string]struct {
		contentType, encoding string
		body                  []byte
		status                int
	}{
		"good": {protobuf, "snappy", request(good), 204}, "no name": {protobuf, "snappy", request(good, series(ms, "a", "b")), 400}, "a label twice": {protobuf, "snappy", request(series(ms, "__name__", "m", "a", "1", "a", "2")), 400},
		"invalid UTF-8": {protobuf, "snappy", request(series(ms, "__name__", "m", "a", "\xff")), 400}, "the future": {protobuf, "snappy", request(series(ms+1e9, "__name__", "m")), 400}, "the end of time": {protobuf, "snappy", request(series(1<<62, "__name__", "m")), 400},
		"a long label": {protobuf, "snappy", request(series(ms, "__name__", "m", "a", strings.Repeat("x", 1<<20))), 400}, "NULs": {protobuf, "snappy", request(series(ms, "__name__", "m\x00", "a\x00", "\x00")), 204},
		"not snappy": {protobuf, "snappy", []byte("hello"), 400}, "nothing": {protobuf, "snappy", nil, 400}, "not protobuf": {protobuf, "snappy", snappy.Encode(nil, []byte("\xff\xff\xff")), 400}, "version 2": {v2, "snappy", snappy.Encode(nil, []byte("\xff\xff")), 400},
		"no encoding": {protobuf, "", request(good), 415}, "zstd": {protobuf, "zstd", request(good), 415}, "XML": {"text/xml", "snappy", request(good), 415}, "another message": {"application/x-protobuf;proto=io.other", "snappy", request(good), 415},
		"a bomb": {protobuf, "snappy", []byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0}, 413},
	} {
		a.call(t, "POST", path, c.contentType, c.body, "Content-Encoding: "+c.encoding).check(t, name, c.status)
	}
	a.rows(t, "SELECT count(*) > 0 FROM metrics.written", "[[true]]")
}

// raw sends bytes and gives what comes back until the node closes, or the first line of it.
func (a *target) raw(t *testing.T, text string) string {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(a.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = conn.Write([]byte(text)) }() // the node may close before all of it is sent
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil && line == "" {
		return err.Error()
	}
	return strings.TrimSpace(line)
}

func attackWire(t *testing.T, a *target) {
	head := "POST " + jsonPath + "wire HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + a.Token + "\r\nContent-Type: application/json\r\n"
	for name, c := range map[string]struct{ text, want string }{
		"two lengths":         {head + "Content-Length: 7\r\nContent-Length: 8\r\n\r\n{\"a\":1}", "400"},
		"a length below zero": {head + "Content-Length: -1\r\n\r\n", "400"}, "length and chunks": {head + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n7\r\n{\"a\":1}\r\n0\r\n\r\n", ""},
		"chunks": {head + "Transfer-Encoding: chunked\r\n\r\n3\r\n{\"a\r\n4\r\n\":1}\r\n0\r\n\r\n", "200"}, "a chunk that is none": {head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", "400"},
		"a chunk of 2^64": {head + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n", "400"}, "unknown transfer": {head + "Transfer-Encoding: gzip\r\n\r\n", "501"},
		"many headers": {head + strings.Repeat("X-A: "+strings.Repeat("b", 100)+"\r\n", 1000) + "\r\n", "431"}, "a long header": {head + "X-A: " + strings.Repeat("b", 100_000) + "\r\n\r\n", "431"},
		"a long path": {"GET /" + strings.Repeat("a", 100_000) + " HTTP/1.1\r\nHost: x\r\n\r\n", "431"}, "no host": {"GET /api/v1/healthz HTTP/1.1\r\n\r\n", "400"}, "not HTTP": {"\x16\x03\x01\x02\x00\x01\x00", "400"},
		"a NUL in a header": {head + "X-A: \x00\r\nContent-Length: 0\r\n\r\n", "400"}, "HTTP/9": {"GET / HTTP/9.9\r\nHost: x\r\n\r\n", "505"}, "a bad path": {"GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n", "400"},
	} {
		if got := a.raw(t, c.text); !strings.Contains(got, c.want) || strings.Contains(got, " 500 ") {
			t.Errorf("%s: %q, want %s", name, got, c.want)
		}
	}
	for range 50 { // bodies that are cut off
		conn, err := net.Dial("tcp", strings.TrimPrefix(a.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write([]byte(head + "Content-Length: 1000\r\n\r\n{\"a\":"))
		_ = conn.Close()
	}
	a.send(t, "wire", `{"after":1}`)
	a.rows(t, "SELECT count(*) FROM wire WHERE after = 1", "[[1]]")
}
