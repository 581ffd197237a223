package search

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/millstream/millstream"
)

// Place is a place of a search at which something may be proposed.
type Place struct {
	From, To int    // the characters that a proposal replaces
	Field    string // whose value stands here; empty: a term begins here
	Prefix   string // what is typed of it, before the cursor
	Quoted   bool   // inside a phrase of the record, a range or a regular expression, where nothing is proposed
	First    bool   // nothing stands before it
}

// At finds the place of a cursor, which counts characters from 0. It reads any text, also what Parse refuses.
func At(text string, cursor int) Place {
	runes := []rune(text)
	cursor = min(max(cursor, 0), len(runes))
	s := locator{runes: runes, cursor: cursor}
	for s.i < cursor {
		s.step()
	}
	p := Place{From: s.value, To: cursor, Field: s.field, Quoted: s.quote != 0, First: strings.TrimSpace(string(runes[:s.start])) == ""}
	if p.Field == "" {
		p.Field = s.group
	}
	if s.quote == '"' && p.Field != "" && runes[s.value] == '"' { // the value of a field
		p.Quoted, p.To = false, quoteEnd(runes, cursor)
	} else {
		for p.To < len(runes) && !delimits(runes[p.To]) && (p.Field != "" || runes[p.To] != ':') {
			p.To++
		}
	}
	p.Prefix = string(runes[p.From:cursor])
	return p
}

