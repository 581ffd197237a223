package metrics

import (
	"encoding/hex"
	"io"
	"math"
	"slices"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/segment"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/zeebo/blake3"
)

// row is a row of the Parquet object. It is complete: the index object holds nothing that cannot be made from the rows.
type row struct {
	Name     string `parquet:"name,dict"`
	Labels   []byte `parquet:"labels,plain"` // canonical label set; only in the first row of a series, the others follow it
	Min      int64  `parquet:"min_time,delta"`
	Max      int64  `parquet:"max_time,delta"`
	Count    int32  `parquet:"samples,delta"`
	Encoding int32  `parquet:"encoding,dict"`
	Chunk    []byte `parquet:"chunk,plain,zstd"`
}

const (
	chunkColumn = 6
	// pageBytes is how much of a column one page holds before compression. A query decompresses whole pages, so that a page should hold little more than one
	// series of a large name; below 32 KiB zstd compresses noticeably worse.
	pageBytes = 64 << 10
	// rowGroupRows bounds the memory that parquet-go needs for the pages of an open row group to about 64 MiB.
	rowGroupRows = 64 << 10
	writeRows    = 32
)

// writer writes the objects of a segment from series in order.
type writer struct {
	data, index counter
	parquet     *parquet.GenericWriter[row]
	builder     indexBuilder
	rows        []row
	bytes       []byte // of the labels and chunks of rows
	inGroup     int
	floats      run
	sorted      []ranked
	overlap     overlap
	hists       histogramPacker
	enc         encoder
	it          Iterator
	name, key   string // of the current series
	shared      int    // what its key shares with that of the last one that has rows
	skipped     bool   // the last series has no rows
	info        segment.Info
	samples     int64
}

// counter counts and hashes what is written.
type counter struct {
	w    io.Writer
	n    int64
	hash *blake3.Hasher
	keep bool
	kept []byte // what was written since keep was set
}

func newCounter(w io.Writer) counter { return counter{w: w, hash: blake3.New()} }

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	_, _ = c.hash.Write(b[:n])
	if c.keep {
		c.kept = append(c.kept, b[:n]...)
	}
	return n, err
}

func (c *counter) sum() string { return hex.EncodeToString(c.hash.Sum(nil)) }

func newWriter(data, index io.Writer) *writer {
	w := &writer{data: newCounter(data), index: newCounter(index)}
	w.parquet = parquet.NewGenericWriter[row](&w.data,
		parquet.DataPageVersion(1),
		parquet.PageBufferSize(pageBytes),
		parquet.Compression(fastest),
		// They would be four chunks in the header of a page. The column index has those of the other columns.
		parquet.DataPageStatistics(false),
		parquet.SkipPageBounds("chunk"), parquet.SkipPageBounds("labels"),
		parquet.CreatedBy("millstream", "1", ""))
	w.builder.init(&w.index)
	w.info.MinTime, w.info.MaxTime = math.MaxInt64, math.MinInt64
	return w
}

// fastest compresses all columns but the chunks. Of sorted label sets what it makes is smaller than what the default level does. Its encoders serve many writers.
var fastest = &zstd.Codec{Level: zstd.SpeedFastest}

// series writes one series. Series must come in order, each once; shared is of this order.
func (w *writer) series(s *position) error {
	known := s.shared
	if w.skipped {
		known = otherName
	}
	shared, ok := w.builder.follows(s.name, s.key, known)
	if !ok {
		return millstream.Errorf(millstream.Internal, "series are not in order: %q after %q", s.key, w.builder.key)
	}
	w.name, w.key, w.shared = s.name, s.key, shared
	before := w.builder.rowCount
	if err := w.chunks(s.chunks); err != nil {
		return err
	}
	if len(s.exemplars) > 0 {
		c := encodeExemplars(s.exemplars)
		if err := w.row(&c); err != nil {
			return err
		}
	}
	if w.skipped = w.builder.rowCount == before; w.skipped {
		return nil
	}
	w.builder.endSeries()
	return w.builder.err
}

// chunks writes the samples of a series as rows, of chunks in the order in which they were written.
func (w *writer) chunks(cs []Chunk) error {
	if !slices.ContainsFunc(cs, func(c Chunk) bool { return c.isHistogram() }) {
		return w.floatChunks(cs)
	}
	if err := w.samplesOf(cs); err != nil {
		return err
	}
	if err := w.flushHistograms(); err != nil {
		return err
	}
	return w.flushFloats()
}

// samplesOf walks over the samples of chunks.
func (w *writer) samplesOf(cs []Chunk) error {
	w.it.Reset(cs)
	for kind := w.it.Next(); kind != chunkenc.ValNone; kind = w.it.Next() {
		if err := w.sample(kind); err != nil {
			return err
		}
	}
	return w.it.Err()
}

// sample adds the sample on which the iterator stands.
func (w *writer) sample(kind chunkenc.ValueType) error {
	if kind == chunkenc.ValFloat {
		if err := w.flushHistograms(); err != nil {
			return err
		}
		t, v := w.it.At()
		return w.float(t, w.it.AtST(), v)
	}
	if err := w.flushFloats(); err != nil {
		return err
	}
	var x histogramSample
	if x.start = w.it.AtST(); kind == chunkenc.ValHistogram {
		x.t, x.h = w.it.AtHistogram(nil)
	} else {
		x.t, x.fh = w.it.AtFloatHistogram(nil)
	}
	if err := w.hists.add(x); err != nil {
		return err
	}
	return w.writeChunks(w.hists.take())
}

