package clustertest

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/millstream/millstream/internal/mstest"
)

// batch is n records of an ordinary web service, numbered from first on, as NDJSON.
func batch(first, n int) []byte {
	var b bytes.Buffer
	levels := []string{"info", "info", "info", "warn", "error"}
	for i := first; i < first+n; i++ {
		fmt.Fprintf(&b, `{"level":%q,"service":"svc-%d","host":"host-%d","status":%d,"duration_ms":%d.%d,"user_id":"u%d","trace_id":"%032x","path":"/api/v1/orders/%d","message":"GET /api/v1/orders/%d finished with %d after %d ms for customer %d in region eu-%d"}`+"\n",
			levels[i%5], i%20, i%50, 200+i%4*100, i%900, i%10, i%20000, i*7919, i%5000, i%5000, 200+i%4*100, i%900, i%20000, i%4)
	}
	return b.Bytes()
}

// BenchmarkIngestPerCPU writes batches of 500 records to sixteen streams, in turns to a standalone node and to a router with two intakes that have eight each, and
// counts the processor time of every process of the product until the records are segments: rows per CPU second of both shapes, and the ratio, which is what this is for. Sixteen senders keep
// two processors busy; with four, processes sleep and wake between batches, three of them more often than one.
func BenchmarkIngestPerCPU(b *testing.B) {
	for _, senders := range []int{4, 16} {
		b.Run(fmt.Sprintf("%d senders", senders), func(b *testing.B) { ingestPerCPU(b, senders) })
	}
}

// shape is a way to run the product: where to send, and the processes that take part in a write.
type shape struct {
	entry *mstest.Node
	all   []*mstest.Node
	used  time.Duration
}

func ingestPerCPU(b *testing.B, senders int) {
	const rows, streams, round = 500, 16, 500
	alone := mstest.Start(b, "MS_COMPACTOR_INTERVAL_SECS=3600") // the cluster has no compactor, so that merges are in neither sum
	c := mstest.StartCluster(b, mstest.ClusterOptions{}, "router", "intake*2", "querier")
	shapes := []*shape{{entry: alone, all: []*mstest.Node{alone}}, {entry: c.Router(), all: append(c.Of("router"), c.Of("intake")...)}}
	bodies := make([][]byte, 64)
	for i := range bodies {
		bodies[i] = batch(i*rows, rows)
	}
	names := evenly(b, c, streams)
	send := func(to *mstest.Node, n int) {
		var wg sync.WaitGroup
		for s := range senders {
			wg.Go(func() {
				for i := s; i < n; i += senders {
					status, body := to.Do("POST", "/api/v1/intake/json/"+names[i%streams], to.Token, "application/x-ndjson", bodies[i%len(bodies)])
					if status != http.StatusOK {
						b.Errorf("status %d: %s", status, body)
						return
					}
				}
			})
		}
		wg.Wait()
	}
	for _, s := range shapes {
		send(s.entry, 2*streams)
		s.settle()
	}
	b.ResetTimer()
	for done := 0; done < b.N; done += round {
		for _, s := range shapes {
			before := s.cpu()
			send(s.entry, min(round, b.N-done))
			s.used += s.settle() - before
		}
	}
	for _, s := range shapes { // a record costs what it costs until it is in a segment in the object store
		before := s.cpu()
		s.entry.Flush()
		s.used += s.settle() - before
	}
	perSecond := func(s *shape) float64 { return float64(b.N*rows) / s.used.Seconds() }
	b.ReportMetric(perSecond(shapes[0]), "standalone-rows/CPU-s")
	b.ReportMetric(perSecond(shapes[1]), "cluster-rows/CPU-s")
	b.ReportMetric(100*perSecond(shapes[1])/perSecond(shapes[0]), "%")
	b.ReportMetric(0, "ns/op")
}

const rowsTaken = "millstream_ingest_rows_total"

// evenly is names of n streams, of which each of the cluster's two intakes has half.
func evenly(b *testing.B, c *mstest.Cluster, n int) (names []string) {
	first, of := c.Of("intake")[0], [2]int{}
	for i := 0; len(names) < n; i++ {
		name, before := fmt.Sprintf("bench-%d", i), metric(b, first, rowsTaken)
		if status, body := c.Router().Do("POST", "/api/v1/intake/json/"+name, c.Router().Token, "application/x-ndjson", batch(0, 1)); status != http.StatusOK {
			b.Fatalf("status %d: %s", status, body)
		}
		owner := 0
		if metric(b, first, rowsTaken) == before {
			owner = 1
		}
		if of[owner] < n/2 {
			of[owner]++
			names = append(names, name)
		}
	}
	return names
}

