package scan

import (
	"unicode/utf16"
	"unicode/utf8"
)

// AppendText appends what a validated string says: escapes are resolved; an escaped surrogate without its partner and every byte that is no UTF-8 become U+FFFD.
func AppendText(dst, raw []byte) []byte {
	for i := 0; i < len(raw); {
		c := raw[i]
		switch {
		case c == '\\':
			dst, i = appendEscape(dst, raw, i)
		case c < utf8.RuneSelf:
			n := i + 1
			for n < len(raw) && raw[n] != '\\' && raw[n] < utf8.RuneSelf {
				n++
			}
			dst = append(dst, raw[i:n]...)
			i = n
		default:
			r, n := utf8.DecodeRune(raw[i:])
			dst = utf8.AppendRune(dst, r)
			i += n
		}
	}
	return dst
}

func appendEscape(dst, raw []byte, i int) ([]byte, int) {
	switch c := raw[i+1]; c {
	case 'u':
		r := hex4(raw[i+2:])
		i += 6
		if utf16.IsSurrogate(r) {
			if i+6 <= len(raw) && raw[i] == '\\' && raw[i+1] == 'u' {
				if pair := utf16.DecodeRune(r, hex4(raw[i+2:])); pair != utf8.RuneError {
					return utf8.AppendRune(dst, pair), i + 6
				}
			}
			r = utf8.RuneError
		}
		return utf8.AppendRune(dst, r), i
	case 'b':
		return append(dst, '\b'), i + 2
	case 'f':
		return append(dst, '\f'), i + 2
	case 'n':
		return append(dst, '\n'), i + 2
	case 'r':
		return append(dst, '\r'), i + 2
	case 't':
		return append(dst, '\t'), i + 2
	default:
		return append(dst, c), i + 2
	}
}

// hex4 reads four hexadecimal digits that were validated.
func hex4(p []byte) (r rune) {
	for _, c := range p[:4] {
		d := rune(c|0x20) - 'a' + 10
		if c <= '9' {
			d = rune(c - '0')
		}
		r = r<<4 | d
	}
	return r
}

// AppendValid appends text with every byte that is no UTF-8 replaced by U+FFFD.
func AppendValid(dst, raw []byte) []byte {
	if utf8.Valid(raw) {
		return append(dst, raw...)
	}
	for len(raw) > 0 {
		c, n := utf8.DecodeRune(raw)
		dst = utf8.AppendRune(dst, c)
		raw = raw[n:]
	}
	return dst
}
