package metrics

import (
	"context"
	"slices"
	"strings"

	"github.com/millstream/millstream"
)

// Select implements Source.
func (h *Head) Select(_ context.Context, q Query) ([]Series, error) {
	var out []Series
	var open []unsealed
	h.match(q, func(s *headSeries) {
		switch {
		case !s.overlaps(q):
		case q.KeysOnly:
			out = append(out, Series{Name: s.family.name, Key: s.key})
		default:
			x, u := s.snapshot()
			out, open = append(out, x), append(open, u)
		}
	})
	for i := range open {
		out[i].Chunks = slices.DeleteFunc(open[i].chunks(out[i].Chunks), func(c Chunk) bool { return !q.overlaps(c.Min, c.Max) })
	}
	out = slices.DeleteFunc(out, func(s Series) bool { return !q.KeysOnly && len(s.Chunks) == 0 })
	slices.SortFunc(out, func(a, b Series) int { return compareSeries(&a, &b) })
	return out, nil
}

// Names implements Source.
func (h *Head) Names() ([]NameCount, error) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	out := make([]NameCount, 0, len(h.families))
	for name, fam := range h.families {
		out = append(out, NameCount{name, len(fam.series)})
	}
	return out, nil
}

// match calls f for the series that match, under the read lock.
func (h *Head) match(q Query, f func(*headSeries)) {
	m := compile(q)
	h.mu.RLock()
	defer h.mu.RUnlock()
	visit := func(fam *family) {
		if !m.name(fam.name) {
			return
		}
		for _, s := range fam.series {
			if m.key(s.key) {
				f(s)
			}
		}
	}
	if m.hasName {
		if fam := h.families[m.nameIs]; fam != nil {
			visit(fam)
		}
		return
	}
	for _, fam := range h.families {
		visit(fam)
	}
}

// overlaps says whether the series may have a sample in the query's time.
func (s *headSeries) overlaps(q Query) bool {
	if n := len(s.tail.Times); n > 0 && q.overlaps(s.tail.Times[0], s.tail.Times[n-1]) {
		return true
	}
	for i := range s.chunks {
		if q.overlaps(s.chunks[i].Min, s.chunks[i].Max) {
			return true
		}
	}
	if s.extra == nil {
		return false
	}
	for i := range s.extra.chunks {
		if q.overlaps(s.extra.chunks[i].Min, s.extra.chunks[i].Max) {
			return true
		}
	}
	for i := range s.extra.late {
		if q.overlaps(s.extra.late[i].time, s.extra.late[i].time) {
			return true
		}
	}
	return false
}

// unsealed is what a series has beside its chunks, as it was when a read began.
type unsealed struct {
	tail       run
	lateChunks []Chunk
	late       []lateSample
}

// snapshot gives the series with the chunks of its samples in order, and the rest. Only the slices are copied.
func (s *headSeries) snapshot() (Series, unsealed) {
	u := unsealed{tail: s.tail}
	if s.extra != nil {
		u.lateChunks, u.late = s.extra.chunks, s.extra.late
	}
	return Series{Name: s.family.name, Key: s.key, Chunks: s.chunks}, u
}

// chunks appends the rest of a series to a copy of its chunks, in the order of writing: a sample that came late counts before one in order.
func (u *unsealed) chunks(sealed []Chunk) []Chunk {
	out := make([]Chunk, len(sealed), len(sealed)+1+len(u.lateChunks))
	copy(out, sealed)
	if len(u.tail.Times) > 0 {
		out = appendRun(out, &u.tail)
	}
	out = append(out, u.lateChunks...)
	for _, r := range lateRuns(u.late) {
		out = appendRun(out, r)
	}
	return out
}

// appendRun appends a run to a list of chunks: floats as they are, histograms packed, so that the counter resets among them are known.
func appendRun(dst []Chunk, r *run) []Chunk {
	if r.Hists == nil {
		return append(dst, r.chunk())
	}
	return append(dst, packRun(nil, r)...)
}

// lateRuns sorts samples that came out of order, keeps the last of each time, and gives at most one run of floats and one of histograms.
func lateRuns(late []lateSample) []*run {
	if len(late) == 0 {
		return nil
	}
	late = slices.Clone(late)
	slices.SortStableFunc(late, func(a, b lateSample) int { return compareTimes(a.time, b.time) })
	var floats, hists run
	for i, x := range late {
		if i+1 < len(late) && late[i+1].time == x.time {
			continue
		}
		r := &floats
		if x.hist != nil {
			r = &hists
			r.Hists = append(r.Hists, x.hist)
		} else {
			r.Values = append(r.Values, x.value)
		}
		r.Times, r.Starts = append(r.Times, x.time), append(r.Starts, x.start)
	}
	var out []*run
	for _, r := range []*run{&floats, &hists} {
		if len(r.Times) == 0 {
			continue
		}
		if !slices.ContainsFunc(r.Starts, func(st int64) bool { return st != 0 }) {
			r.Starts = nil
		}
		out = append(out, r)
	}
	return out
}

func compareTimes(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// LabelNames implements Source.
func (h *Head) LabelNames(_ context.Context, q Query) ([]string, error) {
	seen := map[string]struct{}{}
	h.match(q, func(s *headSeries) {
		if s.overlaps(q) {
			millstream.EachLabel(s.key, func(name, _ string) bool {
				seen[name] = struct{}{}
				return true
			})
		}
	})
	return sortedKeys(seen), nil
}

// LabelValues implements Source.
func (h *Head) LabelValues(_ context.Context, label string, q Query) ([]string, error) {
	seen := map[string]struct{}{}
	h.match(q, func(s *headSeries) {
		if s.overlaps(q) {
			if v := millstream.LabelValue(s.key, label); v != "" {
				seen[v] = struct{}{}
			}
		}
	})
	return sortedKeys(seen), nil
}

func sortedKeys(m map[string]struct{}) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// Exemplars implements Source.
func (h *Head) Exemplars(_ context.Context, q Query) ([]SeriesExemplars, error) {
	var out []SeriesExemplars
	h.match(q, func(s *headSeries) {
		if s.extra != nil && len(s.extra.exemplars) > 0 {
			out = append(out, SeriesExemplars{Key: s.key, Exemplars: s.extra.exemplars})
		}
	})
	return exemplarsIn(out, q), nil
}

// exemplarsIn keeps the exemplars of the query's time and sorts.
func exemplarsIn(all []SeriesExemplars, q Query) []SeriesExemplars {
	var out []SeriesExemplars
	for _, s := range all {
		var in []millstream.Exemplar
		for _, e := range s.Exemplars {
			if q.overlaps(e.Time, e.Time) {
				in = append(in, e)
			}
		}
		if len(in) > 0 {
			out = append(out, SeriesExemplars{Key: s.Key, Exemplars: sortExemplars(in)})
		}
	}
	slices.SortFunc(out, func(a, b SeriesExemplars) int { return strings.Compare(a.Key, b.Key) })
	return out
}
