package otlp

import (
	"github.com/prometheus/prometheus/model/histogram"
	otlpmetrics "go.opentelemetry.io/proto/otlp/metrics/v1"
)

const gaugeHint = histogram.GaugeType

// The scales that Prometheus' native histograms have; OTLP allows others.
const (
	maxSchema = 8
	minSchema = -4
)

// maxBuckets bounds the buckets of one side of a histogram; SDKs use 160.
const maxBuckets = 1 << 14

// native converts an exponential histogram point to a native histogram; a reason is given if it cannot be one. OTLP's bucket i of scale s covers
// (base^i, base^(i+1)] and Prometheus' covers (base^(i-1), base^i], so indexes shift by one. A finer scale is halved until it fits, which is exact.
func native(p *otlpmetrics.ExponentialHistogramDataPoint) (h *histogram.Histogram, reason string) {
	scale := p.GetScale()
	if scale < minSchema {
		return nil, "an exponential histogram of scale below -4 cannot be stored"
	}
	shift := max(0, scale-maxSchema)
	if shift > 30 {
		return nil, "the scale of the exponential histogram is out of range"
	}
	h = &histogram.Histogram{Schema: scale - shift, Count: p.GetCount(), Sum: p.GetSum(), ZeroCount: p.GetZeroCount(), ZeroThreshold: p.GetZeroThreshold()}
	for _, side := range []struct {
		in      *otlpmetrics.ExponentialHistogramDataPoint_Buckets
		spans   *[]histogram.Span
		buckets *[]int64
	}{{p.GetPositive(), &h.PositiveSpans, &h.PositiveBuckets}, {p.GetNegative(), &h.NegativeSpans, &h.NegativeBuckets}} {
		if len(side.in.GetBucketCounts()) > maxBuckets {
			return nil, "the exponential histogram has too many buckets"
		}
		*side.spans, *side.buckets = spansOf(side.in, shift)
	}
	if err := h.Validate(); err != nil {
		return nil, "the exponential histogram is not consistent: " + err.Error()
	}
	return h, ""
}

// spansOf writes absolute counts as Prometheus' spans and deltas; runs of empty buckets longer than two end a span.
func spansOf(b *otlpmetrics.ExponentialHistogramDataPoint_Buckets, shift int32) (spans []histogram.Span, deltas []int64) {
	var prev int64
	next := int32(0) // the index after the last bucket written
	emit := func(index int32, count int64) {
		gap := index - next
		switch {
		case len(spans) == 0:
			spans = append(spans, histogram.Span{Offset: index})
		case gap > 2:
			spans = append(spans, histogram.Span{Offset: gap})
		default:
			for range gap {
				spans[len(spans)-1].Length++
				deltas = append(deltas, -prev)
				prev = 0
			}
		}
		spans[len(spans)-1].Length++
		deltas = append(deltas, count-prev)
		prev, next = count, index+1
	}
	var sum int64
	at, open := int32(0), false
	for i, n := range b.GetBucketCounts() {
		index := (b.GetOffset()+int32(i))>>shift + 1
		if open && index != at {
			if sum > 0 {
				emit(at, sum)
			}
			sum = 0
		}
		at, open = index, true
		sum += int64(n)
	}
	if open && sum > 0 {
		emit(at, sum)
	}
	return spans, deltas
}
