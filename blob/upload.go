package blob

import (
	"context"
	"fmt"
	"io"
	"time"
)

// Uploader is what Upload needs of a Bucket.
type Uploader interface {
	Put(ctx context.Context, key string, r io.ReadSeeker, size int64) error
	Stat(ctx context.Context, key string) (Info, error)
}

// publishWithin is half of the day after which compactors delete objects that nothing names; see Fresh.
const publishWithin = 12 * time.Hour

// Fresh says whether an object whose upload began at a time may still be named in the catalog: what nothing names for a day is taken for an orphan and deleted, so what
// waited longer, in a process that was paused perhaps, must be uploaded again. The times are those of one clock. Its monotonic reading and its date both count: the one
// stands still while a machine sleeps, the other may be set back.
func Fresh(began, now time.Time) bool {
	return now.Sub(began) < publishWithin && now.Round(0).Sub(began.Round(0)) < publishWithin
}

// uploadTries is how often Upload begins before it gives up.
const uploadTries = 4

// Upload stores an object under a key of next, which must never give a key twice, in this process or any other: so no object is written with two contents. If
// the answer got lost the store is asked, and the size tells, since a Put is all or nothing; what cannot be confirmed gets a new key. It returns the key.
func Upload(ctx context.Context, b Uploader, r io.ReadSeeker, size int64, next func() string) (key string, err error) {
	for try := range uploadTries {
		if try > 0 {
			select {
			case <-ctx.Done():
				return "", ctx.Err()
			case <-time.After(10 * time.Millisecond << try):
			}
			if _, err := r.Seek(0, io.SeekStart); err != nil {
				return "", err
			}
		}
		key = next()
		if err = b.Put(ctx, key, r, size); err == nil {
			return key, nil
		}
		if info, serr := b.Stat(ctx, key); serr == nil && info.Size == size {
			return key, nil
		}
	}
	return "", fmt.Errorf("upload %s: %w", key, err)
}
