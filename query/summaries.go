package query

import (
	"container/list"
	"sync"

	"github.com/millstream/millstream"
)

// maxSummaries bounds the bytes of the summaries that are kept.
const maxSummaries = 64 << 20

// summaryKey names a part of a segment as a stream's schema sees it, or all of it.
type summaryKey struct {
	segment millstream.SegmentID
	part    int                // or wholeSegment
	types   [7]millstream.Type // of summaryFields and linkFields
}

// wholeSegment is the part of a key that names all parts.
const wholeSegment = -1

// summaryTypes are the types under which the fields of a summary are read.
func summaryTypes(schema millstream.Schema) (out [7]millstream.Type) {
	for i, name := range summaryFields {
		out[i] = typeOf(schema, name)
	}
	for i, name := range linkFields {
		out[len(summaryFields)+i] = typeOf(schema, name)
	}
	return out
}

func typeOf(schema millstream.Schema, name string) millstream.Type {
	for _, f := range schema.Fields {
		if f.Name == name {
			return f.Type
		}
	}
	return 0
}

// summaries keeps the summaries that were used last, up to a number of bytes. Segments do not change, so a summary is right as long as anyone asks for it; those
// of segments that were merged or deleted are asked for no more. It is safe for concurrent use.
type summaries struct {
	limit int64

	mu    sync.Mutex
	size  int64
	byKey map[summaryKey]*list.Element // of *keptSummary
	used  *list.List                   // the most recently used last
}

type keptSummary struct {
	key summaryKey
	*summary
}

func newSummaries(limit int64) *summaries {
	return &summaries{limit: limit, byKey: map[summaryKey]*list.Element{}, used: list.New()}
}

// get gives a kept summary, with links if edges are asked for; nil if there is none.
func (s *summaries) get(key summaryKey, edges bool) *summary {
	s.mu.Lock()
	defer s.mu.Unlock()
	item := s.byKey[key]
	if item == nil {
		return nil
	}
	found := item.Value.(*keptSummary).summary
	if edges && found.links == nil {
		return nil
	}
	s.used.MoveToBack(item)
	return found
}

// put keeps a summary in place of one with the same key. One that is larger than a quarter of the room is not kept.
func (s *summaries) put(key summaryKey, x *summary) {
	if x.size > s.limit/4 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if item := s.byKey[key]; item != nil {
		if old := item.Value.(*keptSummary).summary; old.links != nil && x.links == nil {
			return
		}
		s.remove(item)
	}
	s.byKey[key] = s.used.PushBack(&keptSummary{key, x})
	s.size += x.size
	for s.size > s.limit {
		s.remove(s.used.Front())
	}
}

func (s *summaries) remove(item *list.Element) {
	x := s.used.Remove(item).(*keptSummary)
	delete(s.byKey, x.key)
	s.size -= x.size
}
