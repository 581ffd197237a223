package metrics

import (
	"context"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/segment"
)

// Merge reads names in groups, and the series of a large name in ranges of their keys, so that it holds about so many samples, and series of sources, at once. Each
// range walks over the name's keys again: smaller ones would save memory that is not needed.
const (
	mergeSamples = 4 << 20
	mergeSeries  = 256 << 10
)

// Encode writes the head as a segment. Nothing may be appended meanwhile; readers are not disturbed.
func (h *Head) Encode(data, index io.Writer) (segment.Info, error) {
	return Merge(data, index, []Source{h})
}

// Merge writes one segment of several sources, given in the order in which they were written. A sample that is in several is written once. The info's rows are
// samples; it has no fields, since labels are not columns of a segment.
func Merge(data, index io.Writer, in []Source) (segment.Info, error) {
	groups, err := nameGroups(in)
	if err != nil {
		return segment.Info{}, err
	}
	w := newWriter(data, index)
	for _, g := range groups {
		queries, err := g.queries(in)
		if err != nil {
			return segment.Info{}, err
		}
		for _, q := range queries {
			if err := mergeGroup(w, in, q); err != nil {
				return segment.Info{}, err
			}
		}
	}
	return w.close()
}

func mergeGroup(w *writer, in []Source, q Query) error {
	ctx := context.Background()
	series, err := Select(ctx, in, q)
	if err != nil {
		return err
	}
	exemplars, err := Exemplars(ctx, in, q)
	if err != nil {
		return err
	}
	byKey := make(map[string][]millstream.Exemplar, len(exemplars))
	for _, e := range exemplars {
		byKey[e.Key] = e.Exemplars
	}
	series = withExemplarsOnly(series, exemplars)
	for i := range series {
		if err := w.series(&series[i], byKey[series[i].Key]); err != nil {
			return err
		}
		series[i].Chunks = nil
	}
	return nil
}

// withExemplarsOnly adds the series that have exemplars but no samples.
func withExemplarsOnly(series []Series, exemplars []SeriesExemplars) []Series {
	var only []Series
	for _, e := range exemplars {
		s := Series{Name: millstream.LabelValue(e.Key, nameLabel), Key: e.Key}
		if _, found := slices.BinarySearchFunc(series, &s, func(a Series, b *Series) int { return compareSeries(&a, b) }); !found {
			only = append(only, s)
		}
	}
	if len(only) == 0 {
		return series
	}
	slices.SortFunc(only, func(a, b Series) int { return compareSeries(&a, &b) })
	return mergeTwo(series, only)
}

// nameGroup is a range of names, both ends included.
type nameGroup struct {
	from, to string
	series   int // of all sources; one that several have counts for each
	parts    int // to read it in
}

// nameGroups divides the names of all sources into groups that can be held at once. A name that is too large for that is a group of several parts.
func nameGroups(in []Source) ([]nameGroup, error) {
	counts := map[string]int{"": 0} // a series may have no name
	samples, series := int64(0), int64(0)
	for _, s := range in {
		samples += s.Samples()
		names, err := s.Names()
		if err != nil {
			return nil, err
		}
		for _, n := range names {
			counts[n.Name] += n.Series
			series += int64(n.Series)
		}
	}
	most := mergeSeries
	if samples > mergeSamples {
		most = min(most, max(int(series*mergeSamples/samples), 1))
	}
	var out []nameGroup
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		n := counts[name]
		if k := len(out) - 1; k >= 0 && out[k].series+n <= most {
			out[k].to, out[k].series = name, out[k].series+n
			continue
		}
		out = append(out, nameGroup{from: name, to: name, series: n, parts: n/most + 1})
	}
	return out, nil
}

// queries read the group, one part after the other.
func (g *nameGroup) queries(in []Source) ([]Query, error) {
	q := Query{Min: math.MinInt64, Max: math.MaxInt64, from: g.from, to: g.to, bounded: true}
	if g.parts == 1 {
		return []Query{q}, nil
	}
	keys, err := someKeys(in, q)
	if err != nil || len(keys) == 0 {
		return []Query{q}, err
	}
	var out []Query
	for i := 1; i < g.parts; i++ {
		if end := keys[i*len(keys)/g.parts]; q.keys.above == nil || end > *q.keys.above {
			q.keys.upto = &end
			out = append(out, q)
			q.keys = keyRange{above: &end}
		}
	}
	return append(out, q), nil
}

// someKeys is every so-manieth key of each source, sorted: they say how the series of all are spread.
func someKeys(in []Source, q Query) ([]string, error) {
	const every = 64
	var keys []string
	q.KeysOnly = true
	for _, s := range in {
		series, err := s.Select(context.Background(), q)
		if err != nil {
			return nil, err
		}
		for i := every / 2; i < len(series); i += every {
			keys = append(keys, strings.Clone(series[i].Key))
		}
	}
	slices.Sort(keys)
	return keys, nil
}
