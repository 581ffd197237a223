package ingest

import (
	"reflect"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/segment/metrics"
)

// A batch of another node lies in the bytes of the call that brought it, with the keys of its series and whatever else came. What is kept of it for readers, and
// what the head keeps, are counted as less: they must let those bytes go.
func TestRecentBatchesLetGoOfWhatTheyCameIn(t *testing.T) {
	key, err := millstream.EncodeLabels(nil, []millstream.Label{{Name: "__name__", Value: "up"}})
	if err != nil {
		t.Fatal(err)
	}
	want := &millstream.Samples{
		Series: []string{string(key)}, Ref: []uint32{0, 0}, Time: []int64{1000, 2000}, Value: []float64{1, 2}, Start: []int64{500, 500}, Histogram: [][]byte{nil, nil},
		Exemplars: []millstream.Exemplar{{Time: 1000, Value: 3, Labels: string(key)}},
	}
	sent := *want
	sent.Metadata = []millstream.Metadata{{Name: "up", Type: "gauge", Unit: "1", Help: "whether it is up"}}
	p := (&millstream.Batch{Signal: millstream.Metrics, Samples: &sent}).AppendTo(nil)
	came := weak.Make(&p[0])
	b, err := millstream.DecodeBatch(p)
	if err != nil {
		t.Fatal(err)
	}
	b.Stream = "metrics"
	head := metrics.NewHead()
	if _, err := head.Append(b.Samples); err != nil {
		t.Fatal(err)
	}
	k := recent{limit: 1 << 20, streams: map[millstream.StreamID]*recentBatches{}}
	k.since(b.Stream, 0, 0, time.Now()) // a reader asks
	k.add(1, b, head)
	p, b = nil, nil
	runtime.GC()
	if came.Value() != nil {
		t.Error("the bytes that the batch came in are held")
	}
	kept, ok := k.since("metrics", 0, 1, time.Now())
	if !ok || len(kept) != 1 || !reflect.DeepEqual(kept[0].batch.Samples, want) {
		t.Errorf("%+v are kept, want %+v", kept, want)
	}
	if m := head.Metadata(); len(m) != 1 || m[0] != sent.Metadata[0] {
		t.Errorf("the head says %+v of its metrics", m)
	}
	runtime.KeepAlive(head)
}
