package query

import (
	"testing"

	"github.com/millstream/millstream"
)

// TestPatternSample: of a hundred records every tenth is looked at, and the counts are estimates for all.
func TestPatternSample(t *testing.T) {
	c := newPatternCount(millstream.TimeRange{Start: 0, End: 100})
	for at := 0; at < 100; at += 25 { // blocks need not be multiples of the stride
		r := &Rows{N: 25, Columns: []millstream.Column{{Type: millstream.Timestamp}, {Type: millstream.String, Offsets: []uint32{0}}, {Type: millstream.String, Codes: make([]uint32, 25), Dict: []string{"info"}}}}
		for i := range 25 {
			r.Columns[0].Ints = append(r.Columns[0].Ints, int64(at+i))
			r.Columns[1].Bytes = append(r.Columns[1].Bytes, "a 1"...)
			r.Columns[1].Offsets = append(r.Columns[1].Offsets, uint32(len(r.Columns[1].Bytes)))
		}
		c.take(r, int64(at), 10)
		c.total += 25
	}
	got := c.result(PatternSearch{Limit: 5}, nil, &Answer{})
	if !got.Sampled || got.Scanned != 10 || got.Total != 100 {
		t.Fatalf("%+v", got)
	}
	p := got.Patterns[0]
	sum := int64(0)
	for _, n := range p.Counts {
		sum += n
	}
	if p.Pattern != "a <num>" || p.Count != 100 || p.Share != 1 || sum != 100 || p.Levels["info"] != 100 {
		t.Errorf("%+v", p)
	}
}
