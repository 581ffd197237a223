package json

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest/decode"
	"github.com/millstream/millstream/ingest/decode/scan"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// rows shows a result as a line per record: time as an offset from now unless it is now, then the fields that are set, with their type.
func rows(res decode.Result) []string {
	var out []string
	for _, b := range res.Batches {
		for i := range b.Rows() {
			line := ""
			if d := time.Duration(b.Times[i] - now.UnixNano()); d != 0 {
				line = d.String() + " "
			}
			for k := range b.Columns {
				if c := &b.Columns[k]; c.IsValid(i) {
					line += fmt.Sprintf("%s:%s=%s ", c.Name, c.Type, c.Text(i))
				}
			}
			out = append(out, strings.TrimSuffix(line, " "))
		}
	}
	return out
}

func TestJSONTestSuite(t *testing.T) {
	files, err := filepath.Glob("testdata/test_*/*.json")
	if err != nil || len(files) < 300 {
		t.Fatal(len(files), err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		body, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		res, err := Decode("s", body, now, decode.Limits{})
		refused := err != nil || (res.Accepted == 0 && res.Rejected > 0) // both are answered with 400
		if k := millstream.KindOf(err); err != nil && k != millstream.Invalid && k != millstream.TooLarge {
			t.Errorf("%s: kind %d: %v", name, k, err)
		}
		switch {
		case strings.HasPrefix(name, "n_") && !refused:
			t.Errorf("%s was accepted as %q", name, rows(res))
		case strings.HasPrefix(name, "y_") && (refused || res.Rejected > 0):
			t.Errorf("%s was refused: %v %v", name, err, res.Errors)
		case strings.HasPrefix(name, "y_"):
			checkIntact(t, name, body, res)
		}
	}
}

// checkIntact compares what was stored of a valid document with what encoding/json reads.
func checkIntact(t *testing.T, name string, body []byte, res decode.Result) {
	t.Helper()
	var doc any
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.UseNumber()
	if err := d.Decode(&doc); err != nil {
		t.Fatal(name, err)
	}
	records, isArray := doc.([]any)
	if !isArray {
		records = []any{doc}
	}
	if res.Accepted != len(records) {
		t.Errorf("%s: %d records, want %d", name, res.Accepted, len(records))
		return
	}
	if len(records) == 0 {
		return
	}
	for i, rec := range records {
		if err := sameRecord(res.Batches[0], i, rec); err != nil {
			t.Errorf("%s, record %d: %v", name, i, err)
		}
	}
}

// sameRecord says how row i differs from what encoding/json made of the record.
func sameRecord(b *millstream.Batch, i int, rec any) error {
	want := map[string]any{}
	if object, ok := rec.(map[string]any); ok {
		flatten(want, "", object)
	} else {
		want["message"] = rec
	}
	for k := range b.Columns {
		c := &b.Columns[k]
		v, ok := want[c.Name]
		if !c.IsValid(i) {
			continue
		}
		if !ok {
			return fmt.Errorf("field %q = %q should not be", c.Name, c.Text(i))
		}
		if !sameValue(c, i, v) {
			return fmt.Errorf("field %q = %s %q, want %v", c.Name, c.Type, c.Text(i), v)
		}
		delete(want, c.Name)
	}
	for name, v := range want {
		return fmt.Errorf("field %q = %v is missing", name, v)
	}
	return nil
}

func flatten(out map[string]any, prefix string, object map[string]any) {
	for k, v := range object {
		if prefix == "" && k == "" {
			k = "_empty"
		}
		switch v := v.(type) {
		case nil:
		case map[string]any:
			if len(v) == 0 {
				out[prefix+k] = v
			}
			flatten(out, prefix+k+".", v)
		default:
			out[prefix+k] = v
		}
	}
}

func sameValue(c *millstream.Column, i int, v any) bool {
	switch v := v.(type) {
	case string:
		return c.Type == millstream.String && c.Str(i) == v
	case bool: // in a widened column as text
		return c.Text(i) == fmt.Sprint(v)
	case json.Number:
		if n, err := v.Int64(); err == nil && c.Type == millstream.Int64 {
			return c.Ints[i] == n
		}
		f, err := v.Float64()
		if text, textErr := strconv.ParseFloat(c.Text(i), 64); c.Type == millstream.String && textErr == nil && err == nil {
			return text == f
		}
		return c.Type == millstream.Double && err == nil && c.Floats[i] == f || c.Type == millstream.String && c.Str(i) == v.String()
	}
	var got any // arrays, empty objects and null, kept as JSON text
	d := json.NewDecoder(strings.NewReader(c.Str(i)))
	d.UseNumber()
	return d.Decode(&got) == nil && fmt.Sprint(got) == fmt.Sprint(v)
}

func TestRecords(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":{"b":{"c":1,"d":"x"},"e":true},"f":-2.5}`:              `a.b.c:int64=1 a.b.d:string=x a.e:bool=true f:double=-2.5`,
		`{"a":{},"b":{"c":{}},"d":[],"e":[1, {"x":[2]}],"g":null}`:   `a:string={} b.c:string={} d:string=[] e:string=[1, {"x":[2]}]`,
		`{"a":1,"a":2,"A":3}`:                                        `a:int64=2 A:int64=3`,
		`{"a":1,"b":2,"a":null}`:                                     `b:int64=2`,
		`{"a":null,"a":1}`:                                           `a:int64=1`,
		`{"":1,"x":{"":2,"y":3}}`:                                    `_empty:int64=1 x.:int64=2 x.y:int64=3`,
		`{"k\u0000\n":"v\u0000\ud83d\ude00\/"}`:                      "k\x00\n:string=v\x00😀/",
		`{"a":"\ud800","b":"\udc00x","c":"\ud800\u0041"}`:            "a:string=\ufffd b:string=\ufffdx c:string=\ufffdA",
		"{\"a\":\"\xff\xfe\",\"b\xff\":[\"\xe0\x80\"]}":              "a:string=\ufffd\ufffd b\ufffd:string=[\"\ufffd\ufffd\"]",
		`{"a":9223372036854775807,"b":-9223372036854775808,"c":-0}`:  `a:int64=9223372036854775807 b:int64=-9223372036854775808 c:int64=0`,
		`{"a":9223372036854775808,"b":18446744073709551616}`:         `a:string=9223372036854775808 b:string=18446744073709551616`,
		`{"a":1e400,"b":-1e400,"c":1e-400,"d":1E2,"e":1.0,"f":-0.0}`: `a:string=1e400 b:string=-1e400 c:double=0 d:double=100 e:double=1 f:double=-0`,
		`"just text"`: `message:string=just text`,
		`12`:          `message:string=12`,
		`null`:        `message:string=null`,
		`{}`:          ``,
		" \t\r\n{\"a\" :\n 1 , \"b\":\t2\r\n}\n ":                                                     `a:int64=1 b:int64=2`,
		"\xef\xbb\xbf{\"a\":1}":                                                                       `a:int64=1`,
		`{"_overflow":"x","_overflow.y":1}`:                                                           `_overflow.value:string=x _overflow.y:int64=1`,
		`{"timestamp":"2026-03-01T11:59:59Z","a":1}`:                                                  `-1s a:int64=1`,
		`{"ts":1772366400,"time":"2026-03-01T11:59:59Z","a":1}`:                                       `-1s a:int64=1 ts:int64=1772366400`,
		`{"@timestamp":"2026-03-01T12:00:00.5+00:00","_timestamp":1772366399999}`:                     `-1ms @timestamp:string=2026-03-01T12:00:00.5+00:00`,
		`{"_timestamp":"no time","@timestamp":"nor this","time":1772366401.5,"ts":true}`:              `1.5s _timestamp.value:string=no time @timestamp:string=nor this ts:bool=true`,
		`{"time":12.5,"ts":"worker-7"}`:                                                               `time:double=12.5 ts:string=worker-7`,
		`{"time":{"a":1},"ts":[1]}`:                                                                   `time.a:int64=1 ts:string=[1]`,
		`{"ts":"2026\/03\/01 11:59"}`:                                                                 `-1m0s`,
		`{"time":1772366399,"time":1772366400}`:                                                       ``,
		`{"time":1772366399,"time":null}`:                                                             ``,
		`{"x":{"time":1772366399}}`:                                                                   `x.time:int64=1772366399`,
		`{"timestamp":"Sun, 01 Mar 2026 12:00:00 GMT"}`:                                               ``,
		`{"a":0.1,"b":123456789.123456789,"c":1e22,"d":1e23,"e":4.9e-324,"f":0.30000000000000004}`:    `a:double=0.1 b:double=123456789.12345679 c:double=1e+22 d:double=1e+23 e:double=5e-324 f:double=0.30000000000000004`,
		`{"a":100000000000000000000000000000000000000000000000e-46,"b":0.00000000000000000000001e23}`: `a:double=10 b:double=1`,
	} {
		res, err := Decode("s", []byte(in), now, decode.Limits{})
		if got := rows(res); err != nil || len(got) != 1 || got[0] != want {
			t.Errorf("%s\n got %q %v %v\nwant %q", in, got, err, res.Errors, want)
		}
	}
}

