package segment

import (
	"regexp"
	"regexp/syntax"
	"unicode/utf8"
)

// literal is a text that must stand in a value for a predicate to be true. left and right say that it begins or ends the value, so that the token at that
// end is whole.
type literal struct {
	text        string
	left, right bool
}

// wholeTokens appends the tokens of the literal that are whole tokens of any value containing it.
func (l literal) wholeTokens(dst []string) []string {
	if !utf8.ValidString(l.text) {
		return dst
	}
	var buf [maxToken]byte
	for i := 0; ; {
		token, start, end := nextToken(buf[:], l.text, i)
		if start == len(l.text) {
			return dst
		}
		if (start > 0 || l.left) && (end < len(l.text) || l.right) {
			dst = append(dst, string(token))
		}
		i = end
	}
}

// fragment is the longest piece of a token in the literal: some token of any value containing the literal contains it.
func (l literal) fragment() string {
	if !utf8.ValidString(l.text) {
		return ""
	}
	var buf [maxToken]byte
	best := ""
	for i := 0; ; {
		token, start, end := nextToken(buf[:], l.text, i)
		if start == len(l.text) {
			return best
		}
		if len(token) > len(best) && len(token) < maxToken {
			best = string(token)
		}
		i = end
	}
}

// regexLiterals are texts that every match of the expression contains; exact tells those whose case counts.
func regexLiterals(re *regexp.Regexp) (all []literal, exact string) {
	tree, err := syntax.Parse(re.String(), syntax.Perl)
	if err != nil {
		return nil, ""
	}
	walkRegex(tree.Simplify(), func(text string, foldCase bool) {
		all = append(all, literal{text: text})
		if !foldCase && len(text) > len(exact) {
			exact = text
		}
	})
	return all, exact
}

func walkRegex(re *syntax.Regexp, found func(text string, foldCase bool)) {
	switch re.Op {
	case syntax.OpLiteral:
		for _, r := range re.Rune {
			if r == utf8.RuneError { // matches bytes that are not UTF-8 too
				return
			}
		}
		found(string(re.Rune), re.Flags&syntax.FoldCase != 0)
	case syntax.OpCapture, syntax.OpPlus:
		walkRegex(re.Sub[0], found)
	case syntax.OpRepeat:
		if re.Min > 0 {
			walkRegex(re.Sub[0], found)
		}
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			walkRegex(sub, found)
		}
	}
}
