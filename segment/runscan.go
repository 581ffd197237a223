package segment

import (
	"io"
	"sync"

	"github.com/millstream/millstream"
)

// readers are the column readers of one scan. They go from run to run with their buffers.
type readers struct {
	r      *Reader
	data   io.ReaderAt // of r, for as long as the scan may go on
	stats  *ScanStats
	byName map[string]*columnReader
	words  []string // fields that Match searches
	types  map[string]millstream.Type
}

var columnReaders = sync.Pool{New: func() any { return &columnReader{} }}

// maxPooled bounds the buffers that outlive a scan.
const maxPooled = 4 << 20

// release gives the column readers' buffers to later scans.
func (x *readers) release() {
	for _, c := range x.byName {
		if cap(c.raw)+cap(c.window) <= maxPooled {
			c.col, c.x, c.dict, c.vec, c.view = nil, nil, dictReader{}, millstream.Column{}, millstream.Column{}
			columnReaders.Put(c)
		}
	}
	x.byName = nil
}

// runScan is a run of a segment as one scan sees it: a piece, and, at the block it stands on, a block.
type runScan struct {
	*readers
	run     int
	info    *runInfo
	h       *runHeader
	current int
	need    uint64
	dir     map[string]*tokenDirectory
}

func (x *runScan) span() (first, last int64) { return x.info.minTime, x.info.maxTime }
func (x *runScan) size() int                 { return x.info.rows }

func (x *runScan) start() error {
	h, err := x.r.header(x.run)
	if err != nil {
		return err
	}
	x.h = h
	for _, c := range x.byName {
		c.close()
	}
	x.words = x.words[:0]
	for i := range h.cols {
		if c := &h.cols[i]; widened(x.types, c.name, c.typ) == millstream.String && !IsID(c.name) {
			x.words = append(x.words, c.name)
		}
	}
	return nil
}

func (x *runScan) prune(n node) (verdict, error) {
	v, err := n.prune(x)
	all := allBlocks(x.info.blocks())
	return verdict{v.may & all, v.must & v.may & all, v.none & all}, err
}

// want says which blocks will be asked for, so that their pages are read together.
func (x *runScan) want(blocks uint64) { x.need = blocks }

func (x *runScan) times(block int) (lo, hi int64) {
	if c := x.h.column(millstream.TimestampField); c != nil && c.lo != nil {
		return c.lo[block], c.hi[block]
	}
	return x.info.minTime, x.info.maxTime
}

func (x *runScan) at(i int) block {
	x.current = i
	return x
}

func (x *runScan) rows() int       { return min(blockRows, x.info.rows-x.current*blockRows) }
func (x *runScan) number() int     { return x.current }
func (x *runScan) texts() []string { return x.words }

func (x *runScan) column(name string) (*millstream.Column, error) { return x.some(name, nil) }

func (x *runScan) some(name string, rows *bitmap) (*millstream.Column, error) {
	c := x.h.column(name)
	if c == nil {
		return nil, nil
	}
	cr := x.byName[name]
	if cr == nil {
		cr = columnReaders.Get().(*columnReader)
		x.byName[name] = cr
	}
	if cr.col != c {
		cr.open(x, c)
	}
	view, err := cr.block(x.current, rows)
	if t := widened(x.types, name, c.typ); err == nil && t != c.typ {
		view.Widen(t) // the view is ours; its values are copied
	}
	return view, err
}