func TestFraming(t *testing.T) {
	for _, c := range []struct {
		name, in, want string
		rejected       []int
	}{
		{"array", `[{"a":1}, 2 ,"x",[3],{"a":4}]`, "a:int64=1|message:string=2|message:string=x|message:string=[3]|a:int64=4", nil},
		{"empty array", ` [ ] `, "", nil},
		{"lines", "{\"a\":1}\n{\"a\":2}\r\n\n  \n{\"a\":3}", "a:int64=1|a:int64=2|a:int64=3", nil},
		{"bad line between", "{\"a\":1}\n{\"a\":oops}\n{\"a\":3}\n", "a:int64=1|a:int64=3", []int{1}},
		{"bad first line", "garbage\n{\"a\":2}\n", "a:int64=2", []int{0}},
		{"two bad lines", "{\"a\":1}\nx\ny\n{\"a\":2}\n", "a:int64=1|a:int64=2", []int{1, 2}},
		{"line cut in a string", "{\"a\":\"1\n{\"a\":2}\n", "a:int64=2", []int{0}},
		{"line cut at a comma", "{\"a\":1,\n{\"a\":2}\n{\"a\":3}\n", "a:int64=2|a:int64=3", []int{0}},
		{"line cut at a colon", "{\"a\":1}\n{\"a\":\n{\"a\":3}\n{\"a\":4}\n", "a:int64=1|a:int64=3|a:int64=4", []int{1}},
		{"last line cut", "{\"a\":1}\n{\"a\":", "a:int64=1", []int{1}},
		{"two on a line", "{\"a\":1} {\"a\":2}\n{\"a\":3}", "a:int64=3", []int{0}},
		{"printed documents", "{\n \"a\": 1\n}\n{\n \"a\": 2\n}\n", "a:int64=1|a:int64=2", nil},
		{"printed document with an error", "{\n \"a\": 1\n}\n{\n \"a\" 2\n}\n{\n \"a\": 3\n}", "a:int64=1|a:int64=3", []int{1}},
		{"text lines", "\"x\"\ntrue\n", "message:string=x|message:string=true", nil},
		{"too deep beside good", "{\"a\":" + strings.Repeat("[", 32) + strings.Repeat("]", 32) + "}\n{\"a\":2}", "a:int64=2", []int{0}},
		{"too deep objects", "[" + strings.Repeat(`{"a":`, 33) + "1" + strings.Repeat("}", 33) + `,{"a":2}]`, "a:int64=2", []int{0}},
		{"deep enough", strings.Repeat(`{"a":`, 32) + "1" + strings.Repeat("}", 32), strings.Repeat("a.", 31) + "a:int64=1", nil},
		{"future", "{\"ts\":\"2026-03-01T13:00:00Z\"}\n{\"ts\":\"2026-03-01T13:00:01Z\",\"a\":1}", "1h0m0s", []int{1}},
		{"key too long", `[{"` + strings.Repeat("k", 257) + `":1},{"a":1}]`, "a:int64=1", []int{0}},
		{"prefix too long", `[{"` + strings.Repeat("k", 300) + `":{"a":1,"b":null}},{"a":1}]`, "a:int64=1", []int{0}},
		{"record too large", `[{"a":"` + strings.Repeat("x", 1<<20+1) + `","b":""},{"a":1,"b":2}]`, "a:int64=1 b:int64=2", []int{0}},
	} {
		res, err := Decode("s", []byte(c.in), now, decode.Limits{})
		got := strings.Join(rows(res), "|")
		if err != nil || got != c.want || res.Rejected != len(c.rejected) || len(res.Errors) != len(c.rejected) {
			t.Errorf("%s: %.200q %v %v, want %q", c.name, got, res.Errors, err, c.want)
			continue
		}
		for i, want := range c.rejected {
			if res.Errors[i].Index != want || res.Errors[i].Reason == "" {
				t.Errorf("%s: rejection %+v, want index %d", c.name, res.Errors[i], want)
			}
		}
	}
}

