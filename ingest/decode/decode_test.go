package decode

import (
	"strings"
	"testing"
	"time"

	"github.com/millstream/millstream"
)

func TestCheckStream(t *testing.T) {
	for _, name := range []string{"a", "default", "_millstream", "x-y.z_1", "-", strings.Repeat("n", 128)} {
		if err := CheckStream(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", ".hidden", "..", "a/b", "a b", "ä", "a%2f", "a\x00b", strings.Repeat("n", 129)} {
		if err := CheckStream(name); millstream.KindOf(err) != millstream.Invalid {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestWindow(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	at := func(d time.Duration) int64 { return now.Add(d).UnixNano() }
	w := Limits{MaxPast: time.Hour}.Window(now)
	for d, ok := range map[time.Duration]bool{-time.Hour - 1: false, -time.Hour: true, 0: true, time.Hour: true, time.Hour + 1: false} {
		if reason := w.Check(at(d)); (reason == "") != ok {
			t.Errorf("%v: %q", d, reason)
		}
	}
	if reason := (Limits{MaxFuture: -1}).Window(now).Check(at(1e6 * time.Hour)); reason != "" {
		t.Errorf("without limits: %q", reason)
	}
}

func TestResultCountsAllButKeepsTheFirst(t *testing.T) {
	var r Result
	for i := range 250 {
		r.Reject(i, "f", "no")
	}
	if r.Rejected != 250 || len(r.Errors) != MaxErrors || r.Errors[99].Index != 99 {
		t.Errorf("%d rejected, %d reported", r.Rejected, len(r.Errors))
	}
}
