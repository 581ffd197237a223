package ui

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/a-h/templ"
)

// The pages as components.

// Page is the shell of the explorer.
func (e Explorer) Page() templ.Component { return e.page() }

// Page is the sign-in page.
func (l Login) Page() templ.Component { return l.page() }

// Page is the page of the first run.
func (s Setup) Page() templ.Component { return s.page() }

// Page shows the token.
func (t Token) Page() templ.Component { return t.page() }

// Page says the one thing.
func (n Notice) Page() templ.Component { return n.page() }

// percentOf writes a share between 0 and 1 as the width of a bar of 100.
func percentOf(share float64) string {
	return strconv.FormatFloat(100*min(1, max(0, share)), 'f', 1, 64)
}

// initial is the first letter of a name, for its badge.
func initial(name string) string {
	_, n := utf8.DecodeRuneInString(name)
	return capital(name[:n])
}

// list joins words as a sentence does.
func list(words []string) string {
	switch n := len(words); n {
	case 0:
		return "nothing"
	case 1:
		return words[0]
	default:
		return strings.Join(words[:n-1], ", ") + " and " + words[n-1]
	}
}

// sentence makes a sentence of an error's message, which begins in lower case and ends without a stop.
func sentence(s string) string {
	s = visible(strings.TrimSpace(s))
	if s == "" {
		return s
	}
	if first, _, _ := strings.Cut(s, " "); !strings.Contains(first, "@") { // an address stays as it is
		s = capital(s)
	}
	if strings.HasSuffix(s, ".") || strings.HasSuffix(s, "!") || strings.HasSuffix(s, "?") {
		return s
	}
	return s + "."
}

// capital makes the first letter of a text a capital.
func capital(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[n:]
}

// describedBy lists the ids of what explains a field.
func describedBy(name, help string, p *Problem) string {
	var ids []string
	if p.has(name) {
		ids = append(ids, "problem")
	}
	if help != "" {
		ids = append(ids, name+"-help")
	}
	return strings.Join(ids, " ")
}