func TestRejectionsNameTheField(t *testing.T) {
	in := `[{"a":{"b":[[[1]]]}},{"a":{"b":{"c":{"d":1}}}},{"time":"2036-01-01T00:00:00Z"},{"a":1,"b":2,"c":3,"d":4},{"x":"` + strings.Repeat("y", 100) + `"}]`
	res, err := Decode("s", []byte(in), now, decode.Limits{Limits: millstream.Limits{MaxDepth: 3, MaxFields: 3, MaxRecord: 99}})
	if err != nil || res.Accepted != 0 || res.Rejected != 5 {
		t.Fatal(res, err)
	}
	for i, want := range []string{"a.b", "a.b.c", "_timestamp", "d", "x"} {
		if e := res.Errors[i]; e.Index != i || e.Field != want || e.Reason == "" {
			t.Errorf("%+v, want field %s", e, want)
		}
	}
}

func TestRefusedAsAWhole(t *testing.T) {
	for _, c := range []struct {
		in       string
		position int
	}{
		{"", 0}, {" \n\t ", 0}, {"\xef\xbb\xbf", 0}, {"\xef\xbb\xbf[x]", 5}, {`[{"a":1},{"a":x},{"a":2}]`, 15}, {`[{"a":1}`, 9}, {`[{"a":1}]x`, 10}, {`[{"a":1},]`, 10},
		{"{\n \"a\": [\n  1,\n  2\n ]\n \"b\": 2\n}\n", 24},
	} {
		_, err := Decode("s", []byte(c.in), now, decode.Limits{})
		e, ok := err.(*millstream.Error)
		if !ok || e.Kind != millstream.Invalid || e.Position != c.position {
			t.Errorf("%q: %+v, want position %d", c.in, e, c.position)
		}
	}
	if _, err := Decode("../x", []byte(`{}`), now, decode.Limits{}); millstream.KindOf(err) != millstream.Invalid {
		t.Errorf("stream name: %v", err)
	}
}

