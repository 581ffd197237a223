package metrics

import (
	"bytes"
	"fmt"
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

// A name is read in parts that hold each of its series once, in order, and a merge of parts writes what one of the whole does.
func TestMergeInParts(t *testing.T) {
	in := []Source{encode(t, partsHead(t, 0, 3000)), encode(t, partsHead(t, 1500, 3000)), partsHead(t, 2000, 500)}
	var whole bytes.Buffer
	if _, err := Merge(&whole, &bytes.Buffer{}, in); err != nil {
		t.Fatal(err)
	}
	g := nameGroup{from: "large", to: "large", parts: 7}
	queries, err := g.queries(in)
	if err != nil || len(queries) != 7 {
		t.Fatalf("%d parts, %v", len(queries), err)
	}
	var keys []string
	for _, q := range queries {
		part, err := Select(t.Context(), in, q)
		if err != nil {
			t.Fatal(err)
		}
		if len(part) < 300 || len(part) > 1200 {
			t.Errorf("a part of %d series of 4500", len(part))
		}
		for i := range part {
			keys = append(keys, part[i].Key)
		}
	}
	if len(keys) != 4500 || !slices.IsSorted(keys) || len(slices.Compact(keys)) != 4500 {
		t.Fatalf("%d keys, sorted %v, or one twice", len(keys), slices.IsSorted(keys))
	}
	var parts bytes.Buffer
	w := newWriter(&parts, &bytes.Buffer{})
	for _, g := range []nameGroup{{from: "", to: "a", parts: 1}, g, {from: "z", to: "z", parts: 3}} {
		queries, err := g.queries(in)
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range queries {
			if err := mergeGroup(w, in, q); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := w.close(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(parts.Bytes(), whole.Bytes()) {
		t.Error("a merge in parts wrote other bytes")
	}
}
