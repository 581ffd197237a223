package metrics

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/millstream/millstream"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// Encoding says how a chunk's bytes hold samples. The numbers are stored; never renumber.
type Encoding uint8

const (
	// EncFloats is the packed form of floats, see encodeFloats.
	EncFloats Encoding = 1
	// EncExemplars marks a row that holds the exemplars of a series, not samples.
	EncExemplars Encoding = 2
	// encChunk + n is Prometheus' chunk encoding n, which is used for native histograms.
	encChunk Encoding = 0x10
)

const (
	// maxChunkSamples is how many floats one chunk holds at most. The packed form takes about 1.4 bytes a sample and is decoded whole, four times as fast as
	// XOR chunks, so chunks may be longer than the usual 120 samples; longer ones cost fewer rows.
	maxChunkSamples = 480
	// maxSampleCount bounds what a damaged row may claim.
	maxSampleCount = 1 << 16
)

// Chunk is a run of samples of one series, strictly increasing in time. It is immutable.
type Chunk struct {
	Min, Max int64 // times of the first and last sample
	Count    int
	Enc      Encoding
	Data     []byte
	raw      *run // floats of a head that are not packed yet; Data is nil then
}

// run is a run of samples as plain arrays. Either Values or Hists holds what was sampled; Starts is nil if no sample has a start time.
type run struct {
	Times  []int64
	Values []float64
	Starts []int64
	Hists  [][]byte
}

func (r *run) chunk() Chunk {
	return Chunk{Min: r.Times[0], Max: r.Times[len(r.Times)-1], Count: len(r.Times), raw: r}
}

// isHistogram says whether the chunk holds native histograms.
func (c *Chunk) isHistogram() bool { return c.Enc >= encChunk }

// size is about how many bytes of memory the chunk holds.
func (c *Chunk) size() int64 { return int64(len(c.Data)) + 64 }

// The first byte of a packed chunk: how times and values are held.
const (
	flagJitter     = 1 << 0 // times are differences of differences; else they have a constant step
	flagStarts     = 1 << 1 // start times follow the times
	flagExceptions = 1 << 2 // some values do not fit the decimal form and follow as they are
	modeShift      = 3
	modeConstant   = 0 << modeShift // one value
	modeDelta      = 1 << modeShift // decimal integers, differences
	modeDelta2     = 2 << modeShift // decimal integers, differences of differences
	modePlanes     = 3 << modeShift // bits exclusive-or the previous ones, as eight planes of bytes
	modeMask       = 3 << modeShift
)

// maxExponent is the largest power of ten tried. Both 10^e and integers below 2^53 are exact as doubles, so value = integer / 10^e rounds as a decimal
// literal does.
const maxExponent = 12

var pow10 = [maxExponent + 1]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12}

// encoder holds what encodeFloats needs again and again.
type encoder struct {
	buf        []byte
	ints       []int64
	exceptions []int
}

// encodeFloats appends the packed form of samples to dst. The first and last time and the number of samples are kept outside, in Chunk.
//
// Metric values are mostly integers or short decimals, and change smoothly. So a chunk finds the one power of ten that turns its values into integers
// exactly, bit for bit, and holds their differences, or differences of differences, as varints: mostly one byte each, and small enough a set of bytes for
// zstd, which compresses the page around, to halve. Values that do not fit (stale markers, infinities, -0) are exceptions; a chunk with many of them holds
// the bits of all its values as byte planes.
func (e *encoder) encodeFloats(dst []byte, r *run) []byte {
	head := len(dst)
	dst = append(dst, 0)
	flags := byte(0)
	if !constantStep(r.Times) {
		flags |= flagJitter
		dst = appendDelta2(dst, r.Times[0], r.Times)
	}
	if r.Starts != nil {
		flags |= flagStarts
		dst = appendDelta(dst, r.Times[0], r.Starts)
	}
	if constant(r.Values) {
		dst[head] = flags | modeConstant
		return binary.LittleEndian.AppendUint64(dst, math.Float64bits(r.Values[0]))
	}
	exp, ok := e.decimal(r.Values)
	if !ok {
		dst[head] = flags | modePlanes
		return appendPlanes(dst, r.Values)
	}
	dst = append(dst, byte(exp))
	if len(e.exceptions) > 0 {
		flags |= flagExceptions
		dst = binary.AppendUvarint(dst, uint64(len(e.exceptions)))
		for _, i := range e.exceptions {
			dst = binary.AppendUvarint(dst, uint64(i))
			dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(r.Values[i]))
		}
	}
	if delta, delta2 := varintSizes(e.ints); delta <= delta2 {
		dst[head] = flags | modeDelta
		return appendDelta(dst, 0, e.ints)
	}
	dst[head] = flags | modeDelta2
	return appendDelta2(dst, 0, e.ints)
}

