package scan

import (
	"math"
	"strconv"

	"github.com/millstream/millstream/ingest/decode"
)

// number is what was seen of a number while it was scanned.
type number struct {
	mantissa uint64 // the first 19 significant digits
	digits   int    // significant digits in all
	exp      int    // the value is mantissa × 10^exp, if digits is at most 19
	neg      bool
	integer  bool // neither fraction nor exponent
}

// number scans a number at i.
func (s *JSON) number(i int, n *number) int {
	if n.neg = s.peek(i) == '-'; n.neg {
		i++
	}
	switch c := s.peek(i); {
	case c == '0':
		i++
	case c >= '1' && c <= '9':
		i = s.digits(i, n)
	default:
		return s.fail(i, "a digit is expected")
	}
	n.integer = true
	if s.peek(i) == '.' {
		n.integer = false
		start := i + 1
		if i = s.digits(start, n); i == start {
			return s.fail(i, "a digit is expected after the point")
		}
		n.exp = start - i
	}
	if c := s.peek(i); c == 'e' || c == 'E' {
		n.integer = false
		return s.exponent(i+1, n)
	}
	return i
}

func (s *JSON) digits(i int, n *number) int {
	for ; i < len(s.Data); i++ {
		d := s.Data[i] - '0'
		if d > 9 {
			break
		}
		if n.digits < 19 {
			n.mantissa = n.mantissa*10 + uint64(d)
		}
		if n.mantissa != 0 {
			n.digits++
		}
	}
	return i
}

func (s *JSON) exponent(i int, n *number) int {
	neg := false
	if c := s.peek(i); c == '+' || c == '-' {
		neg = c == '-'
		i++
	}
	start, e := i, 0
	for ; i < len(s.Data) && s.Data[i]-'0' <= 9; i++ {
		if e < 100_000 {
			e = e*10 + int(s.Data[i]-'0')
		}
	}
	if i == start {
		return s.fail(i, "a digit is expected in the exponent")
	}
	if neg {
		e = -e
	}
	n.exp += e
	return i
}

// int64 is the number if it is an integer that fits.
func (n *number) int64() (int64, bool) {
	if !n.integer || n.digits > 19 {
		return 0, false
	}
	if n.neg {
		return -int64(n.mantissa), n.mantissa <= 1<<63
	}
	return int64(n.mantissa), n.mantissa <= math.MaxInt64
}

var pow10 = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// double is the number, correctly rounded; false if it is an integer or beyond what a double can hold. Up to 2^53 times or over 10^22 one operation on exact doubles rounds
// correctly; the rest is left to strconv.
func (n *number) double(literal []byte) (float64, bool) {
	if n.integer {
		return 0, false
	}
	if n.digits <= 19 && n.mantissa <= 1<<53 && n.exp >= -22 && n.exp <= 22 {
		f := float64(n.mantissa)
		if n.exp < 0 {
			f /= pow10[-n.exp]
		} else {
			f *= pow10[n.exp]
		}
		if n.neg {
			f = -f
		}
		return f, true
	}
	f, err := strconv.ParseFloat(decode.View(literal), 64)
	return f, err == nil
}
