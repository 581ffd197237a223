package timespec

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/millstream/millstream"
)

var now = time.Date(2026, 11, 30, 13, 14, 15, 16, time.UTC) // a Monday

func TestParse(t *testing.T) {
	for in, want := range map[string]string{
		"now": "2026-11-30T13:14:15.000000016Z", "now-15m": "2026-11-30T12:59:15.000000016Z", "now-1d/d": "2026-11-29T00:00:00Z", "now/w": "2026-11-30T00:00:00Z", "now-1d/w": "2026-11-23T00:00:00Z",
		"now-1M/M": "2026-10-01T00:00:00Z", "now/y": "2026-01-01T00:00:00Z", "now+1h-1s": "2026-11-30T14:14:14.000000016Z",
		"2026-11-30T12:00:00Z": "2026-11-30T12:00:00Z", "2026-11-30T12:00:00.123456789+01:00": "2026-11-30T11:00:00.123456789Z",
		"1796040000": "2026-11-30T12:00:00Z", "1796040000123": "2026-11-30T12:00:00.123Z", "1796040000123456": "2026-11-30T12:00:00.123456Z", "1796040000123456789": "2026-11-30T12:00:00.123456789Z",
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
}