// TestCutLinesCostLinearTime: each line is a valid beginning that all following lines continue. What is read twice must stay bounded.
func TestCutLinesCostLinearTime(t *testing.T) {
	body := []byte(strings.Repeat("{\"a\":\n", 1<<18) + "{\"a\":1}")
	d := decoder{Records: scan.NewRecords(body, now, decode.Limits{}), b: millstream.NewBuilder(millstream.Limits{})}
	if err := d.lines(0); err != nil || d.b.Rows() != 1 || d.result.Rejected != 1<<18 {
		t.Errorf("%d accepted, %d rejected, %v", d.b.Rows(), d.result.Rejected, err)
	}
	if d.wasted > 2*maxWasted {
		t.Errorf("%d bytes were read in vain", d.wasted)
	}
}

func TestTypesWidenWithinARequest(t *testing.T) {
	res, err := Decode("s", []byte("{\"n\":1}\n{\"n\":2.5}\n{\"n\":\"x\"}\n{\"n\":true}\n{\"n\":[1]}\n{\"n\":18446744073709551615}"), now, decode.Limits{})
	want := "n:string=1|n:string=2.5|n:string=x|n:string=true|n:string=[1]|n:string=18446744073709551615"
	if got := strings.Join(rows(res), "|"); err != nil || got != want {
		t.Errorf("%q %v", got, err)
	}
}

