package query_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query"
)

// BenchmarkOwnerWarm asks narrow statements in turns of a node whose segments are local objects, of one that owns them and has them in its cache, and of one that has
// them read by such an owner over TCP. The ratios are of CPU times, which a busy machine disturbs less; the SQL engine's child is not among them. One that has more than
// a tenth on top on the owner, and more than a tenth of a millisecond, misses its goal.
func BenchmarkOwnerWarm(b *testing.B) {
	f := newFleet(b, func(c *query.Config) {
		c.Owners.Silence = time.Minute
		c.Owners.Reader = reader(func(millstream.SegmentID) []millstream.Member { return []millstream.Member{{ID: "b"}} })
	})
	for i := range 10 {
		f.append(millstream.Logs, "app", requestLogs(epoch+int64(i)*65536*1e6, 65536, uint64(i)))
		if i%5 == 4 {
			f.flush()
		}
	}
	f.connected()
	owner, store := f.node.remote(b)
	nodes := []*node{f.local(b), owner, f.node}
	for i, statement := range narrow {
		b.Run(fmt.Sprint(i), func(b *testing.B) {
			ask := func(n *node) time.Duration {
				before := cpu()
				if _, _, err := n.try(b, query.Request{Org: org, Statement: statement, Range: day}); err != nil {
					b.Fatal(err)
				}
				return cpu() - before
			}
			took := make([][]time.Duration, len(nodes))
			for range 2 { // what is not warm, gets warm
				for _, n := range nodes {
					ask(n)
				}
			}
			store.take()
			for b.Loop() {
				for k, n := range nodes {
					took[k] = append(took[k], ask(n))
				}
			}
			median := func(k int) float64 {
				slices.Sort(took[k])
				return float64(took[k][len(took[k])/2].Nanoseconds()) / 1e6
			}
			requests, _, _ := store.take()
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(0), "local-cpu-ms")
			b.ReportMetric(median(1), "owner-cpu-ms")
			b.ReportMetric(median(2), "through-cpu-ms")
			b.ReportMetric(median(1)/median(0), "owner/local")
			b.ReportMetric(float64(requests), "requests")
		})
	}
}
