package segment

import (
	"hash/maphash"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go/format"

	"github.com/millstream/millstream"
)

// smallDict bounds the dictionaries that are kept in a run's header, with the rows and blocks of each value.
const (
	smallDictValues = 256
	smallDictBytes  = 8 << 10
)

// maxStat bounds the texts that become Parquet statistics.
const maxStat = 64

// runWriter encodes runs of a table: the bytes of the Parquet row group and those of the run's part of the index.
type runWriter struct {
	indexed map[string]bool // Options.Indexed
	comp    *compressor
	pack    packer
	dict    dictionary
	tokens  tokenTable
	main    tokenTable // of the main text, made before the order of rows is known
	cluster clusterer
	col     millstream.Column
	ids     []uint32
	ends    []int
	refs    []ref
	data    []byte
	index   writer
	cols    []column
}

func newRunWriter(level int) *runWriter {
	comp := newCompressor(level)
	return &runWriter{comp: comp, pack: packer{comp: comp}, dict: dictionary{seed: maphash.MakeSeed()}}
}

func (w *runWriter) setIndexed(fields []string) {
	w.indexed = make(map[string]bool, len(fields))
	for _, f := range fields {
		w.indexed[f] = true
	}
}

// write encodes the given rows of t, which are in time order; last says that they are its last. The result is in w.data and w.index; the header region is within the
// index.
func (w *runWriter) write(t *table, refs []ref, main int, last bool) (runInfo, error) {
	w.data, w.index.p, w.cols = w.data[:0], w.index.p[:0], w.cols[:0]
	info := runInfo{rows: len(refs), minTime: t.time(refs[0]), maxTime: t.time(refs[len(refs)-1])}
	w.refs = append(w.refs[:0], refs...)
	if main >= 0 && len(refs) >= clusterRows {
		w.reorder(t, refs, main)
	} else {
		main = -1
	}
	if err := w.times(t); err != nil {
		return info, err
	}
	for i := range t.fields {
		if err := w.field(t, i, i == main, last); err != nil {
			return info, err
		}
	}
	info.dataSize = int64(len(w.data))
	w.header(&info)
	return info, nil
}

// header ends the run's part of the index with what is known of its columns.
func (w *runWriter) header(info *runInfo) {
	var h writer
	h.uint(uint64(len(w.cols)))
	for i := range w.cols {
		w.cols[i].append(&h)
	}
	info.header = region{int64(len(w.index.p)), int64(len(h.p)), checksum(h.p)}
	w.index.p = append(w.index.p, h.p...)
	info.size = int64(len(w.index.p))
}

// reorder clusters the rows by the main text, whose tokens it leaves marked in w.main.
func (w *runWriter) reorder(t *table, refs []ref, main int) {
	f := &t.fields[main]
	w.main.reset(len(refs))
	w.ids, w.ends = w.ids[:0], w.ends[:0]
	longRow := make([]bool, len(refs))
	for i, r := range refs {
		if c := f.cols[r.batch]; c != nil && c.IsValid(int(r.row)) {
			from := len(w.ids)
			w.ids, longRow[i] = w.main.scan(w.ids, c.Str(int(r.row)))
			for _, id := range w.ids[from:] {
				if k := &w.main.tokens[id]; k.lastRow != uint32(i+1) {
					k.lastRow = uint32(i + 1)
					k.rows++
				}
			}
		}
		w.ends = append(w.ends, len(w.ids))
	}
	order := w.cluster.sort(&w.main, w.ids, w.ends)
	for i := range w.main.tokens {
		w.main.tokens[i].lastRow = 0
	}
	for pos, i := range order {
		w.refs[pos] = refs[i]
		from := 0
		if i > 0 {
			from = w.ends[i-1]
		}
		for _, id := range w.ids[from:w.ends[i]] {
			w.main.mark(id, pos)
		}
		if longRow[i] {
			w.main.long |= 1 << (pos / blockRows)
		}
	}
}

func (w *runWriter) times(t *table) error {
	c := &w.col
	*c = millstream.Column{Name: millstream.TimestampField, Type: millstream.Timestamp, Ints: c.Ints[:0], Floats: c.Floats, Offsets: c.Offsets, Bytes: c.Bytes}
	for _, r := range w.refs {
		c.Ints = append(c.Ints, t.time(r))
	}
	return w.chunk(c, len(w.refs), false, true)
}

// field encodes one field's chunk and its part of the index. A field without a value in the run is left out.
func (w *runWriter) field(t *table, i int, tokensReady, last bool) error {
	f := &t.fields[i]
	values := f.gather(&w.col, w.refs, int(f.size*int64(len(w.refs))/int64(len(t.refs))))
	if last {
		t.release(f)
	}
	if values == 0 {
		return nil
	}
	dict := f.typ == millstream.String && w.dict.build(&w.col, len(w.refs), values)
	if err := w.chunk(&w.col, values, dict, false); err != nil {
		return err
	}
	col := &w.cols[len(w.cols)-1]
	col.wide = f.wide
	w.lookups(col, dict, tokensReady)
	return nil
}

