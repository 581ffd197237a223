// Package pattern finds what messages have in common: it masks the parts of a message that change from one to the next, such as numbers, ids and addresses, and
// counts messages by what is left.
package pattern

import (
	"regexp"
	"strings"
)

// kind says what a masked part of a message is.
type kind uint8

const (
	num  kind = iota // digits, with points between them
	hex              // a number in hexadecimal, or a hash
	id               // letters and digits mixed
	uuid             // 8-4-4-4-12
	ip               // an address of either version
	date             // a time of day, with or without a date before it
	str              // what is between quotes
)

// names are how masked parts are shown.
var names = [...]string{num: "<num>", hex: "<hex>", id: "<id>", uuid: "<uuid>", ip: "<ip>", date: "<time>", str: "<str>"}

// expressions match what is masked under a name, whatever it was that time.
var expressions = [...]string{
	num:  `[0-9]+(?:\.[0-9]+)*`,
	hex:  `(?:0[xX])?[0-9A-Fa-f]+`,
	id:   `[0-9A-Za-z]+`,
	uuid: `[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}`,
	ip:   `(?:[0-9]{1,3}(?:\.[0-9]{1,3}){3}|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)`,
	date: `(?:[0-9]{4}-[0-9]{2}-[0-9]{2}[T ])?[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?`,
	str:  `[^"']*`,
}

// part is a masked part of a message: its bytes from, to.
type part struct {
	kind     kind
	from, to int
}

// maxLength is how many bytes of a message are looked at. A message with more than one line is known by its first: what follows is a trace or a dump.
const maxLength = 1000

// head is the part of a message that is looked at, and whether that is not all of it.
func head(s string) (string, bool) {
	n := min(len(s), maxLength)
	if end := strings.IndexByte(s[:n], '\n'); end >= 0 {
		n = end
	}
	for n < len(s) && n > 0 && s[n]&0xC0 == 0x80 { // not within a character
		n--
	}
	return s[:n], n < len(s)
}

// Masker makes patterns of messages. It keeps memory from one message to the next and is not safe for concurrent use.
type Masker struct {
	parts []part
	text  []byte
}

// Mask gives the pattern of a message; it is valid until the next call.
func (m *Masker) Mask(s string) []byte {
	s, cut := head(s)
	m.parts, m.text = find(s, m.parts[:0]), m.text[:0]
	at := 0
	for _, p := range m.parts {
		m.text = append(append(m.text, s[at:p.from]...), names[p.kind]...)
		at = p.to
	}
	m.text = append(m.text, s[at:]...)
	if cut {
		m.text = append(m.text, "…"...)
	}
	return m.text
}

// Expression is a regular expression that matches all messages with the pattern of the one given.
func Expression(s string) string {
	s, cut := head(s)
	var b strings.Builder
	b.WriteByte('^')
	at := 0
	for _, p := range find(s, nil) {
		b.WriteString(regexp.QuoteMeta(s[at:p.from]))
		b.WriteString(expressions[p.kind])
		at = p.to
	}
	b.WriteString(regexp.QuoteMeta(s[at:]))
	if !cut {
		b.WriteByte('$')
	}
	return b.String()
}

// find lists the parts of a message that are masked.
func find(s string, parts []part) []part {
	inWord := false // the byte before belongs to a word
	for i := 0; i < len(s); {
		c := s[i]
		if (c == '"' || c == '\'') && !inWord {
			if end := closing(s, i); end > 0 {
				parts = append(parts, part{str, i + 1, end})
				i = end + 1
				continue
			}
		}
		if !isWord(c) {
			inWord = c >= 0x80
			i++
			continue
		}
		if k, end := special(s, i); end > i && !inWord {
			parts = append(parts, part{k, i, end})
			i, inWord = end, true
			continue
		}
		parts, i = word(s, i, parts)
		inWord = true
	}
	return parts
}

// closing is where a quote that opens at i closes; 0 if it does not, or encloses nothing.
func closing(s string, i int) int {
	n := strings.IndexAny(s[i+1:], `"'`)
	if n < 1 || s[i+1+n] != s[i] {
		return 0
	}
	end := i + 1 + n
	if end+1 < len(s) && isWord(s[end+1]) {
		return 0
	}
	return end
}

// word masks what changes in a run of letters and digits and says where it ends.
func word(s string, i int, parts []part) ([]part, int) {
	end, digits, hexes := i, 0, 0
	for end < len(s) && isWord(s[end]) {
		if isDigit(s[end]) {
			digits++
		}
		if isHex(s[end]) {
			hexes++
		}
		end++
	}
	n := end - i
	switch {
	case n > 2 && s[i] == '0' && s[i+1]|0x20 == 'x' && hexes == n-1:
		return append(parts, part{hex, i, end}), end
	case digits == 0 && (hexes < n || n < 16):
		return parts, end
	case hexes == n && n >= 8 && digits < n:
		return append(parts, part{hex, i, end}), end
	case n >= 10 && runs(s[i:end]) > 1:
		return append(parts, part{id, i, end}), end
	}
	return numbers(s, i, end, parts)
}

