package decode

import "strings"

// parseWords reads dates whose month is a word, in any of the usual orders: "Mon, 02 Jan 2006 15:04:05 MST", "Monday, 02-Jan-06 15:04:05 MST",
// "Mon Jan _2 15:04:05 2006", "02/Jan/2006:15:04:05 -0700", "May 8, 2009 5:57:51 PM". It reads token by token; each part may come once.
func parseWords(s string) (int64, bool) {
	p := words{s: s, civil: civil{day: -1, year: -1}}
	for p.i < len(s) {
		ok := false
		switch c := s[p.i]; {
		case isLetter(c):
			ok = p.word()
		case isDigit(c):
			ok = p.digits()
		case p.timed && (c == '+' || c == '-'):
			p.i, ok = p.offset(s, p.i)
		case p.timed && c == '(': // a zone's name as a comment after its offset
			p.i, ok = len(s), s[len(s)-1] == ')'
		default:
			ok = p.separator()
		}
		if !ok {
			return 0, false
		}
	}
	if p.month == 0 || p.day < 0 || p.year < 0 || !p.afternoon() {
		return 0, false
	}
	return p.nanos()
}

type words struct {
	civil
	s     string
	i     int
	timed bool // the time of day was read
	half  byte // 'a' or 'p' of am and pm
}

// word reads a weekday (which is ignored), a month, am, pm or a zone.
func (p *words) word() bool {
	start := p.i
	for p.i < len(p.s) && isLetter(p.s[p.i]) {
		p.i++
	}
	w := p.s[start:p.i]
	if m := monthByName(w); m > 0 {
		free := p.month == 0
		p.month = m
		return free
	}
	switch {
	case isWeekday(w):
		return start == 0
	case strings.EqualFold(w, "T"):
		return p.day >= 0
	case !p.timed:
		return false
	case strings.EqualFold(w, "am"), strings.EqualFold(w, "pm"):
		free := p.half == 0
		p.half = w[0] | 0x20
		return free
	}
	east, ok := zoneByName(w)
	p.east = east
	return ok
}

// digits reads a time of day, a year or a day.
func (p *words) digits() bool {
	n := countDigits(p.s, p.i)
	if n <= 2 && !p.timed && p.i+n < len(p.s) && p.s[p.i+n] == ':' {
		var ok bool
		p.timed = true
		p.i, ok = p.clock(p.s, p.i)
		return ok
	}
	v, end, ok := number(p.s, p.i, 1, 4)
	p.i = end
	switch {
	case !ok || n == 3:
		return false
	case n == 4 && p.year < 0:
		p.year = v
	case n <= 2 && p.day < 0:
		p.day = v
	case n == 2 && p.year < 0:
		if p.year = 2000 + v; v >= 70 {
			p.year = 1900 + v
		}
	default:
		return false
	}
	return true
}

// separator reads one of the marks between parts, and the spaces after it.
func (p *words) separator() bool {
	c := p.s[p.i]
	p.i++
	switch c {
	case ' ', ',':
	case '.': // after an abbreviated month
		if p.i < len(p.s) && p.s[p.i] != ' ' && p.s[p.i] != ',' {
			return false
		}
	case '-', '/':
		return p.i < len(p.s) && !p.timed && (isLetter(p.s[p.i]) || isDigit(p.s[p.i]))
	case ':': // between date and time, as Apache writes it
		return p.year >= 0 && !p.timed
	default:
		return false
	}
	p.i = skipSpaces(p.s, p.i)
	return true
}

// afternoon applies am and pm.
func (p *words) afternoon() bool {
	if p.half == 0 {
		return true
	}
	if p.hour < 1 || p.hour > 12 {
		return false
	}
	p.hour %= 12
	if p.half == 'p' {
		p.hour += 12
	}
	return true
}

var monthNames = [12]string{"january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december"}

func monthByName(w string) int {
	for i, m := range monthNames {
		if len(w) == 3 && strings.EqualFold(w, m[:3]) || strings.EqualFold(w, m) {
			return i + 1
		}
	}
	if strings.EqualFold(w, "sept") {
		return 9
	}
	return 0
}

var weekdays = [7]string{"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"}

func isWeekday(w string) bool {
	for _, d := range weekdays {
		if len(w) == 3 && strings.EqualFold(w, d[:3]) || strings.EqualFold(w, d) {
			return true
		}
	}
	return false
}
