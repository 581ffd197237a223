// Package timespec reads the times that requests and the URL of the UI carry: absolute, by magnitude, or relative to now.
package timespec

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest/decode"
)

// Parse reads RFC 3339 and the usual ISO forms, epoch seconds, milli-, micro- or nanoseconds (told apart by magnitude), or now, now-15m, now-1d/d: now minus or
// plus an amount, then optionally rounded down to the start of a unit, in UTC. Units: s, m, h, d, w, M, y.
func Parse(s string, now time.Time) (time.Time, error) {
	if rest, ok := strings.CutPrefix(s, "now"); ok {
		return relative(s, rest, now.UTC())
	}
	if ns, ok := decode.ParseNumber(s); ok {
		return time.Unix(0, ns).UTC(), nil
	}
	if ns, ok := decode.ParseTime(s); ok {
		return time.Unix(0, ns).UTC(), nil
	}
	return time.Time{}, bad(s)
}

func bad(s string) error {
	return &millstream.Error{Kind: millstream.Invalid, Msg: "\"" + strings.ToValidUTF8(s[:min(len(s), 64)], "\uFFFD") + "\" is not a time",
		Hint: "use RFC 3339 such as 2026-11-30T12:00:00Z, epoch seconds, ms, µs or ns, or now-15m, now-1d/d"}
}

func relative(whole, s string, now time.Time) (time.Time, error) {
	t := now
	for s != "" {
		op := s[0]
		s = s[1:]
		n := 0
		for s != "" && s[0] >= '0' && s[0] <= '9' && n < 1_000_000 {
			n = n*10 + int(s[0]-'0')
			s = s[1:]
		}
		if s == "" {
			return t, bad(whole)
		}
		unit := s[0]
		s = s[1:]
		ok := false
		switch op {
		case '-':
			t, ok = add(t, -n, unit)
		case '+':
			t, ok = add(t, n, unit)
		case '/':
			t, ok = floor(t, unit)
			ok = ok && n == 0
		}
		if !ok {
			return t, bad(whole)
		}
	}
	return t, nil
}

func add(t time.Time, n int, unit byte) (time.Time, bool) {
	switch unit {
	case 's':
		return t.Add(time.Duration(n) * time.Second), true
	case 'm':
		return t.Add(time.Duration(n) * time.Minute), true
	case 'h':
		return t.Add(time.Duration(n) * time.Hour), true
	case 'd':
		return t.AddDate(0, 0, n), true
	case 'w':
		return t.AddDate(0, 0, 7*n), true
	case 'M':
		return t.AddDate(0, n, 0), true
	case 'y':
		return t.AddDate(n, 0, 0), true
	}
	return t, false
}

func floor(t time.Time, unit byte) (time.Time, bool) {
	y, m, d := t.Date()
	switch unit {
	case 's':
		return t.Truncate(time.Second), true
	case 'm':
		return t.Truncate(time.Minute), true
	case 'h':
		return t.Truncate(time.Hour), true
	case 'd':
		return time.Date(y, m, d, 0, 0, 0, 0, time.UTC), true
	case 'w': // weeks begin on Monday
		return time.Date(y, m, d-(int(t.Weekday())+6)%7, 0, 0, 0, 0, time.UTC), true
	case 'M':
		return time.Date(y, m, 1, 0, 0, 0, 0, time.UTC), true
	case 'y':
		return time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC), true
	}
	return t, false
}

// Value is a time in a JSON request: a string that Parse reads, or a number.
type Value string

// UnmarshalJSON takes a string or a number.
func (v *Value) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) == nil {
		*v = Value(s)
		return nil
	}
	var n json.Number
	if err := json.Unmarshal(b, &n); err != nil {
		return bad(string(b))
	}
	*v = Value(n)
	return nil
}

// Bounds of times without a bound: what fits into int64 nanoseconds.
const (
	First = -1 << 63
	Last  = 1<<63 - 1
)

// Range reads a half-open range; an empty start or end is open.
func Range(start, end string, now time.Time) (millstream.TimeRange, error) {
	r := millstream.TimeRange{Start: First, End: Last}
	if start != "" {
		t, err := Parse(start, now)
		if err != nil {
			return r, err
		}
		r.Start = t.UnixNano()
	}
	if end != "" {
		t, err := Parse(end, now)
		if err != nil {
			return r, err
		}
		r.End = t.UnixNano()
	}
	if r.End < r.Start {
		return r, millstream.Errorf(millstream.Invalid, "the time range ends before it starts: %s is before %s", end, start)
	}
	return r, nil
}
