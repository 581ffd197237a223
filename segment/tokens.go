package segment

import (
	"strings"
	"unicode"
	"unicode/utf8"
	"unsafe"
)

// maxToken bounds what of a token counts: a longer one is known by this many bytes of its folded text.
const maxToken = 128

// asciiFold gives the folded byte of an ASCII letter, digit or underscore, and 0 for every other byte: those separate tokens, or begin a rune beyond ASCII.
var asciiFold = func() (t [256]byte) {
	for c := range 128 {
		switch b := byte(c); {
		case b >= 'a' && b <= 'z', b >= '0' && b <= '9', b == '_':
			t[c] = b
		case b >= 'A' && b <= 'Z':
			t[c] = b | 0x20
		}
	}
	return t
}()

// isTokenRune says whether a rune is part of a token.
func isTokenRune(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) || r == '_'
}

// fold maps a rune to the one that stands for all its cases.
func fold(r rune) rune { return unicode.ToLower(unicode.ToUpper(r)) }

// nextToken finds the first token of text at or after from. The folded token is appended to buf[:0] and returned with the offsets of the text it was made
// of; start is len(text) when there is none. Bytes that are not UTF-8 separate tokens.
func nextToken(buf []byte, text string, from int) (token []byte, start, end int) {
	i := from
	for i < len(text) && asciiFold[text[i]] == 0 {
		if text[i] < utf8.RuneSelf {
			i++
			continue
		}
		r, w := utf8.DecodeRuneInString(text[i:])
		if isTokenRune(r) && (r != utf8.RuneError || w > 1) {
			break
		}
		i += w
	}
	start, token = i, buf[:0]
	for i < len(text) {
		if c := asciiFold[text[i]]; c != 0 {
			if len(token) < maxToken {
				token = append(token, c)
			}
			i++
			continue
		}
		if text[i] < utf8.RuneSelf {
			break
		}
		r, w := utf8.DecodeRuneInString(text[i:])
		if !isTokenRune(r) || (r == utf8.RuneError && w == 1) {
			break
		}
		if len(token)+utf8.UTFMax <= maxToken {
			token = utf8.AppendRune(token, fold(r))
		} else {
			// A rune that might not fit ends what counts, so that the cut does not depend on how wide the later ones are.
			token = append(token, "\x00\x00\x00\x00"[:maxToken-len(token)]...)
		}
		i += w
	}
	return token, start, i
}

// Tokens appends the tokens of text to dst: runs of letters, digits and underscores, case folded, at most 128 bytes of each. Everything that searches for words
// (the index, a scan, an unflushed batch, a query's words) goes by this function.
func Tokens(dst []string, text string) []string {
	var buf [maxToken]byte
	for i := 0; ; {
		token, start, end := nextToken(buf[:], text, i)
		if start == len(text) {
			return dst
		}
		dst = append(dst, string(token))
		i = end
	}
}

// idFields are the ends of the names of fields that hold identifiers of single events: their values are never words of a text, so Match without a field does
// not search them, and the token index leaves them out. Names are compared without case and without the separators _ - and dot.
var idFields = []string{"traceid", "spanid", "requestid", "correlationid", "transactionid", "eventid", "uuid", "guid"}

// IsID says by the name of a field whether it holds identifiers of single events.
func IsID(name string) bool {
	var buf [24]byte
	n := len(buf)
	for i := len(name) - 1; i >= 0 && n > 0; i-- {
		if c := asciiFold[name[i]]; c != 0 && c != '_' {
			n--
			buf[n] = c
		}
	}
	end := unsafe.String(&buf[0], len(buf))[n:]
	for _, id := range idFields {
		if strings.HasSuffix(end, id) {
			return true
		}
	}
	return false
}

// words are the parts of a Match query: single tokens, and phrases of several that must follow each other in one field. A * in a token stands for any run of
// characters of a token.
type words [][]string

// parseMatch splits a query into words and quoted phrases. A quote without its end runs to the end of the query.
func parseMatch(query string) words {
	var out words
	for i, part := range strings.Split(query, `"`) {
		tokens := patterns(part)
		if i%2 == 1 && len(tokens) > 0 {
			out = append(out, tokens)
			continue
		}
		for _, t := range tokens {
			out = append(out, []string{t})
		}
	}
	return out
}

// patterns are the tokens of a part of a query, with the stars that touch them. Any other star is nothing.
func patterns(text string) (out []string) {
	var buf [maxToken]byte
	for i := 0; ; {
		token, start, end := nextToken(buf[:], text, i)
		between, p := text[i:start], string(token)
		before := len(out) > 0 && strings.HasPrefix(between, "*")
		switch {
		case start == len(text) && !before:
			return out
		case start == len(text):
			out[len(out)-1] += "*"
			return out
		case before && strings.Trim(between, "*") == "":
			out[len(out)-1] += "*" + p
		default:
			if before {
				out[len(out)-1] += "*"
			}
			if strings.HasSuffix(between, "*") {
				p = "*" + p
			}
			out = append(out, p)
		}
		i = end
	}
}

// fits says whether a token is what a pattern of a query stands for.
func fits(token []byte, pattern string) bool {
	first, rest, wild := strings.Cut(pattern, "*")
	if !wild {
		return string(token) == pattern
	}
	left, ok := strings.CutPrefix(text(token), first)
	for ok {
		piece, more, wild := strings.Cut(rest, "*")
		if !wild {
			return strings.HasSuffix(left, piece)
		}
		_, left, ok = strings.Cut(left, piece)
		rest = more
	}
	return false
}

// hasPhrase says whether the tokens stand in text one after another.
func hasPhrase(text string, phrase []string) bool {
	var buf [maxToken]byte
	for i := 0; ; {
		token, start, end := nextToken(buf[:], text, i)
		if start == len(text) {
			return false
		}
		if fits(token, phrase[0]) && followedBy(text, end, phrase[1:]) {
			return true
		}
		i = end
	}
}

func followedBy(text string, i int, rest []string) bool {
	var buf [maxToken]byte
	for _, want := range rest {
		token, start, end := nextToken(buf[:], text, i)
		if start == len(text) || !fits(token, want) {
			return false
		}
		i = end
	}
	return true
}
