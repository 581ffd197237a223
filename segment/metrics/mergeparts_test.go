package metrics

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"
	"testing"

	"github.com/millstream/millstream"
)

// partsHead has series of two names, one of which many merges must divide.
func partsHead(t *testing.T, first, n int) *Head {
	t.Helper()
	s := &millstream.Samples{}
	for i := range n {
		for _, name := range []string{"a", "large", "z"} {
			if name != "large" && i%100 != 0 {
				continue
			}
			key, err := millstream.EncodeLabels(nil, []millstream.Label{{Name: "__name__", Value: name}, {Name: "pod", Value: fmt.Sprint(first + i)}})
			if err != nil {
				t.Fatal(err)
			}
			s.Ref = append(s.Ref, uint32(len(s.Series)))
			s.Series, s.Time, s.Value = append(s.Series, string(key)), append(s.Time, int64(1000+first)), append(s.Value, float64(i))
		}
	}
	h := NewHead()
	if _, err := h.Append(s); err != nil {
		t.Fatal(err)
	}
	return h
}

// wholeInParts has all but the smallest blocks read in parts, and most parts end within a series.
const wholeInParts = 1 << 10

// A merge that reads the index of its sources in parts, each less than a name's and many times more than a series', writes what one that holds all of it does.
func TestMergeInParts(t *testing.T) {
	in := []Source{encode(t, partsHead(t, 0, 3000)), encode(t, partsHead(t, 1500, 3000)), partsHead(t, 2000, 500)}
	var whole, parts, wholeIndex, partsIndex bytes.Buffer
	if _, err := merge(&whole, &wholeIndex, in, math.MaxInt); err != nil {
		t.Fatal(err)
	}
	large := 0
	for _, s := range in[:2] {
		for _, e := range s.(*Reader).blocks {
			if e.raw > wholeInParts {
				large++
			}
		}
	}
	if large < 2 {
		t.Fatalf("%d blocks are larger than a part", large)
	}
	if _, err := merge(&parts, &partsIndex, in, wholeInParts); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(parts.Bytes(), whole.Bytes()) || !bytes.Equal(partsIndex.Bytes(), wholeIndex.Bytes()) {
		t.Error("a merge in parts wrote other bytes")
	}
	r := open(t, parts.Bytes(), partsIndex.Bytes())
	series, err := r.Select(t.Context(), everything)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.IsSortedFunc(series, func(a, b Series) int { return compareSeries(&a, &b) }) {
		t.Error("the series are not in order")
	}
	count := map[string]int{}
	for i := range series {
		count[series[i].Name]++
	}
	if count["large"] != 4500 || count["a"] != 45 || count["z"] != 45 {
		t.Errorf("series by name: %v", count)
	}
}

// The labels of merged segments are taken from theirs, and are those of the merged series: as the index is that is made of those anew.
func TestMergeLabels(t *testing.T) {
	other := NewHead()
	s := &millstream.Samples{Ref: []uint32{0, 1}, Time: []int64{5, 6}, Value: []float64{1, 2}}
	for _, labels := range [][]millstream.Label{
		{{Name: "__name__", Value: "a"}, {Name: "alone", Value: "x"}, {Name: "pod", Value: "0"}}, {{Name: "__name__", Value: "other"}, {Name: "zone", Value: "0"}},
	} {
		key, err := millstream.EncodeLabels(nil, labels)
		if err != nil {
			t.Fatal(err)
		}
		s.Series = append(s.Series, string(key))
	}
	if _, err := other.Append(s); err != nil {
		t.Fatal(err)
	}
	in := []Source{encode(t, partsHead(t, 0, 3000)), encode(t, other), encode(t, partsHead(t, 1500, 3000))}
	for _, whole := range []int{math.MaxInt, wholeInParts, 1} {
		var data, index, again bytes.Buffer
		if _, err := merge(&data, &index, in, whole); err != nil {
			t.Fatal(err)
		}
		if _, err := Rebuild(&again, bytes.NewReader(data.Bytes()), int64(data.Len())); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(index.Bytes(), again.Bytes()) {
			t.Errorf("of blocks up to %d: the index is another one than that of the merged series", whole)
		}
		r := open(t, data.Bytes(), index.Bytes())
		for label, want := range map[string]int{"__name__": 4, "alone": 1, "pod": 4500, "zone": 1} {
			values, err := r.LabelValues(t.Context(), label, everything)
			if err != nil {
				t.Fatal(err)
			}
			if len(values) != want || !slices.IsSorted(values) {
				t.Errorf("%s has %d values, want %d, sorted", label, len(values), want)
			}
		}
	}
}

// Damage of a block that is read in parts is found, at the latest at its end.
func TestDamageInParts(t *testing.T) {
	var data, index bytes.Buffer
	if _, err := partsHead(t, 0, 3000).Encode(&data, &index); err != nil {
		t.Fatal(err)
	}
	r := open(t, data.Bytes(), index.Bytes())
	names, err := r.names.get(r.readNames)
	if err != nil {
		t.Fatal(err)
	}
	if values := names[len(names)-1].at.block + 1; values >= r.labelsBlock || r.blocks[values].raw <= wholeInParts {
		t.Fatal("no block of values is read in parts")
	}
	end := int(r.blocks[r.labelsBlock].offset) + r.blocks[r.labelsBlock].size
	for at := 0; at < end; at += end / 40 {
		b := bytes.Clone(index.Bytes())
		b[at] ^= 1
		if _, err := merge(io.Discard, io.Discard, []Source{open(t, data.Bytes(), b)}, wholeInParts); err == nil {
			t.Errorf("a merge of an index with another bit at %d", at)
		}
	}
}

func open(t *testing.T, data, index []byte) *Reader {
	t.Helper()
	r, err := Open(bytes.NewReader(data), int64(len(data)), bytes.NewReader(index), int64(len(index)))
	if err != nil {
		t.Fatal(err)
	}
	return r
}
