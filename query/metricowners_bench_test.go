package query_test

import (
	"context"
	"io"
	"net"
	"net/url"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query"
	"github.com/millstream/millstream/query/promql"
	"github.com/millstream/millstream/rpc"
	"github.com/millstream/millstream/segment/metrics/metricstest"
)

const (
	benchSegments = 50
	benchTicks    = 60 // of each segment
)

// connected lets the coordinating node reach the others over TCP.
func (f *fleet) connected() {
	clients := rpc.NewClients(rpc.ClientConfig{Node: "a"})
	f.t.Cleanup(clients.Close)
	f.through = map[millstream.NodeID]query.LeafNode{}
	for id, n := range f.others {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			f.t.Fatal(err)
		}
		s := (&rpc.Server{Node: id, Trusted: true, Leaves: n.Engine}).GRPC()
		go func() { _ = s.Serve(l) }() // ends with Stop
		f.t.Cleanup(s.Stop)
		f.through[id] = clients.To(millstream.Member{ID: id, Addr: l.Addr().String()})
	}
}

// BenchmarkOwnersPromQL asks over 3 M samples of 1,000 series in 50 segments: one node that has them all, and a node that owns a third of them and asks two others, in
// this process, over TCP. The CPU time is that of all of them together.
func BenchmarkOwnersPromQL(b *testing.B) {
	f := newFleet(b)
	w := metricstest.New(1000)
	for i := range benchSegments {
		f.append(millstream.Metrics, millstream.MetricStream, &millstream.Batch{Samples: w.Batch(0, 1000, i*benchTicks, (i+1)*benchTicks)})
		f.flush()
	}
	one := f.alone()
	f.connected()
	var moved atomic.Int64
	f.ruin = func(_ context.Context, _ millstream.NodeID, emit func([]byte) error, ask func(func([]byte) error) error) error {
		return ask(func(frame []byte) error {
			moved.Add(int64(len(frame)))
			return emit(frame)
		})
	}
	api := promql.New(promql.Options{})
	b.Cleanup(func() { _ = api.Close() })
	at := func(tick int) string { return strconv.FormatInt((w.Start+int64(tick)*w.Step)/1000, 10) }
	for _, q := range []struct{ name, query string }{
		{"rate", `sum by (job) (rate(http_requests_total[5m]))`},
		{"series", `node_load1{instance="node-7:9100"}`},
		{"all", `count by (__name__) ({__name__=~".+"})`},
	} {
		v := url.Values{"query": {q.query}, "start": {at(0)}, "end": {at(benchSegments * benchTicks)}, "step": {"60"}}
		for _, on := range []struct {
			name string
			*query.Engine
		}{{"one", one.Engine}, {"three", f.Engine}} {
			b.Run(q.name+"/"+on.name, func(b *testing.B) {
				open := openOf(on.Engine)
				spent, before := cpu(), moved.Load()
				for b.Loop() {
					r, err := api.QueryRange(b.Context(), open, v)
					if err != nil {
						b.Fatal(err)
					}
					if _, err := r.WriteTo(io.Discard); err != nil {
						b.Fatal(err)
					}
					r.Close()
				}
				b.ReportMetric((cpu()-spent).Seconds()*1000/float64(b.N), "cpu-ms/op")
				b.ReportMetric(float64(moved.Load()-before)/float64(b.N)/1000, "kB/op")
			})
		}
	}
}
