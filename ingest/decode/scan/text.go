package scan

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// AppendText appends what a validated string says: escapes are resolved; an escaped surrogate without its partner and every byte that is no UTF-8 become U+FFFD.
func AppendText(dst, raw []byte) []byte {
	valid := utf8.Valid(raw)
	for len(raw) > 0 {
		n := bytes.IndexByte(raw, '\\')
		if n < 0 {
			n = len(raw)
		}
		if valid {
			dst = append(dst, raw[:n]...)
		} else {
			dst = AppendValid(dst, raw[:n])
		}
		for raw = raw[n:]; len(raw) > 0 && raw[0] == '\\'; raw = raw[n:] {
			dst, n = appendEscape(dst, raw)
		}
	}
	return dst
}

// simpleEscapes are the escapes of one letter.
var simpleEscapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// appendEscape appends what the escape that raw begins with says, and gives its length.
func appendEscape(dst, raw []byte) ([]byte, int) {
	if c := raw[1]; c != 'u' {
		return append(dst, simpleEscapes[c]), 2
	}
	r, n := hex4(raw[2:]), 6
	if utf16.IsSurrogate(r) {
		pair := rune(utf8.RuneError)
		if len(raw) >= 12 && raw[6] == '\\' && raw[7] == 'u' {
			pair = utf16.DecodeRune(r, hex4(raw[8:]))
		}
		if r = pair; pair != utf8.RuneError {
			n = 12
		}
	}
	return utf8.AppendRune(dst, r), n
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
