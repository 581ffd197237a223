package metrics

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"io"
	"slices"
	"sort"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/millstream/millstream"
	"github.com/millstream/millstream/segment"
)

// Reader reads a segment. Opening it reads the index's directory; everything else is read when a query needs it. It is safe for concurrent use.
type Reader struct {
	data, index         io.ReaderAt
	dataSize, indexSize int64
	tail                []byte // the last bytes of the index object, from tailAt on
	tailAt              int64

	rows, samples int64
	min, max      int64
	nameCount     int
	labelsBlock   int
	namesBlock    int
	pagesBlock    int
	blocks        []blockEntry

	names  lazy[[]nameEntry]
	labels lazy[[]labelEntry]
	pages  lazy[[]page]
	cache  *Cache
}

// lazy is a value that is read when it is first asked for. An error is not kept: the next call tries again.
type lazy[T any] struct {
	mu    sync.Mutex
	ready bool
	value T
}

func (l *lazy[T]) get(read func() (T, error)) (T, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ready {
		return l.value, nil
	}
	v, err := read()
	if err == nil {
		l.value, l.ready = v, true
	}
	return v, err
}

// tailBytes is how much of the index is read at once on opening: the whole of a small segment's.
const tailBytes = 8 << 10

// Open opens the segment in two objects. It is cheap: it reads the end of the index object.
func Open(data io.ReaderAt, dataSize int64, index io.ReaderAt, indexSize int64) (*Reader, error) {
	r := &Reader{data: data, index: index, dataSize: dataSize, indexSize: indexSize}
	if indexSize < int64(trailerBytes) {
		return nil, errDamaged("the index is too short")
	}
	if err := r.readTail(min(indexSize, tailBytes)); err != nil {
		return nil, err
	}
	end := len(r.tail) - trailerBytes
	trailer := r.tail[end:]
	if string(trailer[8:]) != indexMagic {
		return nil, errDamaged("the index does not end as one")
	}
	n, sum := int64(binary.LittleEndian.Uint32(trailer)), binary.LittleEndian.Uint32(trailer[4:])
	if n > indexSize-int64(trailerBytes) {
		return nil, errDamaged("the directory of the index")
	}
	if n > int64(end) {
		if err := r.readTail(n + int64(trailerBytes)); err != nil {
			return nil, err
		}
		end = len(r.tail) - trailerBytes
	}
	dir := r.tail[end-int(n) : end]
	if crc32.Checksum(dir, castagnoli) != sum {
		return nil, errDamaged("the directory of the index")
	}
	if err := r.parseDirectory(dir, indexSize-int64(trailerBytes)-n); err != nil {
		return nil, err
	}
	if indexSize > int64(len(r.tail)) {
		r.tail = nil // of a large index the tail has little that is read again
	}
	return r, nil
}

func (r *Reader) readTail(n int64) error {
	r.tail, r.tailAt = make([]byte, n), r.indexSize-n
	return readFull(r.index, r.tail, r.tailAt)
}

func readFull(r io.ReaderAt, b []byte, at int64) error {
	if n, err := r.ReadAt(b, at); n < len(b) {
		if err == nil || err == io.EOF {
			return errDamaged("an object that is shorter than its index says")
		}
		return err
	}
	return nil
}

// parseDirectory reads the directory; the blocks before it are size bytes.
func (r *Reader) parseDirectory(dir []byte, size int64) error {
	d := decoder{b: dir}
	r.rows, r.samples, r.min, r.max = d.varint(), d.varint(), d.varint(), d.varint()
	dataSize := d.varint()
	r.nameCount, r.labelsBlock, r.namesBlock, r.pagesBlock = int(d.varint()), int(d.varint()), int(d.varint()), int(d.varint())
	n := d.varint()
	if d.bad || n < 3 || n > int64(len(d.b)) || r.rows < 0 || r.nameCount < 0 {
		return errDamaged("the directory of the index")
	}
	r.blocks = make([]blockEntry, n)
	var at int64
	for i := range r.blocks {
		e := blockEntry{offset: at, size: int(d.uvarint()), raw: int(d.uvarint())}
		if sum := d.bytes(4); sum != nil {
			e.sum = binary.LittleEndian.Uint32(sum)
		}
		if e.size < 0 || e.raw < 0 || e.raw > 1<<30 || int64(e.size) > size-at {
			return errDamaged("the directory of the index")
		}
		r.blocks[i] = e
		at += int64(e.size)
	}
	if d.end() != nil || at != size {
		return errDamaged("the directory of the index")
	}
	if dataSize != r.dataSize {
		return errDamaged("the Parquet object is not the one that the index is for")
	}
	return nil
}

// decoders decompresses; DecodeAll of one decoder may be used by many at once.
var decoders = mustDecoder()

func mustDecoder() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(1<<30))
	if err != nil {
		panic(err) // the options are constants
	}
	return d
}

// block reads one block of the index.
func (r *Reader) block(i int) ([]byte, error) {
	if i < 0 || i >= len(r.blocks) {
		return nil, errDamaged("a block of the index is missing")
	}
	return r.cache.get(blockKey{r, i}, func() ([]byte, error) { return r.readBlock(r.blocks[i]) })
}

