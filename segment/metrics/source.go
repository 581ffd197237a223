// Package metrics stores samples of metric series: a Head holds what is not flushed yet, Encode and Merge write immutable segments of one Parquet object and
// one index object, and Open reads them. All of them are Sources: queries and SQL see the same series, whatever holds them.
//
// Rows of a segment are sorted by (name, series, time); a row is one chunk, a run of samples of one series. Times are milliseconds since the epoch, as in
// Prometheus. There is one sample per (series, time): of several the one written last is kept, on reading at once and in storage from the next write on.
package metrics

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"github.com/millstream/millstream"
	"github.com/prometheus/prometheus/model/labels"
)

// Source holds series of one organization. It is safe for concurrent use, and what one call returns is never changed by later appends.
type Source interface {
	// Span is the time of the first and the last sample, both included; first > last if there is none.
	Span() (first, last int64)
	// Samples is the number of samples held; duplicates not yet removed count.
	Samples() int64
	// Select returns the series that match, sorted by name and key, with the chunks that overlap the query's time.
	Select(ctx context.Context, q Query) ([]Series, error)
	// LabelNames are the label names of the series that match, sorted. Without matchers it may list a name that only series outside the time have.
	LabelNames(ctx context.Context, q Query) ([]string, error)
	// LabelValues are the values of a label of the series that match, sorted; same exception.
	LabelValues(ctx context.Context, label string, q Query) ([]string, error)
	// Names are the metric names with the number of the series of each, in no order.
	Names() ([]NameCount, error)
	// Exemplars are those of the series that match, by series and then time.
	Exemplars(ctx context.Context, q Query) ([]SeriesExemplars, error)
}

// NameCount is a metric name and the number of its series.
type NameCount struct {
	Name   string
	Series int
}

// Query says which series to read, and for which time.
type Query struct {
	Min, Max int64 // milliseconds, both included
	Matchers []*labels.Matcher
	KeysOnly bool // leave Series.Chunks empty
}

func (q Query) overlaps(first, last int64) bool { return first <= q.Max && last >= q.Min }

// Series is a series and the chunks of it that a source has, in the order in which they were written: where two chunks have a sample of the same time, the
// later chunk's is the one to keep.
type Series struct {
	Name   string
	Key    string // canonical label set, see millstream.EncodeLabels
	Chunks []Chunk
}

// SeriesExemplars are the exemplars of one series, sorted by time. Exemplar.Ref is not used.
type SeriesExemplars struct {
	Key       string
	Exemplars []millstream.Exemplar
}

// Labels converts a canonical label set to Prometheus' form.
func Labels(b *labels.ScratchBuilder, key string) labels.Labels {
	b.Reset()
	millstream.EachLabel(key, func(name, value string) bool {
		b.Add(name, value)
		return true
	})
	return b.Labels()
}

func compareSeries(a, b *Series) int {
	if c := strings.Compare(a.Name, b.Name); c != 0 {
		return c
	}
	return strings.Compare(a.Key, b.Key)
}

// Select reads a query from several sources, given in the order in which they were written, and joins what they have of the same series.
func Select(ctx context.Context, srcs []Source, q Query) ([]Series, error) {
	lists := make([][]Series, 0, len(srcs))
	for _, s := range srcs {
		if first, last := s.Span(); !q.overlaps(first, last) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		list, err := s.Select(ctx, q)
		if err != nil {
			return nil, err
		}
		if len(list) > 0 {
			lists = append(lists, list)
		}
	}
	return MergeSeries(lists), nil
}

// MergeSeries joins sorted lists of series, given in the order in which they were written; it uses the list of lists. They are merged pairwise, so that each series moves log2(lists) times; neighbours are merged so that the order of writing is kept.
func MergeSeries(lists [][]Series) []Series {
	for len(lists) > 1 {
		half := lists[:0]
		for i := 0; i < len(lists); i += 2 {
			if i+1 == len(lists) {
				half = append(half, lists[i])
			} else {
				half = append(half, mergeTwo(lists[i], lists[i+1]))
			}
		}
		lists = half
	}
	if len(lists) == 0 {
		return nil
	}
	return lists[0]
}

