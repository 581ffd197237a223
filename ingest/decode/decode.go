// Package decode is what the decoders of all intake protocols share: bounded decompression of request bodies, reading of times, names of streams, limits
// and the account of what was rejected. It knows no HTTP and keeps no state but pools of memory.
package decode

import (
	"math"
	"time"

	"github.com/millstream/millstream"
)

// Limits bound one request. A zero field means the documented default, so the zero value is ready for use.
type Limits struct {
	millstream.Limits       // what one record may hold
	MaxBody           int64 // bytes on the wire, compressed or not
	MaxDecoded        int64 // bytes after decompression
	MaxRatio          int64 // decoded bytes per compressed byte, once more than 1 MiB is decoded
	// MaxPast and MaxFuture bound a record's time against the arrival time. MaxPast zero or less: no limit. MaxFuture zero: one hour; negative: no limit.
	MaxPast, MaxFuture time.Duration
}

// The documented defaults.
const (
	DefaultMaxBody    = 20 << 20
	DefaultMaxDecoded = 100 << 20
	DefaultMaxRatio   = 100
	DefaultMaxFuture  = time.Hour
)

// WithDefaults fills the zero fields.
func (l Limits) WithDefaults() Limits {
	setDefault(&l.MaxFields, millstream.DefaultLimits.MaxFields)
	setDefault(&l.MaxKey, millstream.DefaultLimits.MaxKey)
	setDefault(&l.MaxRecord, millstream.DefaultLimits.MaxRecord)
	setDefault(&l.MaxDepth, millstream.DefaultLimits.MaxDepth)
	setDefault(&l.MaxBody, DefaultMaxBody)
	setDefault(&l.MaxDecoded, DefaultMaxDecoded)
	setDefault(&l.MaxRatio, DefaultMaxRatio)
	setDefault(&l.MaxFuture, DefaultMaxFuture)
	return l
}

func setDefault[T int | int64 | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

// Window is the span of times that records of one request may have, both ends included.
type Window struct{ first, last int64 }

// Window computes the span for a request that arrived now.
func (l Limits) Window(now time.Time) Window {
	l = l.WithDefaults()
	w, ns := Window{math.MinInt64, math.MaxInt64}, now.UnixNano()
	if l.MaxPast > 0 && ns >= math.MinInt64+int64(l.MaxPast) {
		w.first = ns - int64(l.MaxPast)
	}
	if l.MaxFuture > 0 && ns <= math.MaxInt64-int64(l.MaxFuture) {
		w.last = ns + int64(l.MaxFuture)
	}
	return w
}

// Check gives the reason to reject a record of that time, "" if there is none.
func (w Window) Check(ns int64) string {
	switch {
	case ns < w.first:
		return "the time " + millstream.FormatTime(ns) + " is too far in the past: at the earliest " + millstream.FormatTime(w.first) + " is accepted"
	case ns > w.last:
		return "the time " + millstream.FormatTime(ns) + " is too far in the future: at the latest " + millstream.FormatTime(w.last) + " is accepted"
	}
	return ""
}

// MaxErrors is how many rejections of a request are reported one by one; all are counted.
const MaxErrors = 100

// Rejection says why one record of a request was not accepted. Index is its place among all records of the request, from 0.
type Rejection struct {
	Index  int    `json:"index"`
	Field  string `json:"field,omitempty"`
	Reason string `json:"reason"`
}

// Result is what a decoder made of a request: one batch per stream (or signal), and the account of the records.
type Result struct {
	Batches  []*millstream.Batch
	Accepted int
	Rejected int
	Errors   []Rejection // the first MaxErrors
}

// Reject counts a rejected record.
func (r *Result) Reject(index int, field, reason string) {
	r.Rejected++
	if len(r.Errors) < MaxErrors {
		r.Errors = append(r.Errors, Rejection{Index: index, Field: field, Reason: reason})
	}
}

// Add takes a batch into the result and counts its records as accepted; an empty one is left out.
func (r *Result) Add(b *millstream.Batch) {
	if b == nil || b.Rows() == 0 {
		return
	}
	r.Batches = append(r.Batches, b)
	r.Accepted += b.Rows()
}

// maxStreamName is the longest name of a log or trace stream.
const maxStreamName = 128

// CheckStream says whether a name can be the name of a log or trace stream; if not, the error is Invalid and says what is allowed.
func CheckStream(name string) error {
	if name == "" || len(name) > maxStreamName || name[0] == '.' {
		return badStream(name)
	}
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '.', c == '-':
		default:
			return badStream(name)
		}
	}
	return nil
}

func badStream(name string) error {
	shown := name
	if len(shown) > maxStreamName {
		shown = shown[:maxStreamName] + "…"
	}
	return millstream.Errorf(millstream.Invalid, "stream name %q: use 1 to %d of the letters A-Z, a-z, 0-9, '_', '.', '-', not starting with '.'", shown, maxStreamName)
}
