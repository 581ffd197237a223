package scan

import (
	"time"
	"unicode/utf8"

	"github.com/millstream/millstream"
	"github.com/millstream/millstream/ingest/decode"
)

// Records puts the records of one request into builders. For each record: Read it, then Commit or Drop it. What becomes what:
//
//   - Nested objects are flattened with dots; an array is kept as its JSON text, and so is an empty object.
//   - null is absent. Of a name that comes twice the last value stays; an empty name becomes _empty. Names that differ by case are different.
//   - An integer literal that fits int64 is an integer (-0 is 0), any other number a double; a number that neither can hold stays text as it was written.
//   - The time is the first of _timestamp, @timestamp, timestamp, time and ts, at the top level, that reads as one, else the time of arrival. That one is not
//     kept as a field, all others are. Numbers below 10^8, which is 1973 in seconds, are durations or counters rather than times, except in _timestamp.
//   - A record that is no object becomes the field message: a string its text, anything else its JSON text.
type Records struct {
	JSON
	limits  decode.Limits
	window  decode.Window
	arrival int64

	b       *millstream.Builder
	prefix  []byte // the path to the object that is being read, with its last dot
	keybuf  []byte // an unescaped key
	times   [len(timeFields)]token
	timed   bool // times has one
	tooDeep string
}

// token is a scalar that was scanned: Data[start:end].
type token struct{ start, end int }

// timeFields are the names that a record's time may have, by precedence.
var timeFields = [...]string{"_timestamp", "@timestamp", "timestamp", "time", "ts"}

// minTime is the least number that is taken as a time in any field but _timestamp.
const minTime = 1e8

var (
	emptyName   = []byte("_empty")
	messageName = []byte("message")
	emptyObject = []byte("{}")
)

// NewRecords readies a reader of the records in data, which arrived now.
func NewRecords(data []byte, now time.Time, l decode.Limits) *Records {
	return &Records{JSON: JSON{Data: data}, limits: l.WithDefaults(), window: l.Window(now), arrival: now.UnixNano()}
}

// Read reads the value at i into the current record of b and returns where it ends, or -1 if it is malformed, which leaves b without a current record.
func (r *Records) Read(i int, b *millstream.Builder) int {
	r.b, r.prefix, r.tooDeep = b, r.prefix[:0], ""
	if r.timed {
		r.times, r.timed = [len(timeFields)]token{}, false
	}
	if r.peek(i) == '{' {
		i = r.object(i+1, 1)
	} else {
		i = r.message(i)
	}
	if i < 0 {
		b.Abort()
	}
	return i
}

// Commit ends the record that was read. If it is not acceptable, the field and the reason are given and it is gone; the error says that no more records can be
// taken from this request.
func (r *Records) Commit() (field, reason string, err error) {
	ns := r.arrival
	if r.timed {
		ns = r.time()
	}
	if r.tooDeep != "" {
		r.b.Abort()
		return r.tooDeep, "nested deeper than the limit", nil
	}
	if reason := r.window.Check(ns); reason != "" {
		r.b.Abort()
		return millstream.TimestampField, reason, nil
	}
	field = r.b.Failed()
	switch err := r.b.Commit(ns); {
	case millstream.EndsRequest(err):
		return "", "", err
	case err != nil:
		return field, millstream.Message(err), nil
	}
	return "", "", nil
}

// Drop forgets the record that was read.
func (r *Records) Drop() { r.b.Abort() }

// Set adds a text field to the record that was read.
func (r *Records) Set(name string, value string) { r.b.String([]byte(name), []byte(value)) }

// object reads the members of an object from behind its bracket.
func (r *Records) object(i, depth int) int {
	if i = r.Space(i); r.peek(i) == '}' {
		return i + 1
	}
	for {
		if end := r.guessed(i); end != 0 {
			i = end
		} else {
			i = r.member(i, depth)
		}
		if i < 0 {
			return -1
		}
		if r.peek(i) != ',' {
			switch i = r.Space(i); r.peek(i) {
			case ',':
			case '}':
				return i + 1
			default:
				return r.fail(i, "',' or '}' is expected in an object")
			}
		}
		i = r.Space(i + 1)
	}
}

