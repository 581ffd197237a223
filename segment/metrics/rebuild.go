package metrics

import (
	"errors"
	"io"
	"math"

	"github.com/parquet-go/parquet-go"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/segment"
)

// Rebuild writes the index of a data object anew, from that object alone: it is what Merge wrote with it. The object must have been verified as a whole. Its info has
// the index's size and sum only.
func Rebuild(index io.Writer, data io.ReaderAt, size int64) (segment.Info, error) {
	f, err := parquet.OpenFile(data, size)
	if err != nil {
		return segment.Info{}, millstream.Wrap(millstream.Internal, err, "the segment is damaged: its Parquet footer")
	}
	w := &writer{index: newCounter(index)}
	w.builder.init(&w.index)
	w.info.MinTime, w.info.MaxTime = math.MaxInt64, math.MinInt64
	if err := w.indexRows(f); err != nil {
		return segment.Info{}, err
	}
	w.data.n = size
	return w.closeIndex()
}

// indexRows gives the builder the rows of the object, and the pages that hold their chunks.
func (w *writer) indexRows(f *parquet.File) (err error) {
	pages := f.OffsetIndexes()
	columns, first := len(f.Schema().Columns()), int64(0)
	for i, g := range f.RowGroups() {
		at := i*columns + chunkColumn
		if columns <= chunkColumn || at >= len(pages) {
			return errDamaged("the page index of the data")
		}
		for _, l := range pages[at].PageLocations {
			w.builder.pages = append(w.builder.pages, page{offset: l.Offset, size: l.CompressedPageSize, firstRow: first + l.FirstRowIndex})
		}
		first += g.NumRows()
	}
	r := parquet.NewGenericReader[row](f)
	defer func() { err = errors.Join(err, r.Close()) }()
	rows := make([]row, writeRows)
	for {
		n, err := r.Read(rows)
		for i := range rows[:n] {
			if err := w.indexRow(&rows[i]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return millstream.Wrap(millstream.Internal, err, "the segment is damaged: its rows")
		}
		clear(rows)
	}
	if w.builder.rowCount == 0 {
		return errDamaged("the data holds no rows")
	}
	w.builder.endSeries()
	return nil
}

// indexRow adds a row. One with labels is the first of its series; a series without any, which has none to show, is the first of all.
func (w *writer) indexRow(r *row) error {
	if r.Count < 0 || r.Count > maxSampleCount || r.Encoding < 0 || r.Encoding > math.MaxUint8 {
		return errDamaged("a row of the data")
	}
	if len(r.Labels) > 0 && w.builder.rowCount > 0 {
		w.builder.endSeries()
	}
	shared := 0
	if w.builder.seriesN == 0 {
		var ok bool
		if shared, ok = w.builder.follows(r.Name, stringOf(r.Labels), otherName); !ok {
			return errDamaged("the order of the data")
		}
	}
	c := Chunk{Min: r.Min, Max: r.Max, Count: int(r.Count), Enc: Encoding(r.Encoding), Data: r.Chunk}
	w.builder.beginRow(r.Name, stringOf(r.Labels), shared, &c)
	w.note(&c)
	return nil
}
