// Package scan reads JSON straight from the bytes of a request: a scanner that validates while it walks, and a reader that puts the fields of records into
// the columns of a millstream.Builder. The decoders of JSON, Elasticsearch and Loki bodies share it. It follows RFC 8259 to the letter, looks at eight bytes at
// a time, and allocates nothing per value.
package scan

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"

	"github.com/millstream/millstream"
)

// JSON is a scanner over Data. Its methods take the index at which something starts and return the index after it, or -1 if it is malformed; then Err says
// why. A failed scanner can be used again from another index.
type JSON struct {
	Data []byte

	at      int    // where the last failure is
	msg     string // what it is
	nesting []byte // kinds of the containers that Value is in
	deepest int    // how deep the last Value was nested: 0 for a scalar
	scratch []byte // the last unescaped string
}

// maxNesting is how deep any document may nest. What is too deep for a record, but not for this, rejects the record alone.
const maxNesting = 10_000

// Err is the last failure as an error of kind Invalid with its position.
func (s *JSON) Err() error {
	return &millstream.Error{Kind: millstream.Invalid, Msg: "malformed JSON: " + s.msg, Position: s.at + 1}
}

// Failure is where and what the last failure is.
func (s *JSON) Failure() (at int, msg string) { return s.at, s.msg }

func (s *JSON) fail(at int, msg string) int {
	if at >= len(s.Data) {
		at, msg = len(s.Data), "unexpected end: "+msg
	}
	s.at, s.msg = at, msg
	return -1
}

// Fail notes a failure of the caller's own.
func (s *JSON) Fail(at int, msg string) int { return s.fail(at, msg) }

// peek is the byte at i, or 0 behind the end (which is valid nowhere outside of strings).
func (s *JSON) peek(i int) byte {
	if i < len(s.Data) {
		return s.Data[i]
	}
	return 0
}

// Space skips white space.
func (s *JSON) Space(i int) int {
	for i < len(s.Data) && s.Data[i] <= ' ' && (s.Data[i] == ' ' || s.Data[i] == '\n' || s.Data[i] == '\t' || s.Data[i] == '\r') {
		i++
	}
	return i
}

// Flags of a string.
const (
	escaped = 1 << iota // it has escapes
	wide                // it has bytes beyond ASCII
)

const (
	lows  = 0x0101010101010101
	highs = 0x8080808080808080
)

// str scans a string whose first byte is at i to its closing quote, and validates escapes.
func (s *JSON) str(i int) (end int, flags uint8) {
	data := s.Data
	var seen uint64
	for {
		stop := -1
		for ; i+8 <= len(data); i += 8 {
			w := binary.LittleEndian.Uint64(data[i:])
			seen |= w
			// The high bit of a byte is set in m if the byte is a quote, below 0x20 or a backslash. Flipping 0x02 makes a quote 0x20 and leaves what is below 0x20
			// below it, so that one comparison finds both. Borrows can set the bit wrongly, but only above a byte for which it is right: the lowest is always right.
			if m := (((w ^ 0x02*lows) - 0x21*lows) | ((w ^ '\\'*lows) - lows)) &^ w & highs; m != 0 {
				stop = i + bits.TrailingZeros64(m)>>3
				break
			}
		}
		if stop < 0 {
			for ; i < len(data) && data[i] != '"' && data[i] != '\\' && data[i] >= ' '; i++ {
				seen |= uint64(data[i])
			}
			if i >= len(data) {
				return s.fail(i, "a string is not closed"), 0
			}
			stop = i
		}
		switch data[stop] {
		case '"':
			if seen&highs != 0 {
				flags |= wide
			}
			return stop, flags
		case '\\':
			flags |= escaped
			if i = s.escape(stop); i < 0 {
				return -1, 0
			}
		default:
			return s.fail(stop, "a control character in a string must be escaped"), 0
		}
	}
}

// escape validates the escape at i.
func (s *JSON) escape(i int) int {
	switch s.peek(i + 1) {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2
	case 'u':
		for k := i + 2; k < i+6; k++ {
			if !isHex(s.peek(k)) {
				return s.fail(k, "\\u needs four hexadecimal digits")
			}
		}
		return i + 6
	}
	return s.fail(i+1, "unknown escape in a string")
}

// text is the content of the string that str found in [start, end): as it stands in Data, or made ready in dst. It says where it stored what it made.
func (s *JSON) text(start, end int, flags uint8) []byte {
	raw := s.Data[start:end]
	if flags == 0 || flags == wide && utf8.Valid(raw) {
		return raw
	}
	s.scratch = AppendText(s.scratch[:0], raw)
	return s.scratch
}

