package status

import (
	"errors"
	"fmt"
	"testing"

	"github.com/millstream/millstream"
)

func TestEveryKindHasItsRow(t *testing.T) {
	seen := map[string]bool{}
	for k := millstream.Internal; k <= millstream.Canceled; k++ {
		if HTTP(k) < 400 || Code(k) == "" || seen[Code(k)] {
			t.Errorf("kind %d has status %d and code %q", k, HTTP(k), Code(k))
		}
		seen[Code(k)] = true
	}
	if HTTP(millstream.Canceled+1) != 500 || Code(255) != "internal" {
		t.Error("an unknown kind must be internal")
	}
}

func TestRetryAfter(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want int
	}{
		"plain":        {errors.New("x"), 0},
		"not found":    {millstream.Errorf(millstream.NotFound, "x"), 0},
		"rate limited": {millstream.Errorf(millstream.RateLimited, "x"), 1},
		"unavailable":  {fmt.Errorf("wrapped: %w", millstream.Errorf(millstream.Unavailable, "x")), 5},
		"its own":      {&millstream.Error{Kind: millstream.RateLimited, RetryAfter: 42}, 42},
		"not its kind": {&millstream.Error{Kind: millstream.Invalid, RetryAfter: 42}, 0},
	} {
		if got := RetryAfter(c.err); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