// quoteEnd is the place after the quote that ends a phrase; without one, only what is left of the word belongs to it.
func quoteEnd(runes []rune, from int) int {
	for i := from; i < len(runes); i++ {
		switch runes[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	i := from
	for i < len(runes) && !delimits(runes[i]) {
		i++
	}
	return i
}

// locator walks over a text up to the cursor and knows what it is in.
type locator struct {
	runes     []rune
	cursor, i int
	start     int    // of the term
	value     int    // of what a proposal replaces: the term, or the value after its operator
	field     string // of the term
	group     string // of the parentheses
	depth     int    // of parentheses in the group
	quote     rune   // that ends what nothing is proposed in; 0: none
}

func delimits(r rune) bool { return unicode.IsSpace(r) || r == '(' || r == ')' || r == '"' }

func (s *locator) step() {
	r := s.runes[s.i]
	s.i++
	switch {
	case r == '\\' && s.quote != '}' && s.i < s.cursor:
		s.i++
	case s.quote != 0:
		if r == s.quote || s.quote == '}' && r == ']' {
			s.quote = 0
		}
	case r == '"':
		s.quote = '"'
	case s.atValue() && r == '/':
		s.quote = '/'
	case s.atValue() && (r == '[' || r == '{'):
		s.quote = '}'
	case r == '(':
		s.open()
	case r == ')':
		if s.depth--; s.depth <= 0 {
			s.group, s.depth = "", 0
		}
		s.next()
	case unicode.IsSpace(r) && s.beforeOperator():
	case unicode.IsSpace(r):
		if s.field == "" || s.value < s.i-1 || s.runes[s.value-1] == ':' { // a space may stand between an operator and its value
			s.next()
		} else {
			s.value = s.i
		}
	case s.field == "" && s.group == "" && (r == '-' || r == '!') && s.start == s.i-1:
		s.next()
	case s.field == "" && s.group == "" && strings.ContainsRune(":<>=", r):
		s.field = unquote(strings.TrimRight(string(s.runes[s.start:s.i-1]), "! "))
		s.value = s.i
	case s.value == s.i-1 && strings.ContainsRune("<>=", r) && s.field != "":
		s.value = s.i
	}
}

// beforeOperator says whether a term is a name whose operator follows after the space here.
func (s *locator) beforeOperator() bool {
	rest := strings.TrimLeft(string(s.runes[s.i:min(len(s.runes), s.i+8)]), " ")
	return s.field == "" && s.group == "" && s.start < s.i-1 && rest != "" && (strings.IndexByte("<>=", rest[0]) >= 0 || strings.HasPrefix(rest, "!="))
}

func (s *locator) atValue() bool { return s.value == s.i-1 && (s.field != "" || s.group != "") }

func (s *locator) open() {
	switch {
	case s.group != "":
		s.depth++
	case s.field != "" && s.value == s.i-1:
		s.group, s.depth = s.field, 1
	}
	s.next()
}

func (s *locator) next() { s.start, s.value, s.field = s.i, s.i, "" }

func unquote(s string) string {
	if len(s) < 2 || s[0] != '"' {
		return s
	}
	p := parser{text: s}
	name, err := p.quoted()
	if err != nil {
		return s
	}
	return name
}

// Proposal is a name that may stand where a term begins.
type Proposal struct {
	Label, Kind, Apply string
	Type               millstream.Type // of a field
}

// Names proposes fields and keywords for a place, at most limit: the fields that begin with what is typed, by name, then those that have it inside.
func Names(place Place, list []millstream.Field, limit int) []Proposal {
	typed := strings.ToLower(strings.TrimPrefix(place.Prefix, `"`))
	var begin, inside []millstream.Field
	for _, f := range withTime(list) {
		switch at := strings.Index(strings.ToLower(f.Name), typed); {
		case at < 0 || strings.IndexByte(f.Name, 0) >= 0: // a NUL cannot be written in a search
		case at == 0:
			begin = append(begin, f)
		default:
			inside = append(inside, f)
		}
	}
	byName := func(a, b millstream.Field) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(begin, byName)
	slices.SortFunc(inside, byName)
	extra := words(place, typed)
	found := append(begin, inside...)
	out := make([]Proposal, 0, limit)
	for _, f := range found[:min(len(found), limit-len(extra))] {
		out = append(out, Proposal{Label: f.Name, Kind: "field", Type: f.Type, Apply: quotedName(f.Name) + ":"})
	}
	return append(out, extra...)
}

// words are the keywords that may stand at a place.
func words(place Place, typed string) (out []Proposal) {
	for _, k := range []string{"and", "or", "not"} {
		if strings.HasPrefix(k, typed) && (k == "not" || !place.First) {
			out = append(out, Proposal{Label: k, Kind: "keyword", Apply: k + " "})
		}
	}
	if strings.HasPrefix("_exists:", typed) {
		out = append(out, Proposal{Label: "_exists:", Kind: "function", Apply: "_exists:"})
	}
	return out
}

// quotedName writes a field's name as a search has it: in quotes if it has other characters than plain names.
func quotedName(name string) string {
	p := parser{text: name}
	if _, isWord := keywords[strings.ToLower(name)]; name != "" && p.plainName() == name && !isWord && utf8.ValidString(name) && !strings.Contains(name, `\`) {
		return name
	}
	return quote(name)
}

// Quoted writes a value as a search has it: in quotes unless it is one plain word or number.
func Quoted(value string) string {
	plain := value != "" && keywords[strings.ToLower(value)] == "" && !strings.EqualFold(value, "to")
	for i, r := range value {
		plain = plain && (unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' || r == '.' || r == '-' && (i > 0 || len(value) > 1))
	}
	if plain && (value[0] != '-' || numberPattern.MatchString(value)) {
		return value
	}
	return quote(value)
}

// Find resolves a field's name as a search does.
func Find(list []millstream.Field, name string) (millstream.Field, bool) {
	f, warning := newFields(list).find(name)
	return f, warning == ""
}

// Beginning is the SQL condition of the values of a field that begin with what is typed of one, in any case; empty: all.
func Beginning(f millstream.Field, typed string) string {
	typed = strings.TrimPrefix(typed, `"`)
	if typed == "" {
		return ""
	}
	if f.Type != millstream.String {
		return "re_match(" + Name(f.Name) + ", " + Text(wildcardRegex([]string{typed, ""})) + ")"
	}
	pattern, escape := likePattern([]string{typed, ""})
	return Name(f.Name) + " ILIKE " + Text(pattern) + escape
}