func (w *writer) flushHistograms() error {
	w.hists.end()
	return w.writeChunks(w.hists.take())
}

func (w *writer) writeChunks(cs []Chunk) error {
	for i := range cs {
		if err := w.row(&cs[i]); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) float(t, start int64, v float64) error {
	r := &w.floats
	if start != 0 && r.Starts == nil {
		r.Starts = make([]int64, len(r.Times), maxChunkSamples)
	}
	r.Times, r.Values = append(r.Times, t), append(r.Values, v)
	if r.Starts != nil {
		r.Starts = append(r.Starts, start)
	}
	if len(r.Times) < maxChunkSamples {
		return nil
	}
	return w.flushFloats()
}

func (w *writer) flushFloats() error {
	r := &w.floats
	if len(r.Times) == 0 {
		return nil
	}
	c := r.chunk()
	c.raw, c.Enc = nil, EncFloats
	w.enc.buf = w.enc.encodeFloats(w.enc.buf[:0], r)
	c.Data = w.enc.buf
	r.Times, r.Values, r.Starts = r.Times[:0], r.Values[:0], nil
	return w.row(&c)
}

// row adds a row of the current series. Its bytes are copied, since rows are written some at a time.
func (w *writer) row(c *Chunk) error {
	r := row{Name: w.name, Min: c.Min, Max: c.Max, Count: int32(c.Count), Encoding: int32(c.Enc), Chunk: w.copied(c.Data)}
	if w.builder.beginRow(w.name, w.key, w.shared, c) {
		r.Labels = w.copied(bytesOf(w.key))
	}
	w.rows = append(w.rows, r)
	w.note(c)
	if len(w.rows) < writeRows {
		return nil
	}
	return w.flushRows()
}

// copied is a copy of bytes that lasts until the rows are written.
func (w *writer) copied(b []byte) []byte {
	from := len(w.bytes)
	w.bytes = append(w.bytes, b...)
	return w.bytes[from:len(w.bytes):len(w.bytes)]
}

// note counts a row into what is said of the whole.
func (w *writer) note(c *Chunk) {
	w.info.MinTime, w.info.MaxTime = min(w.info.MinTime, c.Min), max(w.info.MaxTime, c.Max)
	if c.Enc != EncExemplars {
		w.samples += int64(c.Count)
	}
}

func (w *writer) flushRows() error {
	if _, err := w.parquet.Write(w.rows); err != nil {
		return err
	}
	w.inGroup += len(w.rows)
	clear(w.rows)
	w.rows, w.bytes = w.rows[:0], w.bytes[:0]
	if w.inGroup < rowGroupRows {
		return nil
	}
	w.inGroup = 0
	return w.parquet.Flush()
}

// close ends both objects.
func (w *writer) close() (segment.Info, error) {
	if err := w.flushRows(); err != nil {
		return segment.Info{}, err
	}
	if err := w.closeParquet(); err != nil {
		return segment.Info{}, err
	}
	w.info.DataSize, w.info.DataSum = w.data.n, w.data.sum()
	return w.closeIndex()
}

// closeIndex ends the index.
func (w *writer) closeIndex() (segment.Info, error) {
	w.builder.dataSize, w.builder.samples = w.data.n, w.samples
	w.builder.min, w.builder.max = w.info.MinTime, w.info.MaxTime
	if err := w.builder.close(); err != nil {
		return segment.Info{}, err
	}
	w.info.Rows = w.samples
	w.info.MinTime, w.info.MaxTime = nanoseconds(w.info.MinTime), nanoseconds(w.info.MaxTime)
	w.info.IndexSize, w.info.IndexSum = w.index.n, w.index.sum()
	return w.info, nil
}

// nanoseconds converts ms; times beyond what nanoseconds can say are clamped.
func nanoseconds(ms int64) int64 {
	const limit = math.MaxInt64 / 1_000_000
	return min(max(ms, -limit), limit) * 1_000_000
}

// closeParquet ends the Parquet object and notes where the pages of chunks are. parquet-go keeps that to itself but writes it, as offset indexes, between
// the rows and the footer.
func (w *writer) closeParquet() error {
	if err := w.parquet.Flush(); err != nil {
		return err
	}
	from := w.data.n
	w.data.keep = true
	if err := w.parquet.Close(); err != nil {
		return err
	}
	var rows int64
	for _, g := range w.parquet.File().Metadata().RowGroups {
		at := g.Columns[chunkColumn].OffsetIndexOffset - from
		var x format.OffsetIndex
		if err := thrift.Unmarshal(&thrift.CompactProtocol{}, w.data.kept[at:at+int64(g.Columns[chunkColumn].OffsetIndexLength)], &x); err != nil {
			return err
		}
		for _, l := range x.PageLocations {
			w.builder.pages = append(w.builder.pages, page{offset: l.Offset, size: l.CompressedPageSize, firstRow: rows + l.FirstRowIndex})
		}
		rows += g.NumRows
	}
	w.data.kept = nil
	return nil
}
