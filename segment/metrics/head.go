package metrics

import (
	"maps"
	"strings"
	"sync"

	"github.com/millstream/millstream"
)

// tailSamples is how many floats a series collects before they are packed into a chunk. Plain arrays cost 16 bytes a sample, chunks about 3.
const tailSamples = 64

// Head holds the samples of one organization that are not in a segment yet. One goroutine appends; any number read. A reader sees whole batches: all
// that was appended before its call began, and nothing of what comes later.
//
// Arrays that readers may hold are only ever appended to, so that a reader keeps a slice of what was there and needs no lock to use it.
type Head struct {
	mu       sync.RWMutex // held by Append for a batch, by readers while they take slices
	series   map[string]*headSeries
	families map[string]*family
	metadata map[string]millstream.Metadata
	samples  int64
	size     int64
	min, max int64
	enc      encoder
	refs     []*headSeries // of the batch being appended
}

// family is the series of one metric name, in order of arrival.
type family struct {
	name   string
	series []*headSeries
}

// headSeries is one series. Its tail is a run of either floats or histograms; samples that are not newer than all before them go to extra.late.
type headSeries struct {
	key    string
	family *family
	tail   run
	chunks []Chunk
	last   int64 // time of the newest sample
	any    bool  // a sample was appended
	extra  *extra
}

// extra is what few series have.
type extra struct {
	late      []lateSample // the newest, in order of arrival
	chunks    []Chunk      // of earlier late samples, in the order of writing
	exemplars []millstream.Exemplar
}

// lateSample is a sample that came out of order, or replaces one of the same time.
type lateSample struct {
	time, start int64
	value       float64
	hist        []byte
}

// NewHead returns an empty head.
func NewHead() *Head {
	return &Head{series: map[string]*headSeries{}, families: map[string]*family{}, metadata: map[string]millstream.Metadata{}, min: 1<<63 - 1, max: -1 << 63}
}

// Samples is the number of samples appended.
func (h *Head) Samples() int64 {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.samples
}

// Rows is Samples: a sample is a record.
func (h *Head) Rows() int64 { return h.Samples() }

// Size is about how many bytes of memory the head holds.
func (h *Head) Size() int64 {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.size
}

// Series is the number of series.
func (h *Head) Series() (n int) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for _, f := range h.families {
		n += len(f.series)
	}
	return n
}

// Snapshot is the head as it is now, at the cost of a copy of its list of series. It is for reading alone: nothing may be appended to it.
func (h *Head) Snapshot() *Head {
	h.mu.RLock()
	defer h.mu.RUnlock()
	out := &Head{families: make(map[string]*family, len(h.families)), metadata: maps.Clone(h.metadata), samples: h.samples, size: h.size, min: h.min, max: h.max}
	for name, f := range h.families {
		to := &family{name: name, series: make([]*headSeries, len(f.series))}
		copies := make([]headSeries, len(f.series))
		for i, s := range f.series {
			copies[i] = *s
			copies[i].family = to
			if s.extra != nil {
				x := *s.extra
				copies[i].extra = &x
			}
			to.series[i] = &copies[i]
		}
		out.families[name] = to
	}
	return out
}

// LastKeys are the keys of the series of the batch that was appended last, in the batch's order, as the head holds them. It is for the goroutine that appends.
func (h *Head) LastKeys() []string {
	keys := make([]string, len(h.refs))
	for i, s := range h.refs {
		keys[i] = s.key
	}
	return keys
}

// Span is the time of the first and the last sample in ms, both included.
func (h *Head) Span() (first, last int64) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.min, h.max
}

// Metadata is what was appended of metric names' types, units and help texts, last first come.
func (h *Head) Metadata() []millstream.Metadata {
	h.mu.RLock()
	defer h.mu.RUnlock()
	out := make([]millstream.Metadata, 0, len(h.metadata))
	for _, m := range h.metadata {
		out = append(out, m)
	}
	return out
}

// seriesSize is about what a series costs beside its key and samples: the struct and its entries in the maps.
const seriesSize = 256

