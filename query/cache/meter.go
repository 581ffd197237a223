package cache

import "sync/atomic"

// Meter tells what is fetched of a segment while a handle is held, by whomever. It holds no data and no files, so it can be kept after the release.
type Meter struct {
	count *atomic.Int64 // bytes, since the segment came into the cache: a stay that ends with its eviction
	began int64         // of them, those before
	ended atomic.Int64  // the count at the release, and one more; 0: the handle is held
}

func newMeter(count *atomic.Int64) *Meter { return &Meter{count: count, began: count.Load()} }

func (m *Meter) end() { m.ended.Store(m.count.Load() + 1) }

func (m *Meter) now() int64 {
	if n := m.ended.Load(); n > 0 {
		return n - 1
	}
	return m.count.Load()
}

// Stay is a meter of the segment's whole stay in the cache, up to now.
func (m *Meter) Stay() *Meter {
	s := &Meter{count: m.count}
	s.end()
	return s
}

// Fetched is how many bytes were fetched of one segment from the first of its handles to the last. What came while two were held counts once; what was evicted
// and came again counts twice.
func Fetched(meters ...*Meter) (n int64) {
	type span struct{ from, to int64 }
	stays := map[*atomic.Int64]span{}
	for _, m := range meters {
		s, ok := stays[m.count]
		if !ok {
			s.from = m.began
		}
		stays[m.count] = span{min(s.from, m.began), max(s.to, m.now())}
	}
	for _, s := range stays {
		n += s.to - s.from
	}
	return n
}
