package segment

import (
	"encoding/binary"
	"sync"

	"github.com/klauspost/compress/huff0"
	"github.com/klauspost/compress/zstd"

	"github.com/millstream/millstream"
)

// maxPage bounds what a page may decompress to: a block of the largest records.
const maxPage = 3 << 30

var decompressor = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxPage), zstd.IgnoreChecksum(true))
	if err != nil {
		panic(err) // the options are constant
	}
	return d
})

// compressor makes zstd frames: by the library, or, for texts such as hexadecimal ids whose only redundancy is the frequency of bytes, with Huffman coding alone,
// which is both smaller and several times faster there.
type compressor struct {
	zstd *zstd.Encoder
	huff huff0.Scratch
}

func newCompressor(level int) *compressor {
	l := zstd.SpeedFastest
	if level > 1 {
		l = zstd.EncoderLevelFromZstd(level)
	}
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(l), zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false), zstd.WithWindowSize(1<<20))
	if err != nil {
		panic(err) // the options are constant
	}
	c := &compressor{zstd: e}
	c.huff.Reuse = huff0.ReusePolicyNone
	return c
}

func (c *compressor) compress(dst, src []byte) []byte { return c.zstd.EncodeAll(src, dst[:0]) }

// huffman writes src as a zstd frame of Huffman-coded literals without any sequence; ok is false where that does not work.
func (c *compressor) huffman(dst, src []byte) (out []byte, ok bool) {
	const maxLiterals = 64 << 10
	if len(src) < 1024 {
		return dst, false
	}
	dst = append(dst[:0], 0x28, 0xb5, 0x2f, 0xfd, 2<<6|1<<5) // magic; one segment, content size in four bytes
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(src)))
	for len(src) > 0 {
		part := src
		if len(part) >= 2*maxLiterals {
			part = part[:maxLiterals]
		} else if len(part) > maxLiterals { // two halves: the last part must not be too small for four streams
			part = part[:len(part)/2]
		}
		src = src[len(part):]
		coded, _, err := huff0.Compress4X(part, &c.huff)
		if err != nil || len(coded)+16 > len(part) { // a block may not be larger than what it decodes to
			return dst, false
		}
		// A compressed block: 21 bits of size, type 2, last; literals of type 2 in four streams with sizes of 18 bits; no sequences.
		size := uint32(5 + len(coded) + 1)
		header := size<<3 | 2<<1
		if len(src) == 0 {
			header |= 1
		}
		literals := uint64(2) | 3<<2 | uint64(len(part))<<4 | uint64(len(coded))<<22
		dst = append(dst, byte(header), byte(header>>8), byte(header>>16))
		dst = append(dst, byte(literals), byte(literals>>8), byte(literals>>16), byte(literals>>24), byte(literals>>32))
		dst = append(dst, coded...)
		dst = append(dst, 0)
	}
	return dst, true
}

// decompress gives exactly size bytes, in dst's memory if they fit.
func decompress(dst, src []byte, size int) ([]byte, error) {
	out, err := decompressor().DecodeAll(src, resize(dst, size)[:0])
	if err != nil || len(out) != size {
		return nil, millstream.Wrap(millstream.Internal, err, "the segment is damaged: a page does not decompress to %d bytes (%d)", size, len(out))
	}
	return out, nil
}
