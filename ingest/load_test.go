package ingest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/blob"
)

// BenchmarkLoad writes log records of about 550 bytes from 4 senders, 1,000 a request, with flushes by size, and reports rows/s and the most memory that was
// ever resident. -benchtime=4000x is the load of 4 M rows.
func BenchmarkLoad(b *testing.B) {
	s := newSite(b)
	var err error
	if s.bucket, err = blob.NewDir(filepath.Join(s.dir, "objects")); err != nil {
		b.Fatal(err)
	}
	s.start()
	work := make(chan int, b.N)
	for i := range b.N {
		work <- i
	}
	close(work)
	b.ResetTimer()
	var wg sync.WaitGroup
	for k := range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			rnd := rand.New(rand.NewPCG(uint64(k), 1))
			for i := range work {
				if err := s.w.Append(context.Background(), accessLog(rnd, i)); err != nil {
					b.Error(err)
				}
			}
		}()
	}
	wg.Wait()
	s.flush()
	b.ReportMetric(float64(b.N)*1000/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(peakMemory(b), "MiB-resident")
	if err := s.stop(); err != nil {
		b.Fatal(err)
	}
}

func accessLog(rnd *rand.Rand, request int) *millstream.Batch {
	b := millstream.NewBuilder(millstream.Limits{})
	for i := range 1000 {
		b.Int([]byte("seq"), int64(request*1000+i))
		b.String([]byte("service"), fmt.Appendf(nil, "service-%d", rnd.IntN(12)))
		b.String([]byte("level"), []byte([]string{"info", "warn", "error"}[rnd.IntN(3)]))
		b.String([]byte("trace_id"), fmt.Appendf(nil, "%016x%016x", rnd.Uint64(), rnd.Uint64()))
		b.String([]byte("request_id"), fmt.Appendf(nil, "%016x", rnd.Uint64()))
		b.Double([]byte("duration_ms"), float64(rnd.IntN(100000))/100)
		b.Int([]byte("status"), int64(200+rnd.IntN(4)*100))
		b.String([]byte("message"), fmt.Appendf(nil, "handled GET /api/v1/users/%d/orders/%d for client 10.%d.%d.%d in zone eu-west-%d after %d retries; upstream answered %s",
			rnd.IntN(100000), rnd.IntN(1000000), rnd.IntN(256), rnd.IntN(256), rnd.IntN(256), rnd.IntN(4), rnd.IntN(5), strings.Repeat("ok ", 60)))
		if err := b.Commit(int64(1e18) + int64(request)*1e6 + int64(i)); err != nil {
			panic(err)
		}
	}
	out := b.Batch()
	out.Org, out.Signal, out.Name = testOrg, millstream.Logs, "app"
	return out
}

// peakMemory is the most resident memory this process ever had, in MiB.
func peakMemory(b *testing.B) float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Skip("this system does not tell the peak of resident memory")
	}
	for line := range strings.Lines(string(status)) {
		var kib float64
		if n, _ := fmt.Sscanf(line, "VmHWM: %f kB", &kib); n == 1 {
			return kib / 1024
		}
	}
	return 0
}

// BenchmarkStart is a start with 64 MiB of log whose rows are not published: the time until the node is ready.
func BenchmarkStart(b *testing.B) {
	s := newSite(b)
	s.start()
	rnd := rand.New(rand.NewPCG(1, 1))
	for i := 0; s.w.wal.Size() < 64<<20; i++ {
		s.append(accessLog(rnd, i))
	}
	s.kill()
	b.ResetTimer()
	for range b.N {
		s.start()
		b.StopTimer()
		s.kill()
		b.StartTimer()
	}
}
