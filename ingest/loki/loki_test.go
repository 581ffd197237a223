package loki

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest/decode"
	"google.golang.org/protobuf/encoding/protowire"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// rows shows a result as a line per record: its time, then its fields.
func rows(res decode.Result) string {
	var out []string
	for _, b := range res.Batches {
		for i := range b.Rows() {
			line := fmt.Sprint(b.Times[i])
			for k := range b.Columns {
				if c := &b.Columns[k]; c.IsValid(i) {
					line += " " + c.Name + "=" + c.Text(i)
				}
			}
			out = append(out, line)
		}
	}
	return strings.Join(out, "|")
}

func zip(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(b)
	_ = w.Close()
	return out.Bytes()
}

// send does what the call does: reads the body and decodes it.
func send(contentType, encoding string, wire []byte) (decode.Result, error) {
	body, err := Body(bytes.NewReader(wire), contentType, encoding, decode.Limits{})
	if err != nil {
		return decode.Result{}, err
	}
	return Decode("default", contentType, body, now, decode.Limits{})
}

func TestPushCases(t *testing.T) {
	const bar = "1570818238000000000 foo=bar message="
	want := map[string]string{ // what is stored; "" is refused
		"empty body": "", "missing content type": "", "line is object": "", "structured metadata not string": "", "gzip body declared snappy": "", "unknown content type": "",
		"plain json": bar + "line", "json with charset": bar + "line", "gzip": bar + "line", "ns timestamp as number": bar + "line",
		"structured metadata": "1570818238000000000 foo=bar trace_id=0242ac120002 a=b message=line",
		"two streams":         bar + "a|" + bar + "b|1570818238000000000 foo=baz message=c",
	}
	data, err := os.ReadFile("testdata/push_cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct{ Name, CT, Enc, Body string }
	if err := json.Unmarshal(data, &cases); err != nil || len(cases) != len(want) {
		t.Fatal(len(cases), err)
	}
	for _, c := range cases {
		wire := []byte(c.Body)
		if c.Enc == "gzip" || c.Body == "<gzip bytes>" {
			wire = zip([]byte(`{"streams":[{"stream":{"foo":"bar"},"values":[["1570818238000000000","line"]]}]}`))
		}
		res, err := send(c.CT, c.Enc, wire)
		if k := millstream.KindOf(err); err != nil && k != millstream.Invalid && k != millstream.Unsupported {
			t.Errorf("%s: kind %d: %v", c.Name, k, err)
		}
		if got := rows(res); got != want[c.Name] || (err != nil) != (got == "") {
			t.Errorf("%s: %q %v, want %q", c.Name, got, err, want[c.Name])
		}
	}
}

func TestJSON(t *testing.T) {
	for in, want := range map[string]string{
		`{"streams":[]}`: "",
		` { "other" : [1] , "streams" : [ { "values" : [ [ "1" , "a" ] , ["2","b",{}] ] , "stream" : { "x" : "y" } } ] } `:                    "1 x=y message=a|2 x=y message=b",
		`{"streams":[{"stream":{"message":"label","_timestamp":"z","a.b":"c"},"values":[["-5","the line",{"message":"meta"}]]}]}`:             "-5 message=the line _timestamp.value=z a.b=c",
		`{"streams":[{"stream":{"a":"1"},"values":[["1","x",{"m":"1"}],["2","y"]]},{"stream":{"b":"2"},"values":[["3","z"]]}]}`:               "1 a=1 m=1 message=x|2 a=1 message=y|3 message=z b=2",
		`{"streams":[{"stream":{},"values":[["1","\u0000\n\ud800 \"q\""]]}]}`:                                                                 "1 message=\x00\n\ufffd \"q\"",
		`{"streams":[{"stream":{"a":"1"},"values":[["9000000000000000000","late"],["1","in time"]]}]}`:                                        "1 a=1 message=in time",
		`{"streams":[{"stream":{"` + strings.Repeat("k", 300) + `":"1"},"values":[["1","x"]]},{"stream":{"a":"1"},"values":[["2","kept"]]}]}`: "2 a=1 message=kept",
	} {
		res, err := Decode("s", "application/json", []byte(in), now, decode.Limits{})
		if got := rows(res); err != nil || got != want {
			t.Errorf("%.200s\n got %q %v\nwant %q", in, got, err, want)
		}
	}
}

func TestJSONRefused(t *testing.T) {
	for _, in := range []string{
		``, ` `, `[]`, `x`, `{"streams":{}}`, `{"streams":[1]}`, `{"streams":[{"stream":[],"values":[]}]}`, `{"streams":[{"stream":{"a":1},"values":[]}]}`,
		`{"streams":[{"stream":{},"values":[["x","line"]]}]}`, `{"streams":[{"stream":{},"values":[["1"]]}]}`, `{"streams":[{"stream":{},"values":[["1","x",{},1]]}]}`,
		`{"streams":[{"stream":{},"values":[["1","x"]]}]} x`, `{"streams":[{"stream":{},"values":[["1","x"]]}]`, `{"streams":[{"stream":{},"values":[["1.5","x"]]}]}`,
		`{"streams":[{"stream":{},"values":[["99999999999999999999","x"]]}]}`, `{"streams":[{"stream":{},"values":[[true,"x"]]}]}`, `{"streams":[{"values":[["1",2]]}]}`,
		`{"streams":[{"stream":{},"values":[["9223372036854775808","x"]]}]}`, `{"streams":[{"stream":{},"values":[["","x"]]}]}`,
	} {
		if res, err := Decode("s", "application/json", []byte(in), now, decode.Limits{}); millstream.KindOf(err) != millstream.Invalid {
			t.Errorf("%s: %v %v", in, rows(res), err)
		}
	}
}

// message appends the fields of a protobuf message: strings and messages, or varints.
func message(fields ...any) (out []byte) {
	for i := 0; i < len(fields); i += 2 {
		num := protowire.Number(fields[i].(int))
		switch v := fields[i+1].(type) {
		case string:
			out = protowire.AppendString(protowire.AppendTag(out, num, protowire.BytesType), v)
		case []byte:
			out = protowire.AppendBytes(protowire.AppendTag(out, num, protowire.BytesType), v)
		case int:
			out = protowire.AppendVarint(protowire.AppendTag(out, num, protowire.VarintType), uint64(v))
		case float64:
			out = protowire.AppendFixed64(protowire.AppendTag(out, num, protowire.Fixed64Type), uint64(v))
		}
	}
	return out
}

func entry(sec, nanos int, line string, meta ...string) []byte {
	out := message(1, message(1, sec, 2, nanos), 2, line)
	for i := 0; i < len(meta); i += 2 {
		out = append(out, message(3, message(1, meta[i], 2, meta[i+1]))...)
	}
	return out
}

func TestProtobuf(t *testing.T) {
	for _, c := range []struct {
		name string
		body []byte
		want string
	}{
		{"two streams", message(1, message(1, `{foo="bar", q="a\"\\\n"}`, 2, entry(1570818238, 5, "x", "trace_id", "02"), 2, entry(2, 0, "y"), 3, 77), 1, message(1, `{ "utf.8" = "v" , }`, 2, entry(3, 0, "z")), 2, "format"),
			"1570818238000000005 foo=bar q=a\"\\\n trace_id=02 message=x|2000000000 foo=bar q=a\"\\\n message=y|3000000000 message=z utf.8=v"},
		{"labels last", message(1, message(2, entry(1, 0, "x"), 1, `{a="b"}`)), "1000000000 a=b message=x"},
		{"no labels", message(1, message(1, `{}`, 2, entry(-1, 999999999, "x"))), "-1 message=x"},
		{"unknown fields", message(9, 1.5, 1, message(9, 1, 2, message(8, "?", 1, message(1, 1), 2, "x"))), "1000000000 message=x"},
		{"bad UTF-8", message(1, message(1, `{a="\xff"}`, 2, entry(1, 0, "x\xff\xfey"))), "1000000000 a=\ufffd message=x\ufffd\ufffdy"},
		{"time out of range", message(1, message(2, entry(1<<40, 0, "x"), 2, entry(1, 2_000_000_000, "y"), 2, entry(7_000_000_000, 0, "late"), 2, entry(1, 0, "kept"))), "1000000000 message=kept"},
	} {
		res, err := send("application/x-protobuf", "", snappy.Encode(nil, c.body))
		if got := rows(res); err != nil || got != c.want {
			t.Errorf("%s:\n got %q %v\nwant %q", c.name, got, err, c.want)
		}
		if again, err := send("application/x-protobuf", "snappy", snappy.Encode(nil, c.body)); err != nil || rows(again) != c.want {
			t.Errorf("%s, with the encoding named: %v", c.name, err)
		}
		for cut := range c.body { // a cut message is an error or what came before; never a panic
			_, _ = Decode("s", "", c.body[:cut], now, decode.Limits{})
		}
	}
	for _, labels := range []string{`{`, `}`, ``, `{a}`, `{a=}`, `{a=b}`, `{a="b"`, `{a="b" c="d"}`, `{="b"}`, `{a="b"}x`, `{a="\q"}`} {
		if res, err := Decode("s", "", message(1, message(1, labels, 2, entry(1, 0, "x"))), now, decode.Limits{}); millstream.KindOf(err) != millstream.Invalid {
			t.Errorf("labels %s: %v %v", labels, rows(res), err)
		}
	}
}

func TestErrorText(t *testing.T) {
	res, err := Decode("s", "application/json", []byte(`{"streams":[{"values":[["1","x"],["9000000000000000000","y"]]}]}`), now, decode.Limits{})
	got := ErrorText(res)
	if err != nil || !strings.HasPrefix(got, "entry 1 ignored, reason: 'the time 2255-") || !strings.HasSuffix(got, "total ignored: 1 out of 2") {
		t.Errorf("%q %v", got, err)
	}
	if got := ErrorText(decode.Result{Accepted: 1}); got != "" {
		t.Errorf("%q", got)
	}
}

func FuzzJSON(f *testing.F) {
	f.Add([]byte(`{"streams":[{"stream":{"foo":"bar"},"values":[["1570818238000000000","line",{"a":"b"}]]}]}`))
	f.Add([]byte(`{"streams":[{"values":[["1","\ud83d\ude00"]],"stream":{}}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if res, err := Decode("s", "application/json", body, now, decode.Limits{}); err == nil && !json.Valid(body) {
			t.Fatalf("%q was accepted as %s", body, rows(res))
		}
	})
}

func FuzzProtobuf(f *testing.F) {
	f.Add(message(1, message(1, `{foo="bar"}`, 2, entry(1570818238, 5, "x", "trace_id", "02"))))
	f.Fuzz(func(_ *testing.T, body []byte) { _, _ = Decode("s", "", body, now, decode.Limits{}) })
}

func BenchmarkDecode(b *testing.B) {
	var js, pb []byte
	js = append(js, `{"streams":[{"stream":{"service":"api","level":"info"},"values":[`...)
	stream := message(1, `{service="api", level="info"}`)
	for i := range 2000 {
		line := fmt.Sprintf(`10.3.86.29 - - "POST /api/v1/products/%d HTTP/1.1" 200 922 "-" "okhttp/5.1.0" rt=0.1190`, i)
		if i > 0 {
			js = append(js, ',')
		}
		js = fmt.Appendf(js, `["%d",%q,{"trace_id":"%032x"}]`, 1772366400000000000+i, line, i)
		stream = append(stream, message(2, entry(1772366400, i, line, "trace_id", fmt.Sprintf("%032x", i)))...)
	}
	js, pb = append(js, "]}]}"...), message(1, stream)
	for name, body := range map[string][]byte{"application/json": js, "application/x-protobuf": pb} {
		b.Run(name[12:], func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if res, err := Decode("s", name, body, now, decode.Limits{}); err != nil || res.Accepted != 2000 {
					b.Fatal(err)
				}
			}
		})
	}
}
