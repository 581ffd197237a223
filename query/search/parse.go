package search

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/millstream/millstream"
)

// Limits of a search.
const (
	MaxText  = 64 << 10 // bytes
	maxDepth = 100      // of parentheses and negations
)

// Query is a search that was read. It is immutable.
type Query struct {
	text string
	root node // nil: all records
}

// Parse reads a search; an empty one stands for all records. An error is of kind Invalid or TooLarge, with the 1-based character (Unicode code point) that it
// is about and, where there is one, a hint that says how to mend it.
func Parse(text string) (*Query, error) {
	switch {
	case len(text) > MaxText:
		return nil, millstream.Errorf(millstream.TooLarge, "the search has %d bytes; the limit is %d", len(text), MaxText)
	case !utf8.ValidString(text):
		return nil, millstream.Errorf(millstream.Invalid, "the search is not valid UTF-8")
	}
	p := &parser{text: text}
	if i := strings.IndexByte(text, 0); i >= 0 {
		return nil, p.fail(i, "delete it", "the search has a NUL character")
	}
	p.space()
	if p.end() {
		return &Query{text: text}, nil
	}
	root, err := p.or()
	if err != nil {
		return nil, err
	}
	if !p.end() { // or() ends at a parenthesis that nothing opened
		return nil, p.fail(p.i, "delete it, or put it in quotes: \")\"", "a parenthesis is closed that was not opened")
	}
	return &Query{text: text, root: root}, nil
}

type parser struct {
	text  string
	i     int
	depth int
	field string // of the group that is being read
	group bool   // in field:(…)
}

func (p *parser) fail(at int, hint, format string, args ...any) error {
	return &millstream.Error{Kind: millstream.Invalid, Msg: fmt.Sprintf(format, args...), Hint: hint, Position: utf8.RuneCountInString(p.text[:at]) + 1}
}

func (p *parser) end() bool { return p.i >= len(p.text) }

func (p *parser) peek() byte {
	if p.end() {
		return 0
	}
	return p.text[p.i]
}

func (p *parser) space() {
	for !p.end() {
		r, w := utf8.DecodeRuneInString(p.text[p.i:])
		if !unicode.IsSpace(r) {
			return
		}
		p.i += w
	}
}

// ends says whether a word ends at the byte offset.
func (p *parser) ends(i int) bool {
	if i >= len(p.text) || strings.IndexByte(`()"`, p.text[i]) >= 0 {
		return true
	}
	r, _ := utf8.DecodeRuneInString(p.text[i:])
	return unicode.IsSpace(r)
}

var keywords = map[string]string{"and": "and", "&&": "and", "or": "or", "||": "or", "not": "not"}

// keyword is the operator that stands at the cursor as a word of its own, or empty.
func (p *parser) keyword() (op string, length int) {
	n := 0
	for !p.ends(p.i+n) && n <= len("and") {
		n++
	}
	return keywords[strings.ToLower(p.text[p.i:min(p.i+n, len(p.text))])], n
}

func (p *parser) or() (node, error) {
	var all anyOf
	for {
		n, err := p.and()
		if err != nil {
			return nil, err
		}
		all = append(all, n)
		op, length := p.keyword()
		if op != "or" {
			break
		}
		if err := p.operand(op, length); err != nil {
			return nil, err
		}
	}
	if len(all) == 1 {
		return all[0], nil
	}
	return all, nil
}

// and reads up to an "or", a closing parenthesis or the end. It stands at its first operand.
func (p *parser) and() (node, error) {
	var all allOf
	for {
		n, err := p.unary()
		if err != nil {
			return nil, err
		}
		all = append(all, n)
		p.space()
		op, length := p.keyword()
		if op == "and" {
			if err := p.operand(op, length); err != nil {
				return nil, err
			}
		}
		if p.end() || p.peek() == ')' || op == "or" {
			break
		}
	}
	if len(all) == 1 {
		return all[0], nil
	}
	return all, nil
}

