package query

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/query/cache"
	"github.com/millstream/millstream/query/sql"
	"github.com/millstream/millstream/segment"
)

// projectShare: of a segment that is not on the local disk as a whole, the columns that a statement needs become a file of their own if they take less than one in
// so many of its bytes; else all of it is fetched.
const projectShare = 2

// file gives a file with at least the rows and columns of a segment that a statement needs: the segment's own data, or its needed columns. The engine never reads a
// file of which parts are missing. The handle stays pinned until the job ends.
func (x *export) file(ctx context.Context, v *sql.BoundTable, h *cache.Handle, s millstream.Segment) (string, error) {
	x.mu.Lock()
	x.handles = append(x.handles, h)
	x.mu.Unlock()
	fields, size := v.Fields(), s.Data.Length
	if r, ok := h.Value().(*segment.Reader); ok && !h.Local() {
		n, err := r.Stored(fields)
		if err != nil {
			return "", err
		}
		if n*projectShare < size {
			x.bytes.Add(n)
			return x.project(ctx, r, fields)
		}
	}
	x.rows.Add(s.Rows)
	x.bytes.Add(size)
	return h.DataPath(ctx)
}

// project writes a file of some columns of a segment; "" if there are no rows in the range.
func (x *export) project(ctx context.Context, r *segment.Reader, fields []string) (path string, err error) {
	path = filepath.Join(x.dir, fmt.Sprintf("%d.parquet", x.files.Add(1)))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	buf := bufio.NewWriterSize(tempFile{f, x}, 256<<10)
	rows, err := r.Project(ctx, buf, fields, x.q.Range)
	x.rows.Add(rows)
	if err != nil || rows == 0 {
		return "", err
	}
	return path, buf.Flush()
}

// tempFile is a file whose bytes count as temporary ones of a query.
type tempFile struct {
	*os.File
	x *export
}

func (t tempFile) Write(p []byte) (int, error) {
	if err := t.x.spend(int64(len(p))); err != nil {
		return 0, err
	}
	return t.File.Write(p)
}