func (r *Reader) readBlock(e blockEntry) ([]byte, error) {
	return r.unpackBlock(e, new([]byte), make([]byte, 0, e.raw))
}

// unpackBlock reads a block into raw, by way of packed; either is made anew if it is too small.
func (r *Reader) unpackBlock(e blockEntry, packed *[]byte, raw []byte) ([]byte, error) {
	var b []byte
	if r.tail != nil && e.offset >= r.tailAt {
		b = r.tail[e.offset-r.tailAt:][:e.size]
	} else {
		b = resize(*packed, e.size)
		*packed = b
		if err := readFull(r.index, b, e.offset); err != nil {
			return nil, err
		}
	}
	if crc32.Checksum(b, castagnoli) != e.sum {
		return nil, errDamaged("a block of the index")
	}
	raw, err := decoders.DecodeAll(b, resize(raw, e.raw)[:0])
	if err != nil || len(raw) != e.raw {
		return nil, errDamaged("a block of the index")
	}
	return raw, nil
}

func (r *Reader) readNames() ([]nameEntry, error) {
	b, err := r.block(r.namesBlock)
	if err != nil {
		return nil, err
	}
	return parseNames(b, r.nameCount)
}

func (r *Reader) readLabels() ([]labelEntry, error) {
	b, err := r.block(r.labelsBlock)
	if err != nil {
		return nil, err
	}
	return parseLabels(b)
}

func (r *Reader) readPages() ([]page, error) {
	b, err := r.block(r.pagesBlock)
	if err != nil {
		return nil, err
	}
	return parsePages(b, r.rows)
}

// Span implements Source.
func (r *Reader) Span() (first, last int64) { return r.min, r.max }

// Samples implements Source.
func (r *Reader) Samples() int64 { return r.samples }

// UseCache makes the reader keep blocks of its index in a cache, which may serve many readers. Call it before the first query.
func (r *Reader) UseCache(c *Cache) { r.cache = c }

// matching calls f for each name that matches.
func (r *Reader) matching(ctx context.Context, m *matchers, f func(*nameEntry) error) error {
	names, err := r.names.get(r.readNames)
	if err != nil {
		return err
	}
	if m.hasName {
		i := sort.Search(len(names), func(i int) bool { return names[i].name >= m.nameIs })
		if i == len(names) || names[i].name != m.nameIs {
			return nil
		}
		names = names[i : i+1]
	}
	for i := range names {
		if !m.name(names[i].name) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := f(&names[i]); err != nil {
			return err
		}
	}
	return nil
}

// rowRef is a row of a series that a query wants.
type rowRef struct {
	Chunk
	row int64
}

// Select implements Source.
func (r *Reader) Select(ctx context.Context, q Query) ([]Series, error) {
	var out []Series
	var refs []rowRef
	err := r.each(ctx, q, false, func(n *nameEntry, key string, rows []rowRef) {
		s := Series{Name: n.name, Key: key}
		if !q.KeysOnly {
			s.Chunks = make([]Chunk, len(rows))
			refs = append(refs, rows...)
		}
		out = append(out, s)
	})
	if err != nil || len(refs) == 0 {
		return out, err
	}
	if err := r.load(ctx, refs); err != nil {
		return nil, err
	}
	for i := range out {
		for k := range out[i].Chunks {
			out[i].Chunks[k] = refs[k].Chunk
		}
		refs = refs[len(out[i].Chunks):]
	}
	return out, nil
}

// each calls f for every series that matches and has rows of the query's time: rows of exemplars if exemplars is set, else of samples.
func (r *Reader) each(ctx context.Context, q Query, exemplars bool, f func(n *nameEntry, key string, rows []rowRef)) error {
	m := compile(q)
	return r.matching(ctx, &m, func(n *nameEntry) error {
		b, err := r.block(n.at.block)
		if err != nil {
			return err
		}
		if n.at.offset > len(b) {
			return errDamaged("the series of a name")
		}
		return eachSeries(b[n.at.offset:], n, &m, q, exemplars, f)
	})
}

// eachSeries walks over the series of one name.
func eachSeries(b []byte, n *nameEntry, m *matchers, q Query, exemplars bool, f func(n *nameEntry, key string, rows []rowRef)) error {
	d := decoder{b: b}
	var key []byte
	var rows []rowRef
	row := n.firstRow
	for range n.series {
		shared := d.uvarint()
		rest := d.bytes(d.count(1))
		if shared > uint64(len(key)) {
			return errDamaged("the series of a name")
		}
		key = append(key[:shared], rest...)
		match := m.key(stringOf(key))
		rows = rows[:0]
		var last int64
		for range d.count(5) {
			c := Chunk{Enc: Encoding(d.byte()), Count: int(d.uvarint())} // as decoder.row: a call for each makes a query of all series 7 % slower
			c.Min = last + d.varint()
			c.Max = c.Min + int64(d.uvarint())
			size := d.uvarint()
			if c.Count < 0 || c.Count > maxSampleCount || size > 1<<30 || c.Max < c.Min {
				return errDamaged("a row of a series")
			}
			last = c.Max
			if match && (c.Enc == EncExemplars) == exemplars && q.overlaps(c.Min, c.Max) {
				rows = append(rows, rowRef{c, row})
			}
			row++
		}
		if d.bad {
			return errDamaged("the series of a name")
		}
		if len(rows) > 0 {
			f(n, string(key), rows)
		}
	}
	if row != n.firstRow+n.rows {
		return errDamaged("the rows of a name")
	}
	return nil
}

