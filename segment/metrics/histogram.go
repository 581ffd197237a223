package metrics

import (
	"encoding/binary"
	"math"

	"github.com/millstream/millstream"
	"github.com/prometheus/prometheus/model/histogram"
)

const (
	histogramInts   = 1
	histogramFloats = 2
)

// EncodeHistogram appends the form in which Samples carries a native histogram to dst: h if it is not nil, else fh. It keeps every bit.
func EncodeHistogram(dst []byte, h *histogram.Histogram, fh *histogram.FloatHistogram) []byte {
	if h != nil {
		dst = append(dst, histogramInts, byte(h.CounterResetHint))
		dst = binary.AppendVarint(dst, int64(h.Schema))
		dst = appendFloats(dst, h.Sum, h.ZeroThreshold)
		dst = binary.AppendUvarint(dst, h.Count)
		dst = binary.AppendUvarint(dst, h.ZeroCount)
		dst = appendSpans(dst, h.PositiveSpans, len(h.PositiveBuckets))
		for _, b := range h.PositiveBuckets {
			dst = binary.AppendVarint(dst, b)
		}
		dst = appendSpans(dst, h.NegativeSpans, len(h.NegativeBuckets))
		for _, b := range h.NegativeBuckets {
			dst = binary.AppendVarint(dst, b)
		}
		return appendFloats(binary.AppendUvarint(dst, uint64(len(h.CustomValues))), h.CustomValues...)
	}
	dst = append(dst, histogramFloats, byte(fh.CounterResetHint))
	dst = binary.AppendVarint(dst, int64(fh.Schema))
	dst = appendFloats(dst, fh.Sum, fh.ZeroThreshold, fh.Count, fh.ZeroCount)
	dst = appendFloats(appendSpans(dst, fh.PositiveSpans, len(fh.PositiveBuckets)), fh.PositiveBuckets...)
	dst = appendFloats(appendSpans(dst, fh.NegativeSpans, len(fh.NegativeBuckets)), fh.NegativeBuckets...)
	return appendFloats(binary.AppendUvarint(dst, uint64(len(fh.CustomValues))), fh.CustomValues...)
}

func appendFloats(dst []byte, vs ...float64) []byte {
	for _, v := range vs {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
	}
	return dst
}

func appendSpans(dst []byte, spans []histogram.Span, buckets int) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(spans)))
	for _, s := range spans {
		dst = binary.AppendVarint(dst, int64(s.Offset))
		dst = binary.AppendUvarint(dst, uint64(s.Length))
	}
	return binary.AppendUvarint(dst, uint64(buckets))
}

// DecodeHistogram reads what EncodeHistogram wrote; one of the results is not nil. Bytes of any other origin give an Invalid error: a histogram that comes
// out has as many buckets as its spans cover, and passes Prometheus' own validation.
func DecodeHistogram(b []byte) (*histogram.Histogram, *histogram.FloatHistogram, error) {
	h, fh, err := decodeHistogram(b)
	switch {
	case err != nil:
	case h != nil:
		err = h.Validate()
	default:
		err = fh.Validate()
	}
	if err != nil {
		return nil, nil, millstream.Wrap(millstream.Invalid, err, "invalid native histogram")
	}
	return h, fh, nil
}

func decodeHistogram(b []byte) (*histogram.Histogram, *histogram.FloatHistogram, error) {
	d := decoder{b: b}
	kind, hint, schema := d.byte(), histogram.CounterResetHint(d.byte()), d.varint()
	sum, threshold := d.float(), d.float()
	if hint > histogram.GaugeType || schema != int64(int32(schema)) {
		return nil, nil, millstream.Errorf(millstream.Invalid, "unknown kind of histogram")
	}
	if kind == histogramInts {
		h := &histogram.Histogram{CounterResetHint: hint, Schema: int32(schema), Sum: sum, ZeroThreshold: threshold, Count: d.uvarint(), ZeroCount: d.uvarint()}
		var n int
		h.PositiveSpans, n = d.spans(1)
		h.PositiveBuckets = d.varints(n)
		h.NegativeSpans, n = d.spans(1)
		h.NegativeBuckets = d.varints(n)
		h.CustomValues = d.floats(d.count(8))
		return h, nil, d.end()
	}
	if kind != histogramFloats {
		return nil, nil, millstream.Errorf(millstream.Invalid, "unknown kind of histogram")
	}
	fh := &histogram.FloatHistogram{CounterResetHint: hint, Schema: int32(schema), Sum: sum, ZeroThreshold: threshold, Count: d.float(), ZeroCount: d.float()}
	var n int
	fh.PositiveSpans, n = d.spans(8)
	fh.PositiveBuckets = d.floats(n)
	fh.NegativeSpans, n = d.spans(8)
	fh.NegativeBuckets = d.floats(n)
	fh.CustomValues = d.floats(d.count(8))
	return nil, fh, d.end()
}

// decoder reads a byte string; after a read beyond the end, all reads give zero and bad is set.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) fail() { d.b, d.bad = nil, true }

func (d *decoder) end() error {
	if d.bad || len(d.b) > 0 {
		return millstream.Errorf(millstream.Invalid, "the encoded length is wrong")
	}
	return nil
}

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.fail()
		return 0
	}
	x := d.b[0]
	d.b = d.b[1:]
	return x
}

func (d *decoder) uvarint() uint64 {
	if b := d.b; len(b) > 0 && b[0] < 0x80 { // most are small, and this much is inlined
		d.b = b[1:]
		return uint64(b[0])
	}
	return d.longUvarint()
}

func (d *decoder) longUvarint() uint64 {
	x, w := binary.Uvarint(d.b)
	if w <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[w:]
	return x
}

func (d *decoder) varint() int64 { return unzigzag(d.uvarint()) }

// count reads a number of items of at least size bytes each, which bounds it.
func (d *decoder) count(size int) int {
	n := d.uvarint()
	if n > uint64(len(d.b)/size) {
		d.fail()
		return 0
	}
	return int(n)
}

func (d *decoder) bytes(n int) []byte {
	if n < 0 || n > len(d.b) {
		d.fail()
		return nil
	}
	x := d.b[:n]
	d.b = d.b[n:]
	return x
}

func (d *decoder) float() float64 {
	b := d.bytes(8)
	if b == nil {
		return 0
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(b))
}

func (d *decoder) floats(n int) []float64 {
	if n == 0 || len(d.b) < 8*n {
		return nil
	}
	out := make([]float64, n)
	for i := range out {
		out[i] = d.float()
	}
	return out
}

func (d *decoder) varints(n int) []int64 {
	if n == 0 {
		return nil
	}
	out := make([]int64, n)
	for i := range out {
		out[i] = d.varint()
	}
	return out
}

// spans reads spans and the number of buckets, of at least size bytes each. Prometheus walks buckets by their spans, so that the two must agree.
func (d *decoder) spans(size int) (spans []histogram.Span, buckets int) {
	covered := uint64(0)
	if n := d.count(2); n > 0 {
		spans = make([]histogram.Span, n)
		for i := range spans {
			offset, length := d.varint(), d.uvarint()
			if offset != int64(int32(offset)) || length > math.MaxInt32 {
				d.fail()
			}
			spans[i] = histogram.Span{Offset: int32(offset), Length: uint32(length)}
			covered += length
		}
	}
	buckets = d.count(size)
	if uint64(buckets) != covered {
		d.fail()
		return nil, 0
	}
	return spans, buckets
}
