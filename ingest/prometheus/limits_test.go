package prometheus

import (
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"

	"github.com/millstream/millstream/ingest/decode"
)

// A series is bounded as a record is; and symbols of version 2, sent once, must not make a small request large.
func TestSizes(t *testing.T) {
	ms := now.UnixMilli()
	many := labels("__name__", "many")
	for i := range 2000 {
		many = append(many, prompb.Label{Name: "l" + strconv.Itoa(i), Value: "v"})
	}
	v1 := &prompb.WriteRequest{Timeseries: []prompb.TimeSeries{
		{Labels: many, Samples: []prompb.Sample{{Value: 1, Timestamp: ms}}},
		{Labels: labels("__name__", "good"), Samples: []prompb.Sample{{Value: 1, Timestamp: ms}}},
	}}
	res, _, _, err := Decode("", marshal(t, v1), now, decode.Limits{})
	if err != nil || res.Accepted != 1 || res.Rejected != 1 || !strings.Contains(res.Errors[0].Reason, "1000 labels") {
		t.Errorf("many labels: %+v, %v", res, err)
	}

	v2 := &writev2.Request{Symbols: []string{"", "__name__", "m", strings.Repeat("x", 60<<10)}}
	big := writev2.TimeSeries{LabelsRefs: []uint32{1, 2}, Samples: []writev2.Sample{{Value: 1, Timestamp: ms}}, Metadata: writev2.Metadata{HelpRef: 3}}
	for i := range 10 {
		v2.Symbols = append(v2.Symbols, "k"+strconv.Itoa(i))
		big.LabelsRefs = append(big.LabelsRefs, uint32(4+i), 3)
	}
	for range 1000 {
		v2.Timeseries = append(v2.Timeseries, big)
	}
	v2.Timeseries = append(v2.Timeseries, writev2.TimeSeries{LabelsRefs: make([]uint32, 4<<20), Samples: big.Samples})
	res, w, _, err := Decode(v2Type, marshal(t, v2), now, decode.Limits{MaxDecoded: 10 << 20})
	if err != nil || res.Accepted+res.Rejected != 1001 || res.Accepted > 20 || w.Samples != res.Accepted {
		t.Errorf("symbols: %d accepted, %d rejected, %+v, %v", res.Accepted, res.Rejected, w, err)
	}
	size := 0
	for _, b := range res.Batches {
		for _, s := range b.Samples.Series {
			size += len(s)
		}
		for _, m := range b.Samples.Metadata {
			size += len(m.Help)
		}
	}
	if size > 20<<20 {
		t.Errorf("%d bytes of labels and help texts from a small request", size)
	}
}
