package query

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"golang.org/x/sync/errgroup"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query/cache"
	"github.com/millstream/millstream/query/engine"
	"github.com/millstream/millstream/query/scan"
	"github.com/millstream/millstream/query/sql"
	"github.com/millstream/millstream/segment"
)

// sqlEngine runs a job outside of this process; *engine.Pool fits.
type sqlEngine interface {
	Run(ctx context.Context, job engine.Job, emit func(arrow.RecordBatch) error) (engine.Stats, error)
}

// runSQL runs a statement that kernels cannot. Segments are given to the engine as the files they are, where that serves; all other rows are written to
// private files with only the columns and, as far as filters tell, the rows that the statement needs.
func (e *Engine) runSQL(ctx context.Context, q *task, bound *sql.Bound, ts *tables, out *limited) error {
	query, err := bound.Direct(ctx)
	if err != nil {
		return err
	}
	direct := query != nil
	if !direct { // match functions: only a scan can tell
		if query, err = bound.Exact(ctx); err != nil {
			return err
		}
	}
	dir, err := os.MkdirTemp(e.cfg.TempDir, "query-*")
	if err != nil {
		return millstream.Wrap(millstream.Unavailable, err, "cannot make a temporary directory for the query")
	}
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			e.log.Warn("removing a query's temporary directory", "error", err)
		}
	}()
	job := engine.Job{SQL: query.SQL, MaxRows: int64(out.most()), Ordered: query.Ordered}
	x := &export{e: e, q: q, dir: dir, direct: direct}
	defer x.release()
	for i := range query.Tables {
		t, err := x.table(ctx, &query.Tables[i], ts.refs[query.Tables[i].Ref])
		if err != nil {
			return err
		}
		job.Tables = append(job.Tables, t)
	}
	q.answer.Stats.ScannedRows += x.rows.Load()
	q.answer.Stats.ScannedBytes += x.bytes.Load()
	r := &arrowReader{names: query.Columns}
	_, err = e.cfg.SQL.Run(ctx, job, func(b arrow.RecordBatch) error { return r.send(b, out) })
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	return nil
}

// export makes the files that the engine reads.
type export struct {
	e      *Engine
	q      *task
	dir    string
	direct bool // the SQL filters by itself, so that a file may hold more rows than pass

	files   atomic.Int64
	written atomic.Int64 // bytes
	rows    atomic.Int64
	bytes   atomic.Int64
	vain    atomic.Int64 // segments whose filter selected too much

	mu      sync.Mutex
	handles []*cache.Handle
}

func (x *export) release() {
	for _, h := range x.handles {
		h.Release()
	}
}