// runs counts the runs of digits in a word.
func runs(s string) (n int) {
	for i := range len(s) {
		if isDigit(s[i]) && (i == 0 || !isDigit(s[i-1])) {
			n++
		}
	}
	return n
}

// numbers masks the digits of a word. A number at its end goes on behind points: 1.5, 10.2.3.
func numbers(s string, i, end int, parts []part) ([]part, int) {
	for i < end {
		if !isDigit(s[i]) {
			i++
			continue
		}
		from := i
		for i < len(s) && (isDigit(s[i]) || s[i] == '.' && i+1 < len(s) && isDigit(s[i+1])) {
			i++
		}
		parts = append(parts, part{num, from, i})
	}
	for i < len(s) && isWord(s[i]) { // a unit behind a fraction
		i++
	}
	return parts, max(i, end)
}

// What a byte is, by table: this is asked several times for each byte of each message.
const (
	digitBit = 1 << iota
	hexBit
	wordBit
)

var classes = func() (t [256]uint8) {
	for c := range 256 {
		letter := byte(c) | 0x20
		switch {
		case c >= '0' && c <= '9':
			t[c] = digitBit | hexBit | wordBit
		case letter >= 'a' && letter <= 'f':
			t[c] = hexBit | wordBit
		case letter >= 'g' && letter <= 'z':
			t[c] = wordBit
		}
	}
	return t
}()

func isDigit(c byte) bool { return classes[c]&digitBit != 0 }
func isHex(c byte) bool   { return classes[c]&hexBit != 0 }
func isWord(c byte) bool  { return classes[c]&wordBit != 0 }

// special finds a uuid, a time or an address at i; end is 0 if there is none.
func special(s string, i int) (k kind, end int) {
	if !isHex(s[i]) {
		return 0, 0
	}
	ends := func(n int) bool { return n > 0 && (i+n == len(s) || !isWord(s[i+n])) }
	rest := s[i:]
	if n := uuidAt(rest); ends(n) {
		return uuid, i + n
	}
	if isDigit(s[i]) {
		if n := timeAt(rest); ends(n) {
			return date, i + n
		}
		if n := ip4At(rest); ends(n) {
			return ip, i + n
		}
	}
	if n := ip6At(rest); ends(n) {
		return ip, i + n
	}
	return 0, 0
}

// shaped is the length of a prefix of s with the given shape: 0 stands for a digit, x for a hexadecimal one, anything else for itself; 0 if s begins otherwise.
func shaped(s, shape string) int {
	if len(s) < len(shape) {
		return 0
	}
	for i := range len(shape) {
		switch c := s[i]; shape[i] {
		case '0':
			if !isDigit(c) {
				return 0
			}
		case 'x':
			if !isHex(c) {
				return 0
			}
		default:
			if c != shape[i] {
				return 0
			}
		}
	}
	return len(shape)
}

func uuidAt(s string) int { return shaped(s, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx") }

func timeAt(s string) int {
	n := shaped(s, "0000-00-00T")
	if n == 0 {
		n = shaped(s, "0000-00-00 ")
	}
	clock := shaped(s[n:], "00:00:00")
	if clock == 0 && n == 0 {
		clock = shaped(s, "0:00:00")
	}
	if clock == 0 {
		return 0
	}
	n += clock
	if n+1 < len(s) && (s[n] == '.' || s[n] == ',') && isDigit(s[n+1]) {
		for n++; n < len(s) && isDigit(s[n]); n++ {
		}
	}
	switch {
	case n < len(s) && s[n] == 'Z':
		return n + 1
	case n < len(s) && (s[n] == '+' || s[n] == '-'):
		if zone := max(shaped(s[n+1:], "00:00"), shaped(s[n+1:], "0000")); zone > 0 {
			return n + 1 + zone
		}
	}
	return n
}

func ip4At(s string) int {
	n := 0
	for group := range 4 {
		if group > 0 {
			if n == len(s) || s[n] != '.' {
				return 0
			}
			n++
		}
		from := n
		for n < len(s) && n-from < 3 && isDigit(s[n]) {
			n++
		}
		if n == from {
			return 0
		}
	}
	if n+1 < len(s) && s[n] == '.' && isDigit(s[n+1]) { // a longer list of numbers
		return 0
	}
	return n
}

// ip6At wants all eight groups, or two colons together.
func ip6At(s string) int {
	n, colons, double := 0, 0, false
	for n < len(s) && (isHex(s[n]) || s[n] == ':') {
		if s[n] == ':' {
			if n+1 == len(s) || !isHex(s[n+1]) && s[n+1] != ':' && !(n > 0 && s[n-1] == ':') {
				break // the colon belongs to the text
			}
			colons++
			double = double || n > 0 && s[n-1] == ':'
		}
		n++
	}
	if colons == 7 || double && colons < 8 {
		return n
	}
	return 0
}
