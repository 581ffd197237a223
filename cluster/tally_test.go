package cluster

import (
	"math"
	"testing"
)

func TestTally(t *testing.T) {
	t.Parallel()
	keys := segmentKeys(30_000)
	segments := make([]Timed, len(keys))
	for i, k := range keys {
		segments[i] = Timed{Piece{k, int64(i % 5)}, int64(i%12)*10 - 10} // two of twelve are outside of the grid
	}
	p := NewPlacement(cpus(16, 16, 8))
	tally := NewTally(p, Grid{Start: 0, Width: 20, Columns: 5})
	tally.Add(segments[:10_000])
	tally.Add(segments[10_000:])

	type count struct {
		Cell
		cells [5]Cell
	}
	want := map[string]*count{"A": {}, "B": {}, "C": {}}
	for i, s := range segments {
		n, _ := p.Owner(keys[i])
		w := want[n.ID]
		w.Segments++
		w.Bytes += s.Bytes
		if s.At >= 0 && s.At < 100 {
			w.cells[s.At/20].Segments++
			w.cells[s.At/20].Bytes += s.Bytes
		}
	}
	for i, s := range tally.Shares() {
		w := want[s.ID]
		if s.Segments != w.Segments || s.Bytes != w.Bytes || [5]Cell(tally.Row(i)) != w.cells {
			t.Errorf("%+v %v, want %+v", s, tally.Row(i), w)
		}
		if expected := float64(s.MilliCPU) / 40_000; s.Expected != expected || math.Abs(s.Actual-expected) > .01 || s.Actual != float64(s.Segments)/30_000 {
			t.Errorf("shares of %s: %v expected, %v actual", s.ID, s.Expected, s.Actual)
		}
	}
	if n, bytes := tally.Total(); n != 30_000 || bytes != 60_000 {
		t.Errorf("%d segments, %d bytes", n, bytes)
	}

	nobody := NewTally(NewPlacement(nil), Grid{Start: 0, Width: 20, Columns: 5})
	nobody.Add(segments)
	if n, _ := nobody.Total(); n != 30_000 || len(nobody.Shares()) != 0 {
		t.Errorf("nobody owns %d segments, %v", n, nobody.Shares())
	}
}

func TestGrid(t *testing.T) {
	t.Parallel()
	g := Grid{Start: math.MinInt64 + 1, Width: 1 << 62, Columns: 4}
	for at, want := range map[int64]int{math.MinInt64: -1, math.MinInt64 + 1: 0, 0: 1, 1: 2, math.MaxInt64: 3} {
		if c, ok := g.column(at); ok != (want >= 0) || ok && c != want {
			t.Errorf("column of %d: %d %v, want %d", at, c, ok, want)
		}
	}
	if _, ok := (Grid{}).column(0); ok {
		t.Error("a grid without columns has one")
	}
}
