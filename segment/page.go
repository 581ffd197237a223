package segment

import (
	"encoding/binary"
	"math"
	"math/bits"
	"unsafe"

	"github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/encoding/rle"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/millstream/millstream"
)

// pageRaw is about how large a page may be when decompressed, unless a single block is larger: large enough to compress, small enough to be read for a few rows.
const pageRaw = 16 << 10

// dictPartRaw is about how large a part of a dictionary is when decompressed.
const dictPartRaw = pageRaw

// maxPageBlocks bounds the rows of a page, which are decoded even where one is asked for.
const maxPageBlocks = 8

// packer turns column values into Parquet pages. Its buffers are reused.
type packer struct {
	comp       *compressor
	raw        []byte
	packed     []byte
	alt        []byte
	body       []byte
	parts      []dictPart // of the dictionary in raw
	lengths    []int32
	ints       []int64
	huffman    bool // the column's pages are smaller with Huffman coding alone
	huffKnown  bool
	compressed bool
}

// begin starts a column chunk.
func (p *packer) begin(compressed bool) {
	p.huffKnown, p.huffman, p.compressed = false, false, compressed
}

// values appends the encoded values of rows [from, to) to p.raw, definition levels first unless required. c is plain, codes go by their own column.
func (p *packer) values(c *millstream.Column, enc encoding, codeBits, from, to int, required bool) error {
	p.raw = p.raw[:0]
	if !required {
		p.raw = appendLevels(p.raw, c.Valid, from, to)
	}
	switch enc {
	case encBool:
		p.bools(c, from, to)
	case encDouble:
		for i := from; i < to; i++ {
			if c.IsValid(i) {
				p.raw = binary.LittleEndian.AppendUint64(p.raw, math.Float64bits(c.Floats[i]))
			}
		}
	case encDelta:
		p.ints = p.ints[:0]
		for i := from; i < to; i++ {
			if c.IsValid(i) {
				p.ints = append(p.ints, c.Ints[i])
			}
		}
		return p.delta64()
	case encText:
		return p.texts(c, from, to)
	case encDict:
		p.lengths = p.lengths[:0]
		for i := from; i < to; i++ {
			if c.IsValid(i) {
				p.lengths = append(p.lengths, int32(c.Codes[i]))
			}
		}
		p.raw = append(p.raw, byte(codeBits))
		e := rle.Encoding{BitWidth: codeBits}
		out, err := e.EncodeInt32(nil, p.lengths)
		p.raw = append(p.raw, out...)
		return err
	}
	return nil
}

func (p *packer) bools(c *millstream.Column, from, to int) {
	n := 0
	for i := from; i < to; i++ {
		if !c.IsValid(i) {
			continue
		}
		if n&7 == 0 {
			p.raw = append(p.raw, 0)
		}
		if c.Ints[i] != 0 {
			p.raw[len(p.raw)-1] |= 1 << (n & 7)
		}
		n++
	}
}

func (p *packer) delta64() error {
	var e delta.BinaryPackedEncoding
	out, err := e.EncodeInt64(p.alt, p.ints)
	p.alt = out
	p.raw = append(p.raw, out...)
	return err
}

func (p *packer) texts(c *millstream.Column, from, to int) error {
	p.lengths = p.lengths[:0]
	for i := from; i < to; i++ {
		if c.IsValid(i) {
			p.lengths = append(p.lengths, int32(c.Offsets[i+1]-c.Offsets[i]))
		}
	}
	var e delta.BinaryPackedEncoding
	out, err := e.EncodeInt32(p.alt, p.lengths)
	p.alt = out
	p.raw = append(p.raw, out...)
	p.raw = append(p.raw, c.Bytes[c.Offsets[from]:c.Offsets[to]]...) // null rows are empty
	return err
}

// appendLevels writes the definition levels of rows [from, to), from being a multiple of 64: four bytes of length, then runs of equal levels and bit-packed rest.
func appendLevels(dst []byte, valid []uint64, from, to int) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	if valid == nil {
		dst = append(binary.AppendUvarint(dst, uint64(to-from)<<1), 1)
	} else {
		dst = appendBits(dst, valid, from, to)
	}
	binary.LittleEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
	return dst
}