// FuzzDecode: whatever comes, no panic; and a valid object gives what encoding/json gives.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"a":{"b":[1,2]},"c":"\u00e9\ud83d\ude00","d":-1.5e3}`, "{\"a\":1}\n{\"a\":\n{}", `[1,"x",{"time":1772366400}]`, `{"":{"":{}}}`, "{\"\xff\":\"\\ud800\"}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		res, err := Decode("s", body, now, decode.Limits{MaxFuture: -1})
		var doc map[string]any
		d := json.NewDecoder(strings.NewReader(string(body)))
		d.UseNumber()
		if d.Decode(&doc) != nil || doc == nil || d.More() || !unambiguous(doc) || strings.TrimSpace(string(body[d.InputOffset():])) != "" {
			return
		}
		if err != nil || res.Accepted != 1 {
			t.Fatalf("%q was refused: %v %v", body, err, res.Errors)
		}
		if err := sameRecord(res.Batches[0], 0, doc); err != nil {
			t.Fatalf("%q: %v", body, err)
		}
		// Once more as the second and third of an array, where the order of fields is known already.
		body = fmt.Appendf(nil, "[%s,%s,%s]", body, body, body)
		if res, err = Decode("s", body, now, decode.Limits{MaxFuture: -1}); err != nil || res.Accepted != 3 {
			t.Fatalf("%q was refused: %v %v", body, err, res.Errors)
		}
		for i := range 3 {
			if err := sameRecord(res.Batches[0], i, doc); err != nil {
				t.Fatalf("%q, record %d: %v", body, i, err)
			}
		}
	})
}

// TestRandomRecords decodes records whose fields come and go, change order and type, and compares each with encoding/json.
func TestRandomRecords(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		var body []byte
		var docs []map[string]any
		for range 1 + rnd.IntN(80) {
			doc := randomObject(rnd, 0)
			line, err := json.Marshal(doc)
			if err != nil {
				t.Fatal(err)
			}
			body = append(append(body, line...), '\n')
			d := json.NewDecoder(strings.NewReader(string(line)))
			d.UseNumber()
			if err := d.Decode(&doc); err != nil {
				t.Fatal(err)
			}
			docs = append(docs, doc)
		}
		res, err := Decode("s", body, now, decode.Limits{})
		if err != nil || res.Accepted != len(docs) {
			t.Fatalf("seed %d: %v %v", seed, err, res.Errors)
		}
		for i, doc := range docs {
			if err := sameRecord(res.Batches[0], i, doc); err != nil {
				t.Fatalf("seed %d, record %d of %s: %v", seed, i, body, err)
			}
		}
	}
}

func randomObject(rnd *rand.Rand, depth int) map[string]any {
	names := []string{"a", "b", "level", "q\"uote", "ünï", "msg\n", "long_field_name", "n"}
	object := map[string]any{}
	for range rnd.IntN(7) {
		name := names[rnd.IntN(len(names))]
		switch rnd.IntN(10) {
		case 0:
			object[name] = rnd.IntN(2) == 0
		case 1:
			object[name] = nil
		case 2:
			object[name] = rnd.NormFloat64()
		case 3:
			object[name] = []any{rnd.IntN(9), "x", nil}
		case 4:
			if depth < 3 {
				object[name] = randomObject(rnd, depth+1)
			}
		case 5, 6:
			object[name] = rnd.Int64() >> rnd.IntN(63)
		default:
			object[name] = strings.Repeat("text \"é\u2028\\", rnd.IntN(4))
		}
	}
	return object
}

// unambiguous says that a document has no names with dots, no empty or reserved ones, no times and no keys that are equal but for invalid bytes.
func unambiguous(doc map[string]any) bool {
	for k, v := range doc {
		if k == "" || strings.ContainsAny(k, ".\ufffd") || k[0] == '_' || k == "@timestamp" || k == "timestamp" || k == "time" || k == "ts" {
			return false
		}
		if m, ok := v.(map[string]any); ok && !unambiguous(m) {
			return false
		}
	}
	return true
}
