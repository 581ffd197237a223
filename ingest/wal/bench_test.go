package wal

import (
	"context"
	"sync"
	"testing"

	"github.com/millstream/millstream"
)

// BenchmarkAppend is 64 writers that each wait for their 1 KiB entry to be on disk.
func BenchmarkAppend(b *testing.B) {
	for name, noSync := range map[string]bool{"group": false, "none": true} {
		b.Run(name, func(b *testing.B) {
			l, _ := mustOpen(b, Options{Dir: b.TempDir(), ID: testID, NoSync: noSync}, 0)
			defer l.Close()
			work := make(chan struct{}, b.N)
			for range b.N {
				work <- struct{}{}
			}
			close(work)
			var wg sync.WaitGroup
			b.SetBytes(1024)
			b.ResetTimer()
			for range 64 {
				wg.Add(1)
				go func() {
					defer wg.Done()
					e, done := []Entry{entry(1, 1024)}, make(chan error, 1)
					for range work {
						err := l.Append(context.Background(), e, func(_ millstream.LSN, _ int64, err error) { done <- err })
						if err == nil {
							err = <-done
						}
						if err != nil {
							b.Error(err)
							return
						}
					}
				}()
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
		})
	}
}