// Append adds a batch. A sample whose histogram is not valid is left out and counted as rejected. A batch whose references do not fit its series is
// refused as a whole: it is Invalid, and nothing of it is added.
func (h *Head) Append(b *millstream.Samples) (rejected int, err error) {
	if err := checkBatch(b); err != nil {
		return 0, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refs = h.refs[:0]
	for _, key := range b.Series {
		h.refs = append(h.refs, h.intern(key))
	}
	for i, ref := range b.Ref {
		s := h.refs[ref]
		smp := lateSample{time: b.Time[i]}
		if b.Start != nil {
			smp.start = b.Start[i]
		}
		if b.Histogram != nil && b.Histogram[i] != nil {
			if _, _, err := DecodeHistogram(b.Histogram[i]); err != nil {
				rejected++
				continue
			}
			smp.hist = append([]byte(nil), b.Histogram[i]...)
		} else {
			smp.value = b.Value[i]
		}
		h.add(s, smp)
	}
	for _, e := range b.Exemplars {
		h.addExemplar(h.refs[e.Ref], e)
	}
	for _, m := range b.Metadata {
		h.describe(m)
	}
	return rejected, nil
}

// describe keeps what a batch says of a metric name, but not the memory that the batch came in.
func (h *Head) describe(m millstream.Metadata) {
	old, known := h.metadata[m.Name]
	if known && old == m {
		return
	}
	if known {
		h.size -= metadataSize(&old)
	}
	m = millstream.Metadata{Name: strings.Clone(m.Name), Type: strings.Clone(m.Type), Unit: strings.Clone(m.Unit), Help: strings.Clone(m.Help)}
	h.metadata[m.Name] = m
	h.size += metadataSize(&m)
}

func metadataSize(m *millstream.Metadata) int64 {
	return 128 + int64(len(m.Name)+len(m.Type)+len(m.Unit)+len(m.Help))
}

func checkBatch(b *millstream.Samples) error {
	n := len(b.Ref)
	if len(b.Time) != n || len(b.Value) != n || (b.Start != nil && len(b.Start) != n) || (b.Histogram != nil && len(b.Histogram) != n) {
		return millstream.Errorf(millstream.Invalid, "a batch of samples has columns of different lengths")
	}
	for _, r := range b.Ref {
		if int(r) >= len(b.Series) {
			return millstream.Errorf(millstream.Invalid, "a sample refers to series %d of %d", r, len(b.Series))
		}
	}
	for _, e := range b.Exemplars {
		if int(e.Ref) >= len(b.Series) {
			return millstream.Errorf(millstream.Invalid, "an exemplar refers to series %d of %d", e.Ref, len(b.Series))
		}
	}
	return nil
}

func (h *Head) intern(key string) *headSeries {
	if s, ok := h.series[key]; ok {
		return s
	}
	key = strings.Clone(key)
	name := millstream.LabelValue(key, nameLabel)
	f := h.families[name]
	if f == nil {
		f = &family{name: name}
		h.families[name] = f
		h.size += 128
	}
	s := &headSeries{key: key, family: f}
	h.series[key] = s
	f.series = append(f.series, s)
	h.size += seriesSize + int64(len(key))
	return s
}

func (h *Head) add(s *headSeries, x lateSample) {
	h.samples++
	h.min, h.max = min(h.min, x.time), max(h.max, x.time)
	if s.any && x.time <= s.last {
		h.addLate(s.more(), x)
		return
	}
	s.any, s.last = true, x.time
	t := &s.tail
	if n := len(t.Times); n >= tailSamples || n > 0 && (t.Hists != nil) != (x.hist != nil) {
		h.seal(s)
	}
	before := t.arrays()
	if x.start != 0 && t.Starts == nil {
		t.Starts = make([]int64, len(t.Times), cap(t.Times))
	}
	t.Times = append(t.Times, x.time)
	if t.Starts != nil {
		t.Starts = append(t.Starts, x.start)
	}
	if x.hist != nil {
		t.Hists = append(t.Hists, x.hist)
	} else {
		t.Values = append(t.Values, x.value)
	}
	h.size += t.arrays() - before + int64(len(x.hist))
}

// arrays is the bytes of memory that the run's arrays hold, the histograms' own aside.
func (r *run) arrays() int64 {
	return 8*int64(cap(r.Times)+cap(r.Values)+cap(r.Starts)) + 24*int64(cap(r.Hists))
}

func (h *Head) addLate(e *extra, x lateSample) {
	e.late = append(e.late, x)
	h.size += lateSize(&x)
	if len(e.late) < tailSamples {
		return
	}
	for i := range e.late {
		h.size -= lateSize(&e.late[i])
	}
	for _, r := range lateRuns(e.late) {
		e.chunks = append(e.chunks, h.pack(r)...)
	}
	e.late = nil
}

func lateSize(x *lateSample) int64 { return 64 + int64(len(x.hist)) }

// seal turns the tail into chunks. New arrays follow, because readers may hold the old ones.
func (h *Head) seal(s *headSeries) {
	t := s.tail
	s.tail = run{}
	h.size -= t.arrays()
	for _, b := range t.Hists {
		h.size -= int64(len(b))
	}
	s.chunks = append(s.chunks, h.pack(&t)...)
	if t.Hists == nil {
		const few = tailSamples / 4 // most tails of a head never fill
		s.tail.Times, s.tail.Values = make([]int64, 0, few), make([]float64, 0, few)
		h.size += s.tail.arrays()
	}
}

// pack turns a run into chunks.
func (h *Head) pack(r *run) []Chunk {
	out := packRun(&h.enc, r)
	for i := range out {
		h.size += out[i].size()
	}
	return out
}

// packRun turns a run into chunks. Its histograms passed DecodeHistogram, so that packing them cannot fail; were one to, the run would be unreadable and is
// left out.
func packRun(e *encoder, r *run) []Chunk {
	if r.Hists == nil {
		return []Chunk{packFloats(e, r)}
	}
	out, err := packHistograms(r)
	if err != nil {
		return nil
	}
	return out
}

func packFloats(e *encoder, r *run) Chunk {
	c := r.chunk()
	c.raw, c.Enc = nil, EncFloats
	e.buf = e.encodeFloats(e.buf[:0], r)
	c.Data = append(make([]byte, 0, len(e.buf)), e.buf...)
	return c
}

func (s *headSeries) more() *extra {
	if s.extra == nil {
		s.extra = &extra{}
	}
	return s.extra
}

func (h *Head) addExemplar(s *headSeries, e millstream.Exemplar) {
	e.Ref, e.Labels = 0, strings.Clone(e.Labels)
	s.more().exemplars = append(s.extra.exemplars, e)
	h.size += 64 + int64(len(e.Labels))
	if !s.any { // an exemplar alone still makes its time visible
		h.min, h.max = min(h.min, e.Time), max(h.max, e.Time)
	}
}
