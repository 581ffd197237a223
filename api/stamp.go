package api

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest/decode"
)

// stamp is a time as replies show it, RFC 3339 with nanoseconds in UTC, and as requests give it: that, or seconds, ms, µs or ns since the epoch.
type stamp struct{ time.Time }

func stampOf(ns int64) stamp { return stamp{time.Unix(0, ns).UTC()} }

var stampType = reflect.TypeFor[stamp]()

// MarshalJSON writes the one form of replies.
func (s stamp) MarshalJSON() ([]byte, error) {
	return json.Marshal(millstream.FormatTime(s.UnixNano()))
}

// UnmarshalJSON reads any form of requests.
func (s *stamp) UnmarshalJSON(text []byte) error {
	var str string
	if err := json.Unmarshal(text, &str); err != nil {
		str = string(text)
	}
	if str == "null" {
		return nil
	}
	ns, ok := parseStamp(str)
	if !ok {
		return badTime(str)
	}
	s.Time = time.Unix(0, ns).UTC()
	return nil
}

func parseStamp(s string) (ns int64, ok bool) {
	if ns, ok := decode.ParseNumber(s); ok {
		return ns, true
	}
	return decode.ParseTime(s)
}

func badTime(s string) error {
	return &millstream.Error{Kind: millstream.Invalid, Msg: strconv.Quote(s) + " is not a time", Hint: "write RFC 3339 such as 2026-11-30T12:00:00Z, or seconds since the epoch"}
}

// queryTime reads a time parameter of the query string; zero when it is absent.
func queryTime(r *http.Request, name string) (time.Time, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return time.Time{}, nil
	}
	ns, ok := parseStamp(text)
	if !ok {
		return time.Time{}, badTime(text)
	}
	return time.Unix(0, ns).UTC(), nil
}

// queryInt reads a whole-number parameter of the query string within bounds.
func queryInt(r *http.Request, name string, absent, most int) (int, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return absent, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, millstream.Errorf(millstream.Invalid, "%s is %q, it must be a number from 1 to %d", name, text, most)
	}
	return n, nil
}
