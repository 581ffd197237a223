package metrics

import (
	"io"
	"slices"
	"strings"

	"github.com/millstream/millstream/segment"
)

// Encode writes the head as a segment. Nothing may be appended meanwhile; readers are not disturbed.
func (h *Head) Encode(data, index io.Writer) (segment.Info, error) {
	return Merge(data, index, []Source{h})
}

// Merge writes one segment of several sources, heads and readers, given in the order in which they were written. A sample that is in several is written once. The
// info's rows are samples; it has no fields, since labels are not columns of a segment.
//
// It walks over all sources at once, so that it holds one series, and of each reader some megabytes of the index and one page of chunks.
func Merge(data, index io.Writer, in []Source) (segment.Info, error) {
	return merge(data, index, in, wholeBlock)
}

// merge holds blocks of the index up to a size as a whole.
func merge(data, index io.Writer, in []Source, whole int) (segment.Info, error) {
	var m merger
	for rank, s := range in {
		steps, err := walk(s, whole)
		if err != nil {
			return segment.Info{}, err
		}
		if err := m.advance(&input{steps: steps, rank: rank}); err != nil {
			return segment.Info{}, err
		}
	}
	w := newWriter(data, index)
	if readers, ok := readersOf(in); ok {
		w.builder.labels, w.builder.eachLabel = nil, func(add func(label, value string)) error { return mergeLabels(readers, whole, add) }
	}
	for len(m.open) > 0 {
		if err := m.series(w); err != nil {
			return segment.Info{}, err
		}
	}
	return w.close()
}

// input is one source of a merge and the series on which it stands.
type input struct {
	position
	steps walker
	rank  int // in the order of writing
}

func (x *input) compare(y *input) int {
	if c := x.position.compare(&y.position); c != 0 {
		return c
	}
	return x.rank - y.rank
}

// merger merges walks.
type merger struct {
	open []*input // that are not at their end: the one that stands on the first series is the last
	same []*input // that stand on one series
	at   position // the series with what all of them have
}

// series writes the next series.
func (m *merger) series(w *writer) error {
	first := m.take()
	at := &m.at
	at.name, at.key, at.chunks, at.exemplars = first.name, strings.Clone(first.key), at.chunks[:0], at.exemplars[:0]
	for _, x := range m.same {
		at.chunks, at.exemplars = append(at.chunks, x.chunks...), append(at.exemplars, x.exemplars...)
	}
	if len(at.exemplars) > 0 {
		at.exemplars = sortExemplars(at.exemplars)
	}
	if err := w.series(at); err != nil {
		return err
	}
	return m.pass()
}

// take moves the inputs that stand on the first series from the open ones to same, in the order of writing.
func (m *merger) take() (first *input) {
	n := len(m.open) - 1
	first = m.open[n]
	m.same = append(m.same[:0], first)
	for n > 0 && m.open[n-1].key == first.key && m.open[n-1].name == first.name {
		n--
		m.same = append(m.same, m.open[n])
	}
	m.open = m.open[:n]
	return first
}

// pass goes on from the series that was taken.
func (m *merger) pass() error {
	for _, x := range slices.Backward(m.same) {
		if err := m.advance(x); err != nil {
			return err
		}
	}
	return nil
}

// advance moves an input that is not among the open ones to its next series, and puts it among them. Where sources have the same series, or each has a stretch of its
// own, its place is near the end; so it is looked for from there, in steps that double.
func (m *merger) advance(x *input) error {
	ok, err := x.steps.next(&x.position)
	if !ok || err != nil {
		return err
	}
	hi, step := len(m.open), 1
	lo := hi - step
	for lo >= 0 && x.compare(m.open[lo]) > 0 {
		hi, step = lo, 2*step
		lo -= step
	}
	lo = max(lo, 0)
	k, _ := slices.BinarySearchFunc(m.open[lo:hi], x, func(y, x *input) int { return x.compare(y) })
	m.open = slices.Insert(m.open, lo+k, x)
	return nil
}

func readersOf(in []Source) ([]*Reader, bool) {
	var out []*Reader
	for _, s := range in {
		r, ok := s.(*Reader)
		if !ok {
			return nil, false
		}
		out = append(out, r)
	}
	return out, true
}

// mergeLabels calls add for each label of some segments and each of its values, in order. Every series of theirs is in what they are merged to, so its labels are
// theirs: no series has to be asked, of which a new one has a value that no other has.
func mergeLabels(in []*Reader, whole int, add func(label, value string)) error {
	var m merger
	for rank, r := range in {
		steps, err := r.walkLabels(whole)
		if err != nil {
			return err
		}
		if err := m.advance(&input{steps: steps, rank: rank}); err != nil {
			return err
		}
	}
	for len(m.open) > 0 {
		first := m.take()
		add(first.name, first.key)
		if err := m.pass(); err != nil {
			return err
		}
	}
	return nil
}
