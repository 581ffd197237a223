package timespec

import (
	"encoding/json"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/millstream/millstream"
)

var now = time.Date(2026, 11, 30, 13, 14, 15, 16, time.UTC) // a Monday

// The browser's tests read the same file.
func TestSpanVectors(t *testing.T) {
	b, err := os.ReadFile("../../ui/testdata/time_vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Text, Zone, Start, End, From, To string
		Now                              time.Time
		Position                         *int // character from 0
	}
	if err := json.Unmarshal(b, &vectors); err != nil || len(vectors) < 50 {
		t.Fatalf("%d vectors, %v", len(vectors), err)
	}
	for _, v := range vectors {
		c, err := In(v.Now, v.Zone)
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Span(v.Text)
		if v.Position != nil {
			var e *millstream.Error
			if !errors.As(err, &e) || e.Kind != millstream.Invalid || e.Position != *v.Position+1 {
				t.Errorf("%q in %s: %v, %#v; want an error at %d", v.Text, v.Zone, got, err, *v.Position)
			}
			continue
		}
		if err != nil || print(got.Start) != v.Start || print(got.End) != v.End {
			t.Errorf("%q in %s at %s = %s to %s, %v; want %s to %s", v.Text, v.Zone, v.Now, print(got.Start), print(got.End), err, v.Start, v.End)
		}
		if v.From == "all" {
			v.From = ""
		}
		if points, err := c.Range(v.From, v.To); err != nil || print(points.Start) != v.Start || print(points.End) != v.End {
			t.Errorf("%q to %q in %s = %v, %v; want the same as %q", v.From, v.To, v.Zone, points, err, v.Text)
		}
	}
}

// print is a moment as the vectors have it: milliseconds where there are any; open is empty.
func print(ns int64) string {
	switch t := time.Unix(0, ns).UTC().Truncate(time.Millisecond); {
	case ns == First || ns == Last:
		return ""
	case t.Nanosecond() == 0:
		return t.Format(time.RFC3339)
	default:
		return t.Format("2006-01-02T15:04:05.000Z07:00")
	}
}

func TestParse(t *testing.T) {
	for in, want := range map[string]string{
		"now": "2026-11-30T13:14:15.000000016Z", "now-15m": "2026-11-30T12:59:15.000000016Z", "now-1d/d": "2026-11-29T00:00:00Z", "now/w": "2026-11-30T00:00:00Z", "now-1d/w": "2026-11-23T00:00:00Z",
		"now-1M/M": "2026-10-01T00:00:00Z", "now/y": "2026-01-01T00:00:00Z", "now+1h-1s": "2026-11-30T14:14:14.000000016Z",
		"2026-11-30T12:00:00Z": "2026-11-30T12:00:00Z", "2026-11-30T12:00:00.123456789+01:00": "2026-11-30T11:00:00.123456789Z", "2026-11-30 12:00:00.123456789": "2026-11-30T12:00:00.123456789Z",
		"1796040000": "2026-11-30T12:00:00Z", "1796040000123": "2026-11-30T12:00:00.123Z", "1796040000123456": "2026-11-30T12:00:00.123456Z", "1796040000123456789": "2026-11-30T12:00:00.123456789Z", "1796040000.5": "2026-11-30T12:00:00.5Z",
	} {
		got, err := Parse(in, now)
		if err != nil || got.Format(time.RFC3339Nano) != want {
			t.Errorf("%s = %s, %v; want %s", in, got.Format(time.RFC3339Nano), err, want)
		}
	}
	for _, in := range []string{"", "nowhere", "now-", "now-5", "now-5x", "now/5d", "yesterday", "now15m"} {
		if got, err := Parse(in, now); millstream.KindOf(err) != millstream.Invalid {
			t.Errorf("%q was read as %s, %v", in, got, err)
		}
	}
}

func TestRange(t *testing.T) {
	var body struct{ Start, End Value }
	if err := json.Unmarshal([]byte(`{"start":1796040000,"end":"now"}`), &body); err != nil {
		t.Fatal(err)
	}
	r, err := Range(string(body.Start), string(body.End), now)
	if err != nil || r.Start != 1796040000e9 || r.End != now.UnixNano() {
		t.Errorf("%+v %v", r, err)
	}
	if r, err := Range("", "", now); err != nil || r.Start != First || r.End != Last {
		t.Errorf("%+v %v", r, err)
	}
	if _, err := Range("now", "now-1h", now); millstream.KindOf(err) != millstream.Invalid {
		t.Errorf("%v", err)
	}
	if r, err := Range("now/d", "now/d", now); err != nil || r.End-r.Start != int64(24*time.Hour) {
		t.Errorf("now/d to now/d is %s, %v; want the whole day", time.Duration(r.End-r.Start), err)
	}
}

func TestZones(t *testing.T) {
	for _, name := range []string{"", "UTC", "Europe/Berlin"} {
		if _, err := In(now, name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"Local", "Middle/Earth", "../etc/passwd"} {
		if _, err := In(now, name); millstream.KindOf(err) != millstream.Invalid {
			t.Errorf("%q: %v", name, err)
		}
	}
}