// appendBits is the hybrid encoding of single bits, by words of 64: a stretch of words that are all zeros or all ones is one run.
func appendBits(dst []byte, valid []uint64, from, to int) []byte {
	word := func(i int) uint64 { // bits beyond to repeat the last one, so that they join its run
		w, left := valid[i], to-i*64
		if left < 64 {
			w &= 1<<left - 1
			if w>>(left-1) != 0 {
				w |= ^uint64(0) << left
			}
		}
		return w
	}
	last := (to + 63) / 64
	for i := from / 64; i < last; {
		w, k := word(i), i+1
		if w == 0 || w == math.MaxUint64 {
			for k < last && word(k) == w {
				k++
			}
			dst = append(binary.AppendUvarint(dst, uint64(min(k*64, to)-i*64)<<1), byte(w&1))
			i = k
			continue
		}
		for k < last && word(k) != 0 && word(k) != math.MaxUint64 {
			k++
		}
		n := min(k*64, to) - i*64
		groups := (n + 7) / 8
		dst = binary.AppendUvarint(dst, uint64(groups)<<1|1)
		for g := range groups {
			dst = append(dst, byte(word(i+g/8)>>(g%8*8)))
		}
		i = k
	}
	return dst
}

// dictionary appends the dictionary's values to p.raw and divides them into p.parts.
func (p *packer) dictionary(dict []string) {
	p.raw, p.parts = p.raw[:0], append(p.parts[:0], dictPart{})
	for _, s := range dict {
		part := &p.parts[len(p.parts)-1]
		if part.raw >= dictPartRaw {
			p.parts = append(p.parts, dictPart{})
			part = &p.parts[len(p.parts)-1]
		}
		p.raw = binary.LittleEndian.AppendUint32(p.raw, uint32(len(s)))
		p.raw = append(p.raw, s...)
		part.values++
		part.raw += 4 + len(s)
	}
}

// finish compresses p.raw and gives the page: its header and its stored bytes, valid until the next page. A dictionary is stored part by part.
func (p *packer) finish(rows int, enc format.Encoding, dict bool) (header, body []byte, err error) {
	switch {
	case !p.compressed:
		body = p.raw
	case dict:
		body = p.squeezeParts()
	default:
		body = p.squeeze()
	}
	h := format.PageHeader{Type: format.DataPage, UncompressedPageSize: int32(len(p.raw)), CompressedPageSize: int32(len(body))}
	if dict {
		h.Type = format.DictionaryPage
		h.DictionaryPageHeader = thrift.New(format.DictionaryPageHeader{NumValues: int32(rows), Encoding: format.Plain})
	} else {
		h.DataPageHeader = thrift.New(format.DataPageHeader{
			NumValues: int32(rows), Encoding: enc, DefinitionLevelEncoding: format.RLE, RepetitionLevelEncoding: format.RLE,
		})
	}
	header, err = thrift.Marshal(new(thrift.CompactProtocol), &h)
	return header, body, err
}

// squeezeParts compresses each part of the dictionary to a frame of its own. Frames one after another are a valid zstd stream, so for other readers it is one page.
// The smaller of both ways is taken for each part: the library leaves some stretches of ids as they are.
func (p *packer) squeezeParts() []byte {
	p.body = p.body[:0]
	raw := p.raw
	for i := range p.parts {
		x := &p.parts[i]
		p.packed = p.comp.compress(p.packed, raw[:x.raw])
		out, ok := p.comp.huffman(p.alt, raw[:x.raw])
		if p.alt = out; !ok || len(out) > len(p.packed) {
			out = p.packed
		}
		raw, x.size, x.sum = raw[x.raw:], len(out), checksum(out)
		p.body = append(p.body, out...)
	}
	return p.body
}

func (p *packer) squeeze() []byte {
	if p.huffKnown && p.huffman {
		if out, ok := p.comp.huffman(p.alt, p.raw); ok {
			p.alt = out
			return out
		}
	}
	p.packed = p.comp.compress(p.packed, p.raw)
	if !p.huffKnown && len(p.raw) >= 4096 { // the first page of size decides for the chunk
		p.huffKnown = true
		out, ok := p.comp.huffman(p.alt, p.raw)
		p.alt = out
		if p.huffman = ok && len(out) <= len(p.packed)+len(p.packed)/64; p.huffman {
			return out
		}
	}
	return p.packed
}

func bitsFor(values int) int {
	if values <= 1 {
		return 1
	}
	return bits.Len(uint(values - 1))
}

func asUint32(v []int32) []uint32 {
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(v))), len(v))
}