// guessed reads the member at i if its name is the one that came next in earlier records and its value is a string or a number, as most are. That is the same as
// member, but spares scanning the key and looking up the field. It returns 0 if the guess is wrong.
func (r *Records) guessed(i int) int {
	name, field := r.b.Guess()
	n := len(r.prefix)
	k := i + 1 + len(name) - n // where the key ends
	if field < 0 || k <= i || k+2 >= len(r.Data) || r.Data[i] != '"' || r.Data[k] != '"' || r.Data[k+1] != ':' ||
		name[n:] != string(r.Data[i+1:k]) || name[:n] != string(r.prefix) {
		return 0
	}
	if n == 0 && timeField(r.Data[i+1:k]) >= 0 {
		return 0
	}
	i = r.Space(k + 2)
	switch c := r.peek(i); {
	case c == '"':
		end, flags := r.str(i + 1)
		if end < 0 {
			return -1
		}
		text := r.Data[i+1 : end]
		if flags != 0 {
			text = r.text(i+1, end, flags)
		}
		r.b.SetString(field, text)
		return end + 1
	case c == '-' || c-'0' <= 9:
		return r.numeric(field, i)
	}
	return 0
}

// member reads the member at i.
func (r *Records) member(i, depth int) int {
	if r.peek(i) != '"' {
		return r.fail(i, "a key in double quotes is expected")
	}
	end, flags := r.str(i + 1)
	if end < 0 {
		return -1
	}
	key := r.Data[i+1 : end]
	if flags != 0 {
		key = r.key(key, flags)
	}
	if i = r.Space(end + 1); r.peek(i) != ':' {
		return r.fail(i, "':' is expected after a key")
	}
	if i = r.Space(i + 1); depth == 1 {
		return r.top(key, i)
	}
	return r.nested(key, i, depth)
}

// key is a key with escapes or with bytes beyond ASCII.
func (r *Records) key(raw []byte, flags uint8) []byte {
	if flags == wide && utf8.Valid(raw) {
		return raw
	}
	r.keybuf = AppendText(r.keybuf[:0], raw)
	return r.keybuf
}

// top reads a member of the record itself.
func (r *Records) top(key []byte, i int) int {
	if k := timeField(key); k >= 0 {
		return r.candidate(k, key, i)
	}
	if len(key) == 0 {
		key = emptyName
	}
	return r.field(key, i, 1)
}

// timeField is the place of a name among timeFields, or -1.
func timeField(name []byte) int {
	switch string(name) {
	case "_timestamp":
		return 0
	case "@timestamp":
		return 1
	case "timestamp":
		return 2
	case "time":
		return 3
	case "ts":
		return 4
	}
	return -1
}

// nested reads a member of an object within the record.
func (r *Records) nested(key []byte, i, depth int) int {
	n := len(r.prefix)
	r.prefix = append(r.prefix, key...)
	i = r.field(r.prefix, i, depth)
	r.prefix = r.prefix[:n]
	return i
}

// field reads a value at i into the field of that name. The name may lie in prefix.
func (r *Records) field(name []byte, i, depth int) int {
	switch c := r.peek(i); c {
	case '"':
		end, flags := r.str(i + 1)
		if end < 0 {
			return -1
		}
		r.b.String(name, r.text(i+1, end, flags))
		return end + 1
	case '{':
		return r.inner(name, i, depth)
	case '[':
		return r.array(name, i, depth)
	case 't', 'f':
		end := r.Scalar(i)
		if end > 0 {
			r.b.Bool(name, c == 't')
		}
		return end
	case 'n':
		end := r.Scalar(i)
		if end > 0 {
			r.b.Null(name)
		}
		return end
	}
	if c := r.peek(i); c != '-' && c-'0' > 9 {
		return r.fail(i, "a value is expected")
	}
	n := number{}
	end := r.number(i, &n)
	if end < 0 {
		return -1
	}
	if v, ok := n.int64(); ok {
		r.b.Int(name, v)
	} else if f, ok := n.double(r.Data[i:end]); ok {
		r.b.Double(name, f)
	} else {
		r.b.String(name, r.Data[i:end])
	}
	return end
}

