package compactor

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/store"
)

// Levels of segments. A byte is written once by its flush, once by the nursery and once by the janitor: the write amplification is at most three.
const (
	flushed = 0 // as an intake published it
	young   = 1 // of the nursery
	grown   = 2 // of the janitor, or large from the start: left alone
)

// When merges are due.
const (
	nurseryFan   = 4                // flushed segments that are merged at once
	nurseryAge   = 90 * time.Second // after which fewer are, so that a stream that trickles has few segments too
	janitorFan   = 64               // young segments that are merged although they are far from the target
	maxInputs    = 128              // of one merge
	dayLength    = int64(24 * time.Hour)
	dayGrace     = 30 * time.Minute // after its end, what a day has left is merged
	largeEnough  = 2                // a segment of target/largeEnough bytes is not merged further
	groupSurplus = 4                // a merge may pass the target by a quarter of it
)

// Group is segments of one stream to be merged into one of a level.
type Group struct {
	Inputs  []store.Candidate
	Level   int
	Indexed []string // fields of which the stream wants filters
}

// Bytes is how much the group's objects hold.
func (g *Group) Bytes() (n int64) {
	for i := range g.Inputs {
		n += g.Inputs[i].Bytes()
	}
	return n
}

// Plan chooses what of a stream's live segments to merge. Only segments whose last records are of the same day (UTC) are merged, so that retention and time ranges
// stay sharp; those that span more than a day, as late records make them, only among themselves, but for metrics: see joinWide. Groups are independent; those of the
// nursery come first.
func Plan(all []store.Candidate, now time.Time, target int64) []Group {
	ofMetrics := len(all) > 0 && all[0].Signal == millstream.Metrics
	days := map[int64][]store.Candidate{}
	for _, c := range all {
		if !c.Kept && level(&c, target) < grown {
			days[dayOf(&c)] = append(days[dayOf(&c)], c)
		}
	}
	if ofMetrics {
		joinWide(days)
	}
	keys := make([]int64, 0, len(days))
	for d := range days {
		keys = append(keys, d)
	}
	slices.SortFunc(keys, func(a, b int64) int { return cmp.Compare(b, a) }) // newest first
	var nursery, janitor []Group
	for _, d := range keys {
		over := d != wide && now.UnixNano() > (d+1)*dayLength+int64(dayGrace)
		nursery = append(nursery, dueFlushed(days[d], target)...)
		janitor = append(janitor, dueYoung(days[d], target, over)...)
	}
	groups := append(nursery, janitor...)
	if ofMetrics {
		groups = inWriteOrder(groups, all)
	}
	return groups
}

// byWritten is the order of writing.
func byWritten(a, b store.Candidate) int {
	return cmp.Or(cmp.Compare(a.Written, b.Written), cmp.Compare(a.ID, b.ID))
}

// joinWide puts days of metrics that wide segments were written in the midst of, and those, into one: the newest of them. A merge may not jump over what was written
// between its inputs, so by themselves neither could be merged: one sender whose clock is wrong makes every flush of its intake wide, between those of the other intakes.
func joinWide(days map[int64][]store.Candidate) {
	newest := int64(wide)
	for joined := true; joined; {
		joined = false
		for d, in := range days {
			if d != wide && (amid(in, days[wide]) || amid(days[wide], in)) {
				days[wide] = append(days[wide], in...)
				delete(days, d)
				newest, joined = max(newest, d), true
			}
		}
	}
	if newest != wide {
		days[newest] = days[wide]
		delete(days, wide)
	}
}

// amid says whether one of some segments was written while others were, and may hold samples of the same times.
func amid(some, others []store.Candidate) bool {
	if len(others) == 0 {
		return false
	}
	first, last := slices.MinFunc(others, byWritten).Written, slices.MaxFunc(others, byWritten).Written
	all := spanOf(others)
	return slices.ContainsFunc(some, func(x store.Candidate) bool {
		return x.Written >= first && x.Written <= last && all.Overlaps(x.MinTime, x.MaxTime)
	})
}

func spanOf(in []store.Candidate) millstream.TimeRange {
	span := millstream.TimeRange{Start: math.MaxInt64, End: math.MinInt64}
	for i := range in {
		span.Start, span.End = min(span.Start, in[i].MinTime), max(span.End, in[i].MaxTime+1)
	}
	return span
}