// lookups writes what finds the values of a column of texts: a filter of whole values of identifiers and of fields that are to be indexed, and the tokens of all but
// identifiers. The values of a small dictionary are in the header already.
func (w *runWriter) lookups(col *column, dict, tokensReady bool) {
	if col.typ != millstream.String || col.values != nil {
		return
	}
	id := IsID(col.name)
	if id || w.indexed[col.name] {
		w.bloom(col, dict)
	}
	switch {
	case id:
	case tokensReady:
		col.tokens = w.main.write(&w.index, w.comp)
	default:
		w.tokenize(dict)
		col.tokens = w.tokens.write(&w.index, w.comp)
	}
}

func (w *runWriter) bloom(col *column, dict bool) {
	n := int(col.rows)
	if dict {
		n = len(w.dict.values)
	}
	p := newBloom(n)
	if dict {
		for _, v := range w.dict.values {
			bloomAdd(p, v)
		}
	} else {
		for i := range w.refs {
			if w.col.IsValid(i) {
				bloomAdd(p, w.col.Str(i))
			}
		}
	}
	col.bloom = region{int64(len(w.index.p)), int64(len(p)), checksum(p)}
	w.index.p = append(w.index.p, p...)
}

// tokenize fills w.tokens from the current column; of a dictionary, each value is read once.
func (w *runWriter) tokenize(dict bool) {
	w.tokens.reset(len(w.refs))
	w.ids, w.ends = w.ids[:0], w.ends[:0]
	var longs []bool
	if dict {
		for _, v := range w.dict.values {
			var long bool
			w.ids, long = w.tokens.scan(w.ids, v)
			w.ends, longs = append(w.ends, len(w.ids)), append(longs, long)
		}
	}
	for i := range w.refs {
		if !w.col.IsValid(i) {
			continue
		}
		var ids []uint32
		var long bool
		if dict {
			code, from := w.dict.codes[i], 0
			if code > 0 {
				from = w.ends[code-1]
			}
			ids, long = w.ids[from:w.ends[code]], longs[code]
		} else {
			ids, long = w.tokens.scan(w.ids[:0], w.col.Str(i))
			w.ids = ids
		}
		for _, id := range ids {
			w.tokens.mark(id, i)
		}
		if long {
			w.tokens.long |= 1 << (i / blockRows)
		}
	}
}

// chunk encodes the pages of a column and adds its header.
func (w *runWriter) chunk(c *millstream.Column, values int, dict, required bool) error {
	rows := len(w.refs)
	blocks := (rows + blockRows - 1) / blockRows
	col := column{name: c.Name, typ: c.Type, enc: encodingOf(c.Type, dict), rows: int64(values), offset: int64(len(w.data))}
	col.nulls(c, rows, blocks)
	col.zones(c, rows, blocks)
	raw := rawSize(c, rows)
	codeBits := 0
	if dict {
		c.Codes = w.dict.codes
		defer func() { c.Codes = nil }()
		codeBits = bitsFor(len(w.dict.values))
		raw = rows*codeBits/8 + 1
		col.small(&w.dict, c, rows)
	}
	col.stats(c, rows, w.dict.values, dict)
	w.pack.begin(raw+w.dict.sizeIf(dict) > 256)
	col.compressed = w.pack.compressed
	if dict {
		w.pack.dictionary(w.dict.values)
		col.dictCount = len(w.dict.values)
		if err := w.page(&col.dictPage, &col, col.dictCount, true); err != nil {
			return err
		}
		if col.compressed && col.values == nil && len(w.pack.parts) > 1 {
			col.dictParts = slices.Clone(w.pack.parts)
		}
		w.pack.begin(col.compressed)
	}
	col.pageBlocks = 1
	for col.pageBlocks < min(blocks, maxPageBlocks) && raw/blocks*col.pageBlocks*2 <= pageRaw {
		col.pageBlocks *= 2
	}
	for b := 0; b < blocks; b += col.pageBlocks {
		from, to := b*blockRows, min((b+col.pageBlocks)*blockRows, rows)
		if err := w.pack.values(c, col.enc, codeBits, from, to, required); err != nil {
			return err
		}
		var p page
		if err := w.page(&p, &col, to-from, false); err != nil {
			return err
		}
		col.pages = append(col.pages, p)
	}
	w.cols = append(w.cols, col)
	return nil
}

func (d *dictionary) sizeIf(dict bool) int {
	if dict {
		return d.size
	}
	return 0
}

func (w *runWriter) page(p *page, col *column, rows int, dict bool) error {
	header, body, err := w.pack.finish(rows, parquetEncodings[col.enc], dict)
	if err != nil {
		return err
	}
	at := len(w.data)
	w.data = append(append(w.data, header...), body...)
	*p = page{off: int64(at) - col.offset, header: len(header), size: len(body), raw: len(w.pack.raw), sum: checksum(w.data[at:])}
	col.rawSize += int64(len(header) + len(w.pack.raw))
	return nil
}

