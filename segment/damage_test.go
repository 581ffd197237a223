package segment

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/millstream/millstream"
)

var damageScans = []Scan{
	{All: true, Times: true},
	{All: true, Times: true, Filter: Match{Query: "connection"}},
	{All: true, Times: true, Filter: Compare{"trace_id", Eq, Value{Kind: StringValue, Str: fmt.Sprintf("%032x", 5)}}, Limit: 5, Newest: true},
	{CountOnly: true, Filter: Compare{"service", Eq, Value{Kind: StringValue, Str: "cart"}}},
}

// answers runs the scans; ok is false if any step gave an error.
func answers(data, index []byte) (out []string, ok bool) {
	r, err := Open(bytesAt(data), int64(len(data)), bytesAt(index), int64(len(index)))
	if err != nil {
		return nil, false
	}
	for _, q := range damageScans {
		q.Range = millstream.TimeRange{Start: math.MinInt64, End: math.MaxInt64}
		stats, err := r.Scan(context.Background(), q, func(b *millstream.Batch) error {
			for i := range b.Times {
				out = append(out, rowText(b, i))
			}
			return nil
		})
		if err != nil {
			return nil, false
		}
		out = append(out, fmt.Sprint(stats.Selected))
	}
	return out, true
}

// TestDamage changes bytes and cuts ends: the answer is an error or right, never wrong, and nothing panics.
func TestDamage(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	_, data, index := encodeBytes(t, Options{}, randomBatches(r, 1500, true)...)
	want, ok := answers(data, index)
	if !ok {
		t.Fatal("the whole segment cannot be read")
	}
	refused := 0
	for i := range 400 {
		d, x := bytes.Clone(data), bytes.Clone(index)
		hurt := &d
		if i%2 == 0 {
			hurt = &x
		}
		switch r.IntN(3) {
		case 0:
			*hurt = (*hurt)[:r.IntN(len(*hurt))]
		case 1:
			(*hurt)[r.IntN(len(*hurt))] ^= 1 << r.IntN(8)
		default:
			at := r.IntN(len(*hurt))
			for k := at; k < min(at+100, len(*hurt)); k++ {
				(*hurt)[k] = byte(r.Uint32())
			}
		}
		got, ok := answers(d, x)
		if !ok {
			refused++
		} else if !slices.Equal(got, want) {
			t.Fatalf("case %d: a damaged segment gave another answer", i)
		}
	}
	if refused < 200 {
		t.Errorf("only %d of 400 damaged segments were refused", refused)
	}
}

// TestShortObjects opens what was written with objects that end early behind their recorded size.
func TestShortObjects(t *testing.T) {
	_, data, index := encodeBytes(t, Options{}, randomBatches(rand.New(rand.NewPCG(3, 4)), 3000, false)...)
	r, err := Open(bytesAt(data[:len(data)/4]), int64(len(data)), bytesAt(index), int64(len(index)))
	if err != nil {
		t.Fatal(err)
	}
	q := Scan{Range: millstream.TimeRange{Start: math.MinInt64, End: math.MaxInt64}, All: true}
	if _, err := r.Scan(context.Background(), q, func(*millstream.Batch) error { return nil }); err == nil {
		t.Fatal("no error")
	}
}
