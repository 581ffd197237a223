package millstream

import "unicode/utf8"

const hexDigits = "0123456789abcdef"

// AppendJSONString appends text as a JSON string to dst. What needs no escape is copied in one piece; invalid UTF-8 becomes U+FFFD. It serves everything that
// writes JSON beside encoding/json, which would allocate per value.
func AppendJSONString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	plain := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, w := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && w == 1 {
				dst = append(append(dst, s[plain:i]...), "\uFFFD"...)
				plain = i + 1
			}
			i += w
			continue
		}
		i++
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[plain:i-1]...)
		plain = i
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return append(append(dst, s[plain:]...), '"')
}
