package decode

import (
	"math"
	"strconv"
	"unsafe"
)

// View sees bytes as a string without copying them. The string is only good while the bytes stay as they are.
func View(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// ParseTime reads a time in nanoseconds since the epoch from text: RFC 3339 and ISO 8601 dates with or without time, fraction and zone; the same with slashes;
// the forms of RFC 1123, RFC 850, ANSI C, Apache logs and other forms with a named month; and digits alone, which are yyyymmdd, yyyymmddhhmmss or, from nine
// digits on, a number as in ParseNumber. Without a zone it is UTC; zones by name are UTC, GMT and those of RFC 822. Forms in which day and month can be mistaken
// for each other are not read. ok is false if the text is no time or lies outside of what int64 nanoseconds can hold (years 1678 to 2261).
func ParseTime(s string) (ns int64, ok bool) {
	if len(s) < 6 || len(s) > 64 {
		return 0, false
	}
	if ns, ok = parseRFC3339(s); ok {
		return ns, true
	}
	switch c := s[0]; {
	case isDigit(c) || c == '-':
		if n := countDigits(s, 0); n == len(s) || c == '-' || s[n] == '.' && n >= 9 {
			return parseDigits(s)
		}
		if len(s) > 4 && (s[4] == '-' || s[4] == '/') {
			return parseISO(s)
		}
		return parseWords(s)
	case isLetter(c):
		return parseWords(s)
	}
	return 0, false
}

// parseRFC3339 is the fast path for yyyy-mm-ddThh:mm:ss[.f…](Z|±hh:mm).
func parseRFC3339(s string) (int64, bool) {
	if len(s) < 20 || s[4] != '-' || s[7] != '-' || (s[10] != 'T' && s[10] != ' ' && s[10] != 't') || s[13] != ':' || s[16] != ':' {
		return 0, false
	}
	c := civil{
		year: two(s[0], s[1])*100 + two(s[2], s[3]), month: two(s[5], s[6]), day: two(s[8], s[9]),
		hour: two(s[11], s[12]), minute: two(s[14], s[15]), sec: two(s[17], s[18]),
	}
	i := 19
	if s[i] == '.' {
		if i = c.fraction(s, i+1); i == 20 {
			return 0, false
		}
	}
	switch rest := len(s) - i; {
	case rest == 1 && (s[i] == 'Z' || s[i] == 'z'):
		return c.nanos()
	case rest == 6 && (s[i] == '+' || s[i] == '-') && s[i+3] == ':':
		if j, ok := c.offset(s, i); ok && j == len(s) {
			return c.nanos()
		}
	}
	return 0, false
}

// parseISO reads y-m-d or y/m/d, optionally with a time and a zone, with one or two digits everywhere but in the year.
func parseISO(s string) (int64, bool) {
	var c civil
	var ok bool
	i := 0
	if c.year, i, ok = number(s, i, 4, 4); !ok {
		return 0, false
	}
	sep := s[i]
	if c.month, i, ok = number(s, i+1, 1, 2); !ok || i >= len(s) || s[i] != sep {
		return 0, false
	}
	if c.day, i, ok = number(s, i+1, 1, 2); !ok {
		return 0, false
	}
	if i == len(s) {
		return c.nanos()
	}
	if s[i] != 'T' && s[i] != 't' && s[i] != ' ' {
		return 0, false
	}
	if i, ok = c.clock(s, i+1); !ok {
		return 0, false
	}
	if i, ok = c.zone(s, i); !ok || i != len(s) {
		return 0, false
	}
	return c.nanos()
}

// parseDigits reads text that is a number.
func parseDigits(s string) (int64, bool) {
	n := countDigits(s, 0)
	if n == len(s) {
		switch n {
		case 8, 14:
			return parseCompact(s)
		case 6, 7:
			return 0, false
		}
	}
	return ParseNumber(s)
}

// parseCompact reads yyyymmdd and yyyymmddhhmmss.
func parseCompact(s string) (int64, bool) {
	century, _ := digits2(s, 0)
	var c civil
	c.year, _ = digits2(s, 2)
	c.year += 100 * century
	c.month, _ = digits2(s, 4)
	c.day, _ = digits2(s, 6)
	if len(s) == 14 {
		c.hour, _ = digits2(s, 8)
		c.minute, _ = digits2(s, 10)
		c.sec, _ = digits2(s, 12)
	}
	return c.nanos()
}

// Up to these magnitudes a number is seconds, milliseconds or microseconds; above, nanoseconds. As seconds the first reaches to the year 5138.
const (
	maxSeconds = 1e11
	maxMillis  = 1e14
	maxMicros  = 1e17
)

// TimeFromInt reads a number since the epoch: seconds, ms, µs or ns, told apart by magnitude. ok is false if int64 nanoseconds cannot hold it.
func TimeFromInt(n int64) (ns int64, ok bool) {
	u := unit(n)
	if n > math.MaxInt64/u || n < math.MinInt64/u {
		return 0, false
	}
	return n * u, true
}

// unit is how many nanoseconds one of n is.
func unit(n int64) int64 {
	if n < 0 {
		if n == math.MinInt64 {
			return 1
		}
		n = -n
	}
	switch {
	case n < maxSeconds:
		return 1e9
	case n < maxMillis:
		return 1e6
	case n < maxMicros:
		return 1e3
	}
	return 1
}

// TimeFromFloat is TimeFromInt for a number with a fraction. A double holds today's seconds to about 0.2 µs; ParseNumber is exact.
func TimeFromFloat(f float64) (ns int64, ok bool) {
	if !(math.Abs(f) < 1<<63) {
		return 0, false
	}
	whole, frac := math.Modf(f)
	ns, ok = TimeFromInt(int64(whole))
	return addNanos(ns, int64(math.Round(frac*float64(unit(int64(whole))))), ok)
}

// ParseNumber reads a decimal number since the epoch, by magnitude as TimeFromInt, with an exact fraction.
func ParseNumber(s string) (ns int64, ok bool) {
	i, neg := 0, len(s) > 0 && s[0] == '-'
	if neg {
		i = 1
	}
	n := countDigits(s, i)
	if n == 0 || n > 19 {
		return 0, false
	}
	var whole uint64
	for end := i + n; i < end; i++ {
		whole = whole*10 + uint64(s[i]-'0')
	}
	if whole > math.MaxInt64 {
		return 0, false
	}
	ns, ok = TimeFromInt(int64(whole))
	if i < len(s) && s[i] == '.' {
		var frac, scale int64 = 0, unit(int64(whole))
		digits := countDigits(s, i+1)
		for k := i + 1; k <= i+digits && scale > 1; k++ {
			scale /= 10
			frac += int64(s[k]-'0') * scale
		}
		if i += 1 + digits; digits == 0 {
			return 0, false
		}
		ns, ok = addNanos(ns, frac, ok)
	}
	if i < len(s) {
		return parseExponent(s)
	}
	if neg {
		ns = -ns
	}
	return ns, ok
}

// parseExponent reads a number such as 1.7e9; like everything else about times, in vain if there is more than a number.
func parseExponent(s string) (int64, bool) {
	for i := range len(s) {
		if c := s[i]; !isDigit(c) && c != '.' && c != '-' && c != '+' && c != 'e' && c != 'E' {
			return 0, false
		}
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0, false
	}
	return TimeFromFloat(f)
}

func addNanos(ns, d int64, ok bool) (int64, bool) {
	sum := ns + d
	if !ok || (d > 0 && sum < ns) || (d < 0 && sum > ns) {
		return 0, false
	}
	return sum, true
}

// civil is a date and time of day as written.
type civil struct {
	year, month, day  int
	hour, minute, sec int
	nsec              int64
	east              int // seconds east of UTC
}

// nanos is the time in nanoseconds since the epoch; false if a part is out of its range. Second 60 is a leap second and counts as the next one.
func (c *civil) nanos() (int64, bool) {
	if c.month < 1 || c.month > 12 || c.day < 1 || c.day > 31 || c.hour > 23 || c.minute > 59 || c.sec > 60 || c.day > daysIn(c.year, c.month) {
		return 0, false
	}
	if c.year < 1678 || c.year > 2261 {
		return 0, false
	}
	secs := daysSinceEpoch(c.year, c.month, c.day)*86400 + int64(c.hour*3600+c.minute*60+c.sec-c.east)
	return secs*1e9 + c.nsec, true
}

var monthDays = [13]int{0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}

func daysIn(year, month int) int {
	if month == 2 && year%4 == 0 && (year%100 != 0 || year%400 == 0) {
		return 29
	}
	return monthDays[month]
}

// daysSinceEpoch counts in years that begin in March, so that the leap day comes last (for years after 0).
func daysSinceEpoch(year, month, day int) int64 {
	if month <= 2 {
		year--
		month += 12
	}
	return int64(365*year + year/4 - year/100 + year/400 + (153*(month-3)+2)/5 + day - 719469)
}

// clock reads h:m[:s[.f]] at i and returns where it ends.
func (c *civil) clock(s string, i int) (end int, ok bool) {
	if c.hour, i, ok = number(s, i, 1, 2); !ok || i >= len(s) || s[i] != ':' {
		return i, false
	}
	if c.minute, i, ok = number(s, i+1, 1, 2); !ok {
		return i, false
	}
	if i >= len(s) || s[i] != ':' {
		return i, true
	}
	if c.sec, i, ok = number(s, i+1, 1, 2); !ok {
		return i, false
	}
	if i < len(s) && (s[i] == '.' || s[i] == ',') {
		if i = c.fraction(s, i+1); !isDigit(s[i-1]) {
			return i, false
		}
	}
	return i, true
}

// fraction reads the digits of a fraction of a second at i; what is finer than nanoseconds is cut off.
func (c *civil) fraction(s string, i int) (end int) {
	start := i
	for ; i < len(s) && isDigit(s[i]); i++ {
		if i-start < 9 {
			c.nsec = c.nsec*10 + int64(s[i]-'0')
		}
	}
	c.nsec *= nanoScale[min(i-start, 9)]
	return i
}

// nanoScale is what a fraction of so many digits is to be multiplied with.
var nanoScale = [10]int64{1e9, 1e8, 1e7, 1e6, 1e5, 1e4, 1e3, 1e2, 10, 1}

// zone reads what may follow a time of day at i: nothing, Z, a numeric offset, a zone by name, or an offset and the name of its zone.
func (c *civil) zone(s string, i int) (end int, ok bool) {
	j := skipSpaces(s, i)
	if j == len(s) {
		return j, j == i
	}
	if s[j] == '+' || s[j] == '-' {
		if j, ok = c.offset(s, j); !ok {
			return j, false
		}
		// The numeric offset decides; a name after it ("MSK", "(CEST)") is only a comment.
		k := skipSpaces(s, j)
		for k < len(s) && (isLetter(s[k]) || s[k] == '(' || s[k] == ')') {
			k++
		}
		return max(j, k), true
	}
	k := j
	for k < len(s) && isLetter(s[k]) {
		k++
	}
	east, ok := zoneByName(s[j:k])
	c.east = east
	if ok && k < len(s) && (s[k] == '+' || s[k] == '-') { // such as UTC+02:00
		return c.offset(s, k)
	}
	return k, ok
}

// offset reads ±hh, ±hhmm or ±hh:mm at i.
func (c *civil) offset(s string, i int) (end int, ok bool) {
	sign := 1
	if s[i] == '-' {
		sign = -1
	}
	h, ok := digits2(s, i+1)
	if !ok || h > 23 {
		return i, false
	}
	i += 3
	m := 0
	if i < len(s) && (s[i] == ':' || isDigit(s[i])) {
		if s[i] == ':' {
			i++
		}
		if m, ok = digits2(s, i); !ok || m > 59 {
			return i, false
		}
		i += 2
	}
	c.east = sign * (h*3600 + m*60)
	return i, i == len(s) || !isDigit(s[i])
}

// zoneByName knows the zones whose offset is defined by a standard (RFC 822). Any other abbreviation means different things in different countries.
func zoneByName(name string) (east int, ok bool) {
	switch name {
	case "Z", "z", "UTC", "utc", "GMT", "gmt", "UT":
		return 0, true
	case "EDT":
		return -4 * 3600, true
	case "EST", "CDT":
		return -5 * 3600, true
	case "CST", "MDT":
		return -6 * 3600, true
	case "MST", "PDT":
		return -7 * 3600, true
	case "PST":
		return -8 * 3600, true
	}
	return 0, false
}

// number reads between least and most digits at i; more digits are refused.
func number(s string, i, least, most int) (n, end int, ok bool) {
	start := i
	for ; i < len(s) && isDigit(s[i]); i++ {
		if n = n*10 + int(s[i]-'0'); i-start >= most {
			return 0, i, false
		}
	}
	return n, i, i-start >= least
}

// two is the number of two digits; if they are none, it is beyond every range that a part of a time may have.
func two(tens, ones byte) int {
	if tens -= '0'; tens > 9 {
		return 1e6
	}
	if ones -= '0'; ones > 9 {
		return 1e6
	}
	return int(tens)*10 + int(ones)
}

func digits2(s string, i int) (int, bool) {
	if i+2 > len(s) || !isDigit(s[i]) || !isDigit(s[i+1]) {
		return 0, false
	}
	return int(s[i]-'0')*10 + int(s[i+1]-'0'), true
}

func countDigits(s string, i int) int {
	n := 0
	for i+n < len(s) && isDigit(s[i+n]) {
		n++
	}
	return n
}

func skipSpaces(s string, i int) int {
	for i < len(s) && s[i] == ' ' {
		i++
	}
	return i
}

func isDigit(c byte) bool  { return c-'0' <= 9 }
func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
