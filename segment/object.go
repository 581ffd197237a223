package segment

import (
	"context"
	"io"
)

// remote is a data object that is fetched as it is read; *cache.Blocks fits.
type remote interface {
	Bind(ctx context.Context) io.ReaderAt
	Distrust(off, n int64)
}

// Bind gives a data object whose reads end with ctx, if it is one whose reads may wait.
func Bind(ctx context.Context, data io.ReaderAt) io.ReaderAt {
	if r, ok := data.(remote); ok {
		return r.Bind(ctx)
	}
	return data
}

// Distrust tells a data object that what it gave fails its checksum. If it is true, the same read may give other bytes.
func Distrust(data io.ReaderAt, off, n int64) bool {
	r, ok := data.(remote)
	if ok {
		r.Distrust(off, n)
	}
	return ok
}
