package segment

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// likePattern is a LIKE pattern split at its % signs.
type likePattern struct {
	parts []likePart
	fold  bool
}

// likePart is a run of runes; any marks those that were _.
type likePart struct {
	runes []rune
	any   []bool
}

// parseLike reads a pattern; a backslash takes the next character as it is.
func parseLike(pattern string, foldCase bool) likePattern {
	p := likePattern{parts: make([]likePart, 1), fold: foldCase}
	escaped := false
	for _, r := range pattern {
		last := &p.parts[len(p.parts)-1]
		switch {
		case escaped:
			escaped = false
			last.add(p.lower(r), false)
		case r == '\\':
			escaped = true
		case r == '%':
			p.parts = append(p.parts, likePart{})
		default:
			last.add(p.lower(r), r == '_')
		}
	}
	return p
}

func (p *likePart) add(r rune, wild bool) {
	p.runes, p.any = append(p.runes, r), append(p.any, wild)
}

func (p *likePattern) lower(r rune) rune {
	if p.fold {
		return unicode.ToLower(r)
	}
	return r
}

// plain is the text of the pattern if it is of the form %text% without any other wildcard, and case counts.
func (p *likePattern) plain() (string, bool) {
	if p.fold || len(p.parts) != 3 || len(p.parts[0].runes) > 0 || len(p.parts[2].runes) > 0 {
		return "", false
	}
	for i, r := range p.parts[1].runes {
		if p.parts[1].any[i] || r == utf8.RuneError { // in match, any byte that is not UTF-8 equals any other
			return "", false
		}
	}
	return string(p.parts[1].runes), true
}

// match says whether the whole text fits the pattern.
func (p *likePattern) match(text string) bool {
	end := p.prefix(&p.parts[0], text)
	if len(p.parts) == 1 {
		return end == len(text)
	}
	if end < 0 {
		return false
	}
	text = text[end:]
	last := len(p.parts) - 1
	for i := 1; i < last; i++ {
		if len(p.parts[i].runes) == 0 {
			continue
		}
		if end = p.find(&p.parts[i], text); end < 0 {
			return false
		}
		text = text[end:]
	}
	return p.suffix(&p.parts[last], text)
}

// prefix is the length of what part matches at the start of text, or -1.
func (p *likePattern) prefix(part *likePart, text string) int {
	i := 0
	for k, want := range part.runes {
		if i == len(text) {
			return -1
		}
		r, w := utf8.DecodeRuneInString(text[i:])
		if !part.any[k] && p.lower(r) != want {
			return -1
		}
		i += w
	}
	return i
}

// find is the end of the first match of part in text, or -1.
func (p *likePattern) find(part *likePart, text string) int {
	for i := 0; i <= len(text); {
		if n := p.prefix(part, text[i:]); n >= 0 {
			return i + n
		}
		_, w := utf8.DecodeRuneInString(text[i:])
		i += max(w, 1)
	}
	return -1
}

func (p *likePattern) suffix(part *likePart, text string) bool {
	i := len(text)
	for range part.runes {
		if i == 0 {
			return false
		}
		_, w := utf8.DecodeLastRuneInString(text[:i])
		i -= w
	}
	return p.prefix(part, text[i:]) == len(text)-i
}

// literals are the fixed texts that whatever the pattern matches contains.
func (p *likePattern) literals() []literal {
	var out []literal
	for i := range p.parts {
		var b strings.Builder
		part := &p.parts[i]
		flush := func(right bool) {
			if b.Len() > 0 {
				out = append(out, literal{text: b.String(), right: right, left: i == 0 && len(out) == 0 && !part.wildStart()})
				b.Reset()
			}
		}
		for k, r := range part.runes {
			if part.any[k] || r == utf8.RuneError {
				flush(false)
				continue
			}
			b.WriteRune(r)
		}
		flush(i == len(p.parts)-1)
	}
	return out
}

func (p *likePart) wildStart() bool {
	return len(p.any) > 0 && (p.any[0] || p.runes[0] == utf8.RuneError)
}
