package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millstream/millstream/internal/mstest"
)

// BenchmarkAcknowledgedWrites sends requests of 1 KiB over 64 connections; every reply means that the record is on stable storage. The client runs on the same
// cores as the server.
func BenchmarkAcknowledgedWrites(b *testing.B) {
	n := mstest.Start(b)
	const conns = 64
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: conns, MaxConnsPerHost: conns}}
	body := fmt.Appendf(nil, `{"level":"info","service":"checkout","message":%q}`, strings.Repeat("a word of text ", 80))
	body = append(body[:min(len(body), 1022)], `"}`...)
	var next atomic.Int64
	took := make([][]time.Duration, conns)
	before := n.CPU()
	b.ResetTimer()
	var wg sync.WaitGroup
	for c := range conns {
		wg.Go(func() {
			for next.Add(1) <= int64(b.N) {
				began := time.Now()
				req, err := http.NewRequest(http.MethodPost, n.URL+"/api/v1/intake/json/acks", bytes.NewReader(body))
				if err != nil {
					b.Error(err)
					return
				}
				req.Header.Set("Authorization", "Bearer "+n.Token)
				resp, err := client.Do(req)
				if err != nil {
					b.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				if resp.StatusCode != http.StatusOK {
					b.Errorf("status %d", resp.StatusCode)
					return
				}
				took[c] = append(took[c], time.Since(began))
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64((n.CPU()-before).Microseconds())/float64(b.N), "server-cpu-µs/op")
	all := slices.Concat(took...)
	slices.Sort(all)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
	if len(all) == 0 {
		b.Fatal("nothing was acknowledged")
	}
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "p99-ms")
	if got := n.Count("SELECT count(*) FROM acks"); got < int64(b.N) {
		b.Errorf("%d records acknowledged, %d returned", b.N, got)
	}
}

// BenchmarkUnflushedCount counts a million unflushed rows by service.
func BenchmarkUnflushedCount(b *testing.B) {
	n := mstest.Start(b, "MS_INTAKE_FLUSH_INTERVAL_SECS=3600", "MS_INTAKE_BUFFER_SIZE=1 GiB", "MS_INTAKE_BUFFER_TOTAL=1 GiB")
	for i := range 200 {
		var body bytes.Buffer
		for k := range 5000 {
			fmt.Fprintf(&body, `{"service":"service-%d","message":"request %d took %dms"}`+"\n", k%24, i*5000+k, k)
		}
		if code, reply := n.Do("POST", "/api/v1/intake/json/fresh", n.Token, "application/x-ndjson", body.Bytes()); code != http.StatusOK {
			b.Fatalf("%d %s", code, reply)
		}
	}
	b.ResetTimer()
	before := n.CPU()
	for range b.N {
		if a := n.SQL("SELECT service, count(*) AS n FROM fresh GROUP BY service"); len(a.Rows) != 24 || a.Stats.UnflushedRows != 1_000_000 {
			b.Fatalf("%d groups of %d unflushed rows", len(a.Rows), a.Stats.UnflushedRows)
		}
	}
	b.ReportMetric(float64((n.CPU()-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
}
