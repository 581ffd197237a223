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
	last := r.blocks[names[len(names)-1].at.block]
	end := int(last.offset) + last.size
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