// Text reads the string at i. It is good until the next call.
func (s *JSON) Text(i int) (text []byte, end int) {
	if s.peek(i) != '"' {
		return nil, s.fail(i, "a string is expected")
	}
	end, flags := s.str(i + 1)
	if end < 0 {
		return nil, -1
	}
	return s.text(i+1, end, flags), end + 1
}

// Object calls f for each member of the object at i with its key, good until the next call of the scanner, and the index of its value. f returns where the value
// ends, or -1 to stop.
func (s *JSON) Object(i int, f func(key []byte, i int) int) int {
	if s.peek(i) != '{' {
		return s.fail(i, "an object is expected")
	}
	if i = s.Space(i + 1); s.peek(i) == '}' {
		return i + 1
	}
	for {
		key, end := s.Text(i)
		if end < 0 {
			return -1
		}
		if i = s.Space(end); s.peek(i) != ':' {
			return s.fail(i, "':' is expected after a key")
		}
		if i = f(key, s.Space(i+1)); i < 0 {
			return -1
		}
		switch i = s.Space(i); s.peek(i) {
		case ',':
			i = s.Space(i + 1)
		case '}':
			return i + 1
		default:
			return s.fail(i, "',' or '}' is expected in an object")
		}
	}
}

// Array calls f with the index of each element of the array at i. f returns where the element ends, or -1 to stop.
func (s *JSON) Array(i int, f func(i int) int) int {
	if s.peek(i) != '[' {
		return s.fail(i, "an array is expected")
	}
	if i = s.Space(i + 1); s.peek(i) == ']' {
		return i + 1
	}
	for {
		if i = f(i); i < 0 {
			return -1
		}
		switch i = s.Space(i); s.peek(i) {
		case ',':
			i = s.Space(i + 1)
		case ']':
			return i + 1
		default:
			return s.fail(i, "',' or ']' is expected in an array")
		}
	}
}

// Value scans any value at i, without recursion, however it nests.
func (s *JSON) Value(i int) int {
	s.nesting, s.deepest = s.nesting[:0], 0
	for {
		switch c := s.peek(i); c {
		case '{', '[':
			if len(s.nesting) == maxNesting {
				return s.fail(i, "nested too deep")
			}
			s.nesting = append(s.nesting, c+2) // what closes it
			s.deepest = max(s.deepest, len(s.nesting))
			if i = s.Space(i + 1); s.peek(i) == c+2 {
				break
			}
			if c == '{' {
				i = s.key(i)
			}
			if i < 0 {
				return -1
			}
			continue
		default:
			if i = s.Scalar(i); i < 0 {
				return -1
			}
		}
		var done bool
		if i, done = s.after(i); done {
			return i
		}
	}
}

// after goes on behind a value within Value: over closing brackets and a comma to the next value, or to the end of all.
func (s *JSON) after(i int) (next int, done bool) {
	for len(s.nesting) > 0 {
		closing := s.nesting[len(s.nesting)-1]
		switch i = s.Space(i); s.peek(i) {
		case closing:
			s.nesting = s.nesting[:len(s.nesting)-1]
			i++
		case ',':
			if i = s.Space(i + 1); closing == '}' {
				i = s.key(i)
			}
			return i, i < 0
		default:
			if closing == '}' {
				return s.fail(i, "',' or '}' is expected in an object"), true
			}
			return s.fail(i, "',' or ']' is expected in an array"), true
		}
	}
	return i, true
}

// key scans a key, the colon and the space around it.
func (s *JSON) key(i int) int {
	if s.peek(i) != '"' {
		return s.fail(i, "a key in double quotes is expected")
	}
	if i, _ = s.str(i + 1); i < 0 {
		return -1
	}
	if i = s.Space(i + 1); s.peek(i) != ':' {
		return s.fail(i, "':' is expected after a key")
	}
	return s.Space(i + 1)
}

// Scalar scans a string, number, true, false or null at i.
func (s *JSON) Scalar(i int) int {
	switch c := s.peek(i); {
	case c == '"':
		if i, _ = s.str(i + 1); i < 0 {
			return -1
		}
		return i + 1
	case c == '-' || c >= '0' && c <= '9':
		n := number{}
		return s.number(i, &n)
	case c == 't':
		return s.literal(i, "true")
	case c == 'f':
		return s.literal(i, "false")
	case c == 'n':
		return s.literal(i, "null")
	}
	return s.fail(i, "a value is expected")
}

func (s *JSON) literal(i int, word string) int {
	if end := i + len(word); end <= len(s.Data) && string(s.Data[i:end]) == word {
		return end
	}
	return s.fail(i, "a value is expected")
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f' }