// table makes one view's files, newest first.
func (x *export) table(ctx context.Context, v *sql.BoundTable, t *table) (engine.Table, error) {
	out := engine.Table{View: v.View}
	for _, c := range v.Columns {
		out.Columns = append(out.Columns, engine.Column{ID: c.ID, Name: c.Name, Type: c.Type})
	}
	if x.direct {
		out.Range = &x.q.Range
	}
	own, others := x.e.divide(t.segments, nil)
	defer x.e.prefetch(ctx, x.q, own)()
	sources := slices.Clone(t.sources)
	for _, sh := range others {
		sources = append(sources, &ownedElsewhere{e: x.e, q: x.q, schema: t.schema, owned: sh})
	}
	files := make([]string, len(own)+len(sources))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(x.e.cfg.Workers)
	for i, s := range sources {
		g.Go(func() (err error) {
			files[i], _, err = x.write(gctx, v, scan.Widened(s, t.schema), false)
			x.q.progress.Sources.Add(1)
			return err
		})
	}
	for i, s := range own {
		g.Go(func() (err error) {
			files[len(sources)+i], err = x.segment(gctx, v, t, s)
			x.q.progress.Sources.Add(1)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return out, err
	}
	for _, f := range files {
		if f != "" {
			out.Files = append(out.Files, f)
		}
	}
	return out, nil
}

// tooVain is after how many segments with an unselective filter the rest is given as files at once.
const tooVain = 3

// segment gives a segment's own file, or one with the rows that pass the filter if they are few; "" if there are none.
func (x *export) segment(ctx context.Context, v *sql.BoundTable, t *table, s millstream.Segment) (string, error) {
	h, err := x.e.fetch(ctx, x.q, s)
	if err != nil {
		return "", err
	}
	src, ok := h.Value().(segment.Source)
	if !ok {
		h.Release()
		return "", fmt.Errorf("segment %s holds no rows", s.ID)
	}
	asFile := x.direct && sameTypes(src, v)
	if !asFile || v.Filter != nil && x.vain.Load() < tooVain {
		defer h.Release()
		path, whole, err := x.write(ctx, v, scan.Widened(src, t.schema), asFile)
		if err != nil || !whole {
			return path, err
		}
		x.vain.Add(1)
		if h, err = x.e.fetch(ctx, x.q, s); err != nil { // a pin of its own, for the time of the job
			return "", err
		}
	}
	return x.file(ctx, v, h, s)
}

// sameTypes says whether DuckDB may read a view's columns from the segment's own file: it must not make texts of what is no text there.
func sameTypes(src segment.Source, v *sql.BoundTable) bool {
	types := map[string]millstream.Type{}
	for _, f := range src.Fields() {
		types[f.Name] = f.Type
	}
	for _, c := range v.Columns {
		if t, ok := types[c.Field]; ok && t != c.Type && (c.Type != millstream.Double || t != millstream.Int64) {
			return false
		}
	}
	return true
}

// errWhole ends the writing of a file that would hold too much of its segment.
var errWhole = errors.New("most rows pass")

// selective is the share of a segment, one in so many rows, above which its own file is better than a new one with the selected rows.
const selective = 8

// write writes the rows that pass a view's filter to a new file; path is "" if there are none. If it may give up, whole says that too many rows pass.
func (x *export) write(ctx context.Context, v *sql.BoundTable, src segment.Source, mayGiveUp bool) (path string, whole bool, err error) {
	w := &rowWriter{x: x, v: v}
	s := segment.Scan{Range: x.q.Range, Filter: v.Filter, Fields: v.Fields(), Times: true}
	rows := 0
	emit := func(b *millstream.Batch) error {
		if rows += len(b.Times); mayGiveUp && rows*selective > src.Rows() {
			return errWhole
		}
		return w.add(ctx, b)
	}
	if len(v.Computed) > 0 {
		s.All = true // a match function may read any field
	}
	st, err := src.Scan(ctx, s, emit)
	x.rows.Add(st.ScannedRows)
	x.bytes.Add(st.ScannedBytes)
	path, cerr := w.close()
	switch {
	case errors.Is(err, errWhole):
		if path != "" {
			cerr = errors.Join(cerr, os.Remove(path))
		}
		return "", true, cerr
	case err != nil || cerr != nil:
		return "", false, errors.Join(err, cerr)
	}
	return path, false, nil
}

// spend counts bytes that are written to temporary files.
func (x *export) spend(n int64) error {
	if limit := x.e.cfg.Limits.TempSize; x.written.Add(n) > limit {
		return millstream.Errorf(millstream.Unprocessable, "the query needs more than %d bytes of temporary files: narrow its time range or filter more", limit)
	}
	return nil
}

// rowWriter writes one file; it makes none before there is a row.
type rowWriter struct {
	x    *export
	v    *sql.BoundTable
	path string
	file *os.File
	buf  *bufio.Writer
	w    *parquetWriter
}

func (w *rowWriter) open() (err error) {
	w.path = filepath.Join(w.x.dir, fmt.Sprintf("%d.parquet", w.x.files.Add(1)))
	if w.file, err = os.OpenFile(w.path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err != nil {
		return err
	}
	w.buf = bufio.NewWriterSize(w.file, 256<<10)
	cols := make([]parquetColumn, len(w.v.Columns))
	for i, c := range w.v.Columns {
		cols[i] = parquetColumn{c.ID, c.Type}
	}
	w.w = newParquetWriter(w.buf, cols)
	return nil
}

// add writes a batch's rows, with their computed columns.
func (w *rowWriter) add(ctx context.Context, b *millstream.Batch) error {
	if w.w == nil {
		if err := w.open(); err != nil {
			return err
		}
	}
	if err := w.x.spend(int64(b.Size())); err != nil {
		return err
	}
	times := &millstream.Column{Name: millstream.TimestampField, Type: millstream.Timestamp, Ints: b.Times}
	cols := make([]*millstream.Column, len(w.v.Columns))
	for i, c := range w.v.Columns {
		switch {
		case c.Field == millstream.TimestampField:
			cols[i] = times
		case c.Field != "":
			cols[i] = b.Column(c.Field)
		default:
			var err error
			if cols[i], err = w.computed(ctx, b, c.Name); err != nil {
				return err
			}
		}
	}
	return w.w.write(cols, len(b.Times))
}

// computed evaluates a computed column on a batch.
func (w *rowWriter) computed(ctx context.Context, b *millstream.Batch, name string) (*millstream.Column, error) {
	for _, c := range w.v.Computed {
		if c.Name == name {
			return truth(ctx, b, c.Expr)
		}
	}
	return nil, fmt.Errorf("the view %s has no computed column %q", w.v.View, name)
}

// truth is an expression's value for each row of a batch, null where it is unknown.
func truth(ctx context.Context, b *millstream.Batch, x segment.Expr) (*millstream.Column, error) {
	n := len(b.Times)
	c := &millstream.Column{Type: millstream.Bool, Ints: make([]int64, n), Valid: make([]uint64, (n+63)/64)}
	number := &millstream.Batch{Times: make([]int64, n), Columns: append(b.Columns[:len(b.Columns):len(b.Columns)], millstream.Column{Name: rowNumber, Type: millstream.Int64, Ints: make([]int64, n)})}
	for i := range n {
		number.Columns[len(b.Columns)].Ints[i] = int64(i)
	}
	src := segment.Memory(number)
	mark := func(e segment.Expr, value int64) error {
		s := segment.Scan{Range: millstream.TimeRange{Start: 0, End: 1}, Filter: e, Fields: []string{rowNumber}}
		_, err := src.Scan(ctx, s, func(b *millstream.Batch) error {
			for _, row := range b.Column(rowNumber).Ints {
				c.Ints[row] = value
				c.Valid[row>>6] |= 1 << (row & 63)
			}
			return nil
		})
		return err
	}
	return c, errors.Join(mark(x, 1), mark(segment.Not{X: x}, 0))
}

// rowNumber names the column by which truth knows the rows. Match without a field does not search it, since it holds numbers.
const rowNumber = "\x00row"

// close ends the file; the path is "" if none was made.
func (w *rowWriter) close() (string, error) {
	if w.file == nil {
		return "", nil
	}
	var err error
	if w.w != nil {
		err = w.w.close()
	}
	return w.path, errors.Join(err, w.buf.Flush(), w.file.Close())
}

// emptyDir makes dir an empty directory.
func emptyDir(dir string) error {
	if dir == "" {
		return errors.New("no directory is given")
	}
	return errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700))
}