func (s *shape) cpu() (sum time.Duration) {
	for _, n := range s.all {
		sum += n.CPU()
	}
	return sum
}

// settle waits until the processes have done what a round left them to do, for they must not do it in the other shape's, and tells their CPU time then.
func (s *shape) settle() time.Duration {
	for last := s.cpu(); ; {
		time.Sleep(100 * time.Millisecond)
		now := s.cpu()
		if now-last <= 10*time.Millisecond { // a clock tick: heartbeats and the like go on
			return now
		}
		last = now
	}
}

// BenchmarkSmallQuery asks the same small question of a standalone node and through a router, in turns, and tells the medians.
func BenchmarkSmallQuery(b *testing.B) {
	alone := mstest.Start(b)
	c := mstest.StartCluster(b, mstest.ClusterOptions{}, "router", "intake", "querier")
	shapes := map[string]*mstest.Node{"standalone": alone, "router": c.Router()}
	for _, n := range shapes {
		if status, body := n.Do("POST", "/api/v1/intake/json/small", n.Token, "application/x-ndjson", batch(0, 1000)); status != http.StatusOK {
			b.Fatalf("status %d: %s", status, body)
		}
		n.Flush()
	}
	ask := func(n *mstest.Node) time.Duration {
		began := time.Now()
		n.SQL("SELECT level, count(*) AS n FROM small GROUP BY level")
		return time.Since(began)
	}
	took := map[string][]time.Duration{}
	for range 20 {
		for _, n := range shapes {
			ask(n)
		}
	}
	b.ResetTimer()
	for range b.N {
		for name, n := range shapes {
			took[name] = append(took[name], ask(n))
		}
	}
	median := func(name string) float64 {
		slices.Sort(took[name])
		return float64(took[name][len(took[name])/2].Microseconds()) / 1000
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median("standalone"), "standalone-ms")
	b.ReportMetric(median("router"), "router-ms")
	b.ReportMetric(median("router")-median("standalone"), "overhead-ms")
}

// BenchmarkUnflushedElsewhere asks a querier for a million records that an intake has not flushed: the first time, again, and after 10,000 more.
func BenchmarkUnflushedElsewhere(b *testing.B) {
	const rows, each = 1_000_000, 5_000
	c := mstest.StartCluster(b, mstest.ClusterOptions{Env: []string{
		"MS_INTAKE_FLUSH_INTERVAL_SECS=3600", "MS_INTAKE_BUFFER_SIZE=4GiB", "MS_INTAKE_BUFFER_TOTAL=4GiB",
	}}, "router", "intake", "querier")
	router, intake, querier := c.Router(), c.Of("intake")[0], c.Of("querier")[0]
	send := func(first, n int) {
		for i := first; i < first+n; i += each {
			if status, body := router.Do("POST", "/api/v1/intake/json/big", router.Token, "application/x-ndjson", batch(i, each)); status != http.StatusOK {
				b.Fatalf("status %d: %s", status, body)
			}
		}
		time.Sleep(2 * time.Second) // for the seals
	}
	ask := func(what string, want int64) {
		came, mine, theirs, began := metric(b, querier, "millstream_ingest_mirror_fetched_bytes_total"), querier.CPU(), intake.CPU(), time.Now()
		a := router.SQL("SELECT service, count(*) AS n FROM big GROUP BY service")
		if a.Stats.UnflushedRows != want {
			b.Fatalf("%d unflushed rows of %d", a.Stats.UnflushedRows, want)
		}
		b.ReportMetric(float64(time.Since(began).Microseconds())/1000, what+"-ms")
		b.ReportMetric(float64((querier.CPU()-mine).Microseconds())/1000, what+"-querier-CPU-ms")
		b.ReportMetric(float64((intake.CPU()-theirs).Microseconds())/1000, what+"-intake-CPU-ms")
		b.ReportMetric((metric(b, querier, "millstream_ingest_mirror_fetched_bytes_total")-came)/1e6, what+"-MB")
	}
	send(0, rows)
	b.ResetTimer()
	ask("first", rows)
	for range b.N {
		ask("again", rows)
	}
	send(rows, 10_000)
	ask("more", rows+10_000)
	b.ReportMetric(0, "ns/op")
}
