// Package timespec reads the times that requests and the URL of the UI carry: absolute, by magnitude, on the wall clock of a zone, or relative to now.
//
//	range    = point (" to " | " .. " | " - " | ",") point | duration | word
//	point    = "now" { ("+"|"-") int unit } [ "/" unit ] | RFC 3339 | date [ " " time ] | time | epoch
//	duration = int unit { int unit }                 "1h30m" is now-1h30m to now
//	unit     = ms s m h d w M y
//	word     = today | yesterday | this week | last week | this month | all
//
// An epoch is in seconds, ms, µs or ns by its magnitude. "/unit" rounds down where a range starts and up where it ends, so that now/d to now/d is the whole day.
// The browser reads the same grammar (ui/src/lib/range.ts); both are tested with ui/testdata/time_vectors.json.
package timespec

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // zones are known on machines without a database of them
	"unicode/utf8"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest/decode"
)

// Clock is what relative and local times are read against. Without a zone it is UTC. Weeks begin on Monday.
type Clock struct {
	Now  time.Time
	Zone *time.Location
}

// In is a clock in the zone of a name of the zone database; empty is UTC.
func In(now time.Time, zone string) (Clock, error) {
	loc, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" {
		return Clock{}, &millstream.Error{Kind: millstream.Invalid, Msg: strconv.Quote(clip(zone)) + " is not a time zone", Hint: "use a name such as UTC or Europe/Berlin", Err: err}
	}
	return Clock{Now: now, Zone: loc}, nil
}

// Parse reads a point in UTC as the start of a range. Beside the grammar it takes every form of time that records may have.
func Parse(s string, now time.Time) (time.Time, error) {
	t, err := Clock{Now: now}.point(s, false)
	return t, err.at(0)
}

var (
	separator = regexp.MustCompile(`(?i)\s+to(?:\s+|$)|\s*\.\.\s*|\s+-\s+|\s*,\s*`)
	amount    = regexp.MustCompile(`^(\d{1,9})(ms|[smhdwMy])`)
	step      = regexp.MustCompile(`^([+-])(\d{1,9})(ms|[smhdwMy])`)
	unit      = regexp.MustCompile(`^(?:ms|[smhdwMy])`)
	digits    = regexp.MustCompile(`^\d*`)
	local     = regexp.MustCompile(`^(\d{4})-(\d\d)-(\d\d)(?:[Tt ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?)?$`)
	clock     = regexp.MustCompile(`^(\d{1,2}):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?$`)
	onePoint  = regexp.MustCompile(`^\D|^\d{4}-|:|^\d{10,}$`)
)

var words = map[string][2]string{
	"today": {"now/d", "now/d"}, "yesterday": {"now-1d/d", "now-1d/d"}, "this week": {"now/w", "now/w"}, "last week": {"now-1w/w", "now-1w/w"}, "this month": {"now/M", "now/M"}, "all": {"", "now"},
}

// Span reads the text of a range. An error has the position of the character that it is about.
func (c Clock) Span(text string) (millstream.TimeRange, error) {
	t := strings.TrimSpace(text)
	lead := utf8.RuneCountInString(text[:len(text)-len(strings.TrimLeft(text, " \t\r\n"))])
	if t == "" {
		return millstream.TimeRange{}, (&fault{msg: "the time range is empty"}).at(0)
	}
	if w, ok := words[strings.Join(strings.Fields(strings.ToLower(t)), " ")]; ok {
		return c.Range(w[0], w[1])
	}
	m := separator.FindStringIndex(t)
	if m == nil {
		from, err := c.duration(t)
		if err != nil {
			return millstream.TimeRange{}, err.at(lead)
		}
		return c.Range(from, "now")
	}
	first, second := t[:m[0]], t[m[1]:]
	at := lead + utf8.RuneCountInString(t[:m[1]])
	start, err := c.point(first, false)
	if err != nil {
		return millstream.TimeRange{}, err.at(lead)
	}
	if d := local.FindStringSubmatch(first); d != nil && clock.MatchString(second) { // 2026-09-14 08:00 to 09:00: on the same day
		if strings.IndexByte(second, ':') == 1 {
			second = "0" + second
		}
		second = first[:len("2026-09-14")] + " " + second
	}
	end, err := c.point(second, true)
	switch {
	case err != nil:
		return millstream.TimeRange{}, err.at(at)
	case !end.After(start):
		return millstream.TimeRange{}, (&fault{msg: "the time range ends before it starts"}).at(at)
	}
	return millstream.TimeRange{Start: start.UnixNano(), End: end.UnixNano()}, nil
}

// duration turns 1h30m into now-1h-30m.
func (c Clock) duration(s string) (string, *fault) {
	if onePoint.MatchString(s) {
		if _, err := c.point(s, false); err != nil {
			return "", err
		}
		return "", &fault{len(s), "a range needs two times"}
	}
	from := "now"
	for at := 0; at < len(s); {
		m := amount.FindStringSubmatch(s[at:])
		if m == nil {
			return "", amountFault(s, at)
		}
		from += "-" + m[0]
		at += len(m[0])
	}
	return from, nil
}

