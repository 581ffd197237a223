package attack

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
)

const jsonPath = "/api/v1/intake/json/"

func fields(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"f%d":%d`, i, i)
	}
	return "{" + b.String()[1:] + "}"
}

func attackJSON(t *testing.T, a *target) {
	for name, c := range map[string]struct {
		body   string
		status int
		part   string
	}{
		"nothing": {"", 400, "empty"}, "space": {" \n ", 400, "empty"}, "cut array": {`[{"a":1},{"a":`, 400, "position"}, "cut object": {`{"a":1`, 400, "rejected"},
		"one bad line": {"{\"a\":1}\n{\"a\":\n{\"a\":3}", 200, `"accepted":2,"rejected":1`}, "raw NUL": {"{\"a\":\"\x00\"}", 400, "control character"},
		"escaped NUL": {`{"k\u0000":"a\u0000b"}`, 200, `"accepted":1`}, "invalid UTF-8": {"{\"a\":\"\xff\",\"\xfe\":1}", 200, `"accepted":1`}, "repeated keys": {`{"d":1,"d":2}`, 200, `"accepted":1`},
		"31 levels": {strings.Repeat(`{"a":`, 31) + "1" + strings.Repeat("}", 31), 200, ""}, "33 levels": {strings.Repeat(`{"a":`, 33) + "1" + strings.Repeat("}", 33), 400, "deeper"},
		"100,000 levels": {strings.Repeat(`{"a":`, 100_000), 400, "deep"}, "100,000 arrays": {strings.Repeat("[", 100_000), 400, "deep"},
		"1,000 fields": {fields(1000), 200, ""}, "1,001 fields": {fields(1001), 400, "1000 fields"}, "50,000 fields": {fields(50_000), 400, "1000 fields"},
		"a key of 257": {`{"` + strings.Repeat("k", 257) + `":1}`, 400, "256"}, "no key": {`{"":1}`, 200, ""}, "keys of dots": {`{".":1,"..":2,"a.":3,".a":4}`, 200, ""},
		"a record over 1 MiB": {`{"a":1}` + "\n" + `{"m":"` + strings.Repeat("x", 1<<20+1) + `"}`, 200, `"accepted":1,"rejected":1`},
		"reserved names":      {`{"_overflow":{"x":1},"_timestamp":{},"rowid":1}`, 200, ""}, "huge numbers": {`{"b":123456789012345678901234567890,"e":1e400,"z":-0}`, 200, ""},
		"scalars": {"[1,\"a\",null,true,[1]]", 200, `"accepted":5`},
	} {
		r := a.call(t, "POST", jsonPath+"hostile", "application/json", []byte(c.body))
		r.check(t, name, c.status, c.part)
	}
	a.stages(t, func(t *testing.T) {
		a.rows(t, `SELECT count(*) FROM hostile WHERE d = 2`, "[[1]]")
		a.rows(t, "SELECT b, e FROM hostile WHERE b IS NOT NULL", "[[123456789012345678901234567890 1e400]]")
		a.rows(t, `SELECT "_overflow.x", rowid FROM hostile WHERE rowid = 1`, "[[1 1]]")
		a.rows(t, `SELECT count(*) FROM hostile WHERE f999 = 999`, "[[1]]")
	})
	for _, contentType := range []string{"text/xml", "multipart/form-data; boundary=x", "application/x-protobuf", "*/*", strings.Repeat("a", 5000)} {
		r := a.call(t, "POST", jsonPath+"hostile", contentType, []byte(`{"a":1}`))
		r.check(t, contentType, 415)
		r.own(t, contentType, "unsupported_media_type")
	}
	for _, method := range []string{"GET", "PUT", "DELETE", "PATCH", "OPTIONS", "FOO"} {
		r := a.call(t, method, jsonPath+"hostile", "", nil)
		if r.status != 405 || r.header.Get("Allow") != "POST" {
			t.Errorf("%s: %v, allowed %q", method, r, r.header.Get("Allow"))
		}
	}
}

// The suite's files are sent as they are, for the status, and inside of a record, whose value is then queried.
func attackJSONSuite(t *testing.T, a *target) {
	files, err := filepath.Glob("../../ingest/json/testdata/test_parsing/*.json")
	if err != nil || len(files) < 300 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	values := map[string]any{}
	var records []string
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(f)
		r := a.call(t, "POST", jsonPath+"suite_raw", "application/json", text)
		switch {
		case name[0] == 'n' && r.status != 400, name[0] == 'y' && r.status != 200, r.status != 200 && r.status != 400:
			t.Errorf("%s: %v", name, r)
		}
		if name[0] == 'y' {
			values[name] = decoded(t, "["+string(text)+"]")
			records = append(records, `{"file":`+quote(name)+`,"v":[`+string(text)+"]}")
		}
	}
	a.want(t, 200, "POST", jsonPath+"suite", "application/json", []byte("["+strings.Join(records, ",")+"]"), fmt.Sprintf(`"accepted":%d,"rejected":0`, len(records)))
	a.stages(t, func(t *testing.T) {
		_, rows := a.ask(t, "SELECT file, v FROM suite")
		if len(rows) != len(values) {
			t.Fatalf("%d records of %d", len(rows), len(values))
		}
		for _, row := range rows {
			name, text := row[0].(string), row[1].(string)
			if got := decoded(t, text); !reflect.DeepEqual(got, values[name]) {
				t.Errorf("%s: %s, want %v", name, text, values[name])
			}
		}
	})
}

// decoded reads JSON with its numbers as exact values.
func decoded(t *testing.T, text string) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Errorf("%q: %v", text, err)
	}
	return exact(v)
}

func exact(v any) any {
	switch v := v.(type) {
	case json.Number:
		if r, ok := new(big.Rat).SetString(v.String()); ok {
			return r.String()
		}
	case []any:
		for i := range v {
			v[i] = exact(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = exact(v[k])
		}
	}
	return v
}

// A time that cannot be one is kept as a field, and the record has its arrival's.
func attackTimes(t *testing.T, a *target) {
	odd := []string{`"nonsense"`, "1e300", "{}", `"2999-01-01T00:00:00Z"`, `"1600-01-01T00:00:00Z"`, `"NaN"`, `""`, "true", `"2026-02-30T00:00:00Z"`, `"10001-01-01T00:00:00Z"`}
	for i, v := range odd {
		a.send(t, "times", fmt.Sprintf(`{"i":%d,"_timestamp":%s}`, i, v))
	}
	a.want(t, 400, "POST", jsonPath+"times", "application/json", []byte(`{"_timestamp":9223372036854775807}`), "too far in the future")
	a.send(t, "times", `{"i":100,"_timestamp":-1}`, `{"i":101,"_timestamp":0}`, `{"i":102,"_timestamp":"2016-12-31T23:59:60Z"}`)
	a.stages(t, func(t *testing.T) {
		a.rows(t, "SELECT count(*) FROM times WHERE i < 100 AND _timestamp > now() - INTERVAL 1 HOUR AND _timestamp < now() + INTERVAL 1 HOUR", fmt.Sprintf("[[%d]]", len(odd)))
		a.rows(t, "SELECT i, year(_timestamp) FROM times WHERE i >= 100 ORDER BY i", "[[100 1969] [101 1970] [102 2017]]")
	})
}

func packed[W io.WriteCloser](t *testing.T, data []byte, open func(io.Writer) W) []byte {
	t.Helper()
	var b bytes.Buffer
	w := open(&b)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func gz(t *testing.T, data []byte) []byte {
	return packed(t, data, func(w io.Writer) *gzip.Writer { return gzip.NewWriter(w) })
}

func attackEncodings(t *testing.T, a *target) {
	bomb := make([]byte, 100<<20+1)
	zs := func(w io.Writer) *zstd.Encoder {
		e, err := zstd.NewWriter(w)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	good := gz(t, []byte(`{"a":1}`))
	huge := packed(t, bomb[:20<<20], zs)
	for name, c := range map[string]struct {
		encoding string
		body     []byte
		status   int
	}{
		"gzip": {"gzip", good, 200}, "capitals": {"GZIP", good, 200}, "cut": {"gzip", good[:len(good)-4], 400}, "something after": {"gzip", append(bytes.Clone(good), 'x'), 400},
		"not packed, gzip": {"gzip", []byte(`{"a":1}`), 400}, "not packed, zstd": {"zstd", []byte(`{"a":1}`), 400}, "not packed, deflate": {"deflate", []byte(`{"a":1}`), 400},
		"not packed, snappy": {"snappy", []byte(`{"a":1}`), 400}, "brotli": {"br", good, 415}, "two": {"gzip, gzip", gz(t, good), 415}, "unknown": {"x", good, 415},
		"gzip bomb": {"gzip", gz(t, bomb[:20<<20]), 413}, "many members": {"gzip", bytes.Repeat(gz(t, bomb[:1<<20]), 100), 413}, "zstd bomb": {"zstd", huge, 413},
		"zlib bomb":                {"deflate", packed(t, bomb[:20<<20], func(w io.Writer) *zlib.Writer { return zlib.NewWriter(w) }), 413},
		"snappy that claims 4 GiB": {"snappy", []byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0}, 413}, "snappy bomb": {"snappy", snappy.Encode(nil, bomb), 413},
		"snappy frames": {"snappy", packed(t, bomb, func(w io.Writer) *snappy.Writer { return snappy.NewBufferedWriter(w) }), 413},
		"21 MiB":        {"", bytes.Repeat([]byte(`{"a":1}`+"\n"), 21<<17), 413},
	} {
		a.call(t, "POST", jsonPath+"packed", "application/json", c.body, "Content-Encoding: "+c.encoding).check(t, name, c.status)
	}
	for _, path := range []string{"/api/v1/intake/elastic/_bulk", "/api/v1/intake/loki/api/v1/push", "/v1/logs", "/v1/metrics", "/v1/traces"} {
		a.call(t, "POST", path, "application/json", huge, "Content-Encoding: zstd").check(t, path, 413)
	}
	a.call(t, "POST", "/api/v1/query", "application/json", huge, "Content-Encoding: zstd").check(t, "query", 413)
}

func attackNames(t *testing.T, a *target) {
	record := []byte(`{"a":1}`)
	for _, name := range []string{"a%2fb", "..%2f..%2fetc", "%2e%2e", ".hidden", "a%252fb", "%252e%252e%252f", strings.Repeat("a", 129), "%00", "a%00b", "a%20b", "a%0ab", "%ff", "a;b", "a%3fb", "%C3%A4"} {
		r := a.want(t, 400, "POST", jsonPath+name, "application/json", record, "stream name")
		r.own(t, name, "invalid_argument")
		a.call(t, "POST", "/v1/logs", "application/json", []byte(`{"resourceLogs":[{"scopeLogs":[{"logRecords":[{}]}]}]}`), "Stream-Name: "+strings.ReplaceAll(name, "%", "/")).
			check(t, "header "+name, 400, "stream name")
		if r := a.call(t, "GET", "/api/v1/streams/logs/"+name, "", nil); r.status != 404 && r.status != 400 {
			t.Errorf("stream %s: %v", name, r)
		}
	}
	for _, name := range []string{strings.Repeat("a", 128), "-", "_", "A", "a..b", "con"} {
		a.want(t, 200, "POST", jsonPath+name, "application/json", record)
	}
	for _, path := range []string{jsonPath, jsonPath + "a/", jsonPath + "a/b", "/api/v1/nothing", "/api/v2/query", "/etc/passwd", "/api/v1/../../etc/passwd", "//api/v1/query"} {
		if r := a.call(t, "POST", path, "application/json", record); r.status != 404 {
			t.Errorf("%s: %v", path, r)
		}
	}
	bulk := `{"create":{"_index":"../x"}}` + "\n{}\n" + `{"create":{"_index":"good"}}` + "\n{}\n"
	a.want(t, 200, "POST", "/api/v1/intake/elastic/_bulk", "application/x-ndjson", []byte(bulk), `"errors":true`, "invalid_index_name_exception", `"status":201`)
}

// What is sent once and stored with each record must not make a small request large.
func attackAmplification(t *testing.T, a *target) {
	before := a.memory(t)
	entries := strings.TrimSuffix(strings.Repeat(`["1","x"],`, 2000), ",")
	a.want(t, 413, "POST", "/api/v1/intake/loki/api/v1/push", "application/json", []byte(`{"streams":[{"stream":{"big":"`+strings.Repeat("x", 256<<10)+`"},"values":[`+entries+`]}]}`))
	records := strings.TrimSuffix(strings.Repeat("{},", 5000), ",")
	a.want(t, 413, "POST", "/v1/logs", "application/json",
		[]byte(`{"resourceLogs":[{"resource":{"attributes":[{"key":"big","value":{"stringValue":"`+strings.Repeat("x", 256<<10)+`"}}]},"scopeLogs":[{"logRecords":[`+records+`]}]}]}`))
	points := make([]string, 5000)
	for i := range points {
		points[i] = fmt.Sprintf(`{"timeUnixNano":"%d","asInt":"1","attributes":[{"key":"i","value":{"intValue":%d}}]}`, time.Now().UnixNano(), i)
	}
	a.want(t, 413, "POST", "/v1/metrics", "application/json", []byte(`{"resourceMetrics":[{"resource":{"attributes":[{"key":"big","value":{"stringValue":"`+strings.Repeat("x", 60<<10)+
		`"}}]},"scopeMetrics":[{"metrics":[{"name":"amplified","gauge":{"dataPoints":[`+strings.Join(points, ",")+`]}}]}]}]}`))
	if grown := a.memory(t) - before; grown > 700<<20 {
		t.Errorf("small requests made the node grow by %d MiB", grown>>20)
	}
}