// numeric reads the number at i into the field with that handle.
func (r *Records) numeric(field, i int) int {
	n := number{}
	end := r.number(i, &n)
	if end < 0 {
		return -1
	}
	if v, ok := n.int64(); ok {
		r.b.SetNumber(field, millstream.Int64, v)
	} else if f, ok := n.double(r.Data[i:end]); ok {
		r.b.SetDouble(field, f)
	} else {
		r.b.SetString(field, r.Data[i:end])
	}
	return end
}

// inner reads the object at i, whose members' names begin with name.
func (r *Records) inner(name []byte, i, depth int) int {
	if depth >= r.limits.MaxDepth {
		return r.skipDeep(name, i)
	}
	if end := r.Space(i + 1); r.peek(end) == '}' {
		r.b.String(name, emptyObject)
		return end + 1
	}
	n := len(r.prefix)
	if depth == 1 {
		r.prefix = append(r.prefix[:0], name...)
	} else {
		r.prefix = r.prefix[:len(name)]
	}
	r.prefix = append(r.prefix, '.')
	i = r.object(i+1, depth+1)
	r.prefix = r.prefix[:n]
	return i
}

// array keeps the array at i as its text.
func (r *Records) array(name []byte, i, depth int) int {
	end := r.Value(i)
	if end < 0 {
		return -1
	}
	if depth+r.deepest > r.limits.MaxDepth {
		r.tooDeep = string(name)
		return end
	}
	r.b.String(name, r.raw(i, end))
	return end
}

// raw is the JSON text of a value that was scanned.
func (r *Records) raw(i, end int) []byte {
	raw := r.Data[i:end]
	if utf8.Valid(raw) {
		return raw
	}
	r.scratch = AppendValid(r.scratch[:0], raw)
	return r.scratch
}

// skipDeep passes over what is nested deeper than a record may be, which rejects the record.
func (r *Records) skipDeep(name []byte, i int) int {
	if r.tooDeep == "" {
		r.tooDeep = string(name)
	}
	return r.Value(i)
}

// message reads a record that is no object.
func (r *Records) message(i int) int {
	if r.peek(i) == '"' {
		return r.field(messageName, i, 1)
	}
	end := r.Value(i)
	if end < 0 {
		return -1
	}
	if r.deepest > r.limits.MaxDepth {
		r.tooDeep = string(messageName)
		return end
	}
	r.b.String(messageName, r.raw(i, end))
	return end
}

// candidate reads a field that may be the record's time. Which one is, is known at the end of the record.
func (r *Records) candidate(k int, key []byte, i int) int {
	switch r.peek(i) {
	case '{', '[':
		return r.field(key, i, 1)
	}
	end := r.Scalar(i)
	if end < 0 {
		return -1
	}
	r.times[k] = token{i, end}
	if r.timed = true; r.peek(i) == 'n' {
		r.times[k] = token{}
	}
	return end
}

// time chooses the record's time among the candidates and keeps the others as fields.
func (r *Records) time() int64 {
	ns, found := r.arrival, false
	for k, t := range r.times {
		if t.end == 0 {
			continue
		}
		if !found {
			var v int64
			if v, found = r.parseTime(t, k == 0); found {
				ns = v
				continue
			}
		}
		r.field([]byte(timeFields[k]), t.start, 1)
	}
	return ns
}

// parseTime reads a scalar as a time; small says that small numbers count too.
func (r *Records) parseTime(t token, small bool) (ns int64, ok bool) {
	c := r.Data[t.start]
	if c == '"' {
		end, flags := r.str(t.start + 1)
		return decode.ParseTime(decode.View(r.text(t.start+1, end, flags)))
	}
	if c != '-' && c-'0' > 9 {
		return 0, false
	}
	literal := decode.View(r.Data[t.start:t.end])
	if ns, ok = decode.ParseNumber(literal); !ok || small {
		return ns, ok
	}
	var n number
	r.number(t.start, &n)
	if v, ok := n.int64(); ok {
		return ns, v >= minTime || v <= -minTime
	}
	f, ok := n.double(r.Data[t.start:t.end])
	return ns, ok && (f >= minTime || f <= -minTime)
}
