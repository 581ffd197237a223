package metrics

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/millstream/millstream"
)

// listWalk walks over a sorted list of names and keys as a reader does: what it gives is overwritten by the next call.
type listWalk struct {
	list [][2]string
	last [2]string
	key  []byte
}

func (w *listWalk) next(p *position) (bool, error) {
	if len(w.list) == 0 {
		return false, nil
	}
	s := w.list[0]
	p.shared = otherName
	if len(w.key) > 0 && w.last[0] == s[0] {
		p.shared = sharedPrefix(w.last[1], s[1])
	}
	w.key = append(w.key[:0], s[1]...)
	w.key = append(w.key, '.')
	p.name, p.key = s[0], stringOf(w.key[:len(s[1])])
	w.list, w.last = w.list[1:], s
	return true, nil
}

func compareTexts(a, b [2]string) int {
	return cmp.Or(strings.Compare(a[0], b[0]), strings.Compare(a[1], b[1]))
}

// A merge of random lists gives each series once, in order, with the inputs that have it, in theirs. Keys are made of few different bytes, so that they share much, and
// some are the beginning of others.
func TestTournament(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for round := range 400 {
		names := []string{"", "a", "a\x00", "b", "b\xff"}[:1+r.IntN(5)]
		in := make([][][2]string, 1+r.IntN(40))
		want := map[[2]string][]int{}
		for i := range in {
			for range r.IntN(60) {
				var key strings.Builder
				for range r.IntN(14) {
					key.WriteByte("\x00aaaaab\xff"[r.IntN(8)])
				}
				in[i] = append(in[i], [2]string{names[r.IntN(len(names))], key.String()})
			}
			slices.SortFunc(in[i], compareTexts)
			in[i] = slices.Compact(in[i])
			for _, s := range in[i] {
				want[s] = append(want[s], i)
			}
		}
		m, err := newMerger(in, func(l [][2]string) (walker, error) { return &listWalk{list: l}, nil })
		if err != nil {
			t.Fatal(err)
		}
		first := len(m.losers) // leaf
		got, last := 0, [2]string{}
		for m.take() {
			at := [2]string{m.same[0].name, strings.Clone(m.same[0].key)}
			if got > 0 && compareTexts(last, at) >= 0 {
				t.Fatalf("round %d: %q after %q", round, at, last)
			}
			var from []int
			for _, x := range m.same {
				if x.name != at[0] || x.key != at[1] {
					t.Fatalf("round %d: %q with %q", round, x.key, at)
				}
				from = append(from, x.leaf-first)
			}
			if !slices.Equal(from, want[at]) {
				t.Fatalf("round %d: %q is of %d, want %d", round, at, from, want[at])
			}
			got, last = got+1, at
			if err := m.pass(); err != nil {
				t.Fatal(err)
			}
		}
		if got != len(want) {
			t.Fatalf("round %d: %d series of %d", round, got, len(want))
		}
	}
}

func TestSharedPrefix(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	for range 2000 {
		a, b := make([]byte, r.IntN(40)), make([]byte, r.IntN(40))
		same := copy(b, a)
		if same > 0 && r.IntN(2) == 0 {
			same = r.IntN(same)
			b[same] ^= 1 << r.IntN(8)
		}
		if got := sharedPrefix(string(a), string(b)); got != same {
			t.Fatalf("%x and %x share %d, want %d", a, b, got, same)
		}
	}
	if fmt.Sprint(sharedPrefix("", "x"), sharedPrefix("x", "")) != "0 0" {
		t.Error("what is empty shares something")
	}
}

// A series without rows is not in the index, and the next one, which is told what it shares with it, is written after the one before.
func TestSeriesWithoutRows(t *testing.T) {
	var e encoder
	chunk := []Chunk{packFloats(&e, &run{Times: []int64{1}, Values: []float64{2}})}
	key := func(pod string) string {
		k, err := millstream.EncodeLabels(nil, []millstream.Label{{Name: "__name__", Value: "a"}, {Name: "pod", Value: pod}})
		if err != nil {
			t.Fatal(err)
		}
		return string(k)
	}
	keys := []string{key("wide"), key("worker-17"), key("worker-18"), key("worker-19")}
	var data, index bytes.Buffer
	w := newWriter(&data, &index)
	last := ""
	for i, k := range keys {
		p := position{name: "a", key: k, shared: otherName}
		if i > 0 {
			p.shared = sharedPrefix(last, k)
		}
		if i != 1 && i != 2 {
			p.chunks = chunk
		}
		if err := w.series(&p); err != nil {
			t.Fatal(err)
		}
		last = k
	}
	if _, err := w.close(); err != nil {
		t.Fatal(err)
	}
	series, err := open(t, data.Bytes(), index.Bytes()).Select(t.Context(), everything)
	if err != nil || len(series) != 2 || series[0].Key != keys[0] || series[1].Key != keys[3] {
		t.Errorf("%+v, %v", series, err)
	}
}