func constantStep(ts []int64) bool {
	for i := 2; i < len(ts); i++ {
		if ts[i]-ts[i-1] != ts[1]-ts[0] {
			return false
		}
	}
	return true
}

func constant(vs []float64) bool {
	first := math.Float64bits(vs[0])
	for _, v := range vs[1:] {
		if math.Float64bits(v) != first {
			return false
		}
	}
	return true
}

// decimal finds the power of ten that makes integers of the values and fills e.ints and e.exceptions. ok is false if more than one in eight is an exception.
func (e *encoder) decimal(vs []float64) (exp int, ok bool) {
	if e.integers(vs) {
		return 0, true
	}
	misfits, allowed := 0, len(vs)/8
	for _, v := range vs {
		x := exp
		for x <= maxExponent && !fits(v, x) {
			x++
		}
		if x <= maxExponent {
			exp = x
		} else if misfits++; misfits > allowed {
			return 0, false
		}
	}
	previous := int64(0)
	for i, v := range vs {
		if fits(v, exp) && math.Float64bits(v) != 1<<63 {
			previous = int64(math.RoundToEven(v * pow10[exp]))
		} else {
			e.exceptions = append(e.exceptions, i)
		}
		e.ints[i] = previous
	}
	return exp, len(e.exceptions) <= max(allowed, 1)
}

// integers fills e.ints and e.exceptions if all values are integers.
func (e *encoder) integers(vs []float64) bool {
	e.ints, e.exceptions = resize(e.ints, len(vs)), e.exceptions[:0]
	for i, v := range vs {
		x := int64(v)
		if float64(x) != v || x >= 1<<62 || x <= -1<<62 || x == 0 && math.Signbit(v) {
			return false
		}
		e.ints[i] = x
	}
	return true
}

// fits says whether v is exactly an integer divided by 10^exp. It is false for NaN and infinities; -0 has to be told apart by its bits.
func fits(v float64, exp int) bool {
	if exp == 0 {
		return math.Abs(v) < 1<<62 && math.Trunc(v) == v
	}
	x := math.RoundToEven(v * pow10[exp])
	return math.Abs(x) <= 1<<53 && x/pow10[exp] == v
}

func zigzag(x int64) uint64   { return uint64(x)<<1 ^ uint64(x>>63) }
func unzigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

func varintLen(u uint64) int { return (bits.Len64(u|1) + 6) / 7 }

func varintSizes(xs []int64) (delta, delta2 int) {
	var x, d int64
	for _, next := range xs {
		nd := next - x
		delta += varintLen(zigzag(nd))
		delta2 += varintLen(zigzag(nd - d))
		x, d = next, nd
	}
	return delta, delta2
}

func appendDelta(dst []byte, x int64, xs []int64) []byte {
	for _, next := range xs {
		dst = binary.AppendUvarint(dst, zigzag(next-x))
		x = next
	}
	return dst
}

func appendDelta2(dst []byte, x int64, xs []int64) []byte {
	var d int64
	for _, next := range xs {
		nd := next - x
		dst = binary.AppendUvarint(dst, zigzag(nd-d))
		x, d = next, nd
	}
	return dst
}

func appendPlanes(dst []byte, vs []float64) []byte {
	n, at := len(vs), len(dst)
	dst = append(dst, make([]byte, 8*n)...)
	planes, previous := dst[at:], uint64(0)
	for i, v := range vs {
		b := math.Float64bits(v)
		x := b ^ previous
		previous = b
		for p := range 8 {
			planes[p*n+i] = byte(x >> (8 * p))
		}
	}
	return dst
}

// errDamaged is what reading a chunk or a segment gives when its bytes are not what was written.
func errDamaged(what string) error {
	return millstream.Errorf(millstream.Internal, "damaged metric segment: %s", what)
}

// floats is a decoded run of floats; its arrays are reused.
type floats struct {
	ts     []int64
	vs     []float64
	starts []int64 // nil: none known
	spare  []int64
	ints   []int64
}

// load decodes a float chunk.
func (f *floats) load(c *Chunk) error {
	if c.raw != nil {
		f.ts, f.vs, f.starts = append(f.ts[:0], c.raw.Times...), append(f.vs[:0], c.raw.Values...), c.raw.Starts
		return nil
	}
	n, b := c.Count, c.Data
	if n <= 0 || n > maxSampleCount || len(b) < 2 {
		return errDamaged("a chunk without samples")
	}
	f.ts, f.vs = resize(f.ts, n), resize(f.vs, n)
	flags, b := b[0], b[1:]
	var ok bool
	if flags&flagJitter != 0 {
		if b, ok = readDelta2(b, c.Min, f.ts); !ok {
			return errDamaged("times of a chunk")
		}
	} else {
		fillSteps(f.ts, c.Min, c.Max)
	}
	f.starts = nil
	if flags&flagStarts != 0 {
		f.spare = resize(f.spare, n)
		if b, ok = readDelta(b, c.Min, f.spare); !ok {
			return errDamaged("start times of a chunk")
		}
		f.starts = f.spare
	}
	if f.ts[0] != c.Min || f.ts[n-1] != c.Max {
		return errDamaged("a chunk whose times are not those of its row")
	}
	return f.loadValues(flags, b)
}

