package metrics

import (
	"io"

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
	m, err := newMerger(in, func(s Source) (walker, error) { return walk(s, whole) })
	if err != nil {
		return segment.Info{}, err
	}
	w := newWriter(data, index)
	if readers, ok := readersOf(in); ok {
		w.builder.labels, w.builder.eachLabel = nil, func(add func(label, value string)) error { return mergeLabels(readers, whole, add) }
	}
	var at position // of several inputs
	for m.take() {
		s := &m.same[0].position
		if len(m.same) > 1 || len(s.exemplars) > 0 {
			at.join(m.same)
			s = &at
		}
		s.shared = m.winner.shares()
		if err := w.series(s); err != nil {
			return segment.Info{}, err
		}
		if err := m.pass(); err != nil {
			return segment.Info{}, err
		}
	}
	return w.close()
}

// join makes a series of what several inputs have of it, in the order of writing.
func (p *position) join(same []*input) {
	p.name, p.key, p.chunks, p.exemplars = same[0].name, same[0].key, p.chunks[:0], p.exemplars[:0]
	for _, x := range same {
		p.chunks, p.exemplars = append(p.chunks, x.chunks...), append(p.exemplars, x.exemplars...)
	}
	if len(p.exemplars) > 0 {
		p.exemplars = sortExemplars(p.exemplars)
	}
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
	m, err := newMerger(in, func(r *Reader) (walker, error) { return r.walkLabels(whole) })
	if err != nil {
		return err
	}
	for m.take() {
		add(m.same[0].name, m.same[0].key)
		if err := m.pass(); err != nil {
			return err
		}
	}
	return nil
}
