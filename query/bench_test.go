package query_test

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query"
)

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkManySegments asks over the same million rows in 20 and in 1,000 segments.
func BenchmarkManySegments(b *testing.B) {
	for _, segments := range []int{20, 1000} {
		n := newNode(b, nil)
		rows := 1_000_000 / segments
		for s := range segments {
			records := make([]string, rows)
			for i := range records {
				records[i] = fmt.Sprintf("service=svc%d level=info ms=%d.5 message=request_%d_was_served_by_worker_%d", i%24, i%977, i%5, i%101)
			}
			n.append(millstream.Logs, "app", lines(epoch+int64(s*rows)*1e6, records...))
			n.flush()
		}
		for name, statement := range map[string]string{
			"count":  "SELECT service, count(*) AS n FROM app GROUP BY service",
			"sum":    "SELECT service, sum(ms) AS n FROM app GROUP BY service",
			"latest": "SELECT * FROM app WHERE match_all('served') ORDER BY _timestamp DESC LIMIT 100",
			"word":   "SELECT count(*) AS n FROM app WHERE match_all('absent')",
		} {
			b.Run(fmt.Sprintf("%s/%d", name, segments), func(b *testing.B) {
				ask := func() {
					if _, _, err := n.try(b, query.Request{Org: org, Statement: statement, Range: millstream.TimeRange{Start: 0, End: 1 << 62}}); err != nil {
						b.Fatal(err)
					}
				}
				ask()
				before := cpu()
				for b.Loop() {
					ask()
				}
				b.ReportMetric(float64(cpu()-before)/1e6/float64(b.N), "cpu-ms/op")
			})
		}
	}
}

// BenchmarkServices asks for the services of 500,000 spans of one segment that was not read before, and of one that was.
func BenchmarkServices(b *testing.B) {
	spans := traffic(rand.New(rand.NewPCG(7, 8)), 100_000)
	n := newNode(b, nil)
	n.append(millstream.Traces, "default", traceBatch(spans))
	n.flush()
	all := millstream.TimeRange{Start: 0, End: 1 << 62}
	for _, edges := range []bool{false, true} {
		for _, kept := range []bool{false, true} {
			b.Run(fmt.Sprintf("edges=%v/kept=%v", edges, kept), func(b *testing.B) {
				before := cpu()
				for i := 0; b.Loop(); i++ {
					if !kept {
						n.segments[0].ID = millstream.SegmentID(fmt.Sprint(edges, i)) // one that was never read
					}
					if _, err := n.Services(b.Context(), query.Request{Org: org, Range: all}, "", edges); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(cpu()-before)/1e6/float64(b.N), "cpu-ms/op")
			})
		}
	}
}
