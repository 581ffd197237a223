package compactor

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/segment/metrics/metricstest"
)

// workload makes records as a fleet of services writes them: values are skewed, ids are random, texts follow templates.
type workload struct {
	r     *rand.Rand
	b     *millstream.Builder
	begin int64
	words []string
	pods  []string
}

func newWorkload(seed uint64) *workload {
	w := &workload{r: rand.New(rand.NewPCG(seed, 9)), b: millstream.NewBuilder(millstream.Limits{}), begin: time.Date(2026, 3, 10, 6, 0, 0, 0, time.UTC).UnixNano()}
	names := rand.New(rand.NewPCG(1, 1)) // the same for every seed
	for range 4000 {
		var s strings.Builder
		for range 2 + names.IntN(3) {
			s.WriteByte("bcdfglmnprst"[names.IntN(12)])
			s.WriteByte("aeiou"[names.IntN(5)])
		}
		w.words = append(w.words, s.String())
	}
	for i := range 101 {
		w.pods = append(w.pods, fmt.Sprintf("%s-%x-%x", w.words[i/4], i*7919, names.Uint32()))
	}
	return w
}

// skewed is a number below n; small ones are much more frequent.
func (w *workload) skewed(n int) int {
	x := w.r.Float64()
	return int(float64(n) * x * x * x)
}

func (w *workload) word() string { return w.words[w.skewed(len(w.words))] }

func (w *workload) text(name string, format string, args ...any) {
	w.b.String([]byte(name), fmt.Appendf(nil, format, args...))
}

func (w *workload) int(name string, v int64) { w.b.Int([]byte(name), v) }

// process adds what all records of one process have.
func (w *workload) process() {
	pod := w.skewed(len(w.pods))
	w.text("service", "%s-%s", w.words[pod/4], w.words[pod/16])
	w.text("namespace", "%s", w.words[pod/20])
	w.text("pod", "%s", w.pods[pod])
	w.text("node", "node-%d", pod%14)
	w.text("container", "app")
	w.text("cluster", "prod-eu-1")
}

var logForms = []func(w *workload) string{
	func(w *workload) string {
		return fmt.Sprintf("request completed for order %d in %dms cache=%s shard=%d ctx=%s %s %s", w.r.IntN(1e6), w.skewed(2000), w.word(), w.r.IntN(100), w.word(), w.word(), w.word())
	},
	func(w *workload) string {
		return fmt.Sprintf("published event order.%s to topic %s-events partition=%d offset=%d ctx=%s %s", w.word(), w.word(), w.r.IntN(64), w.r.IntN(1e6), w.word(), w.word())
	},
	func(w *workload) string {
		return fmt.Sprintf("loaded %d rows from table %s_%s in %dms using index idx_%s_%d ctx=%s %s %s", w.r.IntN(1e6), w.word(), w.word(), w.skewed(900), w.word(), w.r.IntN(100), w.word(), w.word(), w.word())
	},
	func(w *workload) string {
		return fmt.Sprintf("upstream %s failed: read tcp 10.%d.%d.7: connection reset by peer after %dms", w.word(), w.r.IntN(256), w.r.IntN(256), w.skewed(9000))
	},
	func(w *workload) string {
		return fmt.Sprintf("write to table %s_%s failed\ngoroutine %d [running]:%s", w.word(), w.word(), w.r.IntN(1e5), strings.Repeat(fmt.Sprintf("\nacme.io/%s.(*Server).%s\n\t/src/%s/server.go:%d", w.word(), w.word(), w.word(), w.r.IntN(900)), 4))
	},
}

// logs is n records, step nanoseconds apart, the first at a number of nanoseconds.
func (w *workload) logs(n int, at, step int64) *millstream.Batch {
	for i := range n {
		w.process()
		w.text("level", "%s", []string{"info", "debug", "warn", "error"}[w.skewed(4)])
		w.text("trace_id", "%016x%016x", w.r.Uint64(), w.r.Uint64())
		w.text("span_id", "%016x", w.r.Uint64())
		w.text("request_id", "%016x%016x", w.r.Uint64(), w.r.Uint64())
		if w.r.IntN(100) < 85 {
			w.text("user_id", "u%d", w.skewed(200_000))
		}
		if w.r.IntN(100) < 44 {
			status, took, ip := int64(200+w.skewed(5)*100), float64(w.skewed(2_000_000))/1e3, w.r.IntN(1<<18)
			w.text("method", "%s", []string{"GET", "POST", "PUT", "DELETE"}[w.skewed(4)])
			w.text("path", "/api/v1/%s/%d/items", w.words[w.skewed(12)], w.r.IntN(1e6))
			w.int("status", status)
			w.b.Double([]byte("duration_ms"), took)
			w.int("bytes", int64(w.skewed(60_000)))
			w.text("client_ip", "10.%d.%d.%d", ip>>16, ip>>8&255, ip&255)
			w.text("message", `10.%d.%d.%d - - "GET /api/v1/%s/%d/items HTTP/1.1" %d %d "-" "Mozilla/5.0 (X11; Linux x86_64) Chrome/140.0" rt=%.4f`, ip>>16, ip>>8&255, ip&255,
				w.words[w.skewed(12)], w.r.IntN(1e6), status, w.skewed(60_000), took/1e3)
		} else {
			w.int("thread", int64(w.r.IntN(64)))
			w.text("message", "%s", logForms[w.skewed(len(logForms))](w))
		}
		w.commit(at + int64(i)*step)
	}
	return w.b.Batch()
}

