package json

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/millstream/millstream/ingest/decode"
)

// sampleLogs makes request logs of the usual shape: a time, a dozen short fields, three ids, a message; some with escapes, two variants of fields.
func sampleLogs(rows int) []byte {
	var b bytes.Buffer
	t := time.Date(2026, 11, 29, 19, 0, 0, 69047226, time.UTC)
	for i := range rows {
		t = t.Add(7919 * time.Microsecond)
		fmt.Fprintf(&b, `{"timestamp":"%s","level":"info","service":"api-gateway","cluster":"prod-eu-1","namespace":"platform","pod":"api-gateway-5709ba31d-%x","container":"app","node":"node-%d","trace_id":"%032x","span_id":"%016x","request_id":"66d2a7b8-b265-7976-9c3d-%012x","user_id":"u%d",`,
			t.Format(time.RFC3339Nano), i%70000, i%40, i*7919, i*104729, i, i%50000)
		if i%3 == 0 {
			fmt.Fprintf(&b, `"method":"POST","path":"/api/v1/products/%d","status":200,"duration_ms":%d.%03d,"bytes":%d,"client_ip":"10.3.86.29","message":"10.3.86.29 - - \"POST /api/v1/products/%d HTTP/1.1\" 200 922 \"-\" \"okhttp/5.1.0\" rt=0.1190"}`, i, i%300, i%1000, i%5000, i)
		} else {
			fmt.Fprintf(&b, `"thread":"worker-%d","message":"job calawir completed: processed %d items, skipped 43, elapsed 242ms ctx=lixapas leduqi gefupur pumelor qojemul vozerin mucirur qesenir"}`, i%40, i)
		}
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// BenchmarkDecode decodes requests of 2,000 records. MILLSTREAM_BENCH_NDJSON names a file of NDJSON to take instead of the built-in sample. cpu-s/GB counts
// the processor time of the whole process, its garbage collection included.
func BenchmarkDecode(b *testing.B) {
	body := sampleLogs(20_000)
	if name := os.Getenv("MILLSTREAM_BENCH_NDJSON"); name != "" {
		var err error
		if body, err = os.ReadFile(name); err != nil {
			b.Fatal(err)
		}
	}
	for _, rows := range []int{1, 100, 2000} {
		b.Run(fmt.Sprint("rows=", rows), func(b *testing.B) {
			requests := split(body, rows)
			now := time.Date(2026, 11, 30, 1, 0, 0, 0, time.UTC)
			b.ReportAllocs()
			total, i := 0, 0
			before := cpu()
			for b.Loop() {
				r := requests[i%len(requests)]
				res, err := Decode("app", r, now, decode.Limits{})
				if err != nil || res.Rejected > 0 {
					b.Fatal(err, res.Errors)
				}
				total += len(r)
				i++
			}
			b.SetBytes(int64(total / b.N))
			b.ReportMetric((cpu()-before).Seconds()/float64(total)*1e9, "cpu-s/GB")
		})
	}
}

// split cuts NDJSON into bodies of so many lines, not too many bodies.
func split(body []byte, rows int) (out [][]byte) {
	for len(body) > 0 && len(out) < 200 {
		end := 0
		for range rows {
			n := bytes.IndexByte(body[end:], '\n')
			if n < 0 {
				end = len(body)
				break
			}
			end += n + 1
		}
		out, body = append(out, body[:end]), body[end:]
	}
	return out
}

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
