package query

import (
	"fmt"
	"testing"

	"github.com/millstream/millstream"
)

func TestSummariesAreBounded(t *testing.T) {
	s := newSummaries(100)
	key := func(i int) summaryKey {
		return summaryKey{segment: millstream.SegmentID(fmt.Sprint(i)), part: wholeSegment}
	}
	for i := range 4 {
		s.put(key(i), &summary{size: 25})
	}
	s.get(key(0), false)
	s.put(key(4), &summary{size: 20})
	for i, want := range []bool{true, false, true, true, true} {
		if got := s.get(key(i), false) != nil; got != want {
			t.Errorf("summary %d is kept: %v", i, got)
		}
	}
	if s.put(key(5), &summary{size: 26}); s.get(key(5), false) != nil {
		t.Error("one of more than a quarter of the room is kept")
	}
	if s.size != 95 || len(s.byKey) != 4 || s.used.Len() != 4 {
		t.Errorf("%d bytes in %d summaries (%d)", s.size, len(s.byKey), s.used.Len())
	}
}

func TestSummariesPreferLinks(t *testing.T) {
	s := newSummaries(100)
	key := summaryKey{segment: "a"}
	plain, linked := &summary{size: 5}, &summary{size: 9, links: &links{}}
	s.put(key, plain)
	if s.get(key, false) != plain || s.get(key, true) != nil {
		t.Error("a summary without links answers for edges")
	}
	s.put(key, linked)
	s.put(key, plain)
	if s.get(key, false) != linked || s.get(key, true) != linked || s.size != 9 {
		t.Errorf("the one with links was not kept: %d bytes", s.size)
	}
	if other := (summaryKey{segment: "a", types: [7]millstream.Type{millstream.String}}); s.get(other, false) != nil {
		t.Error("a summary answers for other types")
	}
}
