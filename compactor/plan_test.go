package compactor

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/store"
)

const mib = int64(1 << 20)

var noon = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

// candidate is a segment of a minute that ends at a time.
func candidate(id string, level int, size int64, end time.Time, age time.Duration) store.Candidate {
	return store.Candidate{Segment: millstream.Segment{
		ID: millstream.SegmentID(id), Level: level, Signal: millstream.Logs, MinTime: end.Add(-time.Minute).UnixNano(), MaxTime: end.UnixNano(), Written: noon.Add(-age).UnixNano(),
		Data: millstream.Extent{Length: size},
	}, Age: age}
}

func several(n int, f func(i int) store.Candidate) (out []store.Candidate) {
	for i := range n {
		out = append(out, f(i))
	}
	return out
}

func ids(g Group) (out []string) {
	for _, c := range g.Inputs {
		out = append(out, string(c.ID))
	}
	return out
}

func TestPlan(t *testing.T) {
	flush := func(i int) store.Candidate {
		return candidate(fmt.Sprint("f", i), flushed, mib, noon, time.Duration(30*(10-i))*time.Second)
	}
	for name, c := range map[string]struct {
		in     []store.Candidate
		groups []int // inputs of each
		levels []int
	}{
		"nothing":                            {},
		"one segment stays":                  {in: several(1, flush)},
		"four new ones are merged":           {in: several(4, func(i int) store.Candidate { return candidate(fmt.Sprint(i), flushed, mib, noon, time.Second) }), groups: []int{4}, levels: []int{young}},
		"three new ones wait":                {in: several(3, func(i int) store.Candidate { return candidate(fmt.Sprint(i), flushed, mib, noon, time.Second) })},
		"two that have waited are merged":    {in: several(2, flush), groups: []int{2}, levels: []int{young}},
		"a large one is left alone":          {in: append(several(1, flush), candidate("big", flushed, 300*mib, noon, time.Hour))},
		"young ones wait for company":        {in: several(20, func(i int) store.Candidate { return candidate(fmt.Sprint(i), young, mib, noon, time.Hour) })},
		"many young ones are merged":         {in: several(64, func(i int) store.Candidate { return candidate(fmt.Sprint(i), young, mib, noon, time.Hour) }), groups: []int{64}, levels: []int{grown}},
		"young ones that fill a segment are": {in: several(6, func(i int) store.Candidate { return candidate(fmt.Sprint(i), young, 100*mib, noon, time.Hour) }), groups: []int{6}, levels: []int{grown}},
		"a day that is over is merged": {in: several(5, func(i int) store.Candidate {
			return candidate(fmt.Sprint(i), young, mib, noon.Add(-24*time.Hour), time.Hour)
		}), groups: []int{5}, levels: []int{grown}},
		"grown ones are done": {in: several(500, func(i int) store.Candidate {
			return candidate(fmt.Sprint(i), grown, mib, noon.Add(-72*time.Hour), time.Hour)
		})},
		"days are not mixed": {in: append(several(2, flush), candidate("old", flushed, mib, noon.Add(-24*time.Hour), time.Hour)), groups: []int{2}, levels: []int{young}},
		"a day's last flush joins the others": {in: append(several(2, func(i int) store.Candidate {
			return candidate(fmt.Sprint(i), young, mib, noon.Add(-24*time.Hour), time.Hour)
		}), candidate("late", flushed, mib, noon.Add(-24*time.Hour), time.Second)), groups: []int{3}, levels: []int{grown}},
	} {
		t.Run(name, func(t *testing.T) {
			var groups, levels []int
			for _, g := range Plan(c.in, noon, 512*mib) {
				groups, levels = append(groups, len(g.Inputs)), append(levels, g.Level)
			}
			if !slices.Equal(groups, c.groups) || !slices.Equal(levels, c.levels) {
				t.Fatalf("groups of %v at levels %v, want %v at %v", groups, levels, c.groups, c.levels)
			}
		})
	}
}

// A sample that was sent twice keeps its last value: a merge must not jump over a segment that was written in between and holds the same time.
func TestPlanKeepsTheOrderOfWritingOfMetrics(t *testing.T) {
	at := func(id string, age time.Duration, end time.Time) store.Candidate {
		c := candidate(id, flushed, mib, end, age)
		c.Signal = millstream.Metrics
		return c
	}
	over := at("late", 5*time.Minute, noon.Add(-12*time.Hour)) // of the day before and of this one: another partition
	over.MinTime, over.MaxTime = noon.Add(-20*time.Hour).UnixNano(), noon.Add(20*time.Hour).UnixNano()
	over.Level = grown // so that it stays
	in := []store.Candidate{at("a", 8*time.Minute, noon), at("b", 7*time.Minute, noon), over, at("c", 3*time.Minute, noon), at("d", 2*time.Minute, noon)}
	groups := Plan(in, noon, 512*mib)
	if len(groups) != 2 || !slices.Equal(ids(groups[0]), []string{"a", "b"}) || !slices.Equal(ids(groups[1]), []string{"c", "d"}) {
		t.Fatalf("groups %v, want [a b] and [c d]: late was written between", groups)
	}
}

// A simulated stream: whatever comes in, no byte is written more than three times, and few segments stay.
func TestWriteAmplification(t *testing.T) {
	for _, size := range []int64{1 << 10, 1 << 20, 40 << 20} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, uint64(size)))
			var live []store.Candidate
			var in, written int64
			n, most := 0, 0
			begin := noon.Add(-60 * time.Hour).Truncate(time.Hour)
			for now := begin; now.Before(noon); now = now.Add(30 * time.Second) {
				n++
				c := candidate(fmt.Sprint(n), flushed, size/2+rng.Int64N(size), now, 0)
				in, written = in+c.Bytes(), written+c.Bytes()
				live = append(live, c)
				for i := range live {
					live[i].Age = now.Sub(time.Unix(0, live[i].MaxTime))
				}
				if n%2 == 1 { // a round a minute
					continue
				}
				for _, g := range Plan(live, now, 512*mib) {
					gone := map[millstream.SegmentID]bool{}
					out := candidate(fmt.Sprint("m", n, g.Inputs[0].ID), g.Level, g.Bytes(), now, 0)
					out.MinTime, out.MaxTime = g.Inputs[0].MinTime, 0
					for _, x := range g.Inputs {
						gone[x.ID] = true
						out.MinTime, out.MaxTime = min(out.MinTime, x.MinTime), max(out.MaxTime, x.MaxTime)
					}
					written += out.Bytes()
					live = append(slices.DeleteFunc(live, func(c store.Candidate) bool { return gone[c.ID] }), out)
				}
				most = max(most, len(live))
			}
			if factor := float64(written) / float64(in); factor > 3 {
				t.Errorf("each byte is written %.2f times, at most 3", factor)
			}
			if limit := 200 + int(in/(256*mib)); most > limit {
				t.Errorf("%d segments at a time of %d flushes, more than %d", most, n, limit)
			}
			t.Logf("%d flushes: %.2f writes a byte, %d segments at most, %d at the end", n, float64(written)/float64(in), most, len(live))
		})
	}
}
