package metrics

import (
	"context"
	"encoding/binary"
	"io"
	"slices"
	"strings"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/segment"
)

// position is the series on which a walk stands.
type position struct {
	name, key string
	shared    int     // how many bytes of the key the one before it begins with as well; otherName if it has another name
	chunks    []Chunk // in the order in which they were written
	exemplars []millstream.Exemplar
}

const otherName = -1

// walker walks over all series of a source, by name and key.
type walker interface {
	// next puts p on the next series; ok is false at the end. The key and the bytes of the chunks are valid until the next call.
	next(p *position) (ok bool, err error)
}

func walk(s Source, whole int) (walker, error) {
	switch s := s.(type) {
	case *Head:
		return s.walk(), nil
	case *Reader:
		return s.walk(whole)
	}
	return nil, millstream.Errorf(millstream.Internal, "a source of type %T cannot be merged", s)
}

// headWalk walks over a head to which nothing is appended meanwhile.
type headWalk struct {
	families []*family // not begun
	series   []*headSeries
	key      string // of the last one; the name is the same if follows is set
	follows  bool
}

func (h *Head) walk() *headWalk {
	h.mu.RLock()
	defer h.mu.RUnlock()
	w := &headWalk{families: make([]*family, 0, len(h.families))}
	for _, f := range h.families {
		w.families = append(w.families, f)
	}
	slices.SortFunc(w.families, func(a, b *family) int { return strings.Compare(a.name, b.name) })
	return w
}

func (w *headWalk) next(p *position) (bool, error) {
	for len(w.series) == 0 {
		if len(w.families) == 0 {
			return false, nil
		}
		w.series = slices.SortedFunc(slices.Values(w.families[0].series), func(a, b *headSeries) int { return strings.Compare(a.key, b.key) })
		w.families, w.follows = w.families[1:], false
	}
	s := w.series[0]
	w.series = w.series[1:]
	if p.shared = otherName; w.follows {
		p.shared = sharedPrefix(w.key, s.key)
	}
	w.key, w.follows = s.key, true
	x, open := s.snapshot()
	p.name, p.key, p.chunks, p.exemplars = x.Name, x.Key, open.chunks(x.Chunks), p.exemplars[:0]
	if s.extra != nil {
		p.exemplars = append(p.exemplars, s.extra.exemplars...)
	}
	return true, nil
}

// readerWalk walks over a segment. It holds a block of the index, or a piece of it, and one page of chunks, since both are in the order of series.
type readerWalk struct {
	r     *Reader
	names []nameEntry // the current one and those after it
	left  int         // series of the current name that are left
	block int         // that is read; -1 before the first
	whole int         // up to which size blocks are held as a whole
	in    blockReader
	key   []byte
	sizes []uint64 // of the chunks of the current series
	row   int64    // the next one

	data    io.ReaderAt
	pages   []page // the current one and those after it
	pageEnd int64  // the first row that is not in it
	buf     pageBuffer
	at      int // where the next row is in the page
}

func (r *Reader) walk(whole int) (*readerWalk, error) {
	names, err := r.names.get(r.readNames)
	if err != nil {
		return nil, err
	}
	pages, err := r.pages.get(r.readPages)
	if err != nil {
		return nil, err
	}
	return &readerWalk{r: r, names: names, block: -1, whole: whole, data: segment.Bind(context.Background(), r.data), pages: pages}, nil
}

func (w *readerWalk) next(p *position) (bool, error) {
	for w.left == 0 {
		if ok, err := w.nextName(); !ok || err != nil {
			return false, err
		}
	}
	w.left--
	rest := w.in.in.b
	for !w.series(p) {
		more, err := w.in.fill(rest)
		if err != nil {
			return false, err
		}
		if !more {
			return false, errDamaged("the series of a name")
		}
		rest = w.in.in.b
	}
	return true, w.load(p)
}

// series reads what the index says of the next series. It is false, and nothing is changed but the place, if that is wrong or not whole.
func (w *readerWalk) series(p *position) bool {
	d := &w.in.in
	shared := d.uvarint()
	rest := d.bytes(d.count(1))
	p.chunks, w.sizes = p.chunks[:0], w.sizes[:0]
	last := int64(0)
	for range d.count(5) {
		c, size, ok := d.row(last)
		if !ok {
			return false
		}
		p.chunks, w.sizes, last = append(p.chunks, c), append(w.sizes, size), c.Max
	}
	if d.bad || shared > uint64(len(w.key)) {
		return false
	}
	w.key = append(w.key[:shared], rest...)
	p.name, p.key, p.shared = w.names[0].name, stringOf(w.key), int(shared)
	if w.left+1 == w.names[0].series {
		p.shared = otherName
	}
	return true
}