// wanted is where the pages of rows lie. Both are in the order of rows.
func wanted(refs []rowRef, pages []page) (parts [][2]int64) {
	for p := 0; p < len(pages) && len(refs) > 0; p++ {
		n := len(refs)
		if p+1 < len(pages) {
			n = sort.Search(len(refs), func(i int) bool { return refs[i].row >= pages[p+1].firstRow })
		}
		if n > 0 {
			parts = append(parts, [2]int64{pages[p].offset, pages[p].offset + int64(pages[p].size)})
		}
		refs = refs[n:]
	}
	return parts
}

// load reads the bytes of chunks; refs are in the order of rows. Only pages that hold one of them are read, neighbours in one go.
func (r *Reader) load(ctx context.Context, refs []rowRef) error {
	pages, err := r.pages.get(r.readPages)
	if err != nil {
		return err
	}
	var buf pageBuffer
	data := segment.Bind(ctx, r.data)
	segment.Expect(data, func() [][2]int64 { return wanted(refs, pages) })
	for len(refs) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		p := sort.Search(len(pages), func(i int) bool { return pages[i].firstRow > refs[0].row }) - 1
		if p < 0 {
			return errDamaged("a row without a page")
		}
		end := r.rows
		if p+1 < len(pages) {
			end = pages[p+1].firstRow
		}
		n := sort.Search(len(refs), func(i int) bool { return refs[i].row >= end })
		if err := buf.read(data, r.dataSize, pages[p]); err != nil {
			return err
		}
		if err := buf.take(refs[:n], pages[p].firstRow, end); err != nil {
			return err
		}
		refs = refs[n:]
	}
	return nil
}

// Names implements Source.
func (r *Reader) Names() ([]NameCount, error) {
	entries, err := r.names.get(r.readNames)
	if err != nil {
		return nil, err
	}
	out := make([]NameCount, len(entries))
	for i := range entries {
		out[i] = NameCount{entries[i].name, entries[i].series}
	}
	return out, nil
}

// LabelNames implements Source.
func (r *Reader) LabelNames(ctx context.Context, q Query) ([]string, error) {
	if len(q.Matchers) > 0 {
		seen := map[string]struct{}{}
		err := r.each(ctx, q, false, func(_ *nameEntry, key string, _ []rowRef) {
			millstream.EachLabel(key, func(name, _ string) bool {
				seen[name] = struct{}{}
				return true
			})
		})
		return sortedKeys(seen), err
	}
	entries, err := r.labels.get(r.readLabels)
	if err != nil {
		return nil, err
	}
	out := make([]string, len(entries))
	for i, e := range entries {
		out[i] = e.name
	}
	return out, nil
}

// LabelValues implements Source.
func (r *Reader) LabelValues(ctx context.Context, label string, q Query) ([]string, error) {
	if len(q.Matchers) > 0 {
		seen := map[string]struct{}{}
		err := r.each(ctx, q, false, func(_ *nameEntry, key string, _ []rowRef) {
			if v := millstream.LabelValue(key, label); v != "" {
				seen[v] = struct{}{}
			}
		})
		return sortedKeys(seen), err
	}
	entries, err := r.labels.get(r.readLabels)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(entries, func(e labelEntry) bool { return e.name == label })
	if i < 0 {
		return nil, nil
	}
	b, err := r.block(entries[i].at.block)
	if err != nil {
		return nil, err
	}
	if entries[i].at.offset > len(b) || entries[i].values > len(b) {
		return nil, errDamaged("the values of a label")
	}
	d := decoder{b: b[entries[i].at.offset:]}
	out := make([]string, entries[i].values)
	for k := range out {
		out[k] = string(d.bytes(d.count(1)))
	}
	if d.bad {
		return nil, errDamaged("the values of a label")
	}
	return out, nil
}

// Exemplars implements Source.
func (r *Reader) Exemplars(ctx context.Context, q Query) ([]SeriesExemplars, error) {
	var out []SeriesExemplars
	var refs []rowRef
	err := r.each(ctx, q, true, func(_ *nameEntry, key string, rows []rowRef) {
		out = append(out, SeriesExemplars{Key: key})
		refs = append(refs, rows[0])
	})
	if err != nil || len(refs) == 0 {
		return nil, err
	}
	if err := r.load(ctx, refs); err != nil {
		return nil, err
	}
	for i := range out {
		if out[i].Exemplars, err = decodeExemplars(&refs[i].Chunk); err != nil {
			return nil, err
		}
	}
	return exemplarsIn(out, q), nil
}
