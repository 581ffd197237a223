// Package blob is the object store: one interface, implemented over a directory, S3 and memory, with a faulty wrapper for tests.
package blob

import (
	"context"
	"io"
	"iter"
	"time"
)

// Bucket stores immutable objects by key. Keys are slash-separated paths of [A-Za-z0-9._-] segments made of ids, never of names.
// Errors carry a millstream kind: NotFound for a missing key, Conflict for a lost conditional write, Unavailable or Timeout for what may be retried.
// All methods are safe for concurrent use. A successful Put is durable.
type Bucket interface {
	// Get reads n bytes from offset off; n < 0 reads to the end. A reader that ends early gives io.ErrUnexpectedEOF, never a short io.EOF.
	Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error)
	// Put creates the object if the key is free and gives Conflict if it is not: keys are never reused. r must be read from its start and seekable so that a try can be repeated.
	Put(ctx context.Context, key string, r io.ReadSeeker, size int64) error
	// Swap replaces a small mutable object by compare-and-swap: etag "" creates it; Conflict if the stored one differs.
	Swap(ctx context.Context, key string, body []byte, etag string) (newETag string, err error)
	// Stat describes one object.
	Stat(ctx context.Context, key string) (Info, error)
	// Delete removes the objects; a missing one is not an error.
	Delete(ctx context.Context, keys ...string) error
	// List yields the objects whose key starts with prefix, in key order.
	List(ctx context.Context, prefix string) iter.Seq2[Info, error]
}

// Info describes an object.
type Info struct {
	Key      string
	Size     int64
	ETag     string
	Modified time.Time
}
