package metrics

import (
	"hash"
	"hash/crc32"
	"io"
	"slices"

	"github.com/klauspost/compress/zstd"
)

// wholeBlock is the size up to which a walk holds a block of the index as a whole. Decompressing a larger one piece by piece takes about as much memory.
const wholeBlock = 8 << 20

// blockReader reads a block of the index from its start to its end.
type blockReader struct {
	buf    []byte // what is held
	packed []byte // room for what it is compressed to
	piece  int    // how much of a large block is
	in     decoder
	place  int // in the block, of the end of buf
	entry  blockEntry
	more   io.Reader // the rest; nil if there is none
	sum    hash.Hash32
	zstd   *zstd.Decoder // of blocks that are read piece by piece, for all of them
}

// open begins to read a block, piece by piece if it is larger than whole.
func (b *blockReader) open(r *Reader, e blockEntry, whole int) (err error) {
	b.entry, b.more, b.piece = e, nil, max(whole/32, 1)
	if e.raw <= whole {
		if b.buf, err = r.unpackBlock(e, &b.packed, b.buf); err != nil {
			return err
		}
		b.in, b.place = decoder{b: b.buf}, len(b.buf)
		return nil
	}
	if b.zstd == nil {
		if b.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true)); err != nil {
			return err
		}
	}
	b.sum, b.place, b.buf = crc32.New(castagnoli), 0, b.buf[:0]
	b.in = decoder{}
	b.more = b.zstd
	return b.zstd.Reset(io.TeeReader(io.NewSectionReader(r.index, e.offset, int64(e.size)), b.sum))
}

// at is how much of the block was read.
func (b *blockReader) at() int { return b.place - len(b.in.b) }

// fill adds to what is held, of which rest was not read yet. It says whether there was more.
func (b *blockReader) fill(rest []byte) (bool, error) {
	if b.more == nil {
		return false, nil
	}
	n := copy(b.buf[:cap(b.buf)], rest)
	size := n + max(b.piece, n)
	b.buf = slices.Grow(b.buf[:n], size-n)[:size]
	got, err := io.ReadFull(b.more, b.buf[n:])
	b.buf = b.buf[:n+got]
	b.in, b.place = decoder{b: b.buf}, b.place+got
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		b.more = nil
		if b.place != b.entry.raw || b.sum.Sum32() != b.entry.sum {
			return false, errDamaged("a block of the index")
		}
		return got > 0, nil
	}
	if err != nil {
		return false, errDamaged("a block of the index")
	}
	return true, nil
}

// end checks that all of the block was read.
func (b *blockReader) end() error {
	if len(b.in.b) > 0 {
		return errDamaged("a block of the index")
	}
	more, err := b.fill(nil)
	if err == nil && (more || b.more != nil) {
		err = errDamaged("a block of the index")
	}
	return err
}