var parquetEncodings = map[encoding]format.Encoding{
	encBool: format.Plain, encDelta: format.DeltaBinaryPacked, encDouble: format.Plain, encText: format.DeltaLengthByteArray, encDict: format.RLEDictionary,
}

func encodingOf(t millstream.Type, dict bool) encoding {
	switch {
	case t == millstream.Bool:
		return encBool
	case t == millstream.Double:
		return encDouble
	case t != millstream.String:
		return encDelta
	case dict:
		return encDict
	}
	return encText
}

// rawSize is about what the column's values take in a page.
func rawSize(c *millstream.Column, rows int) int {
	switch c.Type {
	case millstream.String:
		return len(c.Bytes) + rows
	case millstream.Bool:
		return rows / 8
	case millstream.Double:
		return 8 * rows
	}
	return 4 * rows
}

func (col *column) nulls(c *millstream.Column, rows, blocks int) {
	if c.Valid == nil {
		col.someValue = allBlocks(blocks)
		return
	}
	for b := range blocks {
		all := firstRows(min(blockRows, rows-b*blockRows))
		var valid bitmap
		copy(valid[:], c.Valid[b*len(valid):])
		if !valid.empty() {
			col.someValue |= 1 << b
		}
		if valid != all {
			col.someNull |= 1 << b
		}
	}
}

// zones notes the least and greatest value of each block. A block of nulls alone has zeros.
func (col *column) zones(c *millstream.Column, rows, blocks int) {
	if c.Type == millstream.String || c.Type == millstream.Bool {
		return
	}
	col.lo, col.hi = make([]int64, blocks), make([]int64, blocks)
	for b := range blocks {
		seen := false
		for i := b * blockRows; i < min((b+1)*blockRows, rows); i++ {
			if !c.IsValid(i) {
				continue
			}
			if c.Type == millstream.Double {
				v := c.Floats[i]
				if !seen || cmpFloat(v, math.Float64frombits(uint64(col.lo[b]))) < 0 {
					col.lo[b] = int64(math.Float64bits(v))
				}
				if !seen || cmpFloat(v, math.Float64frombits(uint64(col.hi[b]))) > 0 {
					col.hi[b] = int64(math.Float64bits(v))
				}
			} else {
				v := c.Ints[i]
				if !seen || v < col.lo[b] {
					col.lo[b] = v
				}
				if !seen || v > col.hi[b] {
					col.hi[b] = v
				}
			}
			seen = true
		}
	}
}

// small keeps a small dictionary with the rows and blocks of its values.
func (col *column) small(d *dictionary, c *millstream.Column, rows int) {
	if len(d.values) > smallDictValues || d.size > smallDictBytes {
		return
	}
	col.values = make([]string, len(d.values))
	for i, v := range d.values {
		col.values[i] = string([]byte(v)) // d shares the column's memory
	}
	col.counts, col.masks = make([]uint32, len(d.values)), make([]uint64, len(d.values))
	for i := range rows {
		if c.IsValid(i) {
			code := d.codes[i]
			col.counts[code]++
			col.masks[code] |= 1 << (i / blockRows)
		}
	}
}

// stats makes the Parquet statistics, which a reader may prune row groups by. Texts that are long or not UTF-8 have none, nor have doubles with a NaN.
func (col *column) stats(c *millstream.Column, rows int, dict []string, isDict bool) {
	switch c.Type {
	case millstream.Bool:
	case millstream.String:
		lo, hi, seen := "", "", false
		see := func(s string) {
			if !seen || s < lo {
				lo = s
			}
			if !seen || s > hi {
				hi = s
			}
			seen = true
		}
		if isDict {
			for _, s := range dict {
				see(s)
			}
		} else {
			for i := range rows {
				if c.IsValid(i) {
					see(c.Str(i))
				}
			}
		}
		if len(lo) <= maxStat && len(hi) <= maxStat && utf8.ValidString(lo) && utf8.ValidString(hi) {
			col.min, col.max = []byte(lo), []byte(hi)
		}
	default:
		col.numberStats(c.Type == millstream.Double)
	}
}

func (col *column) numberStats(double bool) {
	first := true
	var lo, hi int64
	for b := range col.lo {
		if col.someValue&(1<<b) == 0 {
			continue
		}
		less, more := col.lo[b] < lo, col.hi[b] > hi
		if double {
			x, y := math.Float64frombits(uint64(col.lo[b])), math.Float64frombits(uint64(col.hi[b]))
			if x != x || y != y {
				return
			}
			less, more = x < math.Float64frombits(uint64(lo)), y > math.Float64frombits(uint64(hi))
		}
		if first || less {
			lo = col.lo[b]
		}
		if first || more {
			hi = col.hi[b]
		}
		first = false
	}
	var w writer
	w.fixed64(uint64(lo))
	w.fixed64(uint64(hi))
	col.min, col.max = w.p[:8], w.p[8:]
}