// traces is n spans.
func (w *workload) traces(n int, at, step int64) *millstream.Batch {
	trace := ""
	for i := range n {
		if i%9 == 0 {
			trace = fmt.Sprintf("%016x%016x", w.r.Uint64(), w.r.Uint64())
		} else {
			w.text("parent_span_id", "%016x", w.r.Uint64())
		}
		w.process()
		w.text("trace_id", "%s", trace)
		w.text("span_id", "%016x", w.r.Uint64())
		w.text("kind", "%s", []string{"server", "client"}[i%2])
		w.int("duration", int64(w.skewed(2e9)))
		if i%2 == 0 {
			w.text("name", "GET /api/v1/%s/#", w.words[w.skewed(12)])
			w.int("http.status_code", int64(200+w.skewed(5)*100))
			w.text("user_id", "u%d", w.skewed(200_000))
		} else {
			name := "select " + w.words[w.skewed(300)]
			w.text("name", "%s", name)
			w.text("db.system", "postgresql")
			w.text("db.statement", "%s where id = %d", name, w.r.IntN(100_000))
		}
		w.text("status", "%s", []string{"ok", "ok", "error"}[w.skewed(3)])
		w.commit(at + int64(i)*step)
	}
	return w.b.Batch()
}

// wide is n records of as many fields, of which each record lacks one in eight.
func (w *workload) wide(n, fields int, at, step int64) *millstream.Batch {
	names := make([][]byte, fields)
	for f := range names {
		names[f] = fmt.Appendf(nil, "field_%04d", f)
	}
	for i := range n {
		for f, name := range names {
			if (f+i)%8 == 0 {
				continue
			}
			switch f % 5 {
			case 0:
				w.b.String(name, []byte(w.word()))
			case 1:
				w.b.Double(name, w.r.Float64())
			default:
				w.b.Int(name, int64(w.skewed(1e6)))
			}
		}
		w.commit(at + int64(i)*step)
	}
	return w.b.Batch()
}

// large is n records of size bytes.
func (w *workload) large(n, size int, at, step int64) *millstream.Batch {
	for i := range n {
		var s strings.Builder
		for s.Len() < size {
			s.WriteString(w.word())
			s.WriteByte(' ')
		}
		w.text("message", "%s", s.String())
		w.text("service", "%s", w.words[i%20])
		w.commit(at + int64(i)*step)
	}
	return w.b.Batch()
}

// unique is n records of as many words, of which none stands anywhere else.
func (w *workload) unique(n, words int, at, step int64) *millstream.Batch {
	for i := range n {
		var s strings.Builder
		for range words {
			fmt.Fprintf(&s, "%x ", w.r.Uint32())
		}
		w.text("message", "%s", s.String())
		w.commit(at + int64(i)*step)
	}
	return w.b.Batch()
}

func (w *workload) commit(at int64) {
	if err := w.b.Commit(w.begin + at); err != nil {
		panic(err)
	}
}

// samples is ticks of a fleet of exporters from one tick on, as a node's head holds them.
func samples(m *metricstest.Workload, from, ticks int) *millstream.Batch {
	return &millstream.Batch{Samples: m.Batch(0, len(m.Keys), from, from+ticks)}
}

// manySeries is samples of n series of one name, as of pods that come and go.
func manySeries(first, n, ticks int) *millstream.Batch {
	s := &millstream.Samples{}
	at := newWorkload(1).begin / 1e6
	for i := range n {
		key, err := millstream.EncodeLabels(nil, []millstream.Label{{Name: "__name__", Value: "container_cpu_usage_seconds_total"}, {Name: "namespace", Value: fmt.Sprint("team-", (first+i)%40)},
			{Name: "pod", Value: fmt.Sprintf("worker-%08x-%d", (first+i)*2654435761&0xffffffff, first+i)}, {Name: "container", Value: "app"}, {Name: "node", Value: fmt.Sprint("node-", i%200)}})
		if err != nil {
			panic(err)
		}
		s.Series = append(s.Series, string(key))
	}
	for k := range ticks {
		for i := range n {
			s.Ref, s.Time, s.Value = append(s.Ref, uint32(i)), append(s.Time, at+int64(k)*15_000), append(s.Value, float64(i%1000)+float64(k))
		}
	}
	return &millstream.Batch{Samples: s}
}

// longSeries is n series of one name with a sample every 40 ms, from a tick of 2 ms on.
func longSeries(n, from, ticks int) *millstream.Batch {
	b := manySeries(0, n, ticks)
	begin := b.Samples.Time[0]
	for i := range b.Samples.Time {
		b.Samples.Time[i] = begin + int64(from)*2 + int64(i/n)*40
	}
	return b
}
