package segment

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"math"
	"unsafe"

	"github.com/millstream/millstream"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(p []byte) uint32 { return crc32.Checksum(p, castagnoli) }

// region locates bytes of the index object that are read as one and carry their checksum here.
type region struct {
	off, size int64 // off counts from the start of the run's index bytes
	sum       uint32
}

func damaged(what string) error {
	return millstream.Errorf(millstream.Internal, "the segment is damaged: %s", what)
}

// readRegion reads and verifies a region into buf, which grows as needed.
func readRegion(r io.ReaderAt, base int64, g region, limit int64, buf []byte) ([]byte, error) {
	if g.off < 0 || g.size < 0 || base+g.off < base || g.size > limit-base-g.off {
		return nil, damaged("a region lies outside of its object")
	}
	buf = resize(buf, int(g.size))
	if err := readFull(r, buf, base+g.off); err != nil {
		return nil, err
	}
	if checksum(buf) != g.sum {
		return nil, damaged("a region's checksum differs")
	}
	return buf, nil
}

func readFull(r io.ReaderAt, p []byte, off int64) error {
	if n, err := r.ReadAt(p, off); n < len(p) {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if millstream.KindOf(err) != millstream.Internal { // the end of a context, or a file that is fetched as it is read: the reason counts
			return err
		}
		return millstream.Wrap(millstream.Internal, err, "a segment ends early or cannot be read")
	}
	return nil
}

func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+min(n/4, 1<<18))
	}
	return s[:n]
}

func text(p []byte) string { return unsafe.String(unsafe.SliceData(p), len(p)) }

// writer builds the index's structures: little-endian fixed and variable-length integers, and byte strings with their length before them.
type writer struct{ p []byte }

func (w *writer) byte(b byte)      { w.p = append(w.p, b) }
func (w *writer) uint(v uint64)    { w.p = binary.AppendUvarint(w.p, v) }
func (w *writer) int(v int64)      { w.p = binary.AppendVarint(w.p, v) }
func (w *writer) fixed32(v uint32) { w.p = binary.LittleEndian.AppendUint32(w.p, v) }
func (w *writer) fixed64(v uint64) { w.p = binary.LittleEndian.AppendUint64(w.p, v) }
func (w *writer) string(s string)  { w.uint(uint64(len(s))); w.p = append(w.p, s...) }
func (w *writer) region(g region)  { w.uint(uint64(g.off)); w.uint(uint64(g.size)); w.fixed32(g.sum) }
func (w *writer) sizes(all ...int64) {
	for _, v := range all {
		w.uint(uint64(v))
	}
}

// parser reads what a writer wrote. Damage sets bad, and everything read after it is zero.
type parser struct {
	p   []byte
	bad bool
}

func (d *parser) take(n int) []byte {
	if d.bad || n < 0 || n > len(d.p) {
		d.bad = true
		return nil
	}
	out := d.p[:n:n]
	d.p = d.p[n:]
	return out
}

func (d *parser) byte() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *parser) uint() uint64 {
	v, n := binary.Uvarint(d.p)
	if d.bad || n <= 0 || v > math.MaxInt64 {
		d.bad = true
		return 0
	}
	d.p = d.p[n:]
	return v
}

func (d *parser) int() int64 {
	v, n := binary.Varint(d.p)
	if d.bad || n <= 0 {
		d.bad = true
		return 0
	}
	d.p = d.p[n:]
	return v
}

func (d *parser) size() int64 { return int64(d.uint()) }

// count reads a number of items of at least size bytes each; one that cannot fit in what is left is damage.
func (d *parser) count(size int) int {
	n := d.uint()
	if d.bad || n > uint64(len(d.p)/size) {
		d.bad = true
		return 0
	}
	return int(n)
}

func (d *parser) fixed32() uint32 {
	if b := d.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (d *parser) fixed64() uint64 {
	if b := d.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (d *parser) string() string { return text(d.take(int(d.uint()))) }
func (d *parser) region() region { return region{d.size(), d.size(), d.fixed32()} }
