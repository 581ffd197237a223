package segment

import (
	"context"
	"io"
	"math"
	"sync/atomic"

	"github.com/millstream/millstream"
)

// openTail is how much of the index's end Open reads at once: all of a small segment's index, which is then kept.
const openTail = 16 << 10

// Reader is a segment opened for reading. It holds the segment's footer and, as they are used, its runs' headers (some 20 KB a run); all else is read when
// needed. It is a Source.
type Reader struct {
	data, index         io.ReaderAt
	dataSize, indexSize int64
	fields              []FieldStat
	runs                []runInfo
	headers             []atomic.Pointer[runHeader]
	rows                int64
	first, last         int64
}

// Open reads the end of the index object and checks that it belongs to data objects of that size. Damage is an error; it is found here, or, in what Open does
// not read, when it is first read: every page and region has its checksum in the index.
func Open(data io.ReaderAt, dataSize int64, index io.ReaderAt, indexSize int64) (*Reader, error) {
	r := &Reader{data: data, index: index, dataSize: dataSize, indexSize: indexSize, first: math.MaxInt64, last: math.MinInt64}
	tail := make([]byte, min(indexSize, openTail))
	if len(tail) < trailerSize {
		return nil, damaged("the index is too short")
	}
	if err := readFull(index, tail, indexSize-int64(len(tail))); err != nil {
		return nil, err
	}
	end := parser{p: tail[len(tail)-trailerSize:]}
	sum, size := end.fixed32(), int64(end.fixed32())
	if string(end.p) != indexMagic {
		return nil, damaged("the index does not end as one")
	}
	at := indexSize - int64(trailerSize) - size
	if at < 0 {
		return nil, damaged("the index's footer lies outside of it")
	}
	var footer []byte
	if n := int64(len(tail)) - int64(trailerSize) - size; n >= 0 {
		footer = tail[n : n+size]
	} else {
		footer = make([]byte, size)
		if err := readFull(index, footer, at); err != nil {
			return nil, err
		}
	}
	if checksum(footer) != sum {
		return nil, damaged("the index's footer")
	}
	if indexSize <= openTail {
		r.index = bytesAt(tail)
	}
	return r, r.parseFooter(footer, at)
}

// bytesAt is an io.ReaderAt over bytes in memory.
type bytesAt []byte

func (b bytesAt) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off > int64(len(b)) {
		return 0, io.EOF
	}
	n := copy(p, b[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (r *Reader) parseFooter(p []byte, limit int64) error {
	d := parser{p: p}
	n := d.count(4)
	r.fields = make([]FieldStat, n)
	for i := range r.fields {
		r.fields[i] = FieldStat{Name: d.string(), Type: millstream.Type(d.byte()), WideInt: d.byte() == 1, Rows: d.size()}
	}
	n = d.count(12)
	r.runs = make([]runInfo, n)
	for i := range r.runs {
		x := &r.runs[i]
		x.rows, x.minTime, x.maxTime = int(d.uint()), d.int(), d.int()
		x.dataBase, x.dataSize, x.base, x.size = d.size(), d.size(), d.size(), d.size()
		x.header = d.region()
		if x.rows < 1 || x.rows > runRows || x.dataBase > r.dataSize-x.dataSize || x.base > limit-x.size {
			d.bad = true
		}
		r.rows += int64(x.rows)
		r.first, r.last = min(r.first, x.minTime), max(r.last, x.maxTime)
	}
	if d.bad || len(d.p) != 0 || n == 0 {
		return damaged("the index's footer does not fit its objects")
	}
	r.headers = make([]atomic.Pointer[runHeader], n)
	return nil
}

// Rows is the number of records.
func (r *Reader) Rows() int { return int(r.rows) }

// Span is the time of the first and the last record, both included, in ns.
func (r *Reader) Span() (first, last int64) { return r.first, r.last }

// Fields are the fields that occur, without TimestampField.
func (r *Reader) Fields() []FieldStat { return r.fields }

// Parts gives the segment in pieces that can be read side by side, one a run: in their order they hold its records. A part is a Source like the whole and as
// immutable; part i of a segment is the same however often the segment is opened.
func (r *Reader) Parts() ([]Source, error) {
	if len(r.runs) == 1 {
		return []Source{r}, nil
	}
	parts := make([]Source, len(r.runs))
	for i, x := range r.runs {
		h, err := r.header(i)
		if err != nil {
			return nil, err
		}
		p := &Reader{data: r.data, index: r.index, dataSize: r.dataSize, indexSize: r.indexSize, runs: r.runs[i : i+1], headers: r.headers[i : i+1],
			rows: int64(x.rows), first: x.minTime, last: x.maxTime}
		for _, f := range r.fields {
			if c := h.column(f.Name); c != nil {
				f.Rows = c.rows
				p.fields = append(p.fields, f)
			}
		}
		parts[i] = p
	}
	return parts, nil
}

// header is the parsed header of a run.
func (r *Reader) header(i int) (*runHeader, error) {
	if h := r.headers[i].Load(); h != nil {
		return h, nil
	}
	x := &r.runs[i]
	p, err := readRegion(r.index, x.base, x.header, x.base+x.size, nil)
	if err != nil {
		return nil, err
	}
	h, err := parseRunHeader(p, x.blocks())
	if err != nil {
		return nil, err
	}
	r.headers[i].Store(h)
	return h, nil
}

// ValueCounts gives the rows per value of a field that has a small dictionary in every run.
func (r *Reader) ValueCounts(field string) ([]ValueCount, bool) {
	var out []ValueCount
	at := map[string]int{}
	for i := range r.runs {
		h, err := r.header(i)
		if err != nil {
			return nil, false
		}
		c := h.column(field)
		if c == nil {
			continue
		}
		if c.values == nil {
			return nil, false
		}
		for k, v := range c.values {
			n, ok := at[v]
			if !ok {
				n = len(out)
				at[v] = n
				out = append(out, ValueCount{Value: v})
			}
			out[n].Rows += int64(c.counts[k])
		}
	}
	return out, out != nil
}

// Scan implements Source.
func (r *Reader) Scan(ctx context.Context, s Scan, emit func(*millstream.Batch) error) (ScanStats, error) {
	x, err := newScanner(ctx, r.fields, s, emit)
	if err != nil {
		return ScanStats{}, err
	}
	state := &readers{r: r, data: Bind(ctx, r.data), stats: &x.stats, byName: map[string]*columnReader{}, types: s.Types}
	defer state.release()
	for i := range r.runs {
		x.pieces = append(x.pieces, &runScan{readers: state, run: i, info: &r.runs[i]})
	}
	x.data = state.data
	x.expectScan(r)
	err = x.run()
	return x.stats, err
}
