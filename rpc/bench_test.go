package rpc

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest"
)

// cpu is the time that this process has spent on processors.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkWrite compares writes that go over the hop, both sides in this process, with local ones. The intake takes the rows and does nothing with them, so the
// difference is the price of forwarding.
func BenchmarkWrite(b *testing.B) {
	sink := &fakeIntake{write: func(_ context.Context, bs []*millstream.Batch) (int, error) { return len(bs), nil }}
	for _, to := range []struct {
		name string
		ingest.Target
	}{{"local", sink}, {"rpc", benchClient{connect(b, &Server{Intake: sink})}}} {
		for _, rows := range []int{500, 1000, 5000} {
			b.Run(fmt.Sprintf("%s/%d", to.name, rows), func(b *testing.B) {
				batch := logs(rows, 1)
				b.SetBytes(int64(len(batch.AppendTo(nil))))
				b.ReportAllocs()
				spent := cpu()
				for b.Loop() {
					if _, err := to.Write(b.Context(), batch); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(cpu()-spent)/float64(b.N*rows), "cpu-ns/row")
			})
		}
	}
}

type benchClient struct{ *Client }

// BenchmarkForward is a small GET through a router and alone.
func BenchmarkForward(b *testing.B) {
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"streams":[{"name":"web","rows":12345}]}`)
	})
	c := connect(b, &Server{Query: h})
	for name, h := range map[string]http.Handler{
		"direct": h,
		"forward": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := c.Forward(w, r, []byte("who")); err != nil {
				b.Error(err)
			}
		}),
	} {
		b.Run(name, func(b *testing.B) {
			srv := httptest.NewServer(h)
			defer srv.Close()
			spent := cpu()
			for b.Loop() {
				resp, err := srv.Client().Get(srv.URL + "/api/v1/streams?x=1")
				if err != nil {
					b.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
			b.ReportMetric(float64(cpu()-spent)/float64(b.N), "cpu-ns/op")
		})
	}
}