// inWriteOrder makes groups of metric segments keep which sample was written last: a merged segment counts as written when its newest input was, so no segment
// outside of a group that was written between its inputs may hold samples of the same time. A group is cut where one does.
func inWriteOrder(groups []Group, all []store.Candidate) (out []Group) {
	all = slices.SortedFunc(slices.Values(all), byWritten)
	for _, g := range groups {
		slices.SortFunc(g.Inputs, byWritten)
		in := map[millstream.SegmentID]bool{}
		for i := range g.Inputs {
			in[g.Inputs[i].ID] = true
		}
		span := spanOf(g.Inputs)
		between := func(a, b *store.Candidate) bool {
			i, _ := slices.BinarySearchFunc(all, a.Written, func(x store.Candidate, written int64) int { return cmp.Compare(x.Written, written) })
			for ; i < len(all) && all[i].Written <= b.Written; i++ {
				if x := &all[i]; !in[x.ID] && span.Overlaps(x.MinTime, x.MaxTime) {
					return true
				}
			}
			return false
		}
		start := 0
		for i := 1; i <= len(g.Inputs); i++ {
			if i < len(g.Inputs) && !between(&g.Inputs[i-1], &g.Inputs[i]) {
				continue
			}
			if i-start > 1 {
				out = append(out, Group{Inputs: g.Inputs[start:i], Level: g.Level})
			}
			start = i
		}
	}
	return out
}

// wide is the day of segments that span more than one.
const wide = -1 << 62

func dayOf(c *store.Candidate) int64 {
	if c.MaxTime-c.MinTime > dayLength {
		return wide
	}
	return floorDiv(c.MaxTime, dayLength)
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// level is a segment's, but a large one counts as grown: writing it again gains nothing.
func level(c *store.Candidate, target int64) int {
	if c.Bytes() >= target/largeEnough {
		return grown
	}
	return c.Level
}

// dueFlushed groups a day's flushed segments, in order of publish, when there are enough or they have waited long enough.
func dueFlushed(day []store.Candidate, target int64) []Group {
	in := ofLevel(day, flushed, target)
	slices.SortStableFunc(in, func(a, b store.Candidate) int { return cmp.Compare(b.Age, a.Age) })
	var out []Group
	for _, g := range cut(in, target) {
		if len(g) >= nurseryFan || len(g) > 1 && g[0].Age >= nurseryAge {
			out = append(out, Group{Inputs: g, Level: young})
		}
	}
	return out
}

// dueYoung groups a day's young segments by time, those of metrics by that of writing: those that fill a segment, or are many, or all when the day is over.
func dueYoung(day []store.Candidate, target int64, over bool) []Group {
	in := ofLevel(day, young, target)
	if over {
		left := ofLevel(day, flushed, target)
		if len(left) > 1 {
			return nil // the nursery comes first
		}
		in = append(in, left...) // a single one, which the nursery has nothing to merge with
	}
	slices.SortFunc(in, func(a, b store.Candidate) int {
		if a.Signal == millstream.Metrics {
			return byWritten(a, b)
		}
		return cmp.Or(cmp.Compare(a.MinTime, b.MinTime), cmp.Compare(a.ID, b.ID))
	})
	var out []Group
	for _, g := range cut(in, target) {
		full := (&Group{Inputs: g}).Bytes() >= target
		if len(g) > 1 && (full || over || len(g) >= janitorFan) {
			out = append(out, Group{Inputs: g, Level: grown})
		}
	}
	return out
}

func ofLevel(day []store.Candidate, want int, target int64) (out []store.Candidate) {
	for i := range day {
		if level(&day[i], target) == want {
			out = append(out, day[i])
		}
	}
	return out
}

// cut divides segments, in order, into groups of about the target size.
func cut(in []store.Candidate, target int64) (out [][]store.Candidate) {
	var g []store.Candidate
	size := int64(0)
	for _, c := range in {
		if len(g) > 0 && (size+c.Bytes() > target+target/groupSurplus || size >= target || len(g) == maxInputs) {
			out, g, size = append(out, g), nil, 0
		}
		g = append(g, c)
		size += c.Bytes()
	}
	if len(g) > 0 {
		out = append(out, g)
	}
	return out
}
