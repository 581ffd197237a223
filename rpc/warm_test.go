package rpc

import (
	"context"
	"testing"

	"github.com/millstream/millstream"
)

// fakeWarmer answers and keeps what it was offered.
type fakeWarmer struct {
	accept bool
	err    error
	got    millstream.Segment
}

func (f *fakeWarmer) Push(_ context.Context, s millstream.Segment) (bool, error) {
	f.got = s
	return f.accept, f.err
}

func TestPush(t *testing.T) {
	s := millstream.Segment{
		ID: "segment", Org: "org", Stream: "stream", Signal: millstream.Traces,
		Data:  millstream.Extent{Key: "a/b", Offset: 17, Length: 1 << 33, Checksum: "abc"},
		Index: millstream.Extent{Key: "c/d", Length: 12, Checksum: "def"},
	}
	for name, f := range map[string]*fakeWarmer{
		"accepted": {accept: true},
		"declined": {},
		"failed":   {err: millstream.Errorf(millstream.Unavailable, "the disk is full")},
	} {
		c := connect(t, &Server{Cache: f})
		accepted, err := c.Push(t.Context(), s)
		if accepted != f.accept || millstream.KindOf(err) != millstream.KindOf(f.err) || (err == nil) != (f.err == nil) {
			t.Errorf("%s: %v, %v", name, accepted, err)
		}
		if f.got != s {
			t.Errorf("%s: offered %+v, arrived %+v", name, s, f.got)
		}
	}
	if accepted, err := connect(t, &Server{}).Push(t.Context(), s); accepted || millstream.KindOf(err) != millstream.Unavailable {
		t.Errorf("a node without a cache: %v, %v", accepted, err)
	}
}
