package compactor

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/store"
)

// A sender whose clock is wrong makes each flush of its intake span days, between the flushes of others. Merges may not jump over them, so they must take them along:
// else nothing of the stream is ever merged again.
func TestPlanMergesInterleavedMetrics(t *testing.T) {
	for name, off := range map[string]time.Duration{"two days late": -48 * time.Hour, "ten days ahead": 240 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			var live []store.Candidate
			var in, written int64
			n, most := 0, 0
			for now := noon.Add(-36 * time.Hour); now.Before(noon); now = now.Add(15 * time.Second) {
				n++
				c := candidate(fmt.Sprintf("%09d", n), flushed, mib/4, now, 0)
				c.Signal, c.Written = millstream.Metrics, now.UnixNano()
				if n%2 == 0 {
					c.MinTime, c.MaxTime = min(c.MinTime, now.Add(off).UnixNano()), max(c.MaxTime, now.Add(off).UnixNano())
				}
				in, written = in+c.Bytes(), written+c.Bytes()
				live = append(live, c)
				if n%4 > 0 { // a round a minute
					continue
				}
				for i := range live {
					live[i].Age = now.Sub(time.Unix(0, live[i].Written))
				}
				groups := Plan(live, now, 512*mib)
				wantInWriteOrder(t, groups, live)
				for _, g := range groups {
					out := merged(&g)
					written += out.Bytes()
					live = append(slices.DeleteFunc(live, func(c store.Candidate) bool {
						return slices.ContainsFunc(g.Inputs, func(x store.Candidate) bool { return x.ID == c.ID })
					}), out)
				}
				most = max(most, len(live))
			}
			if most > 200 {
				t.Errorf("%d segments at a time of %d flushes", most, n)
			}
			if factor := float64(written) / float64(in); factor > 3 {
				t.Errorf("each byte is written %.2f times, at most 3", factor)
			}
			t.Logf("%d flushes: %.2f writes a byte, %d segments at most, %d at the end", n, float64(written)/float64(in), most, len(live))
		})
	}
}

// merged is the segment that a group becomes.
func merged(g *Group) store.Candidate {
	out := store.Candidate{Segment: millstream.Segment{ID: "m" + g.Inputs[0].ID, Level: g.Level, Signal: g.Inputs[0].Signal, MinTime: math.MaxInt64, MaxTime: math.MinInt64}}
	out.Data.Length = g.Bytes()
	for _, x := range g.Inputs {
		out.MinTime, out.MaxTime, out.Written = min(out.MinTime, x.MinTime), max(out.MaxTime, x.MaxTime), max(out.Written, x.Written)
	}
	return out
}

// wantInWriteOrder checks that no group jumps over a segment that was written between its inputs and may hold the same samples, and that groups share no input.
func wantInWriteOrder(t *testing.T, groups []Group, all []store.Candidate) {
	t.Helper()
	seen := map[millstream.SegmentID]bool{}
	for _, g := range groups {
		in := map[millstream.SegmentID]bool{}
		for _, c := range g.Inputs {
			if seen[c.ID] {
				t.Fatalf("segment %s is in two groups", c.ID)
			}
			seen[c.ID], in[c.ID] = true, true
		}
		out := merged(&g)
		first := slices.MinFunc(g.Inputs, func(a, b store.Candidate) int { return cmp.Compare(a.Written, b.Written) }).Written
		for _, x := range all {
			if !in[x.ID] && x.Written >= first && x.Written <= out.Written && x.MinTime <= out.MaxTime && x.MaxTime >= out.MinTime {
				t.Fatalf("a merge of %d segments jumps over %s", len(g.Inputs), x.ID)
			}
		}
	}
}
