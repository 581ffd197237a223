package store

import (
	"strings"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// escape makes any bytes storable as PostgreSQL text, which holds neither NUL nor invalid UTF-8: a backslash doubles, NUL and invalid bytes become \xHH. Only
// text that senders choose freely is escaped (names of fields, metric metadata, keys).
func escape(s string) string {
	if !strings.ContainsAny(s, "\\\x00") && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '\\':
			b.WriteString(`\\`)
		case r == 0, r == utf8.RuneError && n == 1:
			b.WriteString(`\x`)
			b.WriteByte(hexDigits[s[i]>>4])
			b.WriteByte(hexDigits[s[i]&15])
		default:
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

// unescape undoes escape.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] != '\\' || i+1 == len(s):
			b.WriteByte(s[i])
		case s[i+1] == 'x' && i+3 < len(s):
			b.WriteByte(unhex(s[i+2])<<4 | unhex(s[i+3]))
			i += 3
		default:
			i++
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

func unhex(c byte) byte { return byte(strings.IndexByte(hexDigits, c)) }

func escapeAll(in []string) []string   { return mapAll(in, escape) }
func unescapeAll(in []string) []string { return mapAll(in, unescape) }

func mapAll(in []string, f func(string) string) []string {
	out := make([]string, len(in))
	for i, s := range in {
		out[i] = f(s)
	}
	return out
}
