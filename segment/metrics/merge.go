package metrics

import (
	"context"
	"io"
	"math"
	"slices"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/segment"
)

// mergeSamples is about how many samples Merge holds at once: it reads the names in groups.
const mergeSamples = 4 << 20

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
		q := Query{Min: math.MinInt64, Max: math.MaxInt64, from: g.from, to: g.to, bounded: true}
		if err := mergeGroup(w, in, q); err != nil {
			return segment.Info{}, err
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
type nameGroup struct{ from, to string }

// nameGroups divides the names of all sources so that a group has about mergeSamples samples.
func nameGroups(in []Source) ([]nameGroup, error) {
	total, all := int64(0), []string{""} // a series may have no name
	for _, s := range in {
		total += s.Samples()
		names, err := s.LabelValues(context.Background(), nameLabel, Query{Min: math.MinInt64, Max: math.MaxInt64})
		if err != nil {
			return nil, err
		}
		all = append(all, names...)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	parts := int(total/mergeSamples) + 1
	size := (len(all) + parts - 1) / parts
	var out []nameGroup
	for names := range slices.Chunk(all, max(size, 1)) {
		out = append(out, nameGroup{names[0], names[len(names)-1]})
	}
	return out, nil
}
