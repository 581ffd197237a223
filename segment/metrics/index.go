package metrics

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"maps"
	"slices"
	"strings"
)

// The index object is a row of blocks, each compressed with zstd, a directory, and a trailer:
//
//	series blocks   per metric name: its series and their rows
//	value blocks    per label: its values
//	names block     the metric names and where their series are
//	labels block    the label names and where their values are
//	pages block     where the pages of chunks are in the Parquet object
//	directory       counts, time span, the size and checksum of each block
//	trailer         length and CRC-32C of the directory, magic
//
// A query reads the directory, the names, the blocks of series it asks for, and the pages; so a small segment costs three small reads.
const (
	indexMagic   = "MSMETRX1"
	trailerBytes = 4 + 4 + len(indexMagic)
	// blockBytes is the size at which a block of series or values ends, at a name's or label's end.
	blockBytes = 16 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// page is one page of the chunk column.
type page struct {
	offset   int64
	size     int32 // with its header
	firstRow int64
}

// place is where a list starts: a block and the byte in it.
type place struct {
	block  int
	offset int
}

// nameEntry is a metric name and its part of the segment.
type nameEntry struct {
	name     string
	at       place
	series   int
	firstRow int64
	rows     int64
}

type labelEntry struct {
	name   string
	at     place
	values int
}

type blockEntry struct {
	offset int64
	size   int
	raw    int
	sum    uint32
}

// indexBuilder writes the index of rows that come in order.
type indexBuilder struct {
	blockWriter
	names    []nameEntry
	name     string
	key      []byte // of the series before
	rows     []byte // rows of the current series
	seriesN  int    // rows of the current series
	rowCount int64
	lastMax  int64
	any      bool
	labels   map[string]map[string]struct{} // and their values, of all series; nil if something else knows them
	// eachLabel gives them in order.
	eachLabel func(add func(label, value string)) error

	pages             []page
	dataSize, samples int64
	min, max          int64
}

func (b *indexBuilder) init(out io.Writer) {
	b.out = out
	b.labels, b.eachLabel = map[string]map[string]struct{}{}, b.collected
}

// follows says whether a series comes after those that have rows, and what its key shares with that of the last of them: otherName, or a number of bytes. known is that
// already, as far as it is known; else otherName.
func (b *indexBuilder) follows(name, key string, known int) (shared int, ok bool) {
	if known == otherName && (!b.any || name != b.name) {
		return otherName, !b.any || name > b.name
	}
	n := max(known, 0)
	n += sharedPrefix(stringOf(b.key[n:]), key[n:])
	return n, n < len(key) && (n == len(b.key) || key[n] > b.key[n])
}

// beginRow adds a row and says whether it is the first of its series. What its key shares is what follows said.
func (b *indexBuilder) beginRow(name, key string, shared int, c *Chunk) (first bool) {
	if first = b.seriesN == 0; first {
		b.rows, b.lastMax = b.rows[:0], 0
		if shared == otherName {
			b.beginName(name)
		}
		b.nextKey(key, max(shared, 0))
	}
	b.rows = appendRow(b.rows, c, b.lastMax)
	b.lastMax = c.Max
	b.seriesN++
	b.rowCount++
	return first
}

func (b *indexBuilder) beginName(name string) {
	if b.length() >= blockBytes {
		b.endBlock()
	}
	b.any, b.name, b.key = true, name, b.key[:0]
	b.names = append(b.names, nameEntry{name: name, at: place{len(b.blocks), b.length()}, firstRow: b.rowCount})
}

// nextKey writes the key of a series after the previous one's, as the length of what they share, n, and the rest.
func (b *indexBuilder) nextKey(key string, n int) {
	b.block = binary.AppendUvarint(b.block, uint64(n))
	b.block = binary.AppendUvarint(b.block, uint64(len(key)-n))
	b.block = append(b.block, key[n:]...)
	b.key = append(b.key[:n], key[n:]...)
	if b.labels == nil {
		return
	}
	for rest := key; rest != ""; {
		name, value, tail, ok := cutLabel(rest)
		if !ok {
			break
		}
		if len(key)-len(tail) <= n { // the previous key has it too
			rest = tail
			continue
		}
		values := b.labels[name]
		if values == nil {
			values = map[string]struct{}{}
			b.labels[strings.Clone(name)] = values
		}
		if _, ok := values[value]; !ok {
			values[strings.Clone(value)] = struct{}{} // not all of the key stays with it
		}
		rest = tail
	}
}

func (b *indexBuilder) endSeries() {
	b.block = binary.AppendUvarint(b.block, uint64(b.seriesN))
	b.block = append(b.block, b.rows...)
	b.spill()
	n := &b.names[len(b.names)-1]
	n.series++
	n.rows += int64(b.seriesN)
	b.seriesN = 0
}

// close writes what is left of the index.
func (b *indexBuilder) close() error {
	if b.length() > 0 {
		b.endBlock()
	}
	list, err := b.addLabels()
	if err != nil {
		return err
	}
	labels := b.addBlock(list)
	names := b.addBlock(encodeNames(b.names))
	pages := b.addBlock(encodePages(b.pages))

	var dir []byte
	for _, x := range []int64{b.rowCount, b.samples, b.min, b.max, b.dataSize, int64(len(b.names)), int64(labels), int64(names), int64(pages), int64(len(b.blocks))} {
		dir = binary.AppendVarint(dir, x)
	}
	for _, e := range b.blocks {
		dir = binary.AppendUvarint(dir, uint64(e.size))
		dir = binary.AppendUvarint(dir, uint64(e.raw))
		dir = binary.LittleEndian.AppendUint32(dir, e.sum)
	}
	end := binary.LittleEndian.AppendUint32(dir, uint32(len(dir)))
	end = binary.LittleEndian.AppendUint32(end, crc32.Checksum(dir, castagnoli))
	if b.err == nil {
		_, b.err = b.out.Write(append(end, indexMagic...))
	}
	return b.err
}

// addLabels adds the value blocks and returns the labels block.
func (b *indexBuilder) addLabels() ([]byte, error) {
	var list []byte
	last, labels, values := "", 0, 0
	err := b.eachLabel(func(label, value string) {
		if labels == 0 || label != last {
			if labels > 0 {
				list = binary.AppendUvarint(list, uint64(values))
			}
			if b.length() >= blockBytes {
				b.endBlock()
			}
			list = appendString(list, label)
			list = binary.AppendUvarint(list, uint64(len(b.blocks)))
			list = binary.AppendUvarint(list, uint64(b.length()))
			last, labels, values = label, labels+1, 0
		}
		b.block = appendString(b.block, value)
		b.spill()
		values++
	})
	if labels > 0 {
		list = binary.AppendUvarint(list, uint64(values))
	}
	if b.length() > 0 {
		b.endBlock()
	}
	return append(binary.AppendUvarint(nil, uint64(labels)), list...), err
}

// collected gives the labels of the series that were added.
func (b *indexBuilder) collected(add func(label, value string)) error {
	for _, n := range slices.Sorted(maps.Keys(b.labels)) {
		for _, v := range sortedKeys(b.labels[n]) {
			add(n, v)
		}
	}
	return nil
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func encodeNames(names []nameEntry) []byte {
	var out []byte
	for _, n := range names {
		out = appendString(out, n.name)
		out = binary.AppendUvarint(out, uint64(n.at.block))
		out = binary.AppendUvarint(out, uint64(n.at.offset))
		out = binary.AppendUvarint(out, uint64(n.series))
		out = binary.AppendUvarint(out, uint64(n.rows))
	}
	return out
}

func encodePages(pages []page) []byte {
	out := binary.AppendUvarint(nil, uint64(len(pages)))
	var offset, row int64
	for _, p := range pages {
		out = binary.AppendVarint(out, p.offset-offset)
		out = binary.AppendUvarint(out, uint64(p.size))
		out = binary.AppendVarint(out, p.firstRow-row)
		offset, row = p.offset, p.firstRow
	}
	return out
}

// parseNames reads the names block. Names share memory with b.
func parseNames(b []byte, count int) ([]nameEntry, error) {
	d := decoder{b: b}
	if count > len(b) {
		return nil, errDamaged("the names of the index")
	}
	out := make([]nameEntry, count)
	var row int64
	text := string(b)
	for i := range out {
		n := d.count(1)
		at := len(b) - len(d.b)
		d.bytes(n)
		e := nameEntry{at: place{int(d.uvarint()), int(d.uvarint())}, series: int(d.uvarint()), rows: int64(d.uvarint()), firstRow: row}
		if d.bad || e.rows < 0 || e.series < 0 {
			return nil, errDamaged("the names of the index")
		}
		e.name = text[at : at+n]
		row += e.rows
		out[i] = e
	}
	if d.end() != nil || !slices.IsSortedFunc(out, func(a, b nameEntry) int { return strings.Compare(a.name, b.name) }) {
		return nil, errDamaged("the names of the index")
	}
	return out, nil
}

func parsePages(b []byte, rows int64) ([]page, error) {
	d := decoder{b: b}
	out := make([]page, d.count(3))
	var offset, row int64
	for i := range out {
		offset += d.varint()
		size := d.uvarint()
		row += d.varint()
		if offset < 0 || size > 1<<30 || row < 0 || row >= rows || i == 0 && row != 0 || i > 0 && row <= out[i-1].firstRow {
			return nil, errDamaged("the pages of the index")
		}
		out[i] = page{offset: offset, size: int32(size), firstRow: row}
	}
	if d.end() != nil {
		return nil, errDamaged("the pages of the index")
	}
	return out, nil
}

func parseLabels(b []byte) ([]labelEntry, error) {
	d := decoder{b: b}
	out := make([]labelEntry, d.count(4))
	for i := range out {
		out[i] = labelEntry{name: string(d.bytes(d.count(1))), at: place{int(d.uvarint()), int(d.uvarint())}, values: int(d.uvarint())}
	}
	if d.end() != nil {
		return nil, errDamaged("the labels of the index")
	}
	return out, nil
}
