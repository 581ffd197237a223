// Package prometheus decodes Prometheus remote write 1.0 and 2.0 into samples. The messages are read from the wire form straight into columns: generated code
// would build every label of every series as a Go string first.
package prometheus

import (
	"mime"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest/decode"
)

// The protobuf messages that Content-Type may name; without a proto parameter it is version 1.
const (
	protoV1 = "prometheus.WriteRequest"
	protoV2 = "io.prometheus.write.v2.Request"
)

// Written is what remote write 2.0 answers in its headers.
type Written struct{ Samples, Histograms, Exemplars int }

// MaxName is the longest metric name in bytes; MaxLabel the longest label value.
const (
	MaxName  = 512
	MaxLabel = 64 << 10
)

// Decode reads a decompressed remote write request. A malformed message is Invalid as a whole; a series that breaks a rule is rejected with a reason and its
// neighbours are kept. Index in a rejection counts the series of the request. v2 says which protocol the request spoke.
func Decode(contentType string, body []byte, now time.Time, l decode.Limits) (res decode.Result, w Written, v2 bool, err error) {
	v2, err = version(contentType)
	if err != nil {
		return res, w, v2, err
	}
	d := &decoder{out: &millstream.Samples{}, window: l.Window(now), limits: l.WithDefaults(), res: &res, arena: make([]byte, 0, len(body))}
	if v2 {
		err = d.requestV2(body)
	} else {
		err = d.requestV1(body)
	}
	if err != nil {
		return decode.Result{}, Written{}, v2, err
	}
	if b := d.batch(); b != nil { // also one without samples: version 1.0 describes metrics in requests of their own
		res.Batches = append(res.Batches, b)
		res.Accepted += b.Rows()
	}
	return res, d.written, v2, nil
}

// version tells the protocol from the content type.
func version(contentType string) (v2 bool, err error) {
	typ, params, err := mime.ParseMediaType(contentType)
	if contentType != "" && (err != nil || typ != "application/x-protobuf") {
		return false, millstream.Errorf(millstream.Unsupported, "content type %q: remote write sends application/x-protobuf", contentType)
	}
	switch p := params["proto"]; p {
	case "", protoV1:
		return false, nil
	case protoV2:
		return true, nil
	default:
		return false, millstream.Errorf(millstream.Unsupported, "protobuf message %q: %s and %s are understood", p, protoV1, protoV2)
	}
}

// decoder collects the samples of one request. Label sets are encoded one after the other into arena, and become strings when all are there.
type decoder struct {
	out     *millstream.Samples
	res     *decode.Result
	written Written
	window  decode.Window
	limits  decode.Limits
	extras  int64 // bytes of the labels of exemplars and of metadata

	arena   []byte
	ends    []int // end of each series' key in arena
	index   int   // series of the request so far
	labels  []millstream.Label
	symbols []string // version 2
	ex      []pendingExemplar
	keep    mark
}

type pendingExemplar struct {
	e      millstream.Exemplar
	labels []byte
}

// mark is where a series begins in the columns, to go back to when it is rejected.
type mark struct{ arena, ends, samples, exemplars int }

func (d *decoder) begin() {
	d.keep = mark{len(d.arena), len(d.ends), len(d.out.Ref), len(d.ex)}
	d.labels = d.labels[:0]
	d.index++
}

// reject drops what the current series added.
func (d *decoder) reject(field, reason string) {
	k := d.keep
	d.arena, d.ends, d.ex = d.arena[:k.arena], d.ends[:k.ends], d.ex[:k.exemplars]
	o := d.out
	o.Ref, o.Time, o.Value = o.Ref[:k.samples], o.Time[:k.samples], o.Value[:k.samples]
	if o.Start != nil {
		o.Start = o.Start[:min(len(o.Start), k.samples)]
	}
	if o.Histogram != nil {
		o.Histogram = o.Histogram[:min(len(o.Histogram), k.samples)]
	}
	d.res.Reject(d.index-1, field, reason)
}

// series ends the label set of the current series; a reason is given if it must be rejected.
func (d *decoder) series() (field, reason string) {
	if field, reason = checkLabels(d.labels); reason != "" {
		return field, reason
	}
	if reason = d.checkSize(); reason != "" {
		return "", reason
	}
	arena, err := millstream.EncodeLabels(d.arena, d.labels)
	if err != nil {
		return "", millstream.Message(err)
	}
	d.arena = arena
	d.ends = append(d.ends, len(arena))
	return "", ""
}

// checkSize gives the reason to reject the current series for its size. Symbols of version 2 are sent once and used by many series: the keys of all series
// together may not be larger than the largest body.
func (d *decoder) checkSize() string {
	size := int64(0)
	for _, l := range d.labels {
		size += int64(len(l.Name) + len(l.Value))
	}
	switch {
	case len(d.labels) > d.limits.MaxFields:
		return "the series has more than " + strconv.Itoa(d.limits.MaxFields) + " labels"
	case size > int64(d.limits.MaxRecord):
		return "the labels are larger than " + strconv.Itoa(d.limits.MaxRecord) + " bytes"
	case int64(len(d.arena))+size > d.limits.MaxDecoded:
		return "the series of the request are larger than " + strconv.FormatInt(d.limits.MaxDecoded, 10) + " bytes: send smaller batches"
	}
	return ""
}

