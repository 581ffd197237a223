package metrics

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"unsafe"

	"github.com/millstream/millstream/segment"
)

// pageBuffer reads pages of the chunk column: Parquet data pages of the first version, compressed with zstd, of plain byte arrays in a required column. That is
// the only kind the writer makes; reading it directly costs a query one read and one decompression per page and no footer.
type pageBuffer struct {
	packed, raw []byte
}

func (p *pageBuffer) read(data io.ReaderAt, dataSize int64, at page) error {
	if at.offset+int64(at.size) > dataSize {
		return errDamaged("a page beyond the end of the object")
	}
	p.packed = resize(p.packed, int(at.size))
	if err := readFull(data, p.packed, at.offset); err != nil {
		return err
	}
	err := p.unpack()
	if err != nil && segment.Distrust(data, at.offset, int64(at.size)) {
		if err := readFull(data, p.packed, at.offset); err != nil {
			return err
		}
		return p.unpack()
	}
	return err
}

// unpack checks and decompresses the page that was read.
func (p *pageBuffer) unpack() error {
	h, err := parsePageHeader(p.packed)
	if err != nil {
		return err
	}
	payload := p.packed[h.length:]
	if h.compressed != len(payload) || h.crc != crc32.ChecksumIEEE(payload) {
		return errDamaged("a page of chunks")
	}
	if p.raw, err = decoders.DecodeAll(payload, p.raw[:0]); err != nil || len(p.raw) != h.uncompressed {
		return errDamaged("a page of chunks")
	}
	return nil
}

// take copies the chunks of rows out of the page, which holds rows [first, end).
func (p *pageBuffer) take(refs []rowRef, first, end int64) error {
	starts := make([]int, len(refs))
	total, at, next := 0, 0, 0
	for row := first; row < end && next < len(refs); row++ {
		if len(p.raw)-at < 4 {
			return errDamaged("a page of chunks")
		}
		n := int(binary.LittleEndian.Uint32(p.raw[at:]))
		at += 4
		if n < 0 || n > len(p.raw)-at {
			return errDamaged("a page of chunks")
		}
		if refs[next].row == row {
			starts[next] = at
			refs[next].Data = p.raw[at : at+n : at+n]
			total += n
			next++
		}
		at += n
	}
	if next < len(refs) {
		return errDamaged("a page of chunks")
	}
	arena := make([]byte, 0, total)
	for i := range refs {
		from := len(arena)
		arena = append(arena, refs[i].Data...)
		refs[i].Data = arena[from:len(arena):len(arena)]
	}
	return nil
}

// pageHeader is what matters of Parquet's PageHeader.
type pageHeader struct {
	length                   int // of the header itself
	uncompressed, compressed int
	crc                      uint32
}

// Types of Thrift's compact protocol.
const (
	thriftTrue   = 1
	thriftFalse  = 2
	thriftByte   = 3
	thriftI64    = 6
	thriftDouble = 7
	thriftBinary = 8
	thriftStruct = 12
)

// parsePageHeader reads the header in front of a page: a Thrift struct in the compact protocol.
func parsePageHeader(b []byte) (pageHeader, error) {
	d := decoder{b: b}
	var h pageHeader
	kind := int64(-1)
	field := int64(0)
	for {
		x := d.byte()
		if x == 0 || d.bad {
			break
		}
		if field += int64(x >> 4); x>>4 == 0 {
			field = d.varint()
		}
		if x&15 > thriftByte && x&15 <= thriftI64 {
			v := d.varint()
			switch field {
			case 1:
				kind = v
			case 2:
				h.uncompressed = int(v)
			case 3:
				h.compressed = int(v)
			case 4:
				h.crc = uint32(v)
			}
			continue
		}
		d.skip(x&15, 4)
	}
	if d.bad || kind != 0 || h.uncompressed < 0 {
		return h, errDamaged("the header of a page")
	}
	h.length = len(b) - len(d.b)
	return h, nil
}

// skip passes over a Thrift value. Lists and maps do not occur in a page header.
func (d *decoder) skip(kind byte, depth int) {
	switch {
	case kind == thriftTrue || kind == thriftFalse:
	case kind == thriftByte:
		d.byte()
	case kind <= thriftI64:
		d.uvarint()
	case kind == thriftDouble:
		d.bytes(8)
	case kind == thriftBinary:
		d.bytes(d.count(1))
	case kind == thriftStruct && depth > 0:
		for !d.bad {
			x := d.byte()
			if x == 0 {
				return
			}
			if x>>4 == 0 {
				d.varint()
			}
			d.skip(x&15, depth-1)
		}
	default:
		d.fail()
	}
}

// stringOf views bytes as a string for the time of a call.
func stringOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// bytesOf views a string as bytes that nobody changes.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