// Range reads a half-open range of two points; an empty start or end is open.
func (c Clock) Range(start, end string) (millstream.TimeRange, error) {
	r := millstream.TimeRange{Start: First, End: Last}
	if start != "" {
		t, err := c.point(start, false)
		if err != nil {
			return r, err.at(0)
		}
		r.Start = t.UnixNano()
	}
	if end != "" {
		t, err := c.point(end, true)
		if err != nil {
			return r, err.at(0)
		}
		r.End = t.UnixNano()
	}
	if r.End < r.Start {
		return r, millstream.Errorf(millstream.Invalid, "the time range ends before it starts: %s is before %s", end, start)
	}
	return r, nil
}

// point reads one time, as the end of a range or as its start.
func (c Clock) point(s string, end bool) (time.Time, *fault) {
	if c.Zone == nil {
		c.Zone = time.UTC
	}
	if s == "" {
		return time.Time{}, &fault{msg: "a time is missing"}
	}
	if strings.HasPrefix(s, "now") {
		return c.relative(s, end)
	}
	if m := local.FindStringSubmatch(s); m != nil {
		return wall(civil{num(m[1]), num(m[2]), num(m[3]), num(m[4]), num(m[5]), num(m[6]), nanos(m[7])}, c.Zone, end)
	}
	if m := clock.FindStringSubmatch(s); m != nil {
		y, mo, d := c.Now.In(c.Zone).Date()
		return wall(civil{y, int(mo), d, num(m[1]), num(m[2]), num(m[3]), nanos(m[4])}, c.Zone, end)
	}
	if ns, ok := decode.ParseNumber(s); ok {
		return time.Unix(0, ns).UTC(), nil
	}
	if ns, ok := decode.ParseTime(s); ok {
		return time.Unix(0, ns).UTC(), nil
	}
	return time.Time{}, &fault{msg: strconv.Quote(clip(s)) + " is not a time"}
}

func (c Clock) relative(s string, end bool) (time.Time, *fault) {
	t, at := c.Now.In(c.Zone), len("now")
	for {
		m := step.FindStringSubmatch(s[at:])
		if m == nil {
			break
		}
		n := num(m[2])
		if m[1] == "-" {
			n = -n
		}
		var err *fault
		if t, err = add(t, n, m[3], end); err != nil {
			return t, err
		}
		at += len(m[0])
	}
	switch {
	case at == len(s):
		return t.UTC(), nil
	case s[at] == '+' || s[at] == '-':
		return t, amountFault(s, at+1)
	case s[at] != '/':
		return t, &fault{at, "use + or - and an amount after now"}
	}
	u := unit.FindString(s[at+1:])
	switch {
	case u == "":
		return t, &fault{at + 1, unitMissing}
	case at+1+len(u) < len(s):
		return t, &fault{at + 1 + len(u), "nothing may follow the unit that is rounded to"}
	case end:
		return ceil(t, u).UTC(), nil
	}
	return floor(t, u).UTC(), nil
}

// fault is what cannot be read, and at which byte.
type fault struct {
	byte int
	msg  string
}

const unitMissing = "a unit is missing: use ms, s, m, h, d, w, M or y"

// amountFault says what is wrong with an amount at a place.
func amountFault(s string, at int) *fault {
	switch n := len(digits.FindString(s[at:])); {
	case n == 0:
		return &fault{at, "a number is missing"}
	case n > 9:
		return &fault{at, "this number is too large"}
	default:
		return &fault{at + n, unitMissing}
	}
}

// at makes the error of a text that begins at a character of what was sent.
func (f *fault) at(start int) error {
	if f == nil {
		return nil
	}
	return &millstream.Error{Kind: millstream.Invalid, Msg: f.msg, Position: start + f.byte + 1,
		Hint: "use RFC 3339 such as 2026-11-30T12:00:00Z, 2026-11-30 12:00, epoch seconds, ms, µs or ns, or now-15m, now-1d/d"}
}

func clip(s string) string { return strings.ToValidUTF8(s[:min(len(s), 64)], "\uFFFD") }

// num reads digits that a pattern found, at most nine; none are 0.
func num(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

// nanos reads the digits of a fraction of a second.
func nanos(s string) int { return num((s + "000000000")[:9]) }

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
		return (&fault{msg: strconv.Quote(clip(string(b))) + " is not a time"}).at(0)
	}
	*v = Value(n)
	return nil
}

// Bounds of times without a bound: what fits into int64 nanoseconds.
const (
	First = -1 << 63
	Last  = 1<<63 - 1
)

// Range reads a half-open range in UTC; an empty start or end is open.
func Range(start, end string, now time.Time) (millstream.TimeRange, error) {
	return Clock{Now: now}.Range(start, end)
}