// addLabel adds a label to a list that takes no more once the series is beyond the limit.
func (d *decoder) addLabel(ls []millstream.Label, l millstream.Label) []millstream.Label {
	if len(ls) > d.limits.MaxFields {
		return ls
	}
	return append(ls, l)
}

// afford counts bytes that extras take, and says whether they may be kept.
func (d *decoder) afford(bytes int) bool {
	if d.extras+int64(bytes) > d.limits.MaxDecoded {
		return false
	}
	d.extras += int64(bytes)
	return true
}

func checkLabels(ls []millstream.Label) (field, reason string) {
	named := false
	for _, l := range ls {
		switch {
		case l.Name == "" || !utf8.ValidString(l.Name):
			return l.Name, "a label name must be UTF-8 and not empty"
		case !utf8.ValidString(l.Value):
			return l.Name, "the label value is not UTF-8"
		case len(l.Value) > MaxLabel || len(l.Name) > MaxName:
			return l.Name[:min(len(l.Name), MaxName)], "the label is too long"
		case l.Name == "__name__":
			named = l.Value != ""
			if len(l.Value) > MaxName {
				return l.Name, "the metric name is longer than 512 bytes"
			}
		}
	}
	if !named {
		return "__name__", "the series has no metric name"
	}
	return "", ""
}

// sample adds a sample of the current series. start and hist may be absent (0, nil).
func (d *decoder) sample(ms int64, v float64, start int64, hist []byte) {
	o := d.out
	n := len(o.Ref)
	if start != 0 && o.Start == nil {
		o.Start = make([]int64, n, n+16)
	}
	if hist != nil && o.Histogram == nil {
		o.Histogram = make([][]byte, n, n+16)
	}
	o.Ref = append(o.Ref, uint32(d.keep.ends))
	o.Time = append(o.Time, ms)
	o.Value = append(o.Value, v)
	if o.Start != nil {
		o.Start = append(o.Start, start)
	}
	if o.Histogram != nil {
		o.Histogram = append(o.Histogram, hist)
	}
}

// finish checks the times of the current series' samples and counts what it holds.
func (d *decoder) finish() (reason string) {
	hists := 0
	for i := d.keep.samples; i < len(d.out.Ref); i++ {
		ms := d.out.Time[i]
		if ms > maxMillis || ms < -maxMillis {
			return "the time of a sample is out of range"
		}
		if reason := d.window.Check(ms * 1e6); reason != "" {
			return reason
		}
		if d.out.Histogram != nil && d.out.Histogram[i] != nil {
			hists++
		}
	}
	d.written.Histograms += hists
	d.written.Samples += len(d.out.Ref) - d.keep.samples - hists
	d.written.Exemplars += len(d.ex) - d.keep.exemplars
	return ""
}

// maxMillis bounds times to what fits in int64 nanoseconds.
const maxMillis = 9_223_372_036_854

// batch makes strings of the encoded label sets.
func (d *decoder) batch() *millstream.Batch {
	o := d.out
	if len(o.Ref) == 0 && len(o.Metadata) == 0 && len(d.ex) == 0 {
		return nil
	}
	all := decode.View(d.arena) // nothing writes to it from here on
	o.Series = make([]string, len(d.ends))
	from := 0
	for i, end := range d.ends {
		o.Series[i], from = all[from:end], end
	}
	for _, p := range d.ex {
		p.e.Labels = string(p.labels)
		o.Exemplars = append(o.Exemplars, p.e)
	}
	return &millstream.Batch{Signal: millstream.Metrics, Name: millstream.MetricStream, Samples: o}
}

func (d *decoder) exemplar(e millstream.Exemplar, ls []millstream.Label) {
	size := 0
	for _, l := range ls {
		size += len(l.Name) + len(l.Value)
	}
	if len(ls) > d.limits.MaxFields || size > MaxLabel || !d.afford(size) {
		return // an exemplar is an extra: one that cannot be kept never costs its sample
	}
	for _, l := range ls {
		if !utf8.ValidString(l.Name) || !utf8.ValidString(l.Value) {
			return
		}
	}
	e.Ref = uint32(d.keep.ends)
	if enc, err := millstream.EncodeLabels(nil, ls); err == nil {
		d.ex = append(d.ex, pendingExemplar{e, enc})
	}
}

// types are the metric types by their number in both versions of the protocol.
var types = []string{"unknown", "counter", "gauge", "histogram", "gaugehistogram", "summary", "info", "stateset"}

func metricType(n uint64) string {
	if n < uint64(len(types)) {
		return types[n]
	}
	return "unknown"
}

// text copies a metadata text, made valid UTF-8.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