// load reads the chunks of the series.
func (w *readerWalk) load(p *position) (err error) {
	kept := p.chunks[:0]
	p.exemplars = p.exemplars[:0]
	for i, c := range p.chunks {
		if c.Data, err = w.take(i > 0); err != nil {
			return err
		}
		if uint64(len(c.Data)) != w.sizes[i] {
			return errDamaged("the length of a chunk")
		}
		if c.Enc != EncExemplars {
			kept = append(kept, c)
		} else if p.exemplars, err = decodeExemplars(&c); err != nil {
			return err
		}
	}
	p.chunks = kept
	return nil
}

// nextName goes on with the first series of the next name.
func (w *readerWalk) nextName() (ok bool, err error) {
	if w.block >= 0 {
		if n := &w.names[0]; w.row != n.firstRow+n.rows {
			return false, errDamaged("the rows of a name")
		}
		w.names = w.names[1:]
	}
	if len(w.names) == 0 {
		return false, nil
	}
	n := &w.names[0]
	if n.at.block != w.block {
		if err := w.nextBlock(n.at.block); err != nil {
			return false, err
		}
	}
	if n.at.offset != w.in.at() {
		return false, errDamaged("the series of a name")
	}
	w.key, w.left = w.key[:0], n.series
	return true, nil
}

func (w *readerWalk) nextBlock(block int) error {
	if w.block >= 0 {
		if err := w.in.end(); err != nil {
			return err
		}
	}
	if block < 0 || block >= len(w.r.blocks) {
		return errDamaged("a block of the index is missing")
	}
	w.block = block
	return w.in.open(w.r, w.r.blocks[block], w.whole)
}

// take gives the bytes of the next row, and keeps what it gave before if that is still needed.
func (w *readerWalk) take(keep bool) ([]byte, error) {
	if w.row == w.pageEnd {
		if err := w.nextPage(keep); err != nil {
			return nil, err
		}
	}
	rest := w.buf.raw[w.at:]
	if len(rest) < 4 {
		return nil, errDamaged("a page of chunks")
	}
	n := binary.LittleEndian.Uint32(rest)
	if rest = rest[4:]; uint64(n) > uint64(len(rest)) {
		return nil, errDamaged("a page of chunks")
	}
	w.at += 4 + int(n)
	w.row++
	return rest[:n:n], nil
}

func (w *readerWalk) nextPage(keep bool) error {
	if w.row > 0 {
		w.pages = w.pages[1:]
	}
	if len(w.pages) == 0 || w.at != len(w.buf.raw) {
		return errDamaged("a page of chunks")
	}
	if w.pageEnd = w.r.rows; len(w.pages) > 1 {
		w.pageEnd = w.pages[1].firstRow
	}
	if keep {
		w.buf.raw = nil
	}
	w.at = 0
	return w.buf.read(w.data, w.r.dataSize, w.pages[0])
}

// labelWalk walks over the labels of a segment and the values of each as if they were the names and keys of series. It holds a block of the index, or a piece of it.
type labelWalk struct {
	r       *Reader
	entries []labelEntry // the current one and those after it
	left    int          // values of the current label that are left
	value   []byte       // the last one
	block   int          // that is read; -1 before the first
	whole   int          // up to which size blocks are held as a whole
	in      blockReader
}

func (r *Reader) walkLabels(whole int) (*labelWalk, error) {
	entries, err := r.labels.get(r.readLabels)
	return &labelWalk{r: r, entries: entries, block: -1, whole: whole}, err
}

func (w *labelWalk) next(p *position) (bool, error) {
	for w.left == 0 {
		if ok, err := w.nextLabel(); !ok || err != nil {
			return false, err
		}
	}
	w.left--
	d := &w.in.in
	for {
		rest := d.b
		if v := d.bytes(d.count(1)); !d.bad {
			w.at(p, v)
			return true, nil
		}
		if more, err := w.in.fill(rest); err != nil {
			return false, err
		} else if !more {
			return false, errDamaged("the values of a label")
		}
	}
}

// at puts p on a value of the current label.
func (w *labelWalk) at(p *position, value []byte) {
	shared := sharedPrefix(stringOf(w.value), stringOf(value))
	w.value = append(w.value[:shared], value[shared:]...)
	p.name, p.key, p.shared = w.entries[0].name, stringOf(w.value), shared
	if w.left+1 == w.entries[0].values {
		p.shared = otherName
	}
}

// nextLabel goes on with the first value of the next label.
func (w *labelWalk) nextLabel() (ok bool, err error) {
	if w.block >= 0 {
		w.entries = w.entries[1:]
	}
	if len(w.entries) == 0 {
		return false, nil
	}
	e := &w.entries[0]
	if e.at.block != w.block {
		if w.block >= 0 {
			if err := w.in.end(); err != nil {
				return false, err
			}
		}
		if e.at.block < 0 || e.at.block >= len(w.r.blocks) {
			return false, errDamaged("a block of the index is missing")
		}
		w.block = e.at.block
		if err := w.in.open(w.r, w.r.blocks[w.block], w.whole); err != nil {
			return false, err
		}
	}
	if e.at.offset != w.in.at() {
		return false, errDamaged("the values of a label")
	}
	w.left = e.values
	return true, nil
}
