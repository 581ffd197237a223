package query

import (
	"testing"

	"github.com/millstream/millstream"
)

// TestFormTellsReleasesApart: whatever gob would leave out without a word makes another form.
func TestFormTellsReleasesApart(t *testing.T) {
	type inner struct{ A int64 }
	type more struct{ A, B int64 }
	type renamed struct{ B int64 }
	type wider struct{ A float64 }
	type plan struct{ In *inner }
	type planMore struct{ In *more }
	seen := map[[8]byte]int{}
	for i, v := range []any{inner{}, more{}, renamed{}, wider{}, plan{}, planMore{}, []inner{}, map[string]inner{}, [3]int{}, [4]int{}} {
		if was, ok := seen[formOf(v)]; ok {
			t.Errorf("types %d and %d have one form", was, i)
		}
		seen[formOf(v)] = i
	}
	if formOf(leafAsk{}) != formOf(leafAsk{}) {
		t.Error("the form of a type is not always the same")
	}
}

func TestOfThisForm(t *testing.T) {
	body, err := ofThisForm(append(form[:], "what is asked"...))
	if err != nil || string(body) != "what is asked" {
		t.Errorf("%q, %v", body, err)
	}
	other := form
	other[3]++
	for _, ask := range [][]byte{nil, form[:7], other[:]} {
		if _, err := ofThisForm(ask); millstream.KindOf(err) != millstream.Unavailable { // which has others asked
			t.Errorf("%x: %v", ask, err)
		}
	}
}
