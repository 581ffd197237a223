package search

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// quoted reads a text in double quotes. A backslash takes a quote or a backslash; before anything else it stands for itself.
func (p *parser) quoted() (string, error) {
	at := p.i
	var b strings.Builder
	for p.i++; !p.end(); p.i++ {
		c := p.text[p.i]
		switch {
		case c == '"':
			p.i++
			return b.String(), nil
		case c == '\\' && p.i+1 < len(p.text) && (p.text[p.i+1] == '"' || p.text[p.i+1] == '\\'):
			p.i++
			c = p.text[p.i]
		}
		b.WriteByte(c)
	}
	return "", p.fail(at, `add " at the end`, "a quote is not closed")
}

// word reads a run of characters up to a space, a parenthesis, a quote or one of stop, split at its wildcards.
func (p *parser) word(stop string) []string {
	parts := []string{}
	var b strings.Builder
	for !p.ends(p.i) && strings.IndexByte(stop, p.peek()) < 0 {
		r, w := utf8.DecodeRuneInString(p.text[p.i:])
		p.i += w
		switch {
		case r == '*':
			parts = append(parts, b.String())
			b.Reset()
			continue
		case r == '\\' && p.escapes(p.i):
			r, w = utf8.DecodeRuneInString(p.text[p.i:])
			p.i += w
		}
		b.WriteRune(r)
	}
	return append(parts, b.String())
}

// expression reads /…/; a backslash before a slash is dropped, any other is the expression's.
func (p *parser) expression() (string, error) {
	at := p.i
	hint := fmt.Sprintf("put a value that begins with a slash in quotes: %s", quote(p.text[at:p.wordEnd()]))
	var b strings.Builder
	for p.i++; !p.end(); p.i++ {
		c := p.text[p.i]
		if c == '\\' && p.i+1 < len(p.text) {
			if p.i++; p.text[p.i] != '/' {
				b.WriteByte('\\')
			}
			b.WriteByte(p.text[p.i])
			continue
		}
		if c != '/' {
			b.WriteByte(c)
			continue
		}
		if p.i++; !p.ends(p.i) {
			return "", p.fail(p.i, hint, "something follows the regular expression")
		}
		if _, err := regexp.Compile(b.String()); err != nil {
			return "", p.fail(at, "the syntax is RE2's; "+hint, "the regular expression cannot be read: %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
		}
		return b.String(), nil
	}
	return "", p.fail(at, "add / at the end; "+hint, "a regular expression is not closed")
}

func (p *parser) wordEnd() int {
	i := p.i
	for !p.ends(i) {
		i++
	}
	return i
}

const rangeHint = "write [100 to 500] with the ends, {100 to 500} without them, * for no end"

// span reads a range.
func (p *parser) span(t *term) (err error) {
	at := p.i
	t.lo.excl = p.peek() == '{'
	p.i++
	if err = p.bound(&t.lo); err != nil {
		return err
	}
	p.space()
	if to := p.text[p.i:min(p.i+2, len(p.text))]; !strings.EqualFold(to, "to") || !p.ends(p.i+2) {
		return p.fail(p.i, rangeHint, `"to" is missing in the range`)
	}
	p.i += 2
	if err = p.bound(&t.hi); err != nil {
		return err
	}
	p.space()
	if c := p.peek(); c != ']' && c != '}' {
		return p.fail(at, "add ] at its end", "a range is not closed")
	}
	t.hi.excl = p.peek() == '}'
	p.i++
	return nil
}

func (p *parser) bound(b *bound) (err error) {
	p.space()
	b.at = p.i
	if p.peek() == '"' {
		b.text, err = p.quoted()
		return err
	}
	parts := p.word("]}")
	b.text = strings.Join(parts, "*")
	b.open = len(parts) == 2 && b.text == "*"
	if b.text == "" {
		return p.fail(p.i, rangeHint, "an end of the range is missing")
	}
	return nil
}
