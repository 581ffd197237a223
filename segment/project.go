package segment

import (
	"context"
	"io"
	"slices"

	"github.com/millstream/millstream"
)

// Stored is how many bytes of the data object the columns of some fields take, with those of TimestampField.
func (r *Reader) Stored(fields []string) (n int64, err error) {
	for i := range r.runs {
		h, err := r.header(i)
		if err != nil {
			return 0, err
		}
		for k := range h.cols {
			if c := &h.cols[k]; projects(fields, c.name) {
				n += c.chunkSize()
			}
		}
	}
	return n, nil
}

func projects(fields []string, name string) bool {
	return name == millstream.TimestampField || slices.Contains(fields, name)
}

// Project writes a Parquet file of the columns of some fields, and TimestampField, of the runs that have records in a range: for engines that read files, of a
// segment that is not here as a whole. Columns are copied as they are, and verified. It returns the number of records; 0: nothing was written.
func (r *Reader) Project(ctx context.Context, w io.Writer, fields []string, rng millstream.TimeRange) (rows int64, err error) {
	data := Bind(ctx, r.data)
	Expect(data, func() [][2]int64 { return r.projected(fields, rng) })
	out := newFileWriter(w, io.Discard)
	for _, f := range r.fields {
		if projects(fields, f.Name) {
			out.field(f)
		}
	}
	var buf []byte
	for i, info := range r.runs {
		if !rng.Overlaps(info.minTime, info.maxTime) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		var cols []column
		if cols, buf, err = r.copyColumns(data, i, fields, buf[:0]); err != nil {
			return 0, err
		}
		if err := out.run(info, cols, buf, nil); err != nil {
			return 0, err
		}
		rows += int64(info.rows)
	}
	if rows == 0 {
		return 0, nil
	}
	footer, err := out.parquet.bytes(out)
	if err != nil {
		return 0, err
	}
	return rows, out.data.write(footer)
}

// copyColumns appends the stored bytes of a run's columns to buf; the columns say where they lie there.
func (r *Reader) copyColumns(data io.ReaderAt, run int, fields []string, buf []byte) ([]column, []byte, error) {
	h, err := r.header(run)
	if err != nil {
		return nil, buf, err
	}
	var cols []column
	for i := range h.cols {
		c := h.cols[i]
		if !projects(fields, c.name) {
			continue
		}
		from, size := len(buf), c.chunkSize()
		if size < 0 || c.offset < 0 || c.offset > r.runs[run].dataSize-size {
			return nil, buf, damaged("a column lies outside of its run")
		}
		buf = append(buf, make([]byte, size)...)
		at := r.runs[run].dataBase + c.offset
		if err := readFull(data, buf[from:], at); err != nil {
			return nil, buf, err
		}
		if !c.intact(buf[from:]) {
			if !Distrust(data, at, size) {
				return nil, buf, damaged("a page's checksum differs")
			}
			if err := readFull(data, buf[from:], at); err != nil {
				return nil, buf, err
			}
			if !c.intact(buf[from:]) {
				return nil, buf, damaged("a page's checksum differs")
			}
		}
		c.offset = int64(from)
		cols = append(cols, c)
	}
	return cols, buf, nil
}

// intact compares a whole column with its checksums.
func (c *column) intact(p []byte) bool {
	if n := c.dictPage.header + c.dictPage.size; c.dictPage.header > 0 && checksum(p[:n]) != c.dictPage.sum {
		return false
	}
	for i := range c.pages {
		pg := &c.pages[i]
		if end := pg.off + int64(pg.header+pg.size); pg.off < 0 || end > int64(len(p)) || checksum(p[pg.off:end]) != pg.sum {
			return false
		}
	}
	return true
}

// projected is where the columns lie that Project copies.
func (r *Reader) projected(fields []string, rng millstream.TimeRange) (parts [][2]int64) {
	for i, info := range r.runs {
		h, err := r.header(i)
		if err != nil || !rng.Overlaps(info.minTime, info.maxTime) {
			continue
		}
		for k := range h.cols {
			if c := &h.cols[k]; projects(fields, c.name) {
				at := info.dataBase + c.offset
				parts = append(parts, [2]int64{at, at + c.chunkSize()})
			}
		}
	}
	return parts
}