// operand steps over an operator and wants something after it.
func (p *parser) operand(op string, length int) error {
	at := p.i
	p.i += length
	p.space()
	if next, _ := p.keyword(); p.end() || p.peek() == ')' || next == "and" || next == "or" {
		return p.fail(at, fmt.Sprintf("delete it, or put it in quotes to search for the word: %q", op), "%q has nothing to its right", op)
	}
	return nil
}

func (p *parser) enter() error {
	if p.depth++; p.depth > maxDepth {
		return p.fail(p.i, "write it flatter", "the search is nested deeper than %d levels", maxDepth)
	}
	return nil
}

func (p *parser) unary() (node, error) {
	op, length := p.keyword()
	switch {
	case op == "and" || op == "or":
		return nil, p.fail(p.i, fmt.Sprintf("delete it, or put it in quotes to search for the word: %q", op), "%q has nothing to its left", op)
	case op == "not":
		if err := p.operand(op, length); err != nil {
			return nil, err
		}
	case (p.peek() == '-' || p.peek() == '!') && p.negates():
		p.i++
	default:
		return p.primary()
	}
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	x, err := p.unary()
	return not{x}, err
}

// negates says whether the - or ! at the cursor stands before something that it can negate. A number of a field's group has its sign.
func (p *parser) negates() bool {
	i := p.i + 1
	if i < len(p.text) && (p.text[i] == '(' || p.text[i] == '"') {
		return true
	}
	if p.ends(i) || strings.IndexByte("=<>-!", p.text[i]) >= 0 {
		return i < len(p.text) && (p.text[i] == '-' || p.text[i] == '!') && !p.ends(i+1)
	}
	return !p.group || p.text[p.i] == '!' || p.text[i] < '0' || p.text[i] > '9'
}

func (p *parser) primary() (node, error) {
	if p.peek() == '(' {
		return p.parens()
	}
	if p.group {
		return p.value(p.i)
	}
	return p.term()
}

// parens reads what stands in parentheses.
func (p *parser) parens() (node, error) {
	at := p.i
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	p.i++
	p.space()
	if p.peek() == ')' {
		return nil, p.fail(at, "write something between them, or delete them", "the parentheses are empty")
	}
	if p.end() {
		return nil, p.fail(at, "add ) at the end", "a parenthesis is not closed")
	}
	n, err := p.or()
	if err != nil {
		return nil, err
	}
	if p.peek() != ')' {
		return nil, p.fail(at, "add ) at the end", "a parenthesis is not closed")
	}
	p.i++
	return n, nil
}

// operators are those of comparisons, longest first.
var operators = []string{">=", "<=", "!=", ">", "<", "="}

func (p *parser) operator() string {
	for _, op := range operators {
		if strings.HasPrefix(p.text[p.i:], op) {
			return op
		}
	}
	return ""
}

// term reads a word, a phrase, or a field with its condition.
func (p *parser) term() (node, error) {
	at := p.i
	if name, ok, err := p.name(); err != nil || ok {
		if err != nil {
			return nil, err
		}
		return p.condition(at, name)
	}
	p.i = at
	if p.peek() == '"' {
		s, err := p.quoted()
		return &term{at: at, kind: phrase, text: s}, err
	}
	return &term{at: at, kind: word, parts: p.word("")}, nil
}

// name reads the name of a field if one stands here, which an operator after it tells; else the cursor is anywhere.
func (p *parser) name() (name string, ok bool, err error) {
	if p.peek() == '"' {
		if name, err = p.quoted(); err != nil {
			return "", false, err
		}
	} else if name = p.plainName(); name == "" {
		return "", false, nil
	}
	if p.peek() == ':' {
		return name, !strings.HasPrefix(p.text[p.i:], "://"), nil
	}
	if p.operator() == "" {
		p.space() // an operator of comparison may stand apart
	}
	return name, p.operator() != "", nil
}

// escapes says whether a backslash takes the character at the byte offset as it is. Before a letter or digit it stands for itself, as in C:\temp.
func (p *parser) escapes(i int) bool {
	if i >= len(p.text) {
		return false
	}
	r, _ := utf8.DecodeRuneInString(p.text[i:])
	return !unicode.IsLetter(r) && !unicode.IsDigit(r)
}

