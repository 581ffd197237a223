package blob

import (
	"testing"
	"time"
)

func TestFresh(t *testing.T) {
	began := time.Now() // with a monotonic reading
	for name, c := range map[string]struct {
		now  time.Time
		want bool
	}{
		"at once":                      {began, true},
		"after eleven hours":           {began.Add(11 * time.Hour), true},
		"after a day":                  {began.Add(24 * time.Hour), false},
		"a clock set ten minutes back": {began.Add(-10 * time.Minute), true},
		"a machine that slept a day, whose monotonic clock stood still": {began.Add(24 * time.Hour).Round(0), false},
	} {
		if got := Fresh(began, c.now); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
