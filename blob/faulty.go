package blob

import (
	"context"
	"io"
	"iter"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millstream/millstream"
)

// Faults are the probabilities, 0 to 1, of what a Faulty bucket does to a call. They are independent and tried in this order.
type Faults struct {
	Refuse    float64       // answers Unavailable without doing anything
	Timeout   float64       // waits for Delay, or the context's end, and answers Timeout without doing anything
	LostReply float64       // does the work of a Put, Swap or Delete and answers Unavailable
	Truncate  float64       // a Get's body ends early with io.ErrUnexpectedEOF
	Conflict  float64       // answers Conflict to a Put without doing anything, as a racing request can
	Delay     time.Duration // how long a Timeout takes
}

// Faulty injects faults into another bucket, the same for the same seed and order of calls. It is for tests.
type Faulty struct {
	Bucket
	mu     sync.Mutex
	rnd    *rand.Rand
	faults Faults
	down   atomic.Bool
	// Injected counts the faults so far, so that a test can show that it met some.
	Injected atomic.Int64
}

// NewFaulty wraps b.
func NewFaulty(b Bucket, seed uint64, f Faults) *Faulty {
	return &Faulty{Bucket: b, rnd: rand.New(rand.NewPCG(seed, 0x6d73)), faults: f}
}

// SetDown makes every call fail with Unavailable until it is called with false.
func (f *Faulty) SetDown(down bool) { f.down.Store(down) }

// SetFaults changes the probabilities from now on.
func (f *Faulty) SetFaults(faults Faults) { f.mu.Lock(); f.faults = faults; f.mu.Unlock() }

func (f *Faulty) hit(p func(Faults) float64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rnd.Float64() >= p(f.faults) {
		return false
	}
	f.Injected.Add(1)
	return true
}

// before decides what happens instead of the call, if anything.
func (f *Faulty) before(ctx context.Context, key string) error {
	if f.down.Load() || f.hit(func(x Faults) float64 { return x.Refuse }) {
		return millstream.Errorf(millstream.Unavailable, "injected: the object store refuses %s", key)
	}
	if f.hit(func(x Faults) float64 { return x.Timeout }) {
		f.mu.Lock()
		d := f.faults.Delay
		f.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(d):
		}
		return millstream.Errorf(millstream.Timeout, "injected: the object store did not answer for %s", key)
	}
	return nil
}

// after decides whether the reply of a change that happened is lost.
func (f *Faulty) after(key string, err error) error {
	if err == nil && f.hit(func(x Faults) float64 { return x.LostReply }) {
		return millstream.Errorf(millstream.Unavailable, "injected: the reply for %s was lost", key)
	}
	return err
}

// Get implements Bucket.
func (f *Faulty) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	if err := f.before(ctx, key); err != nil {
		return nil, err
	}
	r, err := f.Bucket.Get(ctx, key, off, n)
	if err == nil && n != 0 && f.hit(func(x Faults) float64 { return x.Truncate }) {
		f.mu.Lock()
		keep := f.rnd.Int64N(max(n, 64))
		f.mu.Unlock()
		return &truncated{r, keep}, nil
	}
	return r, err
}

type truncated struct {
	io.ReadCloser
	left int64
}

func (t *truncated) Read(p []byte) (int, error) {
	if t.left == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := t.ReadCloser.Read(p[:min(int64(len(p)), t.left)])
	t.left -= int64(n)
	return n, err
}

// Put implements Bucket.
func (f *Faulty) Put(ctx context.Context, key string, r io.ReadSeeker, size int64) error {
	if err := f.before(ctx, key); err != nil {
		return err
	}
	if f.hit(func(x Faults) float64 { return x.Conflict }) {
		return millstream.Errorf(millstream.Conflict, "injected: object %s exists or was changed", key)
	}
	return f.after(key, f.Bucket.Put(ctx, key, r, size))
}

// Swap implements Bucket.
func (f *Faulty) Swap(ctx context.Context, key string, body []byte, etag string) (string, error) {
	if err := f.before(ctx, key); err != nil {
		return "", err
	}
	tag, err := f.Bucket.Swap(ctx, key, body, etag)
	return tag, f.after(key, err)
}

// Stat implements Bucket.
func (f *Faulty) Stat(ctx context.Context, key string) (Info, error) {
	if err := f.before(ctx, key); err != nil {
		return Info{}, err
	}
	return f.Bucket.Stat(ctx, key)
}

// Delete implements Bucket.
func (f *Faulty) Delete(ctx context.Context, keys ...string) error {
	if err := f.before(ctx, "the deletion"); err != nil {
		return err
	}
	return f.after("the deletion", f.Bucket.Delete(ctx, keys...))
}

// List implements Bucket.
func (f *Faulty) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	if err := f.before(ctx, prefix); err != nil {
		return func(yield func(Info, error) bool) { yield(Info{}, err) }
	}
	return f.Bucket.List(ctx, prefix)
}
