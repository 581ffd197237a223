package metrics

import (
	"slices"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// histogramChunkSamples is how many histograms one chunk holds at most; mostly the size ends a chunk before.
const histogramChunkSamples = 120

// histogramSample is a native histogram of integers (h) or of floats (fh).
type histogramSample struct {
	start, t int64
	h        *histogram.Histogram
	fh       *histogram.FloatHistogram
}

func (x *histogramSample) kind() chunkenc.ValueType {
	if x.h != nil {
		return chunkenc.ValHistogram
	}
	return chunkenc.ValFloatHistogram
}

// histogramPacker makes Prometheus' histogram chunks of the histograms of one series, in order. A chunk ends when it is full, when the kind of sample changes,
// and when Prometheus' encoding asks for it, at counter resets and changes of the bucket layout.
type histogramPacker struct {
	done   []Chunk
	chunk  chunkenc.Chunk
	app    chunkenc.Appender
	kind   chunkenc.ValueType
	starts bool
	min    int64
	max    int64
}

func (p *histogramPacker) add(x histogramSample) error {
	if p.chunk != nil && (x.kind() != p.kind || (x.start != 0) != p.starts || p.full()) {
		p.end()
	}
	if p.chunk == nil {
		if err := p.begin(x); err != nil {
			return err
		}
	}
	var next chunkenc.Chunk
	var recoded bool
	var app chunkenc.Appender
	var err error
	if x.h != nil {
		next, recoded, app, err = p.app.AppendHistogram(nil, x.start, x.t, x.h, false)
	} else {
		next, recoded, app, err = p.app.AppendFloatHistogram(nil, x.start, x.t, x.fh, false)
	}
	if err != nil {
		return err
	}
	if next != nil {
		if !recoded {
			p.end()
			p.kind, p.starts, p.min = x.kind(), x.start != 0, x.t
		}
		p.chunk = next
	}
	p.app, p.max = app, x.t
	return nil
}

func (p *histogramPacker) begin(x histogramSample) (err error) {
	if p.chunk, err = x.kind().NewChunk(false, x.start != 0); err != nil {
		return err
	}
	p.kind, p.starts, p.min = x.kind(), x.start != 0, x.t
	p.app, err = p.chunk.Appender()
	return err
}

func (p *histogramPacker) full() bool {
	n := p.chunk.NumSamples()
	return n >= histogramChunkSamples || n >= chunkenc.MinSamplesPerHistogramChunk && len(p.chunk.Bytes()) >= chunkenc.TargetBytesPerHistogramChunk
}

// end ends the chunk that is being filled.
func (p *histogramPacker) end() {
	if p.chunk != nil && p.chunk.NumSamples() > 0 {
		p.done = append(p.done, Chunk{Min: p.min, Max: p.max, Count: p.chunk.NumSamples(), Enc: encChunk + Encoding(p.chunk.Encoding()), Data: slices.Clone(p.chunk.Bytes())})
	}
	p.chunk, p.app = nil, nil
}

// take returns the chunks that have ended since the last call; they are valid until the next add.
func (p *histogramPacker) take() []Chunk {
	out := p.done
	p.done = p.done[:0]
	return out
}

// packHistograms makes chunks of a run of encoded histograms.
func packHistograms(r *run) ([]Chunk, error) {
	var p histogramPacker
	for i, b := range r.Hists {
		x := histogramSample{t: r.Times[i]}
		if r.Starts != nil {
			x.start = r.Starts[i]
		}
		var err error
		if x.h, x.fh, err = decodeHistogram(b); err != nil {
			return nil, err
		}
		if err := p.add(x); err != nil {
			return nil, err
		}
	}
	p.end()
	return p.done, nil
}