func (f *floats) loadValues(flags byte, b []byte) error {
	n := len(f.vs)
	switch flags & modeMask {
	case modeConstant:
		if len(b) != 8 {
			return errDamaged("a constant chunk")
		}
		v := math.Float64frombits(binary.LittleEndian.Uint64(b))
		for i := range f.vs {
			f.vs[i] = v
		}
		return nil
	case modePlanes:
		if len(b) != 8*n {
			return errDamaged("a plane chunk")
		}
		readPlanes(b, f.vs)
		return nil
	}
	if len(b) == 0 || b[0] > maxExponent {
		return errDamaged("the exponent of a chunk")
	}
	exp, b := b[0], b[1:]
	exceptions := b
	if flags&flagExceptions != 0 {
		var ok bool
		if b, ok = skipExceptions(b, n); !ok {
			return errDamaged("the exceptions of a chunk")
		}
	}
	f.ints = resize(f.ints, n)
	read := readDelta
	if flags&modeMask == modeDelta2 {
		read = readDelta2
	}
	if rest, ok := read(b, 0, f.ints); !ok || len(rest) != 0 {
		return errDamaged("the values of a chunk")
	}
	if exp == 0 {
		for i, x := range f.ints {
			f.vs[i] = float64(x)
		}
	} else {
		p := pow10[exp]
		for i, x := range f.ints {
			f.vs[i] = float64(x) / p
		}
	}
	if flags&flagExceptions != 0 {
		f.patch(exceptions)
	}
	return nil
}

// skipExceptions checks the exceptions at the start of b and returns what follows.
func skipExceptions(b []byte, n int) (rest []byte, ok bool) {
	count, w := binary.Uvarint(b)
	if w <= 0 || count > uint64(n) {
		return nil, false
	}
	b = b[w:]
	for range count {
		i, w := binary.Uvarint(b)
		if w <= 0 || i >= uint64(n) || len(b) < w+8 {
			return nil, false
		}
		b = b[w+8:]
	}
	return b, true
}

// patch puts exceptions that skipExceptions has checked in their places.
func (f *floats) patch(b []byte) {
	count, w := binary.Uvarint(b)
	b = b[w:]
	for range count {
		i, w := binary.Uvarint(b)
		f.vs[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[w:]))
		b = b[w+8:]
	}
}

func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, max(n, maxChunkSamples))
	}
	return s[:n]
}

func fillSteps(ts []int64, first, last int64) {
	step := int64(0)
	if len(ts) > 1 {
		step = (last - first) / int64(len(ts)-1)
	}
	for i := range ts {
		ts[i] = first
		first += step
	}
}

func readDelta(b []byte, x int64, xs []int64) ([]byte, bool) {
	for i := range xs {
		if len(b) == 0 {
			return nil, false
		}
		u := uint64(b[0])
		if u < 0x80 {
			b = b[1:]
		} else {
			var w int
			if u, w = binary.Uvarint(b); w <= 0 {
				return nil, false
			}
			b = b[w:]
		}
		x += unzigzag(u)
		xs[i] = x
	}
	return b, true
}

func readDelta2(b []byte, x int64, xs []int64) ([]byte, bool) {
	var d int64
	for i := range xs {
		if len(b) == 0 {
			return nil, false
		}
		u := uint64(b[0])
		if u < 0x80 {
			b = b[1:]
		} else {
			var w int
			if u, w = binary.Uvarint(b); w <= 0 {
				return nil, false
			}
			b = b[w:]
		}
		d += unzigzag(u)
		x += d
		xs[i] = x
	}
	return b, true
}

func readPlanes(planes []byte, vs []float64) {
	n, previous := len(vs), uint64(0)
	for i := range vs {
		var x uint64
		for p := range 8 {
			x |= uint64(planes[p*n+i]) << (8 * p)
		}
		previous ^= x
		vs[i] = math.Float64frombits(previous)
	}
}

// prometheusChunk views the bytes of a histogram chunk as Prometheus' type. Prometheus' decoders trust the number of samples that a chunk states, which is
// compared with the row's.
func (c *Chunk) prometheusChunk() (chunkenc.Chunk, error) {
	if len(c.Data) < 3 || c.Enc < encChunk {
		return nil, errDamaged("a histogram chunk")
	}
	p, err := chunkenc.FromData(chunkenc.Encoding(c.Enc-encChunk), c.Data)
	if err != nil || p.NumSamples() != c.Count {
		return nil, errDamaged("a histogram chunk")
	}
	return p, nil
}