// plainName reads a name without quotes: a letter, _, @ or $, then also digits and . - /. A backslash takes any other character.
func (p *parser) plainName() string {
	var b strings.Builder
	for !p.end() {
		r, w := utf8.DecodeRuneInString(p.text[p.i:])
		switch {
		case r == '\\' && p.escapes(p.i+1):
			p.i++
			r, w = utf8.DecodeRuneInString(p.text[p.i:])
		case unicode.IsLetter(r) || r == '_' || r == '@' || r == '$':
		case b.Len() > 0 && (unicode.IsDigit(r) || unicode.IsMark(r) || r == '.' || r == '-' || r == '/'):
		default:
			return b.String()
		}
		b.WriteRune(r)
		p.i += w
	}
	return b.String()
}

// condition reads what stands after a field's name.
func (p *parser) condition(at int, name string) (node, error) {
	if p.peek() != ':' {
		return p.comparison(at, name)
	}
	p.i++
	isExists := name == "_exists" || name == "_exists_"
	if p.end() || p.ends(p.i) && p.peek() != '"' && (isExists || p.peek() != '(') {
		if isExists {
			return nil, p.fail(p.i, "write _exists:field", "the name of a field is missing")
		}
		shown := p.text[at:p.i]
		return nil, p.fail(p.i, fmt.Sprintf("write the value without a space before it, or put the text in quotes to search for it: %s", quote(shown)), "a value is missing after %s", shown)
	}
	if isExists {
		return p.existence(at)
	}
	if p.peek() != '(' {
		saved := p.field
		p.field = name
		defer func() { p.field = saved }()
		return p.value(at)
	}
	p.field, p.group = name, true
	defer func() { p.field, p.group = "", false }()
	return p.parens()
}

func quote(s string) string { return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"` }

func (p *parser) existence(at int) (node, error) {
	var name string
	var err error
	if p.peek() == '"' {
		name, err = p.quoted()
	} else {
		name = strings.Join(p.word(""), "*")
	}
	return &term{at: at, field: name, kind: exists}, err
}

// comparison reads an operator and its value.
func (p *parser) comparison(at int, name string) (node, error) {
	op, opAt := p.operator(), p.i
	p.i += len(op)
	if next := p.peek(); next != 0 && strings.IndexByte("=<>", next) >= 0 {
		return nil, p.fail(opAt, "the operators are = != < <= > >=; put the text in quotes to search for it", "%s is not an operator", p.text[opAt:p.i+1])
	}
	p.space()
	v, err := p.scalar(op)
	if err != nil {
		return nil, err
	}
	if op == "!=" {
		return not{&term{at: at, field: name, kind: compare, op: "=", text: v}}, nil
	}
	return &term{at: at, field: name, kind: compare, op: op, text: v}, nil
}

// scalar reads a value that is compared as it stands.
func (p *parser) scalar(op string) (string, error) {
	if p.peek() == '"' {
		return p.quoted()
	}
	if p.end() || p.ends(p.i) {
		return "", p.fail(p.i, "write it, in quotes if it has spaces or parentheses", "a value is missing after %s", op)
	}
	return strings.Join(p.word(""), "*"), nil
}

// value reads the value of a field after the colon, or one in the parentheses of a group.
func (p *parser) value(at int) (node, error) {
	t := &term{at: at, field: p.field}
	var err error
	switch c := p.peek(); {
	case c == '"':
		t.kind = phrase
		t.text, err = p.quoted()
	case c == '/':
		t.kind = regex
		t.text, err = p.expression()
	case c == '[' || c == '{':
		t.kind = span
		err = p.span(t)
	case p.operator() != "":
		return p.comparison(at, p.field)
	default:
		t.parts = p.word("")
		if len(t.parts) == 2 && t.parts[0] == "" && t.parts[1] == "" {
			t.kind = exists
		}
	}
	return t, err
}
