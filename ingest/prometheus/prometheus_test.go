package prometheus

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest/decode"
	"github.com/millstream/millstream/segment/metrics"
)

var now = time.Unix(1_800_000_000, 0)

const v2Type = "application/x-protobuf;proto=io.prometheus.write.v2.Request"

func labels(kv ...string) (ls []prompb.Label) {
	for i := 0; i < len(kv); i += 2 {
		ls = append(ls, prompb.Label{Name: kv[i], Value: kv[i+1]})
	}
	return ls
}

func marshal(t testing.TB, m interface{ Marshal() ([]byte, error) }) []byte {
	t.Helper()
	b, err := m.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// show writes the samples one a line.
func show(res decode.Result) string {
	var b strings.Builder
	for _, batch := range res.Batches {
		s := batch.Samples
		for i, r := range s.Ref {
			millstream.EachLabel(s.Series[r], func(n, v string) bool { fmt.Fprintf(&b, "%s=%s ", n, v); return true })
			fmt.Fprintf(&b, "%d %x", s.Time[i], math.Float64bits(s.Value[i]))
			if s.Start != nil && s.Start[i] != 0 {
				fmt.Fprintf(&b, " start %d", s.Start[i])
			}
			if s.Histogram != nil && s.Histogram[i] != nil {
				h, fh, err := metrics.DecodeHistogram(s.Histogram[i])
				fmt.Fprintf(&b, " %v %v %v", h, fh, err)
			}
			b.WriteByte('\n')
		}
		for _, e := range s.Exemplars {
			fmt.Fprintf(&b, "exemplar %s %d %g", millstream.LabelValue(s.Series[e.Ref], "__name__"), e.Time, e.Value)
			millstream.EachLabel(e.Labels, func(n, v string) bool { fmt.Fprintf(&b, " %s=%s", n, v); return true })
			b.WriteByte('\n')
		}
		for _, m := range s.Metadata {
			fmt.Fprintf(&b, "metadata %+v\n", m)
		}
	}
	return b.String()
}

func TestV1(t *testing.T) {
	ms := now.UnixMilli()
	h := &histogram.Histogram{Schema: 3, Count: 5, Sum: 2.5, ZeroThreshold: 1e-128, PositiveSpans: []histogram.Span{{Offset: 1, Length: 2}}, PositiveBuckets: []int64{2, 1}}
	body := marshal(t, &prompb.WriteRequest{
		Timeseries: []prompb.TimeSeries{
			{Labels: labels("__name__", "up", "instance", "ünï", "job", "a"), Samples: []prompb.Sample{{Value: 1, Timestamp: ms}, {Value: math.Float64frombits(value.StaleNaN), Timestamp: ms + 1}},
				Exemplars: []prompb.Exemplar{{Labels: labels("trace_id", "abc"), Value: 9, Timestamp: ms}}},
			{Labels: labels("job", "unsorted", "__name__", "b"), Samples: []prompb.Sample{{Value: 2, Timestamp: ms}}},
			{Labels: labels("job", "no name"), Samples: []prompb.Sample{{Value: 3, Timestamp: ms}}},
			{Labels: labels("__name__", "twice", "a", "1", "a", "2"), Samples: []prompb.Sample{{Value: 3, Timestamp: ms}}},
			{Labels: labels("__name__", "future"), Samples: []prompb.Sample{{Value: 3, Timestamp: ms + 7_200_000}}},
			{Labels: labels("__name__", "h"), Histograms: []prompb.Histogram{prompb.FromIntHistogram(ms, h), prompb.FromFloatHistogram(ms+1, h.ToFloat(nil))}},
			{Labels: labels("__name__", "last"), Samples: []prompb.Sample{{Value: 4, Timestamp: ms}}},
		},
		Metadata: []prompb.MetricMetadata{{MetricFamilyName: "up", Type: prompb.MetricMetadata_GAUGE, Help: "is it", Unit: "1"}},
	})
	res, w, v2, err := Decode("application/x-protobuf", body, now, decode.Limits{})
	if err != nil || v2 {
		t.Fatal(err, v2)
	}
	want := fmt.Sprintf(`__name__=up instance=ünï job=a %[1]d 3ff0000000000000
__name__=up instance=ünï job=a %[2]d 7ff0000000000002
__name__=b job=unsorted %[1]d 4000000000000000
__name__=h %[1]d 0 %[3]v <nil> <nil>
__name__=h %[2]d 0 <nil> %[4]v <nil>
__name__=last %[1]d 4010000000000000
exemplar up %[1]d 9 trace_id=abc
metadata {Name:up Type:gauge Unit:1 Help:is it}
`, ms, ms+1, h, h.ToFloat(nil))
	if got := show(res); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if res.Accepted != 6 || res.Rejected != 3 || w != (Written{4, 2, 1}) {
		t.Errorf("accepted %d rejected %d written %+v", res.Accepted, res.Rejected, w)
	}
	for i, want := range []struct {
		index int
		text  string
	}{{2, "no metric name"}, {3, "twice"}, {4, "future"}} {
		if e := res.Errors[i]; e.Index != want.index || !strings.Contains(e.Reason, want.text) {
			t.Errorf("rejection %d: %+v, want index %d and %q", i, e, want.index, want.text)
		}
	}
}

func TestV2(t *testing.T) {
	ms := now.UnixMilli()
	req := &writev2.Request{
		Symbols: []string{"", "__name__", "up", "job", "a", "help", "unit", "trace_id", "xyz", "h"},
		Timeseries: []writev2.TimeSeries{
			{LabelsRefs: []uint32{1, 2, 3, 4}, Samples: []writev2.Sample{{Value: 1, Timestamp: ms, StartTimestamp: 5}, {Value: 2, Timestamp: ms + 1}},
				Exemplars: []writev2.Exemplar{{LabelsRefs: []uint32{7, 8}, Value: 3, Timestamp: ms}},
				Metadata:  writev2.Metadata{Type: writev2.Metadata_METRIC_TYPE_COUNTER, HelpRef: 5, UnitRef: 6}},
			{LabelsRefs: []uint32{1, 99}, Samples: []writev2.Sample{{Value: 1, Timestamp: ms}}},
			{LabelsRefs: []uint32{1}, Samples: []writev2.Sample{{Value: 1, Timestamp: ms}}},
			{LabelsRefs: []uint32{1, 9}, Histograms: []writev2.Histogram{writev2.FromIntHistogram(0, ms, &histogram.Histogram{Schema: 1, Count: 1, ZeroCount: 1})}},
		},
	}
	res, w, v2, err := Decode(v2Type, marshal(t, req), now, decode.Limits{})
	if err != nil || !v2 {
		t.Fatal(err, v2)
	}
	got := show(res)
	for _, want := range []string{
		fmt.Sprintf("__name__=up job=a %d 3ff0000000000000 start 5\n__name__=up job=a %d 4000000000000000\n", ms, ms+1),
		fmt.Sprintf("exemplar up %d 3 trace_id=xyz\n", ms), "metadata {Name:up Type:counter Unit:unit Help:help}\n", "__name__=h ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if w != (Written{2, 1, 1}) || res.Rejected != 2 {
		t.Errorf("%+v, %d rejected", w, res.Rejected)
	}
}

// Version 1.0 describes metrics in requests without samples, version 2.0 each series of a metric.
func TestMetadata(t *testing.T) {
	v1 := marshal(t, &prompb.WriteRequest{Metadata: []prompb.MetricMetadata{{MetricFamilyName: "lat", Type: prompb.MetricMetadata_HISTOGRAM, Help: "h"}}})
	symbols := []string{"", "h", "__name__", "lat_bucket", "lat_count", "lat_sum", "_sum", "jobs_count", "size_count"}
	req := &writev2.Request{Symbols: symbols}
	for name, typ := range map[string]writev2.Metadata_MetricType{"lat_bucket": writev2.Metadata_METRIC_TYPE_HISTOGRAM, "lat_count": writev2.Metadata_METRIC_TYPE_HISTOGRAM,
		"lat_sum": writev2.Metadata_METRIC_TYPE_HISTOGRAM, "_sum": writev2.Metadata_METRIC_TYPE_HISTOGRAM, "jobs_count": writev2.Metadata_METRIC_TYPE_GAUGE, "size_count": writev2.Metadata_METRIC_TYPE_SUMMARY} {
		req.Timeseries = append(req.Timeseries, writev2.TimeSeries{LabelsRefs: []uint32{2, uint32(slices.Index(symbols, name))}, Samples: []writev2.Sample{{Timestamp: now.UnixMilli()}},
			Metadata: writev2.Metadata{Type: typ, HelpRef: 1}})
	}
	for _, c := range []struct {
		contentType string
		body        []byte
		rows        int
		want        map[string]string
	}{
		{"", v1, 0, map[string]string{"lat": "histogram"}},
		{v2Type, marshal(t, req), 6, map[string]string{"lat": "histogram", "_sum": "histogram", "jobs_count": "gauge", "size": "summary"}},
	} {
		res, _, _, err := Decode(c.contentType, c.body, now, decode.Limits{})
		if err != nil || len(res.Batches) != 1 || res.Accepted != c.rows {
			t.Fatalf("%q: %+v, %v", c.contentType, res, err)
		}
		got := map[string]string{}
		for _, m := range res.Batches[0].Samples.Metadata {
			got[m.Name] = m.Type
			if m.Help != "h" {
				t.Errorf("%q: help of %+v", c.contentType, m)
			}
		}
		if !maps.Equal(got, c.want) {
			t.Errorf("%q: %v, want %v", c.contentType, got, c.want)
		}
	}
}

func TestContentTypes(t *testing.T) {
	for ct, want := range map[string]millstream.Kind{"text/plain": millstream.Unsupported, "application/x-protobuf;proto=other": millstream.Unsupported, "application/json": millstream.Unsupported} {
		if _, _, _, err := Decode(ct, nil, now, decode.Limits{}); millstream.KindOf(err) != want {
			t.Errorf("%s: %v", ct, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	h := &histogram.Histogram{Schema: 3, Count: 5, Sum: 2.5, PositiveSpans: []histogram.Span{{Offset: 1, Length: 1}}, PositiveBuckets: []int64{5}}
	f.Add(false, marshal(f, &prompb.WriteRequest{Timeseries: []prompb.TimeSeries{{Labels: labels("__name__", "a"), Samples: []prompb.Sample{{Value: 1, Timestamp: 2}}, Histograms: []prompb.Histogram{prompb.FromIntHistogram(1, h)}}}}))
	f.Add(true, marshal(f, &writev2.Request{Symbols: []string{"", "__name__", "a"}, Timeseries: []writev2.TimeSeries{{LabelsRefs: []uint32{1, 2}, Samples: []writev2.Sample{{Value: 1}}}}}))
	f.Fuzz(func(t *testing.T, v2 bool, body []byte) {
		ct := ""
		if v2 {
			ct = v2Type
		}
		res, _, _, err := Decode(ct, body, now, decode.Limits{})
		if err != nil {
			return
		}
		for _, b := range res.Batches {
			if _, err := millstream.DecodeBatch(b.AppendTo(nil)); err != nil {
				t.Fatalf("an accepted request does not survive the WAL codec: %v", err)
			}
		}
	})
}

func BenchmarkDecodeV1(b *testing.B) {
	req := &prompb.WriteRequest{}
	for i := range 500 {
		req.Timeseries = append(req.Timeseries, prompb.TimeSeries{
			Labels:  labels("__name__", "http_request_duration_seconds_bucket", "code", "200", "instance", fmt.Sprintf("10.0.0.%d:9090", i), "job", "checkout", "le", "0.25", "method", "GET", "path", "/api/v1/cart"),
			Samples: []prompb.Sample{{Value: float64(i), Timestamp: now.UnixMilli()}},
		})
	}
	body := marshal(b, req)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if res, _, _, err := Decode("", body, now, decode.Limits{}); err != nil || res.Accepted != 500 {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/500, "ns/sample")
}