func mergeTwo(a, b []Series) []Series {
	out := make([]Series, 0, max(len(a), len(b)))
	for len(a) > 0 && len(b) > 0 {
		switch c := compareSeries(&a[0], &b[0]); {
		case c < 0:
			out, a = append(out, a[0]), a[1:]
		case c > 0:
			out, b = append(out, b[0]), b[1:]
		default:
			s := a[0]
			s.Chunks = append(slices.Clip(s.Chunks), b[0].Chunks...)
			out, a, b = append(out, s), a[1:], b[1:]
		}
	}
	return append(append(out, a...), b...)
}

// MergeTexts joins sorted lists of distinct strings into one.
func MergeTexts(lists [][]string) []string {
	var all []string
	for _, l := range lists {
		all = append(all, l...)
	}
	if len(lists) > 1 {
		slices.Sort(all)
		all = slices.Compact(all)
	}
	return all
}

// LabelNames joins the label names of several sources.
func LabelNames(ctx context.Context, srcs []Source, q Query) ([]string, error) {
	return eachSource(ctx, srcs, q, func(s Source) ([]string, error) { return s.LabelNames(ctx, q) })
}

// LabelValues joins the values of a label of several sources.
func LabelValues(ctx context.Context, srcs []Source, label string, q Query) ([]string, error) {
	return eachSource(ctx, srcs, q, func(s Source) ([]string, error) { return s.LabelValues(ctx, label, q) })
}

func eachSource(ctx context.Context, srcs []Source, q Query, read func(Source) ([]string, error)) ([]string, error) {
	var lists [][]string
	for _, s := range srcs {
		if first, last := s.Span(); !q.overlaps(first, last) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		list, err := read(s)
		if err != nil {
			return nil, err
		}
		lists = append(lists, list)
	}
	return MergeTexts(lists), nil
}

// Exemplars joins the exemplars of several sources, by series and then time; equal ones are given once.
func Exemplars(ctx context.Context, srcs []Source, q Query) ([]SeriesExemplars, error) {
	var lists [][]SeriesExemplars
	for _, s := range srcs {
		list, err := s.Exemplars(ctx, q)
		if err != nil {
			return nil, err
		}
		lists = append(lists, list)
	}
	return MergeExemplars(lists), nil
}

// MergeExemplars joins lists of exemplars as Exemplars does.
func MergeExemplars(lists [][]SeriesExemplars) []SeriesExemplars {
	byKey := map[string]int{}
	var out []SeriesExemplars
	for _, list := range lists {
		for _, e := range list {
			i, ok := byKey[e.Key]
			if !ok {
				i = len(out)
				byKey[e.Key] = i
				out = append(out, SeriesExemplars{Key: e.Key})
			}
			out[i].Exemplars = append(out[i].Exemplars, e.Exemplars...)
		}
	}
	for i := range out {
		out[i].Exemplars = sortExemplars(out[i].Exemplars)
	}
	slices.SortFunc(out, func(a, b SeriesExemplars) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// sortExemplars orders by time and drops repetitions. It keeps the argument as it is.
func sortExemplars(es []millstream.Exemplar) []millstream.Exemplar {
	es = slices.Clone(es)
	slices.SortStableFunc(es, compareExemplars)
	return slices.CompactFunc(es, func(a, b millstream.Exemplar) bool { return compareExemplars(a, b) == 0 })
}

// compareExemplars is a total order, also of values that are not numbers: what is joined in any order is the same.
func compareExemplars(a, b millstream.Exemplar) int {
	return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Value, b.Value), cmp.Compare(math.Float64bits(a.Value), math.Float64bits(b.Value)), strings.Compare(a.Labels, b.Labels))
}
